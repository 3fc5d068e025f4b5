//! The one integration test binary: each extra binary would be another link of rustls.

mod docs;
mod layers;
