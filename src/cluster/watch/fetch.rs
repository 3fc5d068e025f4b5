//! The live look-up of a namespace: one GET.

use std::sync::Arc;

use futures::FutureExt;
use kube::api::GetParams;
use kube::core::Request;
use kube::{Client, Error};

use crate::cluster::live::Fetch;
use crate::cluster::object::Kind;
use crate::cluster::slim;

use super::Failure;
use super::source::path;

/// Asks the API server for one namespace. The deadline is the caller's.
pub fn fetch(client: Client) -> Fetch {
    Arc::new(move |name| {
        let client = client.clone();
        async move {
            // The name is somebody else's, and becomes part of a path.
            if !is_name(&name) {
                return Ok(None);
            }
            let request = Request::new(path(Kind::Namespace));
            let request = request.get(&name, &GetParams::default());
            let request = request.map_err(|error| error.to_string())?;
            match client.request_text(request).await {
                Ok(json) => serde_json::from_str::<slim::Namespace>(&json)
                    .map(Some)
                    .map_err(|error| format!("it cannot be read: {error}")),
                Err(Error::Api(status)) if status.code == 404 => Ok(None),
                Err(error) => Err(Failure::from(error).trouble.text),
            }
        }
        .boxed()
    })
}

/// Whether a namespace can have this name: a DNS label.
fn is_name(name: &str) -> bool {
    let is_fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !name.is_empty() && name.len() <= 63 && name.chars().all(is_fine)
}
