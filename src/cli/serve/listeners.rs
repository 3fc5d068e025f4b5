//! What serves the view: listeners, certificates, probes, metrics, the HTTPS server.

use std::net::{IpAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use meshgate_core::readiness::Readiness;
use tokio::time::Instant;

use crate::admission::{self, Admission};
use crate::certs::live::LivePair;
use crate::certs::throwaway::{self, Names};
use crate::cli::output::Done;
use crate::cli::runtime::Runtime;
use crate::cluster::namespace_lookup::{Fetch, NamespaceLookup};
use crate::cluster::{Cluster, probe};
use crate::controllers::certificates::follower::Following;
use crate::controllers::certificates::secret::SecretRef;
use crate::lifecycle::wall_clock;
use crate::metrics::Metrics;
use crate::server::admin::Admin;
use crate::server::args::{Limits, Placement};
use crate::server::{Server, bind, descriptors};

use super::ServeArgs;
use super::certificates::Certificates;

/// How long a live look-up of a namespace may take.
const LOOKUP_DEADLINE: Duration = Duration::from_secs(1);

/// Bound listeners, and the certificate to serve with. All that can go wrong with them goes wrong
/// before anything runs.
pub(super) struct Listeners {
    listener: TcpListener,
    admin_listener: TcpListener,
    limits: Limits,
    certificates: Certificates,
}

/// A complete server that waits to be run. It answers probes already.
pub(super) struct Ready {
    /// The admission endpoints.
    pub(super) server: Server,
    /// Probes and metrics.
    pub(super) admin: Admin,
    pair: LivePair,
    pub(super) certificates: Certificates,
}

impl Listeners {
    /// Binds the addresses and prepares the certificates; those of a Secret come later.
    pub(super) fn bind(
        args: &ServeArgs,
        placement: Placement,
        secret: Option<SecretRef>,
    ) -> anyhow::Result<Self> {
        let listen = args.server.listen(placement);
        let listener = bind::bind(listen, "--listen")?;
        let certificates = match secret {
            Some(secret) => Certificates::Secret(secret),
            None => {
                let names = names(args, listen.ip());
                let files = throwaway::prepare(&args.certs_dir, names, wall_clock())?;
                Certificates::Files(files)
            }
        };
        let admin_listen = args.server.admin_listen(placement);
        Ok(Self {
            listener,
            admin_listener: bind::bind(admin_listen, "--admin-listen")?,
            limits: within_descriptors(args.server.limits(placement)),
            certificates,
        })
    }

    /// Puts the server together, and begins to answer probes. `fetch` looks up a namespace that
    /// the view does not know yet.
    pub(super) fn wire(
        self,
        runtime: &Runtime,
        cluster: &Arc<Cluster>,
        fetch: Fetch,
    ) -> anyhow::Result<Ready> {
        let lookup = NamespaceLookup::new(fetch, LOOKUP_DEADLINE);
        let metrics = Arc::clone(&runtime.metrics);
        let admission = Admission::new(Arc::clone(cluster), lookup, metrics);
        let pair = match &self.certificates {
            Certificates::Files(files) => LivePair::new(files.pair.clone()),
            Certificates::Secret(_) => LivePair::default(),
        };
        let (viewed, served) = (Arc::clone(cluster), pair.clone());
        let set = move |metrics: &_| measure(metrics, &viewed, &served);
        let admin = runtime.answer_probes(self.admin_listener, set)?;
        let router = admission::router(Arc::new(admission));
        let check = runtime.checks.add("listener");
        Ok(Ready {
            admin,
            server: Server::new(self.listener, router, pair.clone(), self.limits, check)?,
            pair,
            certificates: self.certificates,
        })
    }
}

impl Ready {
    /// Serves until a signal tells it to stop and the drain ends.
    pub(super) async fn run(self, runtime: Runtime, cluster: Arc<Cluster>) -> Done {
        let following = Following {
            pair: self.pair,
            metrics: Arc::clone(&runtime.metrics),
            check: runtime.checks.add("certificate"),
        };
        let (tasks, stop) = (&runtime.tasks, &runtime.stop);
        let follow = self.certificates.follow(following, stop.clone());
        tasks.spawn("certificates", follow);
        tasks.spawn("probes", probe::run(cluster, stop.clone()));
        tasks.spawn("https", self.server.run(runtime.shutdown.clone()));
        runtime.finish(self.admin).await
    }
}

/// The names that the certificate must have.
fn names(args: &ServeArgs, listen: IpAddr) -> Names {
    let names = Names::from(listen);
    match &args.registration.webhook_url {
        Some(url) => names.and_host(url.host()),
        None => names,
    }
}

/// The limits, with no more connections than the process can have descriptors for.
fn within_descriptors(mut limits: Limits) -> Limits {
    let room = descriptors::make_room(limits.max_connections);
    if room < limits.max_connections {
        let wanted = limits.max_connections;
        tracing::warn!(
            wanted,
            room,
            "fewer connections than --max-connections: raise the limit of open files (ulimit -n)"
        );
        limits.max_connections = room;
    }
    limits
}

/// Sets the metrics of what is there when they are read.
fn measure(metrics: &Metrics, cluster: &Cluster, pair: &LivePair) {
    let end = pair
        .current()
        .map_or(0, |pair| pair.leaf().not_after.as_second());
    metrics.serving_cert_end.set(end);
    // The probes are answered by the same thread, and wait for nothing: what was last known stays.
    if let Some(store) = cluster.try_read() {
        let states = store.states();
        metrics.injectors(states.iter().map(|state| {
            let is_usable = matches!(state.readiness, Readiness::Usable(_));
            (state.injector.profile.name.as_str(), is_usable)
        }));
    }
    for own in cluster.freshness.ages(Instant::now().into_std()) {
        let kind = own.kind.plural();
        metrics.followed(kind, own.age, own.is_current);
        metrics.listed(kind, own.counts.lists, own.counts.unreadable);
    }
}

#[cfg(test)]
#[path = "listeners_tests.rs"]
mod tests;
