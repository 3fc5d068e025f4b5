//! From one `injectors:` entry as it was written to its [`Profile`]: what is missing, twice,
//! contradictory or without effect is refused here, with its place in the file.
//!
//! One `Resolver` goes through a whole document, so that all profiles share one index of keys. Each
//! check says what it found and what it expected, in this order.

use std::collections::BTreeMap;
use std::fmt::Display;

use serde_saphyr::Location;

use crate::injector::coverage;
use crate::injector::keys::Keys;
use crate::injector::opt_out::forbidding;
use crate::injector::profile::{
    Cni, ContainerName, INSTANCE, InjectedSet, Instances, NamespaceScope, OptOut, Profile,
    ServiceName, Validator, WebhookName,
};
use crate::injector::rule::Rule;
use crate::text::shown;
use crate::yaml::{Document, List, Placed, Plain};

use super::Result;
use super::spec::{
    CniSpec, InjectedSpec, InjectorSpec, InstancesSpec, MAX_SETS, MAX_VALUES, NamespacesSpec,
    ServiceSpec, SidecarSpec, ValidatorSpec,
};

/// Makes profiles of the entries of one document.
pub(super) struct Resolver<'d> {
    document: &'d Document<'d>,
    /// The keys that the rules read so far.
    pub(super) keys: Keys,
    /// Number of the profile at hand, as a reader of keys.
    pub(super) number: usize,
    /// Where that profile begins: the place of what is missing in it.
    pub(super) at: Location,
    /// How many more values its terms may name.
    pub(super) values_left: usize,
    /// Its options, on or off.
    pub(super) options: BTreeMap<String, bool>,
    /// Whether it has copies, so that each rule that requires it must name one.
    pub(super) has_instances: bool,
}

impl<'d> Resolver<'d> {
    pub(super) fn new(document: &'d Document<'d>) -> Self {
        Self {
            document,
            keys: Keys::default(),
            number: 0,
            at: Location::UNKNOWN,
            values_left: 0,
            options: BTreeMap::new(),
            has_instances: false,
        }
    }

    /// The problem at its place, in the type of whatever was to be made.
    pub(super) fn refuse<T>(&self, at: Location, problem: impl Display) -> Result<T> {
        Err(self.document.error_at(at, problem))
    }

    /// The same, if something is wrong there.
    pub(super) fn refuse_if(&self, wrong: bool, at: Location, problem: impl Display) -> Result<()> {
        if wrong {
            return self.refuse(at, problem);
        }
        Ok(())
    }

    /// A field without which no profile is whole.
    fn wanted<T>(&self, field: Option<T>, key: &str, what: &str) -> Result<T> {
        let problem = format_args!("key \"{key}\" is missing in this profile: {what}");
        field.map_or_else(|| self.refuse(self.at, problem), Ok)
    }

    /// The profile that begins at `at`, the one with that number.
    pub(super) fn profile(
        &mut self,
        spec: InjectorSpec,
        at: Location,
        number: usize,
    ) -> Result<Profile> {
        let options = spec.options.into_iter().flatten();
        self.options = options.map(|(name, on)| (name, on.value.0)).collect();
        // Rules read both, and come before the rest of the profile is there.
        self.has_instances = spec.instances.is_some();
        (self.at, self.number, self.values_left) = (at, number, MAX_VALUES);

        let name = self.wanted(spec.name, "name", "a name of its own, or `preset`")?;
        let name = self.name(name)?;
        let service = self.wanted(spec.service, "service", "the Service that injects")?;
        let service = self.service(service, "")?;
        if !self.has_instances {
            let what = "the name of the injector's entry in its webhook configuration";
            self.wanted(spec.webhook.as_ref(), "webhook", what)?;
        }
        let rules = self.wanted(spec.rules, "rules", "which pods require it")?;
        let mut rules = self.rules(rules)?;
        if spec.opt_out == Some(OptOut::Forbid) {
            let is_on = |rule: &Rule| rule.option.as_ref().is_none_or(|name| self.options[name]);
            rules = forbidding(&rules, is_on);
        }
        for (position, rule) in (1..).zip(&mut rules) {
            rule.position = position;
        }
        let what = "what a pod holds once it was injected";
        let injected = self.wanted(spec.injected, "injected", what)?;
        let skips = spec.skips.map(|skips| skips.containers);
        Ok(Profile {
            name,
            mode: spec.mode.unwrap_or_default(),
            webhook: spec.webhook.map(|name| self.webhook(name)).transpose()?,
            path: spec.path.map(|path| self.path(path)).transpose()?,
            service,
            instances: spec.instances.map(|all| self.instances(all)).transpose()?,
            namespaces: self.scope(spec.namespaces.unwrap_or_default())?,
            rules,
            injected: self.injected_sets(injected)?,
            skips: self.texts_or_none(skips, "a container's name")?,
            validator: spec.validator.map(|one| self.validator(one)).transpose()?,
            cni: spec.cni.map(|cni| self.cni(cni)).transpose()?,
            minimum: self.at_least_1(spec.minimum.as_ref())?.unwrap_or(1),
            readiness: spec.readiness.unwrap_or_default(),
            hint: spec.hint.map(|hint| self.sentence(hint)).transpose()?,
            staleness: self.at_least_1(spec.staleness.as_ref())?,
            options: std::mem::take(&mut self.options),
        })
    }

