//! A node that is cut off without a word.

use std::time::Duration;

use super::scene::{Scene, Subject};
use super::table::Row;

/// `limit` is how long the cluster may take to know of it.
pub(super) async fn run(scene: &Scene, limit: Duration) -> Row {
    let replica = scene.replica_on("node3").await;
    assert!(scene.leads_to(&replica).await);
    let mut load = scene.load().await;
    load.phase("node lost, until its endpoint is gone").await;
    scene.lab.order("cut node3").await;
    let took = scene.is_withdrawn(&replica, limit).await;
    scene.goes_on_without(&mut load).await;
    scene.lab.order("mend node3").await;
    load.phase("node back").await;
    scene.all_ready(3).await;
    load.goes_on_for(Duration::from_secs(3)).await;
    let [.., before, after, back] = &load.end().await[..] else {
        panic!("three phases were begun");
    };
    if scene.subject == Subject::Policy {
        before.all_created();
    }
    if scene.subject.is_ours() {
        after.all_created();
        back.all_created();
    }
    let what = format!(
        "node cut off without a word; its endpoint was gone after {} s",
        took.as_secs()
    );
    Row::new(scene, &what, [before.clone(), after.clone(), back.clone()])
}
