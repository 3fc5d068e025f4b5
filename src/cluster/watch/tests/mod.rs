//! A feed against an API server that can be made to fail in every way: what a real one cannot be
//! made to show at will.

mod any_faults;
mod named;
mod server;

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::cluster::Cluster;
use crate::cluster::object::{Kind, Object};
use crate::cluster::store::Store;
use meshgate_core::injector::Injectors;

use self::server::{Reply, Server, bookmark, namespace, three};

static INJECTORS: LazyLock<Arc<Injectors>> = LazyLock::new(|| {
    let head = "apiVersion: meshgate.io/v1alpha1\nkind: Configuration\n";
    // No Service of it is read: the server has Namespaces alone.
    let yaml = format!("{head}injectors:\n- {{preset: linkerd, readiness: assumed}}\n");
    Arc::new(Injectors::from_yaml("test", yaml.as_bytes()).unwrap())
});

/// A view that follows Namespaces, and the feed that feeds it.
struct Followed {
    server: Server,
    cluster: Arc<Cluster>,
    feed: Option<Feed>,
}

impl Followed {
    fn new(server: Server) -> Self {
        let cluster = Arc::new(Cluster::new(Store::of_whole(Arc::clone(&INJECTORS))));
        let feed = Feed::new(&server.client(), Arc::clone(&cluster), Kind::Namespace);
        Self {
            server,
            cluster,
            feed: Some(feed),
        }
    }

    /// Runs the feed beside `test`.
    async fn run(mut self, test: impl AsyncFnOnce(&Self)) {
        let feed = self.feed.take().unwrap().run(CancellationToken::new());
        tokio::select! {
            () = feed => panic!("the feed ended"),
            () = feeds::count(&self.cluster) => panic!("the view is not settled any more"),
            () = test(&self) => {}
        }
    }

    /// Waits until the view is what the server has.
    async fn agrees(&self) {
        let waited = timeout(Duration::from_secs(3_600), async {
            let mut pause = Duration::from_millis(10);
            while !self.is_right() {
                sleep(pause).await;
                pause = (pause * 2).min(Duration::from_secs(1));
            }
        });
        let asked = self.server.asked();
        waited.await.unwrap_or_else(|_| panic!("{asked:#?}"));
    }

    fn is_right(&self) -> bool {
        let objects: Vec<Object> = {
            let state = self.server.0.lock();
            let json = state.objects.values().map(Value::to_string);
            json.map(|json| Object::from_json(Kind::Namespace, &json).unwrap())
                .collect()
        };
        let expected = Store::with(Arc::clone(&INJECTORS), objects);
        self.cluster.is_synced() && self.cluster.read().namespaces == expected.namespaces
    }

    fn is_current(&self) -> bool {
        self.cluster.freshness.is_current(Kind::Namespace)
    }

    fn state(&self) -> Result<String, String> {
        let now = Instant::now().into_std();
        self.cluster.freshness.state(Kind::Namespace, now)
    }

