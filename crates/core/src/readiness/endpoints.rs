//! Endpoints of an injector: which are usable, and why the others are not (cases 40 to 47).
//!
//! A pure fold over slices and nodes: the same in any order of arrival.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

/// One EndpointSlice of a Service, as far as it matters here.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Slice {
    /// False for address type FQDN, whose endpoints do not count.
    pub counts: bool,
    /// Label `endpointslice.kubernetes.io/managed-by`, to make leftovers visible (case 46).
    pub managed_by: Option<Box<str>>,
    /// Null, missing and empty are the same (case 41).
    pub endpoints: Vec<Endpoint>,
}

/// One endpoint as a slice has it. A condition that is not there is `None`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Endpoint {
    /// Of any family.
    pub addresses: Vec<Box<str>>,
    /// The pod behind it, `namespace/name`, by which dual-stack slices are one (case 47).
    pub target: Option<Box<str>>,
    /// The node it is on; not there means "cannot tell", and it is kept (case 45).
    pub node: Option<Box<str>>,
    /// Condition `ready`; missing means ready (case 40).
    pub ready: Option<bool>,
    /// Condition `serving`; missing means serving.
    pub serving: Option<bool>,
    /// Condition `terminating`; missing means not.
    pub terminating: Option<bool>,
}

/// Whether an endpoint is usable, and why not. The first of a kind wins when slices contradict
/// each other about one endpoint (case 43).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum EndpointState {
    /// It counts.
    Usable,
    /// Its node is lost or gone.
    NodeLost(Box<str>),
    /// Condition `ready` is false.
    NotReady,
    /// Condition `serving` is false, although `ready` is true (case 44).
    NotServing,
    /// Condition `terminating` is true.
    Terminating,
}

impl fmt::Display for EndpointState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usable => f.write_str("usable"),
            Self::NodeLost(node) => write!(f, "on lost node {node}"),
            Self::NotReady => f.write_str("not ready"),
            Self::NotServing => f.write_str("not serving"),
            Self::Terminating => f.write_str("terminating"),
        }
    }
}

/// Which nodes look lost.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Nodes {
    lost: HashMap<Box<str>, bool>,
    lost_count: usize,
}

impl Nodes {
    /// Adds or changes a node; true if that changed anything.
    pub fn set(&mut self, name: &str, is_lost: bool) -> bool {
        let before = self.lost.insert(name.into(), is_lost);
        self.lost_count -= usize::from(before == Some(true));
        self.lost_count += usize::from(is_lost);
        before != Some(is_lost)
    }

    /// Takes a node away; true if it was there.
    pub fn remove(&mut self, name: &str) -> bool {
        let before = self.lost.remove(name);
        self.lost_count -= usize::from(before == Some(true));
        before.is_some()
    }

    /// How many exist, and how many of them look lost.
    pub fn counts(&self) -> (usize, usize) {
        (self.lost.len(), self.lost_count)
    }

    /// Whether more than half look lost. Then the control plane is blind rather than the nodes
    /// gone, and meshgate ignores the rule: else one cut link would refuse every pod.
    pub fn rule_rests(&self) -> bool {
        self.lost_count * 2 > self.lost.len()
    }

    /// Whether endpoints on this node do not count: it looks lost, or is gone. Where no node is
    /// known at all, nodes are not looked at.
    pub fn is_lost(&self, name: &str) -> bool {
        !self.lost.is_empty() && !self.rule_rests() && self.lost.get(name).copied().unwrap_or(true)
    }
}

impl Endpoint {
    /// Usable = ready is not false, serving is not false, terminating is not true, and the node
    /// is not lost.
    pub fn state(&self, nodes: &Nodes) -> EndpointState {
        if self.terminating == Some(true) {
            EndpointState::Terminating
        } else if self.ready == Some(false) {
            EndpointState::NotReady
        } else if self.serving == Some(false) {
            EndpointState::NotServing
        } else {
            match &self.node {
                Some(node) if nodes.is_lost(node) => EndpointState::NodeLost(node.clone()),
                Some(_) | None => EndpointState::Usable,
            }
        }
    }

    /// What makes two entries the same endpoint: a common address, or the pod behind them.
    fn identities(&self) -> impl Iterator<Item = (bool, &str)> {
        let addresses = self.addresses.iter().map(|address| (false, &**address));
        addresses.chain(self.target.iter().map(|target| (true, &**target)))
    }
}

/// What was counted for one Service.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Every endpoint once, by name.
    pub endpoints: Vec<Counted>,
    /// Slices that do not count, of address type FQDN.
    pub ignored_slices: usize,
    usable: usize,
    others: String,
}

