//! The program in the image that the Dockerfile makes, without a container engine: `make compat` runs this with
//! the program of profile `dist`.

use std::env::consts::ARCH;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::client::Client;
use crate::support::process::{Start, authority, get, program};

/// What `distroless/cc-debian12` has of what a program could need. The libraries are this machine's.
fn files() -> Vec<PathBuf> {
    let loader = match ARCH {
        "x86_64" => "/lib64/ld-linux-x86-64.so.2",
        _ => "/lib/ld-linux-aarch64.so.1",
    };
    let libraries = ["libc.so.6", "libm.so.6", "libgcc_s.so.1"];
    let libraries = libraries.map(|name| format!("/lib/{ARCH}-linux-gnu/{name}"));
    let mut files: Vec<PathBuf> = libraries.map(PathBuf::from).into();
    let rest = [
        loader,
        "/etc/ssl/certs/ca-certificates.crt",
        "/etc/passwd",
        "/etc/group",
        "/etc/nsswitch.conf",
    ];
    files.extend(rest.map(PathBuf::from));
    files
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    fs::copy(from, to).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
}

/// Mounts what a container engine does, and what the pod has volumes for: the cluster's folder (`$3`) and the
/// certificates (`$5`). The root is read-only, as the chart has it.
const ENTER: &str = r#"#!/bin/sh
exec unshare -Urm /bin/sh -euc '
mount --bind "$0" "$0"
for shown in /proc /dev "$3" "$5"; do
  mkdir -p "$0$shown"
  mount --rbind "$shown" "$0$shown"
done
mount -o remount,bind,ro "$0"
exec env -i "$(PATH=$PATH:/usr/sbin command -v chroot)" "$0" /usr/local/bin/meshgate "$@"' 'ROOT' "$@"
"#;

#[tokio::test]
#[ignore = "takes the program of profile dist: make compat"]
async fn the_program_serves_where_there_is_nothing_but_what_the_image_has() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    for file in files() {
        copy(&file, &root.join(file.strip_prefix("/").unwrap()));
    }
    fs::create_dir(root.join("tmp")).unwrap();
    copy(program().as_ref(), &root.join("usr/local/bin/meshgate"));
    let enter = folder.path().join("meshgate");
    fs::write(&enter, ENTER.replace("ROOT", root.to_str().unwrap())).unwrap();
    fs::set_permissions(&enter, fs::Permissions::from_mode(0o755)).unwrap();

    let start = Start {
        program: Some(&enter),
        ..Start::default()
    };
    let process = start.run(&authority()).await;
    assert!(get(process.probes, "/readyz").ends_with("ok"));
    let review = fs::read_to_string("examples/reviews/orders-pod.json").unwrap();
    let mut client = Client::connect(process.gate, &process.ca_pem).await;
    let answer = client.try_post("/mutate/pods", &review).await.unwrap();
    let answer: Value = serde_json::from_str(answer.text()).unwrap();
    let message = answer["response"]["status"]["message"].as_str().unwrap();
    assert!(message.contains("requires linkerd"), "{message}");
}
