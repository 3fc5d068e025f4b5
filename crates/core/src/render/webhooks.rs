//! The webhook configurations: which pods are sent to gate and check, and how.
//!
//! Injectors in mode `warn` have entries of their own that never block, so that the entries that enforce
//! stay few. A pod that requires injectors of both modes is sent twice.

use serde_json::{Value, json};

use crate::condition::cel::Scope;
use crate::injector::profile::Mode;
use crate::injector::{Injector, Injectors};
use crate::names::{
    ASKED_FOR, CONFIGURATION, ENTRIES, NAMESPACE_NAME, REACH_ENTRY, REQUIRED, path,
};

use super::entries::{self, Entries, Entry, Limits, Name};
use super::object::{self, Webhook};
use super::{Enforcement, FailurePolicy, Rendered, Settings, excluded, exemptions, proof};

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
    let asks_about_pods = name.ends_with(ENTRIES) && name != REACH_ENTRY;
    asks_about_pods && !name.contains(&format!("{WARN}."))
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
    let [enforced, warned] = [Mode::Enforce, Mode::Warn].map(|mode| {
        let in_mode: Vec<&Injector> = injectors
            .iter()
            .filter(|injector| injector.profile.mode == mode)
            .collect();
        entries::of(&in_mode, &excluded, Limits::USUAL)
    });
    let pods = Pods {
        enforced,
        warned,
        excluded,
        settings,
    };
    let mut objects = vec![pods.configuration(&GATE)];
    if settings.enforcement == Enforcement::Webhook {
        objects.push(pods.configuration(&CHECK));
    }
    let Pods {
        enforced, warned, ..
    } = pods;
    Rendered {
        objects,
        notes: [enforced.notes, warned.notes].concat(),
    }
}

/// What both configurations are made of.
struct Pods<'s> {
    enforced: Entries,
    warned: Entries,
    excluded: Vec<&'s str>,
    settings: &'s Settings,
}

impl Pods<'_> {
    fn entries(&self) -> impl Iterator<Item = (&Entry, Mode)> {
        let enforced = self.enforced.list.iter().map(|one| (one, Mode::Enforce));
        enforced.chain(self.warned.list.iter().map(|one| (one, Mode::Warn)))
    }

    fn configuration(&self, hook: &Hook) -> Value {
        let entries = self.entries();
        let mut webhooks: Vec<Value> = entries
            .map(|(entry, mode)| self.webhook(entry, hook, mode))
            .collect();
        if hook.word == GATE.word {
            webhooks.push(proof::reach_entry(self.settings));
        }
        let mut object = object::configuration(hook.kind, CONFIGURATION, webhooks, self.settings);
        let asked_for = self
            .entries()
            .map(|(one, mode)| (hook.entry_name(one, mode), json!(one.injectors())));
        let asked_for = Value::Object(asked_for.collect());
        object["metadata"]["annotations"] = json!({ASKED_FOR: asked_for.to_string()});
        object
    }

    fn webhook(&self, entry: &Entry, hook: &Hook, mode: Mode) -> Value {
        let is_policy = self.settings.enforcement == Enforcement::Policy;
        let parts = entry.asked_for.iter().map(|(_, expr)| expr.clone());
        let required = Scope::Pod.alternatives(&parts.collect::<Vec<_>>());
        let mut conditions = exemptions::conditions();
        conditions.push(json!({"name": REQUIRED, "expression": required}));
        let webhook = Webhook {
            name: hook.entry_name(entry, mode),
            path: hook.path,
            rules: object::creates("pods"),
            namespace_selector: self.selector(entry),
            object_selector: json!({}),
            conditions,
            failure_policy: if is_policy || mode == Mode::Warn {
                FailurePolicy::Ignore
            } else {
                self.settings.failure_policy
            },
            reinvocation: hook.reinvocation,
        };
        webhook.object(self.settings)
    }

    fn selector(&self, entry: &Entry) -> Value {
        let never = json!({
            "key": NAMESPACE_NAME, "operator": "NotIn", "values": self.excluded,
        });
        let terms = entry.selector.iter().map(|term| {
            let mut value = json!({"key": term.label, "operator": term.operator});
            if !term.values.is_empty() {
                value["values"] = json!(term.values);
            }
            value
        });
        let all: Vec<Value> = [never].into_iter().chain(terms).collect();
        json!({"matchExpressions": all})
    }
}
