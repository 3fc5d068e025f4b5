//! Conditions on a pod and its namespace, as values: made from rules, printed as CEL ([`cel`]), and
//! evaluated by tests.

pub(crate) mod cel;
pub(crate) mod chain;

use crate::injector::profile::ContainerName;
use crate::injector::rule::{Key, Term, Test};

/// A condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Expr {
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
    pub(crate) const FALSE: Self = Self::Const(false);

    /// All of these hold.
    pub(crate) fn all(parts: impl IntoIterator<Item = Self>) -> Self {
        Self::joined(parts, true)
    }

    /// One of these holds.
    pub(crate) fn any(parts: impl IntoIterator<Item = Self>) -> Self {
        Self::joined(parts, false)
    }

    /// All terms of a rule hold.
    pub(crate) fn terms(terms: &[Term]) -> Self {
        Self::all(KeyTest::of_all(terms).into_iter().map(KeyTest::expr))
    }

    /// Joins parts: a part that is `neutral` adds nothing, and its opposite decides alone.
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
        match list.pop() {
            None => return Self::Const(neutral),
            Some(only) if list.is_empty() => return only,
            Some(last) => list.push(last),
        }
        if neutral {
            Self::All(list)
        } else {
            Self::Any(list)
        }
    }

    /// It does not hold.
    pub(crate) fn not(self) -> Self {
        match self {
            Self::Const(value) => Self::Const(!value),
            Self::Key(test) => test.negated().expr(),
            Self::Not(inner) => *inner,
            Self::Namespace(_) | Self::Container(_) | Self::All(_) | Self::Any(_) => {
                Self::Not(Box::new(self))
            }
        }
    }

    /// The namespace has one of these names.
    pub(crate) fn namespace<'n>(names: impl IntoIterator<Item = &'n str>) -> Self {
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
    pub(crate) fn size(&self) -> usize {
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
pub(crate) enum Container {
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
pub(crate) struct KeyTest {
    pub(crate) key: Key,
    /// Whether an absent key passes.
    pub(crate) absent: bool,
    /// Whether a value passes that is not among [`Self::values`]; those then do not.
    pub(crate) others: bool,
    /// Sorted; in lower case if [`Self::fold`].
    pub(crate) values: Vec<String>,
    /// Compare without case (ASCII).
    pub(crate) fold: bool,
}

impl KeyTest {
    /// The test of a rule's term.
    pub(crate) fn of(term: &Term) -> Self {
        let (absent, others) = match term.test {
            Test::In(_) => (false, false),
            Test::NotIn(_) => (true, true),
            Test::Exists => (false, true),
            Test::Absent => (true, false),
        };
        let named = term.test.values();
        Self {
            key: term.key.clone(),
            absent,
            others,
            values: named.map_or_else(Vec::new, |values| values.list.clone()),
            fold: named.is_some_and(|values| values.fold),
        }
        .normal()
    }

    /// With its values in the one form: sorted, each once, in lower case where case does not count.
    fn normal(mut self) -> Self {
        if self.fold {
            for value in &mut self.values {
                value.make_ascii_lowercase();
            }
        }
        self.values.sort_unstable();
        self.values.dedup();
        self
    }

    /// The tests of a rule's terms, those of one key as one.
    pub(crate) fn of_all(terms: &[Term]) -> Vec<Self> {
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

    /// Whether both compare in the same way.
    fn can_join(&self, other: &Self) -> bool {
        self.fold == other.fold || self.values.is_empty() || other.values.is_empty()
    }

    /// Leaves the values that pass both.
    fn join(&mut self, other: Self) {
        self.fold |= other.fold;
        self.absent &= other.absent;
        let own = std::mem::take(&mut self.values);
        let passing = |list: Vec<String>, test: &[String], is_in: bool| {
            let list = list.into_iter();
            list.filter(|value| test.contains(value) == is_in).collect()
        };
        self.values = match (self.others, other.others) {
            (true, true) => [own, other.values].concat(),
            (true, false) => passing(other.values, &own, false),
            (false, is_in) => passing(own, &other.values, !is_in),
        };
        self.others &= other.others;
        self.values.sort_unstable();
        self.values.dedup();
    }

    /// Whether a value passes, `None` being an absent key.
    pub(crate) fn passes(&self, value: Option<&str>) -> bool {
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
    pub(crate) fn expr(self) -> Expr {
        if self.values.is_empty() && self.absent == self.others {
            return Expr::Const(self.absent);
        }
        Expr::Key(self)
    }
}
