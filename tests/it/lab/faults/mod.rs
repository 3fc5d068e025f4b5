//! What fails around a registered meshgate, under a steady load: no pod is bare, nothing is stuck
//! afterwards, nothing else notices, and the view is right again at once.
//!
//! [`load`] is what goes on all the while, [`witness`] what has to hold all the while, [`fresh`]
//! whether a change is known. `MESHGATE_LOAD_FACTOR=4` makes the faults four times as long: etcd is
//! then stopped for a whole minute.

mod fresh;
mod load;
mod witness;

use std::time::Duration;

use hyper::Request;
use kube::Error;
use tokio::time::{Instant, sleep, timeout};

use self::fresh::Fresh;
use self::load::Load;
use self::witness::{Answering, Witness};
use super::harness::{LINKERD, Lab, Meshgate, Options, PATIENCE, within};
use crate::support::process::get;
use crate::support::{factor, figures};

/// Vault's injector is never asked for anything here: its slice tells whether changes are known.
const CONFIG: &str = "apiVersion: meshgate.io/v1alpha1
kind: Configuration
injectors:
- preset: linkerd
- preset: vault
";

/// etcd is stopped for so long: longer than clients of the API server are patient with one call.
const WITHOUT_ETCD: Duration = Duration::from_secs(15);
/// The API server says nothing for so long, and closes nothing.
const SILENT: Duration = Duration::from_secs(10);

/// All that is in the lab, and what it does.
struct Scene<'l> {
    lab: &'l Lab,
    meshgate: &'l Meshgate<'l>,
    load: &'l Load<'l>,
    witness: &'l Witness<'l>,
    fresh: Fresh<'l>,
}

#[tokio::test]
async fn nothing_is_bare_and_nothing_stuck_whatever_fails() {
    let lab = Lab::own(Options::default()).await;
    lab.install_linkerd().await;
    let meshgate = Meshgate::start(&lab, CONFIG).await;
    let load = Load::new(&lab).await;
    let witness = Witness::new(&meshgate);
    let scene = Scene {
        lab: &lab,
        meshgate: &meshgate,
        load: &load,
        witness: &witness,
        fresh: Fresh::new(&lab, &meshgate).await,
    };
    let faults = async {
        load.is_under_way().await;
        scene.api_server_is_killed().await;
        scene.etcd_stops().await;
        scene.api_server_is_silent().await;
        scene.history_is_forgotten().await;
        scene.meshgate_is_killed().await;
        scene.meshgate_starts_alone().await;
        scene.injector_is_killed().await;
        load.settles().await;
    };
    tokio::select! {
        () = faults => {}
        () = load.run() => {}
        () = witness.watches_pods(&lab, load.meshed()) => {}
        () = witness.watches_probes() => {}
    }
    let (plain, meshed) = (load.created(), witness.meshed_pods());
    figures(&format!(
        "{plain} pods of others and {meshed} meshed ones came; none was bare"
    ));
    assert!(plain > 20 && meshed > 10, "{plain} and {meshed}");
}

