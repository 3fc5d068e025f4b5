//! The configuration: one YAML document, read strictly (design section 4).
//!
//! What meshgate would not understand, or would never use, is an error with file, line and column:
//! an unknown key, an empty list, a rule that can never decide. A typing error that passed would
//! be a sidecar that meshgate does not ask for.
//!
//! - `spec`: the document as it is written, and its JSON Schema.
//! - `profile`, `rules`, `text`: from there to [`Profile`], with every check on the way.

mod either;
mod profile;
mod rules;
mod spec;
mod text;

use std::collections::BTreeSet;

use crate::injector::profile::Profile;
use crate::injector::{Injectors, MAX_INJECTORS, PRESETS};
use crate::text::shown;
use crate::yaml::{self, Document, ParseError, Placed};

use self::profile::Resolver;
pub use self::spec::{
    API_VERSION, ConfigurationSpec, InjectedSpec, InjectorSpec, KIND, RuleSpec, TermSpec,
};

type Result<T> = std::result::Result<T, ParseError>;

impl Injectors {
    /// Reads a configuration: exactly one document.
    ///
    /// # Errors
    /// The first problem, with file, line and column.
    pub fn from_yaml(origin: &str, bytes: &[u8]) -> Result<Self> {
        match yaml::documents(origin, bytes)?.as_slice() {
            [document] => Self::from_document(document),
            [] => {
                let document = Document::whole(origin, "");
                Err(document.error("found nothing, expected a Configuration"))
            }
            [_, second, ..] => {
                Err(second.error("found a second document, expected one Configuration"))
            }
        }
    }

    /// Reads a configuration out of a document of a larger file.
    ///
    /// # Errors
    /// The first problem, with file, line and column.
    pub fn from_document(document: &Document<'_>) -> Result<Self> {
        let spec: ConfigurationSpec = document.strict().parse()?;
        let mut resolver = Resolver::new(document);
        resolver.is(&spec.api_version, API_VERSION)?;
        resolver.is(&spec.kind, KIND)?;
        resolver.count(&spec.injectors, MAX_INJECTORS, "injector")?;
        let excluded = spec.excluded_namespaces;
        let excluded = excluded.map(|list| resolver.namespaces(list)).transpose()?;
        let mut profiles = Vec::new();
        let mut names = BTreeSet::new();
        for (number, entry) in spec.injectors.value.into_iter().enumerate() {
            let at = entry.at;
            let profile = from_entry(&mut resolver, entry, number)?;
            let name = &profile.name;
            let problem = format_args!("injector \"{name}\" is there twice, expected once");
            resolver.refuse_if(!names.insert(name.clone()), at, problem)?;
            profiles.push(profile);
        }
        let excluded = excluded.unwrap_or_default();
        let wakes = spec.wake.is_none_or(|wake| wake.enabled.0);
        Ok(Self::new(profiles, resolver.keys, excluded, wakes))
    }

    /// All presets, as they are: what counts where there is no configuration.
    ///
    /// # Errors
    /// A preset does not parse, which the tests rule out.
    pub fn all_presets() -> Result<Self> {
        Self::of_presets(PRESETS.map(|(name, _)| name))
    }

    /// Some presets, as they are.
    ///
    /// # Errors
    /// There is no such preset, or no name.
    pub fn of_presets<'n>(names: impl IntoIterator<Item = &'n str>) -> Result<Self> {
        let entries = names.into_iter().map(|name| format!("- preset: {name}\n"));
        let entries: String = entries.collect();
        let text = format!("apiVersion: {API_VERSION}\nkind: {KIND}\ninjectors:\n{entries}");
        Self::from_yaml("built-in presets", text.as_bytes())
    }
}

/// The profile of one `injectors:` entry, laid over its preset if it names one. What a preset cannot take is
/// refused, and not dropped: its author would rely on it.
fn from_entry(
    resolver: &mut Resolver<'_>,
    entry: Placed<InjectorSpec>,
    number: usize,
) -> Result<Profile> {
    let (at, own) = (entry.at, entry.value);
    let Some(preset) = &own.preset else {
        return resolver.profile(own, at, number);
    };
    let Some((name, text)) = PRESETS.iter().find(|(name, _)| *name == preset.value) else {
        let names = PRESETS.map(|(name, _)| name).join(", ");
        let found = shown(&preset.value);
        let problem = format!("found preset \"{found}\", expected one of {names}");
        return resolver.refuse(preset.at, problem);
    };
    if let Some(rules) = &own.rules {
        // Rules count by their order: what a rule among others would mean is in no file.
        let problem = "rules of a preset cannot be overridden: write a whole profile, with `name` \
                       in place of `preset`";
        return resolver.refuse(rules.at, problem);
    }
    let preset: InjectorSpec = Document::whole(name, text).parse()?;
    // The preset's rules name no instance, so that the copies would never be told apart.
    if let (Some(own), None) = (&own.instances, &preset.instances) {
        let problem = format!("found instances, expected none: preset {name} has no copies");
        return resolver.refuse(own.webhook_labels.at, problem);
    }
    let known = preset.options.iter().flatten();
    let known: Vec<&str> = known.map(|(name, _)| name.as_str()).collect();
    let mut options = own.options.iter().flatten();
    if let Some((unknown, value)) = options.find(|(option, _)| !known.contains(&option.as_str())) {
        let expected = if known.is_empty() {
            format!("none, as preset {name} has no options")
        } else {
            format!("one that preset {name} has: {}", known.join(", "))
        };
        let problem = format!("found option \"{}\", expected {expected}", shown(unknown));
        return resolver.refuse(value.at, problem);
    }
    // Values of the entry carry their place in the user's file. Those of the preset carry a place
    // in the preset's file, and nothing is wrong with them, so that errors name the right line.
    resolver.profile(preset.with(own), at, number)
}

#[cfg(test)]
mod rules_tests;
#[cfg(test)]
mod tests;
