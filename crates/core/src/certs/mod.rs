//! Certificates as values: what a bundle of CAs holds, what comes next in their life, and when a
//! replica may serve a new one.
//!
//! No signature is made or verified here, so that this crate builds no TLS library. The root
//! package's `certs` verifies, issues and reads Secrets.

pub mod bundle;
pub mod chain;
pub mod pem;
pub mod rotation;
pub mod swap;
