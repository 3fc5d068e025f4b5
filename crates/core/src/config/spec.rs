//! The configuration as people write it: the types that the parser fills and that the JSON
//! Schema is made from. Their doc comments are the schema's descriptions. Only the shape is held
//! here; `profile.rs` checks the rest.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_saphyr::Spanned;

use crate::injector::MAX_INJECTORS;
use crate::injector::profile::{Mode, ReadinessSource, Repair};
use crate::injector::rule::Outcome;
use crate::yaml::Plain;

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
    #[schemars(with = "String", extend("const" = API_VERSION))]
    pub api_version: Spanned<String>,
    /// Always `Configuration`.
    #[schemars(with = "String", extend("const" = KIND))]
    pub kind: Spanned<String>,
    /// The injectors that count here, in the order in which refusals name them.
    #[schemars(with = "Vec<InjectorSpec>", length(min = 1, max = MAX_INJECTORS))]
    pub injectors: Spanned<Vec<Spanned<InjectorSpec>>>,
    /// Namespaces that are never looked at, besides kube-system, kube-public, kube-node-lease
    /// and meshgate's own.
    #[schemars(with = "Option<Vec<String>>", length(min = 1))]
    pub excluded_namespaces: Option<Spanned<Vec<Spanned<String>>>>,
}

/// A preset with what differs here, or a whole profile of an injector of your own.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InjectorSpec {
    /// Name of a preset to start from; any field but `rules` may then be overridden.
    #[schemars(with = "Option<String>")]
    pub preset: Option<Spanned<String>>,
    /// Name in messages, marks and metrics: lower case letters, digits and dashes, 40 at most.
    #[schemars(
        with = "Option<String>",
        regex(pattern = r"^[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?$")
    )]
    pub name: Option<Spanned<String>>,
    /// `enforce` refuses, `warn` admits with a warning and counts, `disabled` does not look.
    pub mode: Option<Mode>,
    /// Name of the injector's entry in its webhook configuration; `*` may stand at the front.
    #[schemars(with = "Option<String>")]
    pub webhook: Option<Spanned<String>>,
    /// Path of that entry, where its name is a common one.
    #[schemars(with = "Option<String>")]
    pub path: Option<Spanned<String>>,
    /// The Service that injects, unless the webhook entry names another.
    pub service: Option<ServiceSpec>,
    /// How the Service of one copy of the injector (an Istio revision) is found.
    pub instances: Option<InstancesSpec>,
    /// Switches that rules and sets may depend on, with their values.
    #[schemars(with = "Option<BTreeMap<String, bool>>")]
    pub options: Option<BTreeMap<String, Spanned<Plain<bool>>>>,
    /// Namespaces in which the injector acts.
    pub namespaces: Option<NamespacesSpec>,
    /// Which pods require the injector: the first rule whose `when` holds decides.
    #[schemars(with = "Option<Vec<RuleSpec>>", length(min = 1, max = MAX_RULES))]
    pub rules: Option<Spanned<Vec<Spanned<RuleSpec>>>>,
    /// What a pod holds once the injector was at work: any one of these sets suffices.
    #[schemars(with = "Option<Vec<InjectedSpec>>", length(min = 1, max = MAX_SETS))]
    pub injected: Option<Spanned<Vec<Spanned<InjectedSpec>>>>,
    /// What makes the injector pass a pod by.
    pub skips: Option<SkipsSpec>,
    /// The init container that tells that the node's network plugin was late.
    pub validator: Option<ValidatorSpec>,
    /// The injector's network plugin on each node.
    pub cni: Option<CniSpec>,
    /// Usable endpoints that are wanted before pods are admitted (1).
    #[schemars(with = "Option<u32>", range(min = 1))]
    pub minimum: Option<Spanned<Plain<u32>>>,
    /// How it is known that the injector can be called (endpoints).
    pub readiness: Option<ReadinessSource>,
    /// One more sentence for refusals by the check.
    #[schemars(with = "Option<String>")]
    pub hint: Option<Spanned<String>>,
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
        }
    }
}

/// A Service by namespace and name.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServiceSpec {
    /// Its namespace, which is the injector's own: there only pod-level opt-in counts.
    #[schemars(with = "String")]
    pub namespace: Spanned<String>,
    /// Its name. In `instances.fallback`, `{instance}` stands for the instance.
    #[schemars(with = "String")]
    pub name: Spanned<String>,
}

/// How the Service of one instance of an injector is found.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InstancesSpec {
    /// Labels of webhook configurations whose value is the instance; earlier ones win.
    #[schemars(with = "Vec<String>", length(min = 1))]
    pub webhook_labels: Spanned<Vec<Spanned<String>>>,
    /// The Service where no webhook configuration at all is known.
    pub fallback: ServiceSpec,
}

