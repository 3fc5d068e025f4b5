//! Who stands in a lab with a network: meshgate by its chart, and beside it `install injector`,
//! `install plain`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use meshgate::certs::issue::Authority;
use serde_json::Value;

use super::run;
use crate::control_plane::ControlPlane;
use crate::stop::Stop;

const INJECTOR: &str = include_str!("injector.yaml");
const PLAIN: &str = include_str!("plain.yaml");

/// A meshgate that is not armed after this time will not be.
const PATIENCE: Duration = Duration::from_secs(60);

const LIFETIME: Duration = Duration::from_secs(7 * 86_400);

/// Applies it, and waits until its pods are there.
///
/// # Errors
///
/// There is none of that name, or it does not come.
pub(crate) fn install(plane: &ControlPlane, what: &str) -> Result<()> {
    let (objects, namespace, name) = match what {
        "injector" => (INJECTOR, "linkerd", "linkerd-proxy-injector"),
        "plain" => (PLAIN, "plain", "plain"),
        _ => bail!("there is no {what:?}; there are: injector, plain"),
    };
    plane.apply(&with_certificates(
        objects,
        &format!("{name}.{namespace}.svc"),
    )?)?;
    let deployment = format!("deployment/{name}");
    plane.kubectl(&[
        "-n",
        namespace,
        "rollout",
        "status",
        &deployment,
        "--timeout=60s",
    ])
}

/// For people: an injector that is scaled to zero and injects what carries meshgate's mark, wherever that
/// is, so that no namespace needs a label of ours.
pub(crate) fn install_for_people(plane: &ControlPlane) -> Result<()> {
    let objects = with_certificates(INJECTOR, "linkerd-proxy-injector.linkerd.svc")?
        .replace("replicas: 2", "replicas: 0")
        .replace("--inject=all", "--inject=marked")
        .replace(
            "- {key: lab/meshed, operator: Exists}",
            "- {key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system]}",
        );
    plane.apply(&objects)
}

/// `helm install` of the chart, until all entries are armed.
///
/// # Errors
///
/// Helm refuses, or it is not armed in time.
pub(crate) fn install_meshgate(plane: &ControlPlane, stop: &Stop) -> Result<()> {
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests/chart");
    let mut helm = Command::new(plane.lab.join("bin/helm"));
    helm.args(["install", "meshgate"])
        .arg(chart)
        .args(["--namespace=meshgate-system", "--create-namespace"])
        .arg("--set=injectors={linkerd},image.allowNoRegistry=true")
        .env("KUBECONFIG", plane.kubeconfig("admin"))
        .envs(helm_homes(plane));
    run(&mut helm)?;
    let begin = Instant::now();
    while !is_armed(plane)? {
        if begin.elapsed() > PATIENCE {
            bail!("meshgate was not armed within {PATIENCE:?}");
        }
        stop.pause()?;
    }
    Ok(())
}

/// Where Helm keeps what it would keep in the home folder, which is not ours.
pub(crate) fn helm_homes(plane: &ControlPlane) -> [(&'static str, PathBuf); 3] {
    let folder = plane.folder().join("helm");
    [
        ("HELM_CACHE_HOME", folder.join("cache")),
        ("HELM_CONFIG_HOME", folder.join("config")),
        ("HELM_DATA_HOME", folder.join("data")),
    ]
}

fn is_armed(plane: &ControlPlane) -> Result<bool> {
    let output = Command::new(plane.lab.join("bin/kubectl"))
        .arg("--kubeconfig")
        .arg(plane.kubeconfig("admin"))
        .args([
            "get",
            "mutatingwebhookconfigurations,validatingwebhookconfigurations",
        ])
        .args([
            "--selector=app.kubernetes.io/managed-by=meshgate",
            "--output=json",
        ])
        .output()?;
    let list: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let configurations = list["items"].as_array().into_iter().flatten();
    let policies: Vec<&Value> = configurations
        .flat_map(|configuration| configuration["webhooks"].as_array().into_iter().flatten())
        .map(|entry| &entry["failurePolicy"])
        .collect();
    // Gate and check of each of Linkerd's ways to ask for it, and the one by which it is reached.
    Ok(policies.len() >= 4 && policies.iter().all(|policy| *policy == "Fail"))
}

/// PEM in a YAML string: each line end is `\n`. No PEM has a `$`: what was filled in is not taken for a
/// place.
fn with_certificates(objects: &str, host: &str) -> Result<String> {
    #[expect(
        clippy::disallowed_methods,
        reason = "a program of its own, with the one clock"
    )]
    let now = Timestamp::now();
    let authority = Authority::new("meshgate lab webhooks", LIFETIME, now)?;
    let issued = authority.issue(&[host.to_owned()], LIFETIME, now)?;
    let quoted = |pem: &str| pem.replace('\n', "\\n");
    Ok(objects
        .replace("${CA}", &quoted(&authority.cert_pem()))
        .replace("${CERTIFICATE}", &quoted(&issued.cert_pem))
        .replace("${KEY}", &quoted(&issued.key_pem))
        .replace("${BUNDLE}", &STANDARD.encode(authority.cert_pem())))
}
