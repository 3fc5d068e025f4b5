//! The controllers in the process that they register: for development and tests.

use std::sync::Arc;

use kube::Client;
use meshgate_core::injector::Injectors;
use meshgate_core::render::{self, Settings};

use crate::cli::runtime::Runtime;
use crate::controllers::certificates::{self, Source};
use crate::controllers::{self, Context, Form, Writer};
use crate::leader::Claim;
use crate::lifecycle::wall_clock;

use super::ServeArgs;
use super::certificates::Certificates;

/// The form of the registration, if `--webhook-url` asks for one.
pub(super) fn form(args: &ServeArgs, certificates: &Certificates) -> Option<Form> {
    let url = args.registration.webhook_url.as_ref()?;
    // clap rejects --webhook-url with --tls-secret.
    let Certificates::Files(files) = certificates else {
        return None;
    };
    let client = render::Client::Url(url.to_string());
    Some(Form {
        settings: Settings {
            enforcement: args.registration.enforcement.into(),
            ..Settings::new(client, &args.install.namespace)
        },
        mirror: args.registration.mirror.form(),
        configuration: None,
        creates_namespace: true,
        certificates: certificates::Settings {
            source: Source::File(files.ca_path.clone()),
            clock: Arc::new(wall_clock),
        },
    })
}

/// Starts the controllers, without leader election: no other process registers this address.
pub(super) fn start(form: Form, client: Client, injectors: Arc<Injectors>, runtime: &Runtime) {
    let reporting = runtime.reporting("registration");
    let make = move |client| {
        let injectors = Arc::clone(&injectors);
        Context::new(client, injectors, form.clone(), reporting.clone())
    };
    let alone = Writer {
        client,
        claim: Claim::always(),
    };
    let (tasks, stop) = (&runtime.tasks, &runtime.stop);
    drop(controllers::start(alone, make, tasks, stop));
}
