//! Rules: which keys on a pod and its namespace say that an injector is required.
//!
//! The first rule whose terms all hold decides. This file evaluates them; `message` puts them in
//! words and `render` into CEL.

use std::borrow::Cow;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::coverage;
use super::values::{KeyValues, Slot};
use crate::text::shown;

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
    /// In the order of their discriminants, by which `Keys` numbers its lists.
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

    /// Labels have a smaller alphabet than annotations, and namespaces can be selected by them. Injectors
    /// read one of the two, and users mix them up (cases 24 and 30).
    pub fn is_label(self) -> bool {
        matches!(self, Self::PodLabel | Self::NamespaceLabel)
    }

    /// `label` or `annotation`.
    pub fn noun(self) -> &'static str {
        if self.is_label() {
            "label"
        } else {
            "annotation"
        }
    }

    /// The field of a term in a configuration.
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
    /// On which of the two, and in which map.
    pub place: Place,
    /// `linkerd.io/inject`, with its domain.
    pub name: String,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.place.field(), self.name)
    }
}

/// One test of a value, with Kubernetes' meaning of an absent key (labels.Requirement in
/// kubernetes/kubernetes, staging/src/k8s.io/apimachinery/pkg/labels/selector.go). One form for `in`, `notIn`
/// and `exists`, so that tests can be negated and joined.
#[expect(
    clippy::struct_excessive_bools,
    reason = "switches of a term, each with or without the others"
)]
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Test {
    /// Whether an absent key passes.
    pub absent: bool,
    /// Whether a value passes that is not among [`Self::values`]; those then do not.
    pub others: bool,
    /// In the order in which they were written: a refusal offers them so.
    pub values: Vec<String>,
    /// Compare without ASCII case, as injectors do that fold the value before they look at it (dapr/kit
    /// utils/strings.go; open-telemetry/opentelemetry-operator pkg/sidecar).
    pub fold: bool,
    /// Compare without white space at both ends, as Dapr does (dapr/kit utils/strings.go). `str::trim`, Go's
    /// `strings.TrimSpace` and with it CEL's `trim` all cut what Unicode calls `White_Space`.
    pub trim: bool,
}

impl Test {
    /// Present and one of these.
    pub(crate) fn one_of(values: Vec<String>, fold: bool, trim: bool) -> Self {
        Self {
            absent: false,
            others: false,
            values,
            fold,
            trim,
        }
    }

    /// Present, whatever it is; `""` is a value.
    pub(crate) fn exists() -> Self {
        Self {
            others: true,
            ..Self::one_of(Vec::new(), false, false)
        }
    }

    /// Passes what does not pass now.
    pub(crate) fn negated(self) -> Self {
        Self {
            absent: !self.absent,
            others: !self.others,
            ..self
        }
    }

    /// Whether the value that a key has (`None`: absent) passes.
    pub fn passes(&self, value: Option<&str>) -> bool {
        let Some(value) = value else {
            return self.absent;
        };
        let value = if self.trim { value.trim() } else { value };
        let is_named = if self.fold {
            self.values
                .iter()
                .any(|one| one.eq_ignore_ascii_case(value))
        } else {
            self.values.iter().any(|one| one == value)
        };
        is_named != self.others
    }

    /// Whether the key must be there for the test to pass.
    pub fn is_positive(&self) -> bool {
        !self.absent
    }

    /// Whether it rejects some values by name: they are what an injector knows, so that a value that
    /// passes is unknown to it.
    pub(crate) fn excludes(&self) -> bool {
        self.others && !self.values.is_empty()
    }
}

/// One test of the value of one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Term {
    /// Whose value is tested.
    pub key: Key,
    /// What the value must be.
    pub test: Test,
    /// Where [`KeyValues`] keep it.
    pub(crate) slot: Slot,
}

impl Term {
    /// Whether the term holds.
    pub(crate) fn holds(&self, values: &KeyValues<'_>) -> bool {
        self.test.passes(self.value(values))
    }

    /// The value that the key has.
    pub fn value<'m>(&self, values: &KeyValues<'m>) -> Option<&'m str> {
        values.get(self.slot)
    }
}

/// Which copy of an injector a rule means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InstanceSource {
    /// Always this one.
    Constant(String),
    /// The value of a key that the rule's terms require to be there.
    Key {
        /// Whose value names the copy.
        key: Key,
        /// Where [`KeyValues`] keep it.
        slot: Slot,
    },
}

