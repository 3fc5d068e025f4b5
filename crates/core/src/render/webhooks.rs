//! The webhook configurations: which pods are sent to gate and check, and how.
//!
//! Injectors in mode `warn` have entries of their own that never block, so that the entries that enforce
//! stay few. A pod that requires injectors of both modes is sent twice.

use serde_json::{Map, Value, json};

use crate::condition::cel::Scope;
use crate::injector::profile::Mode;
use crate::injector::{Injector, Injectors};
use crate::names::{
    ASKED_FOR, CONFIGURATION, ENTRIES, NAMESPACE_NAME, REQUIRED, asks_meshgate, path,
};

use super::entries::{self, Entry, Limits, Name};
use super::{Enforcement, FailurePolicy, Rendered, Settings};
use super::{excluded, exemptions, object, proof};

/// Gate or check.
struct Hook {
    word: &'static str,
    kind: &'static str,
    path: &'static str,
    reinvocation: Option<&'static str>,
}

const GATE: Hook = Hook {
    word: "gate",
    kind: "MutatingWebhookConfiguration",
    path: path::GATE,
    reinvocation: Some("Never"),
};

const CHECK: Hook = Hook {
    word: "check",
    kind: "ValidatingWebhookConfiguration",
    path: path::CHECK,
    reinvocation: None,
};

/// Part of the names of entries that never refuse a pod.
const WARN: &str = ".warn";

impl Hook {
    /// `linkerd.gate.meshgate.io`, or `gate-17.meshgate.io`.
    fn entry_name(&self, entry: &Entry, mode: Mode) -> String {
        let word = self.word;
        let warn = if mode == Mode::Warn { WARN } else { "" };
        match &entry.name {
            Name::One(injector) => format!("{injector}{warn}.{word}{ENTRIES}"),
            Name::Several(number) => format!("{word}-{number}{warn}{ENTRIES}"),
        }
    }
}

/// Whether an entry of this name refuses pods, once it is armed.
pub fn enforces(name: &str) -> bool {
    asks_meshgate(name) && !name.contains(&format!("{WARN}."))
}

/// Whether an API server that quotes this text speaks of an entry that asks gate or check about pods.
pub fn names_pod_entry(text: &str) -> bool {
    let mut words = text.split(|c: char| !(c.is_ascii_alphanumeric() || "-.".contains(c)));
    words.any(|word| {
        // What follows is of static policies: `linkerd.check.meshgate.io.static.k8s.io`.
        let (name, _) = word.split_once(ENTRIES).unwrap_or_default();
        let mut labels = name.split('.');
        labels.any(|label| {
            let hook = label.split_once('-').map_or(label, |(hook, _)| hook);
            [GATE, CHECK].iter().any(|own| own.word == hook)
        })
    })
}

/// The configurations for pods: the mutating one, and the validating one unless a policy is the
/// check. Both have the same selectors and conditions.
pub fn objects(injectors: &Injectors, settings: &Settings) -> Rendered {
    let excluded = excluded(injectors, settings);
    let (mut entries, mut notes) = (Vec::new(), Vec::new());
    for mode in [Mode::Enforce, Mode::Warn] {
        let all = injectors.iter();
        let in_mode: Vec<&Injector> = all.filter(|one| one.profile.mode == mode).collect();
        let (list, widened) = entries::of(&in_mode, &excluded, Limits::USUAL);
        entries.extend(list.into_iter().map(|entry| (entry, mode)));
        notes.extend(widened);
    }
    let pods = Pods {
        entries,
        excluded,
        settings,
    };
    let mut objects = vec![pods.configuration(&GATE)];
    if settings.enforcement == Enforcement::Webhook {
        objects.push(pods.configuration(&CHECK));
    }
    Rendered { objects, notes }
}

/// What both configurations are made of.
struct Pods<'s> {
    entries: Vec<(Entry, Mode)>,
    excluded: Vec<&'s str>,
    settings: &'s Settings,
}

impl Pods<'_> {
    fn configuration(&self, hook: &Hook) -> Value {
        let mut webhooks = Vec::new();
        let mut asked_for = Map::new();
        for (entry, mode) in &self.entries {
            webhooks.push(self.webhook(entry, hook, *mode));
            asked_for.insert(hook.entry_name(entry, *mode), json!(entry.injectors()));
        }
        if hook.word == GATE.word {
            webhooks.push(proof::reach_entry(self.settings));
        }
        let mut object = object::configuration(hook.kind, CONFIGURATION, webhooks, self.settings);
        let asked_for = Value::Object(asked_for).to_string();
        object["metadata"]["annotations"] = json!({ASKED_FOR: asked_for});
        object
    }

    fn webhook(&self, entry: &Entry, hook: &Hook, mode: Mode) -> Value {
        let never_blocks = self.settings.enforcement == Enforcement::Policy || mode == Mode::Warn;
        let failure_policy = if never_blocks {
            FailurePolicy::Ignore
        } else {
            self.settings.failure_policy
        };
        let name = hook.entry_name(entry, mode);
        let mut webhook = object::webhook(&name, hook.path, failure_policy, self.settings);
        let parts = entry.asked_for.iter().map(|(_, expr)| expr.clone());
        let required = Scope::Pod.alternatives(&parts.collect::<Vec<_>>());
        let mut conditions = exemptions::conditions();
        conditions.push(json!({"name": REQUIRED, "expression": required}));
        webhook["matchConditions"] = conditions.into();
        let excluded = json!({"key": NAMESPACE_NAME, "operator": "NotIn", "values": self.excluded});
        let mut namespaces = vec![excluded];
        namespaces.extend(entry.selector.iter().map(|term| json!(term)));
        webhook["namespaceSelector"] = json!({"matchExpressions": namespaces});
        webhook["rules"] = object::creates("pods");
        if let Some(policy) = hook.reinvocation {
            webhook["reinvocationPolicy"] = policy.into();
        }
        webhook
    }
}
