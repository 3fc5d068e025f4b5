//! `RunningPod`: a pod that exists, with what its creation did not know yet.

use serde::Deserialize;

use crate::injector::keys::Keys;
use crate::view::json::{Object, Text};
use crate::view::metadata::MetadataView;
use crate::view::pod::PodView;

/// A pod as the API server stores it.
#[derive(Debug)]
pub struct RunningPod<'a> {
    /// What rules read, or why it cannot be read.
    pub view: Result<PodView<'a>, serde_json::Error>,
    /// Name, namespace, annotations and times.
    pub metadata: MetadataView<'a>,
    is_over: bool,
}

#[derive(Deserialize)]
struct Outer<'a> {
    #[serde(borrow, default)]
    status: Option<Object<Status<'a>>>,
}

#[derive(Deserialize)]
struct Status<'a> {
    #[serde(borrow, default)]
    phase: Option<Text<'a>>,
}

impl<'a> RunningPod<'a> {
    /// Reads a pod from its JSON; `keys` are those that rules read.
    ///
    /// # Errors
    /// Its metadata cannot be read, so that it has no name.
    pub fn read(json: &'a str, keys: &Keys) -> Result<Self, serde_json::Error> {
        let metadata = MetadataView::read(json)?;
        let Outer { status } = serde_json::from_str(json)?;
        let phase = status.as_ref().and_then(|status| status.0.phase.as_deref());
        Ok(Self {
            view: PodView::read(json, keys),
            is_over: matches!(phase, Some("Succeeded" | "Failed")) || metadata.is_being_deleted(),
            metadata,
        })
    }

    /// Ended or being deleted: no finding (case 89).
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// The value of the first of these annotations that it has. Of a JSON object it is `revision`.
    pub(super) fn first_of(&self, annotations: &[String]) -> Option<String> {
        let found = self
            .metadata
            .annotations(|key| annotations.iter().any(|own| own == key));
        let value = annotations.iter().find_map(|key| {
            let value = found.get(key)?;
            if !value.starts_with('{') {
                return Some(value.to_string());
            }
            #[derive(Deserialize)]
            struct Status {
                revision: Option<String>,
            }
            serde_json::from_str::<Status>(value).ok()?.revision
        });
        value.filter(|value| !value.is_empty())
    }
}
