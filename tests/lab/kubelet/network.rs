//! A pod's place in the network: a namespace `nodeN.X` with the address 10.244.N.X, behind a link to
//! the bridge of its Node.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context as _, Result, bail};
use parking_lot::Mutex;
use tokio::process::Command;

use crate::Cli;

/// The addresses of one Node's pods.
#[derive(Debug)]
pub(crate) struct Addresses {
    node: u8,
    taken: Mutex<(u8, BTreeSet<u8>)>,
}

/// The last part of an address, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Address<'a> {
    all: &'a Addresses,
    pub(crate) last: u8,
}

impl Addresses {
    pub(crate) fn new(cli: &Cli) -> Self {
        Self {
            node: cli.number().unwrap_or(0),
            taken: Mutex::new((1, BTreeSet::new())),
        }
    }

    /// The one that was free for longest: no client may find another pod where it left one.
    pub(crate) fn take(&self) -> Result<Address<'_>> {
        let mut taken = self.taken.lock();
        let (before, all) = &mut *taken;
        let mut candidates = (*before + 1..=254).chain(2..=*before);
        let last = candidates.find(|last| !all.contains(last));
        let last = last.context("there is no free address")?;
        *before = last;
        all.insert(last);
        Ok(Address { all: self, last })
    }
}

impl Address<'_> {
    fn namespace(&self) -> String {
        format!("node{}.{}", self.all.node, self.last)
    }

    /// Lays the link; what is left of one that was half laid goes first.
    pub(crate) async fn lay(&self) -> Result<()> {
        let (namespace, last, node) = (self.namespace(), self.last, self.all.node);
        if Path::new(&self.file()).exists() {
            self.remove().await?;
        }
        ip(&["netns", "add", &namespace]).await?;
        let own = format!("pod{last}");
        let steps = [
            format!("link add {own} type veth peer name eth0 netns {namespace}"),
            format!("link set {own} master pods up"),
            format!("-n {namespace} link set lo up"),
            format!("-n {namespace} address add 10.244.{node}.{last}/24 dev eth0"),
            format!("-n {namespace} link set eth0 up"),
            format!("-n {namespace} route add default via 10.244.{node}.1"),
        ];
        for step in steps {
            ip(&step.split(' ').collect::<Vec<_>>()).await?;
        }
        Ok(())
    }

    /// The file by which a process gets in.
    pub(crate) fn file(&self) -> String {
        format!("/run/netns/{}", self.namespace())
    }

    /// Takes the link away.
    pub(crate) async fn remove(&self) -> Result<()> {
        ip(&["netns", "delete", &self.namespace()]).await
    }
}

impl std::fmt::Display for Address<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "10.244.{}.{}", self.all.node, self.last)
    }
}

impl Drop for Address<'_> {
    fn drop(&mut self) {
        self.all.taken.lock().1.remove(&self.last);
    }
}

/// Takes away what the kubelet before this one had.
pub(crate) async fn clean(cli: &Cli) -> Result<()> {
    let Some(number) = cli.number() else {
        return Ok(());
    };
    let list = Command::new("ip").args(["netns", "list"]).output().await?;
    let list = String::from_utf8_lossy(&list.stdout);
    let names = list.lines().filter_map(|line| line.split(' ').next());
    for name in names.filter(|name| name.starts_with(&format!("node{number}."))) {
        ip(&["netns", "delete", name]).await?;
    }
    Ok(())
}

async fn ip(arguments: &[&str]) -> Result<()> {
    let output = Command::new("ip")
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .await
        .context("ip")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("ip {}: {}", arguments.join(" "), said.trim());
    }
    Ok(())
}
