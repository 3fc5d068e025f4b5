//! What is read once and not followed: one namespace for a look-up, the state of injectors for commands.

use std::sync::Arc;

use futures::FutureExt;
use kube::{Api, Client, Error};

use crate::cluster::namespace_lookup::Fetch;
use crate::cluster::object::{Kind, Watched};
use crate::cluster::store::Store;
use crate::kube_api::DEADLINE;
use crate::kube_api::follow::Failure;
use crate::kube_api::pages::{self, Part};
use meshgate_core::injector::Injectors;
use meshgate_core::text::{MAX_DNS_LABEL, is_dns_label};

use super::written::{Written, object};

/// Asks the API server for one namespace. The deadline is the caller's.
pub fn fetch(client: Client) -> Fetch {
    Arc::new(move |name| {
        let api = Api::<Written>::all_with(client.clone(), &Kind::Namespace);
        async move {
            // The name is a caller's, and becomes part of a path.
            if !is_dns_label(&name, MAX_DNS_LABEL) {
                return Ok(None);
            }
            let found = match api.get(&name).await {
                Ok(found) => found,
                Err(Error::Api(status)) if status.code == 404 => return Ok(None),
                Err(error) => return Err(Failure::of(&error).text),
            };
            let read = serde_json::from_str(found.json());
            read.map_err(|error| format!("it cannot be read: {error}"))
        }
        .boxed()
    })
}

/// A view of everything but namespaces, as it is now. Objects that cannot be read are left out, as the
/// watch leaves them out.
///
/// # Errors
/// The API server cannot be asked, or does not let us read a kind.
pub async fn snapshot(client: &Client, injectors: Arc<Injectors>) -> Result<Store, String> {
    let mut store = Store::of_whole(injectors);
    for kind in [Kind::Webhooks, Kind::Node] {
        read(client, &mut store, kind.into()).await?;
    }
    store.settle();
    for service in store.wanted().into_iter().map(Arc::new) {
        for kind in [Kind::Service, Kind::EndpointSlice] {
            let service = Some(Arc::clone(&service));
            read(client, &mut store, Watched { kind, service }).await?;
        }
    }
    store.settle();
    Ok(store)
}

/// Reads the namespaces into such a view.
///
/// # Errors
/// As those of [`snapshot`].
pub async fn namespaces(client: &Client, store: &mut Store) -> Result<(), String> {
    read(client, store, Kind::Namespace.into()).await
}

/// Reads the list of this into the view.
async fn read(client: &Client, store: &mut Store, watched: Watched) -> Result<(), String> {
    let (kind, api) = (watched.kind, watched.api(client.clone()));
    let mut list = Store::new(Arc::clone(store.injectors()));
    let asked = (Part::Whole, watched.selector());
    let take = |json: &str| {
        if let Ok(object) = object(kind, json, store.injectors().keys()) {
            list.apply(object);
        }
    };
    let read = pages::each(client, api.resource_url(), asked, || DEADLINE, take).await;
    read.map_err(|error| error.to_string())?;
    store.relist(&watched, list);
    Ok(())
}
