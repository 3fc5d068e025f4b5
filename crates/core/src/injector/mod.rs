//! What meshgate knows about each injector: profiles, as data, compiled for look-ups.
//!
//! A preset is a file in the users' own format under `presets/` and one row in [`PRESETS`]; no code
//! knows an injector by name. `config` makes profiles out of such files.
//!
//! - [`profile`], [`rule`]: one injector, and which pods require it.
//! - [`keys`], [`values`]: the index by which a pod meets only the rules that its keys can touch.
//! - `coverage`: rules that can never decide.

pub(crate) mod coverage;
pub mod keys;
pub(crate) mod opt_out;
pub mod profile;
pub mod rule;
pub mod values;

use self::keys::Keys;
use self::profile::{Mode, Profile};
use self::rule::{Outcome, Rule};
use self::values::{KeyValues, NO_NAMESPACE_VALUES};

/// A preset: its name and its file.
macro_rules! preset {
    ($name:literal) => {
        ($name, include_str!(concat!("presets/", $name, ".yaml")))
    };
}

/// The presets, each by name with the text of its file. Where a cluster has no configuration, refusals name
/// injectors in this order.
pub const PRESETS: [(&str, &str); 7] = [
    preset!("linkerd"),
    preset!("istio"),
    preset!("vault"),
    preset!("opentelemetry"),
    preset!("dapr"),
    preset!("kuma"),
    preset!("consul"),
];

/// Namespaces that no configuration can bring back (cases 72 and 73): a cluster must be able to
/// start without meshgate.
pub const ALWAYS_EXCLUDED: [&str; 3] = ["kube-system", "kube-public", "kube-node-lease"];

/// Most injectors in a configuration: a review keeps a set of them in the bits of one word.
pub const MAX_INJECTORS: usize = 64;

/// A profile with what was prepared for reviews.
#[derive(Debug)]
pub struct Injector {
    /// What the configuration says of it.
    pub profile: Profile,
    /// Indexes of the rules whose option is on. Options do not change while meshgate runs, so that no
    /// review looks at them.
    active: Vec<usize>,
    /// Index of the rule that decides for a pod that has none of the keys that the rules read: most
    /// pods, which therefore walk no rule.
    idle: Option<usize>,
}

impl Injector {
    fn new(profile: Profile, keys: &Keys) -> Self {
        let rules = profile.rules.iter().enumerate();
        let active = rules.filter(|(_, rule)| profile.is_on(rule.option.as_deref()));
        let mut injector = Self {
            active: active.map(|(index, _)| index).collect(),
            profile,
            idle: None,
        };
        let nothing = KeyValues {
            pod: &keys.pod_values(),
            namespace: &NO_NAMESPACE_VALUES,
        };
        injector.idle = injector.first_match(&nothing).map(|rule| rule.position - 1);
        injector
    }

    /// The rules whose option is on, in the order in which they are tried.
    pub fn active_rules(&self) -> impl Iterator<Item = &Rule> {
        let rules = self.active.iter();
        rules.filter_map(|index| self.profile.rules.get(*index))
    }

    /// The rule that decides for these values, `None` if none does: the injector is not required.
    pub(crate) fn first_match(&self, values: &KeyValues<'_>) -> Option<&Rule> {
        self.active_rules().find(|rule| rule.matches(values))
    }

    /// The rules that are tried in the injector's own namespace, where nothing requires it of pods that say
    /// nothing: opt-outs are as good as any there.
    pub(crate) fn rules_at_home(&self) -> impl Iterator<Item = &Rule> {
        let rules = self.active_rules();
        rules.filter(|rule| rule.then != Outcome::OptOut)
    }

    /// The rule that decides for a pod that has none of the keys.
    pub(crate) fn idle_match(&self) -> Option<&Rule> {
        self.profile.rules.get(self.idle?)
    }

    /// False in mode `disabled`.
    pub fn is_looked_at(&self) -> bool {
        self.profile.mode != Mode::Disabled
    }
}

/// The injectors of a configuration, in its order, compiled for look-ups.
///
/// `from_yaml` reads them from a configuration; `all_presets` takes the presets as they are.
#[derive(Debug, Default)]
pub struct Injectors {
    list: Vec<Injector>,
    keys: Keys,
    excluded: Vec<String>,
    wakes: bool,
}

impl Injectors {
    pub(crate) fn new(
        profiles: Vec<Profile>,
        keys: Keys,
        excluded: Vec<String>,
        wakes: bool,
    ) -> Self {
        let profiles = profiles.into_iter();
        Self {
            list: profiles.map(|one| Injector::new(one, &keys)).collect(),
            keys,
            excluded,
            wakes,
        }
    }

    /// Excludes one more namespace: meshgate's own, whose pods no replica could admit while none runs
    /// (case 74).
    #[must_use]
    pub fn excluding(mut self, namespace: &str) -> Self {
        if !self.excludes(namespace) {
            self.excluded.push(namespace.to_owned());
        }
        self
    }

    /// In the order of the configuration.
    pub fn iter(&self) -> impl Iterator<Item = &Injector> {
        self.list.iter()
    }

    /// One by its number in the configuration, from 0.
    pub fn get(&self, number: usize) -> Option<&Injector> {
        self.list.get(number)
    }

    /// How many there are, 1 or more.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Never, as a configuration names one at least.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The keys that their rules read.
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Whether a profile limits the images of sidecars, so that updates of pods are looked at.
    pub fn limit_images(&self) -> bool {
        let all = self.iter().filter(|one| one.is_looked_at());
        let mut sets = all.flat_map(|one| one.profile.sets());
        sets.any(|set| !set.images.is_empty())
    }

    /// Whether meshgate never looks at pods of the namespace.
    pub fn excludes(&self, namespace: &str) -> bool {
        ALWAYS_EXCLUDED.contains(&namespace) || self.excluded.iter().any(|name| name == namespace)
    }

    /// Whether meshgate makes controllers try again once the injectors of their pods are usable.
    pub fn wakes(&self) -> bool {
        self.wakes
    }

    /// The namespaces that are excluded besides [`ALWAYS_EXCLUDED`].
    pub fn excluded(&self) -> &[String] {
        &self.excluded
    }
}
