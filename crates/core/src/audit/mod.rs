//! The audit: whether a pod that exists has the sidecars that it requires, and why not.
//!
//! It asks the functions that gate and check ask, so that an audit never calls a pod bare that the check
//! would admit. The causes say what may have happened to a bare pod; the containers alone make it bare.

pub mod cause;
pub mod pod;
pub mod version;

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::break_glass::Note;
use crate::break_glass::note::longest;
use crate::decision::injected::{self, Flaw};
use crate::decision::reason::Reason;
use crate::decision::requirement::{self, RuleMatch};
use crate::decision::{exemption, mark};
use crate::injector::Injectors;
use crate::injector::keys::Keys;
use crate::injector::profile::{Mode, ServiceName};
use crate::injector::rule::Place;
use crate::injector::values::Slot;
use crate::message::finding as sentence;
use crate::readiness::installation::{self, Installation, Known};
use crate::view::metadata::MetadataView;
use crate::view::namespace::NamespaceView;
use crate::view::pod::PodView;

use self::cause::{Cause, State};
use self::pod::RunningPod;
use self::version::Version;

/// What an audit knows besides pods and namespaces.
#[derive(Debug, Clone, Copy)]
pub struct Surroundings<'a> {
    /// The injectors that count.
    pub injectors: &'a Injectors,
    /// All webhook configurations, if they are known.
    pub known: Known<'a>,
    /// Since when something of meshgate is armed.
    pub armed: Armed,
    /// The suspension of enforcement that is in force, and when it was written, if that is known.
    pub suspension: Option<(&'a Note, Option<Timestamp>)>,
    /// The versions of injectors by the Service that they are behind.
    pub versions: &'a BTreeMap<ServiceName, Version>,
}

/// Since when meshgate refuses pods, as its registration says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Armed {
    /// No registration could be looked at.
    Unknown,
    /// Nothing is armed.
    Never,
    /// Not before this time, when the registration was created.
    NotBefore(Timestamp),
}

/// Times at which the keys of a namespace that rules read were there, by its `managedFields`.
#[derive(Debug, Clone, Default)]
pub struct Since(Vec<(Slot, Timestamp)>);

impl Since {
    /// Keeps the earliest time of each key that rules read.
    pub fn of(namespace: &MetadataView<'_>, keys: &Keys) -> Self {
        let mut since: BTreeMap<Slot, Timestamp> = BTreeMap::new();
        namespace.each_written(|place, key, at| {
            if let Some(slot) = keys.slot(place, key) {
                let known = since.entry(slot).or_insert(at);
                *known = at.min(*known);
            }
        });
        Self(since.into_iter().collect())
    }

    /// Whether a pod of this time is older than a key of its namespace that the rule wants to be there.
    fn is_after(&self, created: Timestamp, matched: &RuleMatch<'_>) -> bool {
        let terms = matched.rule.when.iter();
        let mut terms = terms.filter(|term| term.test.is_positive());
        terms.any(|term| {
            let known = self.0.iter().find(|(slot, _)| *slot == term.slot);
            known.is_some_and(|(_, at)| created < *at)
        })
    }
}

/// When an annotation of an object was written, by its `managedFields`.
pub fn written(object: &MetadataView<'_>, annotation: &str) -> Option<Timestamp> {
    let mut written: Option<Timestamp> = None;
    object.each_written(|place, key, at| {
        if place == Place::NamespaceAnnotation && key == annotation {
            written = Some(written.map_or(at, |known| at.min(known)));
        }
    });
    written
}

/// What an audit says of a pod and one injector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The injector's number in the configuration, from 0.
    pub injector: usize,
    /// Whether the pod has the sidecar.
    pub state: State,
    /// Why.
    pub cause: Cause,
    /// One sentence: the fact, why, and what to do.
    pub message: String,
}

