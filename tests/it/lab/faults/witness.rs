//! What has to hold all the while.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::runtime::watcher::{Config, Event, watcher};
use tokio::time::sleep;

use crate::lab::harness::{Lab, Meshgate, PATIENCE, within};
use crate::support::process::get;

/// What meshgate has to answer now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answering {
    /// It was killed.
    Nothing,
    /// It has not synced yet.
    Liveness,
    /// It has synced: it is ready whatever happens, and says how old its view is.
    All,
}

/// Sees every pod, and every probe that fails.
pub(super) struct Witness<'l> {
    meshgate: &'l Meshgate<'l>,
    pub(super) answering: Cell<Answering>,
    meshed: RefCell<BTreeSet<String>>,
}

impl<'l> Witness<'l> {
    /// Of one that is armed.
    pub(super) fn new(meshgate: &'l Meshgate<'l>) -> Self {
        Self {
            meshgate,
            answering: Cell::new(Answering::All),
            meshed: RefCell::default(),
        }
    }

    /// How many pods with a sidecar were seen.
    pub(super) fn meshed_pods(&self) -> usize {
        self.meshed.borrow().len()
    }

    /// Never ends, but in a panic: when a pod in the namespace has no sidecar.
    pub(super) async fn watches_pods(&self, lab: &Lab, namespace: &str) {
        let pods: Api<Pod> = Api::namespaced(lab.client().await.clone(), namespace);
        let mut events = std::pin::pin!(watcher(pods, Config::default()));
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Apply(pod) | Event::InitApply(pod) | Event::Delete(pod)) => {
                    self.looks_at(&pod);
                }
                Ok(Event::Init | Event::InitDone) => {}
                // It goes on where it was, or lists anew.
                Err(_) => sleep(Duration::from_millis(100)).await,
            }
        }
    }

    fn looks_at(&self, pod: &Pod) {
        let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
        let mut names = containers.map(|container| container.name.as_str());
        assert!(names.any(|name| name == "linkerd-proxy"), "bare: {pod:?}");
        let uid = pod.metadata.uid.clone().unwrap();
        self.meshed.borrow_mut().insert(uid);
    }

    /// Never ends, but in a panic: when a probe fails that must not.
    pub(super) async fn watches_probes(&self) {
        loop {
            if self.answering.get() != Answering::Nothing {
                let text = self.asks("/livez");
                assert!(text.starts_with("HTTP/1.1 200"), "/livez: {text}");
            }
            if self.answering.get() == Answering::All {
                let text = self.asks("/readyz?verbose");
                assert!(text.starts_with("HTTP/1.1 200"), "/readyz: {text}");
                let ages = text.matches("ok: last heard of the API server ").count();
                assert_eq!(ages, 5, "{text}");
            }
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// Waits until one that has synced says of each kind that it heard of it this long ago, and why
    /// not since.
    pub(super) async fn says_that_it_is_cut_off(&self, for_seconds: u64) {
        let mut text = String::new();
        let is_so = |line: &str| {
            let (_, rest) = line.split_once("ok: last heard of the API server ")?;
            let (age, why) = rest.split_once(" s ago: ")?;
            (age.parse::<u64>().unwrap() >= for_seconds && !why.is_empty()).then_some(())
        };
        within(PATIENCE, "it says that it is cut off", async || {
            text = self.asks("/readyz?verbose");
            (text.lines().filter_map(is_so).count() == 5).then_some(())
        })
        .await;
    }

    /// How old the view is, in seconds, by the readiness of one that has synced.
    pub(super) fn age(&self) -> u64 {
        let text = self.asks("/readyz?verbose");
        let ages = text.split("last heard of the API server ").skip(1);
        let ages = ages.filter_map(|rest| rest.split(' ').next()?.parse().ok());
        ages.min().unwrap()
    }

    /// The sum of a metric over all its labels.
    pub(super) fn metric(&self, name: &str) -> u64 {
        let text = self.meshgate.metrics();
        let own = text.lines().filter_map(|line| line.strip_prefix(name));
        let own = own.filter(|rest| rest.starts_with([' ', '{']));
        own.filter_map(|rest| rest.rsplit(' ').next()?.parse::<u64>().ok())
            .sum()
    }

    /// How many bare pods the check has refused.
    pub(super) fn kept_out(&self) -> u64 {
        let metrics = self.meshgate.metrics();
        let own = metrics.lines().filter(|line| {
            line.starts_with("meshgate_decisions_total{hook=\"check\"")
                && line.contains("reason=\"sidecar_missing\"")
        });
        own.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
            .sum()
    }

    fn asks(&self, path: &str) -> String {
        get(self.meshgate.probes, path)
    }
}
