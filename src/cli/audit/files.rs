//! The source for `-f`: dumps of a cluster.

use std::collections::HashSet;
use std::path::Path;

use anyhow::{Context, bail};
use meshgate_core::config::{API_VERSION, KIND};
use meshgate_core::injector::profile::ServiceName;
use meshgate_core::yaml;
use serde::Deserialize;
use serde_json::{Deserializer, Value, json};

use crate::cli::sources;
use crate::cluster::slim;

use super::AuditArgs;
use super::answer::Rows;
use super::known::selector;
use super::registration::Registration;

/// The objects of all files, by what an audit makes of them, each as its text.
#[derive(Default)]
struct Dump {
    webhooks: Vec<String>,
    bindings: Vec<String>,
    namespaces: Vec<String>,
    services: Vec<String>,
    pods: Vec<String>,
    /// With their kinds. Any other object may own pods.
    others: Vec<(String, String)>,
    /// Namespaces and names of the pods: two dumps may have the same pod.
    seen: HashSet<(String, String)>,
}

/// The rows of the pods in the files. What cannot be read is added to `unread`.
pub(super) fn rows(args: &AuditArgs, unread: &mut Vec<String>) -> anyhow::Result<Rows> {
    let mut dump = Dump::default();
    for path in &args.filenames {
        if let Err(problem) = dump.read(path) {
            unread.push(format!("{problem:#}"));
        }
    }
    let mut noted = |what: &str, read: Result<(), serde_json::Error>| {
        if let Err(error) = read {
            unread.push(format!("cannot read a {what}: {error}"));
        }
    };
    let mut registration = Registration::default();
    for json in &dump.webhooks {
        noted(
            "MutatingWebhookConfiguration",
            registration.take_webhooks(json),
        );
    }
    for json in &dump.bindings {
        noted(
            "ValidatingAdmissionPolicyBinding",
            registration.take_binding(json),
        );
    }
    let (mut known, mut rows) = args.begin(registration)?;
    for json in &dump.namespaces {
        noted("Namespace", known.take_namespace(json));
    }
    for (kind, json) in &dump.others {
        known.owners.take(kind, json);
    }
    for service in known.versioned().collect::<Vec<_>>() {
        for pod in dump.selected(&service) {
            known.take_injector(&service, pod);
        }
    }
    for json in &dump.pods {
        noted(
            "Pod",
            known.judge(json, args.namespace.as_deref(), &mut rows),
        );
    }
    Ok(rows)
}

impl Dump {
    fn read(&mut self, path: &Path) -> anyhow::Result<()> {
        let (name, bytes) = sources::file(path)?;
        let text = std::str::from_utf8(&bytes).with_context(|| format!("cannot read {name}"))?;
        // Several answers of kubectl as JSON may stand one after the other.
        let whole = text.trim_start().starts_with('{');
        let json = Deserializer::from_str(text).into_iter().collect();
        let values: Vec<Value> = match json {
            Ok(values) if whole => values,
            _ => {
                let documents = yaml::split_up(&name, text).into_iter();
                let parsed = documents.map(|document| document.large().parse());
                parsed.collect::<Result<_, _>>()?
            }
        };
        if values.is_empty() {
            bail!("found nothing in {name}, expected what kubectl get -o yaml or -o json writes");
        }
        let taken = values
            .into_iter()
            .try_for_each(|value| self.take(value, "", ""));
        taken.with_context(|| format!("cannot read all of {name}"))
    }

    /// Takes an object, or those of a list, whose entries may leave version and kind to it.
    fn take(&mut self, mut value: Value, version: &str, kind: &str) -> anyhow::Result<()> {
        let text = |key: &str, otherwise: &str| match value[key].as_str() {
            Some(own) => own.to_owned(),
            None => otherwise.to_owned(),
        };
        let (version, kind) = (text("apiVersion", version), text("kind", kind));
        if kind.is_empty() {
            bail!(
                "found an object without kind, expected what kubectl get -o yaml or -o json writes"
            );
        }
        if let (Some(of), Value::Array(items)) = (kind.strip_suffix("List"), value["items"].take())
        {
            let mut items = items.into_iter();
            return items.try_for_each(|item| self.take(item, &version, of));
        }
        let is_core = version == "v1";
        match kind.as_str() {
            "Pod" if is_core => {
                let name = |key: &str| value["metadata"][key].as_str().unwrap_or("").to_owned();
                if self.seen.insert((name("namespace"), name("name"))) {
                    self.pods.push(value.to_string());
                }
            }
            "Namespace" if is_core => self.namespaces.push(value.to_string()),
            "Service" if is_core => self.services.push(value.to_string()),
            "MutatingWebhookConfiguration" => self.webhooks.push(value.to_string()),
            "ValidatingAdmissionPolicyBinding" => self.bindings.push(value.to_string()),
            KIND if version == API_VERSION => bail!("found a {KIND}, expected it by --config"),
            _ => {
                let head = json!({ "metadata": value["metadata"] });
                self.others.push((kind, head.to_string()));
            }
        }
        Ok(())
    }

    /// The pods that this Service selects.
    fn selected(&self, service: &ServiceName) -> Vec<&str> {
        let place = |json: &str| serde_json::from_str(json).map(|one: Named| one.metadata);
        let is_meant = |json: &&String| {
            place(json).is_ok_and(|own| {
                (own.namespace, own.name) == (service.namespace.clone(), service.name.clone())
            })
        };
        let Some(found) = self.services.iter().find(is_meant) else {
            return Vec::new();
        };
        let wanted = selector(found);
        let is_selected = |json: &&str| {
            let has = |own: slim::Metadata| {
                own.namespace == service.namespace
                    && wanted
                        .iter()
                        .all(|(key, value)| own.labels.get(key) == Some(value))
            };
            !wanted.is_empty() && place(json).is_ok_and(has)
        };
        self.pods
            .iter()
            .map(String::as_str)
            .filter(is_selected)
            .collect()
    }
}

#[derive(Deserialize)]
struct Named {
    metadata: slim::Metadata,
}
