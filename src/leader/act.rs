//! Asks the API server for the Lease.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::rbac::v1::ClusterRole;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::time::timeout;

use crate::kube_api::{MANAGER, code, said};
use crate::render::{OURS, OWNER};

use super::plan::{Answer, Ask, REQUEST_DEADLINE};
use super::record::Record;

/// How long the owner is looked for: the Lease must not be late for it.
const OWNER_DEADLINE: Duration = Duration::from_secs(1);

/// Where the Lease is.
#[derive(Debug, Clone)]
pub struct Place {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// The Lease, and what of it is not about who holds it.
pub(super) struct Store {
    client: Client,
    place: Place,
    /// As it was seen last: labels and the like stay as they are.
    metadata: ObjectMeta,
}

impl Store {
    pub(super) fn new(client: Client, place: Place) -> Self {
        Self {
            client,
            place,
            metadata: ObjectMeta::default(),
        }
    }

    /// Asks this.
    ///
    /// # Errors
    /// Nobody can tell what became of it: why.
    pub(super) async fn ask(&mut self, ask: Ask) -> Result<Answer, String> {
        let Place { namespace, name } = self.place.clone();
        let api: Api<Lease> = Api::namespaced(self.client.clone(), &namespace);
        let params = PostParams {
            field_manager: Some(MANAGER.to_owned()),
            ..PostParams::default()
        };
        match ask {
            Ask::Look => match in_time(api.get(&name)).await {
                Ok(lease) => {
                    let (record, version) = self.note(lease);
                    Ok(Answer::Found(record, version))
                }
                Err(refused) if refused.code == Some(404) => Ok(Answer::Missing),
                Err(refused) => Err(refused.text),
            },
            Ask::Create(record) => {
                let mut lease = Lease {
                    metadata: self.first_metadata(),
                    spec: Some(record.spec()),
                };
                self.own(&mut lease.metadata).await;
                let created = in_time(api.create(&params, &lease)).await;
                self.written(created, &[409])
            }
            Ask::Update(record, version) => {
                let mut lease = Lease {
                    metadata: self.metadata.clone(),
                    spec: Some(record.spec()),
                };
                lease.metadata.resource_version = Some(version);
                self.own(&mut lease.metadata).await;
                let updated = in_time(api.replace(&name, &params, &lease)).await;
                self.written(updated, &[409, 404])
            }
        }
    }

    /// What a write has come to. By these codes somebody else was quicker, in one way or another.
    fn written(
        &mut self,
        written: Result<Lease, Refused>,
        beaten: &[u16],
    ) -> Result<Answer, String> {
        match written {
            Ok(lease) => {
                let (record, version) = self.note(lease);
                Ok(Answer::Written(record, version))
            }
            Err(refused) if refused.code.is_some_and(|code| beaten.contains(&code)) => {
                Ok(Answer::Conflict)
            }
            Err(refused) => Err(refused.text),
        }
    }

    fn note(&mut self, lease: Lease) -> (Record, String) {
        let version = lease.metadata.resource_version.clone();
        self.metadata = lease.metadata;
        let record = Record::of(&lease.spec.unwrap_or_default());
        (record, version.unwrap_or_default())
    }

    fn first_metadata(&self) -> ObjectMeta {
        let label = OURS.split_once('=');
        let label = label.map(|(key, value)| (key.to_owned(), value.to_owned()));
        ObjectMeta {
            name: Some(self.place.name.clone()),
            labels: Some(label.into_iter().collect()),
            ..ObjectMeta::default()
        }
    }

    /// Adds the owner with which it goes, if there is one: whoever cannot ask contends all the same.
    async fn own(&self, metadata: &mut ObjectMeta) {
        if metadata.owner_references.as_ref().is_none_or(Vec::is_empty) {
            metadata.owner_references = self.owner().await.map(|owner| vec![owner]);
        }
    }

    async fn owner(&self) -> Option<OwnerReference> {
        let api: Api<ClusterRole> = Api::all(self.client.clone());
        let found = timeout(OWNER_DEADLINE, api.get_metadata_opt(OWNER)).await;
        let metadata = found.ok()?.ok()??.metadata;
        let uid = metadata
            .uid
            .filter(|_| metadata.deletion_timestamp.is_none())?;
        Some(OwnerReference {
            api_version: "rbac.authorization.k8s.io/v1".to_owned(),
            kind: "ClusterRole".to_owned(),
            name: OWNER.to_owned(),
            uid,
            ..OwnerReference::default()
        })
    }
}

/// What came back instead of an object.
struct Refused {
    code: Option<u16>,
    text: String,
}

async fn in_time<T>(asked: impl Future<Output = Result<T, kube::Error>>) -> Result<T, Refused> {
    match timeout(REQUEST_DEADLINE, asked).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(Refused {
            code: code(&error),
            text: said(&error),
        }),
        Err(_) => Err(Refused {
            code: None,
            text: format!("no answer within {REQUEST_DEADLINE:?}"),
        }),
    }
}
