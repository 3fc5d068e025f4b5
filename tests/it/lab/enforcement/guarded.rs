//! A control plane that these tests have in turn, with a meshgate registered in it, and Linkerd's injector beside it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;

use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard};

use super::injector::Linkerd;
use crate::lab::harness::{
    Lab, Meshgate, Options, PATIENCE, Supervisor, UNGUARDED, Who, pod, within,
};

/// Linkerd, whose annotations of namespaces are mirrored, enforced; Vault, which pods ask for,
/// in mode `warn`.
pub(super) const CONFIG: &str = "
apiVersion: meshgate.io/v1alpha1
kind: Configuration
injectors:
- preset: linkerd
- {preset: vault, mode: warn}
excludedNamespaces: [unguarded]
";

/// What a namespace says that wants Linkerd.
pub(super) const INJECT: (&str, &str) = ("linkerd.io/inject", "enabled");

/// What the tests of one process have in turn.
struct Registered {
    supervisor: Arc<Supervisor>,
    /// Of its meshgate: HTTPS and probes.
    ports: [u16; 2],
}

/// A static is never dropped: the pipe to the supervisor closes with this process.
static REGISTERED: Mutex<Option<Registered>> = Mutex::const_new(None);

/// No other test has this control plane now. Its user leaves meshgate running; how ready the
/// injector is is their affair. After a panic the next test gets a new one.
pub(super) struct Guarded {
    turn: MutexGuard<'static, Option<Registered>>,
    pub(super) lab: Lab,
    pub(super) linkerd: Linkerd,
    ports: [u16; 2],
}

impl Guarded {
    /// Ready to use: armed, the injector injects and its endpoint is ready.
    pub(super) async fn alone() -> Self {
        let mut turn = REGISTERED.lock().await;
        let running = turn.take().filter(|own| own.supervisor.is_running());
        let (lab, linkerd, ports) = if let Some(Registered { supervisor, ports }) = running {
            let lab = Lab::again(&supervisor);
            let linkerd = Linkerd::install(&lab).await;
            (lab, linkerd, ports)
        } else {
            let lab = Lab::own(Options::default()).await;
            let linkerd = Linkerd::install(&lab).await;
            let meshgate = Meshgate::start(&lab, CONFIG).await;
            let ports = [meshgate.address.port(), meshgate.probes.port()];
            (lab, linkerd, ports)
        };
        *turn = Some(Registered {
            supervisor: Arc::clone(lab.supervisor()),
            ports,
        });
        let guarded = Self {
            turn,
            lab,
            linkerd,
            ports,
        };
        guarded.injector_is_ready(true).await;
        guarded
    }

    pub(super) fn meshgate(&self) -> Meshgate<'_> {
        Meshgate::running(&self.lab, self.ports)
    }

    /// Writes the injector's one endpoint, and waits until meshgate has seen it.
    pub(super) async fn injector_is_ready(&self, is_ready: bool) {
        self.lab
            .endpoint("linkerd", "linkerd-proxy-injector", is_ready)
            .await;
        let line = format!(
            "meshgate_injector_ready{{injector=\"linkerd\"}} {}",
            u8::from(is_ready)
        );
        within(PATIENCE, &line, async || {
            self.meshgate().metrics().contains(&line).then_some(())
        })
        .await;
    }

    /// A namespace with Linkerd's annotation, whose pods the injector injects.
    pub(super) async fn meshed(&self) -> String {
        meshed(&self.lab).await
    }

    /// How often meshgate has decided what.
    pub(super) fn decisions(&self) -> Decisions {
        Decisions::read(&self.meshgate().metrics())
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        if thread::panicking() {
            self.turn.take();
        }
    }
}

/// See [`Guarded::meshed`]; for labs without meshgate too.
pub(super) async fn meshed(lab: &Lab) -> String {
    lab.namespace("meshed", &[], &[INJECT]).await
}

/// Waits until the API server knows of the injector's webhook.
pub(super) async fn until_injected(lab: &Lab) {
    lab.ensure_namespace(UNGUARDED).await;
    lab.injects(UNGUARDED, &pod(&[], &[INJECT]), "linkerd-proxy")
        .await;
}

/// Gives user alice what an editor of a namespace may do, and waits until she may.
pub(super) async fn let_alice_edit(lab: &Lab, namespace: &str) {
    let binding = json!({
        "metadata": {"name": "alice"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}],
    });
    let path = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings");
    lab.create(&path, &binding).await.unwrap();
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"namespace": namespace, "verb": "create", "resource": "pods"}},
    });
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    within(PATIENCE, "alice may create pods", async || {
        let answer = lab.call(Who::Alice).post(path, &review).await;
        (answer.body["status"]["allowed"] == true).then_some(())
    })
    .await;
}

/// How often meshgate has decided what, by `HOOK DECISION REASON`, and ` dry-run` behind it.
#[derive(Clone, Debug, Default)]
pub(super) struct Decisions(BTreeMap<String, u64>);

impl Decisions {
    fn read(metrics: &str) -> Self {
        let mut counts = BTreeMap::new();
        for line in metrics.lines() {
            let Some(rest) = line.strip_prefix("meshgate_decisions_total{") else {
                continue;
            };
            let (labels, count) = rest.rsplit_once("} ").unwrap();
            let label = |name: &str| {
                let (_, value) = labels.split_once(&format!("{name}=\"")).unwrap();
                value.split_once('"').unwrap().0.to_owned()
            };
            // Of meshgate itself: whether the API server reaches it.
            if label("hook") == "reach" {
                continue;
            }
            let dry_run = if label("dry_run") == "true" {
                " dry-run"
            } else {
                ""
            };
            let words = [label("hook"), label("decision"), label("reason")].join(" ");
            *counts.entry(words + dry_run).or_insert(0) += count.parse::<u64>().unwrap();
        }
        Self(counts)
    }

    /// What was decided after `before`, in alphabetical order, each as often as it was.
    pub(super) fn since(&self, before: &Self) -> Vec<String> {
        let new = self.0.iter().flat_map(|(words, count)| {
            let old = before.0.get(words).copied().unwrap_or_default();
            std::iter::repeat_n(words.clone(), usize::try_from(count - old).unwrap())
        });
        new.collect()
    }
}

/// The mark on a pod.
pub(super) fn mark_of(pod: &Value) -> &Value {
    &pod["metadata"]["annotations"]["meshgate.io/admitted"]
}
