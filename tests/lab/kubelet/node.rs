//! The Node itself: made if it is not there, and its signs of life.

use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::time::{interval, sleep, timeout};

use crate::{CALL, Cli, now};

/// Makes the Node, once the API server lets it.
pub(crate) async fn register(cli: &Cli, client: &Client) {
    let nodes: Api<Node> = Api::all(client.clone());
    let apply = PatchParams::apply("kubelet").force();
    loop {
        match timeout(
            CALL,
            nodes.patch(&cli.node, &apply, &Patch::Apply(&node(cli))),
        )
        .await
        {
            Ok(Ok(_)) => return,
            Ok(Err(error)) => eprintln!("cannot register: {error}"),
            Err(_) => eprintln!("cannot register: no answer"),
        }
        sleep(Duration::from_millis(200)).await;
    }
}

/// Renews the Lease and the Node's status; never ends. A call that got no answer is made again by
/// another connection, as kubelets do.
pub(crate) async fn lives(cli: &Cli) -> Result<()> {
    let mut ticks = interval(Duration::from_secs(cli.interval));
    let mut client = cli.connect().await?;
    loop {
        ticks.tick().await;
        match timeout(CALL, gives_a_sign(cli, &client)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => eprintln!("no sign of life: {error}"),
            Err(_) => {
                eprintln!("no sign of life: no answer");
                client = cli.connect().await?;
            }
        }
    }
}

async fn gives_a_sign(cli: &Cli, client: &Client) -> kube::Result<()> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), "kube-node-lease");
    let apply = PatchParams::apply("kubelet").force();
    // With six digits, as the API has them.
    let time = format!("{:.6}", now());
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": cli.node},
        "spec": {"holderIdentity": cli.node, "leaseDurationSeconds": 40, "renewTime": time},
    });
    leases
        .patch(&cli.node, &apply, &Patch::Apply(&lease))
        .await?;
    let nodes: Api<Node> = Api::all(client.clone());
    let status = Patch::Strategic(json!({"status": status(cli)}));
    nodes
        .patch_status(&cli.node, &PatchParams::default(), &status)
        .await?;
    Ok(())
}

fn node(cli: &Cli) -> Value {
    let zone = cli
        .number()
        .map_or_else(|| "zone-0".to_owned(), |number| format!("zone-{number}"));
    let mut node = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": cli.node,
            "labels": {
                "kubernetes.io/hostname": cli.node,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "topology.kubernetes.io/zone": zone,
            },
        },
    });
    if cli.number().is_none() {
        node["metadata"]["labels"]["node-role.kubernetes.io/control-plane"] = json!("");
        let taint = json!({"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"});
        node["spec"] = json!({"taints": [taint]});
    }
    node
}

fn status(cli: &Cli) -> Value {
    let room = json!({"cpu": "32", "memory": "64Gi", "pods": "250", "ephemeral-storage": "100Gi"});
    let time = now();
    json!({
        "capacity": room,
        "allocatable": room,
        "addresses": [
            {"type": "InternalIP", "address": cli.address()},
            {"type": "Hostname", "address": cli.node},
        ],
        "conditions": [{
            "type": "Ready",
            "status": "True",
            "reason": "KubeletReady",
            "message": "a stand-in for a kubelet is ready",
            "lastHeartbeatTime": time,
        }],
        "nodeInfo": {
            "architecture": "amd64",
            "operatingSystem": "linux",
            "kubeletVersion": "v1.37.2",
            "containerRuntimeVersion": "none://0",
            "kernelVersion": "", "osImage": "", "machineID": "", "systemUUID": "", "bootID": "",
            "kubeProxyVersion": "",
        },
    })
}
