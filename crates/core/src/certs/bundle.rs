//! A bundle of CAs, as in `ca.crt` or `caBundle`: reading it, writing it, and whether one covers
//! another.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;

use super::chain::{self, Certificate, ChainError};

pub use crate::list::distinct;

/// A CA that callers trust.
pub type Ca = Certificate;

/// The CAs of a PEM text, in order, each once.
///
/// # Errors
/// As for [`chain::read`].
pub fn read(pem: &[u8]) -> Result<Vec<Ca>, ChainError> {
    Ok(distinct(chain::read(pem)?))
}

/// The PEM text of these CAs.
pub fn pem(cas: &[Ca]) -> String {
    let mut text = String::new();
    for ca in cas {
        text.push_str("-----BEGIN CERTIFICATE-----\n");
        for line in STANDARD.encode(&ca.der).as_bytes().chunks(64) {
            text.push_str(&String::from_utf8_lossy(line));
            text.push('\n');
        }
        text.push_str("-----END CERTIFICATE-----\n");
    }
    text
}

/// Most CAs in a bundle. Only an administrator who forces rotation after rotation comes near it; the
/// oldest CA then goes.
pub const MOST: usize = 16;

/// Whether a caller that trusts `live` loses nothing when `wanted` replaces it. Each CA of `live` that has
/// not expired is in `wanted` as well, or has fallen out at the end of a full bundle. Texts that cannot
/// be read hold nothing.
pub fn covers(wanted: &str, live: &str, now: Timestamp) -> bool {
    let of = |text: &str| read(text.as_bytes()).unwrap_or_default();
    let wanted = of(wanted);
    let live = of(live).into_iter().filter(|ca| !ca.has_expired(now));
    // A full bundle must not wait until it is proved: the leaf that would prove it waits for the bundle.
    let mut rest = live.skip_while(|ca| wanted.contains(ca)).peekable();
    let is_all_there = rest.peek().is_none();
    let has_fallen_out = wanted.len() >= MOST && rest.all(|ca| !wanted.contains(&ca));
    !wanted.is_empty() && (is_all_there || has_fallen_out)
}
