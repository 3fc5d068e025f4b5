//! The table of components: program, flags, and where each tells that it is up.

use std::path::Path;

use anyhow::{Result, bail};

use super::credentials::Credentials;
use super::ports;
use crate::network::MACHINE;

/// One program of the control plane.
#[derive(Clone, Debug)]
pub(crate) struct Component {
    pub(crate) name: &'static str,
    pub(crate) args: Vec<String>,
    pub(crate) probe: Probe,
}

/// A component is up when this answers 200 and says that.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probe {
    pub(crate) port: u16,
    pub(crate) path: &'static str,
    pub(crate) says: &'static str,
    pub(crate) scheme: Scheme,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    Http,
    Https,
}

/// In the order in which they start; those after the API server need only that.
pub(crate) const NAMES: [&str; 5] = [ETCD, API_SERVER, "kube-controller-manager", SCHEDULER, KWOK];

pub(crate) const ETCD: &str = "etcd";
pub(crate) const API_SERVER: &str = "kube-apiserver";
pub(crate) const SCHEDULER: &str = "kube-scheduler";
pub(crate) const KWOK: &str = "kwok";

/// A port for each component, and one more for etcd's peers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ports {
    pub(crate) etcd: u16,
    pub(crate) etcd_peer: u16,
    pub(crate) api_server: u16,
    pub(crate) controller_manager: u16,
    pub(crate) scheduler: u16,
    pub(crate) kwok: u16,
}

impl Ports {
    const COUNT: usize = 6;

    /// Free ones, but for the API server's if that is `given`.
    pub(crate) fn new(given: Option<u16>) -> Result<Self> {
        let taken: Vec<u16> = given.into_iter().collect();
        let found = ports::find(ports::COMPONENTS, Self::COUNT, &taken)?;
        let [
            etcd,
            etcd_peer,
            api_server,
            controller_manager,
            scheduler,
            kwok,
        ] = found[..]
        else {
            bail!("there are no {} free ports", Self::COUNT)
        };
        Ok(Self {
            etcd,
            etcd_peer,
            api_server: given.unwrap_or(api_server),
            controller_manager,
            scheduler,
            kwok,
        })
    }

    /// All of them.
    pub(crate) fn all(self) -> [u16; 6] {
        [
            self.etcd,
            self.etcd_peer,
            self.api_server,
            self.controller_manager,
            self.scheduler,
            self.kwok,
        ]
    }
}

/// Everything that flags are made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    /// The folder of this run.
    pub(crate) folder: &'a Path,
    /// What `make lab` has built.
    pub(crate) lab: &'a Path,
    pub(crate) ports: Ports,
    pub(crate) credentials: &'a Credentials,
    /// Whether it has a service network, and Nodes on which programs run.
    pub(crate) network: bool,
    /// After so many seconds of silence a Node is lost.
    pub(crate) node_grace: Option<u64>,
}

/// All components, in the order of [`NAMES`].
pub(crate) fn all(place: &Place<'_>, api_server_flags: &[String]) -> Vec<Component> {
    let mut api_server = api_server(place);
    api_server.args.extend_from_slice(api_server_flags);
    vec![
        etcd(place),
        api_server,
        controller_manager(place),
        scheduler(place),
        kwok(place),
    ]
}

fn flag(name: &str, value: impl AsRef<Path>) -> String {
    format!("--{name}={}", value.as_ref().display())
}

fn etcd(place: &Place<'_>) -> Component {
    let client = format!("http://127.0.0.1:{}", place.ports.etcd);
    let peer = format!("http://127.0.0.1:{}", place.ports.etcd_peer);
    Component {
        name: ETCD,
        args: vec![
            flag("data-dir", place.folder.join("etcd")),
            flag("listen-client-urls", &client),
            flag("advertise-client-urls", &client),
            flag("listen-peer-urls", &peer),
            flag("initial-advertise-peer-urls", &peer),
            format!("--initial-cluster=default={peer}"),
            "--unsafe-no-fsync".into(),
            "--log-level=warn".into(),
        ],
        probe: Probe {
            port: place.ports.etcd,
            path: "/health",
            says: "true",
            scheme: Scheme::Http,
        },
    }
}

