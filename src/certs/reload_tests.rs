use std::cell::RefCell;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use tempfile::TempDir;

use super::*;
use crate::certs::issue::{Authority, Issued};

fn now() -> Timestamp {
    "2026-03-01T12:00:00Z".parse().unwrap()
}

fn issued() -> Issued {
    let day = Duration::from_secs(86_400);
    let authority = Authority::new("test CA", day, now()).unwrap();
    authority.issue(&[], day, now()).unwrap()
}

fn put(dir: &Path, issued: &Issued) {
    fs::create_dir_all(dir).unwrap();
    fs::write(dir.join("tls.crt"), &issued.cert_pem).unwrap();
    fs::write(dir.join("tls.key"), &issued.key_pem).unwrap();
}

fn follow(dir: &Path) -> Follower {
    Follower::new(PairFiles {
        cert: dir.join("tls.crt"),
        key: dir.join("tls.key"),
    })
}

#[test]
fn a_half_written_pair_is_refused_once_and_the_whole_one_taken() {
    let dir = TempDir::new().unwrap();
    put(dir.path(), &issued());
    let mut follower = follow(dir.path());
    assert!(follower.look(now()).unwrap().is_some());
    assert!(follower.look(now()).unwrap().is_none());

    let renewed = issued();
    fs::write(dir.path().join("tls.crt"), &renewed.cert_pem).unwrap();
    assert!(follower.look(now()).is_err());
    assert!(follower.look(now()).unwrap().is_none());
    fs::write(dir.path().join("tls.key"), &renewed.key_pem).unwrap();
    assert!(follower.look(now()).unwrap().is_some());
}

/// As when our clock is a few seconds behind that of the CA.
#[test]
fn a_pair_that_is_not_valid_yet_is_taken_once_it_is() {
    let dir = TempDir::new().unwrap();
    put(dir.path(), &issued());
    let mut follower = follow(dir.path());
    let hours = |count: i64| now() + jiff::SignedDuration::from_hours(count);
    let error = follower.look(hours(-2)).unwrap_err();
    assert!(matches!(error, FilesError::Pair { .. }), "{error}");
    assert!(follower.look(hours(-2)).unwrap().is_none());
    assert!(follower.look(hours(0)).unwrap().is_some());
    assert!(follower.look(hours(0)).unwrap().is_none());
}

#[test]
fn files_that_vanish_are_reported_once_and_may_come_back() {
    let dir = TempDir::new().unwrap();
    let issued = issued();
    put(dir.path(), &issued);
    let mut follower = follow(dir.path());
    assert!(follower.look(now()).unwrap().is_some());
    fs::remove_file(dir.path().join("tls.key")).unwrap();
    let error = follower.look(now()).unwrap_err();
    assert!(error.to_string().starts_with("cannot read"), "{error}");
    assert!(follower.look(now()).unwrap().is_none());
    put(dir.path(), &issued);
    assert!(follower.look(now()).unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_mounted_secret_that_is_swapped_is_followed() {
    let dir = TempDir::new().unwrap();
    let (first, second) = (issued(), issued());
    put(&dir.path().join("..one"), &first);
    put(&dir.path().join("..two"), &second);
    let data = dir.path().join("..data");
    symlink("..one", &data).unwrap();
    for name in ["tls.crt", "tls.key"] {
        symlink(Path::new("..data").join(name), dir.path().join(name)).unwrap();
    }
    let served = RefCell::new(Vec::new());
    let run = follow(dir.path()).run(
        now,
        |pair| served.borrow_mut().push(pair.chain()[0].to_vec()),
        |error| panic!("{error}"),
    );
    let swap = async {
        sleep(INTERVAL * 2).await;
        // As the kubelet does it: a new link, renamed over the old one.
        let new = dir.path().join("..data_tmp");
        symlink("..two", &new).unwrap();
        fs::rename(&new, &data).unwrap();
        sleep(INTERVAL * 2).await;
    };
    tokio::select! {
        () = run => {}
        () = swap => {}
    }
    assert_eq!(served.borrow().len(), 2);
}
