//! Lists, read item by item: of each item only what the view keeps goes on to the client, as soon as the item
//! is there. So what a list costs does not depend on what tenants write into its objects.

use http_body_util::BodyExt;
use std::mem::take;

use hyper::Request;
use hyper::body::Bytes;
use kube::Client;
use kube::client::Body;

use crate::kube_api::listen::is_watch;

/// The same client, whose lists hold what `shrink` makes of each item. `None` leaves an item as it is.
pub(super) fn client(
    client: &Client,
    shrink: impl Fn(&str) -> Option<String> + Clone + Send + Sync + 'static,
) -> Client {
    let inner = client.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let (inner, shrink) = (inner.clone(), shrink.clone());
        async move {
            let mut items = (!is_watch(&request)).then(Items::default);
            let answer = inner.send(request).await?;
            let answer = answer.map(|body| {
                body.map_frame(move |frame| match &mut items {
                    Some(items) => frame.map_data(|data| items.shrunk(&data, &shrink)),
                    None => frame,
                })
            });
            Ok::<_, kube::Error>(answer)
        }
    });
    Client::new(service, client.default_namespace())
}

/// The text of a list as it arrives. The items are in the only array at its top level.
#[derive(Default)]
struct Items {
    depth: usize,
    is_string: bool,
    is_escaped: bool,
    is_array: bool,
    /// What is there of an item. Empty between items.
    item: Vec<u8>,
}

/// How deep the items of a list begin.
const ITEMS: usize = 2;

impl Items {
    /// What goes on of these bytes, and of the items that end in them.
    fn shrunk(&mut self, bytes: &[u8], shrink: impl Fn(&str) -> Option<String>) -> Bytes {
        let (mut out, mut from) = (Vec::new(), 0);
        for (at, byte) in bytes.iter().enumerate() {
            if self.is_string {
                self.is_string = self.is_escaped || *byte != b'"';
                self.is_escaped = !self.is_escaped && *byte == b'\\';
                continue;
            }
            match byte {
                b'"' => self.is_string = true,
                b'{' | b'[' => {
                    if self.depth + 1 == ITEMS {
                        self.is_array = *byte == b'[';
                    } else if self.depth == ITEMS && self.is_array {
                        out.extend_from_slice(&bytes[from..at]);
                        self.item.push(*byte);
                        from = at + 1;
                    }
                    self.depth += 1;
                }
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == ITEMS && !self.item.is_empty() {
                        let mut item = take(&mut self.item);
                        item.extend_from_slice(&bytes[from..=at]);
                        from = at + 1;
                        let shrunk = std::str::from_utf8(&item).ok().and_then(&shrink);
                        out.extend(shrunk.map_or(item, String::into_bytes));
                    }
                }
                _ => {}
            }
        }
        let rest = if self.item.is_empty() {
            &mut out
        } else {
            &mut self.item
        };
        rest.extend_from_slice(&bytes[from..]);
        out.into()
    }
}

#[cfg(test)]
#[path = "items_tests.rs"]
mod tests;
