//! Nodes that kwok plays: with them pods are scheduled and become Running.

use std::fs;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::ControlPlane;
use crate::Options;

/// Creates `node-1`, `node-2` and so on. Where there are Nodes on which programs run, those that are
/// played are `fake-1` and so on, and only for pods that say so.
pub(crate) fn create(plane: &ControlPlane, options: &Options) -> Result<()> {
    let items: Vec<Value> = (1..=options.nodes())
        .map(|number| match options.network {
            true => node(
                &format!("fake-{number}"),
                &json!([{"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"}]),
            ),
            false => node(&format!("node-{number}"), &json!([])),
        })
        .collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    let file = plane.folder().join("nodes.json");
    fs::write(&file, list.to_string())?;
    let file = file.to_str().context("the folder's name is no text")?;
    plane.kubectl(&["create", "--validate=false", "-f", file])
}

/// A Node that kwok makes Ready.
fn node(name: &str, taints: &Value) -> Value {
    let room = json!({"cpu": "32", "memory": "256Gi", "pods": "250", "ephemeral-storage": "100Gi"});
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {"kwok.x-k8s.io/node": "fake"},
            "labels": {"kubernetes.io/os": "linux", "kubernetes.io/hostname": name},
        },
        "spec": {"taints": taints},
        "status": {"capacity": room, "allocatable": room},
    })
}
