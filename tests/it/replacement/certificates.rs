//! Certificates that are swapped under load.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use meshgate::certs::issue::{Authority, Issued};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::support::factor;
use crate::support::load::{Load, PAUSES, Totals};
use crate::support::process::{Process, Start, authority, issue, write_pair};

/// Young connections, so that there are always new ones to be shown the new certificate.
const FLAGS: [&str; 1] = ["--connection-age=100ms"];

fn der(issued: &Issued) -> Vec<u8> {
    let pem = issued.cert_pem.as_bytes();
    CertificateDer::from_pem_slice(pem).unwrap().to_vec()
}

/// Swaps ten times under load, and expects that each pair was served.
async fn swaps(process: &Process, authority: &Authority, put: impl Fn(&Path, &Issued)) -> Totals {
    let load = Load::start(process.gate, &process.ca_pem, &PAUSES);
    let count = 10 * factor();
    for _ in 0..count {
        let issued = issue(authority);
        put(&process.certs(), &issued);
        load.sees(&der(&issued)).await;
    }
    let totals = load.end().await;
    assert!(totals.certificates > count, "{totals:?}");
    let decided = process.metric("meshgate_decisions_total");
    assert_eq!(decided, totals.sent as u64);
    assert!(!process.log().contains("panic"), "{}", process.log());
    totals
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_swaps_of_files_lose_nothing() {
    let authority = authority();
    let start = Start {
        flags: &FLAGS,
        ..Start::default()
    };
    let process = start.run(&authority).await;
    let totals = swaps(&process, &authority, write_pair).await;
    totals.nothing_lost("certificate files replaced");
}

/// As the kubelet does it: a folder for each generation, `..data` is a link to the present one,
/// and the files are links through it.
fn mount(folder: &Path, issued: &Issued) {
    let generation = tempfile::Builder::new().prefix("..").tempdir_in(folder);
    let generation = generation.unwrap().keep();
    write_pair(&generation, issued);
    let (data, new) = (folder.join("..data"), folder.join("..data_tmp"));
    let old = fs::read_link(&data).ok();
    symlink(generation.file_name().unwrap(), &new).unwrap();
    fs::rename(&new, &data).unwrap();
    match old {
        Some(old) => fs::remove_dir_all(folder.join(old)).unwrap(),
        None => {
            for name in ["tls.crt", "tls.key"] {
                symlink(Path::new("..data").join(name), folder.join(name)).unwrap();
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_swaps_of_a_mounted_secret_lose_nothing() {
    let authority = authority();
    let start = Start {
        flags: &FLAGS,
        certificates: &|folder, authority| mount(folder, &issue(authority)),
        ..Start::default()
    };
    let process = start.run(&authority).await;
    let totals = swaps(&process, &authority, mount).await;
    totals.nothing_lost("mounted Secret swapped");
}
