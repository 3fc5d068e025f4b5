//! The one integration test binary: each extra binary would be another link of rustls.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "everything here is a test; clippy only knows the functions marked as such"
)]

mod admission;
mod audit;
mod cases;
mod certificates;
mod cli;
mod control;
mod docs;
mod hooks;
mod hostile;
mod image;
mod lab;
mod layers;
mod load;
mod logs;
mod manifests;
mod pod_view;
mod probe;
mod render;
mod replacement;
mod samples;
mod standalone;
mod store;
mod support;
mod tls;
