//! Who is asked about, and who not: meshgate's own counters tell.

use serde_json::{Value, json};

use super::changes;
use super::guarded::{Guarded, INJECT, let_alice_edit, mark_of};
use super::injector::HOW;
use crate::lab::harness::{Lab, UNGUARDED, User, Who, pod};

/// Where a pod is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Where {
    /// With the annotation.
    Meshed,
    /// Without.
    Plain,
    /// By name.
    Named(&'static str),
}

/// A pod, and whether it is one that an injector is required for.
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) place: Where,
    pub(super) who: Who,
    pub(super) pod: Value,
    pub(super) is_sent: bool,
}

impl Row {
    fn new(name: &'static str, place: Where, pod: Value) -> Self {
        Self {
            name,
            place,
            who: Who::Admin,
            pod,
            is_sent: false,
        }
    }

    fn by(self, who: Who) -> Self {
        Self { who, ..self }
    }

    fn sent(self) -> Self {
        Self {
            is_sent: true,
            ..self
        }
    }
}

fn with(mut pod: Value, field: &str, value: Value) -> Value {
    pod["spec"][field] = value;
    pod
}

/// Every kind of pod that there is for meshgate.
pub(super) fn rows() -> Vec<Row> {
    let mut rows = in_a_meshed_namespace();
    rows.extend(elsewhere());
    rows
}

const OPT_OUT: (&str, &str) = (INJECT.0, "disabled");

fn in_a_meshed_namespace() -> Vec<Row> {
    let row = |name, pod| Row::new(name, Where::Meshed, pod);
    let bare = || pod(&[], &[]);
    let mirror = || {
        let mirror = pod(&[], &[("kubernetes.io/config.mirror", "1")]);
        with(mirror, "nodeName", json!("node-1"))
    };
    let forged = pod(&[], &[("meshgate.io/admitted", "linkerd")]);
    let on_host = with(bare(), "hostNetwork", json!(true));
    let windows = with(bare(), "os", json!({"name": "windows"}));
    let nodes = json!({"kubernetes.io/os": "windows"});
    let on_windows = with(bare(), "nodeSelector", nodes);
    let component = ("linkerd.io/control-plane-component", "destination");
    vec![
        row("ordinary", bare()).sent(),
        row("by a person", bare()).by(Who::Alice).sent(),
        row("with a forged mark", forged).sent(),
        row("opts out", pod(&[], &[OPT_OUT])),
        row("on the host's network", on_host),
        row("a kubelet's mirror pod", mirror()).by(Who::Kubelet),
        row("a mirror pod by a person", mirror())
            .by(Who::Alice)
            .sent(),
        row("for Windows", windows),
        row("on Windows nodes", on_windows),
        row("of Linkerd's control plane", pod(&[component], &[])),
    ]
}

fn elsewhere() -> Vec<Row> {
    let row = Row::new;
    let named = Where::Named;
    let bare = || pod(&[], &[]);
    let asks = || pod(&[], &[INJECT]);
    vec![
        row("plain", Where::Plain, bare()),
        row("opts out of nothing", Where::Plain, pod(&[], &[OPT_OUT])),
        row("opts in", Where::Plain, asks()).sent(),
        row("of the system", named("kube-system"), asks()),
        row("of meshgate's namespace", named("meshgate-system"), asks()),
        row("of an excluded namespace", named(UNGUARDED), asks()),
        row("beside the injector", named("linkerd"), bare()),
        row("opts in beside the injector", named("linkerd"), asks()).sent(),
    ]
}

/// The namespaces of [`rows`].
pub(super) struct Places {
    pub(super) meshed: String,
    pub(super) plain: String,
}

impl Places {
    pub(super) async fn create(guarded: &Guarded) -> Self {
        let lab = &guarded.lab;
        for name in ["kube-system", "meshgate-system", UNGUARDED] {
            lab.ensure_namespace(name).await;
        }
        let meshed = guarded.meshed().await;
        let_alice_edit(lab, &meshed).await;
        let plain = lab.namespace("plain", &[], &[]).await;
        Self { meshed, plain }
    }

    pub(super) fn of(&self, place: Where) -> &str {
        match place {
            Where::Meshed => &self.meshed,
            Where::Plain => &self.plain,
            Where::Named(name) => name,
        }
    }
}

/// How a pod may be created without being created.
const DRY_RUN: &str = "?dryRun=All";

