//! From the configuration as it was written to profiles: what is missing, twice, contradictory
//! or can never matter is refused here, with its place in the file.

use std::collections::BTreeSet;

use serde_saphyr::{Location, Spanned};

use crate::yaml::{Document, ParseError};

use super::coverage::{self, Flaw};
use super::keys::Keys;
use super::profile::{
    ContainerName, Instances, MeshedSet, NamespaceScope, Profile, ServiceName, WebhookName,
};
use super::rule::{InstanceSource, Key, Place, Rule, Term, Test, Values};
use super::spec::{
    InjectorSpec, InstanceSpec, InstancesSpec, KeySpec, MeshedSpec, Mode, NamespacesSpec, Outcome,
    RuleSpec, ServiceSpec, SidecarSpec, TermSpec,
};

type Result<T> = std::result::Result<T, ParseError>;

/// Longest warning, in characters: more than that and the API server may cut it.
const MAX_WARNING: usize = 120;

/// Makes the profile of one `injectors:` entry. `reader` is its number.
pub(super) fn profile(
    document: &Document<'_>,
    spec: Spanned<InjectorSpec>,
    keys: &mut Keys,
    reader: usize,
) -> Result<Profile> {
    let at = spec.referenced;
    Resolver {
        document,
        keys,
        reader,
        at,
    }
    .profile(spec.value)
}

struct Resolver<'d, 'k> {
    document: &'d Document<'d>,
    keys: &'k mut Keys,
    reader: usize,
    at: Location,
}

impl Resolver<'_, '_> {
    fn error(&self, at: Location, problem: impl std::fmt::Display) -> ParseError {
        ParseError::new(self.document, at, problem)
    }

    fn missing(&self, key: &str, what: &str) -> ParseError {
        self.error(
            self.at,
            format_args!("key \"{key}\" is missing in this profile: {what}"),
        )
    }

    fn profile(&mut self, spec: InjectorSpec) -> Result<Profile> {
        let Some(name) = spec.name else {
            return Err(self.missing("name", "a name of its own"));
        };
        let name = self.name(name)?;
        let Some(service) = spec.service else {
            return Err(self.missing("service", "the Service that injects"));
        };
        let service = self.service(service)?;
        if spec.webhook.is_none() && spec.instances.is_none() {
            let what = "the name of the injector's entry in its webhook configuration";
            return Err(self.missing("webhook", what));
        }
        let options = spec.options.unwrap_or_default();
        let known: BTreeSet<&str> = options.keys().map(String::as_str).collect();
        let Some(rules) = spec.rules else {
            return Err(self.missing("rules", "which pods require it"));
        };
        let rules = self.rules(rules, &known, spec.instances.is_some())?;
        let Some(meshed) = spec.meshed else {
            return Err(self.missing("meshed", "what a pod holds once it was injected"));
        };
        let meshed = self.meshed_sets(meshed, &known)?;
        let minimum = spec.minimum.map_or(Ok(1), |minimum| match minimum.value {
            0 => Err(self.error(minimum.referenced, "found 0, expected 1 or more")),
            count => Ok(count),
        })?;
        Ok(Profile {
            name,
            mode: spec.mode.unwrap_or(Mode::Enforce),
            webhook: spec.webhook.map(|name| self.webhook(name)).transpose()?,
            path: spec.path.map(|path| self.path(path)).transpose()?,
            service,
            instances: spec
                .instances
                .map(|instances| self.instances(instances))
                .transpose()?,
            namespaces: self.scope(spec.namespaces.unwrap_or_default())?,
            rules,
            meshed,
            skips: spec.skips.map_or(Ok(Vec::new()), |skips| {
                self.texts(skips.containers, "a container's name")
            })?,
            validator: spec.validator,
            cni: spec.cni,
            minimum,
            readiness: spec.readiness.unwrap_or_default(),
            hint: spec.hint.map(|hint| self.sentence(hint)).transpose()?,
            options,
        })
    }

    fn name(&self, name: Spanned<String>) -> Result<String> {
        let text = &name.value;
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let fits = (1..=40).contains(&text.len())
            && text.bytes().all(inner)
            && !text.starts_with('-')
            && !text.ends_with('-');
        if fits {
            return Ok(name.value);
        }
        let expected = "expected 1 to 40 lower case letters, digits and dashes, no dash at an end";
        Err(self.error(
            name.referenced,
            format_args!("found name \"{text}\", {expected}"),
        ))
    }

