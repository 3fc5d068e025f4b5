//! What is known about each injector: profiles, as data.
//!
//! PURE: no async, no clock, no IO, no logging. A preset is a file in the users' own format under
//! `presets/` and one row in [`PRESETS`]; nothing here knows an injector by name.
//!
//! - [`spec`]: the configuration as people write it, and its JSON Schema.
//! - `resolve`, [`coverage`]: what is refused in it, with line and column.
//! - [`profile`], [`rule`]: what comes out, checked.
//! - [`keys`]: the index by which a pod meets only the rules that its keys can touch.

pub mod coverage;
pub mod keys;
pub mod profile;
mod resolve;
pub mod rule;
pub mod spec;

use std::collections::BTreeMap;

use serde_saphyr::Spanned;

use crate::yaml::{self, Document, ParseError};

use self::keys::{Keys, Marks, NO_NAMESPACE_MARKS};
use self::profile::Profile;
use self::rule::Rule;
use self::spec::{ConfigurationSpec, InjectorSpec, Mode};

/// A preset: its name and its file.
macro_rules! preset {
    ($name:literal) => {
        ($name, include_str!(concat!("presets/", $name, ".yaml")))
    };
}

/// The presets: name and file.
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

/// A profile with what was prepared for reviews.
#[derive(Debug)]
pub struct Injector {
    /// What is known about it.
    pub profile: Profile,
    /// Indexes of the rules whose switch is on.
    active: Vec<usize>,
    /// The rule that decides for a pod that has none of the keys that the rules read.
    idle: Option<usize>,
}

impl Injector {
    fn new(profile: Profile, keys: &Keys) -> Self {
        let on = |rule: &Rule| profile.is_on(rule.option.as_deref());
        let active = (0..)
            .zip(&profile.rules)
            .filter(|(_, rule)| on(rule))
            .map(|(index, _)| index);
        let mut injector = Self {
            active: active.collect(),
            profile,
            idle: None,
        };
        let nothing = Marks {
            pod: &keys.pod_marks(),
            namespace: &NO_NAMESPACE_MARKS,
        };
        injector.idle = injector.first_match(&nothing).map(|rule| rule.number - 1);
        injector
    }

    /// The rules whose switch is on, in the order in which they are tried.
    pub fn active_rules(&self) -> impl Iterator<Item = &Rule> {
        self.active
            .iter()
            .filter_map(|index| self.profile.rules.get(*index))
    }

    /// The rule that decides for these values, `None` if none does (not required).
    pub fn first_match(&self, marks: &Marks<'_>) -> Option<&Rule> {
        self.active_rules().find(|rule| rule.matches(marks))
    }

    /// The rule that decides for a pod that has none of the keys.
    pub fn idle_match(&self) -> Option<&Rule> {
        self.profile.rules.get(self.idle?)
    }

    /// False in mode `disabled`.
    pub fn is_looked_at(&self) -> bool {
        self.profile.mode != Mode::Disabled
    }
}

/// The injectors that count, in the order of the configuration, compiled for look-ups.
#[derive(Debug)]
pub struct Injectors {
    list: Vec<Injector>,
    keys: Keys,
    excluded: Vec<String>,
}

impl Injectors {
    /// Reads a configuration: exactly one document.
    ///
    /// # Errors
    /// The first problem, with file, line and column.
    pub fn from_yaml(origin: &str, bytes: &[u8]) -> Result<Self, ParseError> {
        let documents = yaml::documents(origin, bytes)?;
        match documents.as_slice() {
            [document] => Self::from_document(document),
            [] => {
                let document = Document::whole(origin, "");
                let problem = "found nothing, expected a Configuration";
                Err(ParseError::new(
                    &document,
                    serde_saphyr::Location::UNKNOWN,
                    problem,
                ))
            }
            [_, second, ..] => {
                let problem = "found a second document, expected one Configuration";
                Err(ParseError::new(
                    second,
                    serde_saphyr::Location::UNKNOWN,
                    problem,
                ))
            }
        }
    }

    /// Reads a configuration out of a document of a larger file.
    ///
    /// # Errors
    /// The first problem, with file, line and column.
    pub fn from_document(document: &Document<'_>) -> Result<Self, ParseError> {
        let spec: ConfigurationSpec = document.strict().parse()?;
        let expect = |found: &Spanned<String>, expected: &str| {
            if found.value == expected {
                return Ok(());
            }
            let problem = format!("found \"{}\", expected {expected}", shown(&found.value));
            Err(ParseError::new(document, found.referenced, problem))
        };
        expect(&spec.api_version, spec::API_VERSION)?;
        expect(&spec.kind, spec::KIND)?;
        resolve::not_empty(document, &spec.injectors, "one injector at least")?;
        let (found, most) = (spec.injectors.value.len(), spec::MAX_INJECTORS);
        if found > most {
            let problem = format!("found {found} injectors, expected {most} at most");
            return Err(ParseError::new(
                document,
                spec.injectors.referenced,
                problem,
            ));
        }
        let excluded = spec
            .excluded_namespaces
            .map_or(Ok(Vec::new()), |list| resolve::namespaces(document, list))?;
        let mut keys = Keys::default();
        let mut profiles = Vec::new();
        let mut places = BTreeMap::new();
        for (number, entry) in spec.injectors.value.into_iter().enumerate() {
            let at = entry.referenced;
            let profile = from_entry(document, entry, &mut keys, number)?;
            if places.insert(profile.name.clone(), at).is_some() {
                let problem = format!(
                    "injector \"{}\" is there twice, expected once",
                    profile.name
                );
                return Err(ParseError::new(document, at, problem));
            }
            profiles.push(profile);
        }
        Ok(Self::compile(profiles, keys, excluded))
    }

