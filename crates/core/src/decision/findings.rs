//! What gate and check have in common: what blocks a pod, in the order of the configuration, and
//! what only warns.

use crate::injector::profile::Mode;
use crate::message::{self, refusal};
use crate::readiness::Readiness;
use crate::view::pod::PodView;

use super::Decision;
use super::mark::Edit;
use super::reason::Reason;
use super::requirement::{Requirement, RuleMatch};
use super::verdict::Verdict;

/// Collects what blocks a pod.
pub(super) struct Findings<'r, 'a> {
    pub(super) pod: &'r PodView<'r>,
    pub(super) requirement: &'r Requirement<'a>,
    /// The first injector that blocks, in the order of the configuration: its sentence is the message.
    blocking: Option<(Verdict, Reason, &'a str, String)>,
    /// Others that block in the same way, for the end of the message.
    also_blocking: Vec<&'a str>,
    /// The first injector that would block, but for mode `warn`.
    warned: Option<(Reason, &'a str)>,
    warnings: Vec<String>,
}

impl<'r, 'a> Findings<'r, 'a> {
    /// Begins with the rules' own warnings, with opt-outs that are forbidden, and with values that an
    /// injector does not know. These are a firm refusal, whatever the pod holds: the injector would pass the pod by, so that it
    /// could never be admitted (case 25).
    pub(super) fn new(pod: &'r PodView<'r>, requirement: &'r Requirement<'a>) -> Self {
        let warnings = requirement.warnings.iter().filter_map(message::warning);
        let mut found = Self {
            pod,
            requirement,
            blocking: None,
            also_blocking: Vec::new(),
            warned: None,
            warnings: warnings.collect(),
        };
        for matched in &requirement.matches {
            let namespace = requirement.namespace;
            let (reason, message) = if matched.is_forbidden() {
                let message = refusal::opts_out(pod, namespace, matched);
                (Reason::OptOutForbidden, message)
            } else if matched.is_invalid() {
                let message = refusal::invalid(pod, namespace, matched);
                (Reason::InvalidValue, message)
            } else {
                continue;
            };
            found.add(matched, Verdict::Deny, reason, message);
        }
        found
    }

    /// Notes that an injector, or the copy that is meant, is not in the cluster; true if that is
    /// so. Gate and check say the same, or one of them would tell people for ever to fix a pod for
    /// an injector that is not there.
    pub(super) fn not_installed(
        &mut self,
        matched: &RuleMatch<'a>,
        readiness: &Readiness<'_>,
    ) -> bool {
        let (pod, namespace) = (self.pod, self.requirement.namespace);
        let (reason, message) = match readiness {
            Readiness::Usable(_) | Readiness::NotUsable(_) => return false,
            Readiness::NotInstalled => {
                let message = refusal::not_installed(pod, namespace, matched);
                (Reason::InjectorNotInstalled, message)
            }
            Readiness::NoInstance => {
                let message = refusal::no_instance(pod, namespace, matched);
                (Reason::NoInjectorForRevision, message)
            }
        };
        self.add(matched, Verdict::Defer, reason, message);
        true
    }

    pub(super) fn add(
        &mut self,
        matched: &RuleMatch<'a>,
        verdict: Verdict,
        reason: Reason,
        message: String,
    ) {
        let name = matched.name();
        if matched.mode() == Mode::Warn {
            let warning = message::would_refuse(matched.injector, &message);
            self.warnings.push(message::bounded(warning));
            self.warned.get_or_insert((reason, name));
            return;
        }
        match &self.blocking {
            None => self.blocking = Some((verdict, reason, name, message)),
            // That an injector is not ready yet is no news to an author who must correct the pod.
            Some((first, ..)) if *first == verdict => self.also_blocking.push(name),
            Some(_) => {}
        }
    }

    /// The decision; the arguments are for a pod that nothing blocks.
    pub(super) fn decision(self, verdict: Verdict, reason: Reason, mark: Edit) -> Decision<'a> {
        let matches = &self.requirement.matches;
        let required: Vec<&str> = matches.iter().map(RuleMatch::name).collect();
        let base = Decision {
            verdict,
            injector: required.first().copied(),
            required,
            warnings: self.warnings,
            mark,
            ..Decision::admit(reason)
        };
        if let Some((verdict, reason, injector, mut message)) = self.blocking {
            if !self.also_blocking.is_empty() {
                let names = self.also_blocking.join(", ");
                message.push_str(&message::also(verdict, &names));
            }
            return Decision {
                verdict,
                reason,
                injector: Some(injector),
                message: message::bounded(message),
                mark: Edit::Keep,
                ..base
            };
        }
        if let Some((reason, injector)) = self.warned {
            return Decision {
                verdict: Verdict::Warn,
                reason,
                injector: Some(injector),
                ..base
            };
        }
        if !matches.is_empty() {
            return base;
        }
        // An opt-out is a person's choice, and has a word of its own (case 26).
        let reason = if self.requirement.opt_outs.is_empty() {
            Reason::NotRequired
        } else {
            Reason::PodOptOut
        };
        Decision {
            verdict: Verdict::Admit,
            reason,
            ..base
        }
    }
}
