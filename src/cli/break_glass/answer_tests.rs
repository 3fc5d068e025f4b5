use super::*;
use crate::kube_api::kind::Kind;

fn sentence(note: Option<&str>, changed: usize, problems: usize) -> String {
    let note = note.and_then(Note::parse);
    let mut answer = Answer::of(&Seen::default(), note.as_ref());
    let id = Id::new(Kind::MutatingWebhooks, "a");
    (0..changed).for_each(|_| answer.changed(&id, Suspended::default()));
    answer.problems = vec!["cannot change it".to_owned(); problems];
    answer.sentence()
}

#[test]
fn nothing_is_said_to_be_done_that_was_not() {
    let note = Some("alice: x");
    for (note, changed, problems, expected) in [
        (note, 1, 0, "ENFORCEMENT IS SUSPENDED: alice: x"),
        (note, 1, 1, "ENFORCEMENT IS SUSPENDED, but not everywhere"),
        (note, 0, 0, "there is no registration"),
        (note, 0, 1, "Nothing was switched off.\n"),
        (None, 1, 0, "everything is as it was"),
        (None, 1, 1, "resumed, but not everywhere"),
        (None, 0, 0, "was not suspended"),
        (None, 0, 1, "Nothing was put back.\n"),
    ] {
        let found = sentence(note, changed, problems);
        assert!(found.contains(expected), "{expected}: {found}");
    }
}
