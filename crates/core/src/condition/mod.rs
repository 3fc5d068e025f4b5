//! Conditions on a pod and its namespace, as values: made from rules, printed as CEL ([`cel`]), and
//! evaluated.

pub(crate) mod cel;
pub(crate) mod chain;

use std::collections::BTreeSet;

use crate::injector::profile::{ContainerName, Profile};
use crate::injector::rule::{Key, Term, Test};
use crate::list::distinct;

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
            list.extend(inner);
        }
        let mut list = distinct(list);
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
            Self::Key(KeyTest { key, test }) => {
                let test = test.negated();
                Self::Key(KeyTest { key, test })
            }
            Self::Not(inner) => *inner,
            Self::Namespace(_) | Self::Container(_) | Self::All(_) | Self::Any(_) => {
                Self::Not(Box::new(self))
            }
        }
    }

    /// The namespace has one of these names.
    pub(crate) fn namespace<N: Into<String>>(names: impl IntoIterator<Item = N>) -> Self {
        let names: BTreeSet<String> = names.into_iter().map(N::into).collect();
        if names.is_empty() {
            return Self::FALSE;
        }
        Self::Namespace(names.into_iter().collect())
    }

    /// The pod holds a sidecar of this name, plain or native, with none of these images, and one that begins
    /// as allowed.
    pub(crate) fn sidecar(name: &ContainerName, not_image: &[String], images: &[String]) -> Self {
        Self::Container(Container::Sidecar {
            name: name.clone(),
            not_image: not_image.to_vec(),
            images: images.to_vec(),
        })
    }

    /// Whether it holds for a pod and its namespace: the values of their keys, the namespace's name, and
    /// whether the pod holds a container.
    pub(crate) fn holds<'v>(
        &self,
        value: &impl Fn(&Key) -> Option<&'v str>,
        namespace: &str,
        has: &impl Fn(&Container) -> bool,
    ) -> bool {
        let holds = |part: &Self| part.holds(value, namespace, has);
        match self {
            Self::Const(value) => *value,
            Self::Key(test) => test.test.passes(value(&test.key)),
            Self::Namespace(names) => names.iter().any(|name| name == namespace),
            Self::Container(wanted) => has(wanted),
            Self::Not(inner) => !holds(inner),
            Self::All(parts) => parts.iter().all(holds),
            Self::Any(parts) => parts.iter().any(holds),
        }
    }

    /// An update gives a sidecar another image than it may have.
    pub(crate) fn replaced(profile: &Profile) -> Self {
        let limits = profile.image_limits().into_iter();
        Self::any(limits.map(|(name, images)| {
            Self::Container(Container::Replaced {
                name: name.clone(),
                images: images.into_iter().map(str::to_owned).collect(),
            })
        }))
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
        /// How its image must begin, if there are any.
        images: Vec<String>,
    },
    /// In any list: its image begins with none of these, and did so before the update.
    Replaced {
        /// Its name.
        name: ContainerName,
        /// How its image must begin.
        images: Vec<String>,
    },
    /// In `initContainers`.
    Init(String),
}

/// Which values of a key pass.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct KeyTest {
    pub(crate) key: Key,
    /// Its values are sorted, each once, in lower case where case does not count, and without white space
    /// around them where that does not count: what passes the same is equal.
    pub(crate) test: Test,
}

impl KeyTest {
    pub(crate) fn new(key: &Key, mut test: Test) -> Self {
        for value in &mut test.values {
            if test.fold {
                value.make_ascii_lowercase();
            }
            if test.trim {
                *value = value.trim().to_owned();
            }
        }
        test.values.sort_unstable();
        test.values.dedup();
        Self {
            key: key.clone(),
            test,
        }
    }

    /// The tests of a rule's terms, those of one key as one.
    pub(crate) fn of_all(terms: &[Term]) -> Vec<Self> {
        let mut tests: Vec<Self> = Vec::new();
        for test in terms
            .iter()
            .map(|term| Self::new(&term.key, term.test.clone()))
        {
            let mut same = tests.iter_mut().filter(|own| own.key == test.key);
            match same.find(|own| own.can_join(&test)) {
                Some(own) => *own = own.joined(test.test),
                None => tests.push(test),
            }
        }
        tests
    }

    /// Whether both compare in the same way.
    fn can_join(&self, other: &Self) -> bool {
        let (own, other) = (&self.test, &other.test);
        let is_same = (own.fold, own.trim) == (other.fold, other.trim);
        is_same || own.values.is_empty() || other.values.is_empty()
    }

    /// Leaves the values that pass both.
    fn joined(&self, other: Test) -> Self {
        let own = &self.test;
        let those = |list: Vec<String>, pass: &dyn Fn(&String) -> bool| -> Vec<String> {
            list.into_iter().filter(pass).collect()
        };
        let values = match (own.others, other.others) {
            (true, true) => [own.values.clone(), other.values].concat(),
            (true, false) => those(other.values, &|value| !own.values.contains(value)),
            (false, is_in) => those(own.values.clone(), &|value| {
                other.values.contains(value) != is_in
            }),
        };
        let test = Test {
            absent: own.absent && other.absent,
            others: own.others && other.others,
            values,
            fold: own.fold || other.fold,
            trim: own.trim || other.trim,
        };
        Self::new(&self.key, test)
    }

    /// As a condition; a test that always or never passes is a constant.
    pub(crate) fn expr(self) -> Expr {
        let test = &self.test;
        if test.values.is_empty() && test.absent == test.others {
            return Expr::Const(test.absent);
        }
        Expr::Key(self)
    }
}
