//! What meshgate decides and what it tells API servers, as pure functions over plain values.
//!
//! No async, clock, IO or logging: `Cargo.toml` of this crate has no dependency that could do them.
#![warn(missing_docs)]

pub mod break_glass;
pub mod certs;
mod condition;
pub mod config;
pub mod decision;
pub mod injector;
pub mod message;
pub mod names;
pub mod readiness;
pub mod render;
pub mod text;
pub mod view;
pub mod yaml;
