//! What the keeper says of itself: in the log when it is news, in the readiness, as metrics.

use std::time::Instant;

use serde_json::Value;

use crate::controllers::api::CallError;
use crate::controllers::kind::Id;
use crate::render::{self, Settings};

use super::plan::Observed;
use super::{FIRST_PAUSE, Keeper, LONGEST_PAUSE, entries};

impl Keeper {
    /// Says what went wrong, if that is news, and when to try again.
    pub(super) fn failed(&mut self, error: &CallError) -> Instant {
        self.failures += 1;
        let problem = error.to_string();
        if self.told_problem != problem {
            tracing::error!("the registration cannot be kept: {problem}; trying again");
            self.context
                .latch
                .open_with(format!("cannot be kept: {problem}"));
            self.told_problem = problem;
        }
        let doubled = FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(self.failures - 1));
        Instant::now() + doubled.min(LONGEST_PAUSE)
    }

    /// Notes whether all is armed that is to be. Says how many entries are, of how many.
    pub(super) fn note_armed(&mut self, observed: &Observed, wanted: &[Value]) -> (usize, usize) {
        let counted = wanted.iter().filter_map(|object| {
            let live = Id::of(object).and_then(|id| observed.objects.get(&id));
            Some(entries::armed(object, live)).filter(|(_, all)| *all > 0)
        });
        let (armed, all) = counted.fold((0, 0), |(a, b), (c, d)| (a + c, b + d));
        let mut ids = wanted.iter().filter_map(Id::of);
        self.armed = armed == all && ids.all(|id| observed.objects.contains_key(&id));
        self.context.metrics.registration_armed(self.armed);
        (armed, all)
    }

    /// Says how far the registration is, if that is news.
    pub(super) fn tell_state(
        &mut self,
        (armed, all): (usize, usize),
        hands_off: &[Id],
        settings: &Settings,
    ) {
        let proof = render::reach::proof(settings);
        let armed_text = format!("armed: {armed} of {all} entries");
        if !hands_off.is_empty() {
            let names: Vec<String> = hands_off.iter().map(ToString::to_string).collect();
            let names = names.join(", ");
            let state = format!("{armed_text}; left alone by a break-glass annotation: {names}");
            self.tell(state, true);
        } else if self.reach.is_proven(&proof) {
            self.tell(armed_text, armed < all);
        } else if !*self.labelled.borrow() {
            self.tell(
                "waiting for the labels of existing namespaces".to_owned(),
                false,
            );
        }
    }

    fn tell(&mut self, state: String, is_bad: bool) {
        self.context.latch.open_with(&state);
        if self.told == state {
            return;
        }
        match is_bad {
            true => tracing::warn!("registration: {state}"),
            false => tracing::info!("registration: {state}"),
        }
        self.told = state;
    }
}

/// Where the API server is to call us.
pub(super) fn url(settings: &Settings) -> String {
    match &settings.client {
        render::Client::Url(url) => url.clone(),
        render::Client::Service {
            namespace,
            name,
            port,
        } => format!("https://{name}.{namespace}.svc:{port}"),
    }
}
