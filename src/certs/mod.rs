//! Certificates: reading a serving pair, making one, keeping the files of a standalone server.
//!
//! Owns what a serving certificate must be before anything is served with it. It must not know
//! sockets (that is `server`) nor where in a cluster certificates are kept.

pub mod files;

pub mod issue;
pub mod live;
pub mod mount;
pub mod pair;
pub mod reload;
pub mod secret_data;
pub mod throwaway;
pub mod verify;

pub use meshgate_core::certs::{bundle, chain, pem, rotation, swap};
