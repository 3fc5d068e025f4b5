//! The pods of the Node: one task for each, from the moment that it is bound here until it is gone.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::Result;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{Config, watcher};
use kube::{Api, Client, ResourceExt as _};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::network::Addresses;
use crate::{Cli, sandbox};

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
    let mut events = std::pin::pin!(watcher(pods, chosen).default_backoff().applied_objects());
    let mut known: HashMap<String, watch::Sender<Pod>> = HashMap::new();
    let mut tasks = JoinSet::new();
    loop {
        tokio::select! {
            event = events.next() => match event {
                Some(Ok(pod)) => {
                    let uid = pod.uid().unwrap_or_default();
                    let news = match known.get(&uid) {
                        Some(sender) => {
                            sender.send_replace(pod);
                            continue;
                        }
                        None => {
                            let (sender, news) = watch::channel(pod);
                            known.insert(uid.clone(), sender);
                            news
                        }
                    };
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
                Ok(uid) => {
                    known.remove(&uid);
                }
                Err(error) => eprintln!("a pod's task: {error}"),
            },
        }
    }
}
