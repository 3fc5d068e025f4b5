use super::*;

#[test]
fn ready_only_when_all_are_open_and_listed_in_order() {
    let checks = HealthChecks::new();
    assert!(checks.all_pass());
    let view = checks.add("view");
    let listener = checks.add("listener");
    assert!(!checks.all_pass());

    view.pass();
    listener.fail("handshake failed");
    let names: Vec<_> = checks.conditions().iter().map(|one| one.name).collect();
    assert_eq!(names, ["view", "listener"]);
    assert_eq!(
        checks.conditions()[1].state,
        Err("handshake failed".to_owned())
    );

    listener.pass_with("answered in 2 ms");
    assert!(checks.all_pass());
    view.fail("lost");
    assert!(!checks.all_pass());
}

#[test]
fn adding_a_name_again_gives_the_same_condition() {
    let checks = HealthChecks::new();
    checks.add("view").pass();
    checks.add("view").fail("gone");
    assert_eq!(checks.conditions().len(), 1);
    assert!(!checks.all_pass());
}
