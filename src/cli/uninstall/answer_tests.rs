use super::*;

#[test]
fn a_control_that_runs_is_a_finding_of_a_dry_run() {
    let would = |control_runs| {
        let found = Found {
            control_runs,
            ..Found::default()
        };
        Answer::of(found)
    };
    assert_eq!(would(true).exit(), Exit::Findings);
    assert!(would(true).text("x").contains("would be scaled to 0"));
    assert_eq!(would(false).exit(), Exit::Fine);
}

#[test]
fn what_could_not_be_read_is_unknown_and_what_is_left_is_a_finding() {
    let unseen = || Found {
        unseen: vec!["alice may not".to_owned()],
        ..Found::default()
    };
    let exit = |left| {
        let answer = Answer {
            left,
            ..Answer::of(unseen())
        };
        answer.exit()
    };
    assert_eq!(exit(None), Exit::CannotTell);
    assert_eq!(exit(Some(unseen())), Exit::CannotTell);
    assert_eq!(exit(Some(Found::default())), Exit::Fine);
    let namespaces = [("orders".to_owned(), Value::Null)].into();
    let left = Found {
        namespaces,
        ..unseen()
    };
    assert_eq!(exit(Some(left)), Exit::Findings);
}
