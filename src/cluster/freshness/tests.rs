use super::*;

fn trouble(scope: Scope, text: &str) -> Trouble {
    let text = text.to_owned();
    Trouble { scope, text }
}

fn both() -> (Freshness, Instant) {
    let freshness = Freshness::default();
    freshness.follow(Kind::Namespace);
    freshness.follow(Kind::Node);
    (freshness, Instant::now())
}

#[test]
fn a_kind_that_is_not_followed_is_current_and_has_no_age() {
    let freshness = Freshness::default();
    let now = Instant::now();
    assert!(freshness.is_current(Kind::Namespace) && freshness.all_listed());
    assert_eq!(freshness.oldest(now), None);
    assert_eq!(freshness.state(Kind::Namespace, now), Ok(String::new()));
}

#[test]
fn a_kind_is_fine_from_its_first_list_and_says_its_age() {
    let (freshness, start) = both();
    let refused = trouble(Scope::Server, "connection refused");
    let state = |seconds| freshness.state(Kind::Node, start + Duration::from_secs(seconds));
    assert_eq!(state(0), Err("not listed yet".to_owned()));
    assert!(freshness.lost(Kind::Node, refused.clone(), start));
    let why = "not listed yet: connection refused";
    assert_eq!(state(1), Err(why.to_owned()));
    freshness.listed(Kind::Node);
    let back = freshness.caught_up(Kind::Node, start + Duration::from_secs(2));
    assert_eq!(back, Some(Duration::from_secs(2)));
    assert!(freshness.is_current(Kind::Node) && !freshness.all_listed());
    let text = "last heard of the API server 42 s ago";
    assert_eq!(state(44), Ok(text.to_owned()));
    assert!(freshness.lost(Kind::Node, refused, start));
    assert!(!freshness.is_current(Kind::Node));
    assert_eq!(state(44), Ok(format!("{text}: connection refused")));
}

#[test]
fn a_lost_server_is_news_once_and_so_is_its_return() {
    let (freshness, start) = both();
    let lost = |kind, scope, text| freshness.lost(kind, trouble(scope, text), start);
    assert!(lost(Kind::Node, Scope::Server, "refused"));
    assert!(!lost(Kind::Node, Scope::Server, "refused"));
    assert!(!lost(Kind::Namespace, Scope::Server, "reset"));
    let later = start + Duration::from_secs(5);
    assert_eq!(freshness.caught_up(Kind::Node, later), None);
    let back = freshness.caught_up(Kind::Namespace, later);
    assert_eq!(back, Some(Duration::from_secs(5)));
    assert_eq!(freshness.caught_up(Kind::Namespace, later), None);
}

#[test]
fn a_missing_permission_is_news_per_kind() {
    let (freshness, start) = both();
    let lost = |kind, scope, text| freshness.lost(kind, trouble(scope, text), start);
    assert!(lost(Kind::Node, Scope::Server, "refused"));
    assert!(lost(Kind::Node, Scope::Kind, "nodes is forbidden"));
    assert!(!lost(Kind::Node, Scope::Kind, "nodes is forbidden"));
    assert!(lost(
        Kind::Namespace,
        Scope::Kind,
        "namespaces is forbidden"
    ));
    assert!(freshness.caught_up(Kind::Node, start).is_some());
}
