//! What an API server is asked, and how long it may take.

use std::io;
use std::time::Duration;

use futures::stream::BoxStream;
use futures::{AsyncBufReadExt, StreamExt};
use kube::Client;
use kube::api::{ListParams, WatchParams};
use kube::core::Request;
use tokio::time::timeout;

use crate::cluster::object::Kind;

use super::Failure;

/// How long the API server may take to begin an answer, or to give a page of a list.
const ANSWER: Duration = Duration::from_secs(30);

/// What a watch says, an event a line. kube's own stream of events logs every connection that
/// breaks, and copies every object.
pub(super) type Lines = BoxStream<'static, io::Result<String>>;

/// The objects of one kind at an API server.
pub(super) struct Source {
    pub(super) client: Client,
    pub(super) kind: Kind,
}

impl Source {
    /// One page of a list, as JSON.
    pub(super) async fn page(&self, asked: &ListParams) -> Result<String, Failure> {
        let request = Request::new(path(self.kind)).list(asked);
        let request = request.map_err(kube::Error::BuildRequest)?;
        in_time(self.client.request_text(request)).await
    }

    /// A watch of what happens after `version`, for `length` at most; with `initial` it begins with
    /// a list.
    pub(super) async fn watch(
        &self,
        version: &str,
        length: Duration,
        initial: bool,
    ) -> Result<Lines, Failure> {
        let asked = WatchParams {
            timeout: u32::try_from(length.as_secs()).ok(),
            bookmarks: true,
            send_initial_events: initial,
            ..WatchParams::default()
        };
        let request = Request::new(path(self.kind)).watch(&asked, version);
        let request = request.map_err(kube::Error::BuildRequest)?;
        let body = in_time(self.client.request_stream(request)).await?;
        Ok(body.lines().boxed())
    }
}

/// Where the objects of a kind are.
pub(super) fn path(kind: Kind) -> String {
    let group = match kind {
        Kind::Namespace | Kind::Service | Kind::Node => "/api/v1",
        Kind::EndpointSlice => "/apis/discovery.k8s.io/v1",
        Kind::Webhooks => "/apis/admissionregistration.k8s.io/v1",
    };
    format!("{group}/{}", kind.plural())
}

/// An answer of the API server, if it comes in time.
async fn in_time<T>(answer: impl Future<Output = Result<T, kube::Error>>) -> Result<T, Failure> {
    match timeout(ANSWER, answer).await {
        Ok(answer) => answer.map_err(Failure::from),
        Err(_) => Err(Failure::server(format!("no answer within {ANSWER:?}"))),
    }
}
