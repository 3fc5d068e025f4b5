//! All that meshgate ever asks of an API server, once.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use hyper::body::Bytes;
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::time::timeout;

use crate::lab::chart::objects;
use crate::lab::harness::{Control, Guest, HOME, Lab, Options, PATIENCE, within};
use crate::lab::registration::{CONFIG, paths};
use crate::lab::wake::owners::{Kind, Owner, woken};
use crate::support::client::{Client, tls_by};
use crate::support::process::get;

const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";
const SECRETS: [&str; 2] = ["meshgate-ca", "meshgate-tls"];
const HASH: &str = "first";

/// Tells it, with an API server that has these flags; returns what the rights are part of.
pub(super) async fn told(api_server_flags: Vec<String>) -> Vec<Value> {
    let lab = Lab::own(Options {
        api_server_flags,
        ..Options::default()
    })
    .await;
    let objects = granted(&lab).await;
    lab.ensure_namespace("orders").await;
    let annotate = [
        "annotate",
        "namespace",
        "orders",
        "linkerd.io/inject=enabled",
    ];
    lab.kubectl(&annotate).await.ok();
    let served = Served::start(&lab).await;

    let first = served.control(&lab, "first", &["--mirror=policy"]).await;
    closed(&lab).await;
    served.is_asked_about_nowhere(&lab).await;
    repaired(&lab).await;
    broken_and_mended(&lab).await;
    woken_in_vain(&lab).await;
    first.order("stop").await;

    switched(&lab, &served).await;
    uninstalled(&lab).await;

    let fourth = served.control(&lab, "fourth", &["--mirror=policy"]).await;
    closed(&lab).await;
    withdrawn(&lab).await;
    fourth.order("stop").await;
    objects
}

