//! Against a real control plane. These are the tests that need `make lab`; all of them are below
//! `lab::`, so that `--skip lab::` leaves them out.

pub(crate) mod harness;

mod certificates;
mod control_plane;
mod dapr;
mod faults;
mod fidelity;
mod istio;
mod readme;
mod registration;
mod remains;
mod seen;
mod view;
mod view_memory;
