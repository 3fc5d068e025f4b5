//! The Secrets of certificates: read, created only where missing, replaced only as they were seen.

use std::collections::BTreeMap;

use futures::stream::BoxStream;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::PartialObjectMeta;
use kube::runtime::watcher::Config;
use kube::{Api, Client};

use crate::certs::secret_data::{CAS, CERT, Content, KEY};
use crate::kube_api::follow::changes;
use crate::kube_api::{CallError, as_seen, by_meshgate, call, gone_is_deleted, owner};
use meshgate_core::render::OURS;

/// The type of a Secret with a certificate and its key.
const TLS: &str = "kubernetes.io/tls";

#[derive(Clone)]
pub struct SecretRef {
    pub client: Client,
    namespace: String,
    name: String,
}

/// A Secret as it was read.
#[derive(Clone)]
pub struct Seen {
    pub content: Content,
    object: Secret,
}

impl Seen {
    pub fn created(&self) -> Option<Timestamp> {
        let created = self.object.metadata.creation_timestamp.as_ref();
        created.map(|time| time.0)
    }

    fn is_immutable(&self) -> bool {
        self.object.immutable == Some(true)
    }
}

impl std::fmt::Display for SecretRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl SecretRef {
    pub fn new(client: &Client, namespace: &str, name: &str) -> Self {
        Self {
            client: client.clone(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    /// An item whenever the Secret may have changed. Needs list and watch of this one name.
    pub fn changes(&self) -> BoxStream<'static, ()> {
        let namespace = self.namespace.clone();
        let api = move |client| Api::<PartialObjectMeta<Secret>>::namespaced(client, &namespace);
        let config = Config::default().fields(&format!("metadata.name={}", self.name));
        changes(&self.client, api, config)
    }

    fn api(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// # Errors
    /// The API server refuses the call or does not answer.
    pub async fn read(&self) -> Result<Option<Seen>, CallError> {
        let what = || format!("cannot read Secret {self}");
        let found = call(what, self.api().get_opt(&self.name)).await?;
        Ok(found.map(|object| Seen {
            content: content(&object),
            object,
        }))
    }

    /// Creates it where it was missing, else replaces it as it was read. An immutable one is deleted
    /// instead, and is missing at the next look.
    ///
    /// # Errors
    /// The API server refuses it or does not answer; a conflict if another client wrote first.
    pub async fn write(&self, seen: Option<&Seen>, content: &Content) -> Result<(), CallError> {
        if let Some(seen) = seen.filter(|seen| seen.is_immutable()) {
            return self.delete(seen).await;
        }
        let (api, params) = (self.api(), by_meshgate());
        let mut object = seen.map(|seen| seen.object.clone()).unwrap_or_default();
        fill(&mut object, content, owner::reference(&self.client).await?);
        if seen.is_some() {
            let what = || format!("cannot write Secret {self}");
            call(what, api.replace(&self.name, &params, &object)).await?;
        } else {
            object.type_ = Some(TLS.to_owned());
            object.metadata.name = Some(self.name.clone());
            let what = || format!("cannot create Secret {self}");
            call(what, api.create(&params, &object)).await?;
        }
        Ok(())
    }

    /// Gives it the owner with which it goes, if that exists. True if that was written.
    ///
    /// # Errors
    /// As those of [`SecretRef::write`].
    pub async fn adopt(&self, seen: &Seen) -> Result<bool, CallError> {
        let Some(owner) = owner::reference(&self.client).await? else {
            return Ok(false);
        };
        let mut owners = seen.object.metadata.owner_references.iter().flatten();
        if owners.any(|one| *one == owner) || seen.is_immutable() {
            return Ok(false);
        }
        self.write(Some(seen), &seen.content).await?;
        Ok(true)
    }

    async fn delete(&self, seen: &Seen) -> Result<(), CallError> {
        let (api, params) = (self.api(), as_seen(&seen.object.metadata));
        let what = || format!("cannot delete Secret {self}, which is immutable");
        gone_is_deleted(call(what, api.delete(&self.name, &params)).await)
    }
}

/// The keys that matter.
pub fn content(object: &Secret) -> Content {
    let of = |key: &str| Some(object.data.as_ref()?.get(key)?.0.clone());
    Content {
        cert: of(CERT),
        key: of(KEY),
        cas: of(CAS),
    }
}

fn fill(object: &mut Secret, content: &Content, owner: Option<OwnerReference>) {
    let keys = [
        (CERT, &content.cert),
        (KEY, &content.key),
        (CAS, &content.cas),
    ];
    let data = keys.into_iter().filter_map(|(key, value)| {
        let value = value.clone()?;
        Some((key.to_owned(), ByteString(value)))
    });
    object.data = Some(data.collect());
    object.string_data = None;
    if let Some((key, value)) = OURS.split_once('=') {
        let labels = object.metadata.labels.get_or_insert_with(BTreeMap::new);
        labels.insert(key.to_owned(), value.to_owned());
    }
    if let Some(owner) = owner {
        let owners = object
            .metadata
            .owner_references
            .get_or_insert_with(Vec::new);
        // A reference to an earlier owner of that name would let the garbage collector delete the Secret.
        owners.retain(|one| one.kind != owner.kind || one.name != owner.name);
        owners.push(owner);
    }
}
