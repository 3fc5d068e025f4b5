//! The Secrets of certificates: read, created only where missing, replaced only as they were seen.

use std::collections::BTreeMap;

use futures::StreamExt;
use futures::stream::BoxStream;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::rbac::v1::ClusterRole;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{DeleteParams, PartialObjectMeta, PostParams, Preconditions};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{Config, watcher};
use kube::{Api, Client};

use crate::certs::held::{CAS, CERT, Content, KEY};
use crate::kube_api::{CallError, MANAGER, call};
use crate::render::{OURS, OWNER};

/// The type of a Secret with a certificate and its key.
const TLS: &str = "kubernetes.io/tls";

/// A Secret by its name.
#[derive(Clone)]
pub struct Place {
    client: Client,
    namespace: String,
    name: String,
}

/// A Secret as it was seen.
#[derive(Clone)]
pub struct Seen {
    /// What counts of its content.
    pub content: Content,
    object: Secret,
}

impl Seen {
    /// When the API server made it.
    pub fn created(&self) -> Option<Timestamp> {
        let created = self.object.metadata.creation_timestamp.as_ref();
        created.map(|time| time.0)
    }

    /// Whether it goes when this owner goes.
    fn has_owner(&self, owner: &OwnerReference) -> bool {
        let owners = self.object.metadata.owner_references.as_deref();
        owners.unwrap_or_default().contains(owner)
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl Place {
    /// The Secret of this name.
    pub fn new(client: &Client, namespace: &str, name: &str) -> Self {
        Self {
            client: client.clone(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    /// The client by which it is read.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// An item whenever something may have changed. Needs list and watch of this one name.
    pub fn changes(&self) -> BoxStream<'static, ()> {
        let api: Api<PartialObjectMeta<Secret>> =
            Api::namespaced(self.client.clone(), &self.namespace);
        let config = Config::default().fields(&format!("metadata.name={}", self.name));
        watcher(api, config).default_backoff().map(drop).boxed()
    }

    fn api(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// The Secret, if it is there.
    ///
    /// # Errors
    /// The API server cannot be asked, or refuses it.
    pub async fn read(&self) -> Result<Option<Seen>, CallError> {
        let what = || format!("cannot read Secret {self}");
        let found = call(what, self.api().get_opt(&self.name)).await?;
        Ok(found.map(|object| Seen {
            content: content(&object),
            object,
        }))
    }

    /// Creates it where it was missing, else replaces it as it was seen. One that must not change
    /// is deleted instead, and is missing at the next look.
    ///
    /// # Errors
    /// The API server refuses it, or cannot be asked; a conflict if somebody was quicker.
    pub async fn write(&self, seen: Option<&Seen>, content: &Content) -> Result<(), CallError> {
        let owner = self.owner().await?;
        let api = self.api();
        let params = PostParams {
            field_manager: Some(MANAGER.to_owned()),
            ..PostParams::default()
        };
        let Some(seen) = seen else {
            let mut object = Secret {
                type_: Some(TLS.to_owned()),
                ..Secret::default()
            };
            object.metadata.name = Some(self.name.clone());
            fill(&mut object, content, owner);
            let what = || format!("cannot create Secret {self}");
            call(what, api.create(&params, &object)).await?;
            return Ok(());
        };
        if seen.object.immutable == Some(true) {
            return self.delete(seen).await;
        }
        let mut object = seen.object.clone();
        fill(&mut object, content, owner);
        let what = || format!("cannot write Secret {self}");
        call(what, api.replace(&self.name, &params, &object)).await?;
        Ok(())
    }

    /// Makes it go with the owner of all else, if that is there and it does not yet. True if that
    /// was written.
    ///
    /// # Errors
    /// As those of [`Place::write`].
    pub async fn adopt(&self, seen: &Seen) -> Result<bool, CallError> {
        let Some(owner) = self.owner().await? else {
            return Ok(false);
        };
        if seen.has_owner(&owner) || seen.object.immutable == Some(true) {
            return Ok(false);
        }
        self.write(Some(seen), &seen.content).await?;
        Ok(true)
    }

    async fn delete(&self, seen: &Seen) -> Result<(), CallError> {
        let metadata = &seen.object.metadata;
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: metadata.uid.clone(),
                resource_version: metadata.resource_version.clone(),
            }),
            ..DeleteParams::default()
        };
        let what = || format!("cannot delete Secret {self}, which is immutable");
        match call(what, self.api().delete(&self.name, &params)).await {
            Err(error) if !error.is_gone() => Err(error),
            _ => Ok(()),
        }
    }

    /// The owner of all that we write, if it is there.
    async fn owner(&self) -> Result<Option<OwnerReference>, CallError> {
        let api: Api<ClusterRole> = Api::all(self.client.clone());
        let what = || format!("cannot read ClusterRole {OWNER}");
        let found = call(what, api.get_metadata_opt(OWNER)).await?;
        let found = found.filter(|role| role.metadata.deletion_timestamp.is_none());
        Ok(found
            .and_then(|role| role.metadata.uid)
            .map(|uid| OwnerReference {
                api_version: "rbac.authorization.k8s.io/v1".to_owned(),
                kind: "ClusterRole".to_owned(),
                name: OWNER.to_owned(),
                uid,
                ..OwnerReference::default()
            }))
    }
}

/// What counts of a Secret.
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
        // An owner of that name that is gone would take the Secret with it.
        owners.retain(|one| one.kind != owner.kind || one.name != owner.name);
        owners.push(owner);
    }
}
