//! Where injectors are and what of them is ready, read once: for tools.

use std::sync::Arc;

use kube::Client;
use kube::api::ListParams;

use crate::cluster::object::Kind;
use crate::cluster::store::Store;
use crate::injector::Injectors;

use super::source::Source;
use super::wire::Reader;

/// Objects in one page.
const PAGE: u32 = 500;

/// A view of everything but namespaces, as it is now. Objects that cannot be read are left out, as the
/// watch does it.
///
/// # Errors
/// The API server cannot be asked, or does not let us read a kind.
pub async fn snapshot(client: &Client, injectors: Arc<Injectors>) -> Result<Store, String> {
    let mut store = Store::of_whole(Arc::clone(&injectors));
    for kind in Kind::ALL
        .into_iter()
        .filter(|kind| *kind != Kind::Namespace)
    {
        let reader = Reader {
            kind,
            keys: injectors.keys(),
        };
        let source = Source {
            client: client.clone(),
            kind,
        };
        let mut asked = ListParams::default().limit(PAGE);
        loop {
            let json = source
                .page(&asked)
                .await
                .map_err(|failure| failure.trouble.text)?;
            let page = reader.page(&json);
            let page = page.map_err(|problem| {
                format!("the list of {} cannot be read: {problem}", kind.plural())
            })?;
            for item in page.items {
                item.object
                    .into_iter()
                    .for_each(|object| store.apply(object));
            }
            match page.next {
                Some(next) => asked.continue_token = Some(next),
                None => break,
            }
        }
    }
    store.settle();
    Ok(store)
}
