use std::net::Ipv4Addr;
use std::pin::pin;

use futures::future::join_all;
use futures::poll;
use tokio::sync::Notify;

use super::*;

fn named(name: String) -> slim::Namespace {
    let mut namespace = slim::Namespace::default();
    namespace.metadata.name = name;
    namespace
}

fn lookup(fetch: Fetch) -> NamespaceLookup {
    NamespaceLookup::new(fetch, Duration::from_secs(1))
}

/// A client by the last number of its address, that asks about names that the view does not hold.
fn client(number: u8) -> Asker {
    Asker {
        peer: IpAddr::V4(Ipv4Addr::new(192, 0, 2, number)),
        is_held: false,
    }
}

/// A source without any namespace.
fn nowhere() -> Fetch {
    Arc::new(|_| async { Ok(None) }.boxed())
}

#[tokio::test]
async fn requests_at_once_share_a_look_up_and_later_ones_do_not() {
    let source = lookup(Arc::new(|name| {
        async {
            tokio::task::yield_now().await;
            Ok((name != "nowhere").then(|| named(name)))
        }
        .boxed()
    }));
    let found = join_all((0..100).map(|_| source.namespace(client(1), "shop"))).await;
    assert!(
        found
            .iter()
            .all(|f| f.as_ref().unwrap().metadata.name == "shop")
    );
    assert_eq!(source.count(), 1);
    assert!(source.namespace(client(1), "shop").await.is_ok());
    assert_eq!(
        source.namespace(client(1), "nowhere").await,
        Err(LookupError::NotFound)
    );
    assert_eq!(source.count(), 3);
}

/// What the source says was perhaps true before the question: the API server asks with what it knows by now.
#[tokio::test]
async fn a_look_up_that_has_begun_is_not_the_answer_to_a_later_question() {
    let (answers, asked) = (Arc::new(Notify::new()), Arc::new(AtomicU64::new(0)));
    let (waits, counts) = (Arc::clone(&answers), Arc::clone(&asked));
    let source = lookup(Arc::new(move |_| {
        let (number, waits) = (counts.fetch_add(1, Ordering::SeqCst), Arc::clone(&waits));
        async move {
            waits.notified().await;
            Ok(Some(named(format!("shop as of look-up {number}"))))
        }
        .boxed()
    }));
    let ask = || source.namespace(client(1), "shop");
    let mut first = pin!(ask());
    assert!(poll!(&mut first).is_pending());
    let later: Vec<_> = (0..50).map(|_| ask()).collect();
    let mut later = pin!(join_all(later));
    assert!(poll!(&mut later).is_pending());
    assert_eq!(asked.load(Ordering::SeqCst), 1, "one at a time");
    answers.notify_one();
    assert_eq!(first.await.unwrap().metadata.name, "shop as of look-up 0");
    assert!(poll!(&mut later).is_pending());
    answers.notify_one();
    for found in later.await {
        assert_eq!(found.unwrap().metadata.name, "shop as of look-up 1");
    }
}

#[tokio::test(start_paused = true)]
async fn a_source_that_does_not_answer_is_given_up_at_the_deadline() {
    let source = lookup(Arc::new(|_| std::future::pending().boxed()));
    let expected = Err(LookupError::TimedOut(Duration::from_secs(1)));
    assert_eq!(source.namespace(client(1), "shop").await, expected);
}

