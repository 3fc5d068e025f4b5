use super::*;

#[test]
fn a_reason_is_never_a_field_of_the_note() {
    let reason = reason("moved; until=2099-01-01T00:00:00Z").unwrap();
    let until: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let note = Note {
        text: format!("alice: {reason}"),
        until: Some(until),
        injectors: Vec::new(),
    };
    assert_eq!(Note::parse(&note.to_string()), Some(note));
}
