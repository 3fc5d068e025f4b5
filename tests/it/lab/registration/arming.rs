//! The order at the start, and that nothing fails closed before the API server has reached us.

use std::net::SocketAddr;
use std::path::Path;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::{CONFIG, INJECT, SECONDS, gate, lab, paths, pod, version};
use crate::lab::harness::{Account, Guest, Lab, User, within};
use crate::support::process::{authority, get, issue, write_pair};

/// A meshgate that listens at one address and is registered by another.
pub(crate) struct Unreached<'l> {
    lab: &'l Lab,
    listens: SocketAddr,
    pub(super) probes: SocketAddr,
    called: SocketAddr,
}

impl<'l> Unreached<'l> {
    /// Starts one that is registered by its own address, and is not reached by that for another
    /// reason, or by another.
    pub(crate) async fn start(
        lab: &'l Lab,
        configuration: &str,
        certs: &Path,
        by_its_own_address: bool,
    ) -> Self {
        let [https, probes, other] = lab.ports().await;
        let local = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let called = local(if by_its_own_address { https } else { other });
        let config = lab.folder_of("unreached").join("config.yaml");
        std::fs::write(&config, configuration).unwrap();
        let flags = [
            (
                "kubeconfig",
                lab.kubeconfig_of(Account::Development)
                    .await
                    .display()
                    .to_string(),
            ),
            ("config", config.display().to_string()),
            ("certs-dir", certs.display().to_string()),
            ("webhook-url", format!("https://{called}")),
            ("listen", local(https).to_string()),
            ("admin-listen", local(probes).to_string()),
        ];
        let args = flags.map(|(flag, value)| format!("--{flag}={value}"));
        let guest = Guest {
            program: env!("CARGO_BIN_EXE_meshgate").into(),
            args: ["serve".to_owned()].into_iter().chain(args).collect(),
            ..Guest::default()
        };
        lab.add("unreached", &guest).await;
        Self {
            lab,
            listens: local(https),
            probes: local(probes),
            called,
        }
    }

    /// Opens a way from where it is called to where it listens, until that is dropped.
    pub(crate) async fn way(&self) -> JoinSet<()> {
        let listener = TcpListener::bind(self.called).await.unwrap();
        let to = self.listens;
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((mut from, _)) = listener.accept().await {
                connections.spawn(async move {
                    let mut to = TcpStream::connect(to).await.unwrap();
                    tokio::io::copy_bidirectional(&mut from, &mut to).await.ok();
                });
            }
        });
        tasks
    }

    /// Waits until it says, loudly, why it is not reached.
    async fn says(&self, why: &str) {
        let what = format!("it says {why}");
        within(SECONDS, &what, async || {
            let log = self.lab.log_of("unreached");
            let mut lines = log.lines().filter(|line| line.contains("NOT ARMED"));
            lines
                .any(|line| line.contains(why) && line.contains("ERROR"))
                .then_some(())
        })
        .await;
        let ready = get(self.probes, "/readyz?verbose");
        assert!(
            ready.contains(&format!("not reached at https://{}", self.called)),
            "{ready}"
        );
        assert!(ready.contains("readyz check passed"), "{ready}");
        assert!(get(self.probes, "/metrics").contains("meshgate_registration_armed 0"));
        let policies = self.lab.policies().await;
        assert!(
            policies.len() >= 4 && policies.iter().all(|one| one == "Ignore"),
            "{policies:?}"
        );
    }
}

#[tokio::test]
async fn entries_fail_closed_only_once_the_api_server_has_reached_us() {
    let lab = lab(&[], &[]).await;
    let orders = lab.namespace("orders", &[], &[(INJECT, "enabled")]).await;
    let certs = lab.folder_of("certs");
    let meshgate = Unreached::start(&lab, CONFIG, &certs, false).await;
    meshgate.says("connection refused").await;

    // Everything was written once, in order: versions tell when. The label comes after the mirror
    // and before the entries that select on it.
    let versions = lab.versions(&paths()).await;
    let mut order: Vec<u64> = versions.iter().map(|one| one.unwrap()).collect();
    let namespace = lab
        .get(&format!("/api/v1/namespaces/{orders}"))
        .await
        .unwrap();
    assert!(lab.is_labelled(&orders).await);
    let entries = paths().iter().position(|path| *path == gate());
    order.insert(entries.unwrap(), version(&namespace));
    assert!(order.is_sorted(), "{order:?}");

    // A meshgate that cannot be called holds no pod up.
    let pods = format!("/api/v1/namespaces/{orders}/pods");
    lab.create(&pods, &pod("before")).await.unwrap();

    // A way is opened from where the API server calls to where meshgate listens.
    let tasks = meshgate.way().await;
    lab.is_closed().await;
    within(SECONDS, "the metric says so", async || {
        get(meshgate.probes, "/metrics")
            .contains("meshgate_registration_armed 1")
            .then_some(())
    })
    .await;
    // By kubectl, which does not try again.
    let create = ["create", "-n", &orders, "-f", "-"];
    let after = pod("after").to_string();
    let refused = lab.kubectl_as(User::Admin, &create, &after).await;
    assert!(refused.err.contains("requires linkerd"), "{refused:?}");

    // Stopped, it leaves everything as it is; started again it writes nothing, also while it is not
    // reached.
    let settled = lab.versions(&paths()).await;
    lab.order("stop unreached").await;
    assert_eq!(lab.versions(&paths()).await, settled);
    drop(tasks);
    lab.order("start unreached").await;
    within(SECONDS, "it says that it is not reached", async || {
        let ready = get(meshgate.probes, "/readyz?verbose");
        let refusing = lab.log_of("unreached").contains("stays armed");
        (refusing && ready.contains("not reached at https://")).then_some(())
    })
    .await;
    assert_eq!(lab.versions(&paths()).await, settled);
    lab.is_closed().await;
}

#[tokio::test]
async fn a_ca_that_does_not_verify_us_arms_nothing() {
    let lab = lab(&[], &[]).await;
    let certs = lab.folder_of("certs");
    let (ours, other) = (authority(), authority());
    write_pair(&certs, &issue(&ours));
    std::fs::write(certs.join("ca.crt"), other.cert_pem()).unwrap();
    let meshgate = Unreached::start(&lab, CONFIG, &certs, true).await;
    meshgate.says("certificate").await;
    // The right certificate comes, by the file that is followed.
    write_pair(&certs, &issue(&other));
    lab.is_closed().await;
    assert_eq!(meshgate.lab.remains().await.len(), paths().len());
}