#[tokio::test]
async fn only_pods_that_require_an_injector_are_sent_and_once_per_hook() {
    let guarded = Guarded::alone().await;
    let places = Places::create(&guarded).await;
    let mut wrong = Vec::new();
    for is_ready in [false, true] {
        guarded.injector_is_ready(is_ready).await;
        for row in rows() {
            for how in [DRY_RUN, ""] {
                create(&guarded, &places, (&row, how, is_ready), &mut wrong).await;
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

async fn create(
    guarded: &Guarded,
    places: &Places,
    (row, how, is_ready): (&Row, &str, bool),
    wrong: &mut Vec<String>,
) {
    let path = format!("/api/v1/namespaces/{}/pods{how}", places.of(row.place));
    let (before, calls) = (guarded.decisions(), guarded.linkerd.calls());
    let answer = guarded.lab.call(row.who).post(&path, &row.pod).await;
    let decided = guarded.decisions().since(&before);
    let words: &[&str] = match (row.is_sent, is_ready) {
        (false, _) => &[],
        (true, false) => &["gate defer injector_not_ready"],
        (true, true) => &["check admit sidecar_present", "gate mark injector_ready"],
    };
    let suffix = if how == DRY_RUN { " dry-run" } else { "" };
    let expected: Vec<String> = words
        .iter()
        .map(|words| format!("{words}{suffix}"))
        .collect();
    let mut expect = |holds: bool, what: &str| {
        if !holds {
            let Row { name, place, .. } = row;
            wrong.push(format!(
                "{name} in {place:?}{how}, injector ready {is_ready}: {what}"
            ));
        }
    };
    expect(
        decided == expected,
        &format!("decided {decided:?}, expected {expected:?}"),
    );
    let is_created = !row.is_sent || is_ready;
    expect(answer.is_ok() == is_created, &format!("{answer:?}"));
    if row.is_sent && is_created {
        expect(mark_of(&answer.body) == "linkerd", &answer.body.to_string());
    }
    // A refusal costs one call, since ours comes first.
    let is_silent = guarded.linkerd.calls() == calls;
    expect(is_created || is_silent, "the injector was called");
}

/// Server-side apply creates like anything else, and an apply to what is there is an update.
#[tokio::test]
async fn server_side_apply_is_sent_when_it_creates() {
    let guarded = Guarded::alone().await;
    let namespace = guarded.meshed().await;
    let manifest = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "applied"},
        "spec": pod(&[], &[])["spec"],
    });
    let apply = async |more: &[&str]| {
        let arguments = ["apply", "--server-side", "-n", &namespace, "-f", "-"];
        let arguments = [&arguments[..], more].concat();
        let before = guarded.decisions();
        guarded
            .lab
            .kubectl_as(User::Admin, &arguments, &manifest.to_string())
            .await
            .ok();
        guarded.decisions().since(&before)
    };
    let both = |suffix: &str| {
        ["check admit sidecar_present", "gate mark injector_ready"].map(|w| format!("{w}{suffix}"))
    };
    let path = format!("/api/v1/namespaces/{namespace}/pods/applied");
    assert_eq!(apply(&["--dry-run=server"]).await, both(" dry-run"));
    assert!(
        guarded.lab.get(&path).await.is_none(),
        "a dry run stores nothing"
    );
    assert_eq!(apply(&[]).await, both(""));
    assert_eq!(apply(&[]).await, [""; 0]);
    let pod = guarded.lab.get(&path).await.unwrap();
    assert_eq!(
        mark_of(&pod),
        "linkerd",
        "still there after the second apply"
    );
}

#[tokio::test]
async fn what_happens_to_a_pod_after_its_creation_is_not_sent() {
    let guarded = Guarded::alone().await;
    let subjects = subjects(&guarded).await;
    guarded.injector_is_ready(false).await;
    let before = guarded.decisions();
    let mut wrong = Vec::new();
    for (namespace, name) in &subjects {
        changes::all(&guarded.lab, (namespace, name), &mut wrong).await;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(guarded.decisions().since(&before), [""; 0]);
}

/// Pods in namespaces that require Linkerd, for [`changes::all`]: a meshed one, one with a native
/// sidecar, and one that is bare, since it was there before the annotation.
pub(super) async fn subjects(guarded: &Guarded) -> Vec<(String, String)> {
    let lab = &guarded.lab;
    let meshed = guarded.meshed().await;
    let native = pod(&[], &[(HOW, "a native sidecar")]);
    let older = lab.namespace("meshed-later", &[], &[]).await;
    let out = pod(&[], &[("linkerd.io/inject", "disabled")]);
    let mut subjects = Vec::new();
    for (namespace, name, pod) in [
        (&meshed, "meshed", pod(&[], &[])),
        (&meshed, "native", native),
        (&older, "bare", out),
    ] {
        let mut pod = changes::unscheduled(pod);
        pod["metadata"]["name"] = json!(name);
        lab.create_pod(namespace, &pod).await.unwrap();
        subjects.push((namespace.clone(), name.to_owned()));
    }
    annotate(lab, &older).await;
    let bare = format!("/api/v1/namespaces/{older}/pods/bare");
    let opt_out = json!({"metadata": {"annotations": {"linkerd.io/inject": null}}});
    let answer = lab
        .call(Who::Admin)
        .patch(&bare, "merge-patch", &opt_out)
        .await;
    assert!(answer.is_ok(), "{answer:?}");
    subjects
}

/// Annotates a namespace for Linkerd.
pub(super) async fn annotate(lab: &Lab, namespace: &str) {
    let pair = format!("{}={}", INJECT.0, INJECT.1);
    lab.kubectl(&["annotate", "namespace", namespace, &pair])
        .await
        .ok();
}
