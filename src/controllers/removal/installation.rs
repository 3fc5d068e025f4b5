//! What whoever installed us has put into a cluster besides the registration: found by a label, and by
//! the names of what meshgate itself makes there.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams};
use kube::{Api, Client};

use crate::kube_api::{CallError, call};

use super::plan::{BY_NAME, HELM, INSTANCE, OURS, PART_OF, Place, SORTS, Sort};

/// The Deployment that writes the registration.
const CONTROL: &str = "meshgate-control";
/// Its pods.
const CONTROL_PODS: &str = "app.kubernetes.io/part-of=meshgate,app.kubernetes.io/component=control";
/// How long its pods are waited for: one on a lost node never goes.
const STOPS_WITHIN: Duration = Duration::from_secs(60);
/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(250);

/// One object of an installation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Its kind.
    pub sort: Sort,
    /// Where it is; empty if it is the cluster's.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// What there is of an installation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Installation {
    /// In the order in which it goes: first what writes.
    pub pieces: Vec<Piece>,
    /// Our namespace, if it is there and somebody else's: it stays.
    pub foreign_home: Option<String>,
    /// What could not be looked for, and why.
    pub unseen: Vec<String>,
}

/// How much is to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// Everything.
    All,
    /// What meshgate has written itself, and the Deployment that would write it again.
    Registration,
}

/// Looks for it in our namespace and in what has none.
///
/// # Errors
/// The API server cannot be asked. A kind that may not be listed is noted instead.
pub async fn find(
    client: &Client,
    namespace: &str,
    extent: Extent,
) -> Result<Installation, CallError> {
    let mut found = Installation::default();
    let home = home(client, namespace).await?;
    let mut releases = Vec::new();
    for sort in SORTS {
        if extent == Extent::All {
            releases.extend(labelled(client, (sort, namespace), &mut found).await?);
        }
        named(client, (sort, namespace), extent, &mut found).await?;
    }
    if extent == Extent::All {
        helm(client, namespace, releases, &mut found).await?;
        match home {
            Some(true) => found.pieces.push(Piece {
                sort: Sort::NAMESPACE,
                namespace: String::new(),
                name: namespace.to_owned(),
            }),
            Some(false) => found.foreign_home = Some(namespace.to_owned()),
            None => {}
        }
    }
    Ok(found)
}

/// Notes what carries the label; says of which releases.
async fn labelled(
    client: &Client,
    (sort, namespace): (Sort, &str),
    found: &mut Installation,
) -> Result<Vec<String>, CallError> {
    let mut releases = Vec::new();
    for object in list(client, (sort, namespace), PART_OF, &mut found.unseen).await? {
        let metadata = object.metadata;
        releases.extend(
            metadata
                .labels
                .and_then(|mut labels| labels.remove(INSTANCE)),
        );
        let name = metadata.name.unwrap_or_default();
        if sort.is_owner(&name) || metadata.deletion_timestamp.is_some() {
            continue;
        }
        found.pieces.push(Piece {
            sort,
            namespace: metadata.namespace.unwrap_or_default(),
            name,
        });
    }
    Ok(releases)
}

/// Whether our namespace is there and to stay, and whether it was made for us.
async fn home(client: &Client, namespace: &str) -> Result<Option<bool>, CallError> {
    let api: Api<Namespace> = Api::all(client.clone());
    let what = || format!("cannot read namespace {namespace}");
    let found = call(what, api.get_metadata_opt(namespace)).await?;
    let metadata = found.map(|found| found.metadata);
    let metadata = metadata.filter(|metadata| metadata.deletion_timestamp.is_none());
    let (key, value) = PART_OF.split_once('=').unwrap_or_default();
    Ok(metadata.map(|metadata| {
        let labels = metadata.labels.unwrap_or_default();
        labels.get(key).is_some_and(|own| own == value)
    }))
}

fn api(client: &Client, (sort, namespace): (Sort, &str)) -> Api<DynamicObject> {
    let resource = ApiResource {
        group: sort.group.to_owned(),
        version: "v1".to_owned(),
        api_version: match sort.group {
            "" => "v1".to_owned(),
            group => format!("{group}/v1"),
        },
        kind: sort.kind.to_owned(),
        plural: sort.plural.to_owned(),
    };
    match sort.place {
        Place::Home => Api::namespaced_with(client.clone(), namespace, &resource),
        Place::Anywhere | Place::Cluster => Api::all_with(client.clone(), &resource),
    }
}

