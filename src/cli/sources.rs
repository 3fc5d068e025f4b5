//! Where commands read from: a configuration file, a directory of manifests, an API server.

use std::io::Read;
use std::path::Path;

use anyhow::{Context, anyhow};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use meshgate_core::injector::Injectors;

use crate::cluster::manifest::dir::ManifestDir;
use crate::cluster::store::Store;
use crate::kube_api::client;
use crate::server::args::Placement;

/// Reads `--config`: its name for messages, and its content.
pub(super) fn configuration(path: &Path) -> anyhow::Result<(String, Injectors)> {
    let name = path.display().to_string();
    let bytes = std::fs::read(path).with_context(|| format!("cannot read --config {name}"))?;
    let injectors = Injectors::from_yaml(&name, &bytes)?;
    Ok((name, injectors))
}

/// The same where the flag may be left out.
pub(super) fn configuration_if_given(
    config: Option<&Path>,
) -> anyhow::Result<Option<(String, Injectors)>> {
    config.map(configuration).transpose()
}

/// The injectors of a configuration, else all presets.
pub(super) fn or_presets(given: Option<(String, Injectors)>) -> anyhow::Result<Injectors> {
    match given {
        Some((_, injectors)) => Ok(injectors),
        None => Ok(Injectors::all_presets()?),
    }
}

/// Reads a file of `-f`, of which `-` is standard input: its name for messages, and its content.
pub(super) fn file(path: &Path) -> anyhow::Result<(String, Vec<u8>)> {
    if path == Path::new("-") {
        let mut bytes = Vec::new();
        let read = std::io::stdin().lock().read_to_end(&mut bytes);
        read.context("cannot read standard input")?;
        return Ok(("standard input".to_owned(), bytes));
    }
    let name = path.display().to_string();
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {name}"))?;
    Ok((name, bytes))
}

/// Reads a directory of manifests. The error has a line for each problem.
pub(super) fn open(directory: &mut ManifestDir) -> anyhow::Result<Store> {
    directory.open().map_err(|problems| {
        let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
        anyhow!("{}", lines.join("\n       "))
    })
}

/// The API server for a command that an administrator runs: of `--kubeconfig`, else the one that
/// `kubectl` would use, else the pod's own. Returns a client and the server's address.
pub(super) async fn connect(kubeconfig: Option<&Path>) -> anyhow::Result<(Client, String)> {
    let config = match kubeconfig {
        Some(path) => from_kubeconfig(path).await?,
        None => Config::infer().await.context(
            "found no cluster: neither --kubeconfig, nor what kubectl would use, nor a pod's own",
        )?,
    };
    Ok((client(&config)?, config.cluster_url.to_string()))
}

/// The API server for a command that runs as a pod: of `--kubeconfig`, else the pod's own.
pub(super) async fn config_of_pod(
    kubeconfig: Option<&Path>,
    no_pod: &'static str,
) -> anyhow::Result<Config> {
    match kubeconfig {
        Some(path) => from_kubeconfig(path).await,
        None => Config::incluster().context(no_pod),
    }
}

/// A kubeconfig means a developer's machine, as `--standalone` does.
pub(super) fn placement(kubeconfig: Option<&Path>) -> Placement {
    match kubeconfig {
        Some(_) => Placement::Standalone,
        None => Placement::Cluster,
    }
}

pub(super) fn client(config: &Config) -> anyhow::Result<Client> {
    client::connect(config).context("cannot set up a client for the API server")
}

async fn from_kubeconfig(path: &Path) -> anyhow::Result<Config> {
    let cannot = || format!("cannot use --kubeconfig {}", path.display());
    let kubeconfig = Kubeconfig::read_from(path).with_context(cannot)?;
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    config.with_context(cannot)
}
