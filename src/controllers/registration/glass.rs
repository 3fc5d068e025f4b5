//! What the keeper does about broken glass: says that it is, mends it when its time has come.

use std::time::{Duration, Instant};

use crate::kube_api::event::{self, Event};
use crate::kube_api::kind::Id;
use crate::kube_api::wall_clock;

use super::Keeper;
use super::plan::Observed;

impl Keeper {
    /// Counts what is broken. Says when the first of it is over, `latest` if that is later.
    pub(super) fn note_glass(&self, observed: &Observed, latest: Instant) -> Instant {
        let notes: Vec<_> = observed.broken().map(|(_, note)| note).collect();
        let subjects = notes.iter().flat_map(|note| note.subjects());
        self.context.metrics.glass_broken(subjects);
        let ends = notes.iter().filter_map(|note| note.until);
        let Some(end) = ends.min() else { return latest };
        let left = Duration::try_from(end.duration_since(wall_clock()));
        // Time may be set: it is looked at again with every look.
        let end = Instant::now().checked_add(left.unwrap_or_default());
        end.map_or(latest, |end| end.min(latest))
    }

    /// Says that an object's glass was mended.
    pub(super) async fn tell_mended(&self, id: &Id, observed: &Observed) {
        let live = observed.objects.get(id);
        let note = observed.broken().find(|(own, _)| *own == id);
        let note = note.map(|(_, note)| note.to_string()).unwrap_or_default();
        tracing::warn!(object = %id, note, "broken glass is closed again: its time has come");
        let event = Event {
            reason: event::ENFORCEMENT_RESUMED,
            message: format!("closed again, as its time has come: {note}"),
            is_warning: false,
        };
        if let Err(error) = event::record(&self.context.client, id, live, &event).await {
            tracing::warn!("no Event tells of it: {error}");
        }
    }
}
