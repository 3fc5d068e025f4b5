//! From the injector's slice to the first pod.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::Result;
use super::plane::Plane;
use super::pods::{self, MESHED, Storing};

/// Pause between two tries.
const PAUSE: Duration = Duration::from_millis(2);
/// A refusal that does not come within this time will not.
const PATIENCE: Duration = Duration::from_secs(10);

/// What the rounds showed.
#[derive(Default)]
pub(super) struct Seen {
    /// From the moment that the API server has taken the slice to the answer that has the pod.
    pub(super) first: Vec<Duration>,
    /// Another create right after it.
    pub(super) next: Vec<Duration>,
    pub(super) refused: usize,
}

pub(super) async fn measure(plane: &Plane, rounds: usize) -> Result<Seen> {
    let client = &plane.client;
    let mut seen = Seen::default();
    for _ in 0..rounds {
        pods::set_ready(client, false).await?;
        let begin = Instant::now();
        while pods::create(client, MESHED, Storing::DryRun)
            .await?
            .pod
            .is_ok()
        {
            if begin.elapsed() > PATIENCE {
                return Err("pods are admitted without an injector".into());
            }
            sleep(PAUSE).await;
        }
        pods::set_ready(client, true).await?;
        let ready = Instant::now();
        let pod = loop {
            match pods::create(client, MESHED, Storing::Stored).await?.pod {
                Ok(pod) => break pod,
                Err(error) if ready.elapsed() > PATIENCE => return Err(error.into()),
                Err(_) => seen.refused += 1,
            }
            sleep(PAUSE).await;
        };
        seen.first.push(ready.elapsed());
        if !pods::is_injected(&pod) {
            return Err(format!("a bare pod: {pod}").into());
        }
        let another = pods::create(client, MESHED, Storing::Stored).await?;
        seen.next.push(another.took);
        pods::delete(client, &pod).await?;
        pods::delete(client, &another.pod?).await?;
    }
    Ok(seen)
}