    /// With a minimum of 0 the gate would never wait, and say that it does. With a staleness of 0 every
    /// sidecar would be too old.
    fn at_least_1(&self, count: Option<&Placed<Plain<u32>>>) -> Result<Option<u32>> {
        let Some(count) = count else {
            return Ok(None);
        };
        self.refuse_if(count.value.0 == 0, count.at, "found 0, expected 1 or more")?;
        Ok(Some(count.value.0))
    }

    /// At most one `*`, at the front: a chart may put the release's name before the entry's
    /// (hashicorp/consul-k8s, charts/consul/templates/connect-inject-mutatingwebhookconfiguration.yaml).
    /// A lone `*` would mean every webhook of the cluster.
    fn webhook(&self, name: Placed<String>) -> Result<WebhookName> {
        let at = name.at;
        let name = self.filled(name, "the name of a webhook entry")?;
        let rest = name.strip_prefix('*').unwrap_or(&name);
        let expected = "expected a name with at most one *, at its front";
        let problem = format_args!("found webhook \"{name}\", {expected}");
        self.refuse_if(rest.is_empty() || rest.contains('*'), at, problem)?;
        Ok(WebhookName(name))
    }

    /// Entries are told apart by path where their name is a common one: `mpod.kb.io` is kubebuilder's
    /// default (open-telemetry/opentelemetry-operator). API servers call paths that begin with `/`.
    fn path(&self, path: Placed<String>) -> Result<String> {
        let at = path.at;
        let path = self.filled(path, "a path that begins with /")?;
        let problem = format_args!("found path \"{path}\", expected one that begins with /");
        self.refuse_if(!path.starts_with('/'), at, problem)?;
        Ok(path)
    }

    /// Istio's revisions and tags (case 31). The fallback's Service is looked at where no webhook
    /// configuration is known, and one name for all copies would mix up their readiness there.
    fn instances(&self, spec: InstancesSpec) -> Result<Instances> {
        let what = "a label of webhook configurations";
        let webhook_labels = self.texts(spec.webhook_labels, what)?;
        let at = spec.fallback.name.at;
        let fallback = self.service(spec.fallback, INSTANCE)?;
        let ServiceName { namespace, name } = &fallback;
        if !name.contains(INSTANCE) && !namespace.contains(INSTANCE) {
            let expected = format!("expected {INSTANCE} in it, or all copies are one");
            return self.refuse(at, format_args!("found fallback \"{name}\", {expected}"));
        }
        Ok(Instances {
            webhook_labels,
            fallback,
            pod_annotations: self.texts_or_none(spec.pod_annotations, "an annotation of a pod")?,
        })
    }

    /// Names alone: what an injector's own `namespaceSelector` says by labels is part of the rules.
    fn scope(&self, spec: NamespacesSpec) -> Result<NamespaceScope> {
        let names = |list| self.namespaces(list);
        Ok(NamespaceScope {
            only: spec.only.map(names).transpose()?,
            except: spec.except.map(names).transpose()?.unwrap_or_default(),
        })
    }

    /// Which exit code reports a late network plugin is the injector's choice, and any is accepted.
    fn validator(&self, spec: ValidatorSpec) -> Result<Validator> {
        Ok(Validator {
            container: self.filled(spec.container, "a container's name")?,
            exit_code: spec.exit_code.0,
            repair: spec.repair,
        })
    }

    /// The plugin's pods are found by their labels, so that one is needed at least.
    fn cni(&self, spec: CniSpec) -> Result<Cni> {
        let problem = "found no label, expected one at least: all pods would be meant";
        self.refuse_if(spec.pod_label.value.is_empty(), spec.pod_label.at, problem)?;
        let taint = spec.taint.map(|taint| self.filled(taint, "a taint's key"));
        Ok(Cni {
            namespaces: self.namespaces(spec.namespaces)?,
            pod_label: spec.pod_label.value,
            taint: taint.transpose()?,
        })
    }

