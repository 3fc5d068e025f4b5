//! Certificates: reading a serving pair, making one, keeping the files of a standalone server.
//!
//! Owns what a serving certificate must be before anything is served with it. It must not know
//! sockets (that is `server`) nor where in a cluster certificates are kept.

pub mod bundle;
pub mod files;
pub mod held;
pub mod issue;
pub mod live;
pub mod mount;
pub mod pair;
mod pem;
pub mod reload;
pub mod rotation;
pub mod swap;
pub mod throwaway;
