//! Who takes over when, and what that leaves as it is.

use std::time::Instant;

use super::{CONFIG, HOME, LEASE, SOON, UNREACHED, lab, leads, transitions, written};
use crate::lab::harness::{Control, PATIENCE, within};
use crate::lab::registration::paths;

#[tokio::test]
async fn another_takes_over_and_nothing_is_written_anew() {
    let lab = lab().await;
    let first = Control::start(&lab, "first", CONFIG, &[UNREACHED]).await;
    leads(PATIENCE, &[&first]).await;
    let versions = written(&lab).await;
    let second = Control::start(&lab, "second", CONFIG, &[UNREACHED]).await;
    let third = Control::start(&lab, "third", CONFIG, &[UNREACHED]).await;
    let follows = async |control: &Control<'_>| {
        within(SOON, "a follower is as ready as the leader", async || {
            let ready = control.ready();
            let follows = ready.contains("[+]lease ok: follower: ");
            (follows && ready.contains("readyz check passed")).then_some(())
        })
        .await;
    };
    follows(&second).await;
    follows(&third).await;
    let lease = lab.lease().await.unwrap();
    assert_eq!(lease["spec"]["leaseDurationSeconds"], 15);
    assert_eq!(transitions(&lease), 0);
    let metadata = &lease["metadata"];
    assert_eq!(
        metadata["labels"]["app.kubernetes.io/managed-by"],
        "meshgate"
    );

    // Told to stop: at once.
    first.order("stop").await;
    assert!(
        first.log().contains("this process has released the Lease"),
        "{}",
        first.log()
    );
    let leader = leads(SOON, &[&second, &third]).await;
    let lease = lab.lease().await.unwrap();
    assert_eq!(transitions(&lease), 1);
    let owner = &lease["metadata"]["ownerReferences"][0]["name"];
    assert_eq!(owner, "meshgate", "it goes with the rest");

    // Killed: when its time is over, and not before.
    let killed = Instant::now();
    leader.order("kill").await;
    let other = if leader.name == second.name {
        &third
    } else {
        &second
    };
    leads(LEASE, &[other]).await;
    assert!(killed.elapsed() > SOON, "{:?}", killed.elapsed());
    leader.order("start").await;
    follows(leader).await;

    // Stopped in the middle, and back again: it follows, and has not ended.
    other.order("pause").await;
    leads(LEASE, &[leader]).await;
    other.order("resume").await;
    follows(other).await;
    assert!(!other.leads());
    assert_eq!(transitions(&lab.lease().await.unwrap()), 3);

    // No process has written anything meanwhile, since nothing was missing, nor removed anything.
    for control in [leader, other] {
        control.order("stop").await;
    }
    assert_eq!(lab.versions(&paths()).await, versions);
    assert_eq!(lab.leader().await, "");
}

#[tokio::test]
async fn a_leader_that_cannot_renew_goes_on_and_leads_again() {
    let lab = lab().await;
    let control = Control::start(&lab, "control", CONFIG, &[UNREACHED]).await;
    leads(PATIENCE, &[&control]).await;
    let versions = written(&lab).await;
    lab.order("pause kube-apiserver").await;
    within(LEASE, "it has lost the claim", async || {
        (!control.leads()).then_some(())
    })
    .await;
    // It is as ready as before (case 61), and says what is wrong.
    within(SOON, "it says that no API server answers", async || {
        let ready = control.ready();
        assert!(ready.contains("readyz check passed"), "{ready}");
        let said = "[+]lease ok: no process leads (yet); the Lease cannot be read or written";
        ready.contains(said).then_some(())
    })
    .await;
    lab.order("resume kube-apiserver").await;
    leads(LEASE, &[&control]).await;
    within(SOON, "it keeps what there is", async || {
        control
            .ready()
            .contains("registration ok: not reached")
            .then_some(())
    })
    .await;
    assert_eq!(lab.versions(&paths()).await, versions);
    let lease = lab.lease().await.unwrap();
    assert_eq!(transitions(&lease), 0, "no other process has held it");

    // The Lease is deleted: the leader makes it again.
    let lease = format!("/apis/coordination.k8s.io/v1/namespaces/{HOME}/leases/meshgate-control");
    lab.delete(&lease).await;
    within(SOON, "the Lease is there again", async || lab.lease().await).await;
    assert!(control.leads());
}
