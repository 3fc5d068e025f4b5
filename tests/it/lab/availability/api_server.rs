//! The API server restarted under load.

use std::time::Duration;

use super::scene::Scene;
use super::table::Row;

pub(super) async fn run(scene: &Scene) -> Row {
    let mut load = scene.load().await;
    load.phase("API server restarted").await;
    scene.lab.order("restart kube-apiserver").await;
    load.goes_on_for(Duration::from_secs(3)).await;
    load.phase("after that").await;
    load.goes_on_for(Duration::from_secs(5)).await;
    let [.., restart, after] = &load.end().await[..] else {
        panic!("two phases were begun");
    };
    if scene.subject.is_ours() {
        restart.all_created_that_were_answered();
        after.all_created();
    }
    Row::new(
        scene,
        "API server restarted",
        [restart.clone(), after.clone()],
    )
}
