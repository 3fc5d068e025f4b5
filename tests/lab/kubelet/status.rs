//! What is said of a pod: the states of its containers, and what follows from them.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodSpec};
use serde_json::{Value, json};

use crate::now;

/// A container now.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) doing: Doing,
    pub(crate) is_ready: bool,
    pub(crate) restarts: u32,
    pub(crate) last_end: Option<End>,
}

#[derive(Clone, Debug)]
pub(crate) enum Doing {
    Waiting(&'static str, String),
    Running(Timestamp),
    Ended(End),
}

/// How a program ended.
#[derive(Clone, Debug)]
pub(crate) struct End {
    pub(crate) code: i32,
    pub(crate) started: Timestamp,
    pub(crate) finished: Timestamp,
}

impl State {
    pub(crate) fn waiting() -> Self {
        Self {
            doing: Doing::Waiting("ContainerCreating", String::new()),
            is_ready: false,
            restarts: 0,
            last_end: None,
        }
    }

    /// One that is only said to run.
    pub(crate) fn played() -> Self {
        Self {
            doing: Doing::Running(now()),
            is_ready: true,
            ..Self::waiting()
        }
    }

    /// One that is only said to have run.
    pub(crate) fn done() -> Self {
        let (started, finished) = (now(), now());
        Self {
            doing: Doing::Ended(End {
                code: 0,
                started,
                finished,
            }),
            ..Self::waiting()
        }
    }
}

impl End {
    fn json(&self) -> Value {
        json!({
            "exitCode": self.code,
            "reason": if self.code == 0 { "Completed" } else { "Error" },
            "startedAt": self.started,
            "finishedAt": self.finished,
        })
    }
}

/// The whole status, for a merge patch.
pub(crate) fn of(pod: &Pod, states: &[State], pod_ip: &str, host_ip: &str) -> Value {
    let spec = pod.spec.clone().unwrap_or_default();
    let statuses: Vec<Value> = spec
        .containers
        .iter()
        .zip(states)
        .map(|(container, state)| of_container(&container.name, container.image.as_deref(), state))
        .collect();
    let inits: Vec<Value> = spec
        .init_containers
        .iter()
        .flatten()
        .map(|container| {
            let is_sidecar = container.restart_policy.is_some();
            let state = if is_sidecar {
                State::played()
            } else {
                State::done()
            };
            let mut status = of_container(&container.name, container.image.as_deref(), &state);
            status["ready"] = json!(true);
            status
        })
        .collect();
    let is_ready = states.iter().all(|state| state.is_ready);
    json!({"status": {
        "observedGeneration": pod.metadata.generation,
        "phase": phase(&spec, states),
        "hostIP": host_ip,
        "hostIPs": [{"ip": host_ip}],
        "podIP": pod_ip,
        "podIPs": [{"ip": pod_ip}],
        "startTime": started(pod),
        "conditions": conditions(pod, is_ready),
        "containerStatuses": statuses,
        "initContainerStatuses": inits,
    }})
}

/// As it was said first.
fn started(pod: &Pod) -> Value {
    let before = pod
        .status
        .as_ref()
        .and_then(|status| status.start_time.as_ref());
    before.map_or_else(|| json!(now()), |time| json!(time))
}

fn phase(spec: &PodSpec, states: &[State]) -> &'static str {
    let restarts = spec.restart_policy.as_deref().unwrap_or("Always");
    let ends: Vec<i32> = states
        .iter()
        .filter_map(|state| match &state.doing {
            Doing::Ended(end) => Some(end.code),
            Doing::Waiting(..) | Doing::Running(_) => None,
        })
        .collect();
    let all_ended = ends.len() == states.len() && restarts != "Always";
    let has_begun = |state: &State| !matches!(state.doing, Doing::Waiting("ContainerCreating", _));
    if all_ended {
        return if ends.iter().all(|code| *code == 0) {
            "Succeeded"
        } else {
            "Failed"
        };
    }
    if states.iter().all(has_begun) {
        "Running"
    } else {
        "Pending"
    }
}

fn conditions(pod: &Pod, is_ready: bool) -> Value {
    let word = |is: bool| if is { "True" } else { "False" };
    let before = pod
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    let since = |kind: &str, is: bool| {
        let mut same = before.into_iter().flatten();
        let same = same.find(|condition| condition.type_ == kind && condition.status == word(is));
        match same.and_then(|condition| condition.last_transition_time.as_ref()) {
            Some(time) => json!(time),
            None => json!(now()),
        }
    };
    let kinds = [
        ("PodScheduled", true),
        ("PodReadyToStartContainers", true),
        ("Initialized", true),
        ("ContainersReady", is_ready),
        ("Ready", is_ready),
    ];
    let all = kinds.map(|(kind, is)| {
        json!({"type": kind, "status": word(is), "lastTransitionTime": since(kind, is)})
    });
    json!(all)
}

fn of_container(name: &str, image: Option<&str>, state: &State) -> Value {
    let doing = match &state.doing {
        Doing::Waiting(reason, message) => {
            json!({"waiting": {"reason": reason, "message": message}})
        }
        Doing::Running(since) => json!({"running": {"startedAt": since}}),
        Doing::Ended(end) => json!({"terminated": end.json()}),
    };
    let last = state.last_end.as_ref();
    json!({
        "name": name,
        "image": image.unwrap_or_default(),
        "imageID": "lab",
        "containerID": format!("lab://{name}"),
        "ready": state.is_ready,
        "started": matches!(state.doing, Doing::Running(_)),
        "restartCount": state.restarts,
        "state": doing,
        "lastState": last.map_or_else(|| json!({}), |end| json!({"terminated": end.json()})),
    })
}
