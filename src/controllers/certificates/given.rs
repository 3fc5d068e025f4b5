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
#[path = "given_tests.rs"]
mod tests;
