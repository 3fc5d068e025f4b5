//! What meshgate writes into the cluster: level-based loops, each with a pure plan and acts apart.
//!
//! Knows nothing of HTTP. A new controller is a file or folder here and a row in `ALL`.
//!
//! - `runner`: runs the controllers, while it is this one.
//! - [`registration`]: the objects by which the API server asks us, written, armed and kept.
//! - [`namespaces`]: the labels of namespaces that mirror their annotations.
//! - [`certificates`]: the Secrets of CA and serving certificate, and what callers have to trust.
//! - [`glass`]: breaks the glass and closes it, for `break-glass`.
//! - [`removal`]: takes all of it away again, for `uninstall`.

pub mod args;
pub mod certificates;
pub mod glass;
pub mod namespaces;
mod pace;
pub mod registration;
pub mod removal;
mod runner;
pub mod trust;

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use kube::Client;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::injector::Injectors;
use crate::leader::Fenced;
use crate::lifecycle::Latch;
use crate::metrics::Metrics;
use crate::render::{MirrorForm, Settings};

use self::trust::Trust;

pub use self::runner::start;

/// What the controllers share.
pub struct Context {
    client: Client,
    injectors: Arc<Injectors>,
    form: Form,
    metrics: Arc<Metrics>,
    latch: Latch,
    /// By what callers are to verify us; `None` until it is known.
    trust: watch::Sender<Option<Trust>>,
    /// The mirror is as this configuration wants it.
    mirrored: watch::Sender<bool>,
    /// Existing namespaces have the labels that this configuration selects by.
    labelled: watch::Sender<bool>,
    /// Entries of this configuration are in force, so that nothing else selects by labels that it
    /// does not want. Never taken back: the configuration of a run is one.
    in_force: watch::Sender<bool>,
    /// How many namespaces lack a label that they should have.
    unlabelled: watch::Sender<usize>,
}

/// The form of the registration.
#[derive(Debug, Clone)]
pub struct Form {
    /// How the API server calls us, and where we live.
    pub settings: Settings,
    /// How namespaces are labelled; found out from what the cluster serves if nobody says it.
    pub mirror: Option<MirrorForm>,
    /// What the label `meshgate.io/configuration` of serving replicas says when they have the
    /// configuration that is registered; replicas are not looked at if nobody says it.
    pub configuration: Option<String>,
    /// Whether our namespace is created where it is missing: for development, where nothing else
    /// needs it.
    pub creates_home: bool,
    /// Where certificates come from, and so what callers are to trust.
    pub certificates: certificates::Settings,
}

impl Context {
    /// Writes what `injectors` need in this form. The latch says how far that is, and is always
    /// open: a server that nobody calls yet is no less able to answer.
    pub fn new(
        client: Fenced,
        injectors: Arc<Injectors>,
        form: Form,
        (metrics, latch): (Arc<Metrics>, Latch),
    ) -> Self {
        latch.open_with("not written yet");
        Self {
            client: client.client(),
            injectors,
            form,
            metrics,
            latch,
            trust: watch::Sender::new(None),
            mirrored: watch::Sender::new(false),
            labelled: watch::Sender::new(false),
            in_force: watch::Sender::new(false),
            unlabelled: watch::Sender::new(0),
        }
    }

    /// Somebody else acts from now on: what was said of the cluster is theirs to say.
    fn is_over(&self) {
        self.latch.open_with("kept by whoever leads");
        self.metrics.writes_no_more();
    }

    /// By what callers are to verify us; `None` until it is known.
    pub fn trust(&self) -> watch::Receiver<Option<Trust>> {
        self.trust.subscribe()
    }
}

/// What runs until it is told to stop.
type Run = fn(Arc<Context>, CancellationToken) -> BoxFuture<'static, ()>;

/// A controller: its name, and what it does.
type Controller = (&'static str, Run);

/// All controllers.
const ALL: [Controller; 3] = [
    ("certificates", |context, stop| {
        certificates::run(context, stop).boxed()
    }),
    ("namespaces", |context, stop| {
        namespaces::run(context, stop).boxed()
    }),
    ("registration", |context, stop| {
        registration::run(context, stop).boxed()
    }),
];