    /// A Service; `placeholder` may stand in its names. Whether it exists is not asked here: the
    /// configuration may be older than the injector.
    fn service(&self, service: ServiceSpec, placeholder: &str) -> Result<ServiceName> {
        let name = "the name of a Service";
        Ok(ServiceName {
            namespace: self.dns_label(service.namespace, placeholder, "a namespace")?,
            name: self.dns_label(service.name, placeholder, name)?,
        })
    }

    /// Sets differ by what the pod asks for (case 39): an agent that only fills files before the start
    /// leaves an init container and no sidecar.
    fn injected_sets(&mut self, specs: List<InjectedSpec>) -> Result<Vec<InjectedSet>> {
        self.count(&specs, MAX_SETS, "set")?;
        let is_open =
            |set: &&Placed<InjectedSpec>| set.value.sidecar.is_some() && set.value.images.is_none();
        let limits = specs.value.iter().any(|set| set.value.images.is_some());
        if let Some(open) = specs.value.iter().find(is_open).filter(|_| limits) {
            let problem = "found no images, expected some as in another set: this set would let \
                           any image in";
            return self.refuse(open.at, problem);
        }
        let sets = specs.value.into_iter();
        sets.map(|spec| self.injected(spec)).collect()
    }

    /// How images may begin. `registry.example/mesh` would let `registry.example/mesh-of-a-tenant/x` in, and
    /// `proxy:` the image `proxy:5000/x` of a registry called `proxy`.
    fn images(&self, list: List<String>) -> Result<Vec<String>> {
        for image in &list.value {
            let is_safe = image.value.contains('/') && image.value.ends_with(['/', ':', '@']);
            let problem = format_args!(
                "found \"{}\", expected registry and repository, and /, : or @ at the end: anything \
                 may follow",
                shown(&image.value)
            );
            self.refuse_if(!is_safe, image.at, problem)?;
        }
        self.texts(list, "how an image begins")
    }

    /// One set. Without a container it would be held by every pod, and switch the check off; with
    /// `notImage` alone there is no container whose image could be a placeholder (case 37).
    fn injected(&mut self, spec: Placed<InjectedSpec>) -> Result<InjectedSet> {
        let (at, spec) = (spec.at, spec.value);
        let problem = "this set names no container, expected sidecar, init or both: any pod \
                       would do";
        self.refuse_if(spec.sidecar.is_none() && spec.init.is_none(), at, problem)?;
        for (key, images) in [("notImage", &spec.not_image), ("images", &spec.images)] {
            if let (None, Some(images)) = (&spec.sidecar, images) {
                let problem = format_args!("found {key} without sidecar, expected both");
                return self.refuse(images.at, problem);
            }
        }
        let when = match spec.when {
            Some(terms) => {
                self.not_empty(&terms, "one term at least")?;
                self.terms(terms)?
            }
            None => Vec::new(),
        };
        if let Some(key) = coverage::contradiction(&when) {
            let problem = "this set never counts: its terms on";
            return self.refuse(at, format_args!("{problem} {key} contradict each other"));
        }
        Ok(InjectedSet {
            option: spec.option.map(|name| self.option(name)).transpose()?,
            when,
            sidecar: spec.sidecar.map(|name| self.sidecar(name)).transpose()?,
            not_image: self.texts_or_none(spec.not_image, "an image")?,
            images: spec
                .images
                .map_or(Ok(Vec::new()), |list| self.images(list))?,
            init: self.texts_or_none(spec.init, "a container's name")?,
        })
    }

    /// Exactly one name, or a beginning where the injector numbers its containers.
    fn sidecar(&self, spec: Placed<SidecarSpec>) -> Result<ContainerName> {
        let name = |text| self.text(text, spec.at, "a container's name");
        Ok(match spec.value {
            SidecarSpec::Name(exact) => ContainerName::Exact(name(exact)?),
            SidecarSpec::Prefix(spec) => ContainerName::Prefix(name(spec.prefix)?),
        })
    }

    /// The name of an option that the profile declares. Another name is a typing error, and the rule
    /// behind it would never count.
    pub(super) fn option(&self, name: Placed<String>) -> Result<String> {
        if self.options.contains_key(&name.value) {
            return Ok(name.value);
        }
        let known: Vec<&str> = self.options.keys().map(String::as_str).collect();
        let expected = if known.is_empty() {
            "none, as this profile declares no `options`".to_owned()
        } else {
            format!("one of {}", known.join(", "))
        };
        let found = shown(&name.value);
        let problem = format_args!("found option \"{found}\", expected {expected}");
        self.refuse(name.at, problem)
    }
}
