//! The format of `tests/cases`, strictly: a key that is not read would be an answer that is not
//! compared.
#![allow(
    dead_code,
    reason = "two runners share the format, and each uses its part of it"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use meshgate_core::config;
use meshgate_core::yaml;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The folder of the cases.
pub(super) fn folder() -> PathBuf {
    PathBuf::from(super::FOLDER)
}

/// One case.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Case {
    pub(super) name: String,
    #[serde(default)]
    pub(super) cases: Vec<u32>,
    pub(super) covers: Covers,
    #[serde(default)]
    pub(super) injectors: Option<Vec<Value>>,
    #[serde(default)]
    pub(super) excluded_namespaces: Option<Vec<String>>,
    pub(super) state: State,
    #[serde(default)]
    pub(super) objects: Vec<Value>,
    pub(super) namespace: Namespace,
    #[serde(default)]
    pub(super) user: Option<User>,
    #[serde(default)]
    pub(super) request: Overlay,
    pub(super) pod: Value,
    pub(super) gate: Expected,
    pub(super) check: Expected,
    #[serde(default)]
    pub(super) pod_injected: Option<Value>,
    #[serde(default)]
    pub(super) check_injected: Option<Expected>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Covers {
    Required,
    OptedOut,
    UnknownValue,
    NativeSidecar,
    Other,
}

impl Covers {
    /// As a case file spells it.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Required => "required",
            Self::OptedOut => "opted-out",
            Self::UnknownValue => "unknown-value",
            Self::NativeSidecar => "native-sidecar",
            Self::Other => "other",
        }
    }
}