/// Owners of each kind whose injector is usable and that get no pod all the same, for want of quota: each is tried
/// in turn.
async fn woken_in_vain(lab: &Lab) {
    lab.install_linkerd().await;
    lab.scale_linkerd(1).await.unwrap();
    let quotas = "/api/v1/namespaces/orders/resourcequotas";
    let quota = json!({"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}});
    lab.create(quotas, &quota).await.unwrap();
    within(PATIENCE, "the quota counts", async || {
        let quota = lab.get(&format!("{quotas}/none")).await?;
        (quota["status"]["hard"]["pods"] == "0").then_some(())
    })
    .await;
    let all = Kind::ALL.map(|kind| Owner::new(kind, kind.plural()));
    for owner in &all {
        let list = owner.kind.list("orders");
        lab.create(&list, &owner.manifest()).await.unwrap();
    }
    within(2 * PATIENCE, "all are woken", async || {
        (woken(lab, "orders", &all).await == all.len()).then_some(())
    })
    .await;
    for owner in &all {
        lab.delete(&owner.path("orders")).await;
    }
    lab.delete(&format!("{quotas}/none")).await;
}

/// The other mirror and the other way to enforce, and back.
async fn switched(lab: &Lab, served: &Served) {
    let flags = ["--mirror=webhook", "--enforcement=policy"];
    let second = served.control(lab, "second", &flags).await;
    there(
        lab,
        "mutatingwebhookconfigurations/namespaces.meshgate.io",
        true,
    )
    .await;
    there(
        lab,
        "mutatingadmissionpolicies/namespaces.meshgate.io",
        false,
    )
    .await;
    there(
        lab,
        "validatingadmissionpolicybindings/linkerd.check.meshgate.io",
        true,
    )
    .await;
    broken_and_mended(lab).await;
    second.order("stop").await;

    let third = served.control(lab, "third", &["--mirror=policy"]).await;
    there(
        lab,
        "mutatingwebhookconfigurations/namespaces.meshgate.io",
        false,
    )
    .await;
    there(
        lab,
        "validatingadmissionpolicies/linkerd.check.meshgate.io",
        false,
    )
    .await;
    closed(lab).await;
    third.order("stop").await;
}

/// Everything that the chart grants to any user, the engineer on call included. The owner is left to
/// meshgate.
async fn granted(lab: &Lab) -> Vec<Value> {
    let group = "--set=breakGlass.group=system:serviceaccounts:on-call";
    let mut objects = objects(&[group]).await;
    objects.retain(|object| {
        let kind = object["kind"].as_str().unwrap();
        let is_owner = kind == "ClusterRole" && object["metadata"]["name"] == "meshgate";
        let is_fence = kind.starts_with("ValidatingAdmissionPolicy");
        !is_owner && (kind.contains("Role") || kind == "ServiceAccount" || is_fence)
    });
    for namespace in [HOME, "on-call"] {
        lab.ensure_namespace(namespace).await;
    }
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    lab.apply_whole(&list.to_string()).await;
    let engineer = json!({"metadata": {"name": "engineer"}});
    let accounts = "/api/v1/namespaces/on-call/serviceaccounts";
    lab.create(accounts, &engineer).await.unwrap();
    objects
}

/// One that answers, by a Service that leads to this machine.
struct Served {
    address: SocketAddr,
    probes: SocketAddr,
}

impl Served {
    async fn start(lab: &Lab) -> Self {
        let local = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let [address, probes] = lab.ports().await.map(local);
        let config = lab.folder_of("serve").join("config.yaml");
        fs::write(&config, CONFIG).unwrap();
        let kubeconfig = lab.kubeconfig_for(HOME, "meshgate").await;
        let flags = [
            ("kubeconfig", kubeconfig.display().to_string()),
            ("config", config.display().to_string()),
            ("tls-secret", "meshgate-tls".to_owned()),
            ("listen", address.to_string()),
            ("admin-listen", probes.to_string()),
        ];
        let flags = flags.map(|(flag, value)| format!("--{flag}={value}"));
        let guest = Guest {
            program: env!("CARGO_BIN_EXE_meshgate").into(),
            args: ["serve".to_owned()].into_iter().chain(flags).collect(),
            ..Guest::default()
        };
        lab.add("serve", &guest).await;
        let service = json!({
            "metadata": {"name": "meshgate"},
            "spec": {
                "type": "ExternalName",
                "externalName": "localhost",
                "ports": [{"port": address.port()}],
            },
        });
        let of = |plural: &str| format!("/api/v1/namespaces/{HOME}/{plural}");
        lab.create(&of("services"), &service).await.unwrap();
        // The pod that it would be. It holds its namespace, as one does that is still draining.
        let pod = json!({
            "metadata": {
                "name": "serving",
                "finalizers": ["lab.meshgate.io/drains"],
                "labels": {
                    "app.kubernetes.io/name": "meshgate",
                    "app.kubernetes.io/component": "serve",
                    "meshgate.io/configuration": HASH,
                },
            },
            "spec": {"containers": [{"name": "a", "image": "a.test/a"}]},
        });
        lab.create(&of("pods"), &pod).await.unwrap();
        Self { address, probes }
    }

    /// One that writes, and has the API server call this one.
    async fn control<'l>(&self, lab: &'l Lab, name: &str, flags: &[&str]) -> Control<'l> {
        let port = format!("--service-port={}", self.address.port());
        let hash = format!("--configuration-hash={HASH}");
        let kubeconfig = lab.kubeconfig_for(HOME, "meshgate-control").await;
        let own = [&*port, &*hash];
        Control::start_as(lab, (name, &kubeconfig), CONFIG, &[&own, flags].concat()).await
    }

    /// A pod of a namespace that is in no view is looked up in that moment.
    async fn is_asked_about_nowhere(&self, lab: &Lab) {
        within(PATIENCE, "it is ready", async || {
            get(self.probes, "/readyz?verbose")
                .contains("readyz check passed")
                .then_some(())
        })
        .await;
        let path = format!("/api/v1/namespaces/{HOME}/secrets/meshgate-tls");
        let secret = lab.get(&path).await.unwrap();
        let ca = decoded(&secret["data"]["ca.crt"]);
        let stream = tls_by(self.address, &ca, "meshgate.meshgate-system.svc").await;
        let mut client = Client::over(stream.unwrap()).await.unwrap();
        let review = fs::read_to_string("examples/reviews/orders-pod.json").unwrap();
        let mut review: Value = serde_json::from_str(&review).unwrap();
        review["request"]["namespace"] = json!("nowhere");
        let body = Bytes::from(review.to_string());
        let answer = client.post("/mutate/pods", "application/json", body).await;
        assert!(
            answer.text().contains("namespace_unknown"),
            "{}",
            answer.text()
        );
    }
}

fn decoded(value: &Value) -> String {
    use base64::Engine as _;
    let text = value.as_str().unwrap();
    let bytes = base64::engine::general_purpose::STANDARD.decode(text);
    String::from_utf8(bytes.unwrap()).unwrap()
}

