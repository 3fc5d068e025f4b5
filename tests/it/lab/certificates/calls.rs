//! Calls through the API server, all the time: which of them failed.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use kube::Error;
use serde_json::json;
use tokio::time::{interval, timeout};

use super::HOME;
use crate::lab::harness::{Lab, within};
use crate::lab::registration::{SECONDS, pod};

/// Pods that require an injector which is not there: each is refused by us, if we are reached.
pub(super) struct Calls<'l> {
    lab: &'l Lab,
    pods: String,
    answered: Cell<usize>,
    failed: RefCell<Vec<String>>,
}

impl<'l> Calls<'l> {
    pub(super) async fn new(lab: &'l Lab) -> Self {
        let marks = [("linkerd.io/inject", "enabled")];
        let namespace = lab.namespace("orders", &[], &marks).await;
        Self {
            lab,
            pods: format!("/api/v1/namespaces/{namespace}/pods?dryRun=All"),
            answered: Cell::new(0),
            failed: RefCell::default(),
        }
    }

    /// Never ends.
    pub(super) async fn run(&self) {
        let mut ticks = interval(Duration::from_millis(20));
        loop {
            ticks.tick().await;
            let pod = pod("bare");
            let created = self.lab.create(&self.pods, &pod);
            match timeout(Duration::from_secs(10), created).await {
                Ok(Err(Error::Api(status))) if status.message.contains("denied the request") => {
                    self.answered.set(self.answered.get() + 1);
                }
                Ok(Ok(_)) => self
                    .failed
                    .borrow_mut()
                    .push("no replica was called".to_owned()),
                other => self.failed.borrow_mut().push(format!("{other:?}")),
            }
        }
    }

    /// Does something meanwhile; not one call may fail. Says how many there were.
    pub(super) async fn none_fails_while(&self, doing: impl Future<Output = ()>) -> usize {
        tokio::select! {
            () = doing => {}
            () = self.run() => {}
        }
        let failed = self.failed.borrow();
        let (some, answered) = (failed.first(), self.answered.get());
        assert!(
            failed.is_empty(),
            "{} of {answered} failed: {some:?}",
            failed.len()
        );
        answered
    }

    /// Waits until that many more were answered.
    pub(super) async fn goes_on(&self, more: usize) {
        let before = self.answered.get();
        let done = async || (self.answered.get() >= before + more).then_some(());
        within(SECONDS, "calls go on", done).await;
    }
}

/// Our Service, which leads to this port of this machine.
pub(super) async fn service(lab: &Lab, port: u16) {
    let service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "meshgate"},
        "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]},
    });
    lab.apply(HOME, &service.to_string()).await;
}