/// One endpoint of a tally.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Counted {
    /// The pod behind it (`namespace/name`), else an address.
    pub name: Box<str>,
    /// Whether it counts.
    pub state: EndpointState,
}

// Every review asks for these: they are worked out once per change, as there may be many endpoints.
impl Tally {
    /// How many are usable.
    pub fn usable(&self) -> usize {
        self.usable
    }

    /// How many there are.
    pub fn total(&self) -> usize {
        self.endpoints.len()
    }

    /// Why the others are not usable: `1 not ready, 2 on lost nodes a, b`. Empty if all are.
    pub fn others(&self) -> &str {
        &self.others
    }
}

fn others(endpoints: &[Counted]) -> String {
    let mut counts: BTreeMap<&EndpointState, usize> = BTreeMap::new();
    let mut lost: Vec<&str> = Vec::new();
    for one in endpoints {
        match &one.state {
            EndpointState::Usable => {}
            EndpointState::NodeLost(node) => lost.push(node),
            state @ (EndpointState::NotReady
            | EndpointState::NotServing
            | EndpointState::Terminating) => *counts.entry(state).or_default() += 1,
        }
    }
    let counts = counts.iter();
    let mut parts: Vec<String> = counts
        .map(|(state, count)| format!("{count} {state}"))
        .collect();
    if !lost.is_empty() {
        let count = lost.len();
        lost.sort_unstable();
        lost.dedup();
        let noun = if lost.len() == 1 { "node" } else { "nodes" };
        let names = lost.iter().take(3).copied().collect::<Vec<_>>().join(", ");
        let more = if lost.len() > 3 { ", …" } else { "" };
        parts.push(format!("{count} on lost {noun} {names}{more}"));
    }
    parts.join(", ")
}

/// Counts the endpoints of a Service: the union of its slices, each endpoint once.
pub fn tally<'s>(slices: impl IntoIterator<Item = &'s Slice>, nodes: &Nodes) -> Tally {
    let mut tally = Tally::default();
    let mut entries: Vec<&Endpoint> = Vec::new();
    for slice in slices {
        if slice.counts {
            entries.extend(&slice.endpoints);
        } else {
            tally.ignored_slices += 1;
        }
    }
    let mut groups = group(&entries);
    let mut best: Vec<Option<Counted>> = vec![None; entries.len()];
    for (index, entry) in entries.iter().enumerate() {
        let target = entry.target.as_ref();
        let name = target.or_else(|| entry.addresses.iter().min());
        let name = name.cloned().unwrap_or_default();
        let state = entry.state(nodes);
        match &mut best[groups.root(index)] {
            none @ None => *none = Some(Counted { name, state }),
            Some(counted) => {
                // A pod's name says more than an address.
                if (target.is_none(), &name) < (!counted.name.contains('/'), &counted.name) {
                    counted.name = name;
                }
                if state < counted.state {
                    counted.state = state;
                }
            }
        }
    }
    tally.endpoints = best.into_iter().flatten().collect();
    tally.endpoints.sort_unstable();
    let usable = |one: &&Counted| one.state == EndpointState::Usable;
    tally.usable = tally.endpoints.iter().filter(usable).count();
    tally.others = others(&tally.endpoints);
    tally
}

/// Brings those with a common address or pod together.
fn group(entries: &[&Endpoint]) -> Groups {
    let mut groups = Groups {
        parents: (0..entries.len()).collect(),
        sizes: vec![1; entries.len()],
    };
    let mut first_with: HashMap<(bool, &str), usize> = HashMap::new();
    for (index, entry) in entries.iter().enumerate() {
        for identity in entry.identities() {
            let other = *first_with.entry(identity).or_insert(index);
            groups.join(index, other);
        }
    }
    groups
}

/// Disjoint sets, by size and with path halving: whatever the order, a step takes next to constant time.
struct Groups {
    parents: Vec<usize>,
    sizes: Vec<usize>,
}

impl Groups {
    /// The number of a group, by one of its members.
    fn root(&mut self, mut of: usize) -> usize {
        while self.parents[of] != of {
            self.parents[of] = self.parents[self.parents[of]];
            of = self.parents[of];
        }
        of
    }

    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.root(a), self.root(b));
        if a != b {
            let is_less = self.sizes[a] < self.sizes[b];
            let (small, large) = if is_less { (a, b) } else { (b, a) };
            self.parents[small] = large;
            self.sizes[large] += self.sizes[small];
        }
    }
}