async fn closed(lab: &Lab) {
    lab.is_closed().await;
    within(PATIENCE, "the namespace has its label", async || {
        lab.is_labelled("orders").await.then_some(())
    })
    .await;
}

/// Waits until something of the registration is there, or not any more.
async fn there(lab: &Lab, what: &str, is_wanted: bool) {
    let path = format!("{ADMISSION}/{what}");
    let what = format!("{what}: there is {is_wanted}");
    within(2 * PATIENCE, &what, async || {
        (lab.get(&path).await.is_some() == is_wanted).then_some(())
    })
    .await;
}

/// Secrets that are damaged, those that cannot be changed included.
async fn repaired(lab: &Lab) {
    for is_immutable in [false, true] {
        for name in SECRETS {
            let path = format!("/api/v1/namespaces/{HOME}/secrets/{name}");
            let damage = json!({"data": {"tls.crt": "bm9uZQ=="}, "immutable": is_immutable});
            lab.merge(&path, &damage).await.unwrap();
            within(PATIENCE, &format!("{name} is whole again"), async || {
                let secret = lab.get(&path).await?;
                let is_whole = secret["data"]["tls.crt"] != "bm9uZQ==";
                (is_whole && secret["immutable"] != true).then_some(())
            })
            .await;
        }
    }
}

/// By an engineer on call: closed by the leader when the time has come, and by the engineer.
async fn broken_and_mended(lab: &Lab) {
    let kubeconfig = lab.kubeconfig_for("on-call", "engineer").await;
    let open = ["break-glass", "--yes", "--reason=a test of rights", "--for"];
    run(&[&open[..], &["1s"]].concat(), &kubeconfig).await;
    within(
        PATIENCE,
        "an Event tells that enforcement resumed",
        async || {
            let events = lab.get("/api/v1/namespaces/default/events").await?;
            let mut events = events["items"].as_array()?.iter();
            events
                .any(|event| event["reason"] == "EnforcementResumed")
                .then_some(())
        },
    )
    .await;
    run(&[&open[..], &["1h"]].concat(), &kubeconfig).await;
    run(&["break-glass", "--close", "--yes"], &kubeconfig).await;
}

/// As before the end of a release, with all that there may be to remove.
async fn uninstalled(lab: &Lab) {
    let labels = json!({"app.kubernetes.io/part-of": "meshgate"});
    // With a label, as meshgate writes it: the API server notes the times of changes, which the guard
    // reads, only for an object that had a field at first.
    let mirror = json!({"metadata": {"name": "namespaces.meshgate.io", "labels": labels}});
    let mutating = format!("{ADMISSION}/mutatingwebhookconfigurations");
    lab.create(&mutating, &mirror).await.unwrap();
    let pod = json!({
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "a", "image": "a.test/a"}]},
    });
    let writer = json!({
        "metadata": {"name": "meshgate-control", "labels": labels},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": pod},
    });
    let deployments = format!("/apis/apps/v1/namespaces/{HOME}/deployments");
    lab.create(&deployments, &writer).await.unwrap();
    let kubeconfig = lab.kubeconfig_for(HOME, "meshgate-uninstall").await;
    run(&["uninstall", "--yes"], &kubeconfig).await;
    assert_eq!(lab.remains().await, [""; 0]);
}

/// Our namespace goes: before our pods have gone, so has what is registered.
async fn withdrawn(lab: &Lab) {
    let delete = ["delete", "namespace", HOME, "--wait=false"];
    lab.kubectl(&delete).await.ok();
    within(PATIENCE, "what was registered is gone", async || {
        let versions = lab.versions(&paths()).await;
        versions.iter().all(Option::is_none).then_some(())
    })
    .await;
    let path = format!("/api/v1/namespaces/{HOME}/pods/serving");
    lab.merge(&path, &json!({"metadata": {"finalizers": null}}))
        .await
        .unwrap();
}

/// A tool with the rights of this kubeconfig.
async fn run(arguments: &[&str], kubeconfig: &Path) {
    let output = Command::new(env!("CARGO_BIN_EXE_meshgate"))
        .args(arguments)
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .kill_on_drop(true)
        .output();
    let output = timeout(PATIENCE, output).await.unwrap().unwrap();
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {output:?}");
}
