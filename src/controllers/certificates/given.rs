//! Certificates that another party makes: cert-manager in a Secret, or an administrator in files. Works
//! out what callers have to trust; writes nothing.

use std::path::Path;

use jiff::Timestamp;

use crate::certs::bundle::{self, Ca, distinct};
use crate::certs::rotation::Registered;

/// The most CAs that are taken over from what is registered.
const MOST: usize = 15;

pub(super) fn file(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

/// What callers are to trust: the given CAs in front of those that are registered and valid, so that
/// the certificates that replicas still serve are verified too. `None` for a public CA: none is given.
pub(super) fn trusted(
    cas: Option<&[u8]>,
    registered: &Registered,
    now: Timestamp,
) -> Result<Option<Vec<Ca>>, String> {
    let Some(text) = cas.filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let given = bundle::read(text).map_err(|error| error.to_string())?;
    let registered = registered.entries.iter().flatten().flatten();
    let valid = registered.filter(|ca| !ca.has_expired(now)).take(MOST * 8);
    let before: Vec<Ca> = distinct(valid.cloned()).into_iter().take(MOST).collect();
    Ok(Some(distinct(given.into_iter().chain(before))))
}

#[cfg(test)]
mod tests {
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
}
