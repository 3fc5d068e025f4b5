//! The writer of the registration, in the process that is registered: for development and tests.

use std::sync::Arc;

use kube::Client;

use crate::cli::parts::Parts;
use crate::cluster::Cluster;
use crate::controllers::certificates::{self, Source};
use crate::controllers::{self, Context, Form, Writer};
use crate::leader::{Claim, Reporting};
use crate::render::{self, Settings};

use super::certificates::Certificates;
use super::{ServeArgs, now};

/// Starts it, if `--webhook-url` says by which address.
pub(super) fn start(
    args: &ServeArgs,
    client: Client,
    parts: &Parts,
    (cluster, certificates): (&Arc<Cluster>, &Certificates),
) {
    let Some(url) = &args.registration.webhook_url else {
        return;
    };
    // The flags that would make it another exclude each other.
    let Certificates::Files(files) = certificates else {
        return;
    };
    let form = Form {
        settings: Settings {
            enforcement: args.registration.enforcement.into(),
            ..Settings::new(
                render::Client::Url(url.to_string()),
                &args.install.namespace,
            )
        },
        mirror: args.registration.mirror.form(),
        configuration: None,
        creates_namespace: true,
        certificates: certificates::Settings {
            source: Source::File(files.ca_path.clone()),
            clock: Arc::new(now),
        },
    };
    let injectors = Arc::clone(cluster.read().injectors());
    let reporting = Reporting {
        metrics: Arc::clone(&parts.metrics),
        latch: parts.latches.add("registration"),
    };
    let make = move |client| {
        Context::new(
            client,
            Arc::clone(&injectors),
            form.clone(),
            reporting.clone(),
        )
    };
    // No other process contends with one that registers its own address.
    let alone = Writer {
        client,
        claim: Claim::always(),
    };
    drop(controllers::start(alone, make, &parts.tasks, &parts.stop));
}
