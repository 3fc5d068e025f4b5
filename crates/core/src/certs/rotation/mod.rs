//! The next step in the life of meshgate's CA and of its serving certificate ("leaf"), from what the
//! two Secrets hold and what is registered. Any number of processes may ask after every step. Each step
//! is safe to repeat, to lose, and to take on an old observation.
//!
//! The order of a change of CAs (cases 49 and 50):
//!
//! 1. the leader writes the CA's Secret: the new CA in front, every older valid one behind it;
//! 2. the registration controller registers that bundle (see [`trusted`]);
//! 3. once every entry that calls meshgate has had the new CA for [`MARGIN`], it issues the leaf;
//! 4. each replica serves the new leaf once the registered bundle verifies it ([`super::swap`]);
//! 5. an older CA leaves the bundle when it has expired: no leaf outlives the CA that issued it.

mod due;
#[cfg(test)]
mod interleavings_tests;
#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;

use super::bundle::{Ca, MOST, distinct};

use self::due::{Life, ahead};

/// API servers read webhook configurations from caches of their own. After this time, a change is in
/// force in all of them.
pub const MARGIN: Duration = Duration::from_secs(5);

/// Certificates of meshgate begin this much before they are issued: a node's clock may be behind.
pub const BACKDATED: Duration = Duration::from_secs(60 * 60);

/// The content of one of the Secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Held<T> {
    /// There is no such Secret.
    Missing,
    /// It is damaged, half written or not meshgate's: which key, and the expected content.
    Unusable(String),
    /// Its content can be used; it may have expired.
    Good(T),
}

/// The content of the CA's Secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldCa {
    /// The CA that issues.
    pub current: Ca,
    /// All CAs in `ca.crt`.
    pub bundle: Vec<Ca>,
}

/// The content of the leaf's Secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldLeaf {
    /// The first second at which it is valid.
    pub not_before: Timestamp,
    /// The last second at which it is valid.
    pub not_after: Timestamp,
    /// The CA that issued it.
    pub issuer: Ca,
    /// All CAs in `ca.crt`.
    pub bundle: Vec<Ca>,
}

/// What callers trust: the `caBundle` of each webhook entry that calls meshgate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Registered {
    /// `None` for an entry without a bundle: the API server then uses its system's CAs.
    pub entries: Vec<Option<Vec<Ca>>>,
    /// How long this process has seen the same bundles.
    pub unchanged_for: Duration,
}

impl Registered {
    /// Whether every caller trusts this CA.
    fn trusts(&self, ca: &Ca) -> bool {
        let mut bundles = self.entries.iter().flatten();
        bundles.all(|bundle| bundle.contains(ca))
    }

    fn cas(&self) -> impl Iterator<Item = &Ca> {
        self.entries.iter().flatten().flatten()
    }
}

/// Everything that the next step depends on.
#[derive(Debug, Clone)]
pub struct Observed {
    /// The Secret that only the leader reads.
    pub ca: Held<HeldCa>,
    /// The Secret that serving replicas read.
    pub leaf: Held<HeldLeaf>,
    /// The bundles that callers trust.
    pub registered: Registered,
    /// For new certificates.
    pub lifetimes: Lifetimes,
}

/// How long new certificates are valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lifetimes {
    /// Of a CA.
    pub ca: Duration,
    /// Of a leaf; shorter where its CA ends sooner.
    pub leaf: Duration,
}

/// One step. A Secret is created only where it is missing, and replaced only in the version that was
/// seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Make a CA and write its Secret, the new one in front of these.
    MakeCa {
        /// Older CAs that still verify a leaf.
        keep: Vec<Ca>,
        /// The reason for a new one.
        why: Why,
    },
    /// Write `ca.crt` of the CA's Secret.
    KeepCas {
        /// Its new content.
        bundle: Vec<Ca>,
    },
    /// Issue a leaf by the CA that its Secret holds, and write the leaf's Secret.
    IssueLeaf {
        /// From now to its end.
        lifetime: Duration,
        /// Its `ca.crt`.
        bundle: Vec<Ca>,
        /// The reason for a new one.
        why: Why,
    },
    /// Write `ca.crt` of the leaf's Secret.
    KeepLeaf {
        /// Its new content.
        bundle: Vec<Ca>,
    },
    /// Issue a leaf later, once callers trust the CA.
    Wait {
        /// The reason for a new one.
        why: Why,
    },
    /// Do nothing.
    Rest {
        /// The next time at which there is something to do, if nothing changes.
        until: Timestamp,
    },
}

/// Why the leader makes a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// There is no Secret.
    Missing,
    /// The content of the Secret cannot be used.
    Unusable(String),
    /// The certificate ended at this time.
    Expired(Timestamp),
    /// The certificate begins at this time: the clock of its issuer was ahead.
    Early(Timestamp),
    /// Two thirds of its life are over.
    Due,
    /// A newer CA issues now.
    OtherCa,
}

impl Why {
    /// False for a planned renewal and for the first certificate.
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Unusable(_) | Self::Expired(_) | Self::Early(_))
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("it is missing"),
            Self::Unusable(why) => write!(f, "it cannot be used: {why}"),
            Self::Expired(at) => write!(f, "its certificate expired at {at}"),
            Self::Early(at) => write!(
                f,
                "its certificate is not valid before {at}: the clock of its issuer was ahead"
            ),
            Self::Due => f.write_str("two thirds of its life are over"),
            Self::OtherCa => f.write_str("another CA issues now"),
        }
    }
}

