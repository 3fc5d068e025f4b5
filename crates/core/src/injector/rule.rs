//! Rules: which keys on a pod and its namespace say that an injector is required.
//!
//! The first rule whose terms all hold decides. Evaluated here; described in words by
//! `message`.

use std::borrow::Cow;
use std::fmt;

use super::keys::{Marks, Slot};
use super::spec::Outcome;

/// Where a key is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    /// `metadata.labels` of the pod.
    PodLabel,
    /// `metadata.annotations` of the pod.
    PodAnnotation,
    /// `metadata.labels` of its namespace.
    NamespaceLabel,
    /// `metadata.annotations` of its namespace.
    NamespaceAnnotation,
}

impl Place {
    /// All places, in the order of their discriminants.
    pub const ALL: [Self; 4] = [
        Self::PodLabel,
        Self::PodAnnotation,
        Self::NamespaceLabel,
        Self::NamespaceAnnotation,
    ];

    /// True for what the pod's author writes.
    pub fn is_on_pod(self) -> bool {
        matches!(self, Self::PodLabel | Self::PodAnnotation)
    }

    /// `label` or `annotation`.
    pub fn noun(self) -> &'static str {
        match self {
            Self::PodLabel | Self::NamespaceLabel => "label",
            Self::PodAnnotation | Self::NamespaceAnnotation => "annotation",
        }
    }

    /// `a label` or `an annotation`.
    pub fn noun_with_article(self) -> &'static str {
        match self {
            Self::PodLabel | Self::NamespaceLabel => "a label",
            Self::PodAnnotation | Self::NamespaceAnnotation => "an annotation",
        }
    }

    /// As the format spells it.
    pub fn field(self) -> &'static str {
        match self {
            Self::PodLabel => "podLabel",
            Self::PodAnnotation => "podAnnotation",
            Self::NamespaceLabel => "namespaceLabel",
            Self::NamespaceAnnotation => "namespaceAnnotation",
        }
    }
}

/// A key on the pod or its namespace.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Where it is.
    pub place: Place,
    /// Its name, `linkerd.io/inject`.
    pub name: String,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.place.field(), self.name)
    }
}

/// Values of a term.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Values {
    /// In the order in which they were written.
    pub list: Vec<String>,
    /// Compare without case (ASCII).
    pub fold: bool,
}

impl Values {
    /// True if `value` is one of them.
    pub fn contain(&self, value: &str) -> bool {
        if self.fold {
            self.list.iter().any(|one| one.eq_ignore_ascii_case(value))
        } else {
            self.list.iter().any(|one| one == value)
        }
    }
}

/// One test of a value, with Kubernetes' meaning of an absent key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Test {
    /// Present and one of these.
    In(Values),
    /// Absent, or none of these.
    NotIn(Values),
    /// Present, whatever it is; `""` is a value.
    Exists,
    /// Absent.
    Absent,
}

impl Test {
    /// Whether the value that a key has (`None`: absent) passes.
    pub fn passes(&self, value: Option<&str>) -> bool {
        match (self, value) {
            (Self::In(values), Some(value)) => values.contain(value),
            (Self::NotIn(values), Some(value)) => !values.contain(value),
            (Self::Exists, Some(_)) | (Self::NotIn(_) | Self::Absent, None) => true,
            (Self::In(_) | Self::Exists, None) | (Self::Absent, Some(_)) => false,
        }
    }

    /// True if the key must be there for the test to pass.
    pub fn is_positive(&self) -> bool {
        matches!(self, Self::In(_) | Self::Exists)
    }

    /// The values it names, if any.
    pub fn values(&self) -> Option<&Values> {
        match self {
            Self::In(values) | Self::NotIn(values) => Some(values),
            Self::Exists | Self::Absent => None,
        }
    }
}

/// One key and one test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Term {
    /// The key.
    pub key: Key,
    /// The test.
    pub test: Test,
    /// Where [`Marks`] keep the key's value.
    pub(super) slot: Slot,
}

impl Term {
    /// Whether the term holds.
    pub fn holds(&self, marks: &Marks<'_>) -> bool {
        self.test.passes(self.value(marks))
    }

    /// The value that the key has.
    pub fn value<'m>(&self, marks: &Marks<'m>) -> Option<&'m str> {
        marks.get(self.slot)
    }
}

/// Which copy of an injector a rule means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InstanceSource {
    /// Always this one.
    Constant(String),
    /// The value of a key that the rule's terms require to be there.
    Key {
        /// The key.
        key: Key,
        /// Where [`Marks`] keep its value.
        slot: Slot,
    },
}

/// One rule of a profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Its place in the profile, from 1; rules that are switched off count too.
    pub number: usize,
    /// The switch it depends on.
    pub option: Option<String>,
    /// Terms that must all hold.
    pub when: Vec<Term>,
    /// What follows.
    pub then: Outcome,
    /// Which copy of the injector.
    pub instance: Option<InstanceSource>,
    /// The text to give with the answer, `{value}` not yet replaced.
    pub warn: Option<String>,
}

impl Rule {
    /// Whether all terms hold.
    pub fn matches(&self, marks: &Marks<'_>) -> bool {
        self.when.iter().all(|term| term.holds(marks))
    }

    /// Whether it wants a key of the pod to be there: then it is the pod that asks.
    pub fn is_asked_by_pod(&self) -> bool {
        self.when
            .iter()
            .any(|term| term.key.place.is_on_pod() && term.test.is_positive())
    }

    /// The copy of the injector that is meant, if the profile has copies.
    pub fn instance<'a>(&'a self, marks: &Marks<'a>) -> Option<&'a str> {
        match self.instance.as_ref()? {
            InstanceSource::Constant(name) => Some(name),
            InstanceSource::Key { slot, .. } => marks.get(*slot),
        }
    }

    /// The warning, with the value that the last term met.
    pub fn warning(&self, marks: &Marks<'_>) -> Option<Cow<'_, str>> {
        let text = self.warn.as_deref()?;
        if !text.contains("{value}") {
            return Some(Cow::Borrowed(text));
        }
        let value = self
            .when
            .last()
            .and_then(|term| term.value(marks))
            .unwrap_or_default();
        Some(Cow::Owned(text.replace("{value}", &super::shown(value))))
    }
}
