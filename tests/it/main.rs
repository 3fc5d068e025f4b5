//! The one integration test binary: each extra binary would be another link of rustls.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "everything here is a test; clippy only knows the functions marked as such"
)]

mod certificates;
mod docs;
mod hostile;
mod layers;
mod logs;
mod replacement;
mod support;
mod tls;
