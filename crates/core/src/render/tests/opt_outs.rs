//! Where opt-outs are forbidden, no pod spares itself, and all else is as it is where they are allowed.

use std::sync::Arc;

use proptest::prelude::*;

use super::equivalence::pairs;
use super::world::{World, worlds};
use crate::decision::requirement;
use crate::injector::Injectors;
use crate::injector::rule::Outcome;
use crate::view::pod::PodView;

/// What is decided on the pod, if the injector has a say.
fn outcome(injectors: &Injectors, world: &World) -> Option<Outcome> {
    let (json, namespace) = (world.pod(), world.view(injectors));
    let pod = PodView::read(&json, injectors.keys()).unwrap();
    let found = requirement::of(&pod, &namespace, injectors);
    found.matches.first().map(|one| one.rule.then)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn no_pod_spares_itself_where_that_is_forbidden(
        (pair, worlds) in pairs().prop_flat_map(|[allow, forbid]| {
            let worlds = prop::collection::vec(worlds(&forbid), 40);
            (Just(Arc::new([allow, forbid])), worlds)
        })
    ) {
        let [allow, forbid] = &*pair;
        for world in worlds {
            let found = outcome(forbid, &world);
            if let Some(allowed) = outcome(allow, &world) {
                prop_assert_eq!(Some(allowed), found, "{:?}", world);
            }
            let mut silent = world.clone();
            silent.keys.retain(|key, _| !key.place.is_on_pod());
            // In the injector's own namespace only what the pod asks for counts.
            let is_required = world.namespace != "home" && outcome(forbid, &silent).is_some();
            prop_assert!(!is_required || found.is_some(), "{:?}", world);
        }
    }
}
