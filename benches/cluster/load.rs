//! Many creates a second.

use std::time::{Duration, Instant};

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tokio::time::{MissedTickBehavior, interval};

use super::Result;
use super::meshgate::{Meshgate, Usage};
use super::plane::Plane;
use super::pods::{self, Created, MESHED, Storing};

/// Creates that may be on their way at once. A caller that wants more has to wait.
const AT_ONCE: usize = 64;

/// What came of it.
pub(super) struct Seen {
    pub(super) length: Duration,
    pub(super) times: Vec<Duration>,
    pub(super) refused: usize,
    pub(super) before: Usage,
    pub(super) after: Usage,
}

pub(super) async fn measure(
    plane: &Plane,
    meshgate: &Meshgate,
    per_second: u32,
    length: Duration,
) -> Result<Seen> {
    let before = meshgate.usage()?;
    let begin = Instant::now();
    let mut ticks = interval(Duration::from_secs(1) / per_second);
    // Those that were late are caught up with.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut under_way = FuturesUnordered::new();
    let (mut times, mut refused) = (Vec::new(), 0);
    let mut note = |created: Result<Created>| -> Result<()> {
        let created = created?;
        match created.pod {
            Ok(_) => times.push(created.took),
            Err(_) => refused += 1,
        }
        Ok(())
    };
    while begin.elapsed() < length {
        tokio::select! {
            _ = ticks.tick(), if under_way.len() < AT_ONCE => {
                under_way.push(pods::create(&plane.client, MESHED, Storing::DryRun));
            }
            Some(created) = under_way.next() => note(created)?,
        }
    }
    while let Some(created) = under_way.next().await {
        note(created)?;
    }
    Ok(Seen {
        length: begin.elapsed(),
        times,
        refused,
        before,
        after: meshgate.usage()?,
    })
}
