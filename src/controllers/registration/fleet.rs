//! Whether the serving replicas are there, and have the configuration that is to be put in force. Pure.

use std::fmt;

/// A pod that serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Replica {
    /// Its name.
    pub(super) name: String,
    /// Its label [`CONFIGURATION_LABEL`].
    pub(super) configuration: Option<String>,
    /// Calls are sent to it.
    pub(super) is_ready: bool,
    /// It has ended, or its time to end is over: it is asked nothing any more.
    pub(super) is_gone: bool,
}

/// Label of serving replicas with the configuration that they have.
pub(super) const CONFIGURATION_LABEL: &str = "meshgate.io/configuration";

/// Selects the serving replicas, in our namespace.
pub(super) const SERVING: &str =
    "app.kubernetes.io/name=meshgate,app.kubernetes.io/component=serve";

/// Who of the serving replicas is there to be called.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Replicas {
    /// Nobody (case 76).
    #[default]
    NoneReady,
    /// Somebody, but not all have the configuration.
    Unequal,
    /// Whoever may be called has it; or nobody looks at them.
    Equal,
}

/// All of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Fleet {
    count: usize,
    ready: usize,
    /// Names of those that have another configuration, sorted.
    lacking: Vec<String>,
}

impl Fleet {
    /// Looks whether these replicas have this configuration.
    pub(super) fn of(replicas: &[Replica], configuration: &str) -> Self {
        let mut fleet = Self::default();
        for replica in replicas.iter().filter(|replica| !replica.is_gone) {
            fleet.count += 1;
            fleet.ready += usize::from(replica.is_ready);
            if replica.configuration.as_deref() != Some(configuration) {
                fleet.lacking.push(replica.name.clone());
            }
        }
        fleet.lacking.sort_unstable();
        fleet
    }

    /// Who is there to be called.
    pub(super) fn replicas(&self) -> Replicas {
        match (self.ready, self.lacking.is_empty()) {
            (0, _) => Replicas::NoneReady,
            (_, false) => Replicas::Unequal,
            (_, true) => Replicas::Equal,
        }
    }

    /// What there is to say of it, if it is not as it should be.
    pub(super) fn remark(&self) -> Option<Remark<'_>> {
        (self.replicas() != Replicas::Equal).then_some(Remark(self))
    }
}

/// What is said of replicas that are not as they should be.
#[derive(Debug)]
pub(super) struct Remark<'f>(&'f Fleet);

impl fmt::Display for Remark<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fleet {
            count,
            ready,
            lacking,
        } = self.0;
        match (count, lacking.as_slice()) {
            (0, _) => write!(f, "no serving replica (no pod with {SERVING})"),
            (count, []) => write!(f, "{ready} of {count} serving replicas are ready"),
            (count, lacking) => write!(
                f,
                "{} of {count} serving replicas have another configuration: {}",
                lacking.len(),
                lacking.join(", ")
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replica(name: &str, configuration: Option<&str>) -> Replica {
        Replica {
            name: name.to_owned(),
            configuration: configuration.map(str::to_owned),
            is_ready: true,
            is_gone: false,
        }
    }

    #[test]
    fn all_that_may_be_called_must_have_it() {
        let gone = Replica {
            is_gone: true,
            ..replica("gone", Some("old"))
        };
        let starting = Replica {
            is_ready: false,
            ..replica("starting", Some("new"))
        };
        let (new, old) = (replica("new", Some("new")), replica("old", Some("old")));
        let bare = replica("bare", None);
        let (none, unequal, equal) = (Replicas::NoneReady, Replicas::Unequal, Replicas::Equal);
        // (replicas, who can be called, what is said)
        let table: [(&[&Replica], Replicas, &str); 7] = [
            (&[], none, "no serving replica"),
            (&[&gone], none, "no serving replica"),
            (&[&starting], none, "0 of 1 serving replicas are ready"),
            (&[&starting, &new], equal, ""),
            (&[&new, &gone], equal, ""),
            (
                &[&old, &new, &bare],
                unequal,
                "2 of 3 serving replicas have another configuration: bare, old",
            ),
            (&[&old], unequal, "1 of 1"),
        ];
        for (replicas, expected, said) in table {
            let replicas: Vec<Replica> = replicas.iter().copied().cloned().collect();
            let fleet = Fleet::of(&replicas, "new");
            assert_eq!(fleet.replicas(), expected, "{replicas:?}");
            let remark = fleet.remark().map(|remark| remark.to_string());
            assert!(
                remark.as_deref().unwrap_or_default().starts_with(said),
                "{remark:?}"
            );
            assert_eq!(remark.is_none(), said.is_empty());
        }
    }
}
