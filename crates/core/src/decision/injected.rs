//! Whether a pod holds an injector's sidecar. Only containers count, never marks or labels that
//! any user can write (case 23).

use crate::injector::profile::{ContainerName, InjectedSet, Profile};
use crate::injector::values::KeyValues;
use crate::view::pod::{Container, PodView};

/// What is wrong with a pod, from nearly right to all wrong: a refusal tells of the set that comes
/// closest, since that is the one that the injector meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Flaw<'p> {
    /// The sidecar is there (if the set wants one); these init containers are not. Of several
    /// sets that lack only these, all are named.
    InitMissing(Vec<&'p str>),
    /// The sidecar's image does not begin as the set wants: container, image, set.
    Image(String, String, &'p InjectedSet),
    /// The sidecar's image is a placeholder: container, image.
    Placeholder(String, &'p str),
    /// The sidecar is an init container that ends: its name.
    NotRestartable(String),
    /// No container of that name. Of several sets the last that is for such pods only, else the
    /// first; `None` if no set applies to this pod.
    Missing(Option<&'p InjectedSet>),
}

impl Flaw<'_> {
    fn distance(&self) -> u8 {
        match self {
            Self::InitMissing(_) => 0,
            Self::Image(..) => 1,
            Self::Placeholder(..) => 2,
            Self::NotRestartable(_) => 3,
            Self::Missing(_) => 4,
        }
    }
}

/// The sets that apply to a pod with these values, in the order of the profile. Vault, for one, leaves only an
/// init container where the pod asks for that (hashicorp/vault-k8s, case 39).
pub(crate) fn applicable<'p>(
    profile: &'p Profile,
    values: &KeyValues<'_>,
) -> impl Iterator<Item = &'p InjectedSet> {
    let applies = move |set: &&InjectedSet| set.when.iter().all(|term| term.holds(values));
    profile.sets().filter(applies)
}

/// What is wrong with a pod; `None` if it holds all of one set.
pub fn flaw<'p>(
    profile: &'p Profile,
    pod: &PodView<'_>,
    values: &KeyValues<'_>,
) -> Option<Flaw<'p>> {
    let mut closest: Option<Flaw<'p>> = None;
    for set in applicable(profile, values) {
        let flaw = flaw_in(set, pod)?;
        closest = Some(match (closest, flaw) {
            (None, flaw) => flaw,
            (Some(Flaw::InitMissing(mut names)), Flaw::InitMissing(more)) => {
                names.extend(more);
                Flaw::InitMissing(names)
            }
            (Some(before), flaw) if flaw.distance() < before.distance() => flaw,
            (Some(Flaw::Missing(_)), Flaw::Missing(_)) if !set.when.is_empty() => {
                Flaw::Missing(Some(set))
            }
            (Some(before), _) => before,
        });
    }
    Some(closest.unwrap_or(Flaw::Missing(None)))
}

/// What is wrong with one set, `None` if all of it is there.
fn flaw_in<'p>(set: &'p InjectedSet, pod: &PodView<'_>) -> Option<Flaw<'p>> {
    if let Some(flaw) = sidecar_flaw(set, pod) {
        return Some(flaw);
    }
    let is_there = |name: &str| pod.init_containers().iter().any(|c| &*c.name == name);
    let names = set.init.iter().map(String::as_str);
    let missing: Vec<&str> = names.filter(|name| !is_there(name)).collect();
    if missing.is_empty() {
        return None;
    }
    Some(match &set.sidecar {
        Some(_) => Flaw::InitMissing(missing),
        None => Flaw::Missing(Some(set)),
    })
}

/// What is wrong with the sidecar of a set. A native one counts as well as a plain one, whatever
/// the profile's author thought of: the injector's own settings choose (case 36).
fn sidecar_flaw<'p>(set: &'p InjectedSet, pod: &PodView<'_>) -> Option<Flaw<'p>> {
    let wanted = set.sidecar.as_ref()?;
    let mut inits = pod.init_containers().iter();
    // One container with a real image suffices; a placeholder is none (case 37).
    let (mut foreign, mut held) = (None, None);
    for container in running(wanted, pod) {
        let mut placeholders = set.not_image.iter();
        let (name, image) = (container.name.to_string(), &*container.image);
        match placeholders.find(|placeholder| **placeholder == *image) {
            Some(image) => held = Some(Flaw::Placeholder(name, image)),
            None if set.allows(image) => return None,
            None => foreign = Some(Flaw::Image(name, image.to_owned(), set)),
        }
    }
    let mut ends = || {
        let native = inits.find(|one| wanted.matches(&one.name))?;
        Some(Flaw::NotRestartable(native.name.to_string()))
    };
    foreign
        .or(held)
        .or_else(&mut ends)
        .or(Some(Flaw::Missing(Some(set))))
}

/// The containers of a name that run beside the others.
fn running<'v, 'p>(
    name: &'v ContainerName,
    pod: &'v PodView<'p>,
) -> impl Iterator<Item = &'v Container<'p>> {
    let inits = pod.init_containers().iter();
    let all = pod.containers().iter();
    all.chain(inits.filter(|one| one.restarts_always()))
        .filter(|one| name.matches(&one.name))
}

/// The image of the sidecar, if the pod has one.
pub(crate) fn sidecar_image<'v>(
    profile: &'v Profile,
    pod: &'v PodView<'_>,
    values: &KeyValues<'_>,
) -> Option<&'v str> {
    let mut names = applicable(profile, values).filter_map(|set| set.sidecar.as_ref());
    let sidecar = names.find_map(|name| running(name, pod).next())?;
    Some(&sidecar.image)
}

#[cfg(test)]
#[path = "injected_tests.rs"]
mod tests;
