//! An update of a pod that gives its sidecar another image.
//!
//! Rules play no part: a user may change labels and annotations of a pod at any time. Only a container whose
//! image was allowed before counts: that is what the injector put there.

use crate::injector::profile::{Mode, begins_with_one};
use crate::injector::{Injector, Injectors};
use crate::message::{self, refusal};
use crate::view::pod::{Container, PodView};

use super::Decision;
use super::reason::Reason;
use super::verdict::Verdict;

/// Decides on an update of a pod that no exemption covers, in a namespace that is not excluded. `is_waived`
/// says of an injector that its enforcement is suspended.
pub fn decide<'a>(
    (old, new): (&PodView<'_>, &PodView<'_>),
    namespace: &str,
    injectors: &'a Injectors,
    is_waived: impl Fn(&str) -> bool,
) -> Decision<'a> {
    let mut decision = Decision::admit(Reason::NotAPodCreate);
    for injector in injectors.iter().filter(|one| one.is_looked_at()) {
        let profile = &injector.profile;
        if !profile.namespaces.contains(namespace) {
            continue;
        }
        let Some(message) = replaced(injector, (old, new), namespace) else {
            continue;
        };
        decision.injector = Some(&profile.name);
        decision.reason = Reason::SidecarImage;
        if profile.mode == Mode::Enforce && !is_waived(&profile.name) {
            let message = message::bounded(message);
            return Decision {
                verdict: Verdict::Deny,
                message,
                ..decision
            };
        }
        decision.verdict = Verdict::Warn;
        let warning = message::would_refuse(injector, &message);
        decision.warnings.push(message::bounded(warning));
    }
    decision
}

/// The refusal, if a sidecar gets an image that it may not have.
fn replaced(
    injector: &Injector,
    (old, new): (&PodView<'_>, &PodView<'_>),
    namespace: &str,
) -> Option<String> {
    let limits = injector.profile.image_limits();
    limits.iter().find_map(|(name, images)| {
        let was_allowed = |now: &Container<'_>| {
            all(old).any(|old| old.name == now.name && begins_with_one(&old.image, images))
        };
        let is_replaced = |now: &&Container<'_>| {
            name.matches(&now.name) && !begins_with_one(&now.image, images) && was_allowed(now)
        };
        let container = all(new).find(is_replaced)?;
        Some(refusal::image_replaced(
            new,
            namespace,
            &injector.profile,
            (container, images),
        ))
    })
}

fn all<'v, 'p>(pod: &'v PodView<'p>) -> impl Iterator<Item = &'v Container<'p>> {
    pod.containers().iter().chain(pod.init_containers())
}