    fn service(&self, service: ServiceSpec) -> Result<ServiceName> {
        Ok(ServiceName {
            namespace: self.filled(service.namespace, "a namespace")?,
            name: self.filled(service.name, "the name of a Service")?,
        })
    }

    fn filled(&self, text: Spanned<String>, expected: &str) -> Result<String> {
        if text.value.trim().is_empty() {
            let problem = format!("found an empty text, expected {expected}");
            return Err(self.error(text.referenced, problem));
        }
        Ok(text.value)
    }

    fn webhook(&self, name: Spanned<String>) -> Result<WebhookName> {
        let at = name.referenced;
        let name = self.filled(name, "the name of a webhook entry")?;
        if name.trim_start_matches('*').contains('*') || name.starts_with("**") || name == "*" {
            let problem = format!("found \"{name}\", expected at most one * and it at the front");
            return Err(self.error(at, problem));
        }
        Ok(WebhookName(name))
    }

    fn path(&self, path: Spanned<String>) -> Result<String> {
        if path.value.starts_with('/') {
            return Ok(path.value);
        }
        let problem = format!("found path \"{}\", expected it to begin with /", path.value);
        Err(self.error(path.referenced, problem))
    }

    fn instances(&self, spec: InstancesSpec) -> Result<Instances> {
        let labels = self.texts(spec.webhook_labels, "a label of webhook configurations")?;
        let at = spec.fallback.name.referenced;
        let fallback = self.service(spec.fallback)?;
        if !fallback.name.contains("{instance}") && !fallback.namespace.contains("{instance}") {
            let problem = "expected {instance} in the fallback's name, or all copies are one";
            return Err(self.error(at, problem));
        }
        Ok(Instances::new(labels, fallback))
    }

    fn scope(&self, spec: NamespacesSpec) -> Result<NamespaceScope> {
        let names = |list| self.texts(list, "a namespace");
        Ok(NamespaceScope {
            only: spec.only.map(names).transpose()?,
            except: spec.except.map(names).transpose()?.unwrap_or_default(),
        })
    }

    fn texts(&self, list: Spanned<Vec<Spanned<String>>>, expected: &str) -> Result<Vec<String>> {
        texts(self.document, list, expected)
    }

    /// One line that the API server will carry.
    fn sentence(&self, text: Spanned<String>) -> Result<String> {
        let at = text.referenced;
        let text = self.filled(text, "a sentence")?;
        if text.chars().any(char::is_control) {
            return Err(self.error(at, "expected one line without tabs"));
        }
        if text.chars().count() > MAX_WARNING {
            let problem = format!("expected {MAX_WARNING} characters at most");
            return Err(self.error(at, problem));
        }
        Ok(text)
    }

    fn rules(
        &mut self,
        specs: Spanned<Vec<Spanned<RuleSpec>>>,
        options: &BTreeSet<&str>,
        has_instances: bool,
    ) -> Result<Vec<Rule>> {
        self.not_empty(&specs, "one rule at least")?;
        let places: Vec<_> = specs.value.iter().map(|rule| rule.referenced).collect();
        let mut rules = Vec::with_capacity(places.len());
        for (number, spec) in (1..).zip(specs.value) {
            rules.push(self.rule(number, spec, options, has_instances)?);
        }
        let Some((index, flaw)) = coverage::first_flaw(&rules) else {
            return Ok(rules);
        };
        let at = places.get(index).copied().unwrap_or(self.at);
        let number = index + 1;
        Err(self.error(
            at,
            match flaw {
                Flaw::Contradiction(key) => format!(
                    "rule {number} can never match: its terms on {key} contradict each other"
                ),
                Flaw::Covered(earlier) => format!(
                    "rule {number} can never decide: rule {earlier} before it matches all of it"
                ),
                Flaw::InstanceMayBeAbsent(key) => format!(
                    "rule {number} takes its instance from {key}, which may be absent: expected a \
                 term that wants it to be there"
                ),
            },
        ))
    }

