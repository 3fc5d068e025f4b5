//! Workloads whose injector is away: nothing of theirs starts, their owner says why, and once the
//! injector is there their pods come.

use jiff::ToSpan;
use serde_json::{Value, json};

use super::guarded::{Guarded, mark_of};
use crate::lab::harness::{Lab, PATIENCE, Who, within};
use crate::support::server::now;

/// A kind of workload: what it is called, its API, and whose events say that a pod was refused.
struct Kind {
    kind: &'static str,
    api: &'static str,
    refused: &'static str,
}

const KINDS: [Kind; 6] = [
    Kind {
        kind: "Deployment",
        api: "apps/v1",
        refused: "replicasets",
    },
    Kind {
        kind: "StatefulSet",
        api: "apps/v1",
        refused: "statefulsets",
    },
    Kind {
        kind: "DaemonSet",
        api: "apps/v1",
        refused: "daemonsets",
    },
    Kind {
        kind: "ReplicationController",
        api: "v1",
        refused: "replicationcontrollers",
    },
    Kind {
        kind: "Job",
        api: "batch/v1",
        refused: "jobs",
    },
    Kind {
        kind: "CronJob",
        api: "batch/v1",
        refused: "jobs",
    },
];

/// Of a pod while the injector is away.
const REFUSED: &str = "gate defer injector_not_ready";

/// What each makes, apart from a DaemonSet, which makes one per Node.
const REPLICAS: usize = 2;

impl Kind {
    fn manifest(&self) -> Value {
        let spec = |restart: &str| {
            json!({
                "restartPolicy": restart,
                "containers": [{"name": "web", "image": "example.com/web"}],
            })
        };
        let labels = json!({"app": "web"});
        let selector = match self.kind {
            "ReplicationController" => labels.clone(),
            _ => json!({"matchLabels": labels}),
        };
        let template = json!({"metadata": {"labels": labels}, "spec": spec("Always")});
        let job = json!({
            "completions": REPLICAS, "parallelism": REPLICAS,
            "template": {"spec": spec("Never")},
        });
        let spec = match self.kind {
            "DaemonSet" => json!({"selector": selector, "template": template}),
            "StatefulSet" => json!({
                "serviceName": "web", "podManagementPolicy": "Parallel", "replicas": REPLICAS,
                "selector": selector, "template": template,
            }),
            "Job" => job,
            "CronJob" => json!({
                "schedule": "0 0 1 1 *", "concurrencyPolicy": "Forbid",
                "jobTemplate": {"spec": job},
            }),
            _ => json!({"replicas": REPLICAS, "selector": selector, "template": template}),
        };
        json!({
            "apiVersion": self.api, "kind": self.kind, "metadata": {"name": "web"}, "spec": spec,
        })
    }

    /// The path of the objects that are refused pods.
    fn refused(&self, namespace: &str) -> String {
        let (group, api) = match self.api {
            "v1" => ("api", "v1"),
            api => ("apis", api),
        };
        format!("/{group}/{api}/namespaces/{namespace}/{}", self.refused)
    }

    fn pods(&self, nodes: usize) -> usize {
        if self.kind == "DaemonSet" {
            nodes
        } else {
            REPLICAS
        }
    }
}

