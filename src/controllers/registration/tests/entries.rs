use serde_json::{Value, json};

use super::parsed;
use crate::controllers::registration::entries::{armed, hold_back, widen};
use meshgate_core::render::REACH_ENTRY;

fn entry(name: &str, url: &str, policy: &str) -> Value {
    let seconds = if policy == "Fail" { 5 } else { 2 };
    json!({
        "name": name,
        "clientConfig": {"url": url},
        "failurePolicy": policy,
        "timeoutSeconds": seconds,
    })
}

#[test]
fn an_entry_is_never_armed_by_a_client_configuration_that_was_not_reached() {
    let wanted = json!({"webhooks": [
        entry(REACH_ENTRY, "new", "Fail"),
        entry("pods", "new", "Fail"),
        entry("warn", "new", "Ignore"),
    ]});
    // (what is live, what is written)
    let table = [
        (None, entry("pods", "new", "Ignore")),
        (
            Some(entry("pods", "old", "Ignore")),
            entry("pods", "new", "Ignore"),
        ),
        (
            Some(entry("pods", "old", "Fail")),
            entry("pods", "old", "Fail"),
        ),
        (
            Some(entry("pods", "new", "Fail")),
            entry("pods", "new", "Fail"),
        ),
        (
            Some(entry("other", "new", "Fail")),
            entry("pods", "new", "Ignore"),
        ),
    ];
    for (live, expected) in table {
        let live = live.map(|entry| parsed(&json!({"webhooks": [entry]})));
        let mut object = parsed(&wanted);
        hold_back(&mut object, live.as_ref());
        let written = object.to_value();
        assert_eq!(
            written["webhooks"][0], wanted["webhooks"][0],
            "always new and closed"
        );
        assert_eq!(written["webhooks"][1], expected, "{live:?}");
        assert_eq!(written["webhooks"][2], wanted["webhooks"][2]);
        let closed = expected["failurePolicy"] == "Fail";
        assert_eq!(
            armed(&parsed(&wanted), Some(&object)),
            (usize::from(closed), 1)
        );
    }
    assert_eq!(armed(&parsed(&wanted), None), (0, 1));
}

#[test]
fn only_a_covered_bundle_for_the_same_address_is_widened() {
    let service = |name: &str, path: &str| json!({"name": name, "namespace": "a", "path": path});
    let entry = |service: Value, bundle: &str| json!({"name": "x", "clientConfig": {"service": service, "caBundle": bundle}});
    let wanted = json!({"webhooks": [entry(service("s", "/1"), "NEW")]});
    let mut object = parsed(&json!({"webhooks": [
        entry(service("s", "/2"), "old"),
        entry(service("s", "/3"), "other"),
        entry(service("else", "/4"), "old"),
        {"name": "y", "clientConfig": {"url": "https://a/1", "caBundle": "old"}},
    ]}));
    widen(&mut object, &parsed(&wanted), &["old".to_owned()].into());
    let entries = object.entries().iter();
    let bundles: Vec<_> = entries
        .map(|entry| entry.client_config.ca_bundle.as_deref().unwrap())
        .collect();
    assert_eq!(bundles, ["NEW", "other", "old", "old"]);
}
