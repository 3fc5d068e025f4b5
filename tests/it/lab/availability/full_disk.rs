//! A replica whose logs have no room left.

use std::time::Duration;

use serde_json::json;

use super::scene::{Scene, Subject};
use super::table::Row;
use crate::lab::harness::pod;

const REFUSALS: usize = 30;

pub(super) async fn run(scene: &Scene) -> Row {
    let mut load = scene.load().await;
    load.phase("log disk full").await;
    scene.lab.order("fill node3").await;
    // What is logged: each refusal of another pod.
    for number in 0..REFUSALS {
        scene.is_refused(&format!("wrong-{number}")).await;
    }
    load.goes_on_for(Duration::from_secs(5)).await;
    let replica = scene.replica_on("node3").await;
    scene.lab.order("empty node3").await;
    let phase = load.end().await.pop().unwrap();
    // Not restarted either: it is the same one, and ready.
    assert_eq!(scene.replica_on("node3").await, replica);
    if scene.subject.is_ours() {
        phase.all_created();
    }
    Row::new(scene, "the disk of a replica's log full", [phase])
}

impl Scene {
    /// A pod with a value that no injector knows.
    async fn is_refused(&self, name: &str) {
        if self.subject == Subject::Plain {
            return;
        }
        let mut pod = pod(&[], &[("linkerd.io/inject", "perhaps")]);
        pod["metadata"]["name"] = json!(name);
        let path = format!("/api/v1/namespaces/{}/pods?dryRun=All", self.namespace);
        let refused = self.lab.create(&path, &pod).await.unwrap_err();
        assert!(refused.to_string().contains("perhaps"), "{refused}");
    }
}
