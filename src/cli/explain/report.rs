//! What is said about one pod. Every rule is asked where the server asks it.

use std::cell::Cell;

use serde::Serialize;

use crate::cluster::store::Store;
use crate::decision::injected::{self, Flaw};
use crate::decision::reason::Reason;
use crate::decision::requirement::{self, RuleMatch};
use crate::decision::verdict::Verdict;
use crate::decision::{Decision, exemption, gate, mark};
use crate::injector::rule::Outcome;
use crate::injector::rule::{Key, Place};
use crate::message;
use crate::readiness::endpoints::EndpointState;
use crate::readiness::{Looked, Readiness};
use crate::text::shown;
use crate::view::namespace::NamespaceView;
use crate::view::pod::PodView;
use crate::yaml;

use super::super::output::Exit;
use super::subject::Subject;

/// The answer for programs.
#[derive(Debug, Serialize)]
pub(super) struct Document<'a> {
    pods: &'a [Explained],
}

impl<'a> Document<'a> {
    pub(super) fn new(pods: &'a [Explained]) -> Self {
        Self { pods }
    }
}

/// What is said about one pod.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Explained {
    /// Kind of the object it was found in.
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) origin: String,
    /// True for a pod that does not exist yet.
    pub(super) template: bool,
    /// Each injector that some rule decided on.
    pub(super) injectors: Vec<Injector>,
    pub(super) gate: Gate,
    pub(super) warnings: Vec<String>,
}

/// What the gate would answer now.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Gate {
    /// `admit`, `mark`, `warn`, `defer`, `deny`, `unreadable` or `unknown`.
    pub(super) decision: &'static str,
    pub(super) reason: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) message: String,
    /// The mark that would be set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) mark: Option<String>,
}

/// One injector, for this pod.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Injector {
    pub(super) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) instance: Option<String>,
    /// `required`, `notRequired` or `invalid`.
    pub(super) requirement: &'static str,
    /// Number of the rule in the profile.
    pub(super) rule: usize,
    /// The rule's terms with the values that were met.
    pub(super) because: String,
    /// Only of what is required.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) readiness: Option<State>,
    /// What the check will look for, or that it is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) check: Option<String>,
}

/// Whether an injector can be tried.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct State {
    /// `usable`, `notUsable`, `notInstalled` or `unknown`.
    pub(super) state: &'static str,
    pub(super) why: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) endpoints: Vec<Endpoint>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) slices: Vec<Slice>,
}

/// One endpoint that was counted.
#[derive(Debug, Serialize)]
pub(super) struct Endpoint {
    pub(super) name: String,
    pub(super) usable: bool,
    pub(super) state: String,
}

/// One slice that endpoints came from (case 46).
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Slice {
    pub(super) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) managed_by: Option<String>,
    pub(super) endpoints: usize,
}

/// What is said where nobody can tell.
pub(super) const UNKNOWN: &str = "unknown";

impl Explained {
    pub(super) fn exit(&self) -> Exit {
        let invalid = self
            .injectors
            .iter()
            .any(|injector| injector.requirement == "invalid");
        match self.gate.decision {
            UNKNOWN => Exit::CannotTell,
            "defer" | "deny" | "unreadable" => Exit::Findings,
            _ if invalid => Exit::Findings,
            _ => Exit::Fine,
        }
    }
}

/// Explains one pod. `knows_state` is false where nothing is known of the injectors.
pub(super) fn of(subject: &Subject, store: &Store, knows_state: bool) -> Explained {
    let keys = store.injectors().keys();
    let pod = match PodView::read(&subject.pod, keys) {
        Ok(pod) => pod,
        Err(error) => {
            // Without its place, which is in a text that nobody has seen.
            let gate = Gate::new(&Decision::unreadable(&yaml::of_json(&error)));
            return explained(subject, Vec::new(), gate, Vec::new());
        }
    };
    if store.injectors().excludes(&subject.namespace) {
        return spared(subject, Reason::ExcludedNamespace);
    }
    if let Some(reason) = exemption::of(&pod, |group| subject.groups.iter().any(|own| own == group))
    {
        return spared(subject, reason);
    }
    let Some(namespace) = store.namespace(&subject.namespace) else {
        let message = match knows_state {
            true => format!(
                "namespace {} is in none of the files: name the right one with -n, or give its \
                 Namespace with -f",
                subject.namespace
            ),
            false => format!(
                "namespace {} is in none of the files: give it with -f, or a folder with --state",
                subject.namespace
            ),
        };
        let gate = Gate::unknown(Reason::NamespaceUnknown.as_str(), message);
        return explained(subject, Vec::new(), gate, misplaced(subject, store));
    };
    let mut explained = judged(subject, &pod, namespace, store, knows_state);
    explained.warnings.extend(misplaced(subject, store));
    explained
}

fn judged(
    subject: &Subject,
    pod: &PodView<'_>,
    namespace: &NamespaceView,
    store: &Store,
    knows_state: bool,
) -> Explained {
    let injectors = requirement::decisions(pod, namespace, store.injectors())
        .filter(says_something)
        .map(|matched| injector(&matched, pod, store, knows_state))
        .collect();
    let requirement = requirement::of(pod, namespace, store.injectors());
    let depends_on_state = Cell::new(false);
    let decision = gate::decide(pod, &requirement, |matched| {
        depends_on_state.set(true);
        store.readiness(matched.number, matched.instance())
    });
    // A value that no injector knows is refused whatever their state.
    let is_certain = knows_state || !depends_on_state.get() || decision.verdict == Verdict::Deny;
    let gate = if is_certain {
        Gate::new(&decision)
    } else {
        let message = "it depends on the state of the injectors: give a folder with --state";
        Gate::unknown(UNKNOWN, message.to_owned())
    };
    let warnings = if is_certain {
        decision.warnings
    } else {
        Vec::new()
    };
    explained(subject, injectors, gate, warnings)
}

