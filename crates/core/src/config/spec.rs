//! The configuration as people write it: the types that the parser fills and that the JSON
//! Schema is made from. Their doc comments are the schema's descriptions. Only the shape is held
//! here; `profile.rs` checks the rest.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::injector::MAX_INJECTORS;
use crate::injector::profile::{Mode, OptOut, ReadinessSource, Repair};
use crate::injector::rule::Outcome;
use crate::yaml::{List, Placed, Plain};

/// The one value of `apiVersion`.
pub const API_VERSION: &str = "meshgate.io/v1alpha1";
/// The one value of `kind`.
pub const KIND: &str = "Configuration";

// Limits far above what people write: looking for dead rules compares every rule with every
// earlier one, value by value.
/// Most rules in a profile.
pub(super) const MAX_RULES: usize = 100;
/// Most terms in a rule or set.
pub(super) const MAX_TERMS: usize = 16;
/// Most sets in a profile.
pub(super) const MAX_SETS: usize = 32;
/// Most values that the terms of a profile name together.
pub(super) const MAX_VALUES: usize = 1_000;

/// What meshgate waits for, and where.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "meshgate Configuration")]
pub struct ConfigurationSpec {
    /// Always `meshgate.io/v1alpha1`.
    #[schemars(extend("const" = API_VERSION))]
    pub api_version: Placed<String>,
    /// Always `Configuration`.
    #[schemars(extend("const" = KIND))]
    pub kind: Placed<String>,
    /// The injectors that count here, in the order in which refusals name them.
    #[schemars(length(min = 1, max = MAX_INJECTORS))]
    pub injectors: List<InjectorSpec>,
    /// Namespaces that are never looked at, besides kube-system, kube-public, kube-node-lease
    /// and meshgate's own.
    #[schemars(length(min = 1))]
    pub excluded_namespaces: Option<List<String>>,
    /// What becomes of controllers that gave up for a while because their pods were refused.
    pub wake: Option<WakeSpec>,
}

/// Whether meshgate makes controllers try again once the injectors of their pods are usable.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WakeSpec {
    /// True unless it is said.
    pub enabled: Plain<bool>,
}

/// A preset with what differs here, or a whole profile of an injector of your own.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InjectorSpec {
    /// Name of a preset to start from; any field but `rules` may then be overridden.
    pub preset: Option<Placed<String>>,
    /// Name in messages, marks and metrics: lower case letters, digits and dashes, 40 at most.
    #[schemars(regex(pattern = r"^[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?$"))]
    pub name: Option<Placed<String>>,
    /// `enforce` refuses, `warn` admits with a warning and counts, `disabled` does not look.
    pub mode: Option<Mode>,
    /// Whether labels and annotations of a pod can spare it (allow).
    pub opt_out: Option<OptOut>,
    /// Name of the injector's entry in its webhook configuration; `*` may stand at the front.
    pub webhook: Option<Placed<String>>,
    /// Path of that entry, where its name is a common one.
    pub path: Option<Placed<String>>,
    /// The Service that injects, unless the webhook entry names another.
    pub service: Option<ServiceSpec>,
    /// How the Service of one copy of the injector (an Istio revision) is found.
    pub instances: Option<InstancesSpec>,
    /// Switches that rules and sets may depend on, with their values.
    pub options: Option<BTreeMap<String, Placed<Plain<bool>>>>,
    /// Namespaces in which the injector acts.
    pub namespaces: Option<NamespacesSpec>,
    /// Which pods require the injector: the first rule whose `when` holds decides.
    #[schemars(length(min = 1, max = MAX_RULES))]
    pub rules: Option<List<RuleSpec>>,
    /// What a pod holds once the injector was at work: any one of these sets suffices.
    #[schemars(length(min = 1, max = MAX_SETS))]
    pub injected: Option<List<InjectedSpec>>,
    /// What makes the injector pass a pod by.
    pub skips: Option<SkipsSpec>,
    /// The init container that tells that the node's network plugin was late.
    pub validator: Option<ValidatorSpec>,
    /// The injector's network plugin on each node.
    pub cni: Option<CniSpec>,
    /// Usable endpoints that are wanted before pods are admitted (1).
    #[schemars(range(min = 1))]
    pub minimum: Option<Placed<Plain<u32>>>,
    /// How it is known that the injector can be called (endpoints).
    pub readiness: Option<ReadinessSource>,
    /// One more sentence for refusals by the check.
    pub hint: Option<Placed<String>>,
    /// By how many minor versions a sidecar is too old: an audit compares its image's tag with the
    /// injector's. It compares none without this.
    #[schemars(range(min = 1))]
    pub staleness: Option<Placed<Plain<u32>>>,
}

impl InjectorSpec {
    /// A preset with the fields that `over` sets laid over it; `options` switch by switch.
    pub(super) fn with(self, over: Self) -> Self {
        let mut options = self.options.unwrap_or_default();
        options.extend(over.options.unwrap_or_default());
        // Without `..`, so that a new field cannot be forgotten here.
        Self {
            preset: None,
            name: over.name.or(self.name),
            mode: over.mode.or(self.mode),
            opt_out: over.opt_out.or(self.opt_out),
            webhook: over.webhook.or(self.webhook),
            path: over.path.or(self.path),
            service: over.service.or(self.service),
            instances: over.instances.or(self.instances),
            options: Some(options),
            namespaces: over.namespaces.or(self.namespaces),
            rules: over.rules.or(self.rules),
            injected: over.injected.or(self.injected),
            skips: over.skips.or(self.skips),
            validator: over.validator.or(self.validator),
            cni: over.cni.or(self.cni),
            minimum: over.minimum.or(self.minimum),
            readiness: over.readiness.or(self.readiness),
            hint: over.hint.or(self.hint),
            staleness: over.staleness.or(self.staleness),
        }
    }
}

