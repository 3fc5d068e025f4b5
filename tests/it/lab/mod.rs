//! Against a real control plane. These are the tests that need `make lab`; all of them are below
//! `lab::`, so that `--skip lab::` leaves them out.

pub(crate) mod harness;

mod audit;
mod availability;
mod break_glass;
mod certificates;
mod chart;
mod cleanup;
mod client_certificates;
mod control_plane;
mod dapr;
mod enforcement;
mod faults;
pub(crate) mod fidelity;
mod held_back;
mod istio;
mod leader;
mod readme;
pub(super) mod registration;
mod rights;
mod status;
mod switching;
mod uninstall;
mod view;
mod view_memory;
mod wake;
