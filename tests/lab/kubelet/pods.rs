//! The pods of the Node: one task for each, from the moment that it is bound here until it is gone.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use anyhow::Result;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{Config, Event, watcher};
use kube::{Api, Client, ResourceExt as _};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::network::Addresses;
use crate::{Cli, now, sandbox};

/// What all pods of the Node share.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) cli: Cli,
    pub(crate) addresses: Addresses,
}

/// Never ends, but in an error.
pub(crate) async fn run(cli: &Cli, client: &Client) -> Result<()> {
    let node = Arc::new(Node {
        cli: cli.clone(),
        addresses: Addresses::new(cli),
    });
    let pods: Api<Pod> = Api::all(client.clone());
    // Short, so that after a cut it is soon opened anew.
    let chosen = Config::default()
        .fields(&format!("spec.nodeName={}", cli.node))
        .timeout(30);
    let mut events = std::pin::pin!(watcher(pods, chosen).default_backoff());
    let mut known: HashMap<String, watch::Sender<Pod>> = HashMap::new();
    // Those of a list that is just being read.
    let mut listed = HashSet::new();
    let mut tasks = JoinSet::new();
    loop {
        tokio::select! {
            event = events.next() => match event {
                Some(Ok(Event::Init)) => listed.clear(),
                Some(Ok(Event::InitDone)) => {
                    let gone = known.iter().filter(|(uid, _)| !listed.contains(*uid));
                    gone.for_each(|(_, sender)| is_gone(sender));
                }
                Some(Ok(Event::Delete(pod))) => {
                    if let Some(sender) = known.get(&pod.uid().unwrap_or_default()) {
                        is_gone(sender);
                    }
                }
                Some(Ok(Event::Apply(pod) | Event::InitApply(pod))) => {
                    let uid = pod.uid().unwrap_or_default();
                    listed.insert(uid.clone());
                    if let Some(sender) = known.get(&uid) {
                        sender.send_replace(pod);
                        continue;
                    }
                    let (sender, news) = watch::channel(pod);
                    known.insert(uid.clone(), sender);
                    let (node, client) = (Arc::clone(&node), client.clone());
                    tasks.spawn(async move {
                        sandbox::lives(&node, &client, news).await;
                        uid
                    });
                }
                Some(Err(error)) => eprintln!("watch: {error}"),
                None => return Ok(()),
            },
            Some(ended) = tasks.join_next() => match ended {
                Ok(uid) => drop(known.remove(&uid)),
                Err(error) => eprintln!("a pod's task: {error}"),
            },
        }
    }
}

/// It was deleted by force: no client waits for its end.
fn is_gone(sender: &watch::Sender<Pod>) {
    sender.send_modify(|pod| {
        pod.metadata.deletion_timestamp = Some(Time(now()));
        pod.metadata.deletion_grace_period_seconds = Some(0);
    });
}
