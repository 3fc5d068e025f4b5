//! One pod's life on the Node.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::{Container, Pod};
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, Client, ResourceExt as _};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};

use crate::container::{self, Launch, Running};
use crate::environment::{self, Place};
use crate::network::Address;
use crate::pods::Node;
use crate::status::{self, Doing, End, State};
use crate::{CALL, now, probes, volumes};

/// Pause between two tries of something that the API server did not do.
const PAUSE: Duration = Duration::from_millis(300);
/// After the first restart; twice as long after each one more.
const BACK_OFF: Duration = Duration::from_secs(10);

/// What the parts of a pod's life share.
struct Life<'a> {
    node: &'a Node,
    client: &'a Client,
    pods: Api<Pod>,
    news: watch::Receiver<Pod>,
    states: Mutex<Vec<State>>,
    /// There is something new to say.
    changed: Notify,
    address: String,
    folder: PathBuf,
}

/// From the first sight of it to its end.
pub(crate) async fn lives(node: &Node, client: &Client, news: watch::Receiver<Pod>) {
    let pod = news.borrow().clone();
    let containers = pod.spec.as_ref().map_or(0, |spec| spec.containers.len());
    let namespace = pod.namespace().unwrap_or_default();
    let address = loop {
        match node.addresses.take() {
            Ok(address) => break address,
            Err(error) => eprintln!("{}: {error}", pod.name_any()),
        }
        sleep(PAUSE).await;
    };
    let life = Life {
        node,
        client,
        pods: Api::namespaced(client.clone(), &namespace),
        news,
        states: Mutex::new(vec![State::waiting(); containers]),
        changed: Notify::new(),
        address: address.to_string(),
        folder: node
            .cli
            .folder
            .join("pods")
            .join(format!("{namespace}_{}", pod.name_any())),
    };
    let is_real = life
        .containers()
        .iter()
        .any(|(_, container)| life.is_real(container));
    let runs = async {
        if is_over(&pod) {
            // It ended before this kubelet began.
        } else if is_real {
            life.runs(&address).await;
        } else {
            life.is_played(&pod);
        }
        life.deleted().await;
    };
    tokio::select! {
        () = runs => {}
        () = life.is_told(is_over(&pod)) => {}
    }
    if is_real && !is_over(&pod) {
        if let Err(error) = address.remove().await {
            eprintln!("{}: {error:#}", pod.name_any());
        }
        fs::remove_dir_all(&life.folder).ok();
    }
    life.is_deleted(&pod).await;
}

