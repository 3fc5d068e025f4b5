//! The call by which meshgate finds out whether the API server reaches it.
//!
//! meshgate asks for a server-side dry run of a ConfigMap with [`super::REACH_LABEL`]. The one
//! entry that matches it has a *proof* at the end of its path, made of how the entry calls us
//! (address and CA bundle). Whoever of us is called writes the proof of the path that was called
//! into [`ANNOTATION`]. So an answer with the right proof says that the API server has called a
//! meshgate, and that it did so by the entry as it is now: one that still has an older entry in
//! its cache gives the older proof. Nothing has to be shared among replicas, and nothing is
//! secret: it is TLS that keeps others from answering.

use super::webhooks::client_config;
use super::{Settings, path};

/// Key of the annotation in the answer.
pub const ANNOTATION: &str = "meshgate.io/reached";

/// Longest proof that is repeated.
const MAX_PROOF: usize = 64;

/// The proof for a way to call us: a hash of it.
pub fn proof(settings: &Settings) -> String {
    super::hash(&client_config(path::REACH, settings).to_string())
}

/// The path of the entry.
pub fn entry_path(settings: &Settings) -> String {
    format!("{}/{}", path::REACH, proof(settings))
}

/// The proof that a called path carries.
pub fn proof_in(path: &str) -> Option<&str> {
    let proof = path.strip_prefix(path::REACH)?.strip_prefix('/')?;
    let is_fine = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let fits = (1..=MAX_PROOF).contains(&proof.len()) && proof.bytes().all(is_fine);
    fits.then_some(proof)
}

#[cfg(test)]
mod tests {
    use super::{MAX_PROOF, Settings, entry_path, proof, proof_in};
    use crate::render::Client;

    #[test]
    fn a_proof_is_a_short_word() {
        assert_eq!(proof_in("/mutate/reach/0a1b"), Some("0a1b"));
        let long = "a".repeat(MAX_PROOF + 1);
        for wrong in ["", "A", "a/b", "\"", "%22", "a\n", long.as_str()] {
            assert_eq!(proof_in(&format!("/mutate/reach/{wrong}")), None, "{wrong}");
        }
        assert_eq!(proof_in("/mutate/reach"), None);
    }

    #[test]
    fn it_differs_with_the_address_and_the_bundle_and_with_nothing_else() {
        let settings = |url: &str, bundle: Option<&str>| {
            let mut settings = Settings::new(Client::Url(url.to_owned()), "meshgate-system");
            settings.ca_bundle = bundle.map(str::to_owned);
            settings
        };
        let one = settings("https://a:1", Some("x"));
        assert_eq!(proof(&one), proof(&one.clone()));
        assert_eq!(proof_in(&entry_path(&one)), Some(proof(&one).as_str()));
        for other in [
            settings("https://a:2", Some("x")),
            settings("https://a:1", Some("y")),
            settings("https://a:1", None),
        ] {
            assert_ne!(proof(&one), proof(&other));
        }
        let mut moved = one.clone();
        moved.namespace = "elsewhere".to_owned();
        moved.failure_policy = crate::render::FailurePolicy::Fail;
        assert_eq!(proof(&one), proof(&moved));
    }
}