/// Where an injector acts, by names of namespaces.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NamespacesSpec {
    /// Nowhere else.
    #[schemars(with = "Option<Vec<String>>", length(min = 1))]
    pub only: Option<Spanned<Vec<Spanned<String>>>>,
    /// Everywhere else.
    #[schemars(with = "Option<Vec<String>>", length(min = 1))]
    pub except: Option<Spanned<Vec<Spanned<String>>>>,
}

/// One rule: if all terms of `when` hold, `then` decides.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RuleSpec {
    /// The rule counts only while this switch is on.
    #[schemars(with = "Option<String>")]
    pub option: Option<Spanned<String>>,
    /// Terms that must all hold. None at all always holds, behind an `option` only.
    #[schemars(with = "Vec<TermSpec>", length(max = MAX_TERMS))]
    pub when: Spanned<Vec<Spanned<TermSpec>>>,
    /// What follows.
    pub then: Outcome,
    /// Which copy of the injector, where there are several.
    #[schemars(with = "Option<InstanceSpec>")]
    pub instance: Option<Spanned<InstanceSpec>>,
    /// A text given with the answer; `{value}` stands for the value that the last term met.
    #[schemars(with = "Option<String>")]
    pub warn: Option<Spanned<String>>,
}

/// One key (exactly one of the first four) and one test (exactly one of the next three).
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TermSpec {
    /// A label of the pod.
    #[schemars(with = "Option<String>")]
    pub pod_label: Option<Spanned<String>>,
    /// An annotation of the pod.
    #[schemars(with = "Option<String>")]
    pub pod_annotation: Option<Spanned<String>>,
    /// A label of its namespace.
    #[schemars(with = "Option<String>")]
    pub namespace_label: Option<Spanned<String>>,
    /// An annotation of its namespace.
    #[schemars(with = "Option<String>")]
    pub namespace_annotation: Option<Spanned<String>>,
    /// The value is one of these; an absent key is not.
    #[serde(rename = "in")]
    #[schemars(with = "Option<Vec<String>>", length(min = 1))]
    pub one_of: Option<Spanned<Vec<Spanned<String>>>>,
    /// The value is none of these; an absent key is none of them.
    #[schemars(with = "Option<Vec<String>>", length(min = 1))]
    pub not_in: Option<Spanned<Vec<Spanned<String>>>>,
    /// The key is there (true) or not (false). An empty value is a value.
    #[schemars(with = "Option<bool>")]
    pub exists: Option<Plain<bool>>,
    /// Compare without case (ASCII). For `in` and `notIn` on annotations.
    #[schemars(with = "Option<bool>")]
    pub fold: Option<Spanned<Plain<bool>>>,
}

/// One way in which a pod can hold the sidecar: all of it must be there.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InjectedSpec {
    /// The set counts only for pods on which all these terms hold.
    #[schemars(with = "Option<Vec<TermSpec>>", length(min = 1, max = MAX_TERMS))]
    pub when: Option<Spanned<Vec<Spanned<TermSpec>>>>,
    /// The set counts only while this switch is on.
    #[schemars(with = "Option<String>")]
    pub option: Option<Spanned<String>>,
    /// A container that runs beside the others, natively or not.
    #[schemars(with = "Option<SidecarSpec>")]
    pub sidecar: Option<Spanned<SidecarSpec>>,
    /// Images of that container that are only placeholders.
    #[schemars(with = "Option<Vec<String>>", length(min = 1))]
    pub not_image: Option<Spanned<Vec<Spanned<String>>>>,
    /// Init containers.
    #[schemars(with = "Option<Vec<String>>", length(min = 1))]
    pub init: Option<Spanned<Vec<Spanned<String>>>>,
}

/// What makes an injector pass a pod by.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SkipsSpec {
    /// Names of containers (another mesh's sidecar).
    #[schemars(with = "Vec<String>", length(min = 1))]
    pub containers: Spanned<Vec<Spanned<String>>>,
}

/// The init container that fails where the node's network plugin was late.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ValidatorSpec {
    /// Its name.
    #[schemars(with = "String")]
    pub container: Spanned<String>,
    /// The exit code that says so.
    #[schemars(with = "i32")]
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
    #[schemars(with = "Vec<String>", length(min = 1))]
    pub namespaces: Spanned<Vec<Spanned<String>>>,
    /// The labels they carry, one at least.
    #[schemars(with = "BTreeMap<String, String>", extend("minProperties" = 1))]
    pub pod_label: Spanned<BTreeMap<String, String>>,
    /// The start-up taint that waits for it.
    #[schemars(with = "Option<String>")]
    pub taint: Option<Spanned<String>>,
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
    #[schemars(with = "Option<String>")]
    pub pod_label: Option<Spanned<String>>,
    /// An annotation of the pod.
    #[schemars(with = "Option<String>")]
    pub pod_annotation: Option<Spanned<String>>,
    /// A label of its namespace.
    #[schemars(with = "Option<String>")]
    pub namespace_label: Option<Spanned<String>>,
    /// An annotation of its namespace.
    #[schemars(with = "Option<String>")]
    pub namespace_annotation: Option<Spanned<String>>,
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
