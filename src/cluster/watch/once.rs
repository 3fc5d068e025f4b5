//! What is read once and not followed: one namespace for a look-up, the state of injectors for commands.

use std::sync::Arc;

use futures::FutureExt;
use kube::api::ListParams;
use kube::{Api, Client, Error};

use crate::cluster::namespace_lookup::Fetch;
use crate::cluster::object::Kind;
use crate::cluster::store::Store;
use crate::kube_api::call;
use crate::kube_api::follow::Failure;
use meshgate_core::injector::Injectors;

use super::PAGE;
use super::written::Written;

/// Asks the API server for one namespace. The deadline is the caller's.
pub fn fetch(client: Client) -> Fetch {
    Arc::new(move |name| {
        let api = Api::<Written>::all_with(client.clone(), &Kind::Namespace);
        async move {
            // The name is a caller's, and becomes part of a path.
            if !is_name(&name) {
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

/// Whether a namespace can have this name: a DNS label.
fn is_name(name: &str) -> bool {
    let is_fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !name.is_empty() && name.len() <= 63 && name.chars().all(is_fine)
}

/// A view of everything but namespaces, as it is now. Objects that cannot be read are left out, as the
/// watch leaves them out.
///
/// # Errors
/// The API server cannot be asked, or does not let us read a kind.
pub async fn snapshot(client: &Client, injectors: Arc<Injectors>) -> Result<Store, String> {
    let mut store = Store::of_whole(Arc::clone(&injectors));
    let kinds = Kind::ALL
        .into_iter()
        .filter(|kind| *kind != Kind::Namespace);
    for kind in kinds {
        let api = Api::<Written>::all_with(client.clone(), &kind);
        let mut asked = ListParams::default().limit(PAGE);
        loop {
            let what = || format!("cannot list {}", kind.plural());
            let page = call(what, api.list(&asked)).await;
            let page = page.map_err(|error| error.to_string())?;
            for item in &page.items {
                let object = item.object(kind, injectors.keys());
                object.into_iter().for_each(|object| store.apply(object));
            }
            asked.continue_token = page.metadata.continue_.filter(|next| !next.is_empty());
            if asked.continue_token.is_none() {
                break;
            }
        }
    }
    store.settle();
    Ok(store)
}
