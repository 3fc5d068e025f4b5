//! The model: Secrets, a registration, processes and replicas, each with what it saw some time ago.

use super::*;
use crate::certs::swap::{Serving, Swap, Verdict, may_swap};

/// A Secret, and the version that it has.
#[derive(Debug, Clone)]
struct Secret<T> {
    version: u64,
    held: Held<T>,
}

impl<T> Secret<T> {
    /// A write by who has seen this version of it; nothing happens if it has changed since.
    fn write(&mut self, seen: u64, held: T, version: u64) {
        if self.version == seen {
            *self = Self {
                version,
                held: Held::Good(held),
            };
        }
    }
}

/// What a process saw, and when.
#[derive(Debug, Clone)]
struct View {
    at: Timestamp,
    versions: (u64, u64),
    entries: Entries,
    observed: Observed,
}

/// For how long a controller has seen the registration as it is.
#[derive(Debug, Clone, Default)]
struct Steady(Option<(usize, Timestamp)>);

impl Steady {
    fn note(&mut self, revision: usize, now: Timestamp) -> Duration {
        match self.0 {
            Some((seen, since)) if seen == revision => ahead(since, now),
            _ => {
                self.0 = Some((revision, now));
                Duration::ZERO
            }
        }
    }
}

#[derive(Debug, Default)]
struct Process {
    view: Option<View>,
    steady: Steady,
}

#[derive(Debug, Default)]
struct Replica {
    serving: Option<HeldLeaf>,
    steady: Steady,
}

type Entries = [Option<Vec<Ca>>; ENTRIES];

#[derive(Debug)]
pub(super) struct World {
    lag: Duration,
    /// Another maker makes the certificates.
    is_given: bool,
    now: Timestamp,
    versions: u64,
    ca: Secret<HeldCa>,
    leaf: Secret<HeldLeaf>,
    /// What was registered from when on; the last is what is.
    registered: Vec<(Timestamp, Entries)>,
    processes: [Process; 3],
    replicas: [Replica; 3],
}

impl World {
    pub(super) fn new(is_given: bool, lag: Duration) -> Self {
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        Self {
            lag,
            is_given,
            now,
            versions: 2,
            ca: Secret {
                version: 1,
                held: Held::Missing,
            },
            leaf: Secret {
                version: 2,
                held: Held::Missing,
            },
            registered: vec![(now, [None, None])],
            processes: Default::default(),
            replicas: Default::default(),
        }
    }

    fn version(&mut self) -> u64 {
        self.versions += 1;
        self.versions
    }

    fn entries(&self) -> Vec<Vec<Ca>> {
        let (_, entries) = self.registered.last().unwrap();
        entries.iter().flatten().cloned().collect()
    }

    pub(super) fn happens(&mut self, event: &Event) {
        match *event {
            Event::Look(process) => self.look(process),
            Event::Act(process) => self.act(process),
            Event::Register(process, entry) => self.register(process, entry),
            Event::Crash(process) => self.processes[process] = Process::default(),
            Event::Reload(replica) => self.reload(replica),
            Event::Restart(replica) => self.replicas[replica] = Replica::default(),
            Event::Seconds(seconds) => self.pass(Duration::from_secs(seconds)),
            Event::Days => self.pass_days(),
            Event::DeleteCa if self.is_installed() => self.break_ca(Held::Missing),
            Event::DeleteLeaf if self.is_installed() => self.break_leaf(Held::Missing),
            Event::DamageCa if self.is_installed() => self.break_ca(damaged()),
            Event::DamageLeaf if self.is_installed() => self.break_leaf(damaged()),
            Event::Replace if self.is_settled() => self.replace(),
            Event::Replace
            | Event::DeleteCa
            | Event::DeleteLeaf
            | Event::DamageCa
            | Event::DamageLeaf => {}
        }
        self.check(event);
    }

    /// What people do to it counts from when it was whole for the first time.
    fn is_installed(&self) -> bool {
        self.entries().len() == ENTRIES
    }

    /// A maker that replaces a CA before the last one was taken up leaves no time for anything.
    fn is_settled(&self) -> bool {
        let Held::Good(leaf) = &self.leaf.held else {
            return true;
        };
        let mut replicas = self.replicas.iter();
        let serves = |one: &Replica| {
            one.serving
                .as_ref()
                .is_some_and(|own| own.issuer == leaf.issuer)
        };
        replicas.all(serves) && self.is_installed()
    }

