//! What meshgate writes into the cluster: level-based loops, each with a pure plan and separate acts.
//!
//! Knows nothing of HTTP. A new controller is a file or folder here and a row in `ALL`.
//!
//! - `runner`: runs the controllers while this process leads.
//! - [`registration`]: the webhook configurations and policies by which the API server calls meshgate.
//! - `namespaces`: the labels of namespaces that mirror their annotations.
//! - [`certificates`]: the Secrets of the CA and the serving certificate, what callers have to trust, and
//!   how a replica follows its Secret.
//! - [`wake`]: the owners of refused pods, which try again once injectors are usable.

pub mod args;
pub mod certificates;
mod namespaces;
pub mod registration;
mod runner;
pub mod trust;
pub mod wake;
mod write_limiter;

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use kube::Client;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::leader::{Fenced, Reporting};
use crate::lifecycle::HealthCheck;
use crate::metrics::Metrics;
use meshgate_core::injector::Injectors;
use meshgate_core::render::{MirrorForm, Settings};

use self::trust::Trust;

pub use self::runner::{Writer, start};

/// What the controllers share in one term. By the channels they wait for each other.
pub struct Context {
    client: Client,
    injectors: Arc<Injectors>,
    form: Form,
    metrics: Arc<Metrics>,
    check: HealthCheck,
    /// By what callers are to verify meshgate's certificate; `None` until it is known.
    trust: watch::Sender<Option<Trust>>,
    /// The mirror is as this configuration wants it.
    mirrored: watch::Sender<bool>,
    /// Existing namespaces have the labels that this configuration selects by.
    labelled: watch::Sender<bool>,
    /// Entries of this configuration are in force, so no other entry selects by labels that it does
    /// not want. Never becomes false again: a run has one configuration.
    in_force: watch::Sender<bool>,
    /// Namespaces that lack a label.
    unlabelled: watch::Sender<usize>,
}

/// The form of the registration.
#[derive(Clone)]
pub struct Form {
    /// How the API server calls meshgate, and where meshgate is installed.
    pub settings: Settings,
    /// How namespaces are labelled; by default what the cluster serves decides.
    pub mirror: Option<MirrorForm>,
    /// The label `meshgate.io/configuration` of serving replicas that have the configuration to
    /// register; without it replicas are not looked at.
    pub configuration: Option<String>,
    /// Whether to create meshgate's namespace if it is missing: for development, where nothing else
    /// needs it.
    pub creates_namespace: bool,
    pub certificates: certificates::Settings,
}

impl Context {
    /// The health check tells the progress and always passes: a server that the API server does not call yet
    /// can answer.
    pub fn new(
        client: Fenced,
        injectors: Arc<Injectors>,
        form: Form,
        Reporting { metrics, check }: Reporting,
    ) -> Self {
        check.pass_with("not written yet");
        Self {
            client: client.client(),
            injectors,
            form,
            metrics,
            check,
            trust: watch::Sender::new(None),
            mirrored: watch::Sender::new(false),
            labelled: watch::Sender::new(false),
            in_force: watch::Sender::new(false),
            unlabelled: watch::Sender::new(0),
        }
    }

    /// Another process leads from now on: what this one reported of the cluster is out of date.
    fn is_over(&self) {
        self.check.pass_with(KEPT_BY_LEADER);
        self.metrics.writes_no_more();
    }

    pub fn trust(&self) -> watch::Receiver<Option<Trust>> {
        self.trust.subscribe()
    }
}

/// The state of the registration in a process that does not lead.
pub const KEPT_BY_LEADER: &str = "kept by the leader";

/// Runs until the token is cancelled.
type Run = fn(Arc<Context>, CancellationToken) -> BoxFuture<'static, ()>;

/// All controllers, by name.
const ALL: [(&str, Run); 4] = [
    ("certificates", |context, stop| {
        certificates::run(context, stop).boxed()
    }),
    ("namespaces", |context, stop| {
        namespaces::run(context, stop).boxed()
    }),
    ("registration", |context, stop| {
        registration::run(context, stop).boxed()
    }),
    ("wake", |context, stop| wake::run(context, stop).boxed()),
];
