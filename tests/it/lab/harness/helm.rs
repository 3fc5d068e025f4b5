//! `helm`, as people use it, of the version that `tests/lab/helm` names: what it renders is compared,
//! so another one that happens to be in PATH will not do. `make compat` names Helm 3.

use std::path::Path;
use std::process::Stdio;

use tokio::process::Command;
use tokio::time::timeout;

use super::kubectl::{Outcome, User};
use super::supervisor::built;
use super::{Lab, PATIENCE};
use crate::manifests;

/// The chart's folder, for arguments.
pub(crate) fn chart() -> String {
    manifests::path("chart").display().to_string()
}

/// The image is on no registry that a lab could reach.
pub(crate) const NO_REGISTRY: &str = "--set=image.allowNoRegistry=true";

/// `helm template` of the chart into `meshgate-system`, without a cluster.
pub(crate) async fn template(arguments: &[&str]) -> Outcome {
    let chart = chart();
    let own = [
        "template",
        "meshgate",
        &chart,
        "--namespace=meshgate-system",
        NO_REGISTRY,
    ];
    let folder = tempfile::tempdir().unwrap();
    helm(folder.path(), None, &[&own[..], arguments].concat()).await
}

/// `helm lint` and whatever else needs no cluster.
pub(crate) async fn offline(arguments: &[&str]) -> Outcome {
    let folder = tempfile::tempdir().unwrap();
    helm(folder.path(), None, arguments).await
}

impl Lab {
    /// Runs `helm` as the admin.
    pub(crate) async fn helm(&self, arguments: &[&str]) -> Outcome {
        let folder = self.folder_of("helm");
        helm(&folder, Some(self.kubeconfig(User::Admin)), arguments).await
    }
}

async fn helm(folder: &Path, kubeconfig: Option<&Path>, arguments: &[&str]) -> Outcome {
    let program = std::env::var_os("MESHGATE_LAB_HELM").unwrap_or_else(|| "helm".into());
    let mut command = Command::new(built().join("bin").join(program));
    command
        .args(arguments)
        // The home folder is not ours.
        .env("HELM_CACHE_HOME", folder.join("cache"))
        .env("HELM_CONFIG_HOME", folder.join("config"))
        .env("HELM_DATA_HOME", folder.join("data"))
        .env(
            "KUBECONFIG",
            kubeconfig.unwrap_or_else(|| Path::new("/dev/null")),
        )
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let output = timeout(2 * PATIENCE, command.output()).await;
    let output = output.unwrap_or_else(|_| panic!("helm {arguments:?} did not end"));
    let output = output.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Outcome {
        code: output.status.code(),
        out: text(output.stdout),
        err: text(output.stderr),
    }
}