    fn new_ca(&self, version: u64) -> Ca {
        Ca {
            der: version.to_string().into_bytes(),
            subject: "CN=meshgate".to_owned(),
            not_before: self.now - SignedDuration::from_hours(1),
            not_after: self.now + LIFETIMES.ca,
        }
    }

    fn replace(&mut self) {
        let version = self.version();
        let issuer = self.new_ca(version);
        let held = Held::Good(HeldLeaf {
            not_before: issuer.not_before,
            not_after: self.now + LIFETIMES.leaf,
            bundle: vec![issuer.clone()],
            issuer,
        });
        self.leaf = Secret { version, held };
    }

    fn break_ca(&mut self, held: Held<HeldCa>) {
        let version = self.version();
        self.ca = Secret { version, held };
    }

    fn break_leaf(&mut self, held: Held<HeldLeaf>) {
        let version = self.version();
        self.leaf = Secret { version, held };
    }

    fn look(&mut self, process: usize) {
        let revision = self.registered.len();
        let unchanged_for = self.processes[process].steady.note(revision, self.now);
        let observed = Observed {
            ca: self.ca.held.clone(),
            leaf: self.leaf.held.clone(),
            registered: Registered {
                entries: self.entries().into_iter().map(Some).collect(),
                unchanged_for,
            },
            lifetimes: LIFETIMES,
        };
        self.processes[process].view = Some(View {
            at: self.now,
            versions: (self.ca.version, self.leaf.version),
            entries: self.registered.last().unwrap().1.clone(),
            observed,
        });
    }

    fn act(&mut self, process: usize) {
        let Some(view) = self.processes[process].view.clone() else {
            return;
        };
        let version = self.version();
        let (seen_ca, seen_leaf) = view.versions;
        let hour = SignedDuration::from_hours(1);
        match next(&view.observed, self.now) {
            Step::MakeCa { keep, .. } => {
                let current = self.new_ca(version);
                let bundle = [vec![current.clone()], keep].concat();
                self.ca.write(seen_ca, HeldCa { current, bundle }, version);
            }
            Step::KeepCas { bundle } => {
                if let Held::Good(ca) = view.observed.ca {
                    let ca = HeldCa { bundle, ..ca };
                    self.ca.write(seen_ca, ca, version);
                }
            }
            Step::IssueLeaf {
                lifetime, bundle, ..
            } => {
                if let Held::Good(ca) = view.observed.ca {
                    let leaf = HeldLeaf {
                        not_before: self.now - hour,
                        not_after: self.now + lifetime,
                        issuer: ca.current,
                        bundle,
                    };
                    self.leaf.write(seen_leaf, leaf, version);
                }
            }
            Step::KeepLeaf { bundle } => {
                if let Held::Good(leaf) = view.observed.leaf {
                    let leaf = HeldLeaf { bundle, ..leaf };
                    self.leaf.write(seen_leaf, leaf, version);
                }
            }
            Step::Wait { .. } | Step::Rest { .. } => {}
        }
    }

    pub(super) fn register(&mut self, process: usize, entry: usize) {
        let Some(view) = &self.processes[process].view else {
            return;
        };
        let bundle = match self.is_given {
            true => given_trust(&view.observed, view.at),
            false => trusted(&view.observed, view.at),
        };
        let is_fresh = ahead(view.at, self.now) <= CLAIM;
        let (_, mut entries) = self.registered.last().unwrap().clone();
        // It is written for the resourceVersion that was seen.
        let is_seen = entries[entry] == view.entries[entry];
        if bundle.is_empty()
            || !is_fresh
            || !is_seen
            || view.entries[entry].as_ref() == Some(&bundle)
        {
            return;
        }
        entries[entry] = Some(bundle);
        self.registered.push((self.now, entries));
    }

