//! The stand-in for Linkerd's injector of `tests/lab/injector`, installed as it is in
//! `make lab-shell`: it injects whatever carries meshgate's mark, and counts as running while its
//! Deployment has replicas, whose EndpointSlice the lab's own controllers keep.

use std::fs;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use kube::Error;
use serde_json::{Value, json};

use super::supervisor::example;
use super::{Guest, Lab, PATIENCE, within};

const OBJECTS: &str = include_str!("../../../lab/injector/linkerd.yaml");

/// Its Deployment.
const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/linkerd/deployments/linkerd-proxy-injector";

/// The process; `stop`, `kill` and so on are orders for it.
pub(crate) const LINKERD: &str = "linkerd";

impl Lab {
    /// Starts it and installs it, with no replica.
    pub(crate) async fn install_linkerd(&self) {
        let [port] = self.ports().await;
        let certs = self.folder_of(LINKERD).join("certs");
        let guest = Guest {
            program: example("injector"),
            args: vec![format!("127.0.0.1:{port}"), certs.display().to_string()],
            ..Guest::default()
        };
        self.add(LINKERD, &guest).await;
        let ca = async || fs::read(certs.join("ca.crt")).ok();
        let ca = within(PATIENCE, "the injector has certificates", ca).await;
        let objects = OBJECTS.replace("PORT", &port.to_string());
        let objects = objects.replace("BUNDLE", &BASE64_STANDARD.encode(ca));
        self.apply_whole(&objects).await;
    }

    /// How many replicas it has.
    ///
    /// # Errors
    /// The API server does not answer, or not with yes.
    pub(crate) async fn scale_linkerd(&self, replicas: u32) -> Result<Value, Error> {
        let scale = json!({"spec": {"replicas": replicas}});
        self.merge(DEPLOYMENT, &scale).await
    }
}
