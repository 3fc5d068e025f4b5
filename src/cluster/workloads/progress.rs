//! How many pods an owner wants and has, by kind.

use std::time::Duration;

use super::slim::{Condition, Kind, Slim, Spec, Status};

/// An owner that gets no pod for so long is refused them: controllers create pods within milliseconds.
const QUIET: Duration = Duration::from_secs(2);
/// The Job controller waits so long after a pod of a Job has failed, doubling, and at most ten minutes
/// (kubernetes/kubernetes pkg/controller/job/backoff_utils.go).
const AFTER_FAILURE: Duration = Duration::from_secs(10);
const LONGEST_AFTER_FAILURE: Duration = Duration::from_secs(600);

/// The numbers of an owner's pods.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Pods that its controller would create if the API server let it. Zero for owners that are being deleted,
    /// are suspended or have finished.
    pub wanted: u32,
    pub present: u32,
    /// Of a Job: pods that failed.
    failed: u32,
}

impl Progress {
    pub fn is_short(&self) -> bool {
        self.present < self.wanted
    }

    /// How long the numbers stay as they are before the owner counts as blocked.
    pub fn quiet(&self) -> Duration {
        let Some(doublings) = self.failed.checked_sub(1) else {
            return QUIET;
        };
        let pause = AFTER_FAILURE.saturating_mul(1 << doublings.min(6));
        pause.min(LONGEST_AFTER_FAILURE) + QUIET
    }
}

impl Slim {
    pub(super) fn progress(&self, kind: Kind) -> Progress {
        if self.metadata.deletion_timestamp.is_some() {
            return Progress::default();
        }
        let (spec, status) = (&self.spec, &self.status);
        let (wanted, present) = match kind {
            Kind::Pod => return Progress::default(),
            Kind::ReplicaSet | Kind::ReplicationController => {
                (spec.replicas.unwrap_or(1), status.replicas)
            }
            Kind::StatefulSet => (stateful(spec, status), status.replicas),
            Kind::DaemonSet => (
                status.desired_number_scheduled,
                status.current_number_scheduled,
            ),
            Kind::Job => (
                parallel(spec, status),
                status.active.saturating_add(status.terminating),
            ),
        };
        Progress {
            wanted,
            present,
            failed: if kind == Kind::Job { status.failed } else { 0 },
        }
    }
}

/// In order, a StatefulSet creates a pod only once those before it are available.
fn stateful(spec: &Spec, status: &Status) -> u32 {
    let all = spec.replicas.unwrap_or(1);
    if spec.pod_management_policy.as_deref() == Some("Parallel") {
        return all;
    }
    all.min(status.available_replicas.saturating_add(1))
}

/// The pods that a Job runs at a time.
fn parallel(spec: &Spec, status: &Status) -> u32 {
    let is_of_others = spec
        .managed_by
        .as_deref()
        .is_some_and(|by| by != "kubernetes.io/job-controller");
    let has_ended = |one: &Condition| {
        let ends = ["Complete", "Failed", "FailureTarget", "SuccessCriteriaMet"];
        one.is_true() && ends.contains(&one.kind.as_str())
    };
    if is_of_others || spec.suspend == Some(true) || status.conditions.iter().any(has_ended) {
        return 0;
    }
    let at_once = spec.parallelism.unwrap_or(1);
    match spec.completions {
        Some(all) => {
            let failed = indexes(status.failed_indexes.as_deref());
            let done = status.succeeded.saturating_add(failed);
            at_once.min(all.saturating_sub(done))
        }
        // Once one has succeeded, the Job waits for the others.
        None if status.succeeded > 0 => status.active,
        None => at_once,
    }
}

/// How many there are in a text such as `1,3-5`.
fn indexes(text: Option<&str>) -> u32 {
    let parts = text.unwrap_or_default().split(',');
    let count = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
        last.checked_sub(first)?.checked_add(1)
    };
    parts.filter_map(count).fold(0, u32::saturating_add)
}
