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
use crate::kube_api::{self, CallError};
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
            let found = kube_api::read(client, &Id::new(kind, name)).await?;
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
#[path = "registered_tests.rs"]
mod tests;
