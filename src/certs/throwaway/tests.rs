use std::os::unix::fs::PermissionsExt;

use tempfile::TempDir;

use super::*;

fn now() -> Timestamp {
    "2026-03-01T12:00:00Z".parse().unwrap()
}

fn after(days: u64) -> Timestamp {
    now() + Duration::from_secs(days * 86_400)
}

fn localhost() -> IpAddr {
    std::net::Ipv4Addr::LOCALHOST.into()
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn made_once_and_then_loaded() {
    let dir = TempDir::new().unwrap();
    let certs = dir.path().join("certs");
    let made = prepare(&certs, localhost(), now()).unwrap();
    assert_eq!(made.origin, Origin::Made);
    assert_eq!(made.ca_path, Some(certs.join("ca.crt")));
    assert_eq!(made.pair.leaf().not_after, after(30));
    assert_eq!(names(&certs), ["ca.crt", "tls.crt", "tls.key"]);
    let mode = fs::metadata(&made.pair_files.key)
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);

    let found = prepare(&certs, localhost(), after(29)).unwrap();
    assert_eq!(found.origin, Origin::Found);
    assert_eq!(found.pair.chain(), made.pair.chain());
}

#[test]
fn the_ca_key_is_written_nowhere() {
    let dir = TempDir::new().unwrap();
    prepare(dir.path(), localhost(), now()).unwrap();
    let keys = names(dir.path())
        .iter()
        .filter(|name| {
            let text = fs::read_to_string(dir.path().join(name)).unwrap();
            text.contains("PRIVATE KEY")
        })
        .count();
    assert_eq!(keys, 1);
}

#[test]
fn expired_throwaway_ones_are_made_anew() {
    let dir = TempDir::new().unwrap();
    let first = prepare(dir.path(), localhost(), now()).unwrap();
    let second = prepare(dir.path(), localhost(), after(31)).unwrap();
    assert_eq!(second.origin, Origin::MadeAnew);
    assert_ne!(first.pair.chain(), second.pair.chain());
    assert_eq!(names(dir.path()), ["ca.crt", "tls.crt", "tls.key"]);
}

#[test]
fn throwaway_ones_for_another_address_are_made_anew() {
    let dir = TempDir::new().unwrap();
    prepare(dir.path(), localhost(), now()).unwrap();
    let elsewhere: IpAddr = "192.0.2.7".parse().unwrap();
    let other = prepare(dir.path(), elsewhere, now()).unwrap();
    assert_eq!(other.origin, Origin::MadeAnew);
    // What names more than is needed stays.
    let back = prepare(dir.path(), localhost(), now()).unwrap();
    assert_eq!(back.origin, Origin::Found);
    let all: IpAddr = "0.0.0.0".parse().unwrap();
    assert_eq!(
        prepare(dir.path(), all, now()).unwrap().origin,
        Origin::Found
    );
}

#[test]
fn throwaway_ones_name_the_host_by_which_we_are_called() {
    let dir = TempDir::new().unwrap();
    prepare(dir.path(), localhost(), now()).unwrap();
    let hosts = ["192.0.2.7", "[2001:db8::7]", "dev.example.test"];
    for host in hosts {
        let named = || Names::from(localhost()).and_host(host);
        let made = prepare(dir.path(), named(), now()).unwrap();
        assert_eq!(made.origin, Origin::MadeAnew, "{host}");
        let again = prepare(dir.path(), named(), now()).unwrap();
        assert_eq!(again.origin, Origin::Found, "{host}");
    }
    let known = Names::from(localhost())
        .and_host("localhost")
        .and_host("127.0.0.1");
    assert_eq!(known, Names::from(localhost()));
}

#[test]
fn given_ones_that_expired_are_refused_and_left_alone() {
    let dir = TempDir::new().unwrap();
    give(dir.path());
    let error = prepare(dir.path(), localhost(), after(3)).unwrap_err();
    let ThrowawayError::Given {
        source: FilesError::Pair { source, .. },
        ..
    } = error
    else {
        panic!("{error:?}");
    };
    assert!(matches!(*source, PairError::Expired { .. }), "{source}");
    let ca = fs::read_to_string(dir.path().join("ca.crt")).unwrap();
    assert!(ca.contains("BEGIN CERTIFICATE"));
    assert!(prepare(dir.path(), localhost(), now()).is_ok());
}

#[test]
fn a_pair_without_its_ca_is_enough() {
    let dir = TempDir::new().unwrap();
    give(dir.path());
    fs::remove_file(dir.path().join("ca.crt")).unwrap();
    let found = prepare(dir.path(), localhost(), now()).unwrap();
    assert_eq!(found.ca_path, None);
    assert_eq!(found.origin, Origin::Found);
    // Expired, and nothing says that they are ours to replace.
    assert!(prepare(dir.path(), localhost(), after(40)).is_err());
}

#[test]
fn files_that_are_missing_are_named() {
    let told = |remove: &[&str]| {
        let dir = TempDir::new().unwrap();
        give(dir.path());
        for name in remove {
            fs::remove_file(dir.path().join(name)).unwrap();
        }
        let error = prepare(dir.path(), localhost(), now())
            .unwrap_err()
            .to_string();
        let start = format!("{} has ", dir.path().display());
        let (what, _) = error.strip_prefix(&start).unwrap().split_once(';').unwrap();
        what.to_owned()
    };
    assert_eq!(told(&["tls.key"]), "ca.crt and tls.crt but not tls.key");
    assert_eq!(told(&["tls.crt", "ca.crt"]), "tls.key but not tls.crt");
    assert_eq!(
        told(&["tls.crt", "tls.key"]),
        "ca.crt but not tls.crt and tls.key"
    );
}

/// Files as an administrator would put them there, valid for a day.
fn give(dir: &Path) {
    let day = Duration::from_secs(86_400);
    let authority = Authority::new("another CA", day, now()).unwrap();
    let issued = authority
        .issue(&["localhost".to_owned()], day, now())
        .unwrap();
    fs::write(dir.join("ca.crt"), authority.cert_pem()).unwrap();
    fs::write(dir.join("tls.crt"), issued.cert_pem).unwrap();
    fs::write(dir.join("tls.key"), issued.key_pem).unwrap();
}
