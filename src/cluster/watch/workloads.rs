//! Follows workloads for [`Workloads`]: lists and watches as those of the view, each item trimmed on the way.

use std::sync::Arc;

use futures::StreamExt;
use futures::stream::{BoxStream, SelectAll, select_all};
use jiff::Timestamp;
use kube::api::ListParams;
use kube::runtime::watcher::{Config, Event};
use kube::{Api, Client};

use crate::cluster::workloads::{Kind, Uid, Workloads, shrunk};
use crate::kube_api::DEADLINE;
use crate::kube_api::follow::{Failure, follow};
use crate::kube_api::pages::{self, Part};
use meshgate_core::injector::Injectors;

use super::items;
use super::written::Written;

/// Objects per page of a list. They are many, and an API server may hold a page of the largest.
const PAGE: u32 = 500;

type Events = BoxStream<'static, (Kind, Result<Event<Written<Kind>>, Failure>)>;

/// What happens to workloads, for ever.
pub struct Following(SelectAll<Events>);

/// What was noted.
#[derive(Debug)]
pub enum Noted {
    /// A pod that was created a moment ago.
    Pod(Uid),
    Other,
    /// A kind cannot be followed for now, or an object cannot be read: why.
    Problem(String),
}

impl Following {
    /// Lists all workloads and follows them.
    pub fn start(client: &Client, injectors: &Arc<Injectors>) -> Self {
        let config = Config::default().page_size(PAGE);
        let events = |kind: Kind| -> Events {
            let injectors = Arc::clone(injectors);
            let trim = move |item: &str| shrunk(kind, item, &injectors);
            let client = items::client(client, trim);
            let api = move |client| Api::<Written<Kind>>::all_with(client, &kind);
            let events = follow(&client, api, config.clone(), drop);
            events.map(move |event| (kind, event)).boxed()
        };
        Self(select_all(Kind::ALL.map(events)))
    }

    /// Waits for the next event and takes it into the view.
    pub async fn next(&mut self, view: &mut Workloads, now: impl Fn() -> Timestamp) -> Noted {
        let Some((kind, event)) = self.0.next().await else {
            return std::future::pending().await;
        };
        let noted = match event {
            Ok(Event::Init) => {
                view.begin(kind);
                Ok(None)
            }
            // Pods of a list are not new.
            Ok(Event::InitApply(written)) => view.put(kind, written.json(), now()).map(|_| None),
            Ok(Event::InitDone) => {
                view.complete(kind);
                Ok(None)
            }
            Ok(Event::Apply(written)) => view.put(kind, written.json(), now()),
            Ok(Event::Delete(written)) => view.remove(kind, written.json()).map(|()| None),
            Err(failure) => Err(failure.to_string()),
        };
        match noted {
            Ok(Some(pod)) => Noted::Pod(pod),
            Ok(None) => Noted::Other,
            Err(problem) => Noted::Problem(format!("cannot follow {}: {problem}", kind.plural())),
        }
    }
}

/// Reads the owners of pods once.
///
/// # Errors
/// The API server cannot be asked, or does not let us read a kind.
pub async fn owners(
    client: &Client,
    injectors: &Arc<Injectors>,
    now: Timestamp,
) -> Result<Workloads, String> {
    let mut view = Workloads::new(Arc::clone(injectors));
    for kind in Kind::ALL.into_iter().filter(|kind| *kind != Kind::Pod) {
        let api = Api::<Written<Kind>>::all_with(client.clone(), &kind);
        let asked = (Part::Whole, ListParams::default());
        // As the watch does, leave out what cannot be read.
        let take = |json: &str| drop(view.put(kind, json, now));
        let read = pages::each(client, api.resource_url(), asked, || DEADLINE, take).await;
        read.map_err(|error| error.to_string())?;
    }
    Ok(view)
}
