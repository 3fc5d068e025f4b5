//! The two hooks that look at an object's metadata only: the mirror on namespaces, and the call
//! by which meshgate finds out whether the API server reaches it.
//!
//! Neither ever refuses what is not its business: a label that is missing is repaired later, a
//! namespace that cannot be written is an outage.

use crate::decision::Decision;
use crate::decision::reason::Reason;
use crate::decision::verdict::Verdict;
use crate::injector::Injectors;
use crate::injector::rule::Place;
use crate::render::{mirror, proof};
use crate::view::metadata::MetadataView;

use super::review::{NoPod, Request};

/// An answer: the decision, and the patch if there is something to do.
pub(super) type Patched = (Decision<'static>, Option<String>);

/// Writes of a namespace that may change its labels or annotations: those of the object, of its
/// status and of its finalizers all store the whole metadata.
const NAMESPACE_PARTS: [&str; 3] = ["", "status", "finalize"];

/// Adds or removes the labels that mirror a namespace's annotations.
pub(super) fn namespace(request: &Request<'_>, injectors: &Injectors) -> Patched {
    if !request.is("namespaces", &["CREATE", "UPDATE"], &NAMESPACE_PARTS) {
        return admit(Reason::NotANamespaceWrite);
    }
    let namespace = match read(request) {
        Ok(namespace) => namespace,
        Err(problem) => return unreadable("a namespace", &problem),
    };
    if namespace.is_being_deleted() {
        return admit(Reason::NamespaceDeleted);
    }
    let is_read = |key: &str| {
        injectors
            .keys()
            .slot(Place::NamespaceAnnotation, key)
            .is_some()
    };
    let annotations = namespace.annotations(is_read);
    let value = |key: &str| annotations.iter().rev().find(|(own, _)| *own == key);
    let value = |key: &str| value(key).map(|(_, value)| &**value);
    let changes = mirror::changes(injectors, namespace.name(), namespace.labels(), value);
    let changes: Vec<_> = changes.iter().map(|one| (&one.label, one.add)).collect();
    match namespace.labels_patch(&changes) {
        Some(patch) => (Decision::admit(Reason::LabelsCorrected), Some(patch)),
        None => admit(Reason::LabelsAgree),
    }
}

/// Writes the proof of the path that was called.
pub(super) fn reach(request: &Request<'_>, path: &str) -> Patched {
    if !request.is("configmaps", &["CREATE"], &[""]) {
        return admit(Reason::NotAReachCall);
    }
    let object = match read(request) {
        Ok(object) => object,
        Err(problem) => return unreadable("a ConfigMap", &problem),
    };
    match proof::in_path(path).filter(|_| object.has_label(proof::Subject::Reach.label())) {
        Some(proof) => {
            let patch = object.annotation_patch(proof::REACHED, proof);
            (Decision::admit(Reason::Reached), Some(patch))
        }
        None => admit(Reason::NotAReachCall),
    }
}

fn read<'a>(request: &Request<'a>) -> Result<MetadataView<'a>, NoPod> {
    let raw = request.raw_object().ok_or(NoPod::Missing)?;
    Ok(MetadataView::read(raw)?)
}

fn admit(reason: Reason) -> Patched {
    (Decision::admit(reason), None)
}

fn unreadable(what: &str, problem: &NoPod) -> Patched {
    let message = format!("The object cannot be read as {what}: {problem}");
    let message = crate::text::one_line(&message, 300);
    let decision = Decision::refuse(Verdict::Unreadable, Reason::UnreadableObject, message);
    (decision, None)
}
