//! Where commands read from: a configuration file, a directory of manifests, an API server.

use std::path::Path;

use anyhow::{Context, anyhow};
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};
use meshgate_core::injector::Injectors;

use crate::cluster::manifest::dir::ManifestDir;
use crate::cluster::store::Store;

/// Reads `--config`: its name for messages, and its content.
pub(super) fn configuration(path: &Path) -> anyhow::Result<(String, Injectors)> {
    let name = path.display().to_string();
    let bytes = std::fs::read(path).with_context(|| format!("cannot read --config {name}"))?;
    let injectors = Injectors::from_yaml(&name, &bytes)?;
    Ok((name, injectors))
}

/// The same where the flag is optional.
pub(super) fn configuration_of(path: Option<&Path>) -> anyhow::Result<Option<(String, Injectors)>> {
    path.map(configuration).transpose()
}

/// The injectors of a configuration, else all presets.
pub(super) fn or_presets(given: Option<(String, Injectors)>) -> anyhow::Result<Injectors> {
    match given {
        Some((_, injectors)) => Ok(injectors),
        None => Ok(Injectors::all_presets()?),
    }
}

/// Reads a directory of manifests. The error has a line for each problem.
pub(super) fn open(directory: &mut ManifestDir) -> anyhow::Result<Store> {
    directory.open().map_err(|problems| {
        let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
        anyhow!("{}", lines.join("\n       "))
    })
}

/// The API server for a command that an administrator runs: of `--kubeconfig`, else the one that
/// `kubectl` would use, else the pod's own.
pub(super) async fn cluster_config(kubeconfig: Option<&Path>) -> anyhow::Result<Config> {
    match kubeconfig {
        Some(path) => from_kubeconfig(path).await,
        None => Config::infer().await.context(
            "found no cluster: neither --kubeconfig, nor what kubectl would use, nor a pod's own",
        ),
    }
}

/// The API server that `--kubeconfig` names.
pub(super) async fn from_kubeconfig(path: &Path) -> anyhow::Result<Config> {
    let cannot = || format!("cannot use --kubeconfig {}", path.display());
    let kubeconfig = Kubeconfig::read_from(path).with_context(cannot)?;
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    config.with_context(cannot)
}
