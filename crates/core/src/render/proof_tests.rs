use super::*;
use crate::render::Client;

#[test]
fn a_proof_is_a_short_word() {
    assert_eq!(in_path("/mutate/reach/0a1b"), Some("0a1b"));
    let long = "a".repeat(MAX_PROOF + 1);
    for wrong in ["", "A", "a/b", "\"", "%22", "a\n", long.as_str()] {
        assert_eq!(in_path(&format!("/mutate/reach/{wrong}")), None, "{wrong}");
    }
    assert_eq!(in_path("/mutate/reach"), None);
}

#[test]
fn it_differs_with_the_address_and_the_bundle_and_with_nothing_else() {
    let settings = |url: &str, bundle: Option<&str>| {
        let mut settings = Settings::new(Client::Url(url.to_owned()), "meshgate-system");
        settings.ca_bundle = bundle.map(str::to_owned);
        settings
    };
    let one = settings("https://a:1", Some("x"));
    assert_eq!(of_reach(&one), of_reach(&one.clone()));
    assert_eq!(in_path(&entry_path(&one)), Some(of_reach(&one).as_str()));
    for other in [
        settings("https://a:2", Some("x")),
        settings("https://a:1", Some("y")),
        settings("https://a:1", None),
    ] {
        assert_ne!(of_reach(&one), of_reach(&other));
    }
    let mut moved = one.clone();
    moved.namespace = "elsewhere".to_owned();
    moved.failure_policy = FailurePolicy::Fail;
    assert_eq!(of_reach(&one), of_reach(&moved));
}

/// The path at which the API server calls the entry, without the address.
fn entry_path(settings: &Settings) -> String {
    let entry = reach_entry(settings);
    let url = entry["clientConfig"]["url"].as_str().unwrap();
    let Client::Url(base) = &settings.client else {
        panic!("not by URL");
    };
    url.strip_prefix(base.as_str()).unwrap().to_owned()
}

#[test]
fn answers_are_read_for_the_proof_that_is_asked_for() {
    let annotated = |key: &str| Ok(BTreeMap::from([(key.to_owned(), "a".to_owned())]));
    let refused = |message: String| Err(message);
    for (subject, key) in [(Subject::Reach, REACHED), (Subject::Mirror, PROOF)] {
        assert_eq!(subject.is_proved(annotated(key), "a"), Ok(true));
        assert_eq!(subject.is_proved(annotated(key), "b"), Ok(false));
        assert_eq!(subject.is_proved(annotated("other"), "a"), Ok(false));
        let other = subject.is_proved(refused("quota".to_owned()), "a");
        assert_eq!(other, Err("quota".to_owned()));
    }
    let by_policy =
        format!("ValidatingAdmissionPolicy '{CHECK_PROOF}' denied request: in force: a");
    let check = |answer, proof| Subject::Check.is_proved(answer, proof);
    assert_eq!(check(refused(by_policy.clone()), "a"), Ok(true));
    assert_eq!(check(refused(by_policy), "b"), Ok(false));
    assert_eq!(check(annotated(PROOF), "a"), Ok(false));
    assert_eq!(
        check(refused("quota".to_owned()), "a"),
        Err("quota".to_owned())
    );
}
