//! What the view is served with: listeners, certificates, probes, metrics, the HTTPS server.

use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;

use anyhow::Context;
use tokio::time::Instant;

use crate::admission::{self, Admission};
use crate::certs::live::LivePair;
use crate::certs::throwaway::{self, Names};
use crate::cli::Done;
use crate::cli::output::Exit;
use crate::cluster::live::Live;
use crate::cluster::{Cluster, probe};
use crate::controllers::certificates::follower::Following;
use crate::controllers::certificates::secret::SecretRef;
use crate::metrics::{self, Metrics, WatchState};
use crate::readiness::Readiness;
use crate::server::admin::{self, Admin, Exposition, Health, Scrape};
use crate::server::args::{Limits, Placement};
use crate::server::{Server, bind, descriptors};

use super::certificates::Certificates;
use super::{ServeArgs, certificates, now};
use crate::cli::parts::Parts;

/// Listeners that are bound, and the certificate to serve with: whatever can go wrong with them does
/// so before anything runs.
pub(super) struct Front {
    listener: TcpListener,
    admin_listener: TcpListener,
    limits: Limits,
    certificates: Certificates,
}

/// A server that is complete and waits to be run. Probes are answered already.
pub(super) struct Ready {
    server: Server,
    admin: Admin,
    pair: LivePair,
    certificates: Certificates,
}

/// Where the server can be reached.
#[derive(Debug, Clone, Copy)]
pub(super) struct Addresses {
    pub(super) admission: SocketAddr,
    pub(super) admin: SocketAddr,
}

impl Front {
    /// Binds the addresses and prepares the certificates; those of a Secret come later.
    pub(super) fn bind(
        args: &ServeArgs,
        placement: Placement,
        secret: Option<SecretRef>,
    ) -> anyhow::Result<Self> {
        let listen = args.server.listen(placement);
        let listener = bind::bind(listen, "--listen")?;
        let certificates = match secret {
            Some(place) => Certificates::Secret(place),
            None => {
                let names = names(args, listen.ip());
                Certificates::Files(throwaway::prepare(&args.certs_dir, names, now())?)
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

    /// Puts the server together, and begins to answer probes.
    pub(super) fn wire(
        self,
        parts: &Parts,
        cluster: &Arc<Cluster>,
        live: Live,
    ) -> anyhow::Result<(Ready, Addresses)> {
        let metrics = Arc::clone(&parts.metrics);
        let admission = Admission::new(Arc::clone(cluster), live, Arc::clone(&metrics));
        let pair = match &self.certificates {
            Certificates::Files(files) => LivePair::new(files.pair.clone()),
            Certificates::Secret(_) => LivePair::empty(),
        };
        let scrape = scrape(Arc::clone(cluster), metrics, pair.clone());
        let health = Health::new(parts.latches.clone(), parts.shutdown.clone());
        let admin = admin::start(self.admin_listener, health, scrape);
        let admin = admin.context("cannot serve probes")?;
        let router = admission::router(Arc::new(admission));
        let latch = parts.latches.add("listener");
        let server = Server::new(self.listener, router, pair.clone(), self.limits, latch)?;
        let addresses = Addresses {
            admission: server.address(),
            admin: admin.address(),
        };
        let ready = Ready {
            server,
            admin,
            pair,
            certificates: self.certificates,
        };
        Ok((ready, addresses))
    }
}

impl Ready {
    /// What is served with.
    pub(super) fn certificates(&self) -> &Certificates {
        &self.certificates
    }

    /// Serves until it is told to stop and all is drained.
    pub(super) async fn run(self, parts: Parts, cluster: Arc<Cluster>) -> Done {
        let Parts {
            shutdown,
            latches,
            tasks,
            metrics,
            stop,
        } = parts;
        let certificate = latches.add("certificate");
        let following = Following {
            pair: self.pair,
            metrics,
            latch: certificate,
        };
        let follow_certificates = certificates::follow(self.certificates, following, stop.clone());
        tasks.spawn("certificates", follow_certificates);
        tasks.spawn("probes", probe::run(cluster, stop));
        tasks.spawn("https", self.server.run(shutdown.clone()));
        let finished = tasks.finished().await;
        tracing::info!(cause = shutdown.cause(), "stopped");
        // Last, so that probes are answered while the rest drains.
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

/// The limits, with no more connections than there can be descriptors.
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
        let end = pair
            .current()
            .map_or(0, |pair| pair.not_after().as_second());
        metrics.serving_cert_not_after(end);
        let store = cluster.read();
        let states = store.states();
        let ready = |readiness: &Readiness<'_>| matches!(readiness, Readiness::Usable(_));
        metrics.injectors(
            states
                .iter()
                .map(|s| (s.injector.profile.name.as_str(), ready(&s.readiness))),
        );
        let ages = cluster.freshness().ages(Instant::now().into_std());
        metrics.view(ages.into_iter().map(|own| WatchState {
            kind: own.kind.plural(),
            age: own.age,
            is_current: own.is_current,
            lists: own.counts.lists,
            unreadable: own.counts.unreadable,
        }));
        Exposition {
            content_type: metrics::CONTENT_TYPE,
            body: metrics.encode(),
        }
    })
}