/// Judges a pod: a finding for each injector that a rule asks for or that it opts out of, in the order of
/// the configuration. Nothing for a pod that ended or is being deleted. `namespace` is the pod's, with the
/// times of its keys; `None` if it could not be read.
pub fn judge(
    pod: &RunningPod<'_>,
    name: &str,
    namespace: Option<(&NamespaceView, &Since)>,
    around: &Surroundings<'_>,
) -> Vec<Finding> {
    if pod.is_over() {
        return Vec::new();
    }
    let injectors = around.injectors;
    let is_excluded = injectors.excludes(name);
    let view = match &pod.view {
        Ok(view) => view,
        Err(_) if is_excluded => return Vec::new(),
        Err(error) => {
            let message = sentence::unreadable(error);
            return unknown(injectors, name, Cause::UnreadableObject, &message);
        }
    };
    let spared = if is_excluded {
        Some(Cause::ExcludedNamespace)
    } else {
        exempt(view)
    };
    // Of a pod that is exempt anyway the rest can be told from the pod alone.
    let nothing = NamespaceView::new(name, [], [], injectors.keys());
    let never = Since::default();
    let (namespace, since) = match namespace {
        Some(known) => known,
        None if spared.is_some() => (&nothing, &never),
        None => {
            let message = sentence::namespace_unknown(name);
            return unknown(injectors, name, Cause::NamespaceUnknown, &message);
        }
    };
    let judge = Judge {
        pod,
        view,
        namespace: name,
        since,
        around,
    };
    judge.all(namespace, spared)
}

/// Why a pod that exists is exempt.
fn exempt(view: &PodView<'_>) -> Option<Cause> {
    // Only a kubelet may make a Node the owner of a mirror pod, and deletes those that are not its own
    // (kubernetes/kubernetes plugin/pkg/admission/noderestriction).
    let is_of_node = view.owner().is_some_and(|owner| &*owner.kind == "Node");
    let causes = [
        (Reason::MirrorPod, Cause::MirrorPod),
        (Reason::HostNetwork, Cause::HostNetwork),
        (Reason::OsWindows, Cause::OsWindows),
    ];
    let why = exemption::of(view, |_| is_of_node)?;
    let mut causes = causes.into_iter().filter(|(reason, _)| *reason == why);
    causes.next().map(|(_, cause)| cause)
}

/// A finding for each injector that acts in the namespace.
fn unknown(injectors: &Injectors, namespace: &str, cause: Cause, message: &str) -> Vec<Finding> {
    let all = injectors.iter().enumerate();
    let counting =
        all.filter(|(_, one)| one.is_looked_at() && one.profile.namespaces.contains(namespace));
    let finding = |(injector, _)| Finding {
        injector,
        state: State::Unknown,
        cause,
        message: message.to_owned(),
    };
    counting.map(finding).collect()
}

/// A pod that no exemption covers, and what is known about it.
struct Judge<'j> {
    pod: &'j RunningPod<'j>,
    view: &'j PodView<'j>,
    namespace: &'j str,
    since: &'j Since,
    around: &'j Surroundings<'j>,
}

