use super::*;

fn all_pass(checks: &HealthChecks) -> bool {
    checks.conditions().iter().all(|one| one.state.is_ok())
}

#[test]
fn ready_only_when_all_are_open_and_listed_in_order() {
    let checks = HealthChecks::default();
    assert!(all_pass(&checks));
    let view = checks.add("view");
    let listener = checks.add("listener");
    assert!(!all_pass(&checks));

    view.pass();
    listener.fail("handshake failed");
    let names: Vec<_> = checks.conditions().iter().map(|one| one.name).collect();
    assert_eq!(names, ["view", "listener"]);
    assert_eq!(
        checks.conditions()[1].state,
        Err("handshake failed".to_owned())
    );

    listener.pass_with("answered in 2 ms");
    assert!(all_pass(&checks));
    view.fail("lost");
    assert!(!all_pass(&checks));
}

#[test]
fn adding_a_name_again_gives_the_same_condition() {
    let checks = HealthChecks::default();
    checks.add("view").pass();
    checks.add("view").fail("gone");
    assert_eq!(checks.conditions().len(), 1);
    assert!(!all_pass(&checks));
}