/// A Service by namespace and name.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServiceSpec {
    /// Its namespace, which is the injector's own: there only pod-level opt-in counts.
    pub namespace: Placed<String>,
    /// Its name. In `instances.fallback`, `{instance}` stands for the instance.
    pub name: Placed<String>,
}

/// How the Service of one instance of an injector is found.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InstancesSpec {
    /// Labels of webhook configurations whose value is the instance; earlier ones win.
    #[schemars(length(min = 1))]
    pub webhook_labels: List<String>,
    /// The Service where no webhook configuration at all is known.
    pub fallback: ServiceSpec,
    /// Annotations by which an injected pod tells which copy injected it; earlier ones win. Of a JSON
    /// object its `revision` is the value.
    #[schemars(length(min = 1))]
    pub pod_annotations: Option<List<String>>,
}

/// Where an injector acts, by names of namespaces.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NamespacesSpec {
    /// Nowhere else.
    #[schemars(length(min = 1))]
    pub only: Option<List<String>>,
    /// Everywhere else.
    #[schemars(length(min = 1))]
    pub except: Option<List<String>>,
}

/// One rule: if all terms of `when` hold, `then` decides.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RuleSpec {
    /// The rule counts only while this switch is on.
    pub option: Option<Placed<String>>,
    /// Terms that must all hold. None at all always holds, behind an `option` only.
    #[schemars(length(max = MAX_TERMS))]
    pub when: List<TermSpec>,
    /// What follows.
    pub then: Outcome,
    /// Which copy of the injector, where there are several.
    pub instance: Option<Placed<InstanceSpec>>,
    /// A text given with the answer; `{value}` stands for the value that the last term met.
    pub warn: Option<Placed<String>>,
}

/// One key (exactly one of the first four) and one test (exactly one of the next three).
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TermSpec {
    /// A label of the pod.
    pub pod_label: Option<Placed<String>>,
    /// An annotation of the pod.
    pub pod_annotation: Option<Placed<String>>,
    /// A label of its namespace.
    pub namespace_label: Option<Placed<String>>,
    /// An annotation of its namespace.
    pub namespace_annotation: Option<Placed<String>>,
    /// The value is one of these; an absent key is not.
    #[serde(rename = "in")]
    #[schemars(length(min = 1))]
    pub one_of: Option<List<String>>,
    /// The value is none of these; an absent key is none of them.
    #[schemars(length(min = 1))]
    pub not_in: Option<List<String>>,
    /// The key is there (true) or not (false). An empty value is a value.
    pub exists: Option<Plain<bool>>,
    /// Compare without case (ASCII). For `in` and `notIn` on annotations.
    pub fold: Option<Placed<Plain<bool>>>,
    /// Compare without white space (Unicode) at both ends. For `in` and `notIn` on annotations.
    pub trim: Option<Placed<Plain<bool>>>,
}

/// One way in which a pod can hold the sidecar: all of it must be there.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InjectedSpec {
    /// The set counts only for pods on which all these terms hold.
    #[schemars(length(min = 1, max = MAX_TERMS))]
    pub when: Option<List<TermSpec>>,
    /// The set counts only while this switch is on.
    pub option: Option<Placed<String>>,
    /// A container that runs beside the others, natively or not.
    pub sidecar: Option<Placed<SidecarSpec>>,
    /// Images of that container that are only placeholders.
    #[schemars(length(min = 1))]
    pub not_image: Option<List<String>>,
    /// How the image of that container may begin; each ends in `/`, `:` or `@`.
    #[schemars(length(min = 1))]
    pub images: Option<List<String>>,
    /// Init containers.
    #[schemars(length(min = 1))]
    pub init: Option<List<String>>,
}

/// What makes an injector pass a pod by.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SkipsSpec {
    /// Names of containers (another mesh's sidecar).
    #[schemars(length(min = 1))]
    pub containers: List<String>,
}

/// The init container that fails where the node's network plugin was late.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ValidatorSpec {
    /// Its name.
    pub container: Placed<String>,
    /// The exit code that says so.
    pub exit_code: Plain<i32>,
    /// Whether meshgate replaces such pods; `disabled` where the injector does it itself.
    #[serde(default)]
    pub repair: Repair,
}

/// The injector's network plugin on each node.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CniSpec {
    /// Where its pods may be.
    #[schemars(length(min = 1))]
    pub namespaces: List<String>,
    /// The labels they carry, one at least.
    #[schemars(extend("minProperties" = 1))]
    pub pod_label: Placed<BTreeMap<String, String>>,
    /// The start-up taint that waits for it.
    pub taint: Option<Placed<String>>,
}

/// Which copy of an injector: a constant, or the value of a key.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema)]
#[schemars(untagged)]
pub enum InstanceSpec {
    /// Always this one.
    Constant(String),
    /// The value of the key.
    Key(Box<KeySpec>),
}

/// One key on the pod or its namespace: exactly one of the four.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KeySpec {
    /// A label of the pod.
    pub pod_label: Option<Placed<String>>,
    /// An annotation of the pod.
    pub pod_annotation: Option<Placed<String>>,
    /// A label of its namespace.
    pub namespace_label: Option<Placed<String>>,
    /// An annotation of its namespace.
    pub namespace_annotation: Option<Placed<String>>,
}

/// A container by its name, or by how its name begins.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema)]
#[schemars(untagged)]
pub enum SidecarSpec {
    /// The name.
    Name(String),
    /// How it begins.
    Prefix(Box<PrefixSpec>),
}

/// How a container's name begins.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PrefixSpec {
    /// The beginning.
    pub prefix: String,
}
