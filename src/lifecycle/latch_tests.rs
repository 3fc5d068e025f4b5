use super::*;

#[test]
fn ready_only_when_all_are_open_and_listed_in_order() {
    let latches = Latches::new();
    assert!(latches.all_open());
    let view = latches.add("view");
    let listener = latches.add("listener");
    assert!(!latches.all_open());

    view.open();
    listener.close("handshake failed");
    let names: Vec<_> = latches.conditions().iter().map(|one| one.name).collect();
    assert_eq!(names, ["view", "listener"]);
    assert_eq!(
        latches.conditions()[1].state,
        Err("handshake failed".to_owned())
    );

    listener.open_with("answered in 2 ms");
    assert!(latches.all_open());
    view.close("lost");
    assert!(!latches.all_open());
}

#[test]
fn adding_a_name_again_gives_the_same_condition() {
    let latches = Latches::new();
    latches.add("view").open();
    latches.add("view").close("gone");
    assert_eq!(latches.conditions().len(), 1);
    assert!(!latches.all_open());
}