impl Judge<'_> {
    /// In the order of the configuration.
    fn all(&self, namespace: &NamespaceView, spared: Option<Cause>) -> Vec<Finding> {
        let (view, name) = (self.view, self.namespace);
        let requirement = requirement::of(view, namespace, self.around.injectors);
        let opted_out = requirement.opt_outs.iter().map(|matched| {
            let message = sentence::opted_out(view, name, matched);
            (matched, (State::OptedOut, Cause::PodOptOut, message))
        });
        let required = requirement.matches.iter().map(|matched| match spared {
            Some(cause) => {
                let message = sentence::exempt(view, name, matched, cause);
                (matched, (State::Exempt, cause, message))
            }
            None => (matched, self.required(matched)),
        });
        let findings = required.chain(opted_out);
        let findings = findings.map(|(matched, (state, cause, message))| Finding {
            injector: matched.number,
            state,
            cause,
            message,
        });
        let mut findings: Vec<Finding> = findings.collect();
        findings.sort_by_key(|finding| finding.injector);
        findings
    }

    /// Of an injector that a rule asks for.
    fn required(&self, matched: &RuleMatch<'_>) -> (State, Cause, String) {
        let profile = &matched.injector.profile;
        if let Some(flaw) = injected::flaw(profile, self.view, &matched.values) {
            let cause = self.why_bare(matched, &flaw);
            let at = self.installation(matched);
            let is_installed = matches!(at, Installation::At { .. });
            let what = (&flaw, cause);
            let message = sentence::bare(self.view, self.namespace, matched, what, is_installed);
            return (State::Bare, cause, message);
        }
        if let Some((cause, message)) = self.why_stale(matched) {
            return (State::Stale, cause, message);
        }
        let message = sentence::injected(matched);
        (State::Injected, Cause::SidecarPresent, message)
    }

    fn installation(&self, matched: &RuleMatch<'_>) -> Installation {
        let profile = &matched.injector.profile;
        installation::locate(profile, matched.instance(), self.around.known)
    }

    /// The first cause that fits.
    fn why_bare(&self, matched: &RuleMatch<'_>, flaw: &Flaw<'_>) -> Cause {
        let name = matched.name();
        match flaw {
            Flaw::Placeholder(..) => return Cause::PlaceholderImage,
            Flaw::InitMissing(_) => return Cause::InitMissing,
            Flaw::NotRestartable(_) => return Cause::SidecarNotRestartable,
            Flaw::Image(..) => return Cause::SidecarImage,
            Flaw::Missing(_) => {}
        }
        let created = self.pod.metadata.created();
        if mark::names(self.view, name) {
            Cause::MarkedButBare
        } else if self.is_suspended(name) {
            Cause::EnforcementSuspended
        } else if matched.is_invalid() {
            Cause::InvalidValue
        } else if matched.is_forbidden() {
            Cause::OptOutForbidden
        } else if created.is_some_and(|created| self.since.is_after(created, matched)) {
            Cause::OlderThanRequirement
        } else if match self.around.armed {
            Armed::Unknown => false,
            Armed::Never => true,
            Armed::NotBefore(time) => created.is_some_and(|created| created < time),
        } {
            Cause::NotArmed
        } else if matched.injector.profile.mode == Mode::Warn {
            Cause::ModeWarn
        } else {
            Cause::Unexplained
        }
    }

    /// Whether enforcement was suspended for the injector when the pod was created, and is now.
    fn is_suspended(&self, injector: &str) -> bool {
        let Some((note, written)) = self.around.suspension else {
            return false;
        };
        // A suspension that ends within a day began within the day before.
        let earliest = || note.until?.checked_sub(longest()).ok();
        let begin = written.or_else(earliest);
        let created = self.pod.metadata.created();
        note.is_about(injector) && created.zip(begin).is_none_or(|(at, begin)| at >= begin)
    }

    fn why_stale(&self, matched: &RuleMatch<'_>) -> Option<(Cause, String)> {
        let (profile, known) = (&matched.injector.profile, self.around.known);
        if let (Some(instances), Some(instance)) = (&profile.instances, matched.instance())
            && let Some(own) = self.pod.first_of(&instances.pod_annotations)
            && let Some(wanted) = installation::revision(instances, instance, known)
            && own != wanted
        {
            let revisions = (own.as_str(), wanted);
            let what = sentence::other_revision(self.view, self.namespace, matched, revisions);
            return Some((Cause::OtherRevision, what));
        }
        let limit = profile.staleness?;
        let image = injected::sidecar_image(profile, self.view, &matched.values)?;
        let own = Version::of_image(image)?;
        let Installation::At { service, .. } = self.installation(matched) else {
            return None;
        };
        let newer = *self.around.versions.get(&service)?;
        (own.behind(newer) >= limit).then(|| {
            let message = sentence::older_proxy(self.view, matched, (own, newer));
            (Cause::OlderProxy, message)
        })
    }
}

#[cfg(test)]
mod tests;
