//! All that happens to a pod between its creation and its end: nothing of it is meshgate's business
//! (cases 12 to 18).

use serde_json::{Value, json};

use crate::lab::harness::version::minor;
use crate::lab::harness::{Answer, Lab, PATIENCE, Who, within};

/// A pod that no scheduler takes until [`all`] binds it.
pub(super) fn unscheduled(mut pod: Value) -> Value {
    pod["spec"]["schedulerName"] = json!("none");
    pod["spec"]["terminationGracePeriodSeconds"] = json!(0);
    pod["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "10m"}});
    pod
}

/// One change: its name, the subresource, the kind of patch and the patch.
type Change = (&'static str, &'static str, &'static str, Value);

const MERGE: &str = "merge-patch";
const STRATEGIC: &str = "strategic-merge-patch";

/// What any user may do to the metadata of a pod.
fn to_metadata(name: &str) -> Vec<Change> {
    let metadata = |key: &str, value: Value| json!({"metadata": {key: value}});
    let labels = |value| metadata("labels", value);
    let marked = |mark| metadata("annotations", json!({"meshgate.io/admitted": mark}));
    let held = json!(["example.com/held"]);
    let applied = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "labels": {"applied": "yes"}},
    });
    let apply = "?fieldManager=a&force=true";
    vec![
        ("label", "", MERGE, labels(json!({"a": "b"}))),
        ("dry run", "?dryRun=All", MERGE, labels(json!({"c": "d"}))),
        ("take the mark away", "", MERGE, marked(None)),
        ("claim a mark", "", MERGE, marked(Some("vault"))),
        ("server-side apply", apply, "apply-patch", applied),
        ("add a finalizer", "", MERGE, metadata("finalizers", held)),
        ("remove it", "", MERGE, metadata("finalizers", Value::Null)),
    ]
}

/// What may be done to the rest of it.
fn to_the_rest() -> Vec<Change> {
    let image = json!({"name": "web", "image": "example.com/web:2"});
    let image = json!({"spec": {"containers": [image]}});
    let more = json!({"name": "web", "resources": {"requests": {"cpu": "20m"}}});
    let more = json!({"spec": {"containers": [more]}});
    let debugger = json!({"name": "debugger", "image": "example.com/debug"});
    let debugger = json!({"spec": {"ephemeralContainers": [debugger]}});
    let status = json!({"status": {"message": "fine"}});
    let mut changes = vec![
        ("another image", "", STRATEGIC, image),
        ("status", "/status", MERGE, status),
        ("debug", "/ephemeralcontainers", STRATEGIC, debugger),
    ];
    // Older API servers have no such subresource.
    if minor() >= 33 {
        changes.push(("resize", "/resize", STRATEGIC, more));
    }
    changes
}

/// Does everything to a pod from [`unscheduled`] that can be done to one: binds it, changes it in
/// all ways, debugs it, and evicts it at last. What is refused is added to `wrong`.
pub(super) async fn all(lab: &Lab, (namespace, name): (&str, &str), wrong: &mut Vec<String>) {
    let path = format!("/api/v1/namespaces/{namespace}/pods/{name}");
    let mut note = |what: &str, answer: &Answer| {
        if !answer.is_ok() {
            wrong.push(format!("{what} of {name}: {answer:?}"));
        }
    };
    let admin = lab.call(Who::Admin);
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "node-1"},
    });
    note(
        "binding",
        &admin.post(&format!("{path}/binding"), &binding).await,
    );
    within(PATIENCE, "the bound pod runs", async || {
        let pod = lab.get(&path).await?;
        (pod["status"]["phase"] == "Running").then_some(())
    })
    .await;
    // What kwok leaves out, and without which no pod is resized.
    let running = lab.get(&path).await.unwrap();
    let mut status = json!({"status": running["status"]});
    for list in ["containerStatuses", "initContainerStatuses"] {
        let containers = status["status"][list].as_array_mut();
        for container in containers.into_iter().flatten() {
            container["resources"] = json!({"requests": {"cpu": "10m"}});
        }
    }
    let kubelet = lab.call(Who::Kubelet);
    let status = kubelet
        .patch(&format!("{path}/status"), STRATEGIC, &status)
        .await;
    note("status by the kubelet", &status);
    for (what, subresource, kind, patch) in to_metadata(name).into_iter().chain(to_the_rest()) {
        let path = format!("{path}{subresource}");
        note(what, &admin.patch(&path, kind, &patch).await);
    }
    let pod = lab.get(&path).await.unwrap();
    note("replace", &admin.put(&path, &pod).await);
    debug(lab, (namespace, name), wrong).await;
    evict(lab, (namespace, name), wrong).await;
}

/// `kubectl debug`, after an ephemeral container was added by hand.
async fn debug(lab: &Lab, (namespace, name): (&str, &str), wrong: &mut Vec<String>) {
    let path = format!("/api/v1/namespaces/{namespace}/pods/{name}");
    let debug = ["debug", name, "-n", namespace, "--image=example.com/debug"];
    let debug = [&debug[..], &["--profile=general", "--container=second"]].concat();
    let debugged = lab.kubectl(&debug).await;
    if debugged.code != Some(0) {
        wrong.push(format!("kubectl debug of {name}: {}", debugged.err));
    }
    let pod = lab.get(&path).await.unwrap();
    let debuggers = pod["spec"]["ephemeralContainers"]
        .as_array()
        .map_or(0, Vec::len);
    if debuggers != 2 {
        wrong.push(format!("{debuggers} ephemeral containers in {name}"));
    }
}

async fn evict(lab: &Lab, (namespace, name): (&str, &str), wrong: &mut Vec<String>) {
    let path = format!("/api/v1/namespaces/{namespace}/pods/{name}");
    let eviction = json!({
        "apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace},
    });
    let evicted = lab
        .call(Who::Admin)
        .post(&format!("{path}/eviction"), &eviction)
        .await;
    if !evicted.is_ok() {
        wrong.push(format!("eviction of {name}: {evicted:?}"));
    }
    within(PATIENCE, "the evicted pod is gone", async || {
        lab.get(&path).await.is_none().then_some(())
    })
    .await;
}
