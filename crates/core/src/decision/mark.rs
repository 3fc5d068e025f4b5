//! The mark: the one annotation that meshgate sets, and its patch.
//!
//! The patch holds one operation below `/metadata/annotations` (cases 4 to 7). It is written, not
//! found by comparing two pods: a typed round trip would lose fields the types do not know.

use crate::names::ADMITTED;
use crate::view::pod::PodView;

/// [`ADMITTED`] in a JSON Pointer: `~` is `~0` first, then `/` is `~1` (case 5).
const ESCAPED_KEY: &str = "meshgate.io~1admitted";

/// What becomes of the mark on a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edit {
    /// It stays as it is, or stays away: of a refused or exempt pod, and by the check, which may not patch.
    Keep,
    /// It is set to this value.
    Set(String),
    /// One that arrived with the pod is taken away.
    Remove,
}

impl Edit {
    /// The mark of a pod that was admitted for these injectors: their names, sorted, so that a second call
    /// changes nothing (case 22). For none of them a mark that arrived is a lie, and goes (case 23).
    pub fn admitted_for(mut names: Vec<&str>) -> Self {
        if names.is_empty() {
            return Self::Remove;
        }
        names.sort_unstable();
        Self::Set(names.join(","))
    }

    /// The JSON Patch (RFC 6902) that makes the pod so; `None` if it is so already (case 22). Names
    /// of injectors need no escapes in JSON.
    pub fn patch(&self, pod: &PodView<'_>) -> Option<String> {
        let key = ESCAPED_KEY;
        match (self, pod.mark.as_deref()) {
            (Self::Keep, _) | (Self::Remove, None) => None,
            (Self::Remove, Some(_)) => Some(format!(
                r#"[{{"op":"remove","path":"/metadata/annotations/{key}"}}]"#
            )),
            (Self::Set(value), Some(there)) if value == there => None,
            (Self::Set(value), _) if pod.has_annotations() => Some(format!(
                r#"[{{"op":"add","path":"/metadata/annotations/{key}","value":"{value}"}}]"#
            )),
            (Self::Set(value), _) => Some(format!(
                r#"[{{"op":"add","path":"/metadata/annotations","value":{{"{ADMITTED}":"{value}"}}}}]"#
            )),
        }
    }
}

/// Whether the pod carries the mark for an injector. No verdict rests on it (case 23).
pub(crate) fn names(pod: &PodView<'_>, injector: &str) -> bool {
    let mark = pod.mark.as_deref().unwrap_or_default();
    mark.split(',').any(|name| name == injector)
}

#[cfg(test)]
#[path = "mark_tests.rs"]
mod tests;
