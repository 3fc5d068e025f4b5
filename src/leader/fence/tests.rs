use axum::http::{Method, Request, Uri};
use kube::client::Body;

use super::{Duration, changes, within};

#[test]
fn what_may_change_anything_needs_the_claim() {
    let table = [
        (Method::GET, "/api/v1/namespaces", false),
        (Method::HEAD, "/api/v1/namespaces", false),
        (
            Method::POST,
            "/apis/authentication.k8s.io/v1/selfsubjectreviews?",
            false,
        ),
        (
            Method::POST,
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            false,
        ),
        (
            Method::POST,
            "/api/v1/namespaces/a/configmaps?&dryRun=All&fieldManager=meshgate",
            false,
        ),
        (
            Method::POST,
            "/api/v1/namespaces/a/configmaps?fieldManager=meshgate",
            true,
        ),
        (
            Method::POST,
            "/api/v1/namespaces/a/events?note=dryRun=All",
            true,
        ),
        (Method::PATCH, "/api/v1/namespaces/a", true),
        (Method::PUT, "/api/v1/namespaces/a/secrets/b", true),
        (Method::DELETE, "/api/v1/namespaces/a/secrets/b", true),
    ];
    for (method, uri, expected) in table {
        assert_eq!(
            changes(&method, &uri.parse().unwrap()),
            expected,
            "{method} {uri}"
        );
    }
}

#[test]
fn the_api_server_is_told_how_long_it_may_take() {
    for (uri, expected) in [
        ("/a", "/a?timeout=7500ms"),
        ("/a?", "/a?timeout=7500ms"),
        ("/a?&force=true", "/a?&force=true&timeout=7500ms"),
    ] {
        let request = Request::patch(uri).body(Body::empty()).unwrap();
        let limited = within(request, Duration::from_millis(7_500)).unwrap();
        assert_eq!(*limited.uri(), expected.parse::<Uri>().unwrap());
    }
}
