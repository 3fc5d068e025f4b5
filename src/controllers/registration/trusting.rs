//! A wider `caBundle` is taken up at once. Pure.
//!
//! Entries that are armed keep their client configuration until another one is proved (see
//! [`super::entries`]). A bundle that holds all that the live one holds, for the same address, can
//! make no call fail, and must not wait: a new serving certificate is issued only after it is
//! registered everywhere, and it might be what is needed to be reached at all.

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::certs::bundle;
use crate::controllers::trust::has_same_address;

use super::entries::entries_mut;
use super::plan::Observed;

impl Observed {
    /// Notes which of the live bundles the wanted one (PEM) covers at this time.
    pub(super) fn note_covered(&mut self, wanted: Option<&str>, now: Timestamp) {
        let Some(wanted) = wanted else { return };
        let entries = self.objects.values().flat_map(|object| {
            let entries = object["webhooks"].as_array();
            entries.into_iter().flatten()
        });
        let live: BTreeSet<&str> = entries
            .filter_map(|entry| entry["clientConfig"]["caBundle"].as_str())
            .collect();
        let is_covered = |live: &&str| {
            let pem = STANDARD.decode(live).unwrap_or_default();
            let pem = String::from_utf8(pem).unwrap_or_default();
            bundle::covers(wanted, &pem, now)
        };
        let covered = live.into_iter().filter(is_covered);
        self.covered = covered.map(str::to_owned).collect();
    }
}

/// Gives the entries of a configuration that is about to be written the bundle that is wanted, where
/// the one they have is covered by it and they call the same address.
pub(super) fn widen(object: &mut Value, wanted: &Value, covered: &BTreeSet<String>) {
    let first = wanted["webhooks"].as_array().and_then(|all| all.first());
    let Some(first) = first else { return };
    let config = &first["clientConfig"];
    let bundle = &config["caBundle"];
    if !bundle.is_string() {
        return;
    }
    for entry in entries_mut(object) {
        let own = &entry["clientConfig"];
        let is_covered = own["caBundle"]
            .as_str()
            .is_some_and(|own| covered.contains(own));
        if is_covered && has_same_address(own, config) {
            entry["clientConfig"]["caBundle"] = bundle.clone();
        }
    }
}

/// The merge patch that gives live entries the bundle that is wanted, where that can make no call
/// fail; nothing else of them changes.
pub(super) fn widening(live: &Value, wanted: &Value, covered: &BTreeSet<String>) -> Option<Value> {
    let mut object = live.clone();
    widen(&mut object, wanted, covered);
    let webhooks = object["webhooks"].take();
    let version = &live["metadata"]["resourceVersion"];
    let patch = || json!({"metadata": {"resourceVersion": version}, "webhooks": webhooks});
    (webhooks != live["webhooks"]).then(patch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_covered_bundle_for_the_same_address_is_widened() {
        let service =
            |name: &str, path: &str| json!({"name": name, "namespace": "a", "path": path});
        let entry = |service: Value, bundle: &str| json!({"name": "x", "clientConfig": {"service": service, "caBundle": bundle}});
        let wanted = json!({"webhooks": [entry(service("s", "/1"), "NEW")]});
        let mut object = json!({"webhooks": [
            entry(service("s", "/2"), "old"),
            entry(service("s", "/3"), "other"),
            entry(service("else", "/4"), "old"),
            {"name": "y", "clientConfig": {"url": "https://a/1", "caBundle": "old"}},
        ]});
        widen(&mut object, &wanted, &BTreeSet::from(["old".to_owned()]));
        let bundles: Vec<&str> = object["webhooks"]
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| entry["clientConfig"]["caBundle"].as_str().unwrap())
            .collect();
        assert_eq!(bundles, ["NEW", "other", "old", "old"]);
    }
}
