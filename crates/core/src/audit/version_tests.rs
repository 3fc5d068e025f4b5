use super::Version;

#[test]
fn a_tag_says_the_version() {
    for (image, expected) in [
        ("docker.io/istio/proxyv2:1.28.3", "1.28"),
        ("cr.l5d.io/linkerd/proxy:edge-24.5.1", "24.5"),
        ("registry:5000/proxy:v1.2-distroless", "1.2"),
        ("proxy:build7-1.30.0@sha256:0a1b", "1.30"),
        ("hashicorp/vault:1.17", "1.17"),
    ] {
        let found = Version::of_image(image).map(|version| version.to_string());
        assert_eq!(found.as_deref(), Some(expected), "{image}");
    }
    for image in [
        "proxy",
        "registry:5000/proxy",
        "proxy:latest",
        "proxy:1",
        "proxy@sha256:1.2",
        "proxy:99999999999.1",
        "",
    ] {
        assert_eq!(Version::of_image(image), None, "{image}");
    }
}

#[test]
fn minor_versions_between_two() {
    let version = |tag: &str| Version::of_image(&format!("a:{tag}")).unwrap();
    for (old, new, expected) in [
        ("1.28.9", "1.30.0", 2),
        ("1.30.0", "1.30.9", 0),
        ("1.31.0", "1.30.0", 0),
        ("1.99.0", "2.0.0", u32::MAX),
        ("2.0.0", "1.99.0", 0),
    ] {
        assert_eq!(version(old).behind(version(new)), expected, "{old} {new}");
    }
}
