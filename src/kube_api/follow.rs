//! Follows the objects of a kind with kube-runtime's watcher. All watches of meshgate go through here, by
//! one policy for silence, pauses and new lists: those of the view, of the controllers, and of replicas for
//! their certificate.
//!
//! Own pieces, on top of the library's:
//! - [`listen`](super::listen) hears bookmarks, gives a silent API server up, and asks for a new list after a
//!   long silence.
//! - Pauses grow to 1 s instead of 60 s, so that a view is right within 5 s of the API server's return; the
//!   API server may ask for more.
//! - The library asks for a version again for ever if the API server refuses it with a status. Here a new
//!   list follows.

use std::error::Error;
use std::fmt::Debug;
use std::future::ready;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::iter::successors;
use std::time::Duration;

use futures::stream::{self, BoxStream, StreamExt};
use kube::error::Status;
use kube::runtime::utils::ResetTimerBackoff;
use kube::runtime::watcher::{self, Config, Event, ExponentialBackoff, watcher};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio::time::sleep;

use super::backoff::doubling;
use super::listen::{Line, Sign, TooOld};

/// The first pause; each is up to twice as long by chance, so that replicas do not try together.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// Five kinds of three replicas make some twenty tries a second, each of which costs next to nothing.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// Pauses begin anew after so long without a failure.
const RESET: Duration = Duration::from_secs(10);
/// Most that the API server may make us wait by its `retryAfterSeconds`.
const LONGEST_ASKED: Duration = Duration::from_secs(30);
/// How many seconds the API server is asked to keep a watch open: below what load balancers allow.
const WATCH: std::ops::Range<u64> = 150..180;

/// Why a kind cannot be followed for now.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Failure {
    /// The cause alone: what the library says before it repeats it.
    pub text: String,
    /// The HTTP status of the API server's answer, if there was one.
    pub code: Option<u16>,
    /// Events may be missing: the API server has forgotten, or never had, the version that was asked for, or
    /// said nothing for too long.
    pub is_expired: bool,
    pub(super) retry_after: Option<Duration>,
    needs_list: bool,
}

impl Failure {
    /// Of an error of kube or kube-runtime.
    pub fn of(error: &(dyn Error + 'static)) -> Self {
        let causes = successors(Some(error), |&cause| cause.source());
        let cause = causes.last().unwrap_or(error);
        if let Some(status) = cause.downcast_ref::<Box<Status>>() {
            return Self::of_status(status);
        }
        let is_expired = cause.is::<TooOld>();
        let is_unreadable = cause.is::<serde_json::Error>();
        let what = if is_unreadable {
            "it cannot be read: "
        } else {
            ""
        };
        Self {
            text: format!("{what}{cause}"),
            code: None,
            is_expired,
            retry_after: None,
            // The library goes on behind an event that cannot be read.
            needs_list: is_unreadable || is_expired,
        }
    }

    fn of_status(status: &Status) -> Self {
        let details = status.details.as_ref();
        let is_too_new = details.is_some_and(|details| {
            let mut causes = details.causes.iter();
            causes.any(|cause| cause.reason == "ResourceVersionTooLarge")
        });
        let code = status.code;
        let mut text = format!("the API server answered {code}");
        if !status.message.is_empty() {
            text = format!("{text}: {}", status.message);
        }
        let wait = details.map_or(0, |details| details.retry_after_seconds);
        let is_expired = code == 410 || is_too_new;
        Self {
            text,
            code: Some(code),
            is_expired,
            retry_after: (wait > 0).then(|| Duration::from_secs(wait.into()).min(LONGEST_ASKED)),
            // 400, 422: the version itself may be what is wrong with the question.
            needs_list: is_expired || code == 400 || code == 422,
        }
    }
}

/// What happens to the objects that `api` names, for ever. After a failure it tries again by itself, with
/// a pause. `listener` hears at once what no event tells.
pub fn follow<K>(
    client: &Client,
    api: impl Fn(Client) -> Api<K> + Send + 'static,
    config: Config,
    listener: impl Fn(Sign) + Send + Sync + 'static,
) -> BoxStream<'static, Result<Event<K>, Failure>>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let client = Line::new(listener).client(client);
    let chance = RandomState::new().build_hasher().finish();
    let length = WATCH.start + chance % (WATCH.end - WATCH.start);
    let config = config.timeout(u32::try_from(length).unwrap_or_default());
    let start = move || watcher(api(client.clone()), config.clone()).boxed();
    let followed = Followed {
        events: start(),
        start: Box::new(start),
        backoff: backoff(),
        pause: None,
    };
    stream::unfold(followed, |mut followed| async {
        let next = followed.next().await;
        Some((next, followed))
    })
    .boxed()
}

/// An item whenever one of the objects that `api` names may have changed. After a failure, what was missed
/// comes as a change; the start of a list, which may fail again and again, is none.
pub fn changes<K>(
    client: &Client,
    api: impl Fn(Client) -> Api<K> + Send + 'static,
    config: Config,
) -> BoxStream<'static, ()>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let path = api(client.clone()).resource_url().to_owned();
    let events = follow(client, api, config, drop);
    let is_change = move |event: &Result<_, Failure>| match event {
        Ok(Event::Apply(_) | Event::Delete(_) | Event::InitDone) => true,
        Ok(Event::Init | Event::InitApply(_)) => false,
        Err(failure) => {
            tracing::debug!("cannot follow {path}: {failure}");
            false
        }
    };
    let changes = events.filter(move |event| ready(is_change(event)));
    changes.map(drop).boxed()
}

type Pauses = ResetTimerBackoff<ExponentialBackoff>;

fn backoff() -> Pauses {
    let growing = doubling(FIRST_PAUSE, LONGEST_PAUSE).with_jitter();
    ResetTimerBackoff::new(growing.into(), RESET)
}

type Events<K> = BoxStream<'static, watcher::Result<Event<K>>>;

struct Followed<K> {
    events: Events<K>,
    start: Box<dyn Fn() -> Events<K> + Send>,
    backoff: Pauses,
    pause: Option<Duration>,
}

impl<K> Followed<K> {
    async fn next(&mut self) -> Result<Event<K>, Failure> {
        if let Some(pause) = self.pause.take() {
            sleep(pause).await;
        }
        let Some(result) = self.events.next().await else {
            // A watcher has no end.
            return std::future::pending().await;
        };
        result.map_err(|error| {
            let failure = Failure::of(&error);
            let pause = self.backoff.next().unwrap_or(LONGEST_PAUSE);
            self.pause = Some(pause + failure.retry_after.unwrap_or_default());
            if failure.needs_list {
                self.events = (self.start)();
            }
            failure
        })
    }
}

#[cfg(test)]
#[path = "follow_tests.rs"]
mod tests;
