//! Views: the few fields of pods, namespaces and other objects that meshgate reads, borrowed from
//! the text of a request.
//!
//! A view has no field for what no rule reads, so that meshgate need not know tomorrow's fields
//! (case 6). The same readers serve a request, a cached object and a file.

pub mod json;
pub mod metadata;
pub mod namespace;
pub mod pod;
