//! meshgate's own CA and leaf: reads both Secrets and what is registered, and takes the next step.

use jiff::Timestamp;
use kube::Client;

use crate::certs::bundle::{self, Ca};
use crate::certs::issue::{Authority, IssueError};
use crate::certs::rotation::{Held, Lifetimes, Observed, Registered, Step};
use crate::certs::secret_data::{self, Content};
use crate::kube_api::CallError;

use super::secret::{SecretRef, Seen};

/// Common name of CAs, for people only.
const CA_NAME: &str = "meshgate CA";

#[derive(Debug, Clone)]
pub struct Own {
    pub ca_secret: String,
    pub tls_secret: String,
    /// DNS names in the leaf.
    pub names: Vec<String>,
    pub lifetimes: Lifetimes,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum StepError {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error("{error}: {}", std::error::Error::source(error).map(ToString::to_string).unwrap_or_default())]
    Issue {
        #[from]
        error: IssueError,
    },
    #[error("{0}")]
    Content(String),
}

impl StepError {
    pub(super) fn is_conflict(&self) -> bool {
        matches!(self, Self::Call(error) if error.is_conflict())
    }
}

/// Both Secrets as they were read.
pub(super) struct Secrets {
    pub(super) ca: SecretRef,
    pub(super) leaf: SecretRef,
    pub(super) seen_ca: Option<Seen>,
    pub(super) seen_leaf: Option<Seen>,
}

impl Secrets {
    pub(super) async fn read(
        client: &Client,
        namespace: &str,
        own: &Own,
    ) -> Result<Self, CallError> {
        let ca = SecretRef::new(client, namespace, &own.ca_secret);
        let leaf = SecretRef::new(client, namespace, &own.tls_secret);
        Ok(Self {
            seen_ca: ca.read().await?,
            seen_leaf: leaf.read().await?,
            ca,
            leaf,
        })
    }

    /// Judges both Secrets.
    pub(super) fn observed(&self, own: &Own, registered: Registered, now: Timestamp) -> Observed {
        let ca = secret_data::ca(self.seen_ca.as_ref().map(|seen| &seen.content));
        let mut known: Vec<Ca> = Vec::new();
        if let Held::Good(ca) = &ca {
            known.push(ca.current.clone());
            known.extend(ca.bundle.iter().cloned());
        }
        known.extend(registered.entries.iter().flatten().flatten().cloned());
        let content = self.seen_leaf.as_ref().map(|seen| &seen.content);
        Observed {
            leaf: secret_data::leaf(content, &own.names, &known, now),
            ca,
            registered,
            lifetimes: own.lifetimes,
        }
    }

    /// Takes a step; does nothing for one that only waits.
    pub(super) async fn act(
        &self,
        step: &Step,
        own: &Own,
        now: Timestamp,
    ) -> Result<(), StepError> {
        match step {
            Step::MakeCa { keep, .. } => {
                let made = Authority::new(CA_NAME, own.lifetimes.ca, now)?;
                let content = Content {
                    cas: Some((made.cert_pem() + &bundle::pem(keep)).into_bytes()),
                    cert: Some(made.cert_pem().into_bytes()),
                    key: Some(made.key_pem().into_bytes()),
                };
                self.ca.write(self.seen_ca.as_ref(), &content).await?;
            }
            Step::IssueLeaf {
                lifetime, bundle, ..
            } => {
                let ca = self.seen_ca.as_ref().map(|seen| seen.content.authority());
                let missing = || Err("the CA's Secret is missing".to_owned());
                let ca = ca.unwrap_or_else(missing).map_err(StepError::Content)?;
                let issued = ca.issue(&own.names, *lifetime, now)?;
                let content = Content {
                    cert: Some(issued.cert_pem.into_bytes()),
                    key: Some(issued.key_pem.into_bytes()),
                    cas: Some(bundle::pem(bundle).into_bytes()),
                };
                self.leaf.write(self.seen_leaf.as_ref(), &content).await?;
            }
            Step::KeepCas { bundle } => keep(&self.ca, self.seen_ca.as_ref(), bundle).await?,
            Step::KeepLeaf { bundle } => keep(&self.leaf, self.seen_leaf.as_ref(), bundle).await?,
            Step::Wait { .. } | Step::Rest { .. } => {}
        }
        Ok(())
    }

    /// Gives both the owner with which they go. True if something was written.
    pub(super) async fn adopt(&self) -> Result<bool, CallError> {
        let mut wrote = false;
        for (place, seen) in [(&self.ca, &self.seen_ca), (&self.leaf, &self.seen_leaf)] {
            if let Some(seen) = seen {
                wrote |= place.adopt(seen).await?;
            }
        }
        Ok(wrote)
    }

    /// The Secret that a step is about.
    pub(super) fn place_of(&self, step: &Step) -> &SecretRef {
        if matches!(step, Step::MakeCa { .. } | Step::KeepCas { .. }) {
            &self.ca
        } else {
            &self.leaf
        }
    }
}

/// Writes `ca.crt` anew and leaves the rest as it is.
async fn keep(place: &SecretRef, seen: Option<&Seen>, bundle: &[Ca]) -> Result<(), CallError> {
    let Some(seen) = seen else { return Ok(()) };
    let content = Content {
        cas: Some(bundle::pem(bundle).into_bytes()),
        ..seen.content.clone()
    };
    place.write(Some(seen), &content).await
}

/// When the CA and the leaf expire, for metrics.
pub(super) fn ends(observed: &Observed) -> [(&'static str, Option<Timestamp>); 2] {
    let ca = match &observed.ca {
        Held::Good(ca) => Some(ca.current.not_after),
        Held::Missing | Held::Unusable(_) => None,
    };
    let leaf = match &observed.leaf {
        Held::Good(leaf) => Some(leaf.not_after),
        Held::Missing | Held::Unusable(_) => None,
    };
    [("ca", ca), ("leaf", leaf)]
}
