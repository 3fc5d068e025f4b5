use super::*;

#[test]
fn text_indentation_crlf_and_a_bom_are_fine() {
    let file = "\u{feff}subject=CN = x\r\n  -----BEGIN A-----\r\n  aGVs\r\n  bG8=\r\n  -----END A-----\r\nafter\r\n-----BEGIN B-----\naGk=\n-----END B-----";
    let found = blocks(file.as_bytes()).unwrap();
    let read: Vec<_> = found
        .iter()
        .map(|one| (one.label.as_str(), one.der.as_slice()))
        .collect();
    assert_eq!(read, [("A", &b"hello"[..]), ("B", &b"hi"[..])]);
}

#[test]
fn what_is_not_pem_says_so() {
    let why = |file: &[u8]| blocks(file).err();
    assert_eq!(why(b" \n"), Some(NotPem::Empty));
    assert_eq!(why(b"\x30\x82\x01\x0a\xff\xfe"), Some(NotPem::Binary));
    assert_eq!(why(b"\xff\xfe-\0-\0"), Some(NotPem::Utf16));
    let cut = NotPem::Unfinished {
        label: "A".to_owned(),
        line: 2,
    };
    assert_eq!(why(b"x\n-----BEGIN A-----\naGk="), Some(cut.clone()));
    assert_eq!(
        why(b"x\n-----BEGIN A-----\naGk=\n-----BEGIN A-----\n-----END A-----"),
        Some(cut)
    );
    assert_eq!(
        why(b"-----BEGIN A-----\n???\n-----END A-----"),
        Some(NotPem::NotBase64 {
            label: "A".to_owned(),
            line: 1
        })
    );
    assert_eq!(blocks(b"only words").map(|found| found.len()), Ok(0));
}

/// A key without line ends must not become a "label" that is shown.
#[test]
fn a_block_on_one_line_is_refused_without_repeating_it() {
    let key = "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg";
    for file in [
        format!("-----BEGIN PRIVATE KEY----- {key} -----END PRIVATE KEY-----\n"),
        format!("-----BEGIN PRIVATE KEY-----{key}-----END PRIVATE KEY-----"),
        format!("-----BEGIN {key}{key}-----\n"),
    ] {
        match blocks(file.as_bytes()) {
            Err(error) => assert!(
                !error.to_string().contains(key.get(..16).unwrap()),
                "{error}"
            ),
            Ok(found) => assert!(found.is_empty()),
        }
    }
}
