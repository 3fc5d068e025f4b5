//! How old the view is: when each kind was last heard of, and what stands in the way. PURE: the
//! time is passed in.
//!
//! A view that is fed by files has no kinds here, and is always current.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use parking_lot::RwLock;

use super::object::Kind;

/// When each kind that is watched was last heard of.
#[derive(Debug, Default)]
pub struct Freshness {
    kinds: RwLock<BTreeMap<Kind, Seen>>,
}

#[derive(Debug, Default)]
struct Seen {
    heard: Option<Instant>,
    is_listed: bool,
    is_current: bool,
    trouble: Option<(Instant, Trouble)>,
    counts: Counts,
}

/// What happened to a watch since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Complete lists, the first one included.
    pub lists: u64,
    /// Objects that could not be read.
    pub unreadable: u64,
}

/// Why a kind cannot be followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// Whether other kinds are hit by the same.
    pub scope: Scope,
    /// In words.
    pub text: String,
}

/// What a [`Trouble`] is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The API server or the way to it: all kinds suffer, one line in the log is enough.
    Server,
    /// This kind: a missing permission, say.
    Kind,
}

/// A kind as a metric has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Age {
    /// The kind.
    pub kind: Kind,
    /// Time since it was last heard of; `None` if it never was.
    pub age: Option<Duration>,
    /// Whether nothing stands in the way.
    pub is_current: bool,
    /// What happened since the start.
    pub counts: Counts,
}

impl Freshness {
    /// From now on the kind is followed: it is not current until it was listed.
    pub fn follow(&self, kind: Kind) {
        self.kinds.write().entry(kind).or_default();
    }

    /// Whether the kind is followed over a network, where changes are heard of later than by the API
    /// server itself, and much later if the connection is silent.
    pub fn is_followed(&self, kind: Kind) -> bool {
        self.kinds.read().contains_key(&kind)
    }

    /// Whether what the view holds of a kind is what the cluster has, as far as anybody knows.
    pub fn is_current(&self, kind: Kind) -> bool {
        let kinds = self.kinds.read();
        kinds.get(&kind).is_none_or(|seen| seen.is_current)
    }

    /// Whether every kind that is followed was listed once.
    pub fn all_listed(&self) -> bool {
        self.kinds.read().values().all(|seen| seen.is_listed)
    }

    /// The API server said something about the kind: an event, a page, a bookmark.
    pub fn heard(&self, kind: Kind, now: Instant) {
        self.change(kind, |seen| seen.heard = Some(now));
    }

    /// A list is complete.
    pub fn listed(&self, kind: Kind) {
        self.change(kind, |seen| {
            seen.is_listed = true;
            seen.counts.lists += 1;
        });
    }

    /// An object could not be read.
    pub fn unreadable(&self, kind: Kind) {
        self.change(kind, |seen| seen.counts.unreadable += 1);
    }

    /// Events are missing from here on, which need not be anybody's trouble: a watch ended.
    pub fn behind(&self, kind: Kind) {
        self.change(kind, |seen| seen.is_current = false);
    }

    /// Nothing is missing any more. How long it was, if the end of a trouble is to be told.
    pub fn caught_up(&self, kind: Kind, now: Instant) -> Option<Duration> {
        let mut kinds = self.kinds.write();
        let seen = kinds.get_mut(&kind)?;
        seen.heard = Some(now);
        seen.is_current = true;
        let (since, trouble) = seen.trouble.take()?;
        let is_last = match trouble.scope {
            Scope::Kind => true,
            Scope::Server => !kinds.values().any(|seen| seen.suffers(Scope::Server)),
        };
        is_last.then(|| now.saturating_duration_since(since))
    }

    /// A try to follow the kind failed. Whether that is news: once for the server, once per kind
    /// for what only that kind suffers.
    pub fn lost(&self, kind: Kind, trouble: Trouble, now: Instant) -> bool {
        let mut kinds = self.kinds.write();
        let is_known = match trouble.scope {
            Scope::Kind => kinds.get(&kind).is_some_and(|s| s.suffers(Scope::Kind)),
            Scope::Server => kinds.values().any(|seen| seen.suffers(Scope::Server)),
        };
        let seen = kinds.entry(kind).or_default();
        seen.is_current = false;
        let since = seen.trouble.take().map_or(now, |(since, _)| since);
        seen.trouble = Some((since, trouble));
        !is_known
    }

    /// What `/readyz` says of a kind. Once listed it is fine for ever: a view that is old is better
    /// than none (case 61).
    ///
    /// # Errors
    /// It was never listed; in words.
    pub fn state(&self, kind: Kind, now: Instant) -> Result<String, String> {
        let kinds = self.kinds.read();
        let Some(seen) = kinds.get(&kind) else {
            return Ok(String::new());
        };
        let why = match &seen.trouble {
            Some((_, trouble)) => format!(": {}", trouble.text),
            None => String::new(),
        };
        match seen.age(now) {
            Some(age) if seen.is_listed => Ok(format!(
                "last heard of the API server {} s ago{why}",
                age.as_secs()
            )),
            Some(_) | None => Err(format!("not listed yet{why}")),
        }
    }