/// The state of all injectors, or of each by name.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(super) enum State {
    All(Condition),
    Each(BTreeMap<String, Condition>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Condition {
    Up,
    Down,
    Absent,
    None,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Namespace {
    pub(super) name: String,
    #[serde(default)]
    pub(super) labels: Map<String, Value>,
    #[serde(default)]
    pub(super) annotations: Map<String, Value>,
    #[serde(default)]
    pub(super) unknown: bool,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct User {
    #[serde(default)]
    pub(super) username: Option<String>,
    #[serde(default)]
    pub(super) groups: Option<Vec<String>>,
}

/// Keys laid over the request.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Overlay {
    #[serde(default)]
    pub(super) operation: Option<String>,
    /// The object before an update.
    #[serde(default)]
    pub(super) old_object: Option<Value>,
    #[serde(default)]
    pub(super) sub_resource: Option<String>,
    #[serde(default)]
    pub(super) dry_run: Option<bool>,
    #[serde(default)]
    pub(super) resource: Option<Value>,
}

/// An answer.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Expected {
    pub(super) decision: Decision,
    pub(super) reason: String,
    #[serde(default)]
    pub(super) mark: Option<String>,
    #[serde(default)]
    pub(super) patch: Option<NoPatch>,
    #[serde(default)]
    pub(super) message: Vec<String>,
    #[serde(default)]
    pub(super) warnings: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Decision {
    Mark,
    Admit,
    Unmark,
    Warn,
    Defer,
    Deny,
    Unreadable,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum NoPatch {
    None,
}

/// A file of cases.
pub(super) struct File {
    /// `linkerd/values.yaml`.
    pub(super) name: String,
    /// `linkerd`.
    pub(super) folder: String,
    pub(super) cases: Vec<Case>,
}

/// All files, in the order of their names.
///
/// # Panics
/// If a file does not fit the format.
pub(super) fn files() -> Vec<File> {
    let mut paths = Vec::new();
    for folder in entries(&folder()) {
        if folder.is_dir() {
            paths.extend(entries(&folder));
        }
    }
    let read = |path: PathBuf| {
        let part = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
        let folder = part(path.parent().unwrap());
        let name = format!("{folder}/{}", part(&path));
        assert!(name.ends_with(".yaml"), "{name}: expected a file of cases");
        let text = std::fs::read(&path).unwrap();
        let cases = read_cases(&name, &text).unwrap_or_else(|error| panic!("{error}"));
        assert!(!cases.is_empty(), "{name} has no case");
        File {
            name,
            folder,
            cases,
        }
    };
    paths.into_iter().map(read).collect()
}

/// The cases in a text.
pub(super) fn read_cases(name: &str, text: &[u8]) -> Result<Vec<Case>, String> {
    let documents = yaml::documents(name, text).map_err(|error| error.to_string())?;
    let read = |document: &yaml::Document<'_>| {
        let case: Case = document.parse().map_err(|error| error.to_string())?;
        let place = format!("{name}:{}: {}", document.line(), case.name);
        case.flaw()
            .map_or(Ok(case), |flaw| Err(format!("{place}: {flaw}")))
    };
    documents.iter().map(read).collect()
}

/// What is in a folder, by name.
pub(super) fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

impl Case {
    /// Says what a case must not leave open.
    fn flaw(&self) -> Option<&'static str> {
        if self.pod_injected.is_some() != self.check_injected.is_some() {
            return Some("podInjected and checkInjected go together");
        }
        if self.cases.iter().any(|number| !(1..=96).contains(number)) {
            return Some("there is no such report from the field");
        }
        let answers = [&self.gate, &self.check];
        let mut answers = answers.into_iter().chain(&self.check_injected);
        answers.find_map(Expected::flaw)
    }

    /// The Configuration of the case, as a person would write it.
    pub(super) fn configuration(&self, folder: &str) -> String {
        let default = || vec![Value::from(folder)];
        let injectors = self.injectors.clone().unwrap_or_else(default);
        let entry = |entry: Value| match entry.as_str() {
            Some(preset) => json!({"preset": preset}),
            None => entry,
        };
        let mut configuration = json!({
            "apiVersion": config::API_VERSION,
            "kind": config::KIND,
            "injectors": injectors.into_iter().map(entry).collect::<Vec<_>>(),
        });
        if let Some(names) = &self.excluded_namespaces {
            configuration["excludedNamespaces"] = json!(names);
        }
        serde_saphyr::to_string(&configuration).unwrap()
    }

    /// The state of an injector.
    pub(super) fn condition(&self, injector: &str) -> Condition {
        match &self.state {
            State::All(condition) => *condition,
            State::Each(each) => *each
                .get(injector)
                .unwrap_or_else(|| panic!("{}: no state for {injector}", self.name)),
        }
    }

    /// The value of a label or annotation, if it is a text.
    pub(super) fn values(&self) -> Vec<&str> {
        let pod = &self.pod["metadata"];
        let maps = [pod["labels"].as_object(), pod["annotations"].as_object()];
        let maps = maps.into_iter().flatten();
        let maps = maps.chain([&self.namespace.labels, &self.namespace.annotations]);
        maps.flat_map(Map::values)
            .filter_map(Value::as_str)
            .collect()
    }

    /// Lays `user` and `request` over a review.
    pub(super) fn lay_over(&self, review: &mut Value) {
        let request = &mut review["request"];
        if let Some(user) = &self.user {
            request["userInfo"] = json!({});
            if let Some(username) = &user.username {
                request["userInfo"]["username"] = json!(username);
            }
            if let Some(groups) = &user.groups {
                request["userInfo"]["groups"] = json!(groups);
            }
        }
        let overlay = &self.request;
        if let Some(operation) = &overlay.operation {
            request["operation"] = json!(operation);
        }
        if let Some(old) = &overlay.old_object {
            request["oldObject"] = old.clone();
        }
        if let Some(name) = &overlay.sub_resource {
            request["subResource"] = json!(name);
            request["requestSubResource"] = json!(name);
        }
        if let Some(dry_run) = overlay.dry_run {
            request["dryRun"] = json!(dry_run);
        }
        if let Some(resource) = &overlay.resource {
            request["resource"] = resource.clone();
            request["requestResource"] = resource.clone();
        }
    }
}

impl Expected {
    fn flaw(&self) -> Option<&'static str> {
        let refuses = matches!(
            self.decision,
            Decision::Defer | Decision::Deny | Decision::Unreadable
        );
        let waits_or_never = refuses && self.decision != Decision::Unreadable;
        let flaws = [
            (
                self.decision == Decision::Mark && self.mark.is_none(),
                "a mark has a value",
            ),
            (
                waits_or_never && self.message.is_empty(),
                "a refusal has something to say",
            ),
            (
                self.decision == Decision::Warn && self.warnings.is_empty(),
                "a warning has a text",
            ),
            (refuses && self.mark.is_some(), "a refusal has no mark"),
            (
                !refuses && !self.message.is_empty(),
                "only refusals have messages",
            ),
            (
                self.patch.is_some() && self.decision != Decision::Mark,
                "patch: none goes with a mark",
            ),
        ];
        let found = flaws.into_iter().find(|(is_there, _)| *is_there);
        found.map(|(_, flaw)| flaw)
    }
}
