//! What a pod's create takes: without meshgate, and with it in its two forms.

use std::time::{Duration, Instant};

use kube::Client;
use tokio::time::sleep;

use super::apiserver::Spent;
use super::meshgate::Meshgate;
use super::plane::Plane;
use super::pods::{self, MESHED, PLAIN, Storing};
use super::{Result, say};

/// Creates that come before those that are measured.
const WARM_UP: u32 = 30;
/// The API server's own caches are a matter of seconds.
const PATIENCE: Duration = Duration::from_secs(30);

/// Who is registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    None,
    Webhook,
    Policy,
}

impl Form {
    pub(super) const ALL: [Self; 3] = [Self::None, Self::Webhook, Self::Policy];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::None => "no meshgate",
            Self::Webhook => "gate and check as webhooks",
            Self::Policy => "gate as Ignore, check as policy",
        }
    }

    /// How many calls a meshed pod's create has to be, to gate and check.
    fn calls(self) -> [u32; 2] {
        match self {
            Self::None => [0, 0],
            Self::Webhook => [1, 1],
            Self::Policy => [1, 0],
        }
    }
}

/// What was measured of one form.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) meshed: Vec<Duration>,
    pub(super) plain: Vec<Duration>,
    /// What the API server spent in the creates of each kind.
    pub(super) in_meshed: Spent,
    pub(super) in_plain: Spent,
}

/// Measures all forms, round by round.
pub(super) async fn measure(plane: &mut Plane, rounds: usize, creates: usize) -> Result<[Seen; 3]> {
    let mut all = [Seen::default(), Seen::default(), Seen::default()];
    for round in 0..rounds {
        say(&format!(
            "creates with and without: round {} of {rounds}",
            round + 1
        ));
        // Every second round the other way round, so that drift hits all alike.
        let mut order = [0, 1, 2];
        if round % 2 == 1 {
            order.reverse();
        }
        for index in order {
            let form = Form::ALL[index];
            let meshgate = match form {
                Form::None => None,
                Form::Webhook => Some(Meshgate::start(plane, "webhook")?),
                Form::Policy => Some(Meshgate::start(plane, "policy")?),
            };
            if meshgate.is_some() {
                keeps_bare_pods_out(plane).await?;
            }
            warm_up(&plane.client, form).await?;
            one(&plane.client, creates, &mut all[index]).await?;
            if let Some(meshgate) = meshgate {
                meshgate.uninstall(plane)?;
            }
        }
    }
    Ok(all)
}

/// Waits until a pod is refused that the injector, which is gone meanwhile, does not inject.
async fn keeps_bare_pods_out(plane: &mut Plane) -> Result<()> {
    plane.order("stop linkerd")?;
    let begin = Instant::now();
    while create_one(&plane.client).await? {
        if begin.elapsed() > PATIENCE {
            return Err("bare pods are admitted".into());
        }
        sleep(Duration::from_millis(50)).await;
    }
    plane.order("start linkerd")?;
    Ok(())
}

/// Whether a meshed pod is admitted, if only as a dry run.
async fn create_one(client: &Client) -> Result<bool> {
    let created = pods::create(client, MESHED, Storing::DryRun).await?;
    Ok(created.pod.is_ok())
}

/// Creates until the API server asks those that it is to ask, and no other webhook of ours.
async fn warm_up(client: &Client, form: Form) -> Result<()> {
    let begin = Instant::now();
    loop {
        let before = Spent::so_far(client).await?;
        let mut admitted = 0;
        for _ in 0..WARM_UP {
            pods::create(client, PLAIN, Storing::DryRun).await?.pod?;
            let created = pods::create(client, MESHED, Storing::DryRun).await?.pod;
            admitted += u32::from(created.is_ok_and(|pod| pods::is_injected(&pod)));
        }
        let spent = Spent::so_far(client).await?.since(&before);
        let expected = form.calls().map(|calls| f64::from(calls * WARM_UP));
        let seen = [spent.count(gate), spent.count(check)];
        if admitted == WARM_UP && seen == expected {
            return Ok(());
        }
        if begin.elapsed() > PATIENCE {
            let name = form.name();
            return Err(format!(
                "{name}: of {WARM_UP} creates {admitted} were injected; gate and check were \
                 asked {seen:?} times, expected {expected:?}"
            )
            .into());
        }
        sleep(Duration::from_millis(200)).await;
    }
}

async fn one(client: &Client, creates: usize, seen: &mut Seen) -> Result<()> {
    // In bundles, so that the API server's counters tell one kind from the other.
    for _ in 0..2 {
        for (namespace, times, spent) in [
            (MESHED, &mut seen.meshed, &mut seen.in_meshed),
            (PLAIN, &mut seen.plain, &mut seen.in_plain),
        ] {
            let before = Spent::so_far(client).await?;
            for _ in 0..creates / 2 {
                let created = pods::create(client, namespace, Storing::DryRun).await?;
                created.pod?;
                times.push(created.took);
            }
            spent.add(&Spent::so_far(client).await?.since(&before));
        }
    }
    Ok(())
}

/// Entries of the gate.
pub(super) fn gate(name: &str) -> bool {
    name.contains("gate")
}

/// Entries of the check.
pub(super) fn check(name: &str) -> bool {
    name.contains("check")
}