    fn reload(&mut self, replica: usize) {
        let Held::Good(new) = &self.leaf.held else {
            return;
        };
        let revision = self.registered.len();
        let entries = self.entries();
        let own = &mut self.replicas[replica];
        let unchanged_for = own.steady.note(revision, self.now);
        let is_same =
            |leaf: &HeldLeaf| leaf.not_after == new.not_after && leaf.issuer == new.issuer;
        if new.not_after < self.now || own.serving.as_ref().is_some_and(is_same) {
            return;
        }
        let verdict = |bundle: &Vec<Ca>| {
            let current = own.serving.as_ref();
            let current = current.is_some_and(|leaf| verifies(bundle, leaf, self.now));
            let new_one = verifies(bundle, new, self.now);
            let is_of_same = own
                .serving
                .as_ref()
                .is_some_and(|leaf| leaf.issuer == new.issuer);
            Verdict {
                current,
                new: new_one,
                same: current && new_one && is_of_same,
            }
        };
        let verdicts: Vec<Verdict> = entries.iter().map(verdict).collect();
        let serving = match own.serving {
            Some(_) => Serving::Leaf,
            None => Serving::Nothing,
        };
        if may_swap(&verdicts, serving, unchanged_for) == Swap::Now {
            own.serving = Some(new.clone());
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    fn pass_days(&mut self) {
        let soon = self.now + Duration::from_secs(20 * DAY);
        let served = self.replicas.iter().filter_map(|one| one.serving.as_ref());
        let has_time = |leaf: &HeldLeaf| leaf.not_after > soon;
        let is_whole = match (&self.ca.held, &self.leaf.held) {
            (Held::Good(ca), Held::Good(leaf)) => ca.current.not_after > soon && has_time(leaf),
            (_, Held::Good(leaf)) => self.is_given && has_time(leaf),
            _ => false,
        };
        if is_whole && served.into_iter().all(has_time) {
            self.pass(Duration::from_secs(10 * DAY));
        }
    }

    /// Every caller, whatever it goes by, can verify what every replica serves.
    fn check(&self, event: &Event) {
        let mut replaced = None;
        for (at, entries) in self.registered.iter().rev() {
            if replaced.is_some_and(|at| at + self.lag <= self.now) {
                break;
            }
            replaced = Some(*at);
            for bundle in entries.iter().flatten() {
                for (name, replica) in self.replicas.iter().enumerate() {
                    let Some(leaf) = &replica.serving else {
                        continue;
                    };
                    assert!(
                        verifies(bundle, leaf, self.now),
                        "replica {name} after {event:?}: {leaf:?} by {bundle:?}"
                    );
                }
            }
        }
    }

    /// One process, undisturbed, brings all to rest.
    pub(super) fn converges(&mut self) {
        self.processes = Default::default();
        for _ in 0..60 {
            self.happens(&Event::Look(0));
            for entry in 0..ENTRIES {
                self.happens(&Event::Register(0, entry));
            }
            self.happens(&Event::Act(0));
            for replica in 0..3 {
                self.happens(&Event::Reload(replica));
            }
            self.happens(&Event::Seconds(1));
        }
        self.happens(&Event::Look(0));
        let view = self.processes[0].view.clone().unwrap();
        let step = next(&view.observed, self.now);
        assert!(matches!(step, Step::Rest { .. }), "{step:?}");
        let bundle = trusted(&view.observed, self.now);
        assert_eq!(self.entries(), vec![bundle; ENTRIES]);
        let Held::Good(leaf) = &self.leaf.held else {
            panic!("no leaf");
        };
        for replica in &self.replicas {
            let serving = replica.serving.as_ref().map(|own| own.not_after);
            assert_eq!(serving, Some(leaf.not_after));
        }
    }
}

/// As `controllers::certificates::given` has it.
fn given_trust(observed: &Observed, at: Timestamp) -> Vec<Ca> {
    let Held::Good(leaf) = &observed.leaf else {
        return Vec::new();
    };
    let registered = observed.registered.cas().filter(|ca| !ca.has_expired(at));
    distinct(leaf.bundle.iter().chain(registered).cloned())
}

fn damaged<T>() -> Held<T> {
    Held::Unusable("damaged".to_owned())
}

fn verifies(bundle: &[Ca], leaf: &HeldLeaf, now: Timestamp) -> bool {
    let is_valid = |from, until| from <= now && now <= until;
    bundle.contains(&leaf.issuer)
        && is_valid(leaf.issuer.not_before, leaf.issuer.not_after)
        && is_valid(leaf.not_before, leaf.not_after)
}
