use super::*;

const POD: &str = "\
611 500 0:90 / / rw,relatime - overlay overlay rw
620 611 0:88 / /certs/whole ro,relatime - tmpfs tmpfs rw
621 611 0:89 /..2026_03_01_12_00_00.123/tls.crt /certs/file/tls.crt ro,relatime - tmpfs tmpfs rw
622 611 8:1 /var/lib/kubelet/pods/1/volume-subpaths/tls/serve/0 /certs/with\\040blank ro - ext4 /dev/sda1 rw
623 611 0:87 /..2026_03_01_12_00_00.123/inner /certs/folder ro,relatime - tmpfs tmpfs rw";

#[test]
fn only_what_is_mounted_by_sub_path_is_frozen() {
    for (folder, expected) in [
        ("/certs/whole", None),
        ("/elsewhere", None),
        ("/certs/file", Some("/certs/file/tls.crt")),
        ("/certs/folder", Some("/certs/folder/tls.key")),
        ("/certs/with blank", Some("/certs/with blank/tls.key")),
    ] {
        let files = ["tls.key", "tls.crt"].map(|name| Path::new(folder).join(name));
        assert_eq!(frozen(POD, &files), expected.map(Path::new), "{folder}");
    }
}

#[test]
fn this_machine_can_be_asked() {
    let mountinfo = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let file = std::env::temp_dir().join("tls.crt");
    assert_eq!(frozen(&mountinfo, &[file]), None);
}
