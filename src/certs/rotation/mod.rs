//! What comes next in the life of our CA and of the serving certificate ("leaf"): from what the two
//! Secrets hold and what is registered, one step. PURE: asked again after every step, by any number
//! of processes; each step is safe to repeat, to lose, and to do on what somebody saw a while ago.
//!
//! The order of a change of CAs (cases 49 and 50):
//!
//! 1. the CA's Secret is written, the new CA in front, every older one that is valid behind it;
//! 2. that bundle is registered (whoever keeps the registration does it, see [`trusted`]);
//! 3. once every entry that calls us has had the new CA for [`MARGIN`], the leaf is issued by it;
//! 4. each replica serves the new leaf once what is registered verifies it ([`super::swap`]);
//! 5. an older CA leaves the bundle when it has expired: no leaf outlives the CA that issued it.

mod due;
#[cfg(test)]
mod interleavings;
#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;

use super::bundle::{Ca, MOST, distinct};

use self::due::{Life, ahead};

/// API servers read webhook configurations from caches of their own: what is registered is in
/// force everywhere after this time.
pub const MARGIN: Duration = Duration::from_secs(5);

/// What one of the Secrets holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Held<T> {
    /// There is no such Secret.
    Missing,
    /// It is damaged, half written or somebody else's: which key, and what was expected there.
    Unusable(String),
    /// It can be used, as far as its content goes; it may have expired.
    Good(T),
}

/// What the CA's Secret holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldCa {
    /// The one that issues.
    pub current: Ca,
    /// `ca.crt`: all that are trusted.
    pub bundle: Vec<Ca>,
}

/// What the leaf's Secret holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldLeaf {
    /// From when it is valid.
    pub not_before: Timestamp,
    /// Until when.
    pub not_after: Timestamp,
    /// The CA that issued it.
    pub issuer: Ca,
    /// `ca.crt`: all that are trusted.
    pub bundle: Vec<Ca>,
}

/// What callers trust: the `caBundle` of each webhook entry that calls us.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Registered {
    /// `None` for an entry without one: it trusts what its system trusts.
    pub entries: Vec<Option<Vec<Ca>>>,
    /// For how long this process has seen it as it is.
    pub unchanged_for: Duration,
}

impl Registered {
    /// Whether every caller trusts this CA.
    fn trusts(&self, ca: &Ca) -> bool {
        let mut bundles = self.entries.iter().flatten();
        bundles.all(|bundle| bundle.contains(ca))
    }

    /// All CAs that some entry holds.
    fn cas(&self) -> impl Iterator<Item = &Ca> {
        self.entries.iter().flatten().flatten()
    }
}

/// All that the next step depends on.
#[derive(Debug, Clone)]
pub struct Observed {
    /// The Secret that only the issuer reads.
    pub ca: Held<HeldCa>,
    /// The Secret that is served from.
    pub leaf: Held<HeldLeaf>,
    /// What callers trust.
    pub registered: Registered,
    /// How long new certificates are to be valid.
    pub lifetimes: Lifetimes,
}

/// How long new certificates are valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lifetimes {
    /// The CA.
    pub ca: Duration,
    /// The leaf; less where its CA ends sooner.
    pub leaf: Duration,
}

/// What to do now. A Secret is created only where it is missing and replaced only as it was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Make a CA and write its Secret, the new one in front of these.
    MakeCa {
        /// Older CAs that a leaf may still be verified by.
        keep: Vec<Ca>,
        /// What was wrong with the one that is there.
        why: Why,
    },
    /// Write `ca.crt` of the CA's Secret.
    KeepCas {
        /// All that is to be in it.
        bundle: Vec<Ca>,
    },
    /// Issue a leaf by the CA that its Secret holds, and write the leaf's Secret.
    IssueLeaf {
        /// How long it is to be valid.
        lifetime: Duration,
        /// Its `ca.crt`.
        bundle: Vec<Ca>,
        /// What was wrong with the one that is there.
        why: Why,
    },
    /// Write `ca.crt` of the leaf's Secret.
    KeepLeaf {
        /// All that is to be in it.
        bundle: Vec<Ca>,
    },
    /// A leaf is to be issued, once callers trust the CA that will issue it.
    Wait {
        /// What is wrong with the one that is there.
        why: Why,
    },
    /// Nothing.
    Rest {
        /// Until then, if nobody changes anything.
        until: Timestamp,
    },
}

/// Why a certificate is to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// There is none.
    Missing,
    /// What is there cannot be used.
    Unusable(String),
    /// It has ended.
    Expired(Timestamp),
    /// It has not begun: a clock was ahead when it was made.
    Early(Timestamp),
    /// Two thirds of its life are over.
    Due,
    /// Another CA issues now.
    OtherCa,
}

