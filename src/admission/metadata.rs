//! The two hooks that look at an object's metadata only: the mirror on namespaces, and the call
//! by which meshgate finds out whether the API server reaches it.
//!
//! Neither ever refuses what is not its business: a label that is missing is repaired later, a
//! namespace that cannot be written is an outage.

use meshgate_core::decision::Decision;
use meshgate_core::decision::reason::Reason;
use meshgate_core::decision::verdict::Verdict;
use meshgate_core::injector::Injectors;
use meshgate_core::injector::rule::Place;
use meshgate_core::render::{mirror, proof};
use meshgate_core::view::metadata::MetadataView;

use super::answer::Patched;
use super::request::Request;

/// Writes of a namespace that may change its labels or annotations: those of the object, of its
/// status and of its finalizers all store the whole metadata.
const NAMESPACE_PARTS: [&str; 3] = ["", "status", "finalize"];

/// Adds or removes the labels that mirror a namespace's annotations.
pub(super) fn namespace(request: &Request<'_>, injectors: &Injectors) -> Patched<'static> {
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
    let keys = injectors.keys();
    let is_read = |key: &str| keys.slot(Place::NamespaceAnnotation, key).is_some();
    let annotations = namespace.annotations(is_read);
    let value = |key: &str| annotations.get(key).map(|value| &**value);
    let labels = namespace.labels(|key| key.starts_with(mirror::LABEL_PREFIX));
    let labels = labels.iter().map(String::as_str);
    let changes = mirror::changes(injectors, namespace.name(), labels, value);
    let changes: Vec<_> = changes.iter().map(|one| (&one.label, one.add)).collect();
    let patch = namespace.labels_patch(&changes);
    let reason = match patch {
        Some(_) => Reason::LabelsCorrected,
        None => Reason::LabelsAgree,
    };
    Patched {
        decision: Decision::admit(reason),
        patch,
    }
}

/// Writes the proof of the path that was called.
pub(super) fn reach(request: &Request<'_>, path: &str) -> Patched<'static> {
    if !request.is("configmaps", &["CREATE"], &[""]) {
        return admit(Reason::NotAReachCall);
    }
    let object = match read(request) {
        Ok(object) => object,
        Err(problem) => return unreadable("a ConfigMap", &problem),
    };
    match proof::in_path(path).filter(|_| object.has_label(proof::Subject::Reach.label())) {
        Some(proof) => Patched {
            decision: Decision::admit(Reason::Reached),
            patch: Some(object.annotation_patch(proof::REACHED, proof)),
        },
        None => admit(Reason::NotAReachCall),
    }
}

fn read<'a>(request: &Request<'a>) -> Result<MetadataView<'a>, String> {
    let raw = request.raw_object().ok_or("there is none")?;
    MetadataView::read(raw).map_err(|problem| problem.to_string())
}

fn admit(reason: Reason) -> Patched<'static> {
    Decision::admit(reason).into()
}

fn unreadable(what: &str, problem: &str) -> Patched<'static> {
    let message = format!("The object cannot be read as {what}: {problem}");
    let message = meshgate_core::text::one_line(&message, 300);
    Decision::refuse(Verdict::Unreadable, Reason::UnreadableObject, message).into()
}
