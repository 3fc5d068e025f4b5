//! A replica that is alive and mute: SIGSTOP.

use std::time::Duration;

use super::scene::{Scene, Subject};
use super::table::Row;

pub(super) async fn run(scene: &Scene) -> Row {
    let replica = scene.replica_on("node3").await;
    assert!(scene.leads_to(&replica).await);
    let mut load = scene.load().await;
    load.phase("replica frozen, until its endpoint is gone")
        .await;
    scene.lab.order(&format!("freeze {}", replica.pod)).await;
    let took = scene.is_withdrawn(&replica, Duration::from_secs(60)).await;
    scene.goes_on_without(&mut load).await;
    scene.lab.order(&format!("thaw {}", replica.pod)).await;
    load.phase("thawed").await;
    scene.all_ready(3).await;
    load.goes_on_for(Duration::from_secs(2)).await;
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
        "replica frozen (SIGSTOP); its endpoint was gone after {} s",
        took.as_secs()
    );
    Row::new(scene, &what, [before.clone(), after.clone(), back.clone()])
}
