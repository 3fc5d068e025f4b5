//! Certificates replaced under load: the leaf, then the CA with it.

use std::time::Duration;

use serde_json::json;

use super::scene::Scene;
use super::table::Row;
use crate::lab::harness::{PATIENCE, within};

const SECRETS: &str = "/api/v1/namespaces/meshgate-system/secrets";

/// The leaf's Secret is deleted: it is made anew, from the same CA.
pub(super) async fn of_leaf(scene: &Scene) -> Row {
    rotates(scene, "leaf replaced", "meshgate-tls", &["meshgate-tls"]).await
}

/// The CA's Secret is deleted as well.
pub(super) async fn of_ca(scene: &Scene) -> Row {
    rotates(scene, "CA replaced", "meshgate-ca", &["meshgate-ca"]).await
}

async fn rotates(scene: &Scene, what: &str, waits_for: &str, deleted: &[&str]) -> Row {
    let mut load = scene.load().await;
    load.phase(what).await;
    let waits_for = format!("{SECRETS}/{waits_for}");
    let before = scene.certificate(&waits_for).await;
    for secret in deleted {
        scene.lab.delete(&format!("{SECRETS}/{secret}")).await;
    }
    within(PATIENCE, "there is another certificate", async || {
        let now = scene.certificate(&waits_for).await?;
        (Some(now) != before).then_some(())
    })
    .await;
    // Every replica has it by then, and every connection that began before was retired or goes on.
    load.goes_on_for(Duration::from_secs(10)).await;
    let phase = load.end().await.pop().unwrap();
    phase.all_created();
    Row::new(scene, what, [phase])
}

impl Scene {
    async fn certificate(&self, path: &str) -> Option<serde_json::Value> {
        let secret = self.lab.get(path).await?;
        let certificate = secret["data"]["tls.crt"].clone();
        (certificate != json!(null) && certificate != json!("")).then_some(certificate)
    }
}
