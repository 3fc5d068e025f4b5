//! What people and controllers see of meshgate: pods that come, wait or are refused, and all the
//! rest of a cluster, which notices nothing.
//!
//! The registration is the cluster's, so that these tests have a control plane with a registered
//! meshgate in turn, see [`guarded`].

mod asked;
mod changes;
mod down;
mod forced;
mod guarded;
mod injector;
mod namespaces;
mod refusals;
mod strict;
mod workloads;
