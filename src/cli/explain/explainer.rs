//! Works out the answer on one pod, with the rules that the server applies, in the same order.

use std::cell::Cell;

use meshgate_core::decision::injected::{self, Flaw};
use meshgate_core::decision::reason::Reason;
use meshgate_core::decision::requirement::{self, RuleMatch};
use meshgate_core::decision::verdict::Verdict;
use meshgate_core::decision::{Decision, exemption, gate, mark};
use meshgate_core::injector::rule::{Key, Outcome, Place};
use meshgate_core::readiness::endpoints::EndpointState;
use meshgate_core::readiness::{Looked, Readiness};
use meshgate_core::text::shown;
use meshgate_core::view::namespace::NamespaceView;
use meshgate_core::view::pod::PodView;
use meshgate_core::{message, yaml};

use crate::cluster::store::Store;
use crate::lifecycle::wall_clock;

use super::answer::{Endpoint, Explained, Gate, Injector, Slice, State, UNKNOWN};
use super::subject::Subject;

/// What is known of the cluster.
pub(super) struct Explainer {
    pub(super) store: Store,
    /// False without `--state`: then only the rules are known.
    pub(super) knows_state: bool,
}

impl Explainer {
    pub(super) fn explain<'s>(&self, subject: &'s Subject) -> Explained<'s> {
        let injectors = self.store.injectors();
        let exempt = |reason| explained(subject, Gate::of(&Decision::admit(reason)));
        if injectors.excludes(&subject.namespace) {
            return exempt(Reason::ExcludedNamespace);
        }
        let pod = match PodView::read(&subject.pod, injectors.keys()) {
            Ok(pod) => pod,
            Err(error) => {
                // Without line and column: they count in a text that the user never sees.
                let decision = Decision::unreadable(&yaml::of_json(&error));
                return explained(subject, Gate::of(&decision));
            }
        };
        let is_in = |group: &str| subject.groups.iter().any(|own| own == group);
        if let Some(reason) = exemption::of(&pod, is_in) {
            return exempt(reason);
        }
        let mut explained = match self.store.namespace(&subject.namespace) {
            Some(namespace) => self.judged(subject, &pod, namespace),
            None => explained(subject, self.without_namespace(&subject.namespace)),
        };
        explained.warnings.extend(self.misplaced(subject));
        explained
    }

    fn without_namespace(&self, namespace: &str) -> Gate {
        let fix = if self.knows_state {
            "name the right one with -n, or give its Namespace with -f"
        } else {
            "give it with -f, or a folder with --state"
        };
        let message = format!("namespace {namespace} is in none of the files: {fix}");
        Gate::unknown(Reason::NamespaceUnknown.as_str(), message)
    }

    fn judged<'s>(
        &self,
        subject: &'s Subject,
        pod: &PodView<'_>,
        namespace: &NamespaceView,
    ) -> Explained<'s> {
        let matcheds = requirement::decisions(pod, namespace, self.store.injectors());
        let injectors = matcheds
            .filter(is_worth_a_line)
            .map(|matched| self.injector(&matched, pod))
            .collect();
        let suspension = self.store.suspension(wall_clock);
        let requirement = self.store.requirement(pod, namespace, suspension);
        let depends_on_state = Cell::new(false);
        let decision = gate::decide(pod, &requirement, |matched| {
            depends_on_state.set(true);
            self.store.readiness(matched.number, matched.instance())
        });
        // The gate denies an invalid value whatever the state of the injectors.
        let is_denied = decision.verdict == Verdict::Deny;
        if self.knows_state || is_denied || !depends_on_state.get() {
            let suspension = suspension.filter(|_| requirement.is_waived());
            let suspended = suspension.map(|note| format!("enforcement is suspended ({note})"));
            return Explained {
                injectors,
                warnings: suspended
                    .into_iter()
                    .chain(decision.warnings.clone())
                    .collect(),
                ..explained(subject, Gate::of(&decision))
            };
        }
        let message = "it depends on the state of the injectors: give a folder with --state";
        Explained {
            injectors,
            ..explained(subject, Gate::unknown(UNKNOWN, message.to_owned()))
        }
    }

    fn injector(&self, matched: &RuleMatch<'_>, pod: &PodView<'_>) -> Injector {
        let is_required = matched.rule.then == Outcome::Required;
        Injector {
            name: matched.name().to_owned(),
            instance: matched.instance().map(str::to_owned),
            requirement: matched.rule.then,
            rule: matched.rule.number,
            because: message::reason(matched, true),
            readiness: is_required.then(|| self.state(matched)),
            check: is_required.then(|| check(matched, pod)),
        }
    }

    fn state(&self, matched: &RuleMatch<'_>) -> State {
        let bare = |state, why: String| State {
            state,
            why,
            ..State::default()
        };
        if !self.knows_state {
            return bare(UNKNOWN, "no --state was given".to_owned());
        }
        let readiness = self.store.readiness(matched.number, matched.instance());
        let no_entry = "no MutatingWebhookConfiguration";
        let (state, looked) = match &readiness {
            Readiness::Usable(looked) => ("usable", looked),
            Readiness::NotUsable(looked) => ("notUsable", looked),
            Readiness::NotInstalled => {
                return bare("notInstalled", format!("{no_entry} has an entry of it"));
            }
            Readiness::NoInstance => {
                let instance = shown(matched.instance().unwrap_or_default());
                return bare("notInstalled", format!("{no_entry} carries {instance}"));
            }
        };
        let why = message::state(&matched.injector.profile, looked);
        let Looked::Endpoints { service, tally, .. } = looked else {
            return bare(state, why);
        };
        let counted = tally.iter().flat_map(|tally| &tally.endpoints);
        let endpoints = counted.map(|one| Endpoint {
            name: one.name.to_string(),
            usable: one.state == EndpointState::Usable,
            state: one.state.to_string(),
        });
        let slices = self.store.slices(service).map(|(name, slice)| Slice {
            name: name.to_owned(),
            managed_by: slice.managed_by.as_deref().map(str::to_owned),
            endpoints: slice.endpoints.len(),
        });
        State {
            state,
            why,
            endpoints: endpoints.collect(),
            slices: slices.collect(),
        }
    }

    /// Warns of keys that rules read on a pod but that stand on the object around its template:
    /// injectors do not read them there, and users make no slip more often.
    fn misplaced(&self, subject: &Subject) -> Vec<String> {
        let is_slip = |key: &&Key| match key.place {
            Place::PodLabel => subject.owner_labels.contains(&key.name),
            Place::PodAnnotation => subject.owner_annotations.contains(&key.name),
            Place::NamespaceLabel | Place::NamespaceAnnotation => false,
        };
        let text = |key: &Key| {
            format!(
                "{} {} stands on the {} itself, where no injector reads it: move it into the \
                 metadata of the pod template",
                key.place.noun(),
                key.name,
                subject.kind
            )
        };
        let keys = self.store.injectors().keys().iter();
        keys.filter(is_slip).map(text).collect()
    }
}

