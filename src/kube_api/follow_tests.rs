use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::Body as Answer;
use hyper::{Request, Response};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::client::Body;

use super::*;

#[tokio::test(start_paused = true)]
async fn pauses_grow_to_a_limit_and_begin_anew() {
    let mut pauses = backoff();
    let mut grown = FIRST_PAUSE;
    for _ in 0..40 {
        let pause = pauses.next().unwrap();
        assert!(pause >= grown && pause <= grown * 2, "{pause:?}");
        sleep(pause).await;
        grown = (grown * 2).min(LONGEST_PAUSE);
    }
    sleep(RESET).await;
    assert!(pauses.next().unwrap() <= FIRST_PAUSE * 2);
}

/// Frozen for longer than the API server keeps its versions: no request has failed.
#[tokio::test(start_paused = true)]
async fn after_a_long_silence_the_kind_is_listed_anew() {
    let lists = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&lists);
    let service = tower::service_fn(move |request: Request<Body>| {
        let query = request.uri().query().unwrap_or_default();
        let answer = if query.contains("watch=true") {
            // It says nothing, and does not end.
            Answer::from_stream(stream::pending::<Result<String, Infallible>>())
        } else {
            counted.fetch_add(1, Ordering::Relaxed);
            let list = r#"{"metadata":{"resourceVersion":"1"},"items":[]}"#;
            Answer::from(list)
        };
        ready(Ok::<_, Infallible>(Response::new(answer)))
    });
    let client = Client::new(service, "default");
    let mut events = follow(&client, Api::<ConfigMap>::all, Config::default(), drop);
    let mut next_list = async || {
        let mut failures = Vec::new();
        loop {
            match events.next().await.unwrap() {
                Ok(Event::InitDone) => return failures,
                Ok(_) => {}
                Err(failure) => failures.push(failure),
            }
        }
    };
    assert_eq!(next_list().await, []);
    // A watch that falls silent is opened again from the version that is known.
    let silent = tokio::time::timeout(Duration::from_secs(500), next_list());
    assert!(silent.await.is_err());
    assert_eq!(lists.load(Ordering::Relaxed), 1);
    tokio::time::advance(Duration::from_secs(700)).await;
    let again = tokio::time::timeout(Duration::from_secs(60), next_list());
    let failures = again.await.unwrap();
    assert!(
        failures.iter().all(|failure| failure.is_expired),
        "{failures:?}"
    );
    assert_eq!((failures.len(), lists.load(Ordering::Relaxed)), (1, 2));
}

/// Each try begins a list. A controller that takes that for a change would never pause.
#[tokio::test(start_paused = true)]
async fn a_list_that_fails_again_and_again_is_no_change() {
    let tries = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&tries);
    let service = tower::service_fn(move |_: Request<Body>| {
        counted.fetch_add(1, Ordering::Relaxed);
        let mut answer = Response::new(Answer::from(r#"{"code":503,"message":"later"}"#));
        *answer.status_mut() = hyper::StatusCode::SERVICE_UNAVAILABLE;
        ready(Ok::<_, Infallible>(answer))
    });
    let client = Client::new(service, "default");
    let mut changes = changes(&client, Api::<ConfigMap>::all, Config::default());
    let change = tokio::time::timeout(Duration::from_secs(60), changes.next()).await;
    assert!(change.is_err());
    assert!(tries.load(Ordering::Relaxed) > 10);
}

#[test]
fn two_replicas_never_wait_the_same() {
    let pauses = || backoff().take(3).collect::<Vec<_>>();
    assert_ne!(pauses(), pauses());
}

#[test]
fn what_the_api_server_asks_for_is_kept_within_reason() {
    let status = |seconds: u64| {
        let status = serde_json::json!({
            "code": 429, "message": "later", "details": {"retryAfterSeconds": seconds},
        });
        let status: Status = serde_json::from_value(status).unwrap();
        Failure::of(&kube::Error::Api(Box::new(status)))
    };
    assert_eq!(status(7).retry_after, Some(Duration::from_secs(7)));
    assert_eq!(status(86_400).retry_after, Some(LONGEST_ASKED));
    assert_eq!(status(7).text, "the API server answered 429: later");
}
