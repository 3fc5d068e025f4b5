//! Reads and writes the Lease.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::{Api, Client};
use tokio::time::timeout;

use crate::kube_api::{CallError, by_meshgate, call_within, owner};
use meshgate_core::render::OURS;

use super::plan::{Answer, Ask, REQUEST_DEADLINE};

/// The owner is looked up for so long: the Lease must not be late for it.
const OWNER_DEADLINE: Duration = Duration::from_secs(1);

#[derive(Debug, Clone)]
pub struct LeaseName {
    pub namespace: String,
    pub name: String,
}

pub(super) struct Store {
    client: Client,
    lease: LeaseName,
    /// As it was seen last: what other clients add, labels for instance, stays.
    metadata: ObjectMeta,
}

impl Store {
    pub(super) fn new(client: Client, lease: LeaseName) -> Self {
        Self {
            client,
            lease,
            metadata: ObjectMeta::default(),
        }
    }

    /// # Errors
    /// The request failed. A write may have come through all the same.
    pub(super) async fn ask(&mut self, ask: Ask) -> Result<Answer, CallError> {
        let LeaseName { namespace, name } = self.lease.clone();
        let api: Api<Lease> = Api::namespaced(self.client.clone(), &namespace);
        let what = || format!("{namespace}/{name}");
        let params = by_meshgate();
        match ask {
            Ask::Look => match call_within(REQUEST_DEADLINE, what, api.get(&name)).await {
                Ok(lease) => Ok(self.note(lease, Answer::Found)),
                Err(error) if error.is_gone() => Ok(Answer::Missing),
                Err(error) => Err(error),
            },
            Ask::Create(spec) => {
                let lease = self.with(spec, self.first_metadata()).await;
                let created = api.create(&params, &lease);
                self.written(call_within(REQUEST_DEADLINE, what, created).await)
            }
            Ask::Update(spec, version) => {
                let mut lease = self.with(spec, self.metadata.clone()).await;
                lease.metadata.resource_version = Some(version);
                let updated = api.replace(&name, &params, &lease);
                match call_within(REQUEST_DEADLINE, what, updated).await {
                    Err(error) if error.is_gone() => Ok(Answer::Conflict),
                    updated => self.written(updated),
                }
            }
        }
    }

    fn written(&mut self, written: Result<Lease, CallError>) -> Result<Answer, CallError> {
        match written {
            Ok(lease) => Ok(self.note(lease, Answer::Written)),
            Err(error) if error.is_conflict() => Ok(Answer::Conflict),
            Err(error) => Err(error),
        }
    }

    fn note(&mut self, lease: Lease, answer: fn(LeaseSpec, String) -> Answer) -> Answer {
        let version = lease.metadata.resource_version.clone();
        self.metadata = lease.metadata;
        answer(lease.spec.unwrap_or_default(), version.unwrap_or_default())
    }

    fn first_metadata(&self) -> ObjectMeta {
        let label = OURS.split_once('=');
        let label = label.map(|(key, value)| (key.to_owned(), value.to_owned()));
        ObjectMeta {
            name: Some(self.lease.name.clone()),
            labels: Some(label.into_iter().collect()),
            ..ObjectMeta::default()
        }
    }

    /// The Lease to write, with the owner with which it goes. Without an answer about the owner, this
    /// process contends all the same.
    async fn with(&self, spec: LeaseSpec, mut metadata: ObjectMeta) -> Lease {
        if metadata.owner_references.as_ref().is_none_or(Vec::is_empty) {
            metadata.owner_references = self.owner().await.map(|owner| vec![owner]);
        }
        Lease {
            metadata,
            spec: Some(spec),
        }
    }

    async fn owner(&self) -> Option<OwnerReference> {
        let found = timeout(OWNER_DEADLINE, owner::reference(&self.client)).await;
        found.ok()?.ok()?
    }
}