    fn rule(
        &mut self,
        number: usize,
        spec: Spanned<RuleSpec>,
        options: &BTreeSet<&str>,
        has_instances: bool,
    ) -> Result<Rule> {
        let at = spec.referenced;
        let spec = spec.value;
        let option = spec
            .option
            .map(|name| self.option(name, options))
            .transpose()?;
        if spec.when.value.is_empty() && option.is_none() {
            let problem = "found an empty list, expected one term at least: a rule that always \
                           holds must depend on an option";
            return Err(self.error(spec.when.referenced, problem));
        }
        if has_instances && spec.then == Outcome::Required && spec.instance.is_none() {
            let problem = format!("rule {number} requires the injector but names no instance");
            return Err(self.error(at, problem));
        }
        if let Some(instance) = &spec.instance
            && !(has_instances && spec.then == Outcome::Required)
        {
            let problem = "an instance needs `instances` in the profile and `then: required`";
            return Err(self.error(instance.referenced, problem));
        }
        Ok(Rule {
            number,
            option,
            when: self.terms(spec.when)?,
            then: spec.then,
            instance: spec
                .instance
                .map(|instance| self.instance(instance))
                .transpose()?,
            warn: spec.warn.map(|warn| self.sentence(warn)).transpose()?,
        })
    }

    fn option(&self, name: Spanned<String>, options: &BTreeSet<&str>) -> Result<String> {
        if options.contains(name.value.as_str()) {
            return Ok(name.value);
        }
        let known = options.iter().copied().collect::<Vec<_>>().join(", ");
        let known = if known.is_empty() {
            "none is declared".to_owned()
        } else {
            known
        };
        let problem = format!("found option \"{}\", expected one of: {known}", name.value);
        Err(self.error(name.referenced, problem))
    }

    fn instance(&mut self, spec: Spanned<InstanceSpec>) -> Result<InstanceSource> {
        match spec.value {
            InstanceSpec::Constant(name) if name.is_empty() => {
                Err(self.error(spec.referenced, "found an empty text, expected an instance"))
            }
            InstanceSpec::Constant(name) => Ok(InstanceSource::Constant(name)),
            InstanceSpec::Key(key) => {
                let key = self.key(key, spec.referenced)?;
                let slot = self.keys.intern(&key, self.reader);
                Ok(InstanceSource::Key { key, slot })
            }
        }
    }

    fn terms(&mut self, specs: Spanned<Vec<Spanned<TermSpec>>>) -> Result<Vec<Term>> {
        specs
            .value
            .into_iter()
            .map(|term| self.term(term.value, term.referenced))
            .collect()
    }

    fn term(&mut self, spec: TermSpec, at: Location) -> Result<Term> {
        let key = self.key(
            KeySpec {
                pod_label: spec.pod_label,
                pod_annotation: spec.pod_annotation,
                namespace_label: spec.namespace_label,
                namespace_annotation: spec.namespace_annotation,
            },
            at,
        )?;
        let fold = spec.fold.unwrap_or(false);
        let test = match (spec.one_of, spec.not_in, spec.exists) {
            (Some(list), None, None) => Test::In(self.values(list, fold, at)?),
            (None, Some(list), None) => Test::NotIn(self.values(list, fold, at)?),
            (None, None, Some(true)) => Test::Exists,
            (None, None, Some(false)) => Test::Absent,
            _ => return Err(self.error(at, "expected exactly one of in, notIn, exists")),
        };
        let is_label = matches!(key.place, Place::PodLabel | Place::NamespaceLabel);
        if fold && (is_label || test.values().is_none()) {
            return Err(self.error(at, "fold goes with in and notIn on annotations only"));
        }
        let slot = self.keys.intern(&key, self.reader);
        Ok(Term { key, test, slot })
    }

    fn values(&self, list: Vec<String>, fold: bool, at: Location) -> Result<Values> {
        if list.is_empty() {
            return Err(self.error(at, "found an empty list, expected one value at least"));
        }
        let values = Values { list, fold };
        for (index, value) in values.list.iter().enumerate() {
            let before = Values {
                list: values.list.iter().take(index).cloned().collect(),
                fold,
            };
            if before.contain(value) {
                return Err(self.error(at, format_args!("value \"{value}\" is there twice")));
            }
        }
        Ok(values)
    }

