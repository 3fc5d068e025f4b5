//! The writer of the registration, in the process that is registered: for development and tests.

use std::sync::Arc;

use kube::Client;

use crate::cluster::Cluster;
use crate::controllers::certificates::{self, Source};
use crate::controllers::{self, Context, Form};
use crate::render::{self, Settings};

use super::certificates::Certificates;
use super::parts::Parts;
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
            ..Settings::new(render::Client::Url(url.to_string()), &args.namespace)
        },
        mirror: args.registration.mirror.form(),
        creates_home: true,
        certificates: certificates::Settings {
            source: Source::File(files.ca_path.clone()),
            clock: Arc::new(now),
        },
    };
    let injectors = Arc::clone(cluster.read().injectors());
    let latch = parts.latches.add("registration");
    let noted = (Arc::clone(&parts.metrics), latch);
    let context = Context::new(client, injectors, form, noted);
    controllers::start(context, &parts.tasks, &parts.stop);
}