/// Objects with these labels. A kind that is not served has none.
async fn list(
    client: &Client,
    (sort, namespace): (Sort, &str),
    labels: &str,
    unseen: &mut Vec<String>,
) -> Result<Vec<kube::core::PartialObjectMeta<DynamicObject>>, CallError> {
    let what = || format!("cannot list objects of kind {}", sort.kind);
    let params = ListParams::default().labels(labels);
    let api = api(client, (sort, namespace));
    match call(what, api.list_metadata(&params)).await {
        Ok(list) => Ok(list.items),
        Err(error) if error.is_gone() => Ok(Vec::new()),
        Err(error) if error.is_forbidden() => {
            unseen.push(error.to_string());
            Ok(Vec::new())
        }
        Err(error) => Err(error),
    }
}

/// What is known by its name, whatever became of its labels: it takes no right to list anything.
async fn named(
    client: &Client,
    (sort, namespace): (Sort, &str),
    extent: Extent,
    found: &mut Installation,
) -> Result<(), CallError> {
    let names = BY_NAME.iter().filter(|(kind, _)| *kind == sort.kind);
    for name in names.flat_map(|(_, names)| names.iter()) {
        let is_known = |piece: &Piece| piece.sort == sort && piece.name == *name;
        if found.pieces.iter().any(is_known) {
            continue;
        }
        let api = api(client, (sort, namespace));
        let what = || format!("cannot read {} {name}", sort.kind);
        let object = match call(what, api.get_metadata_opt(name)).await {
            Err(error) if error.is_forbidden() => {
                found.unseen.push(error.to_string());
                continue;
            }
            object => object?,
        };
        let Some(object) = object else { continue };
        let labels = object.metadata.labels.unwrap_or_default();
        // Somebody else's (cert-manager's) comes back as long as what makes it is there.
        let goes = extent == Extent::All || name == &CONTROL || is_made_by_us(&labels);
        if goes && object.metadata.deletion_timestamp.is_none() {
            found.pieces.push(Piece {
                sort,
                namespace: namespace.to_owned(),
                name: (*name).to_owned(),
            });
        }
    }
    Ok(())
}

fn is_made_by_us(labels: &BTreeMap<String, String>) -> bool {
    labels.get(OURS.0).is_some_and(|by| by == OURS.1)
}

/// What Helm keeps of the releases.
async fn helm(
    client: &Client,
    namespace: &str,
    mut releases: Vec<String>,
    found: &mut Installation,
) -> Result<(), CallError> {
    releases.sort_unstable();
    releases.dedup();
    for release in releases {
        let labels = format!("{HELM},name={release}");
        let sort = Sort::SECRET;
        let listed = list(client, (sort, namespace), &labels, &mut found.unseen).await?;
        let names = listed.into_iter().filter_map(|object| object.metadata.name);
        found.pieces.extend(names.map(|name| Piece {
            sort,
            namespace: namespace.to_owned(),
            name,
        }));
    }
    Ok(())
}

/// Removes one.
///
/// # Errors
/// The API server refuses it, or cannot be asked. That it is gone already is no error.
pub async fn remove(client: &Client, piece: &Piece) -> Result<(), CallError> {
    let sort = match piece.sort.place {
        // Anywhere is somewhere, once it is found.
        Place::Anywhere => Sort {
            place: Place::Home,
            ..piece.sort
        },
        Place::Home | Place::Cluster => piece.sort,
    };
    let api = api(client, (sort, &piece.namespace));
    let params = DeleteParams::background();
    let what = || format!("cannot delete {} {}", piece.sort.kind, piece.name);
    match call(what, api.delete(&piece.name, &params)).await {
        Err(error) if !error.is_gone() => Err(error),
        _ => Ok(()),
    }
}

/// Waits until the pods that write the registration have ended. False if some have not in time.
///
/// # Errors
/// The API server cannot be asked.
pub async fn stopped(
    client: &Client,
    namespace: &str,
    deadline: Instant,
) -> Result<bool, CallError> {
    let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let end = deadline.min(Instant::now() + STOPS_WITHIN);
    let params = ListParams::default().labels(CONTROL_PODS);
    loop {
        let what = || format!("cannot list pods of namespace {namespace}");
        let pods = call(what, api.list_metadata(&params)).await?;
        if pods.items.is_empty() {
            return Ok(true);
        }
        if Instant::now() >= end {
            return Ok(false);
        }
        tokio::time::sleep(PAUSE).await;
    }
}
