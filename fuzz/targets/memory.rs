//! Any bytes as a review: at its most, answering takes no more heap than three times the body, which
//! is in memory besides, and a constant.
#![no_main]

mod state;

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use meshgate::admission::Admission;
use meshgate::metrics::Hook;

static ADMISSION: LazyLock<Admission> = LazyLock::new(state::admission);

/// As in `tests/it/admission/memory.rs`.
const SMALL: usize = 64 * 1024;

fuzz_target!(|body: &[u8]| {
    LazyLock::force(&ADMISSION);
    for hook in [Hook::Gate, Hook::Check, Hook::Namespaces, Hook::Reach] {
        let counted = allocation_counter::measure(|| drop(ADMISSION.decide(hook, "", body)));
        assert!(
            counted.bytes_max as usize <= 3 * body.len() + SMALL,
            "{} bytes took {} at {hook:?}",
            body.len(),
            counted.bytes_max
        );
    }
});