impl Scene<'_> {
    /// A fault that the API server's clients notice; returns when it is ready again.
    async fn api_server_is_away(&self, what: &str, fault: impl Future<Output = ()>) {
        self.load.api_server_answers.set(false);
        self.load.times_away.set(self.load.times_away.get() + 1);
        let begin = Instant::now();
        fault.await;
        let gone = begin.elapsed();
        within(PATIENCE, "the API server is ready", async || {
            self.api_server_is_ready().await.then_some(())
        })
        .await;
        let back = begin.elapsed();
        self.load.api_server_answers.set(true);
        if self.witness.answering.get() == Answering::All {
            let took = self.fresh.is_known().await;
            figures(&format!(
                "{what}: for {:.1} s, ready after {:.1} s, the view right {:.2} s later",
                gone.as_secs_f32(),
                back.as_secs_f32(),
                took.as_secs_f32()
            ));
        }
        self.pods_of_others_are_created().await;
    }

    /// It says so, and reads from etcd what the tests write: it has a connection for each resource, each of
    /// which tries again in its own time.
    async fn api_server_is_ready(&self) -> bool {
        let asked = async |path: &str| {
            let request = Request::get(path).body(Vec::new()).unwrap();
            let answer = self.lab.client().await.request_text(request);
            timeout(Duration::from_secs(1), answer).await
        };
        let says = asked("/readyz").await;
        for path in [
            "/api/v1/namespaces/default/pods/no-such-pod",
            "/api/v1/namespaces/no-such-namespace",
            "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/no-such-slice",
        ] {
            let read = asked(path).await;
            if !matches!(read, Ok(Err(Error::Api(status))) if status.code == 404) {
                return false;
            }
        }
        says.is_ok_and(|answer| answer.is_ok())
    }

    async fn pods_of_others_are_created(&self) {
        let before = self.load.created();
        within(PATIENCE, "pods of others are created", async || {
            (self.load.created() >= before + 3).then_some(())
        })
        .await;
    }

    async fn api_server_is_killed(&self) {
        self.api_server_is_away("API server killed", async {
            self.lab.order("kill kube-apiserver").await;
            self.witness.says_that_it_is_cut_off(2).await;
            self.lab.order("start kube-apiserver").await;
        })
        .await;
    }

    async fn etcd_stops(&self) {
        let length = WITHOUT_ETCD * u32::try_from(factor()).unwrap();
        self.api_server_is_away("etcd stopped", async {
            self.lab.order("stop etcd").await;
            sleep(length).await;
            self.lab.order("start etcd").await;
        })
        .await;
    }

    /// As a machine that is frozen: connections are taken and stay, and no byte comes back.
    async fn api_server_is_silent(&self) {
        let length = SILENT * u32::try_from(factor().min(2)).unwrap();
        self.api_server_is_away("API server paused", async {
            self.lab.order("pause kube-apiserver").await;
            sleep(length).await;
            assert!(
                self.witness.age() >= length.as_secs() - 1,
                "it heard of a frozen server"
            );
            self.lab.order("resume kube-apiserver").await;
        })
        .await;
    }

    /// What a watch asks for is answered by 410.
    async fn history_is_forgotten(&self) {
        let lists = self.witness.metric("meshgate_view_lists_total");
        self.api_server_is_away("history forgotten", async {
            self.lab.order("stop kube-apiserver").await;
            self.lab.order("compact").await;
            self.lab.order("start kube-apiserver").await;
        })
        .await;
        let anew = self.witness.metric("meshgate_view_lists_total");
        assert!(anew > lists, "{lists} lists before, {anew} after");
    }

    /// Only pods that require an injector wait for it.
    async fn meshgate_is_killed(&self) {
        self.witness.answering.set(Answering::Nothing);
        self.meshgate.order("kill").await;
        let refusal = self.load.refused_meshed_pod().await;
        assert!(refusal.contains("failed calling webhook"), "{refusal}");
        self.pods_of_others_are_created().await;
        self.meshgate.order("start").await;
        self.meshgate_is_armed_again().await;
    }

    /// Alive from the moment that it listens, and ready from the moment that it has synced.
    async fn meshgate_is_armed_again(&self) {
        within(PATIENCE, "meshgate is alive", async || {
            let text = get(self.meshgate.probes, "/livez");
            text.starts_with("HTTP/1.1 200").then_some(())
        })
        .await;
        self.witness.answering.set(Answering::Liveness);
        self.meshgate.armed().await;
        self.witness.answering.set(Answering::All);
    }

    /// Started while there is no API server, it waits for one, alive and not ready.
    async fn meshgate_starts_alone(&self) {
        self.witness.answering.set(Answering::Nothing);
        self.meshgate.order("kill").await;
        self.api_server_is_away("started alone", async {
            self.lab.order("kill kube-apiserver").await;
            self.meshgate.order("start").await;
            within(PATIENCE, "it says what it waits for", async || {
                let text = get(self.meshgate.probes, "/readyz");
                let waits = text.matches("failed: not listed yet: Connection refused");
                (text.starts_with("HTTP/1.1 500") && waits.count() == 5).then_some(())
            })
            .await;
            self.witness.answering.set(Answering::Liveness);
            self.lab.order("start kube-apiserver").await;
        })
        .await;
        self.meshgate_is_armed_again().await;
    }

    /// Ready by its slice, and gone: its webhook fails open, so only the check keeps bare pods out.
    async fn injector_is_killed(&self) {
        let before = self.witness.kept_out();
        self.lab.order(&format!("kill {LINKERD}")).await;
        let kept_out = async || (self.witness.kept_out() > before).then_some(());
        within(PATIENCE, "the check has refused a bare pod", kept_out).await;
        self.lab.order(&format!("start {LINKERD}")).await;
    }
}
