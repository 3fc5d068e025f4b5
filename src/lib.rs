//! meshgate keeps pods from starting without the sidecar they require.
//!
//! An arrow reads "may import"; nothing else may, and `tests/it/layers.rs` holds it:
//!
//! ```text
//! cli ──► admission ──► cluster ──► decision ──► injector ──► yaml
//!  │          └────────────────────────▲            ▲
//!  ├────► controllers ──► render, injector  (admission ──► render, for the mirror)
//!  ├────► render ───────────────────────────────────┘   (cluster, controllers ──► glass ──► render)
//!  ├────► server ──► certs                  (no Kubernetes, no decision)
//!  └────► certs                             lifecycle, metrics, telemetry, yaml: leaves
//! ```
//!
//! `injector`, `decision`, `render`, `break_glass` and the state in `cluster` are pure: no async, no clock, no IO, no logging.

pub use meshgate_core::{
    break_glass, config, decision, injector, message, names, readiness, render, text, view, yaml,
};

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
pub mod telemetry;
