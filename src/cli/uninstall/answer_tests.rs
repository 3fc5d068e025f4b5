use super::*;

fn answer(found: Found, is_dry_run: bool) -> Answer {
    Answer {
        found,
        is_dry_run,
        ..Answer::default()
    }
}

#[test]
fn a_control_that_runs_is_a_finding_of_a_dry_run() {
    let would = |control_runs| {
        let found = Found {
            control_runs,
            ..Found::default()
        };
        answer(found, true)
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
            ..answer(unseen(), false)
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

#[test]
fn a_removal_that_found_nothing_is_no_dry_run() {
    let stays = "What helm or kubectl installed stays.";
    for is_dry_run in [false, true] {
        let answer = answer(Found::default(), is_dry_run);
        assert_eq!(answer.json()["dryRun"], is_dry_run);
        assert_eq!(answer.text("x").contains(stays), !is_dry_run);
        assert_eq!(answer.exit(), Exit::Fine);
    }
}

#[test]
fn a_control_that_was_the_only_finding_is_named() {
    let found = Found {
        control_runs: true,
        ..Found::default()
    };
    let answer = Answer {
        left: Some(Found::default()),
        ..answer(found, false)
    };
    assert_eq!(
        answer.question("x"),
        "Scale Deployment meshgate-control in x to 0 replicas?"
    );
    let text = answer.text("x");
    let scaled = "Deployment meshgate-control in x was scaled to 0 replicas.";
    assert!(text.contains(scaled), "{text}");
    assert!(!text.contains("has written nothing"), "{text}");
}
