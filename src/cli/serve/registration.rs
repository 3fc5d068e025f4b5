//! The writer of the registration, in the process that is registered: for development and tests.

use std::fs;
use std::sync::Arc;

use anyhow::Context as _;
use kube::Client;

use crate::certs::throwaway::Prepared;
use crate::cluster::Cluster;
use crate::controllers::lease::Claim;
use crate::controllers::{self, Context, Form};
use crate::render::{self, Settings};

use super::ServeArgs;
use crate::cli::parts::Parts;

/// Starts it, if `--webhook-url` says by which address.
pub(super) fn start(
    args: &ServeArgs,
    client: Client,
    parts: &Parts,
    (cluster, certificates): (&Arc<Cluster>, &Prepared),
) -> anyhow::Result<()> {
    let Some(url) = &args.registration.webhook_url else {
        return Ok(());
    };
    let ca_bundle = match &certificates.ca_path {
        Some(path) => {
            let cannot = || {
                format!(
                    "cannot read the CA of the serving certificate, {}",
                    path.display()
                )
            };
            Some(fs::read_to_string(path).with_context(cannot)?)
        }
        None => None,
    };
    let form = Form {
        settings: Settings {
            ca_bundle,
            enforcement: args.registration.enforcement.into(),
            ..Settings::new(render::Client::Url(url.to_string()), &args.namespace)
        },
        mirror: args.registration.mirror.form(),
        configuration: None,
        creates_home: true,
    };
    let injectors = Arc::clone(cluster.read().injectors());
    let latch = parts.latches.add("registration");
    let noted = (Arc::clone(&parts.metrics), latch);
    let make =
        move |client| Context::new(client, Arc::clone(&injectors), form.clone(), noted.clone());
    // Nobody contends with a process that registers its own address.
    let alone = (client, Claim::always());
    drop(controllers::start(alone, make, &parts.tasks, &parts.stop));
    Ok(())
}
