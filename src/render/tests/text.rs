//! Text literals of CEL: read back by the rules of the language.

use proptest::prelude::*;

use crate::render::condition::cel;

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