    /// All presets, as they are: what counts where there is no configuration.
    ///
    /// # Errors
    /// A preset that does not parse, which the tests rule out.
    pub fn all_presets() -> Result<Self, ParseError> {
        let names: String = PRESETS
            .iter()
            .map(|(name, _)| format!("- preset: {name}\n"))
            .collect();
        let text = format!(
            "apiVersion: {}\nkind: {}\ninjectors:\n{names}",
            spec::API_VERSION,
            spec::KIND
        );
        Self::from_yaml("built-in presets", text.as_bytes())
    }

    fn compile(profiles: Vec<Profile>, keys: Keys, excluded: Vec<String>) -> Self {
        let list = profiles
            .into_iter()
            .map(|profile| Injector::new(profile, &keys))
            .collect();
        Self {
            list,
            keys,
            excluded,
        }
    }

    /// Excludes one more namespace: meshgate's own.
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

    /// How many there are.
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

    /// Whether pods of the namespace are never looked at.
    pub fn excludes(&self, namespace: &str) -> bool {
        ALWAYS_EXCLUDED.contains(&namespace) || self.excluded.iter().any(|name| name == namespace)
    }

    /// The namespaces that are excluded besides [`ALWAYS_EXCLUDED`].
    pub fn excluded(&self) -> &[String] {
        &self.excluded
    }
}

/// The profile of one `injectors:` entry, laid over its preset if it names one.
fn from_entry(
    document: &Document<'_>,
    entry: Spanned<InjectorSpec>,
    keys: &mut Keys,
    number: usize,
) -> Result<Profile, ParseError> {
    let Some(preset) = &entry.value.preset else {
        return resolve::profile(document, entry, keys, number);
    };
    let refuse = |at, problem: String| Err(ParseError::new(document, at, problem));
    let Some((name, text)) = PRESETS.iter().find(|(name, _)| *name == preset.value) else {
        let names = PRESETS.map(|(name, _)| name).join(", ");
        let problem = format!(
            "found preset \"{}\", expected one of {names}",
            shown(&preset.value)
        );
        return refuse(preset.referenced, problem);
    };
    if let Some(rules) = &entry.value.rules {
        let problem = "rules of a preset cannot be overridden: write a whole profile, with `name` \
                       in place of `preset`";
        return refuse(rules.referenced, problem.to_owned());
    }
    let base = Document::whole(name, text);
    let mut merged: Spanned<InjectorSpec> = base.parse()?;
    if let (Some(own), None) = (&entry.value.instances, &merged.value.instances) {
        let problem = format!("found instances, expected none: preset {name} has no copies");
        return refuse(own.webhook_labels.referenced, problem);
    }
    let known = merged.value.options.get_or_insert_default();
    let mut own = entry.value.options.iter().flatten();
    if let Some((unknown, value)) = own.find(|(option, _)| !known.contains_key(*option)) {
        let known = known.keys().map(String::as_str).collect::<Vec<_>>();
        let expected = if known.is_empty() {
            format!("none, as preset {name} has no options")
        } else {
            format!("one that preset {name} has: {}", known.join(", "))
        };
        let problem = format!("found option \"{}\", expected {expected}", shown(unknown));
        return refuse(value.referenced, problem);
    }
    // Fields of the entry have places in the user's file, those of the preset in the preset's:
    // what the user wrote is checked as the user's, so that errors name the right line.
    let at = entry.referenced;
    merged.value.overlay(entry.value);
    merged.referenced = at;
    resolve::profile(document, merged, keys, number)
}

/// A value that somebody else chose, for a sentence: short, and on one line.
pub fn shown(value: &str) -> String {
    const LONGEST: usize = 63;
    one_line(value, LONGEST)
}

/// The first `longest` characters of a text that somebody else chose, on one line.
pub fn one_line(text: &str, longest: usize) -> String {
    let is_long = text.chars().nth(longest).is_some();
    let head = text.chars().take(longest);
    let mut line: String = head
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect();
    if is_long {
        line.push('…');
    }
    line
}

#[cfg(test)]
mod rules_tests;
#[cfg(test)]
mod tests;
