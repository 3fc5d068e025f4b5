use serde_json::json;

use super::*;

#[test]
fn only_our_entries_count_and_a_broken_bundle_trusts_no_ca() {
    let configuration = json!({"webhooks": [
        {"name": "a.gate.meshgate.io", "clientConfig": {"url": "https://a"}},
        {"name": "b.gate.meshgate.io", "clientConfig": {"caBundle": "eA=="}},
        {"name": "else.test", "clientConfig": {"caBundle": "eA=="}},
    ]});
    assert_eq!(bundles(&configuration, None), [None, Some(Vec::new())]);
    assert!(bundles(&json!({}), None).is_empty());
}

#[test]
fn an_entry_that_calls_another_address_does_not_count_where_the_address_is_known() {
    let service = |namespace: &str, path: &str| json!({"service": {"namespace": namespace, "name": "meshgate", "port": 443, "path": path}});
    let entry = |config: Value| json!({"name": "a.gate.meshgate.io", "clientConfig": config});
    let ours = json!({"webhooks": [entry(service("new", "/x"))]});
    let theirs =
        json!({"webhooks": [entry(service("old", "/x")), entry(json!({"url": "https://a"}))]});
    let address = service("new", "");
    assert_eq!(bundles(&ours, Some(&address)), [None]);
    assert_eq!(bundles(&theirs, Some(&address)), []);
}

#[test]
fn time_begins_anew_with_each_change() {
    let mut watch = Watch::default();
    let begin = Instant::now();
    let at = |seconds| begin + Duration::from_secs(seconds);
    let mut look = |revision: &str, seconds| watch.unchanged_for(revision.to_owned(), at(seconds));
    assert_eq!(look("1", 0).as_secs(), 0);
    assert_eq!(look("1", 5).as_secs(), 5);
    assert_eq!(look("2", 7).as_secs(), 0);
    assert_eq!(look("2", 9).as_secs(), 2);
}
