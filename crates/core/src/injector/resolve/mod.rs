//! From the configuration as it was written to profiles: what is missing, twice, contradictory
//! or can never matter is refused here, with its place in the file.
//!
//! `rules` has what is refused in rules and their terms, `text` what a name may look like.

mod rules;
mod text;

use std::collections::BTreeSet;

use serde_saphyr::{Location, Spanned};

use crate::yaml::{Document, ParseError, Plain};

use super::keys::Keys;
use super::profile::{
    Cni, ContainerName, Instances, MeshedSet, NamespaceScope, Profile, ServiceName, Validator,
    WebhookName,
};
use super::spec::{
    CniSpec, InjectorSpec, InstancesSpec, MeshedSpec, Mode, NamespacesSpec, ServiceSpec,
    SidecarSpec, ValidatorSpec,
};
use super::{coverage, spec};

pub(super) use self::text::{namespaces, not_empty};

type Result<T> = std::result::Result<T, ParseError>;

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
        values_left: spec::MAX_VALUES,
    }
    .profile(spec.value)
}

struct Resolver<'d, 'k> {
    document: &'d Document<'d>,
    keys: &'k mut Keys,
    reader: usize,
    /// Where the profile begins.
    at: Location,
    /// How many more values its terms may name.
    values_left: usize,
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
            return Err(self.missing("name", "a name of its own, or `preset`"));
        };
        let name = self.name(name)?;
        let Some(service) = spec.service else {
            return Err(self.missing("service", "the Service that injects"));
        };
        let service = self.service(service, "")?;
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
            meshed: self.meshed_sets(meshed, &known)?,
            skips: match spec.skips {
                Some(skips) => self.texts(skips.containers, "a container's name")?,
                None => Vec::new(),
            },
            validator: spec
                .validator
                .map(|spec| self.validator(spec))
                .transpose()?,
            cni: spec.cni.map(|spec| self.cni(spec)).transpose()?,
            minimum: self.minimum(spec.minimum)?,
            readiness: spec.readiness.unwrap_or_default(),
            hint: spec.hint.map(|hint| self.sentence(hint)).transpose()?,
            options: options
                .into_iter()
                .map(|(name, on)| (name, on.value.0))
                .collect(),
        })
    }

    fn minimum(&self, minimum: Option<Spanned<Plain<u32>>>) -> Result<u32> {
        match minimum {
            Some(zero) if zero.value.0 == 0 => {
                Err(self.error(zero.referenced, "found 0, expected 1 or more"))
            }
            Some(count) => Ok(count.value.0),
            None => Ok(1),
        }
    }

    fn webhook(&self, name: Spanned<String>) -> Result<WebhookName> {
        let at = name.referenced;
        let name = self.filled(name, "the name of a webhook entry")?;
        let rest = name.strip_prefix('*').unwrap_or(&name);
        if rest.is_empty() || rest.contains('*') {
            let problem = format!(
                "found webhook \"{name}\", expected a name with at most one *, at its front"
            );
            return Err(self.error(at, problem));
        }
        Ok(WebhookName(name))
    }

    fn path(&self, path: Spanned<String>) -> Result<String> {
        let at = path.referenced;
        let path = self.filled(path, "a path that begins with /")?;
        if path.starts_with('/') {
            return Ok(path);
        }
        let problem = format!("found path \"{path}\", expected one that begins with /");
        Err(self.error(at, problem))
    }

    fn instances(&self, spec: InstancesSpec) -> Result<Instances> {
        let labels = self.texts(spec.webhook_labels, "a label of webhook configurations")?;
        let at = spec.fallback.name.referenced;
        let fallback = self.service(spec.fallback, spec::INSTANCE)?;
        if !fallback.name.contains(spec::INSTANCE) && !fallback.namespace.contains(spec::INSTANCE) {
            let problem = format!(
                "found fallback \"{}\", expected {{instance}} in it, or all copies are one",
                fallback.name
            );
            return Err(self.error(at, problem));
        }
        Ok(Instances::new(labels, fallback))
    }

    fn scope(&self, spec: NamespacesSpec) -> Result<NamespaceScope> {
        let names = |list| namespaces(self.document, list);
        Ok(NamespaceScope {
            only: spec.only.map(names).transpose()?,
            except: spec.except.map(names).transpose()?.unwrap_or_default(),
        })
    }

    fn validator(&self, spec: ValidatorSpec) -> Result<Validator> {
        Ok(Validator {
            container: self.filled(spec.container, "a container's name")?,
            exit_code: spec.exit_code.0,
            repair: spec.repair,
        })
    }

    fn cni(&self, spec: CniSpec) -> Result<Cni> {
        if spec.pod_label.value.is_empty() {
            let problem = "found no label, expected one at least: all pods would be meant";
            return Err(self.error(spec.pod_label.referenced, problem));
        }
        let taint = spec.taint.map(|taint| self.filled(taint, "a taint's key"));
        Ok(Cni {
            namespaces: namespaces(self.document, spec.namespaces)?,
            pod_label: spec.pod_label.value,
            taint: taint.transpose()?,
        })
    }

    fn service(&self, service: ServiceSpec, placeholder: &str) -> Result<ServiceName> {
        let part = |text: Spanned<String>, expected: &str| {
            text::dns_label(self.document, text, placeholder, expected)
        };
        Ok(ServiceName {
            namespace: part(service.namespace, "a namespace")?,
            name: part(service.name, "the name of a Service")?,
        })
    }

    fn meshed_sets(
        &mut self,
        specs: Spanned<Vec<Spanned<MeshedSpec>>>,
        options: &BTreeSet<&str>,
    ) -> Result<Vec<MeshedSet>> {
        not_empty(self.document, &specs, "one set at least")?;
        self.not_above(&specs, spec::MAX_SETS, "sets")?;
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
            let problem = "this set names no container, expected sidecar, init or both: any pod \
                           would do";
            return Err(self.error(at, problem));
        }
        if let (None, Some(images)) = (&spec.sidecar, &spec.not_image) {
            let problem = "found notImage without sidecar, expected both";
            return Err(self.error(images.referenced, problem));
        }
        let when = match spec.when {
            Some(terms) => {
                not_empty(self.document, &terms, "one term at least")?;
                self.terms(terms)?
            }
            None => Vec::new(),
        };
        if let Some(key) = coverage::contradiction(&when) {
            let problem =
                format!("this set never counts: its terms on {key} contradict each other");
            return Err(self.error(at, problem));
        }
        let list = |list, what| self.texts(list, what);
        Ok(MeshedSet {
            option: spec
                .option
                .map(|name| self.option(name, options))
                .transpose()?,
            when,
            sidecar: spec.sidecar.map(|name| self.sidecar(name)).transpose()?,
            not_image: spec
                .not_image
                .map_or(Ok(Vec::new()), |images| list(images, "an image"))?,
            init: spec
                .init
                .map_or(Ok(Vec::new()), |names| list(names, "a container's name"))?,
        })
    }

    fn sidecar(&self, spec: Spanned<SidecarSpec>) -> Result<ContainerName> {
        let Spanned {
            value,
            referenced,
            defined,
        } = spec;
        let filled = |value| {
            let text = Spanned {
                value,
                referenced,
                defined,
            };
            self.filled(text, "a container's name")
        };
        Ok(match value {
            SidecarSpec::Name(name) => ContainerName::Exact(filled(name)?),
            SidecarSpec::Prefix(prefix) => ContainerName::Prefix(filled(prefix.prefix)?),
        })
    }

    fn not_above<T>(&self, list: &Spanned<Vec<T>>, most: usize, noun: &str) -> Result<()> {
        let found = list.value.len();
        if found <= most {
            return Ok(());
        }
        let problem = format!("found {found} {noun}, expected {most} at most");
        Err(self.error(list.referenced, problem))
    }
}