fn is_over(pod: &Pod) -> bool {
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

impl Life<'_> {
    fn containers(&self) -> Vec<(usize, Container)> {
        let spec = self.news.borrow().spec.clone().unwrap_or_default();
        spec.containers.into_iter().enumerate().collect()
    }

    fn is_real(&self, container: &Container) -> bool {
        let image = container.image.as_deref().unwrap_or_default();
        self.node.cli.program_of(image).is_some()
    }

    fn change(&self, index: usize, change: impl FnOnce(&mut State)) {
        if let Some(state) = self.states.lock().get_mut(index) {
            change(state);
        }
        self.changed.notify_one();
    }

    /// Nothing runs, and all is well; a Job's pod is done at once.
    fn is_played(&self, pod: &Pod) {
        let policy = pod
            .spec
            .as_ref()
            .and_then(|spec| spec.restart_policy.as_deref());
        let state = match policy {
            Some("Never" | "OnFailure") => State::done(),
            _ => State::played(),
        };
        for (index, _) in self.containers() {
            self.change(index, |now| *now = state.clone());
        }
    }

    /// Says what is new; never ends.
    async fn is_told(&self, is_over: bool) {
        if is_over {
            return std::future::pending().await;
        }
        let mut news = self.news.clone();
        loop {
            tokio::select! {
                () = self.changed.notified() => {}
                Ok(()) = news.changed() => {
                    // A controller that thought this Node lost has said that its pods are not ready.
                    if self.is_as_said(&news.borrow_and_update()) {
                        continue;
                    }
                }
            }
            while let Err(error) = self.says().await {
                eprintln!("{}: {error:#}", self.news.borrow().name_any());
                sleep(PAUSE).await;
            }
        }
    }

    fn is_as_said(&self, pod: &Pod) -> bool {
        let is_ready = self.states.lock().iter().all(|state| state.is_ready);
        let status = pod.status.as_ref();
        let conditions = status.and_then(|status| status.conditions.as_ref());
        let mut ready = conditions.into_iter().flatten();
        let ready = ready.find(|condition| condition.type_ == "Ready");
        ready.is_none_or(|condition| (condition.status == "True") == is_ready)
    }

    async fn says(&self) -> Result<()> {
        let (name, body) = {
            let pod = self.news.borrow();
            let states = self.states.lock();
            let host = self.node.cli.address();
            (
                pod.name_any(),
                status::of(&pod, &states, &self.address, &host),
            )
        };
        let parameters = PatchParams::default();
        let patch = Patch::Merge(body);
        match timeout(CALL, self.pods.patch_status(&name, &parameters, &patch)).await? {
            // It is gone already, which the watch tells as well.
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            done => done.map(drop).context("status"),
        }
    }

    /// Waits until it is to go.
    async fn deleted(&self) {
        let mut news = self.news.clone();
        let is_asked = |pod: &Pod| pod.metadata.deletion_timestamp.is_some();
        if news.wait_for(is_asked).await.is_err() {
            std::future::pending().await
        }
    }

    fn grace(&self) -> Duration {
        let seconds = self.news.borrow().metadata.deletion_grace_period_seconds;
        let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
        Duration::from_secs(seconds.unwrap_or(30))
    }

    /// Removes it from the API, as nothing of it is left.
    async fn is_deleted(&self, pod: &Pod) {
        let parameters = DeleteParams {
            grace_period_seconds: Some(0),
            preconditions: Some(Preconditions {
                uid: pod.uid(),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        loop {
            match timeout(CALL, self.pods.delete(&pod.name_any(), &parameters)).await {
                Ok(Ok(_)) => return,
                Ok(Err(kube::Error::Api(status))) if [404, 409].contains(&status.code) => return,
                Ok(Err(error)) => eprintln!("{}: {error}", pod.name_any()),
                Err(_) => {}
            }
            sleep(PAUSE).await;
        }
    }

    /// Lays its network and runs its programs until it is deleted, or all have ended for good.
    async fn runs(&self, address: &Address<'_>) {
        while let Err(error) = self.prepares(address).await {
            eprintln!("{}: {error:#}", self.news.borrow().name_any());
            let text = format!("{error:#}");
            self.change(0, |state| {
                state.doing = Doing::Waiting("ContainerCreating", text)
            });
            if timeout(PAUSE, self.deleted()).await.is_ok() {
                return;
            }
        }
        let all = self
            .containers()
            .into_iter()
            .map(|(index, container)| async move {
                if self.is_real(&container) {
                    self.keeps_running(index, &container, address).await;
                } else {
                    self.change(index, |state| *state = State::played());
                }
            });
        futures::future::join_all(all).await;
    }

    async fn prepares(&self, address: &Address<'_>) -> Result<()> {
        if !self.folder.exists() {
            address.lay().await?;
            fs::create_dir_all(&self.folder)?;
        }
        let pod = self.news.borrow().clone();
        let host = self.node.cli.address();
        volumes::write(self.client, self.place(&pod, &host), &self.folder).await
    }

    fn place<'p>(&'p self, pod: &'p Pod, host_ip: &'p str) -> Place<'p> {
        Place {
            pod,
            pod_ip: &self.address,
            host_ip,
        }
    }

    /// Starts it again and again, with longer and longer pauses.
    async fn keeps_running(&self, index: usize, container: &Container, address: &Address<'_>) {
        let policy = self
            .news
            .borrow()
            .spec
            .as_ref()
            .and_then(|spec| spec.restart_policy.clone());
        let mut pause = Duration::ZERO;
        loop {
            let started = now();
            let (code, is_asked) = match self.starts(container, address).await {
                Ok(running) => self.watches_over(index, container, running).await,
                Err(error) => {
                    eprintln!("{}: {error:#}", container.name);
                    (127, false)
                }
            };
            let end = End {
                code,
                started,
                finished: now(),
            };
            let is_last = match policy.as_deref() {
                Some("Never") => true,
                Some("OnFailure") => code == 0,
                _ => false,
            };
            self.change(index, |state| {
                state.is_ready = false;
                state.last_end = Some(end.clone());
                state.doing = Doing::Ended(end);
            });
            if is_asked || is_last {
                return;
            }
            if pause > Duration::ZERO {
                let why = Doing::Waiting("CrashLoopBackOff", format!("back-off of {pause:?}"));
                self.change(index, |state| state.doing = why);
            }
            if timeout(pause, self.deleted()).await.is_ok() {
                return;
            }
            pause = (pause * 2).clamp(BACK_OFF, 30 * BACK_OFF);
            self.change(index, |state| state.restarts += 1);
        }
    }

    async fn starts(&self, container: &Container, address: &Address<'_>) -> Result<Running> {
        let pod = self.news.borrow().clone();
        let host = self.node.cli.address();
        let image = container.image.as_deref().unwrap_or_default();
        let program = self.node.cli.program_of(image).context("no program")?;
        let place = self.place(&pod, &host);
        let variables = environment::variables(self.client, place, container).await?;
        let file_name = program
            .path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy();
        let name = format!(
            "{}_{}_{}.log",
            pod.namespace().unwrap_or_default(),
            pod.name_any(),
            container.name
        );
        container::start(&Launch {
            container,
            program: &program.path,
            command: environment::command(container, &file_name, &variables),
            variables,
            network: address.file(),
            folder: &self.folder,
            lab: &self.node.cli.folder,
            log: self
                .node
                .cli
                .folder
                .join("logs")
                .join(&self.node.cli.node)
                .join(name),
        })
    }

    /// Until it ends, by itself or because it is to; its exit code, and whether the pod is to go.
    async fn watches_over(
        &self,
        index: usize,
        container: &Container,
        mut running: Running,
    ) -> (i32, bool) {
        self.change(index, |state| state.doing = Doing::Running(now()));
        let says = |is_ready| {
            let before = self.states.lock().get(index).map(|state| state.is_ready);
            if before != Some(is_ready) {
                self.change(index, |state| state.is_ready = is_ready);
            }
        };
        let mut readiness = std::pin::pin!(probes::readiness(container, &self.address, says));
        let unhealthy = async {
            if probes::started(container, &self.address).await {
                probes::dies(container, &self.address).await;
            }
        };
        let is_asked = tokio::select! {
            status = running.ended() => return (code(status), false),
            () = unhealthy => false,
            () = &mut readiness => false,
            () = self.deleted() => true,
        };
        let grace = if is_asked {
            self.grace()
        } else {
            Duration::from_secs(30)
        };
        let status = tokio::select! {
            status = running.stop(grace) => status,
            () = &mut readiness => None,
        };
        (code(status), is_asked)
    }
}

fn code(status: Option<std::process::ExitStatus>) -> i32 {
    status.and_then(|status| status.code()).unwrap_or(137)
}
