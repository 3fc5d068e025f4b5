//! The workloads of the cluster: pods, and the objects whose controllers make them. Small projections, never
//! whole objects: a leader holds those of the largest clusters.
//!
//! PURE: events in, answers out; the time is passed in. Texts that many objects have are there once.

mod progress;
mod slim;
mod strings;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;

use meshgate_core::injector::Injectors;

pub use self::progress::Progress;
pub use self::slim::{Kind, shrunk};

use self::slim::Slim;
use self::strings::Strings;

/// `metadata.uid`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Uid(pub u128);

/// As API servers write it.
impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |from: u32, digits: u32| (self.0 >> from) & ((1 << (4 * digits)) - 1);
        let (a, b, c) = (part(96, 8), part(80, 4), part(64, 4));
        write!(
            f,
            "{a:08x}-{b:04x}-{c:04x}-{:04x}-{:012x}",
            part(48, 4),
            part(0, 12)
        )
    }
}

/// An object whose controller makes pods.
#[derive(Debug, Clone)]
pub struct Owner {
    pub kind: Kind,
    pub namespace: Arc<str>,
    pub name: Box<str>,
    /// `metadata.resourceVersion`.
    pub version: Box<str>,
    /// What rules read of its pods, as JSON of a pod. Empty while it wants no pod.
    pub template: Arc<str>,
    pub progress: Progress,
    /// When meshgate last made its controller try.
    pub woken: Option<Timestamp>,
    /// Since when its controller says that it cannot create pods. Only some controllers say so.
    pub failing_since: Option<Timestamp>,
    /// What its controller says about that.
    pub failure: Option<Arc<str>>,
    /// When the numbers of its pods changed last, or when this process saw it first.
    pub moved: Timestamp,
    round: u32,
}

/// A pod that neither ended nor is being deleted counts; the others are not kept.
#[derive(Debug, Clone)]
pub struct Pod {
    /// Its controller.
    pub owner: Option<Uid>,
    pub namespace: Arc<str>,
    pub name: Box<str>,
    /// What rules read of it, as JSON of a pod.
    pub facts: Arc<str>,
    pub created: Timestamp,
    round: u32,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Workloads {
    injectors: Arc<Injectors>,
    owners: HashMap<Uid, Owner>,
    pods: HashMap<Uid, Pod>,
    /// Owners that have fewer pods than they want.
    short: HashSet<Uid>,
    strings: Strings,
    /// Per kind: how many lists were begun. What the last one does not name goes when it is complete, so that
    /// a list needs no second copy.
    rounds: [u32; Kind::ALL.len()],
    listed: [bool; Kind::ALL.len()],
}

impl Workloads {
    /// Before the first list.
    pub fn new(injectors: Arc<Injectors>) -> Self {
        Self {
            injectors,
            ..Self::default()
        }
    }

    /// Whether each kind was listed once.
    pub fn is_listed(&self) -> bool {
        self.listed.iter().all(|listed| *listed)
    }

    /// A list of a kind begins.
    pub fn begin(&mut self, kind: Kind) {
        self.rounds[kind as usize] += 1;
    }

    /// The list is complete: what it did not name is gone.
    pub fn complete(&mut self, kind: Kind) {
        let round = self.rounds[kind as usize];
        if kind == Kind::Pod {
            self.pods.retain(|_, pod| pod.round == round);
        } else {
            self.owners
                .retain(|_, owner| owner.kind != kind || owner.round == round);
            self.short.retain(|uid| self.owners.contains_key(uid));
        }
        self.listed[kind as usize] = true;
        self.strings.sweep();
    }

    /// Adds an object or replaces it. Returns its UID if it is a pod that was not there before.
    ///
    /// # Errors
    /// It is not what its kind looks like.
    pub fn put(&mut self, kind: Kind, json: &str, now: Timestamp) -> Result<Option<Uid>, String> {
        let slim = Slim::read(json)?;
        if kind == Kind::Pod {
            return self.put_pod(&slim, json);
        }
        let uid = slim.uid()?;
        let progress = slim.progress(kind);
        let template = match &slim.spec.template {
            Some(template) if progress.wanted > 0 => slim::facts(template.get(), &self.injectors)?,
            Some(_) | None => String::new(),
        };
        let before = self.owners.get(&uid);
        let moved = before.filter(|before| before.progress == progress);
        let failure = slim.failure();
        let owner = Owner {
            kind,
            namespace: self.strings.shared(&slim.metadata.namespace),
            name: slim.metadata.name.as_str().into(),
            version: slim.metadata.resource_version.as_str().into(),
            template: self.strings.shared(&template),
            progress,
            woken: slim.woken(),
            failing_since: failure.and_then(|failure| failure.since()),
            failure: failure.map(|failure| self.strings.shared(&failure.message)),
            moved: moved.map_or(now, |before| before.moved),
            round: self.rounds[kind as usize],
        };
        if progress.is_short() {
            self.short.insert(uid);
        } else {
            self.short.remove(&uid);
        }
        self.owners.insert(uid, owner);
        Ok(None)
    }

    fn put_pod(&mut self, slim: &Slim, json: &str) -> Result<Option<Uid>, String> {
        let uid = slim.uid()?;
        if slim.is_over() {
            self.pods.remove(&uid);
            return Ok(None);
        }
        let facts = slim::facts(json, &self.injectors)?;
        let pod = Pod {
            owner: slim.owner(),
            namespace: self.strings.shared(&slim.metadata.namespace),
            name: slim.metadata.name.as_str().into(),
            facts: self.strings.shared(&facts),
            created: slim.created(),
            round: self.rounds[Kind::Pod as usize],
        };
        Ok(self.pods.insert(uid, pod).is_none().then_some(uid))
    }

    /// Removes an object, if it is there.
    ///
    /// # Errors
    /// It has no UID.
    pub fn remove(&mut self, kind: Kind, json: &str) -> Result<(), String> {
        let uid = Slim::read(json)?.uid()?;
        if kind == Kind::Pod {
            self.pods.remove(&uid);
        } else {
            self.owners.remove(&uid);
            self.short.remove(&uid);
        }
        Ok(())
    }

    /// Owners that have fewer pods than they want.
    pub fn short(&self) -> impl Iterator<Item = (Uid, &Owner)> {
        let short = self.short.iter();
        short.filter_map(|uid| Some((*uid, self.owners.get(uid)?)))
    }

    pub fn owners(&self) -> impl Iterator<Item = (Uid, &Owner)> {
        self.owners.iter().map(|(uid, owner)| (*uid, owner))
    }

    pub fn owner(&self, uid: Uid) -> Option<&Owner> {
        self.owners.get(&uid)
    }

    pub fn pods(&self) -> impl Iterator<Item = &Pod> {
        self.pods.values()
    }

    pub fn pod(&self, uid: Uid) -> Option<&Pod> {
        self.pods.get(&uid)
    }
}

#[cfg(test)]
mod tests;
