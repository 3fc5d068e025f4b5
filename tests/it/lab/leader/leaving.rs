//! Deleting meshgate's namespace removes the registration (case 77); stopping meshgate does not.

use super::{CONFIG, HOME, SOON, UNREACHED, lab, leads, written};
use crate::lab::harness::{Control, Lab, PATIENCE, within};
use crate::lab::registration;

async fn follows(control: &Control<'_>) {
    within(PATIENCE, "it follows", async || {
        control.ready().contains("follower").then_some(())
    })
    .await;
}

async fn delete_home(lab: &Lab) {
    // No namespace controller empties it: it stays in deletion.
    lab.delete(&format!("/api/v1/namespaces/{HOME}")).await;
}

#[tokio::test]
async fn the_leader_withdraws_with_its_namespace() {
    let lab = lab().await;
    let leader = Control::start(&lab, "leader", CONFIG, &[UNREACHED]).await;
    leads(PATIENCE, &[&leader]).await;
    written(&lab).await;
    // Its end alone takes nothing away.
    leader.order("stop").await;
    assert!(!lab.remains().await.is_empty());
    leader.order("start").await;
    leads(PATIENCE, &[&leader]).await;
    delete_home(&lab).await;
    within(SOON, "nothing remains", async || {
        lab.remains().await.is_empty().then_some(())
    })
    .await;
}

/// Its pods are told to end as well, and that may come first.
#[tokio::test]
async fn a_leader_that_is_stopped_with_its_namespace_withdraws_before_it_ends() {
    let lab = lab().await;
    let leader = Control::start(&lab, "leader", CONFIG, &[UNREACHED]).await;
    leads(PATIENCE, &[&leader]).await;
    written(&lab).await;
    delete_home(&lab).await;
    leader.order("stop").await;
    assert_eq!(lab.remains().await, [""; 0]);
}

/// No meshgate runs that could: the garbage collector does it.
#[tokio::test]
async fn a_namespace_that_goes_takes_the_registration_along_when_no_meshgate_runs() {
    let lab = registration::lab(&["kube-controller-manager"], &[]).await;
    lab.ensure_namespace(HOME).await;
    let leader = Control::start(&lab, "leader", CONFIG, &[UNREACHED]).await;
    leads(PATIENCE, &[&leader]).await;
    written(&lab).await;
    leader.order("kill").await;
    delete_home(&lab).await;
    within(PATIENCE, "nothing remains", async || {
        lab.remains().await.is_empty().then_some(())
    })
    .await;
}

/// In a namespace in deletion no new process can become the leader.
#[tokio::test]
async fn a_follower_that_is_stopped_with_its_namespace_withdraws_when_the_leader_is_dead() {
    let lab = lab().await;
    let leader = Control::start(&lab, "leader", CONFIG, &[UNREACHED]).await;
    leads(PATIENCE, &[&leader]).await;
    written(&lab).await;
    let follower = Control::start(&lab, "follower", CONFIG, &[UNREACHED]).await;
    follows(&follower).await;
    // Its end alone takes nothing away.
    follower.order("stop").await;
    assert!(!lab.remains().await.is_empty());
    follower.order("start").await;
    follows(&follower).await;
    leader.order("kill").await;
    delete_home(&lab).await;
    follower.order("stop").await;
    assert_eq!(lab.remains().await, [""; 0]);
}
