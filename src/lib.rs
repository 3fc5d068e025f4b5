//! meshgate keeps pods from starting without the sidecar they require.
//!
//! The crate `meshgate_core` decides, without IO; this crate reads, answers and writes. An arrow reads
//! "may import", and `tests/it/layers` rejects every other import:
//!
//! ```text
//! cli ──► admission ──► cluster ──► kube_api
//!  ├────► controllers ──► certs, cluster, leader, kube_api
//!  ├────► leader ──► kube_api
//!  ├────► server ──► certs     (no Kubernetes, no decision)
//!  └────► certs
//! lifecycle, metrics, telemetry, meshgate_core: leaves, open to those above that need them
//! ```

pub mod admission;
pub mod certs;
pub mod cli;
pub mod cluster;
pub mod controllers;
pub mod kube_api;
pub mod leader;
pub mod lifecycle;
pub mod metrics;
pub mod server;
mod telemetry;
