//! Nothing remains, also when the lab is killed and can do nothing about it.
//!
//! Every process of a lab has its folder in its environment. A watcher, the same program in a
//! process group of its own, holds the reading end of a pipe whose only writing end the lab has.
//! When that closes, the lab is gone (a child that has not become its program yet would still hold
//! it), and the watcher kills whatever carries the mark and removes the folder.

use std::fs;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use rustix::process::{Pid, Signal, kill_process};

/// The variable that every process of a lab has; its value is the folder.
pub(crate) const MARK: &str = "MESHGATE_LAB_FOLDER";

/// The watcher, from the lab's side. Dropped when the lab ends.
#[derive(Debug)]
pub(crate) struct Watcher(Child);

impl Watcher {
    /// Starts to watch over `folder`.
    pub(crate) fn start(folder: &Path) -> Result<Self> {
        let own = std::env::current_exe()?;
        let child = Command::new(own)
            .arg("watch")
            .arg(folder)
            // In a lab within a lab it must outlive the outer one.
            .env_remove(MARK)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .context("cannot start the watcher")?;
        Ok(Self(child))
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        drop(self.0.wait());
    }
}

/// What the watcher does.
pub(crate) fn watch(folder: &Path) -> Result<()> {
    let mut nothing = Vec::new();
    io::stdin().lock().read_to_end(&mut nothing)?;
    // A process that is just becoming its program shows no environment, so quiet counts twice.
    let mut quiet = 0;
    while quiet < 2 {
        let found = marked(folder)?;
        quiet = if found.is_empty() { quiet + 1 } else { 0 };
        for id in found {
            // Fails if it has ended meanwhile.
            kill_process(id, Signal::KILL).ok();
        }
        thread::sleep(Duration::from_millis(10));
    }
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    Ok(())
}

/// Processes that carry the folder in their environment.
fn marked(folder: &Path) -> Result<Vec<Pid>> {
    let mark = format!("{MARK}={}", folder.display());
    let is_marked = |id: i32| {
        let environment = fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
        environment
            .split(|byte| *byte == 0)
            .any(|variable| variable == mark.as_bytes())
    };
    let ids = fs::read_dir("/proc")?.filter_map(|entry| {
        let name = entry.ok()?.file_name();
        name.to_str()?.parse::<i32>().ok()
    });
    Ok(ids
        .filter(|id| is_marked(*id))
        .filter_map(Pid::from_raw)
        .collect())
}
