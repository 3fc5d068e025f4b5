//! Nodes that kwok plays: with them pods are scheduled and become Running.

use std::fs;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

use super::ControlPlane;

/// Creates `node-1`, `node-2` and so on.
pub(crate) fn create(plane: &ControlPlane, count: usize) -> Result<()> {
    let items: Vec<Value> = (1..=count).map(node).collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    let file = plane.folder().join("nodes.json");
    fs::write(&file, list.to_string())?;
    let output = Command::new(plane.lab.join("bin/kubectl"))
        .arg("--kubeconfig")
        .arg(plane.kubeconfig("admin"))
        .args(["create", "--validate=false", "-f"])
        .arg(&file)
        .stdin(Stdio::null())
        .output()
        .context("kubectl")?;
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr);
        bail!("cannot create Nodes: {}", error.trim());
    }
    Ok(())
}

/// A Node that kwok makes Ready.
fn node(number: usize) -> Value {
    let room = json!({"cpu": "32", "memory": "256Gi", "pods": "250"});
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": format!("node-{number}"),
            "annotations": {"kwok.x-k8s.io/node": "fake"},
            "labels": {"kubernetes.io/os": "linux", "kubernetes.io/hostname": format!("node-{number}")},
        },
        "status": {"capacity": room, "allocatable": room},
    })
}