/// What a rule decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    /// The pod needs the sidecar.
    Required,
    /// It does not.
    NotRequired,
    // Linkerd skips such pods in silence (linkerd/linkerd2 pkg/inject/report.go, case 25).
    /// The value has no meaning to the injector: the pod is refused, waiting does not help.
    Invalid,
    /// The pod spares itself where the profile forbids that, and its namespace requires the injector. No
    /// profile writes it: [`forbidding`] does.
    #[serde(skip_deserializing)]
    #[schemars(skip)]
    OptOut,
}

/// One rule of a profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Counted from 1 in the profile; rules that are switched off count too, so that a number in a
    /// message is that of the file.
    pub number: usize,
    /// Counted from 1 in the list that is tried, in which an opt-out that is forbidden stands several times.
    pub(crate) position: usize,
    /// The rule counts only while this option of the profile is on.
    pub option: Option<String>,
    /// Terms that must all hold. Empty only behind an option.
    pub when: Vec<Term>,
    /// What the rule decides if they do.
    pub then: Outcome,
    /// Set where the profile has copies and the rule requires the injector.
    pub instance: Option<InstanceSource>,
    /// The text to give with the answer, `{value}` not yet replaced.
    pub warn: Option<String>,
}

impl Rule {
    /// Whether all terms hold.
    pub(crate) fn matches(&self, values: &KeyValues<'_>) -> bool {
        self.when.iter().all(|term| term.holds(values))
    }

    /// Whether it wants a key of the pod to be there: then it is the pod that asks. A refusal names the pod
    /// as the one to change, and the rule also counts in the injector's own namespace.
    pub(crate) fn is_asked_by_pod(&self) -> bool {
        self.when
            .iter()
            .any(|term| term.key.place.is_on_pod() && term.test.is_positive())
    }

    /// Whether it spares a pod for what stands on the pod itself, or does not.
    fn spares_pod(&self) -> bool {
        let mut terms = self.when.iter();
        self.then == Outcome::NotRequired && terms.any(|term| term.key.place.is_on_pod())
    }

    /// Its terms on the namespace, if it decides on pods that say nothing, whoever they are.
    fn of_silent_pods(&self) -> Option<impl Iterator<Item = &Term>> {
        let mut on_pod = self.when.iter().filter(|term| term.key.place.is_on_pod());
        let fits = !self.spares_pod() && on_pod.all(|term| term.test.absent);
        fits.then(|| self.when.iter().filter(|term| !term.key.place.is_on_pod()))
    }

    /// The copy of the injector that is meant, if the profile has copies (case 31). The parser has made sure
    /// that the key is there whenever the rule matches.
    pub fn instance<'a>(&'a self, values: &KeyValues<'a>) -> Option<&'a str> {
        match self.instance.as_ref()? {
            InstanceSource::Constant(name) => Some(name),
            InstanceSource::Key { slot, .. } => values.get(*slot),
        }
    }

    /// The warning, with the value that the last term met: rules name the key that they are about last, behind
    /// those that only say where they apply.
    pub fn warning(&self, values: &KeyValues<'_>) -> Option<Cow<'_, str>> {
        let text = self.warn.as_deref()?;
        if !text.contains("{value}") {
            return Some(Cow::Borrowed(text));
        }
        let value = self
            .when
            .last()
            .and_then(|term| term.value(values))
            .unwrap_or_default();
        Some(Cow::Owned(text.replace("{value}", &shown(value))))
    }
}

/// Rules where no pod may spare itself. Before each rule that spares a pod for what the pod says stand those by
/// which its namespace decides on pods that say nothing, with the terms of both: where one needs the
/// injector, the pod is refused.
pub(crate) fn forbidding(rules: &[Rule], is_on: impl Fn(&Rule) -> bool) -> Vec<Rule> {
    let mut all: Vec<Rule> = Vec::new();
    for rule in rules {
        let before = rules
            .iter()
            .filter(|silent| rule.spares_pod() && is_on(silent));
        let before = before.filter_map(|silent| {
            let when: Vec<Term> = silent
                .of_silent_pods()?
                .chain(&rule.when)
                .cloned()
                .collect();
            let then = match silent.then {
                Outcome::NotRequired => Outcome::NotRequired,
                Outcome::Required | Outcome::Invalid | Outcome::OptOut => Outcome::OptOut,
            };
            let can_hold = coverage::contradiction(&when).is_none();
            can_hold.then(|| Rule {
                when,
                then,
                ..rule.clone()
            })
        });
        let mut before: Vec<Rule> = before.collect();
        // Behind the last that refuses, the rule itself says the same.
        let refuses = |one: &Rule| one.then == Outcome::OptOut;
        before.truncate(before.iter().rposition(refuses).map_or(0, |last| last + 1));
        all.extend(before);
        all.push(rule.clone());
    }
    all
}
