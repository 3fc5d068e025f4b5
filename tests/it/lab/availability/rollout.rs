//! All replicas replaced, one after the other, again and again.

use std::time::Duration;

use super::load::Phase;
use super::scene::Scene;
use super::table::Row;

pub(super) async fn run(scene: &Scene, times: usize) -> Row {
    let mut load = scene.load().await;
    load.phase("rolling restart").await;
    let (_, deployment) = scene.subject.place();
    for _ in 0..times {
        scene.restarts(deployment).await;
    }
    // The last of the old ones go on for a while after they were told to stop.
    load.goes_on_for(Duration::from_secs(2)).await;
    scene.all_ready(3).await;
    let phase = load.end().await.pop().unwrap();
    if scene.subject.is_ours() {
        Phase::all_created(&phase);
    }
    Row::new(
        scene,
        &format!("rolling restart of all replicas, {times} times"),
        [phase],
    )
}
