//! What became of the creates, phase by phase: each counts where it began.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use serde::Serialize;
use serde_json::Value;

/// No developer waits longer gladly.
const SLOW: Duration = Duration::from_secs(1);
/// So many different messages are kept.
const SAMPLES: usize = 5;

/// What became of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Created,
    Bare(String),
    Refused(String),
    Failed(String),
    Unanswered(String),
}

/// One create: its number, and where it counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket {
    pub(crate) number: u64,
    phase: usize,
}

/// The counts of one phase.
#[derive(Clone, Debug, Default, Serialize)]
struct Phase {
    name: String,
    begun: u64,
    created: u64,
    bare: u64,
    refused: u64,
    failed: u64,
    unanswered: u64,
    /// Of those that were answered: longer than a second.
    slow: u64,
    worst_ms: u64,
    /// Messages, and how often.
    samples: BTreeMap<String, u64>,
}

/// All of them.
#[derive(Debug)]
pub(crate) struct Counts {
    phases: Mutex<Vec<Phase>>,
    tells: bool,
}

impl Counts {
    /// With one phase; `tells` prints what did not go well as it happens.
    pub(crate) fn new(tells: bool) -> Self {
        let first = Phase {
            name: "begin".to_owned(),
            ..Phase::default()
        };
        Self {
            phases: Mutex::new(vec![first]),
            tells,
        }
    }

    pub(crate) fn begin(&self, name: &str) {
        self.phases.lock().push(Phase {
            name: name.to_owned(),
            ..Phase::default()
        });
    }

    pub(crate) fn next(&self) -> Ticket {
        let mut phases = self.phases.lock();
        let number = phases.iter().map(|phase| phase.begun).sum();
        let phase = phases.len() - 1;
        phases[phase].begun += 1;
        Ticket { number, phase }
    }

    #[expect(clippy::print_stdout, reason = "for the person who watches")]
    pub(crate) fn add(&self, ticket: &Ticket, outcome: Outcome, took: Duration) {
        if self.tells && (outcome != Outcome::Created || took > SLOW) {
            println!("{:6} ms  {outcome:?}", took.as_millis());
        }
        let mut phases = self.phases.lock();
        let phase = &mut phases[ticket.phase];
        let (count, message) = match outcome {
            Outcome::Created => (&mut phase.created, None),
            Outcome::Bare(name) => (&mut phase.bare, Some(name)),
            Outcome::Refused(message) => (&mut phase.refused, Some(message)),
            Outcome::Failed(message) => (&mut phase.failed, Some(message)),
            Outcome::Unanswered(message) => (&mut phase.unanswered, Some(message)),
        };
        *count += 1;
        if let Some(message) = message
            && (phase.samples.len() < SAMPLES || phase.samples.contains_key(&message))
        {
            *phase.samples.entry(message).or_default() += 1;
        }
        phase.slow += u64::from(took > SLOW);
        phase.worst_ms = phase
            .worst_ms
            .max(u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::to_value(&*self.phases.lock()).unwrap_or_default()
    }

    pub(crate) fn sentence(&self) -> String {
        let phases = self.phases.lock();
        let sum = |of: fn(&Phase) -> u64| phases.iter().map(of).sum::<u64>();
        format!(
            "{} creates: {} created, {} failed, {} refused, {} bare, {} unanswered; {} took longer than 1 s, the longest {} ms",
            sum(|phase| phase.begun),
            sum(|phase| phase.created),
            sum(|phase| phase.failed),
            sum(|phase| phase.refused),
            sum(|phase| phase.bare),
            sum(|phase| phase.unanswered),
            sum(|phase| phase.slow),
            phases
                .iter()
                .map(|phase| phase.worst_ms)
                .max()
                .unwrap_or_default(),
        )
    }
}
