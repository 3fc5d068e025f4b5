//! One create, and what became of it.

use std::time::Duration;

use hyper::Request;
use kube::Client;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use crate::Cli;
use crate::counts::{Counts, Outcome, Ticket};

/// The API server waits 10 s for a webhook by default, and asks several.
const PATIENCE: Duration = Duration::from_secs(35);
/// Every so many is stored.
const STORED: u64 = 10;

/// What is created.
pub(crate) struct Create {
    client: Client,
    path: String,
    requires: String,
    ticket: Ticket,
}

impl Create {
    pub(crate) fn new(client: &Client, cli: &Cli, ticket: Ticket) -> Self {
        Self {
            client: client.clone(),
            path: format!("/api/v1/namespaces/{}/pods", cli.namespace),
            requires: cli.requires.clone(),
            ticket,
        }
    }

    pub(crate) async fn runs(self, counts: &Counts) {
        let is_stored = self.ticket.number.is_multiple_of(STORED);
        let pod = json!({
            "metadata": {"generateName": "load-"},
            "spec": {
                "containers": [{"name": "load", "image": "example.com/load"}],
                "schedulerName": "none",
            },
        });
        let dry = if is_stored { "" } else { "?dryRun=All" };
        let request = Request::post(format!("{}{dry}", self.path))
            .header("Content-Type", "application/json")
            .body(pod.to_string().into_bytes());
        let Ok(request) = request else { return };
        let begin = Instant::now();
        let answer = timeout(PATIENCE, self.client.request::<Value>(request)).await;
        let took = begin.elapsed();
        let outcome = match &answer {
            Err(_) => Outcome::Unanswered(format!("no answer within {PATIENCE:?}")),
            Ok(Ok(pod)) if self.is_bare(pod) => Outcome::Bare(pod["metadata"]["name"].to_string()),
            Ok(Ok(_)) => Outcome::Created,
            Ok(Err(kube::Error::Api(status))) => of_status(&status.message),
            Ok(Err(error)) => Outcome::Unanswered(chain(error)),
        };
        counts.add(&self.ticket, outcome, took);
        if let (true, Ok(Ok(pod))) = (is_stored, answer) {
            self.delete(pod["metadata"]["name"].as_str().unwrap_or_default())
                .await;
        }
    }

    fn is_bare(&self, pod: &Value) -> bool {
        let containers = pod["spec"]["containers"].as_array();
        let mut names = containers
            .into_iter()
            .flatten()
            .map(|container| &container["name"]);
        !self.requires.is_empty() && !names.any(|name| *name == json!(self.requires))
    }

    async fn delete(&self, name: &str) {
        let request = Request::delete(format!("{}/{name}", self.path))
            .header("Content-Type", "application/json")
            .body(json!({"gracePeriodSeconds": 0}).to_string().into_bytes());
        if let Ok(request) = request {
            // What stays disturbs no test.
            drop(timeout(PATIENCE, self.client.request::<Value>(request)).await);
        }
    }
}

fn of_status(message: &str) -> Outcome {
    let has = |words: &[&str]| words.iter().any(|word| message.contains(word));
    if has(&["failed calling webhook", "failed to call webhook"]) {
        Outcome::Failed(message.to_owned())
    } else if has(&["denied the request", "denied request"]) {
        Outcome::Refused(message.to_owned())
    } else {
        Outcome::Unanswered(message.to_owned())
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        text = format!("{text}: {source}");
        next = source.source();
    }
    text
}
