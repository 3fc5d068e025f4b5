//! Replicas that follow the Secret, and the way from the API server to them.

use std::fs;
use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::{HOME, TLS};
use crate::lab::harness::{Account, Guest, Lab, within};
use crate::lab::registration::{CONFIG, SECONDS};
use crate::support::client::shown;
use crate::support::process::get;

/// `meshgate serve --tls-secret` as a process of the lab.
pub(super) struct Replica<'l> {
    lab: &'l Lab,
    pub(super) name: String,
    pub(super) address: SocketAddr,
    pub(super) probes: SocketAddr,
}

impl<'l> Replica<'l> {
    pub(super) async fn start(lab: &'l Lab) -> Self {
        let [https, probes] = lab.ports().await;
        let local = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let name = format!("replica-{https}");
        let config = lab.folder_of(&name).join("config.yaml");
        fs::write(&config, CONFIG).unwrap();
        // With the rights of the pods that answer, and no others.
        let kubeconfig = lab.kubeconfig_of(Account::Serve).await;
        let args = [
            "serve".to_owned(),
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--config={}", config.display()),
            format!("--namespace={HOME}"),
            format!("--tls-secret={TLS}"),
            format!("--listen={}", local(https)),
            format!("--admin-listen={}", local(probes)),
            // Connections end all the time: each new one is a handshake.
            "--connection-age=300ms".to_owned(),
        ];
        let guest = Guest {
            program: env!("CARGO_BIN_EXE_meshgate").into(),
            args: args.to_vec(),
            ..Guest::default()
        };
        lab.add(&name, &guest).await;
        let own = Self {
            lab,
            name,
            address: local(https),
            probes: local(probes),
        };
        within(SECONDS, "the replica answers probes", async || {
            TcpStream::connect(own.probes).await.ok()
        })
        .await;
        own
    }

    pub(super) fn readiness(&self) -> String {
        get(self.probes, "/readyz?verbose")
    }

    pub(super) async fn is_ready(&self) {
        within(SECONDS, "the replica is ready", async || {
            self.readiness()
                .contains("readyz check passed")
                .then_some(())
        })
        .await;
    }

    /// The certificate that a new connection is shown; nothing if it is refused.
    pub(super) async fn shows(&self) -> Option<Vec<u8>> {
        shown(self.address).await.ok()
    }

    pub(super) fn log(&self) -> String {
        self.lab.log_of(&self.name)
    }

    pub(super) fn metric(&self, name: &str) -> i64 {
        let text = get(self.probes, "/metrics");
        let value = text.lines().find_map(|line| line.strip_prefix(name));
        value.unwrap().trim().parse().unwrap()
    }
}

/// A port behind which connections go to all of them in turn, as behind a Service.
pub(super) async fn balanced(replicas: &[Replica<'_>]) -> (u16, JoinSet<()>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let targets: Vec<SocketAddr> = replicas.iter().map(|replica| replica.address).collect();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        for target in targets.iter().cycle() {
            let (mut from, _) = listener.accept().await.unwrap();
            let target = *target;
            connections.spawn(async move {
                if let Ok(mut to) = TcpStream::connect(target).await {
                    tokio::io::copy_bidirectional(&mut from, &mut to).await.ok();
                }
            });
        }
    });
    (port, tasks)
}
