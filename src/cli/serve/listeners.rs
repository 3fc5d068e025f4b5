//! What serves the view: listeners, certificates, probes, metrics, the HTTPS server.

use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use meshgate_core::readiness::Readiness;
use tokio::time::Instant;

use crate::admission::{self, Admission};
use crate::certs::live::LivePair;
use crate::certs::throwaway::{self, Names};
use crate::cli::output::{Done, Exit};
use crate::cli::runtime::Runtime;
use crate::cluster::namespace_lookup::{Fetch, NamespaceLookup};
use crate::cluster::{Cluster, probe};
use crate::controllers::certificates::follower::Following;
use crate::controllers::certificates::secret::SecretRef;
use crate::lifecycle::wall_clock;
use crate::metrics::{self, Metrics};
use crate::server::admin::{self, Admin, Exposition, Health, Scrape};
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
    server: Server,
    admin: Admin,
    pair: LivePair,
    certificates: Certificates,
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
        let metrics = Arc::clone(&runtime.metrics);
        let lookup = NamespaceLookup::new(fetch, LOOKUP_DEADLINE);
        let admission = Admission::new(Arc::clone(cluster), lookup, Arc::clone(&metrics));
        let pair = match &self.certificates {
            Certificates::Files(files) => LivePair::new(files.pair.clone()),
            Certificates::Secret(_) => LivePair::default(),
        };
        let scrape = scrape(Arc::clone(cluster), metrics, pair.clone());
        let health = Health::new(runtime.checks.clone(), runtime.shutdown.clone());
        let admin = admin::start(self.admin_listener, health, scrape);
        let router = admission::router(Arc::new(admission));
        let check = runtime.checks.add("listener");
        Ok(Ready {
            admin: admin.context("cannot serve probes")?,
            server: Server::new(self.listener, router, pair.clone(), self.limits, check)?,
            pair,
            certificates: self.certificates,
        })
    }
}

impl Ready {
    pub(super) fn certificates(&self) -> &Certificates {
        &self.certificates
    }

    /// The address of the admission endpoints.
    pub(super) fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// The address of probes and metrics.
    pub(super) fn admin_address(&self) -> SocketAddr {
        self.admin.address()
    }

    /// Serves until a signal tells it to stop and the drain ends.
    pub(super) async fn run(self, runtime: Runtime, cluster: Arc<Cluster>) -> Done {
        let Runtime {
            shutdown,
            checks,
            tasks,
            metrics,
            stop,
        } = runtime;
        let following = Following {
            pair: self.pair,
            metrics,
            check: checks.add("certificate"),
        };
        let follow = self.certificates.follow(following, stop.clone());
        tasks.spawn("certificates", follow);
        tasks.spawn("probes", probe::run(cluster, stop));
        tasks.spawn("https", self.server.run(shutdown.clone()));
        let finished = tasks.finished().await;
        tracing::info!(cause = shutdown.cause(), "stopped");
        // Last, so that it answers probes while the rest drains.
        drop(self.admin);
        finished?;
        Ok(Exit::Fine)
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

fn scrape(cluster: Arc<Cluster>, metrics: Arc<Metrics>, pair: LivePair) -> Scrape {
    Arc::new(move || {
        let pair = pair.current();
        metrics.serving_cert_not_after(pair.map_or(0, |pair| pair.leaf().not_after.as_second()));
        let store = cluster.read();
        let states = store.states();
        metrics.injectors(states.iter().map(|state| {
            let is_usable = matches!(state.readiness, Readiness::Usable(_));
            (state.injector.profile.name.as_str(), is_usable)
        }));
        for own in cluster.freshness().ages(Instant::now().into_std()) {
            let kind = own.kind.plural();
            metrics.followed(kind, own.age, own.is_current);
            metrics.listed(kind, own.counts.lists, own.counts.unreadable);
        }
        Exposition {
            content_type: metrics::CONTENT_TYPE,
            body: metrics.encode(),
        }
    })
}
