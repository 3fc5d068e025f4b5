//! Makes controllers whose pods were refused try again as soon as the injectors are usable: their own back-off
//! grows to 1000 s. One annotation on the object that makes the pods does it (case 64).

pub mod blocked;
mod plan;
mod send;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use jiff::{SignedDuration, Timestamp, Unit};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use meshgate_core::list::listed;
use meshgate_core::names::CONFIGURATION;

use super::Context;
use crate::cluster::store::Store;
use crate::cluster::workloads::{Uid, Workloads};
use crate::cluster::{Cluster, probe, watch};
use crate::kube_api::event::{self, Event};
use crate::kube_api::kind::{Id, Kind};
use crate::lifecycle::wall_clock;

use self::blocked::Set;
use self::plan::{Outcome, Wake, Waves};

/// Writes under way at a time: an API server that answers slowly gets fewer of them.
const AT_ONCE: usize = 4;
/// Between two plans. One takes microseconds while no owner lacks pods.
const LOOK: Duration = Duration::from_millis(200);
/// What an earlier leader wrote this long ago belongs to a wave that may go on.
const RECENT: SignedDuration = SignedDuration::from_secs(60);

/// Runs until the token is cancelled.
pub(super) async fn run(context: Arc<Context>, stop: CancellationToken) {
    if !context.injectors.wakes() {
        return stop.cancelled().await;
    }
    let store = Store::of_whole(Arc::clone(&context.injectors));
    let cluster = Arc::new(Cluster::new(store));
    let mut waker = Waker::new(&context, &cluster);
    let view = watch::run(context.client.clone(), Arc::clone(&cluster), stop.clone());
    let probes = probe::run(Arc::clone(&cluster), stop.clone());
    let wake = stop.run_until_cancelled(waker.keep());
    tokio::join!(view, probes, wake);
}

/// The time, as annotations have it.
fn now() -> Timestamp {
    let now = wall_clock();
    now.round(Unit::Millisecond).unwrap_or(now)
}

type Sent = (Uid, Outcome, Option<String>);

struct Waker {
    context: Arc<Context>,
    /// Which injectors there are, and which can be tried.
    cluster: Arc<Cluster>,
    workloads: Workloads,
    waves: Waves,
    /// Whether an earlier leader's waves were looked for.
    has_resumed: bool,
    queue: VecDeque<Wake>,
    in_flight: FuturesUnordered<BoxFuture<'static, Sent>>,
    /// Events that are being written.
    telling: FuturesUnordered<BoxFuture<'static, ()>>,
    told_problem: String,
}

impl Waker {
    fn new(context: &Arc<Context>, cluster: &Arc<Cluster>) -> Self {
        Self {
            workloads: Workloads::new(Arc::clone(&context.injectors)),
            context: Arc::clone(context),
            cluster: Arc::clone(cluster),
            waves: Waves::default(),
            has_resumed: false,
            queue: VecDeque::new(),
            in_flight: FuturesUnordered::new(),
            telling: FuturesUnordered::new(),
            told_problem: String::new(),
        }
    }

