//! Lists of any size: a page at a time, each object handed over as its text, so that no more than one page is
//! held.

use std::time::Duration;

use kube::Client;
use kube::api::{GetParams, ListParams};
use kube::core::Request;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{CallError, call_within};

/// Objects per page where the caller does not say it, as `kubectl` asks for them.
const PAGE: u32 = 500;

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Whole objects.
    Whole,
    /// Their metadata alone.
    Metadata,
}

#[derive(Deserialize)]
struct Page<'a> {
    #[serde(default)]
    metadata: Next,
    #[serde(borrow, default)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Default, Deserialize)]
struct Next {
    #[serde(default, rename = "continue")]
    token: Option<String>,
}

/// Hands over each object of the list at this path. `within` says how long the next page may take.
///
/// # Errors
/// The API server refuses a page, does not answer in time, or answers with something else. `take` then has
/// the objects of the pages before.
pub async fn each(
    client: &Client,
    path: &str,
    (part, mut params): (Part, ListParams),
    within: impl Fn() -> Duration,
    mut take: impl FnMut(&str),
) -> Result<(), CallError> {
    params.limit.get_or_insert(PAGE);
    let what = || {
        let plural = path.rsplit('/').next().unwrap_or(path);
        format!("cannot list {plural}")
    };
    loop {
        let text = call_within(within(), what, async {
            let request = Request::new(path);
            let request = match part {
                Part::Whole => request.list(&params),
                Part::Metadata => request.list_metadata(&params),
            };
            let request = request.map_err(kube::Error::BuildRequest)?;
            client.request_text(request).await
        });
        let text = text.await?;
        let page: Page<'_> = serde_json::from_str(&text).map_err(|error| CallError::Call {
            what: what(),
            answer: Box::new(kube::Error::SerdeError(error)),
        })?;
        for item in page.items.into_iter().flatten() {
            take(item.get());
        }
        match page.metadata.token.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => return Ok(()),
        }
    }
}

/// The text of one object.
///
/// # Errors
/// As those of [`each`].
pub async fn one(
    client: &Client,
    path: &str,
    name: &str,
    what: impl Fn() -> String,
    within: Duration,
) -> Result<String, CallError> {
    call_within(within, what, async {
        let request = Request::new(path).get(name, &GetParams::default());
        let request = request.map_err(kube::Error::BuildRequest)?;
        client.request_text(request).await
    })
    .await
}
