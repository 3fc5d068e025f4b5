//! The load of `tests/lab/load` as a child process.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::Duration;

use serde::Deserialize;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::lab::harness::{Lab, PATIENCE, User, example, within};

/// Creates that are begun all the while.
pub(super) struct Load {
    _child: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
}

/// What became of the creates of one phase; the words are those of `tests/lab/load`.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Phase {
    pub(super) name: String,
    pub(super) begun: u64,
    pub(super) created: u64,
    pub(super) bare: u64,
    pub(super) refused: u64,
    pub(super) failed: u64,
    pub(super) unanswered: u64,
    pub(super) slow: u64,
    pub(super) worst_ms: u64,
    pub(super) samples: BTreeMap<String, u64>,
}

impl Phase {
    /// Nothing failed, nothing was refused, whatever it took.
    pub(super) fn all_created(&self) {
        let (bare, samples) = (self.bare, &self.samples);
        assert!(
            self.begun > 0 && self.created == self.begun,
            "{bare} bare, {samples:?}: {self:?}"
        );
    }

    /// As [`Phase::all_created`], but that the API server itself was away for some.
    pub(super) fn all_created_that_were_answered(&self) {
        let answered = self.created + self.unanswered;
        let samples = &self.samples;
        assert!(
            self.begun > 0 && answered == self.begun,
            "{samples:?} {self:?}"
        );
    }
}

impl Load {
    /// Begins, and waits until creates are answered.
    pub(super) async fn start(lab: &Lab, namespace: &str, requires: &str) -> Self {
        let mut child = Command::new(example("load"))
            .arg(namespace)
            .arg("--obey")
            .arg(format!("--requires={requires}"))
            .arg("--kubeconfig")
            .arg(lab.kubeconfig(User::Admin))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut load = Self {
            _child: child,
            input,
            output,
        };
        load.goes_on(20).await;
        load
    }

    /// Counts anew from now on.
    pub(super) async fn phase(&mut self, name: &str) {
        self.says(&format!("phase {name}\n")).await;
    }

    /// Waits until so many more were answered in this phase.
    pub(super) async fn goes_on(&mut self, count: u64) {
        let before = self.now().await.begun;
        within(PATIENCE, "the load goes on", async || {
            (self.now().await.begun >= before + count).then_some(())
        })
        .await;
    }

    /// Waits for so long while the load goes on: by what it does, not by the clock alone.
    pub(super) async fn goes_on_for(&mut self, time: Duration) {
        let creates = time.as_secs() * 20;
        self.goes_on(creates.max(1)).await;
    }

    /// The counts of this phase so far.
    pub(super) async fn now(&mut self) -> Phase {
        self.says("count\n").await;
        self.answer().await.pop().unwrap()
    }

    /// Ends it, waits for the last answer, and says what became of all.
    pub(super) async fn end(mut self) -> Vec<Phase> {
        drop(self.input.take());
        self.answer().await
    }

    async fn says(&mut self, line: &str) {
        let input = self.input.as_mut().unwrap();
        input.write_all(line.as_bytes()).await.unwrap();
    }

    async fn answer(&mut self) -> Vec<Phase> {
        let line = self.output.next_line().await.unwrap();
        serde_json::from_str(&line.expect("the load runs")).unwrap()
    }
}
