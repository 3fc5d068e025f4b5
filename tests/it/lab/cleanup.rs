//! Nothing remains of a control plane, however it ends.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::harness::{Lab, Network, Options, PATIENCE, Supervisor, within};

/// The processes that have the folder in their command line or in their environment.
fn processes_of(folder: &Path) -> Vec<String> {
    let folder = folder.to_str().unwrap();
    let ids = fs::read_dir("/proc")
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mentions = |process: &PathBuf| {
        ["cmdline", "environ"].iter().any(|file| {
            let content = fs::read(process.join(file)).unwrap_or_default();
            String::from_utf8_lossy(&content).contains(folder)
        })
    };
    let found = ids.filter(mentions);
    found.map(|process| process.display().to_string()).collect()
}

async fn start() -> Lab {
    let lab = Lab::own(Options::default()).await;
    let folder = lab.supervisor().folder();
    // Five components and the watcher.
    let found = processes_of(folder);
    assert!(found.len() >= 6, "{found:?}");
    assert!(folder.exists());
    lab
}

async fn is_gone(folder: &Path) {
    let nothing = async || (processes_of(folder).is_empty() && !folder.exists()).then_some(());
    let what = format!("nothing remains of {}", folder.display());
    within(PATIENCE, &what, nothing).await;
}

fn signal(name: &str, supervisor: &Supervisor) {
    let mut kill = Command::new("kill");
    let status = kill.arg(name).arg(supervisor.id().to_string()).status();
    assert!(status.unwrap().success());
}

#[tokio::test]
async fn when_its_user_is_gone() {
    let lab = start().await;
    let folder = lab.supervisor().folder().to_owned();
    lab.supervisor().stop();
    // Waited for: not a moment later.
    assert!(processes_of(&folder).is_empty() && !folder.exists());
}

#[tokio::test]
async fn when_it_is_interrupted() {
    let lab = start().await;
    signal("-INT", lab.supervisor());
    is_gone(lab.supervisor().folder()).await;
}

#[tokio::test]
async fn when_it_is_killed() {
    let lab = start().await;
    // What cannot hear a request to end must go as well.
    lab.order("pause etcd").await;
    lab.order(r#"add guest {"program": "sleep", "args": ["1000"]}"#)
        .await;
    signal("-KILL", lab.supervisor());
    is_gone(lab.supervisor().folder()).await;
}

/// Its Nodes, their pods and the end of the forwarded port outside of its namespaces as well.
#[tokio::test]
async fn when_one_with_a_network_is_killed() {
    let options = Options {
        network: Some(Network { node_grace: None }),
        ..Options::default()
    };
    let lab = Lab::own(options).await;
    let folder = lab.supervisor().folder();
    let before = processes_of(folder).len();
    lab.order("install injector").await;
    assert!(processes_of(folder).len() >= before + 2);
    signal("-KILL", lab.supervisor());
    is_gone(folder).await;
}

#[tokio::test]
async fn when_it_does_not_start_and_it_says_why() {
    let options = Options {
        api_server_flags: vec!["--no-such-flag".to_owned()],
        ..Options::default()
    };
    let start = tokio::task::spawn_blocking(move || Supervisor::start(&options).err());
    let error = start.await.unwrap().unwrap().to_string();
    assert!(
        error.contains("kube-apiserver ended (exit status: 1)"),
        "{error}"
    );
    assert!(error.contains("unknown flag: --no-such-flag"), "{error}");
    let before = error.split_once("/logs/kube-apiserver.log").unwrap().0;
    let folder = before.rsplit(' ').next().unwrap();
    is_gone(Path::new(folder)).await;
}
