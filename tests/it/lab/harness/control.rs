//! `meshgate control` against the lab's API server: as many as a test wants, which contend for the
//! Lease.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use serde_json::Value;

use super::guests::Guest;
use super::{Account, Lab};
use crate::support::process::get;

/// meshgate's own namespace.
pub(crate) const HOME: &str = "meshgate-system";

/// A process that writes the registration while it leads. It ends with its lab, or by `stop`, `kill`
/// and the like.
pub(crate) struct Control<'l> {
    lab: &'l Lab,
    /// Its name for orders.
    pub(crate) name: String,
    /// Probes and metrics.
    pub(crate) probes: SocketAddr,
}

impl<'l> Control<'l> {
    /// Starts one with this Configuration and more flags, with the rights that it has in a cluster;
    /// waits for nothing.
    pub(crate) async fn start(lab: &'l Lab, name: &str, config: &str, flags: &[&str]) -> Self {
        let kubeconfig = lab.kubeconfig_of(Account::Control).await;
        Self::start_as(lab, (name, &kubeconfig), config, flags).await
    }

    /// The same as the user of this kubeconfig.
    pub(crate) async fn start_as(
        lab: &'l Lab,
        (name, kubeconfig): (&str, &Path),
        config: &str,
        flags: &[&str],
    ) -> Self {
        let [port] = lab.ports().await;
        let probes = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let file = lab.folder_of(name).join("config.yaml");
        fs::write(&file, config).unwrap();
        let kubeconfig = kubeconfig.display().to_string();
        let own = [
            ("kubeconfig", kubeconfig),
            ("config", file.display().to_string()),
            ("admin-listen", probes.to_string()),
        ];
        let own = own.map(|(flag, value)| format!("--{flag}={value}"));
        let more = flags.iter().map(|&flag| flag.to_owned());
        let guest = Guest {
            program: env!("CARGO_BIN_EXE_meshgate").into(),
            args: ["control".to_owned()]
                .into_iter()
                .chain(own)
                .chain(more)
                .collect(),
            ..Guest::default()
        };
        lab.add(name, &guest).await;
        let name = name.to_owned();
        Self { lab, name, probes }
    }

    /// Whether it leads.
    pub(crate) fn leads(&self) -> bool {
        let metrics = self.metrics();
        metrics.lines().any(|line| line == "meshgate_leader 1")
    }

    pub(crate) fn metrics(&self) -> String {
        get(self.probes, "/metrics")
    }

    /// What `/readyz?verbose` says.
    pub(crate) fn ready(&self) -> String {
        get(self.probes, "/readyz?verbose")
    }

    /// `stop`, `kill`, `start`, `restart`, `pause`, `resume`.
    pub(crate) async fn order(&self, verb: &str) {
        self.lab.order(&format!("{verb} {}", self.name)).await;
    }

    /// What it has written so far.
    pub(crate) fn log(&self) -> String {
        self.lab.log_of(&self.name)
    }
}

impl Lab {
    /// The Lease that they contend for.
    pub(crate) async fn lease(&self) -> Option<Value> {
        let path =
            format!("/apis/coordination.k8s.io/v1/namespaces/{HOME}/leases/meshgate-control");
        self.get(&path).await
    }

    /// Who holds it; empty if no replica does.
    pub(crate) async fn leader(&self) -> String {
        let lease = self.lease().await.unwrap_or_default();
        let holder = lease["spec"]["holderIdentity"].as_str();
        holder.unwrap_or_default().to_owned()
    }
}
