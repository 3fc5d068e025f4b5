//! The state of each injector in words, for start-up lines, log lines and `status`.

use meshgate_core::message;
use meshgate_core::readiness::Readiness;
use serde::Serialize;

use crate::cluster::report::State;
use crate::cluster::store::Store;

/// An injector, or one instance of it.
#[derive(Debug, Clone, Serialize)]
pub(super) struct InjectorState {
    /// With the name of the instance behind it.
    pub(super) name: String,
    /// `usable`, `not usable` or `not installed`.
    pub(super) state: &'static str,
    pub(super) why: String,
}

/// The states of all injectors.
pub(super) fn of(store: &Store) -> Vec<InjectorState> {
    let in_words = |one: &State<'_>| {
        let profile = &one.injector.profile;
        let (state, why) = match &one.readiness {
            Readiness::Usable(looked) => ("usable", message::state(profile, looked)),
            Readiness::NotUsable(looked) => ("not usable", message::state(profile, looked)),
            Readiness::NotInstalled | Readiness::NoInstance => (
                "not installed",
                "no webhook configuration has an entry of it".to_owned(),
            ),
        };
        let name = name(one);
        InjectorState { name, state, why }
    };
    store.states().iter().map(in_words).collect()
}

/// The injector's name, with the name of the instance behind it.
pub(super) fn name(state: &State<'_>) -> String {
    let name = &state.injector.profile.name;
    match state.instance {
        Some(instance) => format!("{name} {instance}"),
        None => name.clone(),
    }
}