fn api_server(place: &Place<'_>) -> Component {
    let credentials = place.credentials;
    let etcd = format!("http://127.0.0.1:{}", place.ports.etcd);
    let mut component = Component {
        name: API_SERVER,
        args: vec![
            flag("etcd-servers", etcd),
            flag("cert-dir", place.folder.join("kube-apiserver")),
            flag("tls-cert-file", credentials.certificate()),
            flag("tls-private-key-file", credentials.key()),
            format!("--secure-port={}", place.ports.api_server),
            "--service-cluster-ip-range=10.96.0.0/16".into(),
            "--service-account-issuer=https://kubernetes.default.svc".into(),
            flag("service-account-key-file", credentials.account_public_key()),
            flag(
                "service-account-signing-key-file",
                credentials.account_key(),
            ),
            // Published in a ConfigMap that the others look for.
            flag("client-ca-file", credentials.ca_file()),
            flag("token-auth-file", credentials.tokens()),
            "--authorization-mode=Node,RBAC".into(),
            "--allow-privileged=true".into(),
            "--profiling=false".into(),
        ],
        probe: Probe {
            port: place.ports.api_server,
            path: "/readyz",
            says: "ok",
            scheme: Scheme::Https,
        },
    };
    if place.network {
        let address = format!("--advertise-address={MACHINE}");
        component
            .args
            .extend(["--bind-address=0.0.0.0".into(), address]);
    } else {
        // Endpoints on a loopback address are refused, so the server must not write its own.
        component.args.extend([
            "--bind-address=127.0.0.1".into(),
            "--advertise-address=127.0.0.1".into(),
            "--endpoint-reconciler-type=none".into(),
        ]);
    }
    component
}

fn controller_manager(place: &Place<'_>) -> Component {
    let credentials = place.credentials;
    let config = credentials.kubeconfig("system:kube-controller-manager");
    let mut component = Component {
        name: "kube-controller-manager",
        args: vec![
            flag("kubeconfig", &config),
            flag("authentication-kubeconfig", &config),
            flag("authorization-kubeconfig", &config),
            // Each controller then has its own name in a review's `userInfo`.
            "--use-service-account-credentials".into(),
            flag(
                "service-account-private-key-file",
                credentials.account_key(),
            ),
            flag("root-ca-file", credentials.ca_file()),
            "--leader-elect=false".into(),
            // Dozens of accounts and tokens at the start would wait for each other.
            "--kube-api-qps=500".into(),
            "--kube-api-burst=1000".into(),
            // The default is made if it is not there, outside our folder.
            flag("flex-volume-plugin-dir", place.folder.join("flex-volume")),
            "--bind-address=127.0.0.1".into(),
            format!("--secure-port={}", place.ports.controller_manager),
            flag("tls-cert-file", credentials.certificate()),
            flag("tls-private-key-file", credentials.key()),
        ],
        probe: Probe {
            port: place.ports.controller_manager,
            // Healthy long before there are controllers, each of which adds a line.
            path: "/healthz?verbose",
            says: "replicaset-controller ok",
            scheme: Scheme::Https,
        },
    };
    if let Some(grace) = place.node_grace {
        component.args.extend([
            format!("--node-monitor-grace-period={grace}s"),
            "--node-monitor-period=1s".into(),
        ]);
    }
    component
}

fn scheduler(place: &Place<'_>) -> Component {
    let credentials = place.credentials;
    let config = credentials.kubeconfig("system:kube-scheduler");
    Component {
        name: SCHEDULER,
        args: vec![
            flag("kubeconfig", &config),
            flag("authentication-kubeconfig", &config),
            flag("authorization-kubeconfig", &config),
            "--leader-elect=false".into(),
            "--bind-address=127.0.0.1".into(),
            format!("--secure-port={}", place.ports.scheduler),
            flag("tls-cert-file", credentials.certificate()),
            flag("tls-private-key-file", credentials.key()),
        ],
        probe: Probe {
            port: place.ports.scheduler,
            path: "/healthz",
            says: "ok",
            scheme: Scheme::Https,
        },
    }
}

fn kwok(place: &Place<'_>) -> Component {
    Component {
        name: KWOK,
        args: vec![
            flag("kubeconfig", place.credentials.kubeconfig("kwok")),
            flag("config", place.lab.join("kwok/stages.yaml")),
            // The others have a kubelet's stand-in, which is no fake.
            "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake".into(),
            "--node-lease-duration-seconds=40".into(),
            format!("--server-address=127.0.0.1:{}", place.ports.kwok),
        ],
        probe: Probe {
            port: place.ports.kwok,
            path: "/healthz",
            says: "ok",
            scheme: Scheme::Http,
        },
    }
}