impl Why {
    /// Whether something was wrong that nobody expected.
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
                "its certificate is not valid before {at}: the clock of whoever made it was ahead"
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
    let left = ahead(now, ca.current.not_after());
    let lifetime = observed.lifetimes.leaf.min(left);
    Step::IssueLeaf {
        lifetime,
        bundle,
        why,
    }
}

/// The bundle to be registered: the CA that issues in front of all others that a leaf may still be
/// verified by. Empty as long as there is no CA that could issue.
pub fn trusted(observed: &Observed, now: Timestamp) -> Vec<Ca> {
    match &observed.ca {
        Held::Good(ca) if !ca.current.has_expired(now) => trusted_with(ca, observed, now),
        Held::Good(_) | Held::Missing | Held::Unusable(_) => Vec::new(),
    }
}

fn trusted_with(ca: &HeldCa, observed: &Observed, now: Timestamp) -> Vec<Ca> {
    let (issuer, others) = of_leaf(observed);
    // While there is no leaf to tell, replicas may serve one that is in no Secret any more.
    let registered: Vec<&Ca> = match &observed.leaf {
        Held::Good(_) => Vec::new(),
        Held::Missing | Held::Unusable(_) => observed.registered.cas().collect(),
    };
    let all = [&ca.current].into_iter().chain(issuer);
    let all = all.chain(&ca.bundle).chain(others);
    valid(all.chain(registered), now)
}

/// The CAs to keep behind a new one: what both Secrets say; and where the CA itself is lost also what
/// callers trust, since a replica may serve a leaf that is in no Secret any more.
fn others(observed: &Observed, now: Timestamp) -> Vec<Ca> {
    let (issuer, others) = of_leaf(observed);
    let (known, registered): (Vec<&Ca>, Vec<&Ca>) = match &observed.ca {
        Held::Good(ca) => (
            [&ca.current].into_iter().chain(&ca.bundle).collect(),
            Vec::new(),
        ),
        Held::Missing | Held::Unusable(_) => (Vec::new(), observed.registered.cas().collect()),
    };
    let all = issuer.into_iter().chain(known);
    let mut keep = valid(all.chain(others).chain(registered), now);
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

/// The CA, if it can issue and has not to be replaced.
fn usable(observed: &Observed, now: Timestamp) -> Result<&HeldCa, Why> {
    let ca = match &observed.ca {
        Held::Missing => return Err(Why::Missing),
        Held::Unusable(why) => return Err(Why::Unusable(why.clone())),
        Held::Good(ca) => ca,
    };
    let life = Life::of_ca(&ca.current);
    if ca.current.has_expired(now) {
        return Err(Why::Expired(ca.current.not_after()));
    }
    // Nobody could verify by it what it issues.
    if ca.current.not_before() > now {
        return Err(Why::Early(ca.current.not_before()));
    }
    match life.is_due(now) {
        true => Err(Why::Due),
        false => Ok(ca),
    }
}

/// Why a leaf is to be issued, if it is; and whether it cannot wait for those who would have to
/// trust it, as it is about to end.
fn leaf_is_wanted(observed: &Observed, ca: &HeldCa, now: Timestamp) -> Option<(Why, bool)> {
    let leaf = match &observed.leaf {
        Held::Missing => return Some((Why::Missing, false)),
        Held::Unusable(why) => return Some((Why::Unusable(why.clone()), false)),
        Held::Good(leaf) => leaf,
    };
    let life = Life::of_leaf(leaf);
    let is_urgent = life.is_ending(now);
    if leaf.not_after < now {
        return Some((Why::Expired(leaf.not_after), is_urgent));
    }
    // A replica that restarts could not serve it.
    if leaf.not_before > now {
        return Some((Why::Early(leaf.not_before), is_urgent));
    }
    if leaf.issuer != ca.current {
        return Some((Why::OtherCa, is_urgent));
    }
    life.is_due(now).then_some((Why::Due, is_urgent))
}

fn rest_until(observed: &Observed, ca: &HeldCa, bundle: &[Ca]) -> Timestamp {
    let ends = bundle.iter().map(Ca::not_after);
    let leaf = match &observed.leaf {
        Held::Good(leaf) => Some(Life::of_leaf(leaf).due()),
        Held::Missing | Held::Unusable(_) => None,
    };
    let ca = Life::of_ca(&ca.current).due();
    ends.chain(leaf).fold(ca, Timestamp::min)
}
