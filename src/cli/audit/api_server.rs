//! The source without `-f`: a cluster, read with the caller's rights. Pods come last and are judged as they
//! come, so that no more than a page of them is held.

use std::fmt::Display;
use std::time::{Duration, Instant};

use kube::Client;
use kube::api::ListParams;
use meshgate_core::injector::profile::ServiceName;

use crate::cli::{output, sources};
use crate::kube_api::CallError;
use crate::kube_api::pages::{self, Part};

use super::AuditArgs;
use super::answer::Rows;
use super::known::{Known, selector};
use super::registration::Registration;

/// Progress is shown after this time, and then this often.
const SILENT: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(200);

const CORE: &str = "/api/v1";
const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";

/// Kinds that own pods and have owners: where they are, plural and kind.
const OWNERS: [(&str, &str, &str); 5] = [
    ("/apis/apps/v1", "replicasets", "ReplicaSet"),
    ("/apis/apps/v1", "deployments", "Deployment"),
    ("/apis/apps/v1", "statefulsets", "StatefulSet"),
    ("/apis/apps/v1", "daemonsets", "DaemonSet"),
    ("/apis/batch/v1", "jobs", "Job"),
];

struct Reader<'r> {
    client: Client,
    /// Of the pods that are audited; `None`: all.
    namespace: Option<String>,
    deadline: Instant,
    unread: &'r mut Vec<String>,
    began: Instant,
    shown: Instant,
    count: usize,
}

/// The rows of the cluster's pods. What cannot be read is added to `unread`.
pub(super) async fn rows(
    args: &AuditArgs,
    deadline: Instant,
    unread: &mut Vec<String>,
) -> anyhow::Result<Rows> {
    let (client, _) = sources::connect(args.kubeconfig.as_deref()).await?;
    let context = || client.default_namespace().to_owned();
    let namespace = args.namespace.clone().unwrap_or_else(context);
    let now = Instant::now();
    let mut reader = Reader {
        client,
        namespace: (!args.all_namespaces).then_some(namespace),
        deadline,
        unread,
        began: now,
        shown: now,
        count: 0,
    };
    let registration = reader.registration().await;
    let (mut known, mut rows) = args.begin(registration)?;
    reader.namespaces(&mut known).await;
    if !args.summary {
        reader.owners(&mut known).await;
    }
    for service in known.versioned().collect::<Vec<_>>() {
        reader.version(&service, &mut known).await;
    }
    // Ended pods are no finding, and may be many.
    let running = "status.phase!=Succeeded,status.phase!=Failed";
    let params = ListParams::default().fields(running);
    let path = reader.path(CORE, "pods");
    let only = reader.namespace.clone();
    let judge = |json: &str| known.judge(json, only.as_deref(), &mut rows);
    reader.each(&path, (Part::Whole, params), judge).await;
    output::progress("");
    Ok(rows)
}

impl Reader<'_> {
    fn path(&self, group: &str, plural: &str) -> String {
        match &self.namespace {
            Some(namespace) => format!("{group}/namespaces/{namespace}/{plural}"),
            None => format!("{group}/{plural}"),
        }
    }

    fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Hands over each object of a list. Notes what cannot be read; true if the list was read to its end.
    async fn each<E: Display>(
        &mut self,
        path: &str,
        asked: (Part, ListParams),
        mut take: impl FnMut(&str) -> Result<(), E>,
    ) -> bool {
        let client = self.client.clone();
        let (deadline, plural) = (self.deadline, path.rsplit('/').next().unwrap_or(path));
        let within = move || deadline.saturating_duration_since(Instant::now());
        let read = pages::each(&client, path, asked, within, |json| {
            self.count += 1;
            self.show(plural);
            if let Err(error) = take(json) {
                self.unread
                    .push(format!("cannot read one of the {plural}: {error}"));
            }
        });
        let read = read.await;
        let problem = read.err().map(|error| hint(&error, path, "list"));
        self.unread.extend(problem.clone());
        problem.is_none()
    }

    fn show(&mut self, plural: &str) {
        let now = Instant::now();
        if now >= self.began + SILENT && now >= self.shown + PAUSE {
            self.shown = now;
            output::progress(&format!("{} objects read, now {plural} …", self.count));
        }
    }

    async fn registration(&mut self) -> Registration {
        let mut registration = Registration::default();
        let all = (Part::Whole, ListParams::default());
        let path = format!("{ADMISSION}/mutatingwebhookconfigurations");
        let take = |json: &str| registration.take_webhooks(json);
        registration.is_whole = self.each(&path, all.clone(), take).await;
        // With the check as policies no webhook refuses.
        if registration.is_there && registration.is_unarmed() {
            let path = format!("{ADMISSION}/validatingadmissionpolicybindings");
            let take = |json: &str| registration.take_binding(json);
            self.each(&path, all, take).await;
        }
        registration
    }

    async fn namespaces(&mut self, known: &mut Known) {
        let path = format!("{CORE}/namespaces");
        let Some(namespace) = &self.namespace else {
            let all = (Part::Whole, ListParams::default());
            self.each(&path, all, |json| known.take_namespace(json))
                .await;
            return;
        };
        // A right to one namespace allows to get it, and not to list those of the cluster.
        let what = || format!("cannot get namespace {namespace}");
        let read = pages::one(&self.client, &path, namespace, what, self.left()).await;
        match read {
            Ok(json) => {
                if let Err(error) = known.take_namespace(&json) {
                    let problem = format!("cannot read namespace {namespace}: {error}");
                    self.unread.push(problem);
                }
            }
            Err(error) => self.unread.push(hint(&error, &path, "get")),
        }
    }

    async fn owners(&mut self, known: &mut Known) {
        known.owners.may_be_unread = true;
        for (group, plural, kind) in OWNERS {
            let path = self.path(group, plural);
            let all = (Part::Metadata, ListParams::default());
            let take = |json: &str| {
                known.owners.take(kind, json);
                Ok::<_, CallError>(())
            };
            self.each(&path, all, take).await;
        }
    }

    /// The version of the injector behind a Service.
    async fn version(&mut self, service: &ServiceName, known: &mut Known) {
        let place = format!("{CORE}/namespaces/{}", service.namespace);
        let named = format!("metadata.name={}", service.name);
        let named = (Part::Whole, ListParams::default().fields(&named));
        let mut selected = Vec::new();
        let take = |json: &str| {
            let terms = selector(json).into_iter();
            selected.extend(terms.map(|(key, value)| format!("{key}={value}")));
            Ok::<_, CallError>(())
        };
        self.each(&format!("{place}/services"), named, take).await;
        if selected.is_empty() {
            return;
        }
        let selected = ListParams::default().labels(&selected.join(","));
        let take = |json: &str| {
            known.take_injector(service, json);
            Ok::<_, CallError>(())
        };
        let path = format!("{place}/pods");
        self.each(&path, (Part::Whole, selected), take).await;
    }
}

/// What is wrong, and which right is missing if it is one.
fn hint(error: &CallError, path: &str, verb: &str) -> String {
    if !error.is_forbidden() {
        return error.to_string();
    }
    let mut parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let plural = parts.pop().unwrap_or_default();
    let group = match parts.as_slice() {
        ["apis", group, ..] => group,
        _ => "\"\"",
    };
    format!("{error}; grant the verb {verb} on {plural} of API group {group}")
}
