//! The watches of a replica are held back while the API server goes on: what the namespace requires by now
//! holds for every pod that the API server asks about.

use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::harness::{Account, Lab, Meshgate, Options, PATIENCE, pod, within};
use crate::hooks;
use crate::support::client::Client;

const CONFIG: &str = "apiVersion: meshgate.io/v1alpha1
kind: Configuration
injectors:
- preset: linkerd
- preset: istio
";

/// Passes bytes on to the API server. What it sends by connections that were open when it was told to hold
/// them never arrives; new connections work.
struct Relay {
    address: SocketAddr,
    hold: watch::Sender<bool>,
    _tasks: JoinSet<()>,
}

impl Relay {
    async fn to(server: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let hold = watch::Sender::new(false);
        let orders = hold.clone();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let api = TcpStream::connect(&server).await.unwrap();
                let (mut from_client, mut to_client) = client.into_split();
                let (mut from_api, mut to_api) = api.into_split();
                let held = orders.subscribe();
                let is_new = *held.borrow();
                connections.spawn(async move {
                    let up = tokio::io::copy(&mut from_client, &mut to_api);
                    let down = async {
                        let mut buffer = vec![0; 16 * 1024];
                        loop {
                            let read = from_api.read(&mut buffer).await.unwrap_or(0);
                            if *held.borrow() && !is_new {
                                std::future::pending::<()>().await;
                            }
                            if read == 0 || to_client.write_all(&buffer[..read]).await.is_err() {
                                return;
                            }
                        }
                    };
                    tokio::select! {
                        _ = up => {}
                        () = down => {}
                    }
                });
            }
        });
        Self {
            address,
            hold,
            _tasks: tasks,
        }
    }
}

/// Asks for Istio by itself, with containers called as Istio's are.
fn hostile() -> Value {
    let mut pod = pod(&[("sidecar.istio.io/inject", "true")], &[]);
    let container = |name: &str| json!({"name": name, "image": "example.com/web"});
    pod["spec"]["containers"] = json!([container("web"), container("istio-proxy")]);
    pod["spec"]["initContainers"] = json!([container("istio-init")]);
    pod
}

#[tokio::test]
async fn a_stale_view_that_requires_less_lets_no_pod_in() {
    let lab = Lab::own(Options {
        only: vec!["etcd", "kube-apiserver"],
        ..Options::default()
    })
    .await;
    let direct = fs::read_to_string(lab.kubeconfig_of(Account::Development).await).unwrap();
    let mut config: Value = serde_json::from_str(&direct).unwrap();
    let cluster = &mut config["clusters"][0]["cluster"]["server"];
    let server = cluster.as_str().unwrap().strip_prefix("https://").unwrap();
    let relay = Arc::new(Relay::to(server.to_owned()).await);
    *cluster = json!(format!("https://{}", relay.address));
    let kubeconfig = lab.folder_of("accounts").join("relayed.kubeconfig");
    fs::write(&kubeconfig, config.to_string()).unwrap();
    let meshgate = Meshgate::begin_by(&lab, CONFIG, &kubeconfig, &[]).await;
    meshgate.armed().await;

    let namespace = lab.namespace("late", &[], &[]).await;
    within(PATIENCE, "the view holds the namespace", async || {
        let before = look_ups(&meshgate);
        let admitted = lab.try_pod(&namespace, &hostile()).await.is_ok();
        (admitted && look_ups(&meshgate) == before).then_some(())
    })
    .await;

    relay.hold.send_replace(true);
    let mark = json!({"metadata": {"annotations": {"linkerd.io/inject": "enabled"}}});
    let path = format!("/api/v1/namespaces/{namespace}");
    let marked = lab.merge(&path, &mark).await.unwrap();
    assert_eq!(
        marked["metadata"]["labels"]["meshgate.io/requires.linkerd"],
        ""
    );
    // From here on this API server asks by entries for namespaces that require Linkerd.
    within(PATIENCE, "a plain pod is refused", async || {
        lab.try_pod(&namespace, &pod(&[], &[])).await.err()
    })
    .await;
    let before = look_ups(&meshgate);
    let sentence = format!("Namespace {namespace} requires linkerd");
    let refused = async || {
        let refusal = lab.try_pod(&namespace, &hostile()).await;
        let refusal = refusal.expect_err("a pod got in without Linkerd's sidecar");
        refusal.message.contains(&sentence).then_some(())
    };
    within(PATIENCE, "the hostile pod is told what is missing", refused).await;
    for _ in 0..20 {
        refused().await;
    }
    assert!(look_ups(&meshgate) > before);

    // All the while the view held the namespace as it was: a call without the name of an entry shows that.
    let ca_pem = fs::read_to_string(meshgate.certs().join("ca.crt")).unwrap();
    let mut client = Client::connect(meshgate.address, &ca_pem).await;
    let review = hooks::review("u", &namespace, hostile()).to_string();
    let answer = client.try_post("/mutate/pods", &review).await.unwrap();
    let answer: Value = serde_json::from_str(answer.text()).unwrap();
    assert_eq!(
        answer["response"]["auditAnnotations"]["injectors"], "istio",
        "{answer}"
    );
}

fn look_ups(meshgate: &Meshgate<'_>) -> u64 {
    let metrics = meshgate.metrics();
    let line = metrics
        .lines()
        .find(|line| line.starts_with("meshgate_live_lookups_total "));
    line.map_or(0, |line| line.rsplit(' ').next().unwrap().parse().unwrap())
}
