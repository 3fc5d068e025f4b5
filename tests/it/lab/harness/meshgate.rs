//! The built meshgate against the lab's API server, registered there by URL.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::Command;

use super::guests::Guest;
use super::{Account, Lab, PATIENCE, User, within};
use crate::support::process::get;

/// A meshgate that was armed when it was started. One at a time: the registration is the cluster's.
/// It ends with its lab, or by `stop`, `kill` and the like.
pub(crate) struct Meshgate<'l> {
    lab: &'l Lab,
    name: String,
    /// The HTTPS endpoints.
    pub(crate) address: SocketAddr,
    /// Probes and metrics.
    pub(crate) probes: SocketAddr,
}

impl<'l> Meshgate<'l> {
    /// Starts one with this Configuration and waits until all that is to be armed is.
    pub(crate) async fn start(lab: &'l Lab, config: &str) -> Self {
        Self::with(lab, config, &[]).await
    }

    /// The same with more flags.
    pub(crate) async fn with(lab: &'l Lab, config: &str, flags: &[&str]) -> Self {
        let meshgate = Self::begin(lab, config, flags).await;
        meshgate.armed().await;
        meshgate
    }

    /// Starts one, and waits for nothing.
    pub(crate) async fn begin(lab: &'l Lab, config: &str, flags: &[&str]) -> Self {
        let kubeconfig = lab.kubeconfig_of(Account::Development).await;
        Self::begin_by(lab, config, &kubeconfig, flags).await
    }

    /// Starts one that reaches the API server by this kubeconfig.
    pub(crate) async fn begin_by(
        lab: &'l Lab,
        config: &str,
        kubeconfig: &Path,
        flags: &[&str],
    ) -> Self {
        let meshgate = Self::running(lab, lab.ports().await);
        let folder = lab.folder_of(&meshgate.name);
        let file = folder.join("config.yaml");
        fs::write(&file, config).unwrap();
        let mut args = vec!["serve".to_owned()];
        let own = [
            ("kubeconfig", kubeconfig.display().to_string()),
            ("config", file.display().to_string()),
            ("certs-dir", folder.join("certs").display().to_string()),
            ("webhook-url", format!("https://{}", meshgate.address)),
            ("listen", meshgate.address.to_string()),
            ("admin-listen", meshgate.probes.to_string()),
        ];
        args.extend(own.map(|(flag, value)| format!("--{flag}={value}")));
        args.extend(flags.iter().map(|&flag| flag.to_owned()));
        let guest = Guest {
            program: env!("CARGO_BIN_EXE_meshgate").into(),
            args,
            ..Guest::default()
        };
        lab.add(&meshgate.name, &guest).await;
        meshgate
    }

    /// The one that was started on these ports of the lab, HTTPS and probes.
    pub(crate) fn running(lab: &'l Lab, [https, probes]: [u16; 2]) -> Self {
        let local = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        Self {
            lab,
            name: format!("meshgate-{https}"),
            address: local(https),
            probes: local(probes),
        }
    }

    /// Waits until the registration is as it is to be, and armed, and the view complete.
    pub(crate) async fn armed(&self) {
        let what = format!("{} is armed", self.name);
        within(PATIENCE, &what, async || {
            let text = get(self.probes, "/readyz?verbose");
            (text.contains("readyz check passed") && all_are_armed(&text)).then_some(())
        })
        .await;
    }

    /// `stop`, `kill`, `start`, `restart`, `pause`, `resume`.
    pub(crate) async fn order(&self, verb: &str) {
        self.lab.order(&format!("{verb} {}", self.name)).await;
    }

    /// What it has written so far.
    pub(crate) fn log(&self) -> String {
        self.lab.log_of(&self.name)
    }

    /// The folder of its certificates and their CA.
    pub(crate) fn certs(&self) -> PathBuf {
        self.lab.folder_of(&self.name).join("certs")
    }

    /// The text of its metrics.
    pub(crate) fn metrics(&self) -> String {
        get(self.probes, "/metrics")
    }

    /// How many pods it was asked about so far, by gate and check.
    pub(crate) fn calls(&self) -> u64 {
        let metrics = self.metrics();
        let decisions = metrics.lines().filter(|line| {
            line.starts_with("meshgate_decisions_total{")
                && ["hook=\"gate\"", "hook=\"check\""]
                    .iter()
                    .any(|hook| line.contains(hook))
        });
        let count = decisions.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap());
        count.sum()
    }

    /// Ends it and takes away what it has registered.
    pub(crate) async fn uninstall(self) {
        self.order("stop").await;
        let output = Command::new(env!("CARGO_BIN_EXE_meshgate"))
            .args(["uninstall", "--yes"])
            .arg("--kubeconfig")
            .arg(self.lab.kubeconfig(User::Admin))
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let output = tokio::time::timeout(PATIENCE, output)
            .await
            .unwrap()
            .unwrap();
        let said = [output.stdout, output.stderr].concat();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&said)
        );
    }
}

/// `… armed: 3 of 3 entries …`; with a policy that enforces there is nothing to arm.
fn all_are_armed(readyz: &str) -> bool {
    let rest = readyz.split("armed: ").nth(1).unwrap_or_default();
    let mut words = rest.split_whitespace();
    let (armed, of, all) = (words.next(), words.next(), words.next());
    of == Some("of") && armed == all
}
