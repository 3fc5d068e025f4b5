//! The call by which meshgate finds out whether the API server reaches it.
//!
//! meshgate asks for a server-side dry run of a ConfigMap with [`LABEL`]. The one webhook entry
//! that matches it has a *proof* at the end of its path, derived from how the entry calls us
//! (address and CA bundle). Whoever of us is called writes the proof of the path that was called
//! into [`ANNOTATION`]. So an answer with the right proof says that the API server has called a
//! meshgate, and that it did so by the entry as it is now: one that still uses an older entry
//! from its cache gives the older proof. Nothing has to be shared among replicas, and nothing is
//! secret: it is TLS that keeps others from answering.

use super::metadata::MetadataView;

/// Key of the label on the ConfigMap.
pub const LABEL: &str = "meshgate.io/reach";
/// Key of the annotation in the answer.
pub const ANNOTATION: &str = "meshgate.io/reached";
/// [`ANNOTATION`] in a JSON Pointer.
const ESCAPED_ANNOTATION: &str = "meshgate.io~1reached";
/// Where the path of the call begins; the proof follows.
pub const PATH: &str = "/mutate/reach/";

/// Longest proof: answers repeat it.
const MAX_PROOF: usize = 64;

/// The proof that a called path carries.
pub fn proof(path: &str) -> Option<&str> {
    let proof = path.strip_prefix(PATH)?;
    let is_fine = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let fits = (1..=MAX_PROOF).contains(&proof.len()) && proof.bytes().all(is_fine);
    fits.then_some(proof)
}

/// The JSON Patch that writes the proof.
pub fn patch(object: &MetadataView<'_>, proof: &str) -> String {
    if object.has_annotations() {
        let path = format!("/metadata/annotations/{ESCAPED_ANNOTATION}");
        return format!(r#"[{{"op":"add","path":"{path}","value":"{proof}"}}]"#);
    }
    format!(
        r#"[{{"op":"add","path":"/metadata/annotations","value":{{"{ANNOTATION}":"{proof}"}}}}]"#
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{ANNOTATION, ESCAPED_ANNOTATION, MAX_PROOF, MetadataView, patch, proof};

    #[test]
    fn a_proof_is_a_short_word() {
        assert_eq!(proof("/mutate/reach/0a1b"), Some("0a1b"));
        let long = "a".repeat(MAX_PROOF + 1);
        for wrong in ["", "A", "a/b", "\"", "%22", "a\n", long.as_str()] {
            assert_eq!(proof(&format!("/mutate/reach/{wrong}")), None, "{wrong}");
        }
        assert_eq!(proof("/mutate/reach"), None);
    }

    #[test]
    fn the_patch_applies_with_and_without_annotations() {
        assert_eq!(ESCAPED_ANNOTATION, ANNOTATION.replace('/', "~1"));
        for annotations in [json!(null), json!({}), json!({"a": "b", ANNOTATION: "old"})] {
            let mut object = json!({"metadata": {"annotations": annotations}});
            let text = object.to_string();
            let patch = patch(&MetadataView::read(&text).unwrap(), "0a1b");
            json_patch::patch(&mut object, &serde_json::from_str(&patch).unwrap()).unwrap();
            assert_eq!(object["metadata"]["annotations"][ANNOTATION], "0a1b");
        }
    }
}
