//! Any bytes as a review, at both hooks: an answer that the API server would take, or a bad call.
#![no_main]

mod state;

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use meshgate::admission::Admission;
use meshgate::metrics::Hook;
use serde_json::Value;

static ADMISSION: LazyLock<Admission> = LazyLock::new(state::admission);

fuzz_target!(|body: &[u8]| {
    for hook in [Hook::Gate, Hook::Check] {
        let Ok(Some(answer)) = ADMISSION.decide(hook, "", body) else {
            continue;
        };
        let answer: Value = serde_json::from_slice(&answer).expect("the answer is JSON");
        let response = &answer["response"];
        let allowed = response["allowed"].as_bool().expect("allowed or not");
        assert!(response["uid"].as_str().is_some_and(|uid| !uid.is_empty()));
        assert_eq!(
            response["patch"].is_string(),
            response["patchType"].is_string()
        );
        assert!(response["patch"].is_null() || (allowed && hook == Hook::Gate));
        if !allowed {
            let message = response["status"]["message"]
                .as_str()
                .expect("a refusal says why");
            assert!(
                !message.is_empty() && !message.contains(char::is_control),
                "{message:?}"
            );
            assert!(message.chars().count() <= 1_000, "{message}");
        }
    }
});
