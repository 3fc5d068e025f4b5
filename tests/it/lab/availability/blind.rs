//! A replica that no longer reaches the API server, while it is reached by it: it limps, goes on, and
//! says how old what it knows is.

use std::time::Duration;

use super::scene::Scene;
use super::table::Row;
use crate::lab::harness::{PATIENCE, within};

pub(super) async fn run(scene: &Scene) -> Row {
    let replica = scene.replica_on("node3").await;
    let mut load = scene.load().await;
    load.phase("view cut").await;
    scene.lab.order(&format!("blind {}", replica.address)).await;
    load.goes_on_for(Duration::from_secs(3)).await;
    within(PATIENCE, "it says how old its view is", async || {
        let text = scene.ask(&replica, "/readyz?verbose").await;
        let ages = text.split("last heard of the API server ").skip(1);
        let mut ages = ages.filter_map(|rest| rest.split(' ').next()?.parse::<u64>().ok());
        ages.any(|age| age >= 2).then_some(())
    })
    .await;
    load.goes_on_for(Duration::from_secs(2)).await;
    assert_eq!(scene.replica_on("node3").await, replica);
    scene
        .lab
        .order(&format!("unblind {}", replica.address))
        .await;
    load.phase("view back").await;
    load.goes_on_for(Duration::from_secs(2)).await;
    let [.., cut, back] = &load.end().await[..] else {
        panic!("two phases were begun");
    };
    cut.all_created();
    back.all_created();
    Row::new(
        scene,
        "a replica without the API server",
        [cut.clone(), back.clone()],
    )
}