#[tokio::test]
async fn a_look_up_without_waiting_requests_is_forgotten() {
    let source = lookup(Arc::new(|_| std::future::pending().boxed()));
    let held = Asker {
        is_held: true,
        ..client(1)
    };
    for number in 0..1_000 {
        let name = format!("team-{number}");
        assert_eq!(source.namespace(held, &name).now_or_never(), None);
        tokio::task::yield_now().await;
    }
    assert_eq!(source.count(), 1_000);
    let peers = source.inner.peers.lock();
    assert!(peers.values().all(|peer| peer.lanes.len() <= 1));
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_is_quiet_is_forgotten() {
    let source = lookup(nowhere());
    for number in 0..100 {
        assert!(source.namespace(client(number), "shop").await.is_err());
        assert!(source.inner.peers.lock().len() <= 2);
        tokio::time::advance(Duration::from_secs(1)).await;
    }
}

/// The most look-ups at once that these peers cause with 200 names each.
async fn most_at_once(peers: u8) -> u64 {
    let (now, most) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let counted = (Arc::clone(&now), Arc::clone(&most));
    let source = lookup(Arc::new(move |name| {
        let (now, most) = counted.clone();
        async move {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::task::yield_now().await;
            now.fetch_sub(1, Ordering::SeqCst);
            Ok(Some(named(name)))
        }
        .boxed()
    }));
    let calls = (0..peers).flat_map(|peer| (0..200).map(move |number| (peer, number)));
    let calls =
        calls.map(|(peer, number)| source.namespace(client(peer), &format!("team-{number}")));
    let found = join_all(calls).await;
    assert!(found.iter().all(Result::is_ok));
    most.load(Ordering::SeqCst)
}

#[tokio::test]
async fn a_burst_for_many_namespaces_waits_for_its_turn() {
    assert_eq!(most_at_once(1).await, MOST_FOR_PEER as u64);
    assert_eq!(most_at_once(4).await, MOST_AT_ONCE as u64);
}

/// Many clients invent names beside one API server, which asks about a new namespace.
#[tokio::test(start_paused = true)]
async fn a_flood_from_others_delays_no_real_question() {
    let source = lookup(Arc::new(|name| {
        async move {
            tokio::time::sleep(Duration::from_millis(5)).await;
            Ok((name == "shop").then(|| named(name)))
        }
        .boxed()
    }));
    let invented = (1..50).flat_map(|peer| (0..200).map(move |number| (peer, number)));
    let invented =
        invented.map(|(peer, number)| source.namespace(client(peer), &format!("x{number}")));
    let mut flood = pin!(join_all(invented.collect::<Vec<_>>()));
    assert!(poll!(&mut flood).is_pending());
    let begin = Instant::now();
    let real = async { (source.namespace(client(0), "shop").await, begin.elapsed()) };
    let (_, (real, took)) = tokio::join!(flood, real);
    assert!(real.is_ok(), "{real:?}");
    // Each of the others has places for so many before it.
    assert!(took < Duration::from_millis(200), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_invents_names_is_turned_away() {
    let source = lookup(nowhere());
    let begin = Instant::now();
    let mut number = 0;
    while begin.elapsed() < Duration::from_secs(14) {
        number += 1;
        let found = source.namespace(client(1), &format!("x{number}")).await;
        let expected = [LookupError::NotFound, LookupError::TooMany];
        assert!(expected.contains(&found.unwrap_err()));
        tokio::time::advance(Duration::from_millis(2)).await;
    }
    // 20 at once and two a second.
    assert!((45..=50).contains(&source.count()), "{}", source.count());
    // What the view holds was not invented.
    let held = Asker {
        is_held: true,
        ..client(1)
    };
    let before = source.count();
    assert_eq!(
        source.namespace(held, "shop").await,
        Err(LookupError::NotFound)
    );
    assert_eq!(source.count(), before + 1);
    // Nor does another client pay for it.
    assert_eq!(
        source.namespace(client(2), "x1").await,
        Err(LookupError::NotFound)
    );
    assert_eq!(source.count(), before + 2);
}

/// An API server that is too slow to answer in time.
#[tokio::test(start_paused = true)]
async fn invented_names_cost_as_much_where_no_answer_comes_in_time() {
    let source = lookup(Arc::new(|_| std::future::pending().boxed()));
    let begin = Instant::now();
    for number in 0.. {
        let name = format!("x{number}");
        let found = timeout(Duration::from_millis(1), source.namespace(client(1), &name)).await;
        if begin.elapsed() > Duration::from_secs(14) {
            break;
        }
        assert!(matches!(found, Err(_) | Ok(Err(LookupError::TooMany))));
        tokio::time::advance(Duration::from_millis(1)).await;
    }
    // 20 at once and two a second.
    assert!((45..=50).contains(&source.count()), "{}", source.count());
    let long = "x".repeat(64);
    let held = Asker {
        is_held: true,
        ..client(1)
    };
    assert_eq!(
        source.namespace(held, &long).await,
        Err(LookupError::NotFound)
    );
}

/// One of many that wait in the same moment finds the account used up when its turn comes.
#[tokio::test(start_paused = true)]
async fn a_burst_of_invented_names_costs_no_more_than_the_places_beyond_the_account() {
    let source = lookup(nowhere());
    let names: Vec<String> = (0..1_000).map(|number| format!("x{number}")).collect();
    join_all(names.iter().map(|name| source.namespace(client(1), name))).await;
    assert!(
        source.count() <= 21 + MOST_FOR_PEER as u64,
        "{}",
        source.count()
    );
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_does_not_exist_is_asked_for_once_a_second() {
    let exists = Arc::new(AtomicBool::new(false));
    let source = Arc::clone(&exists);
    let source = lookup(Arc::new(move |name| {
        let exists = source.load(Ordering::SeqCst);
        async move { Ok(exists.then(|| named(name))) }.boxed()
    }));
    let ask = || source.namespace(client(1), "shop");
    assert_eq!(ask().await, Err(LookupError::NotFound));
    exists.store(true, Ordering::SeqCst);
    tokio::time::advance(Duration::from_millis(999)).await;
    assert_eq!(ask().await, Err(LookupError::NotFound));
    // Another client's question is a new one, and so is one about a namespace that the view holds.
    assert!(source.namespace(client(2), "shop").await.is_ok());
    let is_held = true;
    assert!(
        source
            .namespace(
                Asker {
                    is_held,
                    ..client(1)
                },
                "shop"
            )
            .await
            .is_ok()
    );
    tokio::time::advance(Duration::from_millis(1)).await;
    assert!(ask().await.is_ok());
}

/// One API server carries everything while the watch is down: 200 reviews a second, each of another namespace.
#[tokio::test(start_paused = true)]
async fn an_api_server_that_carries_everything_is_not_turned_away() {
    let source = lookup(Arc::new(|name| async { Ok(Some(named(name))) }.boxed()));
    for second in 0..60 {
        let names: Vec<String> = (0..200).map(|n| format!("team-{second}-{n}")).collect();
        let found = join_all(names.iter().map(|name| source.namespace(client(1), name))).await;
        assert!(found.iter().all(Result::is_ok), "second {second}");
        tokio::time::advance(Duration::from_secs(1)).await;
    }
}