#[tokio::test]
async fn every_kind_of_workload_waits_says_why_and_comes() {
    let guarded = Guarded::alone().await;
    let lab = &guarded.lab;
    guarded.injector_is_ready(false).await;
    let mut namespaces = Vec::new();
    for _ in &KINDS {
        namespaces.push(guarded.meshed().await);
    }
    let (before, calls) = (guarded.decisions(), guarded.linkerd.calls());
    for (kind, namespace) in KINDS.iter().zip(&namespaces) {
        lab.apply(namespace, &kind.manifest().to_string()).await;
        if kind.kind == "CronJob" {
            make_due(lab, namespace).await;
        }
    }
    for (kind, namespace) in KINDS.iter().zip(&namespaces) {
        waits(lab, kind, namespace).await;
    }
    assert_eq!(guarded.linkerd.calls(), calls, "a refusal costs one call");
    let decided = guarded.decisions().since(&before);
    let all_wait = decided.iter().all(|words| words == REFUSED);
    assert!(all_wait, "{decided:?}");

    // Before the injector is ready: some may try by themselves at that very moment.
    let before = guarded.decisions();
    guarded.injector_is_ready(true).await;
    let nodes = lab.get("/api/v1/nodes").await.unwrap()["items"].take();
    let nodes = nodes.as_array().unwrap().len();
    let mut expected = 0;
    for (kind, namespace) in KINDS.iter().zip(&namespaces) {
        expected += kind.pods(nodes);
        come(lab, kind, (namespace, kind.pods(nodes))).await;
    }
    // Once per hook and pod; nothing else that these controllers write is asked about.
    let mut decided = guarded.decisions().since(&before);
    decided.retain(|words| words != REFUSED);
    let count = |words: &str| decided.iter().filter(|own| *own == words).count();
    let admitted = ["gate mark injector_ready", "check admit sidecar_present"].map(count);
    assert_eq!(admitted, [expected; 2], "{decided:?}");
    assert_eq!(decided.len(), 2 * expected, "{decided:?}");
    for namespace in &namespaces {
        let path = format!("/api/v1/namespaces/{namespace}");
        assert!(lab.call(Who::Admin).delete(&path).await.is_ok());
    }
}

/// Makes a CronJob believe that it last ran so long ago that it is due now.
async fn make_due(lab: &Lab, namespace: &str) {
    let path = format!("/apis/batch/v1/namespaces/{namespace}/cronjobs/web/status");
    let long_ago = now() - 9_000.hours();
    let patch = json!({"status": {"lastScheduleTime": long_ago.strftime("%FT%TZ").to_string()}});
    let answer = lab
        .call(Who::Admin)
        .patch(&path, "merge-patch", &patch)
        .await;
    assert!(answer.is_ok(), "{answer:?}");
}

/// Who is to make the pods is there, no pod is, and `kubectl describe` shows the whole sentence.
async fn waits(lab: &Lab, kind: &Kind, namespace: &str) {
    let sentence = format!(
        "denied the request: Namespace {namespace} requires linkerd (annotation \
         linkerd.io/inject=enabled) but 0 of 1 endpoints of Service linkerd/linkerd-proxy-injector \
         are usable (1 not ready); the pod is created once one is, see kubectl -n linkerd get pods"
    );
    let what = format!("kubectl describe {} shows: {sentence}", kind.refused);
    within(PATIENCE, &what, async || {
        let text = lab
            .kubectl(&["describe", kind.refused, "-n", namespace])
            .await
            .ok();
        text.contains(&sentence).then_some(())
    })
    .await;
    assert_eq!(
        pods(lab, namespace).await,
        [] as [Value; 0],
        "{}",
        kind.kind
    );
}

/// Wakes the owner until all its pods run, which must be marked and meshed.
async fn come(lab: &Lab, kind: &Kind, (namespace, count): (&str, usize)) {
    let owners = lab.get(&kind.refused(namespace)).await.unwrap()["items"].take();
    let owner = owners[0]["metadata"]["name"].as_str().unwrap();
    let path = format!("{}/{owner}", kind.refused(namespace));
    let mut tries = 0;
    let what = format!("{count} pods of a {}", kind.kind);
    let all = within(PATIENCE, &what, async || {
        let all = pods(lab, namespace).await;
        let has_started = |pod: &Value| {
            let phase = pod["status"]["phase"].as_str();
            matches!(phase, Some("Running" | "Succeeded"))
        };
        if all.len() == count && all.iter().all(has_started) {
            return Some(all);
        }
        if all.is_empty() {
            tries += 1;
            let woken =
                json!({"metadata": {"annotations": {"meshgate.io/woken": tries.to_string()}}});
            lab.call(Who::Admin)
                .patch(&path, "merge-patch", &woken)
                .await;
        }
        None
    })
    .await;
    for pod in all {
        assert_eq!(mark_of(&pod), "linkerd", "{pod}");
        let containers = pod["spec"]["containers"].as_array().unwrap();
        assert!(
            containers.iter().any(|c| c["name"] == "linkerd-proxy"),
            "{pod}"
        );
    }
}

/// All pods of a namespace.
pub(super) async fn pods(lab: &Lab, namespace: &str) -> Vec<Value> {
    let path = format!("/api/v1/namespaces/{namespace}/pods");
    let list = lab.get(&path).await.unwrap();
    list["items"].as_array().unwrap().clone()
}
