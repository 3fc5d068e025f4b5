//! Conditions as values: what is printed as CEL, and what tests evaluate.

pub(super) mod cel;
pub(super) mod chain;

use crate::injector::profile::ContainerName;
use crate::injector::rule::{Key, Term, Test};

/// A condition on a pod and its namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::render) enum Expr {
    /// Always, or never.
    Const(bool),
    /// A test of a key's value.
    Key(KeyTest),
    /// The namespace has one of these names.
    Namespace(Vec<String>),
    /// The pod holds a container.
    Container(Container),
    /// Not.
    Not(Box<Self>),
    /// All of them; never built empty.
    All(Vec<Self>),
    /// One of them; never built empty.
    Any(Vec<Self>),
}

impl Expr {
    pub(in crate::render) const FALSE: Self = Self::Const(false);

    /// All of these.
    pub(in crate::render) fn all(parts: impl IntoIterator<Item = Self>) -> Self {
        Self::joined(parts, true)
    }

    /// One of these.
    pub(in crate::render) fn any(parts: impl IntoIterator<Item = Self>) -> Self {
        Self::joined(parts, false)
    }

    /// A joint of parts for which `neutral` says nothing and its opposite says all.
    fn joined(parts: impl IntoIterator<Item = Self>, neutral: bool) -> Self {
        let mut list: Vec<Self> = Vec::new();
        for part in parts {
            let inner = match part {
                Self::Const(value) if value == neutral => continue,
                Self::Const(value) => return Self::Const(value),
                Self::All(inner) if neutral => inner,
                Self::Any(inner) if !neutral => inner,
                other @ (Self::Key(_)
                | Self::Namespace(_)
                | Self::Container(_)
                | Self::Not(_)
                | Self::All(_)
                | Self::Any(_)) => vec![other],
            };
            for one in inner {
                if !list.contains(&one) {
                    list.push(one);
                }
            }
        }
        match (list.len(), list.pop()) {
            (_, None) => Self::Const(neutral),
            (1, Some(only)) => only,
            (_, Some(last)) => {
                list.push(last);
                if neutral {
                    Self::All(list)
                } else {
                    Self::Any(list)
                }
            }
        }
    }

    /// The opposite.
    pub(in crate::render) fn not(self) -> Self {
        match self {
            Self::Const(value) => Self::Const(!value),
            Self::Key(test) => test.negated().expr(),
            Self::Not(inner) => *inner,
            other @ (Self::Namespace(_) | Self::Container(_) | Self::All(_) | Self::Any(_)) => {
                Self::Not(Box::new(other))
            }
        }
    }

    /// The namespace has one of these names.
    pub(in crate::render) fn namespace<'n>(names: impl IntoIterator<Item = &'n str>) -> Self {
        let mut names: Vec<String> = names.into_iter().map(str::to_owned).collect();
        names.sort_unstable();
        names.dedup();
        if names.is_empty() {
            Self::FALSE
        } else {
            Self::Namespace(names)
        }
    }

    /// How many tests there are in it.
    pub(in crate::render) fn size(&self) -> usize {
        match self {
            Self::Const(_) => 0,
            Self::Key(_) | Self::Namespace(_) | Self::Container(_) => 1,
            Self::Not(inner) => inner.size(),
            Self::All(parts) | Self::Any(parts) => parts.iter().map(Self::size).sum(),
        }
    }
}

/// A container that a pod must hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::render) enum Container {
    /// In `containers`, or in `initContainers` with `restartPolicy: Always`.
    Sidecar {
        /// Its name.
        name: ContainerName,
        /// Images that do not count.
        not_image: Vec<String>,
    },
    /// In `initContainers`.
    Init(String),
}

/// Which values of a key pass: one form for all tests of rules, so that they can be negated and
/// joined.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(in crate::render) struct KeyTest {
    pub(in crate::render) key: Key,
    /// Whether an absent key passes.
    pub(in crate::render) absent: bool,
    /// Whether a value passes that is not among [`Self::values`]; those then do not.
    pub(in crate::render) others: bool,
    /// Sorted; in lower case if [`Self::fold`].
    pub(in crate::render) values: Vec<String>,
    /// Compare without case (ASCII).
    pub(in crate::render) fold: bool,
}

impl KeyTest {
    /// The test of a rule's term.
    pub(in crate::render) fn of(term: &Term) -> Self {
        let (absent, others) = match term.test {
            Test::In(_) => (false, false),
            Test::NotIn(_) => (true, true),
            Test::Exists => (false, true),
            Test::Absent => (true, false),
        };
        let named = term.test.values();
        let fold = named.is_some_and(|values| values.fold);
        let spell = |value: &String| {
            if fold {
                value.to_ascii_lowercase()
            } else {
                value.clone()
            }
        };
        let mut values: Vec<String> = named
            .map_or(&[][..], |values| &values.list)
            .iter()
            .map(spell)
            .collect();
        values.sort_unstable();
        values.dedup();
        Self {
            key: term.key.clone(),
            absent,
            others,
            values,
            fold,
        }
    }

    /// The tests of a rule's terms, those of one key as one.
    pub(in crate::render) fn of_all(terms: &[Term]) -> Vec<Self> {
        let mut tests: Vec<Self> = Vec::new();
        for test in terms.iter().map(Self::of) {
            let same = tests
                .iter_mut()
                .find(|own| own.key == test.key && own.can_join(&test));
            match same {
                Some(own) => own.join(test),
                None => tests.push(test),
            }
        }
        tests
    }

    /// Whether both compare alike.
    fn can_join(&self, other: &Self) -> bool {
        self.fold == other.fold || self.values.is_empty() || other.values.is_empty()
    }

    /// What passes both.
    fn join(&mut self, other: Self) {
        let is_in = |list: &[String], value: &String| list.contains(value);
        self.fold |= other.fold;
        self.absent &= other.absent;
        match (self.others, other.others) {
            (true, true) => {
                self.values.extend(other.values);
                self.values.sort_unstable();
                self.values.dedup();
            }
            (true, false) => {
                let mut values = other.values;
                values.retain(|value| !is_in(&self.values, value));
                self.values = values;
            }
            (false, true) => self.values.retain(|value| !is_in(&other.values, value)),
            (false, false) => self.values.retain(|value| is_in(&other.values, value)),
        }
        self.others &= other.others;
    }

    /// Whether a value passes, `None` being an absent key.
    pub(in crate::render) fn passes(&self, value: Option<&str>) -> bool {
        let is_named = |value: &str| {
            self.values.iter().any(|one| {
                if self.fold {
                    one.eq_ignore_ascii_case(value)
                } else {
                    one == value
                }
            })
        };
        value.map_or(self.absent, |value| is_named(value) != self.others)
    }

    fn negated(self) -> Self {
        Self {
            absent: !self.absent,
            others: !self.others,
            ..self
        }
    }

    /// As a condition; a test that always or never passes is a constant.
    pub(in crate::render) fn expr(self) -> Expr {
        if self.values.is_empty() && self.absent == self.others {
            return Expr::Const(self.absent);
        }
        Expr::Key(self)
    }
}
