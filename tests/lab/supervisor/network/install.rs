//! Who stands in a lab with a network beside meshgate: `install injector`, `install plain`.

use std::time::Duration;

use anyhow::{Result, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use meshgate::certs::issue::{Authority, Request};

use crate::control_plane::ControlPlane;

const INJECTOR: &str = include_str!("injector.yaml");
const PLAIN: &str = include_str!("plain.yaml");

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

/// PEM in a YAML string: each line end is `\n`.
fn with_certificates(objects: &str, host: &str) -> Result<String> {
    #[expect(
        clippy::disallowed_methods,
        reason = "a program of its own, with the one clock"
    )]
    let now = Timestamp::now();
    let authority = Authority::new("meshgate lab webhooks", LIFETIME, now)?;
    let request = Request {
        name: host,
        dns_names: &[host.to_owned()],
        addresses: &[],
        lifetime: LIFETIME,
    };
    let issued = authority.issue(&request, now)?;
    let quoted = |pem: &str| pem.replace('\n', "\\n");
    Ok(objects
        .replace("\"CA\"", &format!("\"{}\"", quoted(&authority.cert_pem())))
        .replace("CERTIFICATE", &quoted(&issued.cert_pem))
        .replace("KEY", &quoted(&issued.key_pem))
        .replace("BUNDLE", &STANDARD.encode(authority.cert_pem())))
}
