//! Any bytes as a file of objects, YAML and JSON: a state, or an error with its place.
#![no_main]

use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use meshgate::cluster::manifest::{self, Item};
use meshgate::cluster::store::Store;
use meshgate_core::injector::Injectors;

static INJECTORS: LazyLock<Arc<Injectors>> =
    LazyLock::new(|| Arc::new(Injectors::all_presets().expect("the presets parse")));

fuzz_target!(|bytes: &[u8]| {
    for name in ["fuzz.yaml", "fuzz.json"] {
        let Ok(items) = manifest::items(name, bytes) else {
            continue;
        };
        let objects = items.into_iter().filter_map(|item| match item {
            Item::Object(object) => Some(object),
            Item::Configuration(_) | Item::Other { .. } => None,
        });
        let store = Store::with(Arc::clone(&INJECTORS), objects);
        assert!(store.states().len() >= INJECTORS.len());
    }
});
