//! Reads by which CAs API servers verify meshgate: the `caBundle` of every entry that calls it.

use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube::Client;
use serde_json::Value;

use crate::certs::bundle;
use crate::certs::rotation::Registered;
use crate::controllers::trust::has_same_address;
use crate::kube_api::kind::{Id, Kind};
use crate::kube_api::{CallError, call, objects};
use meshgate_core::names::ENTRIES;
use meshgate_core::render::{CONFIGURATION, MIRROR};

/// What is registered, and for how long this process has seen it so.
#[derive(Debug, Default)]
pub struct Watch {
    /// If it is known, only entries that call this address count.
    address: Option<Value>,
    revision: String,
    since: Option<Instant>,
}

impl Watch {
    /// Reads only entries that call the address of this client configuration: what another
    /// installation left behind never trusts this CA, and must not hold it up.
    pub fn of(client_config: Value) -> Self {
        Self {
            address: Some(client_config),
            ..Self::default()
        }
    }

    /// Reads what is registered now. An entry with an unreadable bundle trusts no CA.
    ///
    /// # Errors
    /// The API server refuses the call or does not answer.
    pub async fn look(&mut self, client: &Client) -> Result<Registered, CallError> {
        let mut revision = String::new();
        let mut entries = Vec::new();
        for (kind, name) in [
            (Kind::MutatingWebhooks, CONFIGURATION),
            (Kind::ValidatingWebhooks, CONFIGURATION),
            (Kind::MutatingWebhooks, MIRROR),
        ] {
            let id = Id::new(kind, name);
            let api = objects(client, kind);
            let found = call(|| format!("cannot read {id}"), api.get_opt(name)).await?;
            let Some(found) = found else { continue };
            let metadata = &found.metadata;
            let (uid, generation) = (&metadata.uid, metadata.generation);
            revision.push_str(&format!("{uid:?} {generation:?}\n"));
            entries.extend(bundles(&found.data, self.address.as_ref()));
        }
        Ok(Registered {
            entries,
            unchanged_for: self.unchanged_for(revision, Instant::now()),
        })
    }

    fn unchanged_for(&mut self, revision: String, now: Instant) -> Duration {
        if self.revision != revision {
            self.revision = revision;
            self.since = None;
        }
        now.duration_since(*self.since.get_or_insert(now))
    }
}

fn bundles(configuration: &Value, address: Option<&Value>) -> Vec<Option<Vec<bundle::Ca>>> {
    let entries = configuration["webhooks"].as_array().into_iter().flatten();
    let ours = entries.filter(|entry| {
        let name = entry["name"].as_str().unwrap_or_default();
        let config = &entry["clientConfig"];
        name.ends_with(ENTRIES) && address.is_none_or(|address| has_same_address(config, address))
    });
    let read = |entry: &Value| {
        let text = entry["clientConfig"]["caBundle"].as_str()?;
        let pem = STANDARD.decode(text).unwrap_or_default();
        Some(bundle::read(&pem).unwrap_or_default())
    };
    ours.map(read).collect()
}

#[cfg(test)]
mod tests {
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
        let mut look =
            |revision: &str, seconds| watch.unchanged_for(revision.to_owned(), at(seconds));
        assert_eq!(look("1", 0).as_secs(), 0);
        assert_eq!(look("1", 5).as_secs(), 5);
        assert_eq!(look("2", 7).as_secs(), 0);
        assert_eq!(look("2", 9).as_secs(), 2);
    }
}
