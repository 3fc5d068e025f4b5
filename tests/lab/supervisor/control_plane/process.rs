//! One program as a child process: started, stopped, killed, paused, its output in a log file.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::remains;

/// How long a program may take to end after SIGTERM. The API server and etcd wait for their
/// clients' watches to end, which they do not.
const GRACE: Duration = Duration::from_secs(2);

/// How much of a log is shown when its program fails.
const TAIL: u64 = 3000;

/// A program that is running, or has been and can be again.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) name: String,
    launch: Launch,
    log: PathBuf,
    child: Option<Child>,
}

/// What is started.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
    /// The folder of the lab, by which everything of it is found again.
    pub(crate) folder: PathBuf,
}

impl Process {
    pub(crate) fn new(name: &str, launch: Launch) -> Self {
        let log = launch.folder.join(format!("logs/{name}.log"));
        Self {
            name: name.to_owned(),
            launch,
            log,
            child: None,
        }
    }

    /// Starts it. In a process group of its own, so that Ctrl-C in a terminal does not reach it.
    pub(crate) fn start(&mut self) -> Result<()> {
        if self.is_running() {
            bail!("{} is running already", self.name);
        }
        let mut log = OpenOptions::new();
        let log = log.create(true).append(true).open(&self.log)?;
        let launch = &self.launch;
        let child = Command::new(&launch.program)
            .args(&launch.args)
            .envs(launch.env.iter().map(|(name, value)| (name, value)))
            .env(remains::MARK, &launch.folder)
            .current_dir(&launch.folder)
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("cannot start {}", launch.program.display()))?;
        self.child = Some(child);
        Ok(())
    }

    /// How it ended, if it did.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.as_mut()?.try_wait().ok().flatten()
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.is_some() && self.ended().is_none()
    }

    pub(crate) fn id(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Sends a signal to it and to whatever it has started.
    pub(crate) fn signal(&mut self, signal: Signal) -> Result<()> {
        let id = self.id().filter(|_| self.is_running());
        let id = id.with_context(|| format!("{} is not running", self.name))?;
        let group = Pid::from_raw(i32::try_from(id)?).context("process id 0")?;
        kill_process_group(group, signal).with_context(|| format!("cannot signal {}", self.name))
    }

    /// Asks it to end and waits; kills it when it does not.
    pub(crate) fn stop(&mut self) -> Result<()> {
        self.ask_to_end()?;
        self.wait(GRACE)
    }

    /// A paused process would not hear the request, so it is woken.
    pub(crate) fn ask_to_end(&mut self) -> Result<()> {
        self.signal(Signal::TERM)?;
        self.signal(Signal::CONT)
    }

    /// Waits for its end, and kills it when that does not come in time.
    pub(crate) fn wait(&mut self, grace: Duration) -> Result<()> {
        let begin = Instant::now();
        while self.is_running() && begin.elapsed() < grace {
            thread::sleep(Duration::from_millis(5));
        }
        if self.is_running() {
            self.signal(Signal::KILL)?;
        }
        if let Some(mut child) = self.child.take() {
            child.wait()?;
        }
        Ok(())
    }

    /// The end of what it wrote.
    pub(crate) fn log_tail(&self) -> String {
        let shown = tail(&self.log).unwrap_or_default();
        format!("The end of {}:\n{}", self.log.display(), shown.trim_end())
    }
}

fn tail(path: &Path) -> Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
