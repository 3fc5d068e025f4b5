//! What is said of a cluster.

use crate::cluster::store::Store;

use super::{Lines, Started, counts, excluded, injectors, notes, states_table};

/// Whose cluster it is, and by which configuration.
#[derive(Debug)]
pub(in crate::cli::serve) struct Whereabouts {
    /// The API server.
    pub(in crate::cli::serve) server: String,
    /// How it came to be this one.
    pub(in crate::cli::serve) by: String,
    /// The name of the configuration.
    pub(in crate::cli::serve) configuration: String,
}

/// What can be said before the API server has said anything.
pub(in crate::cli::serve) fn text(
    whereabouts: &Whereabouts,
    store: &Store,
    started: &Started<'_>,
) -> String {
    let Whereabouts {
        server,
        by,
        configuration,
    } = whereabouts;
    let mut lines = Lines::default();
    let origin = format!("by {configuration}");
    lines.push("injectors", &injectors(store, &origin));
    lines.push("excluded", &excluded(store));
    lines.push_started(started);
    format!(
        "meshgate {} answers for the cluster of {server} ({by})\n\n{}\n\
         Listing the cluster; pods that are sent here are refused until that is done.\n\n",
        env!("CARGO_PKG_VERSION"),
        lines.0,
    )
}

/// What the cluster holds, once it was listed.
pub(in crate::cli::serve) fn listed(store: &Store) -> String {
    let mut lines = Lines::default();
    lines.push("listed", &counts(store));
    for note in notes(store) {
        lines.push("note", &note);
    }
    format!("{}\n{}\n", lines.0, states_table(store))
}
