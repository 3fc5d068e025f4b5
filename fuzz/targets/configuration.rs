//! Any bytes as a Configuration: profiles, or an error with its place.
#![no_main]

use libfuzzer_sys::fuzz_target;
use meshgate_core::injector::Injectors;

fuzz_target!(|bytes: &[u8]| {
    match Injectors::from_yaml("fuzz.yaml", bytes) {
        Ok(injectors) => assert!(!injectors.is_empty()),
        Err(error) => {
            assert!(error.line >= 1 && error.column >= 1);
            assert!(
                !error.problem.is_empty() && !error.problem.contains('\n'),
                "{error}"
            );
        }
    }
});