/// Keys that rules read on a pod and that stand on the object around its template, where nobody
/// reads them: the commonest slip.
fn misplaced(subject: &Subject, store: &Store) -> Vec<String> {
    let keys = store.injectors().keys().iter();
    let slips = keys.filter(|key| match key.place {
        Place::PodLabel => subject.owner_labels.contains(&key.name),
        Place::PodAnnotation => subject.owner_annotations.contains(&key.name),
        Place::NamespaceLabel | Place::NamespaceAnnotation => false,
    });
    let text = |key: &Key| {
        format!(
            "{} {} stands on the {} itself, where no injector reads it: it belongs into the \
             metadata of the pod template",
            key.place.noun(),
            key.name,
            subject.kind
        )
    };
    slips.map(text).collect()
}

fn spared(subject: &Subject, reason: Reason) -> Explained {
    explained(
        subject,
        Vec::new(),
        Gate::new(&Decision::admit(reason)),
        Vec::new(),
    )
}

fn explained(
    subject: &Subject,
    injectors: Vec<Injector>,
    gate: Gate,
    warnings: Vec<String>,
) -> Explained {
    Explained {
        kind: subject.kind.clone(),
        name: subject.name.clone(),
        namespace: subject.namespace.clone(),
        origin: subject.origin.clone(),
        template: subject.is_template,
        injectors,
        gate,
        warnings,
    }
}

impl Gate {
    fn new(decision: &Decision<'_>) -> Self {
        Self {
            decision: decision.verdict.as_str(),
            reason: decision.reason.as_str(),
            message: decision.message.clone(),
            mark: match &decision.mark {
                mark::Edit::Set(value) => Some(value.clone()),
                mark::Edit::Keep | mark::Edit::Remove => None,
            },
        }
    }

    fn unknown(reason: &'static str, message: String) -> Self {
        Self {
            decision: UNKNOWN,
            reason,
            message,
            mark: None,
        }
    }
}

/// Rules that spare a pod for want of any key are not worth a line.
fn says_something(matched: &RuleMatch<'_>) -> bool {
    let is_there = matched.rule.when.iter().any(|term| term.test.is_positive());
    matched.rule.then != Outcome::NotRequired || is_there
}

fn injector(
    matched: &RuleMatch<'_>,
    pod: &PodView<'_>,
    store: &Store,
    knows_state: bool,
) -> Injector {
    let requirement = match matched.rule.then {
        Outcome::Required => "required",
        Outcome::NotRequired => "notRequired",
        Outcome::Invalid => "invalid",
    };
    let is_required = matched.rule.then == Outcome::Required;
    Injector {
        name: matched.name().to_owned(),
        instance: matched.instance().map(str::to_owned),
        requirement,
        rule: matched.rule.number,
        because: message::rule_with_places(matched),
        readiness: is_required.then(|| state(matched, store, knows_state)),
        check: is_required.then(|| check(matched, pod)),
    }
}

/// What the check will look for, and what of it is there already and does not count.
fn check(matched: &RuleMatch<'_>, pod: &PodView<'_>) -> String {
    let wanted = message::wanted_by_check(matched);
    let Some(flaw) = injected::flaw(&matched.injector.profile, pod, &matched.values) else {
        return "the pod holds it already".to_owned();
    };
    let found = match flaw {
        Flaw::Missing(_) => String::new(),
        Flaw::InitMissing(_) => "; of that the sidecar is there".to_owned(),
        Flaw::Placeholder(container, image) => {
            format!(
                "; the image of {} is only the placeholder {image}",
                shown(&container)
            )
        }
        Flaw::NotRestartable(container) => format!(
            "; {} is an init container without restartPolicy Always and does not count",
            shown(&container)
        ),
    };
    format!("needs {wanted}, which the injector adds{found}")
}

fn state(matched: &RuleMatch<'_>, store: &Store, knows_state: bool) -> State {
    let bare = |state, why: &str| State {
        state,
        why: why.to_owned(),
        endpoints: Vec::new(),
        slices: Vec::new(),
    };
    if !knows_state {
        return bare(UNKNOWN, "no --state was given");
    }
    let readiness = store.readiness(matched.number, matched.instance());
    let (state, looked) = match &readiness {
        Readiness::Usable(looked) => ("usable", looked),
        Readiness::NotUsable(looked) => ("notUsable", looked),
        Readiness::NotInstalled => {
            return bare(
                "notInstalled",
                "no MutatingWebhookConfiguration has an entry of it",
            );
        }
        Readiness::NoInstance => {
            let instance = matched.instance().unwrap_or_default();
            let why = format!(
                "no MutatingWebhookConfiguration carries {}",
                shown(instance)
            );
            return bare("notInstalled", &why);
        }
    };
    let mut found = bare(state, &message::state(&matched.injector.profile, looked));
    if let Looked::Endpoints { service, tally, .. } = looked {
        let counted = tally.iter().flat_map(|tally| &tally.endpoints);
        found.endpoints = counted
            .map(|one| Endpoint {
                name: one.name.to_string(),
                usable: one.state == EndpointState::Usable,
                state: one.state.to_string(),
            })
            .collect();
        let slices = store.slices(service).map(|(name, slice)| Slice {
            name: name.to_owned(),
            managed_by: slice.managed_by.as_deref().map(str::to_owned),
            endpoints: slice.endpoints.len(),
        });
        found.slices = slices.collect();
    }
    found
}
