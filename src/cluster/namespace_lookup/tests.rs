use futures::future::join_all;

use super::*;

fn named(name: String) -> slim::Namespace {
    let mut namespace = slim::Namespace::default();
    namespace.metadata.name = name;
    namespace
}

fn lookup(fetch: Fetch) -> NamespaceLookup {
    NamespaceLookup::new(fetch, Duration::from_secs(1))
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
    let found = join_all((0..100).map(|_| source.namespace("shop"))).await;
    assert!(
        found
            .iter()
            .all(|f| f.as_ref().unwrap().metadata.name == "shop")
    );
    assert_eq!(source.count(), 1);
    assert!(source.namespace("shop").await.is_ok());
    assert_eq!(
        source.namespace("nowhere").await,
        Err(LookupError::NotFound)
    );
    assert_eq!(source.count(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_source_that_does_not_answer_is_given_up_at_the_deadline() {
    let source = lookup(Arc::new(|_| std::future::pending().boxed()));
    let expected = Err(LookupError::TimedOut(Duration::from_secs(1)));
    assert_eq!(source.namespace("shop").await, expected);
}

#[tokio::test]
async fn a_look_up_without_waiting_requests_is_forgotten() {
    let source = lookup(Arc::new(|_| std::future::pending().boxed()));
    for number in 0..1_000 {
        let name = format!("team-{number}");
        assert_eq!(source.namespace(&name).now_or_never(), None);
    }
    assert_eq!(source.count(), 1_000);
    assert!(source.inner.flights.lock().len() <= 1);
}

#[tokio::test]
async fn a_burst_for_many_namespaces_waits_for_its_turn() {
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
    let names: Vec<String> = (0..200).map(|number| format!("team-{number}")).collect();
    let found = join_all(names.iter().map(|name| source.namespace(name))).await;
    assert!(found.iter().all(Result::is_ok));
    assert_eq!(most.load(Ordering::SeqCst), MOST_AT_ONCE as u64);
}
