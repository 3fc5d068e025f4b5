use std::time::Duration;

use super::*;
use crate::certs::issue::Authority;

#[test]
fn what_is_registered_stays_behind_what_is_given_until_it_expires() {
    let now: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
    let day = Duration::from_secs(86_400);
    let [new, old] = [2, 1].map(|days| {
        let made = Authority::new("CA", day * days, now).unwrap();
        bundle::read(made.cert_pem().as_bytes()).unwrap()
    });
    let registered = Registered {
        entries: vec![Some(old.clone()), None, Some(old.clone())],
        ..Registered::default()
    };
    let text = bundle::pem(&new);
    let both = [new.clone(), old].concat();
    let with_text = |now| trusted(Some(text.as_bytes()), &registered, now);
    assert_eq!(with_text(now), Ok(Some(both)));
    let later = "2026-03-03T00:00:00Z".parse().unwrap();
    assert_eq!(with_text(later), Ok(Some(new)));
    for none in [None, Some(&b""[..])] {
        assert_eq!(trusted(none, &registered, now), Ok(None));
    }
    assert!(trusted(Some(b"words"), &registered, now).is_err());
}
