//! A replica whose logs have no room left.

use std::time::Duration;

use super::scene::Scene;
use super::table::Row;

pub(super) async fn run(scene: &Scene) -> Row {
    let mut load = scene.load().await;
    load.phase("log disk full").await;
    scene.lab.order("fill node3").await;
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
