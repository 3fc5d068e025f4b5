//! A control plane for tests: one that they share, or one of their own.
//!
//! In the shared one each test works in namespaces of its own. What is cluster-wide belongs to
//! all tests: a test that changes it, or stops a component, takes [`Lab::alone`].

mod accounts;
mod call;
mod control;
mod dapr;
mod guests;
pub(crate) mod helm;
mod istiod;
mod kubectl;
mod linkerd;
mod meshgate;
mod objects;
mod pods;
mod supervisor;
mod tool;
pub(crate) mod version;

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::Value;
use tokio::sync::{Mutex, OnceCell, RwLock, RwLockReadGuard, RwLockWriteGuard};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

pub(crate) use self::accounts::Account;
pub(crate) use self::call::{Answer, Caller, Who};
pub(crate) use self::control::{Control, HOME};
pub(crate) use self::dapr::Dapr;
pub(crate) use self::guests::Guest;
pub(crate) use self::istiod::Istiod;
pub(crate) use self::kubectl::{Outcome, User};
pub(crate) use self::linkerd::LINKERD;
pub(crate) use self::meshgate::Meshgate;
pub(crate) use self::pods::{Injection, UNGUARDED, pod};
pub(crate) use self::supervisor::{Network, Options, Supervisor, example};

/// Longer than anything in a control plane takes that works, also on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The control plane that tests share. A static is never dropped: the pipe to its supervisor
/// closes with this process.
static SHARED: Mutex<Option<Arc<Supervisor>>> = Mutex::const_new(None);

/// Readers work side by side; a writer is alone.
static TURNS: RwLock<()> = RwLock::const_new(());

/// A running control plane, and how to talk to it. When a test panics that holds it, the
/// components' logs are kept and the test's output says where.
pub(crate) struct Lab {
    supervisor: Arc<Supervisor>,
    /// Made when it is first wanted, for the runtime of this test.
    client: OnceCell<Client>,
    turn: Turn,
}

enum Turn {
    Own,
    Shared(#[expect(dead_code, reason = "held, not read")] RwLockReadGuard<'static, ()>),
    Alone(#[expect(dead_code, reason = "held, not read")] RwLockWriteGuard<'static, ()>),
}

impl Lab {
    /// The shared control plane, for tests that keep to their own namespaces. One per test: a second
    /// would wait for the test that waits to be alone, and that for the first.
    pub(crate) async fn shared() -> Self {
        let turn = Turn::Shared(TURNS.read().await);
        Self::with(shared().await, turn)
    }

    /// The shared control plane with no other test in it. Its user leaves it as it was, and every
    /// component running. After a panic the next test gets a new one.
    pub(crate) async fn alone() -> Self {
        let turn = Turn::Alone(TURNS.write().await);
        Self::with(shared().await, turn)
    }

    /// A control plane of one's own. Dropped, it has ended.
    pub(crate) async fn own(options: Options) -> Self {
        Self::with(Arc::new(start(options).await), Turn::Own)
    }

    /// One that an earlier test had as its own, for tests that share more than a control plane.
    pub(crate) fn again(supervisor: &Arc<Supervisor>) -> Self {
        Self::with(Arc::clone(supervisor), Turn::Own)
    }

    fn with(supervisor: Arc<Supervisor>, turn: Turn) -> Self {
        Self {
            supervisor,
            client: OnceCell::new(),
            turn,
        }
    }

    /// A client of the admin's.
    pub(crate) async fn client(&self) -> &Client {
        let connect = async || {
            let file = self.kubeconfig(User::Admin);
            let file = Kubeconfig::read_from(file).unwrap();
            let options = KubeConfigOptions::default();
            let config = Config::from_custom_kubeconfig(file, &options).await;
            let mut config = config.unwrap();
            // It would try again by itself what is refused for now, for a minute or more.
            config.default_retry = false;
            Client::try_from(config).unwrap()
        };
        self.client.get_or_init(connect).await
    }

    /// `https://127.0.0.1:PORT`.
    pub(crate) fn url(&self) -> &str {
        self.supervisor.fact("/url")
    }

    /// Has the supervisor obey a line, as `restart kube-apiserver`; the orders are in
    /// `tests/lab/supervisor/orders.rs`.
    pub(crate) async fn order(&self, line: &str) -> Value {
        let (supervisor, own) = (Arc::clone(&self.supervisor), line.to_owned());
        let answer = spawn_blocking(move || supervisor.order(&own)).await;
        let answer = answer.unwrap();
        assert!(answer.get("error").is_none(), "{answer}");
        answer
    }

    pub(crate) fn supervisor(&self) -> &Arc<Supervisor> {
        &self.supervisor
    }
}

impl Drop for Lab {
    #[expect(clippy::print_stderr, reason = "where a failed test's logs are")]
    fn drop(&mut self) {
        if !thread::panicking() {
            return;
        }
        let kept = self.supervisor.keep_logs();
        eprintln!("the control plane's logs are in {}", kept.display());
        if matches!(self.turn, Turn::Alone(_)) {
            // No other test has a turn, so no other test holds this.
            drop(SHARED.try_lock().unwrap().take());
        }
    }
}

async fn shared() -> Arc<Supervisor> {
    let mut shared = SHARED.lock().await;
    match &*shared {
        Some(running) if running.is_running() => Arc::clone(running),
        _ => {
            let started = Arc::new(start(Options::default()).await);
            *shared = Some(Arc::clone(&started));
            started
        }
    }
}

async fn start(options: Options) -> Supervisor {
    let started = spawn_blocking(move || Supervisor::start(&options)).await;
    started.unwrap().unwrap_or_else(|error| panic!("{error:#}"))
}

/// Asks again and again until there is an answer.
pub(crate) async fn within<T>(
    limit: Duration,
    what: &str,
    mut look: impl AsyncFnMut() -> Option<T>,
) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(begin.elapsed() < limit, "not within {limit:?}: {what}");
        sleep(Duration::from_millis(50)).await;
    }
}
