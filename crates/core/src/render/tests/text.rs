//! Text literals of CEL: read back by the rules of the language.

use proptest::prelude::*;

use crate::condition::{Expr, KeyTest, cel};

/// Reads a literal as the language's specification has it; `None` if it is no single literal.
fn read(literal: &str) -> Option<String> {
    let inner = literal.strip_prefix('\'')?.strip_suffix('\'')?;
    let mut text = String::new();
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        match c {
            '\'' | '\n' | '\r' => return None,
            '\\' => {
                let digits = match chars.next()? {
                    c @ ('\'' | '\\') => {
                        text.push(c);
                        continue;
                    }
                    'u' => 4,
                    'U' => 8,
                    _ => return None,
                };
                let hex: String = chars.by_ref().take(digits).collect();
                if hex.len() != digits {
                    return None;
                }
                text.push(char::from_u32(u32::from_str_radix(&hex, 16).ok()?)?);
            }
            c => text.push(c),
        }
    }
    Some(text)
}

proptest! {
    #[test]
    fn any_text_is_one_literal(text in any::<String>()) {
        let literal = cel::text(&text);
        prop_assert_eq!(read(&literal), Some(text));
        prop_assert!(literal.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
    }

    #[test]
    fn quotes_and_backslashes_do_not_end_it(text in "['\"\\\\\\n\\r\\t\\u{0}\\u{85}\\u{2028}\\u{10ffff}a]{0,12}") {
        prop_assert_eq!(read(&cel::text(&text)), Some(text));
    }
}

/// Every kind of test on a key: presence is asked for only where an absent key and `''` differ.
#[test]
fn tests_of_keys_are_printed() {
    let table = [
        ("in: [a]", "{v} == 'a'"),
        ("in: [b, a]", "{v} in ['a', 'b']"),
        ("in: [\"\"]", "{h} && {v} == ''"),
        ("in: [\"\", a]", "{h} && {v} in ['', 'a']"),
        ("notIn: [a]", "{v} != 'a'"),
        ("notIn: [\"\", a]", "!({h}) || !({v} in ['', 'a'])"),
        ("exists: true", "{h}"),
        ("exists: false", "!({h})"),
        ("fold: true, in: [A, b]", "{v}.lowerAscii() in ['a', 'b']"),
        (
            "trim: true, fold: true, in: [A, b]",
            "{v}.trim().lowerAscii() in ['a', 'b']",
        ),
        (
            "trim: true, notIn: [\"\", a]",
            "!({h}) || !({v}.trim() in ['', 'a'])",
        ),
        ("in: [\"it's\"]", "{v} == 'it\\'s'"),
    ];
    for (test, expected) in table {
        let list = format!(
            "- name: aurora\n  webhook: aurora.example.com\n  service: {{namespace: home, name: i}}\n  \
             rules: [{{when: [{{podAnnotation: k, {test}}}], then: required}}]\n  injected: [{{sidecar: p}}]\n"
        );
        let injectors = super::injectors(&list);
        let rule = injectors
            .iter()
            .flat_map(|one| one.active_rules())
            .next()
            .unwrap();
        let expr = Expr::all(KeyTest::of_all(&rule.when).into_iter().map(KeyTest::expr));
        let expected = expected
            .replace("{v}", "object.metadata.?annotations[?'k'].orValue('')")
            .replace("{h}", "'k' in object.metadata.?annotations.orValue({})");
        assert_eq!(cel::Scope::Pod.print(&expr), expected, "{test}");
    }
}