/// The next step.
pub fn next(observed: &Observed, now: Timestamp) -> Step {
    let ca = match usable(observed, now) {
        Ok(ca) => ca,
        Err(why) => {
            let keep = others(observed, now);
            return Step::MakeCa { keep, why };
        }
    };
    let bundle = trusted_with(ca, observed, now);
    if ca.bundle != bundle {
        return Step::KeepCas { bundle };
    }
    if let Held::Good(leaf) = &observed.leaf
        && leaf.bundle != bundle
        && leaf.not_after >= now
    {
        return Step::KeepLeaf { bundle };
    }
    let Some((why, is_urgent)) = leaf_is_wanted(observed, ca, now) else {
        let until = rest_until(observed, ca, &bundle);
        return Step::Rest { until };
    };
    let registered = &observed.registered;
    let is_new = registered.entries.is_empty();
    let is_trusted = registered.trusts(&ca.current) && registered.unchanged_for >= MARGIN;
    if !(is_new || is_trusted || is_urgent) {
        return Step::Wait { why };
    }
    let left = ahead(now, ca.current.not_after);
    let lifetime = observed.lifetimes.leaf.min(left);
    Step::IssueLeaf {
        lifetime,
        bundle,
        why,
    }
}

/// The bundle to register: the CA that issues, then all others that may still verify a leaf. Empty as
/// long as no CA can issue.
pub fn trusted(observed: &Observed, now: Timestamp) -> Vec<Ca> {
    match &observed.ca {
        Held::Good(ca) if !ca.current.has_expired(now) => trusted_with(ca, observed, now),
        Held::Good(_) | Held::Missing | Held::Unusable(_) => Vec::new(),
    }
}

fn trusted_with(ca: &HeldCa, observed: &Observed, now: Timestamp) -> Vec<Ca> {
    let (issuer, others) = of_leaf(observed);
    // Without a leaf in the Secret, replicas may serve one that is in no Secret any more.
    let is_known = matches!(observed.leaf, Held::Good(_));
    let registered = observed.registered.cas().filter(|_| !is_known);
    let all = [&ca.current].into_iter().chain(issuer);
    let all = all.chain(&ca.bundle).chain(others);
    valid(all.chain(registered), now)
}

/// The CAs to keep behind a new one: those of both Secrets. Where the CA itself is lost, also those that
/// callers trust: a replica may serve a leaf that is in no Secret any more.
fn others(observed: &Observed, now: Timestamp) -> Vec<Ca> {
    let (issuer, others) = of_leaf(observed);
    let known: Vec<&Ca> = match &observed.ca {
        Held::Good(ca) => [&ca.current].into_iter().chain(&ca.bundle).collect(),
        Held::Missing | Held::Unusable(_) => observed.registered.cas().collect(),
    };
    let all = issuer.into_iter().chain(known);
    let mut keep = valid(all.chain(others), now);
    // Room for the new one.
    keep.truncate(MOST - 1);
    keep
}

fn of_leaf(observed: &Observed) -> (Option<&Ca>, &[Ca]) {
    match &observed.leaf {
        Held::Good(leaf) => (Some(&leaf.issuer), &leaf.bundle),
        Held::Missing | Held::Unusable(_) => (None, &[]),
    }
}

fn valid<'c>(all: impl Iterator<Item = &'c Ca>, now: Timestamp) -> Vec<Ca> {
    let mut all = distinct(all.filter(|ca| !ca.has_expired(now)).cloned());
    all.truncate(MOST);
    all
}

/// The CA, if it can issue and is not due for renewal.
fn usable(observed: &Observed, now: Timestamp) -> Result<&HeldCa, Why> {
    let ca = match &observed.ca {
        Held::Missing => return Err(Why::Missing),
        Held::Unusable(why) => return Err(Why::Unusable(why.clone())),
        Held::Good(ca) => ca,
    };
    renewal(ca.current.not_before, ca.current.not_after, now).map_or(Ok(ca), Err)
}

/// Why a certificate that is valid between these times is renewed, if it is. One that begins later serves as
/// little as one that has ended: no caller could verify a leaf by it, and no replica could start with it.
fn renewal(not_before: Timestamp, not_after: Timestamp, now: Timestamp) -> Option<Why> {
    if not_after < now {
        return Some(Why::Expired(not_after));
    }
    if not_before > now {
        return Some(Why::Early(not_before));
    }
    let is_due = Life::new(not_before, not_after).is_due(now);
    is_due.then_some(Why::Due)
}

/// Why the leader issues a leaf, if it does; and whether it cannot wait until callers trust the CA, as
/// the current leaf is about to end.
fn leaf_is_wanted(observed: &Observed, ca: &HeldCa, now: Timestamp) -> Option<(Why, bool)> {
    let leaf = match &observed.leaf {
        Held::Missing => return Some((Why::Missing, false)),
        Held::Unusable(why) => return Some((Why::Unusable(why.clone()), false)),
        Held::Good(leaf) => leaf,
    };
    let why = renewal(leaf.not_before, leaf.not_after, now);
    let is_by_other = leaf.issuer != ca.current && matches!(why, None | Some(Why::Due));
    let why = if is_by_other { Why::OtherCa } else { why? };
    let is_urgent = Life::new(leaf.not_before, leaf.not_after).is_ending(now);
    Some((why, is_urgent))
}

fn rest_until(observed: &Observed, ca: &HeldCa, bundle: &[Ca]) -> Timestamp {
    let ends = bundle.iter().map(|ca| ca.not_after);
    let leaf = match &observed.leaf {
        Held::Good(leaf) => Some(Life::new(leaf.not_before, leaf.not_after).due()),
        Held::Missing | Held::Unusable(_) => None,
    };
    let ca = Life::new(ca.current.not_before, ca.current.not_after).due();
    ends.chain(leaf).fold(ca, Timestamp::min)
}