fn explained(subject: &Subject, gate: Gate) -> Explained<'_> {
    Explained {
        subject,
        injectors: Vec::new(),
        gate,
        warnings: Vec::new(),
    }
}

impl Gate {
    fn of(decision: &Decision<'_>) -> Self {
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

/// Not worth one: a rule that requires nothing because the pod has none of its keys.
fn is_worth_a_line(matched: &RuleMatch<'_>) -> bool {
    let has_key = matched.rule.when.iter().any(|term| term.test.is_positive());
    matched.rule.then != Outcome::NotRequired || has_key
}

/// What the check will look for, and what the pod already has but does not count.
fn check(matched: &RuleMatch<'_>, pod: &PodView<'_>) -> String {
    let Some(flaw) = injected::flaw(&matched.injector.profile, pod, &matched.values) else {
        return "the pod holds it already".to_owned();
    };
    let found = match flaw {
        Flaw::Missing(_) => String::new(),
        Flaw::InitMissing(_) => "; of that the sidecar is there".to_owned(),
        Flaw::Image(container, image, _) => {
            let (container, image) = (shown(&container), shown(&image));
            format!("; {container} runs {image}, which is none of the images that are allowed")
        }
        Flaw::Placeholder(container, image) => {
            let container = shown(&container);
            format!("; the image of {container} is only the placeholder {image}")
        }
        Flaw::NotRestartable(container) => format!(
            "; {} is an init container without restartPolicy Always and does not count",
            shown(&container)
        ),
    };
    let wanted = message::wanted_by_check(matched);
    format!("needs {wanted}, which the injector adds{found}")
}