    async fn keep(&mut self) {
        let injectors = &self.context.injectors;
        let mut events = watch::Following::start(&self.context.client, injectors);
        let mut looks = tokio::time::interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                noted = events.next(&mut self.workloads, now) => match noted {
                    watch::Noted::Pod(pod) => self.came(pod),
                    watch::Noted::Problem(problem) => self.problem(problem),
                    watch::Noted::Other => {}
                },
                Some(sent) = self.in_flight.next() => self.sent(sent),
                Some(()) = self.telling.next() => {}
                _ = looks.tick() => self.look(now()),
            }
            self.send();
        }
    }

    /// Plans, once the cluster is known.
    fn look(&mut self, now: Timestamp) {
        if !self.cluster.is_synced() || !self.workloads.is_listed() {
            return;
        }
        let store = self.cluster.read();
        if !std::mem::replace(&mut self.has_resumed, true) {
            resume(&mut self.waves, &self.workloads, &store, now);
        }
        let blocked = blocked::all(&self.workloads, &store, now);
        let mut seen: BTreeMap<usize, (usize, Timestamp)> = BTreeMap::new();
        for one in &blocked {
            let (count, oldest) = seen.entry(one.injector).or_insert((0, one.since));
            (*count, *oldest) = (*count + 1, one.since.min(*oldest));
        }
        let injectors = store.injectors().iter().enumerate();
        let injectors = injectors.filter(|(_, one)| one.is_looked_at());
        self.context
            .metrics
            .wake
            .blocked(injectors.map(|(number, one)| {
                let (count, age) = seen.get(&number).map_or((0, 0), |(count, oldest)| {
                    (*count, now.duration_since(*oldest).as_secs())
                });
                (one.profile.name.as_str(), count, age)
            }));
        let wakes = self.waves.plan(&blocked, now);
        for wake in wakes.iter().filter(|wake| wake.is_scout) {
            let injectors = names(&wake.set, &store);
            tracing::info!(injectors, "waking one owner to try the injectors");
        }
        self.queue.extend(wakes);
    }

    /// A new pod: with its sidecars, it may be the proof on which others wait.
    fn came(&mut self, pod: Uid) {
        // Most pods come while no owner waits.
        if !self.waves.await_proof() {
            return;
        }
        let now = now();
        let (injectors, count) = {
            let store = self.cluster.read();
            let proved = self.workloads.pod(pod);
            let proved = proved.and_then(|pod| blocked::proved(pod, &self.workloads, &store, now));
            let Some(set) = proved.filter(|set| self.waves.proved(set, now)) else {
                return;
            };
            let blocked = blocked::all(&self.workloads, &store, now);
            let count = blocked.iter().filter(|one| one.set == set).count();
            (names(&set, &store), count)
        };
        tracing::info!(
            injectors,
            owners = count,
            "a pod has its sidecars: waking blocked owners"
        );
        if count == 0 {
            return;
        }
        let event = Event {
            reason: event::WAKING,
            message: format!(
                "A pod came with its sidecars of {injectors}, so meshgate makes the controllers of {count} blocked \
                 owners try again"
            ),
            is_warning: false,
        };
        let client = self.context.client.clone();
        // The wave does not wait for it.
        self.telling.push(Box::pin(async move {
            let id = Id::new(Kind::MutatingWebhooks, CONFIGURATION);
            if let Err(error) = event::record(&client, &id, None, &event).await {
                tracing::debug!("{error}");
            }
        }));
    }

    /// Sends what was planned, a few at a time, unless its injectors have gone away meanwhile.
    fn send(&mut self) {
        while self.in_flight.len() < AT_ONCE {
            let Some(wake) = self.queue.pop_front() else {
                return;
            };
            let owner = self.workloads.owner(wake.uid);
            let is_usable = blocked::is_usable(&wake.set, &self.cluster.read());
            let Some(owner) = owner.filter(|_| is_usable) else {
                self.waves.answered(wake.uid, Outcome::Dropped, now());
                continue;
            };
            let client = self.context.client.clone();
            let sent = send::wake(client, wake.uid, owner.clone(), now());
            self.in_flight.push(Box::pin(sent));
        }
    }

    fn sent(&mut self, (uid, outcome, problem): Sent) {
        self.waves.answered(uid, outcome, now());
        let result = match outcome {
            Outcome::Accepted => "accepted",
            Outcome::Conflict | Outcome::Dropped => "conflict",
            Outcome::Throttled(_) => "throttled",
            Outcome::Failed => "failed",
        };
        self.context.metrics.wake.sent(result);
        if let Some(problem) = problem {
            self.problem(problem);
        }
    }

    fn problem(&mut self, problem: String) {
        if self.told_problem != problem {
            tracing::warn!("waking refused controllers: {problem}; trying again");
            self.told_problem = problem;
        }
    }
}

/// The names of the injectors of a set.
fn names(set: &Set, store: &Store) -> String {
    let names = set.iter().filter_map(|(number, instance)| {
        let name = &store.injectors().get(*number)?.profile.name;
        Some(match instance {
            Some(instance) => format!("{name} {instance}"),
            None => name.clone(),
        })
    });
    listed(names)
}

/// Reads the waves that an earlier leader began from the annotations that it wrote: what it has woken is not woken
/// again, and its proof counts.
fn resume(waves: &mut Waves, view: &Workloads, store: &Store, now: Timestamp) {
    let mut begun: BTreeMap<Uid, (Timestamp, Set)> = BTreeMap::new();
    for (uid, owner) in view.owners() {
        let recent = owner.woken.filter(|at| now.duration_since(*at) < RECENT);
        let Some(at) = recent else {
            continue;
        };
        let set = blocked::awaited(owner, store, now);
        waves.resume(set.clone(), at, at);
        begun.insert(uid, (at, set));
    }
    // Without this no pod is looked at.
    if begun.is_empty() {
        return;
    }
    for pod in view.pods() {
        // API servers write whole seconds.
        let is_later = |(at, _): &&(Timestamp, Set)| pod.created.as_second() >= at.as_second();
        let own = pod.owner.and_then(|owner| begun.get(&owner));
        if own.filter(is_later).is_some()
            && let Some(set) = blocked::proved(pod, view, store, now)
        {
            waves.proved(&set, now);
        }
    }
}
