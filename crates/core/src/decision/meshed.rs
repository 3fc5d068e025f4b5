//! Whether a pod holds an injector's sidecar. Only containers count, never marks or labels that
//! anybody can write (case 23).

use crate::injector::keys::Marks;
use crate::injector::profile::{MeshedSet, Profile};

use super::pod::{Container, PodView};

/// Whether a pod holds the sidecar, or what is wrong in the set that comes closest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Meshed<'p> {
    /// All of one set is there.
    Yes,
    /// Not.
    No(Flaw<'p>),
}

/// What is wrong, from nearly right to all wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Flaw<'p> {
    /// The sidecar is there (if the set wants one); these init containers are not. Of several
    /// sets that lack only these, all are named.
    InitMissing(Vec<&'p str>),
    /// The sidecar's image is a placeholder: container, image.
    Placeholder(String, &'p str),
    /// The sidecar is an init container that ends: its name.
    NotRestartable(String),
    /// No container of that name. Of several sets the last that is for such pods only, else the
    /// first; `None` if no set applies to this pod.
    Missing(Option<&'p MeshedSet>),
}

impl Flaw<'_> {
    fn distance(&self) -> u8 {
        match self {
            Self::InitMissing(_) => 0,
            Self::Placeholder(..) => 1,
            Self::NotRestartable(_) => 2,
            Self::Missing(_) => 3,
        }
    }
}

/// The sets that apply to a pod with these marks, in the order of the profile.
pub fn applicable<'p>(
    profile: &'p Profile,
    marks: &Marks<'_>,
) -> impl Iterator<Item = &'p MeshedSet> {
    let applies = move |set: &&MeshedSet| {
        profile.is_on(set.option.as_deref()) && set.when.iter().all(|term| term.holds(marks))
    };
    profile.meshed.iter().filter(applies)
}

/// Judges the containers of a pod.
pub fn of<'p>(profile: &'p Profile, pod: &PodView<'_>, marks: &Marks<'_>) -> Meshed<'p> {
    let mut closest: Option<Flaw<'p>> = None;
    for set in applicable(profile, marks) {
        let Some(flaw) = flaw(set, pod) else {
            return Meshed::Yes;
        };
        closest = Some(match (closest.take(), flaw) {
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
    Meshed::No(closest.unwrap_or(Flaw::Missing(None)))
}

/// What is wrong with one set, `None` if all of it is there.
fn flaw<'p>(set: &'p MeshedSet, pod: &PodView<'_>) -> Option<Flaw<'p>> {
    if let Some(flaw) = sidecar_flaw(set, pod) {
        return Some(flaw);
    }
    let is_there = |name: &&String| pod.init_containers().iter().any(|c| *c.name == ***name);
    let missing: Vec<&str> = set
        .init
        .iter()
        .filter(|name| !is_there(name))
        .map(String::as_str)
        .collect();
    match (missing.is_empty(), &set.sidecar) {
        (true, _) => None,
        (false, Some(_)) => Some(Flaw::InitMissing(missing)),
        (false, None) => Some(Flaw::Missing(Some(set))),
    }
}

fn sidecar_flaw<'p>(set: &'p MeshedSet, pod: &PodView<'_>) -> Option<Flaw<'p>> {
    let wanted = set.sidecar.as_ref()?;
    let is_meant = |container: &&Container<'_>| wanted.matches(&container.name);
    let placeholder = |container: &Container<'_>| {
        set.not_image
            .iter()
            .find(|image| **image == *container.image)
    };
    let plain = pod.containers().iter().filter(is_meant);
    let native = pod.init_containers().iter().filter(is_meant);
    let running = plain.chain(
        native
            .clone()
            .filter(|container| container.restarts_always()),
    );
    let mut held_place = None;
    for container in running {
        match placeholder(container) {
            None => return None,
            Some(image) => held_place = Some(Flaw::Placeholder(container.name.to_string(), image)),
        }
    }
    let ends = native
        .into_iter()
        .next()
        .map(|c| Flaw::NotRestartable(c.name.to_string()));
    Some(held_place.or(ends).unwrap_or(Flaw::Missing(Some(set))))
}

#[cfg(test)]
#[path = "meshed_tests.rs"]
mod tests;
