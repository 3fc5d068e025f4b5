//! The webhook configurations: which pods are sent to gate and check, and how.
//!
//! Injectors in mode `warn` have entries of their own that never block, so that the entries that enforce
//! stay few. A pod that requires injectors of both modes is sent twice.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::condition::Expr;
use crate::condition::cel::Scope;
use crate::decision::requirement::Requirement;
use crate::injector::profile::Mode;
use crate::injector::rule::Key;
use crate::injector::values::KeyValues;
use crate::injector::{Injector, Injectors};
use crate::names::{
    ASKED_FOR, CONFIGURATION, ENTRIES, NAMESPACE_NAME, REQUIRED, asks_meshgate, path,
};
use crate::view::namespace::NamespaceView;
use crate::view::pod::PodView;

use super::entries::{self, Entry, Limits, Name};
use super::partition::Match;
use super::{Enforcement, FailurePolicy, Note, Rendered, Settings};
use super::{excluded, excluded_besides, exemptions, mirror, object, proof};

/// Gate or check.
pub(super) struct Hook {
    word: &'static str,
    kind: &'static str,
    path: &'static str,
    reinvocation: Option<&'static str>,
}

pub(super) const GATE: Hook = Hook {
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
    pub(super) fn entry_name(&self, entry: &Entry, mode: Mode) -> String {
        let word = self.word;
        let warn = if mode == Mode::Warn { WARN } else { "" };
        match &entry.name {
            Name::One(injector) => format!("{injector}{warn}.{word}{ENTRIES}"),
            Name::Several(number) => format!("{word}-{number}{warn}{ENTRIES}"),
            Name::Image => format!("{word}-image{warn}{ENTRIES}"),
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

/// The entries of both modes, and what had to be widened.
fn in_modes(injectors: &Injectors, excluded: &[&str]) -> (Vec<(Entry, Mode)>, Vec<Note>) {
    let (mut entries, mut notes) = (Vec::new(), Vec::new());
    for mode in [Mode::Enforce, Mode::Warn] {
        let all = injectors.iter();
        let in_mode: Vec<&Injector> = all.filter(|one| one.profile.mode == mode).collect();
        let (list, widened) = entries::of(&in_mode, excluded, Limits::USUAL);
        entries.extend(list.into_iter().map(|entry| (entry, mode)));
        notes.extend(widened);
    }
    (entries, notes)
}

/// The configurations for pods: the mutating one, and the validating one unless a policy is the
/// check. Both have the same selectors and conditions.
pub fn objects(injectors: &Injectors, settings: &Settings) -> Rendered {
    let excluded = excluded(injectors, settings);
    let (entries, notes) = in_modes(injectors, &excluded);
    let pods = Pods {
        injectors,
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
    injectors: &'s Injectors,
    entries: Vec<(Entry, Mode)>,
    excluded: Vec<&'s str>,
    settings: &'s Settings,
}

impl Pods<'_> {
    fn configuration(&self, hook: &Hook) -> Value {
        let mut webhooks = Vec::new();
        let mut asked_for = Map::new();
        let modes = [Mode::Enforce, Mode::Warn].into_iter();
        let updates = modes.filter_map(|mode| Some((self.image(hook, mode)?, mode)));
        let updates: Vec<(Entry, Mode)> = updates.collect();
        for (entry, mode) in self.entries.iter().chain(&updates) {
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

    /// The check's entry for updates that give a sidecar an image that it may not have.
    fn image(&self, hook: &Hook, mode: Mode) -> Option<Entry> {
        let in_mode = self.injectors.iter().filter(|one| one.profile.mode == mode);
        let asked_for = in_mode.filter_map(|injector| {
            let profile = &injector.profile;
            let replaced = Expr::replaced(profile);
            let acts = Expr::namespace(&profile.namespaces.except).not();
            let only = profile.namespaces.only.iter().map(Expr::namespace);
            let is_limited = replaced != Expr::FALSE;
            let expr = Expr::all([acts, replaced].into_iter().chain(only));
            is_limited.then(|| (profile.name.clone(), expr))
        });
        let asked_for: Vec<_> = asked_for.collect();
        (hook.word == CHECK.word && !asked_for.is_empty()).then_some(Entry {
            name: Name::Image,
            selector: Vec::new(),
            asked_for,
        })
    }

    fn webhook(&self, entry: &Entry, hook: &Hook, mode: Mode) -> Value {
        let never_blocks = self.settings.enforcement == Enforcement::Policy || mode == Mode::Warn;
        let failure_policy = if never_blocks {
            FailurePolicy::Ignore
        } else {
            self.settings.failure_policy
        };
        let name = hook.entry_name(entry, mode);
        let path = format!("{}/{name}", hook.path);
        let mut webhook = object::webhook(&name, &path, failure_policy, self.settings);
        let parts = entry.asked_for.iter().map(|(_, expr)| expr.clone());
        let required = Scope::Pod.alternatives(&parts.collect::<Vec<_>>());
        let mut conditions = exemptions::conditions();
        conditions.push(json!({"name": REQUIRED, "expression": required}));
        webhook["matchConditions"] = conditions.into();
        let excluded = json!({"key": NAMESPACE_NAME, "operator": "NotIn", "values": self.excluded});
        let mut namespaces = vec![excluded];
        namespaces.extend(entry.selector.iter().map(|term| json!(term)));
        webhook["namespaceSelector"] = json!({"matchExpressions": namespaces});
        webhook["rules"] = match entry.name {
            Name::Image => object::updates("pods"),
            Name::One(_) | Name::Several(_) => object::creates("pods"),
        };
        if let Some(policy) = hook.reinvocation {
            webhook["reinvocationPolicy"] = policy.into();
        }
        webhook
    }
}

/// What the name of an entry, by which an API server asks, says of a namespace.
///
/// The API server knew labels that the entry selects, and a pod that meets its condition. A namespace that
/// does not fit these is known here as it was before, or is not known there yet.
#[derive(Debug)]
pub struct EntryNames(HashMap<String, Arc<Asking>>);

#[derive(Debug)]
struct Asking {
    /// The name of the gate's entry.
    gate: String,
    /// On the labels of the namespace.
    selector: Expr,
    /// Numbers of injectors, and for each the condition on the pod.
    asked_for: Vec<(usize, Expr)>,
}

impl EntryNames {
    /// The names of all entries for pods of a registration of these injectors. meshgate's own namespace is
    /// among those that they exclude.
    pub fn new(injectors: &Injectors) -> Self {
        let (entries, _) = in_modes(injectors, &excluded_besides(injectors, None));
        Self::of(&entries, injectors)
    }

    pub(super) fn of(entries: &[(Entry, Mode)], injectors: &Injectors) -> Self {
        let mut names = HashMap::new();
        for (entry, mode) in entries {
            let number = |name: &str| injectors.iter().position(|one| one.profile.name == name);
            let asked_for = entry.asked_for.iter();
            let asking = Arc::new(Asking {
                gate: GATE.entry_name(entry, *mode),
                selector: Expr::all(entry.selector.iter().map(Match::expr)),
                asked_for: asked_for
                    .filter_map(|(name, expr)| Some((number(name)?, expr.clone())))
                    .collect(),
            });
            for hook in [GATE, CHECK] {
                names.insert(hook.entry_name(entry, *mode), Arc::clone(&asking));
            }
        }
        Self(names)
    }

    /// The name of the entry by which the gate is asked about the same pods. `None` if no entry has this name.
    pub fn gate(&self, entry: &str) -> Option<&str> {
        self.0.get(entry).map(|asking| asking.gate.as_str())
    }

    /// Whether an API server can ask about this pod by the entry if it knows the namespace as it is here:
    /// the entry selects the namespace, and every injector for which it asks is in `requirement`. `None`
    /// if no entry has this name.
    pub fn agrees(
        &self,
        entry: &str,
        pod: &PodView<'_>,
        namespace: &NamespaceView,
        requirement: &Requirement<'_>,
        injectors: &Injectors,
    ) -> Option<bool> {
        let asking = self.0.get(entry)?;
        let values = KeyValues {
            pod: &pod.values,
            namespace: &namespace.values,
        };
        let value = |key: &Key| match injectors.keys().slot(key.place, &key.name) {
            Some(slot) => values.get(slot),
            None => mirror::is_there(&key.name, namespace, injectors).then_some(""),
        };
        let holds = |expr: &Expr| expr.holds(&value, &namespace.name, &|_| true);
        let is_required = |number| requirement.matches.iter().any(|one| one.number == number);
        let is_covered = |(number, expr): &(usize, Expr)| is_required(*number) || !holds(expr);
        Some(holds(&asking.selector) && asking.asked_for.iter().all(is_covered))
    }
}