    /// All kinds that are followed.
    pub fn ages(&self, now: Instant) -> Vec<Age> {
        let kinds = self.kinds.read();
        let age = |(kind, seen): (&Kind, &Seen)| Age {
            kind: *kind,
            age: seen.age(now),
            is_current: seen.is_current,
            counts: seen.counts,
        };
        kinds.iter().map(age).collect()
    }

    /// The greatest age of all, `None` where nothing is followed.
    pub fn oldest(&self, now: Instant) -> Option<Duration> {
        let kinds = self.kinds.read();
        kinds.values().filter_map(|seen| seen.age(now)).max()
    }

    fn change(&self, kind: Kind, change: impl FnOnce(&mut Seen)) {
        if let Some(seen) = self.kinds.write().get_mut(&kind) {
            change(seen);
        }
    }
}

impl Seen {
    fn age(&self, now: Instant) -> Option<Duration> {
        self.heard.map(|heard| now.saturating_duration_since(heard))
    }

    fn suffers(&self, scope: Scope) -> bool {
        let trouble = self.trouble.as_ref();
        trouble.is_some_and(|(_, trouble)| trouble.scope == scope)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trouble(scope: Scope, text: &str) -> Trouble {
        let text = text.to_owned();
        Trouble { scope, text }
    }

    fn both() -> (Freshness, Instant) {
        let freshness = Freshness::default();
        freshness.follow(Kind::Namespace);
        freshness.follow(Kind::Node);
        (freshness, Instant::now())
    }

    #[test]
    fn what_nobody_follows_is_current_and_has_no_age() {
        let freshness = Freshness::default();
        let now = Instant::now();
        assert!(freshness.is_current(Kind::Namespace) && freshness.all_listed());
        assert_eq!(freshness.oldest(now), None);
        assert_eq!(freshness.state(Kind::Namespace, now), Ok(String::new()));
    }

    #[test]
    fn a_kind_is_fine_from_its_first_list_and_says_its_age() {
        let (freshness, start) = both();
        let refused = trouble(Scope::Server, "connection refused");
        let state = |seconds| freshness.state(Kind::Node, start + Duration::from_secs(seconds));
        assert_eq!(state(0), Err("not listed yet".to_owned()));
        assert!(freshness.lost(Kind::Node, refused.clone(), start));
        let why = "not listed yet: connection refused";
        assert_eq!(state(1), Err(why.to_owned()));
        freshness.listed(Kind::Node);
        let back = freshness.caught_up(Kind::Node, start + Duration::from_secs(2));
        assert_eq!(back, Some(Duration::from_secs(2)));
        assert!(freshness.is_current(Kind::Node) && !freshness.all_listed());
        let text = "last heard of the API server 42 s ago";
        assert_eq!(state(44), Ok(text.to_owned()));
        assert!(freshness.lost(Kind::Node, refused, start));
        assert!(!freshness.is_current(Kind::Node));
        assert_eq!(state(44), Ok(format!("{text}: connection refused")));
    }

    #[test]
    fn a_lost_server_is_news_once_and_so_is_its_return() {
        let (freshness, start) = both();
        let lost = |kind, scope, text| freshness.lost(kind, trouble(scope, text), start);
        assert!(lost(Kind::Node, Scope::Server, "refused"));
        assert!(!lost(Kind::Node, Scope::Server, "refused"));
        assert!(!lost(Kind::Namespace, Scope::Server, "reset"));
        let later = start + Duration::from_secs(5);
        assert_eq!(freshness.caught_up(Kind::Node, later), None);
        let back = freshness.caught_up(Kind::Namespace, later);
        assert_eq!(back, Some(Duration::from_secs(5)));
        assert_eq!(freshness.caught_up(Kind::Namespace, later), None);
    }

    #[test]
    fn a_missing_permission_is_news_per_kind() {
        let (freshness, start) = both();
        let lost = |kind, scope, text| freshness.lost(kind, trouble(scope, text), start);
        assert!(lost(Kind::Node, Scope::Server, "refused"));
        assert!(lost(Kind::Node, Scope::Kind, "nodes is forbidden"));
        assert!(!lost(Kind::Node, Scope::Kind, "nodes is forbidden"));
        assert!(lost(
            Kind::Namespace,
            Scope::Kind,
            "namespaces is forbidden"
        ));
        assert!(freshness.caught_up(Kind::Node, start).is_some());
    }
}