    fn key(&self, spec: KeySpec, at: Location) -> Result<Key> {
        let names = [
            spec.pod_label,
            spec.pod_annotation,
            spec.namespace_label,
            spec.namespace_annotation,
        ];
        let mut keys = Place::ALL.into_iter().zip(names);
        let mut named = keys
            .by_ref()
            .filter_map(|(place, name)| Some(Key { place, name: name? }));
        match (named.next(), named.next()) {
            (Some(key), None) if key.name.is_empty() => {
                Err(self.error(at, "found an empty key, expected the name of one"))
            }
            (Some(key), None) => Ok(key),
            _ => Err(self.error(
                at,
                "expected exactly one of podLabel, podAnnotation, namespaceLabel, \
                 namespaceAnnotation",
            )),
        }
    }

    fn meshed_sets(
        &mut self,
        specs: Spanned<Vec<Spanned<MeshedSpec>>>,
        options: &BTreeSet<&str>,
    ) -> Result<Vec<MeshedSet>> {
        self.not_empty(&specs, "one set at least")?;
        specs
            .value
            .into_iter()
            .map(|spec| self.meshed(spec, options))
            .collect()
    }

    fn meshed(&mut self, spec: Spanned<MeshedSpec>, options: &BTreeSet<&str>) -> Result<MeshedSet> {
        let at = spec.referenced;
        let spec = spec.value;
        if spec.sidecar.is_none() && spec.init.is_none() {
            return Err(self.error(at, "expected sidecar, init or both: any pod would do"));
        }
        if let (None, Some(images)) = (&spec.sidecar, &spec.not_image) {
            return Err(self.error(images.referenced, "notImage goes with sidecar"));
        }
        let when = match spec.when {
            Some(terms) => {
                self.not_empty(&terms, "one term at least")?;
                self.terms(terms)?
            }
            None => Vec::new(),
        };
        if let Some(key) = coverage::contradiction(&when) {
            let problem = format!("the terms on {key} contradict each other");
            return Err(self.error(at, problem));
        }
        let list = |list, what| self.texts(list, what);
        let sidecar = match spec.sidecar {
            Some(SidecarSpec::Name(name)) => Some(ContainerName::Exact(name)),
            Some(SidecarSpec::Prefix(prefix)) => Some(ContainerName::Prefix(prefix.prefix)),
            None => None,
        };
        if let Some(ContainerName::Exact(text) | ContainerName::Prefix(text)) = &sidecar
            && text.is_empty()
        {
            return Err(self.error(at, "found an empty text, expected a container's name"));
        }
        Ok(MeshedSet {
            option: spec
                .option
                .map(|name| self.option(name, options))
                .transpose()?,
            when,
            sidecar,
            not_image: spec
                .not_image
                .map_or(Ok(Vec::new()), |images| list(images, "an image"))?,
            init: spec
                .init
                .map_or(Ok(Vec::new()), |names| list(names, "a container's name"))?,
        })
    }

    fn not_empty<T>(&self, list: &Spanned<Vec<T>>, expected: &str) -> Result<()> {
        not_empty(self.document, list, expected)
    }
}

/// A list of texts, none empty and none there twice.
pub(super) fn texts(
    document: &Document<'_>,
    list: Spanned<Vec<Spanned<String>>>,
    expected: &str,
) -> Result<Vec<String>> {
    not_empty(document, &list, expected)?;
    let mut texts: Vec<String> = Vec::with_capacity(list.value.len());
    for text in list.value {
        let problem = if text.value.trim().is_empty() {
            format!("found an empty text, expected {expected}")
        } else if texts.contains(&text.value) {
            format!("\"{}\" is there twice", text.value)
        } else {
            texts.push(text.value);
            continue;
        };
        return Err(ParseError::new(document, text.referenced, problem));
    }
    Ok(texts)
}

/// An empty list says nothing; whoever means nothing leaves the key out.
pub(super) fn not_empty<T>(
    document: &Document<'_>,
    list: &Spanned<Vec<T>>,
    expected: &str,
) -> Result<()> {
    if !list.value.is_empty() {
        return Ok(());
    }
    let problem = format!("found an empty list, expected {expected}, or the key left out");
    Err(ParseError::new(document, list.referenced, problem))
}