    fn counts(&self) -> crate::cluster::freshness::Counts {
        let ages = self.cluster.freshness.ages(Instant::now().into_std());
        ages.first().unwrap().counts
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_in_pages_its_events_and_the_watch_after_it() {
    Followed::new(three([]))
        .run(async |followed| {
            followed.agrees().await;
            sleep(Duration::from_millis(20)).await;
            assert!(followed.is_current());
            let server = &followed.server;
            server.set("b", None);
            server.delete("c");
            server.set("d", Some("enabled"));
            followed.agrees().await;
            server.say("BOOKMARK", &bookmark("77"));
            sleep(Duration::from_secs(2)).await;
            server.hang_up();
            sleep(Duration::from_secs(2)).await;
            assert!(followed.is_current());
            let asked = server.asked();
            let [first, second, watch, again] = asked.as_slice() else {
                panic!("{asked:?}")
            };
            assert_eq!(first, "/api/v1/namespaces?&limit=100");
            assert_eq!(second, "/api/v1/namespaces?&limit=100&continue=2");
            assert!(watch.ends_with("resourceVersion=4"), "{watch}");
            assert!(
                again.starts_with("/api/v1/namespaces?&watch=true&timeoutSeconds=1"),
                "{again}"
            );
            assert!(
                again.ends_with("allowWatchBookmarks=true&resourceVersion=77"),
                "{again}"
            );
        })
        .await;
}

/// Case 62: it is all that a quiet watch says.
#[tokio::test(start_paused = true)]
async fn a_bookmark_is_a_sign_of_life() {
    Followed::new(three([]))
        .run(async |followed| {
            followed.agrees().await;
            for _ in 0..5 {
                sleep(Duration::from_secs(60)).await;
                followed.server.say("BOOKMARK", &bookmark("5"));
            }
            sleep(Duration::from_secs(7)).await;
            assert_eq!(
                followed.state(),
                Ok("last heard of the API server 7 s ago".to_owned())
            );
            let watches = followed.server.asked().len() - 2;
            assert_eq!(watches, 1, "it was opened again");
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_list_whose_next_page_is_gone_begins_anew() {
    // The first page holds what is no longer there when the list is complete.
    let stale = json!({
        "metadata": {"resourceVersion": "1", "continue": "2"},
        "items": [namespace("gone", 1, Some("enabled"))],
    });
    Followed::new(three([Reply::Page(stale), Reply::Status(410, 0)]))
        .run(async |followed| {
            sleep(Duration::from_millis(50)).await;
            assert!(!followed.cluster.is_synced(), "half a list is no list");
            followed.agrees().await;
            assert_eq!(followed.counts().lists, 1);
        })
        .await;
}

/// The library asks for the same version again for ever.
#[tokio::test(start_paused = true)]
async fn a_version_that_is_refused_by_status_is_listed_again() {
    let pages = [Reply::Right, Reply::Right];
    for code in [400, 410, 422] {
        let script = pages.iter().cloned().chain([Reply::Status(code, 0)]);
        Followed::new(three(script))
            .run(async |followed| {
                followed.agrees().await;
                sleep(Duration::from_secs(2)).await;
                assert_eq!(followed.counts().lists, 2, "{code}");
                assert!(followed.is_right() && followed.is_current());
            })
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_too_old_is_listed_again() {
    Followed::new(three([]))
        .run(async |followed| {
            followed.agrees().await;
            let server = &followed.server;
            server.hang_up();
            server.delete("a");
            server.set("d", None);
            server.compact();
            followed.agrees().await;
            assert_eq!(followed.counts().lists, 2);
            assert!(followed.is_current() && followed.state().unwrap().ends_with("s ago"));
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_list_that_breaks_off_is_not_taken() {
    Followed::new(three([Reply::Right, Reply::Cut(0), Reply::Broken]))
        .run(async |followed| {
            sleep(Duration::from_millis(50)).await;
            assert!(!followed.cluster.is_synced());
            let why = followed.state().unwrap_err();
            assert_eq!(why, "not listed yet: connection reset");
            followed.agrees().await;
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_never_comes_is_given_up() {
    Followed::new(three([Reply::Never]))
        .run(async |followed| {
            sleep(Duration::from_millis(30_050)).await;
            let why = followed.state().unwrap_err();
            assert_eq!(why, "not listed yet: no answer within 30s");
            followed.agrees().await;
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_falls_silent_is_opened_again_without_a_word() {
    Followed::new(three([Reply::Right, Reply::Right, Reply::Silent(0)]))
        .run(async |followed| {
            followed.agrees().await;
            sleep(Duration::from_secs(60)).await;
            let state = followed.state();
            assert_eq!(
                state,
                Ok("last heard of the API server 60 s ago".to_owned())
            );
            followed.server.set("d", Some("enabled"));
            sleep(Duration::from_secs(29)).await;
            assert!(!followed.is_right(), "too early to notice");
            sleep(Duration::from_secs(3)).await;
            assert!(followed.is_right() && followed.is_current());
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_list_that_falls_silent_is_asked_for_again() {
    Followed::new(three([Reply::Silent(0)]))
        .run(async |followed| {
            sleep(Duration::from_millis(30_050)).await;
            let why = followed.state().unwrap_err();
            assert_eq!(why, "not listed yet: no word within 30s");
            followed.agrees().await;
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_asks_for_patience_gets_it() {
    Followed::new(three([Reply::Status(429, 7)]))
        .run(async |followed| {
            followed.agrees().await;
            let times = followed.server.times();
            assert!(times[1] > Duration::from_secs(7) && times[1] < Duration::from_secs(8));
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn watches_that_end_at_once_are_not_opened_in_a_loop() {
    let brief = vec![Reply::Lines(Vec::new()); 20];
    let script = vec![Reply::Right; 2].into_iter().chain(brief);
    Followed::new(three(script))
        .run(async |followed| {
            followed.agrees().await;
            sleep(Duration::from_secs(20)).await;
            let count = followed.server.asked().len();
            assert!((5..20).contains(&count), "{count}");
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_server_leaves_what_was_known_and_how_old_it_is() {
    Followed::new(three([]))
        .run(async |followed| {
            followed.agrees().await;
            let server = &followed.server;
            sleep(Duration::from_secs(5)).await;
            server.0.lock().script = vec![Reply::Broken; 60].into();
            server.hang_up();
            sleep(Duration::from_secs(37)).await;
            assert!(!followed.is_current() && followed.cluster.is_synced());
            let state = followed.state().unwrap();
            let expected = "last heard of the API server 42 s ago: connection refused";
            assert_eq!(state, expected);
            assert!(followed.cluster.read().namespace("a").is_some());
            server.0.lock().script.clear();
            server.set("a", None);
            sleep(Duration::from_secs(4)).await;
            assert!(followed.is_right() && followed.is_current());
            assert_eq!(
                followed.counts().lists,
                1,
                "nothing was missed, so nothing is listed"
            );
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn after_a_long_time_the_view_is_listed_anew() {
    Followed::new(three([]))
        .run(async |followed| {
            followed.agrees().await;
            followed.server.0.lock().script = vec![Reply::Broken; 10_000].into();
            followed.server.hang_up();
            sleep(Duration::from_secs(700)).await;
            followed.server.0.lock().script.clear();
            followed.server.delete("a");
            followed.agrees().await;
            assert_eq!(followed.counts().lists, 2);
        })
        .await;
}

/// Case 41: it holds nothing up, and no old version of it stays.
#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_read_counts_as_if_it_were_not_there() {
    let mut odd = namespace("odd", 2, None);
    odd["metadata"]["labels"] = json!(["not", "a", "map"]);
    let nameless = json!({"metadata": {"resourceVersion": "3"}});
    let page = json!({
        "metadata": {"resourceVersion": "4"},
        "items": [odd.clone(), nameless, namespace("a", 3, Some("enabled"))],
    });
    Followed::new(three([Reply::Page(page)]))
        .run(async |followed| {
            sleep(Duration::from_millis(50)).await;
            let holds = |name: &str| followed.cluster.read().namespace(name).is_some();
            assert!(followed.is_current() && holds("a") && !holds("odd"));
            assert_eq!(followed.counts().unreadable, 2);
            // One that could be read before, and then not, and then again.
            let mut bad = namespace("a", 5, None);
            bad["metadata"]["annotations"] = json!(7);
            followed.server.say("MODIFIED", &bad);
            sleep(Duration::from_millis(50)).await;
            assert!(followed.is_current() && !holds("a"));
            let good = namespace("a", 6, None);
            followed.server.say("MODIFIED", &good);
            sleep(Duration::from_millis(50)).await;
            assert!(holds("a"));
            followed.server.hang_up();
            sleep(Duration::from_secs(3)).await;
            let asked = followed.server.asked();
            assert!(
                asked.last().unwrap().ends_with("resourceVersion=6"),
                "{asked:#?}"
            );
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_namespace_is_fetched_or_known_not_to_be_there() {
    let object = namespace("a", 3, Some("enabled"));
    let server = Server::new([
        Reply::Page(object),
        Reply::Status(404, 0),
        Reply::Status(500, 0),
        Reply::Broken,
        Reply::Page(json!({"metadata": 7})),
    ]);
    let fetch = fetch(server.client());
    let found = fetch("a".to_owned()).await.unwrap().unwrap();
    assert_eq!(found.metadata.annotations["linkerd.io/inject"], "enabled");
    assert_eq!(fetch("b".to_owned()).await, Ok(None));
    for expected in ["answered 500", "connection refused", "cannot be read"] {
        let problem = fetch("a".to_owned()).await.unwrap_err();
        assert!(problem.contains(expected), "{problem}");
    }
    let asked = server.asked();
    assert!(
        asked
            .iter()
            .all(|uri| uri.starts_with("/api/v1/namespaces/")),
        "{asked:?}"
    );
    for name in ["", "../nodes", "a?watch=true", "A", &"a".repeat(64)] {
        assert_eq!(fetch(name.to_owned()).await, Ok(None), "{name}");
    }
    assert_eq!(server.asked().len(), 5);
}
