//! Documents, their places in the file, and input that no person would write.

use serde::Deserialize;

use super::{Document, MAX_BYTES, documents};

#[derive(Debug, Deserialize)]
#[expect(dead_code, reason = "the deeper lists are only there to be parsed")]
#[serde(deny_unknown_fields)]
struct Shape {
    #[serde(default)]
    a: Vec<String>,
    #[serde(default)]
    b: Vec<Vec<String>>,
    #[serde(default)]
    c: Vec<Vec<Vec<String>>>,
    #[serde(default)]
    d: Vec<Vec<Vec<Vec<String>>>>,
    #[serde(default)]
    e: Vec<Vec<Vec<Vec<Vec<String>>>>>,
    #[serde(default)]
    text: String,
}

/// The first problem of a file.
fn error(bytes: &[u8]) -> Option<String> {
    let documents = match documents("f.yaml", bytes) {
        Ok(documents) => documents,
        Err(error) => return Some(error.to_string()),
    };
    let mut errors = documents.iter().map(Document::parse::<Shape>);
    errors.find_map(Result::err).map(|error| error.to_string())
}

#[test]
fn documents_are_split_where_yaml_splits_them() {
    let file = "\u{feff}# head\n---\ntext: one\n--- # two\ntext: |\n  ---\n  a\n...\n---\ntext: --- \
                three\n---\n# nothing\n---   \ntext: \"four\n  ---\"\n";
    let documents = documents("f.yaml", file.as_bytes()).unwrap();
    let texts: Vec<_> = documents
        .iter()
        .map(|document| document.parse::<Shape>().unwrap().text)
        .collect();
    assert_eq!(texts, ["one", "---\na\n", "--- three", "four ---"]);
}

#[test]
fn every_line_ending_keeps_the_place() {
    for ending in ["\n", "\r\n"] {
        let file = [
            "# head", "---", "text: x", "---", "# more", "a: [b]", "nope: 1", "",
        ];
        let file = file.join(ending);
        let expected = "f.yaml:7:1: unknown key \"nope\", expected one of a, b, c, d, e, text";
        assert_eq!(error(file.as_bytes()).as_deref(), Some(expected));
    }
}

#[test]
fn a_broken_document_does_not_hide_the_place_of_the_next() {
    let file = "a: [\n---\ntext: x\n---\n\ntext: [y]\n";
    let documents = documents("f.yaml", file.as_bytes()).unwrap();
    let errors: Vec<_> = documents
        .iter()
        .map(|document| document.parse::<Shape>().err())
        .collect();
    let places: Vec<_> = errors
        .iter()
        .map(|error| error.as_ref().map(|error| error.line))
        .collect();
    assert_eq!(places.len(), 3);
    assert!(places[0].is_some_and(|line| line <= 2), "{places:?}");
    assert_eq!(places[1..], [None, Some(6)]);
    let last = errors[2].as_ref().unwrap();
    assert_eq!(
        (last.column, last.problem.as_str()),
        (7, "found a list, expected a text")
    );
}

#[test]
fn columns_count_characters() {
    let found = error("text: ünï\na: [ö, 1]\n".as_bytes());
    let expected = "f.yaml:2:8: found 1 without quotes, expected a text: write \"1\"";
    assert_eq!(found.as_deref(), Some(expected));
}

#[test]
fn anchors_and_aliases_work() {
    let file = b"a: &list [x, w]\nb: [*list, [z], *list]\n";
    let documents = documents("f.yaml", file).unwrap();
    let shape: Shape = documents[0].parse().unwrap();
    assert_eq!(shape.a, ["x", "w"]);
    assert_eq!(shape.b, [vec!["x", "w"], vec!["z"], vec!["x", "w"]]);
    let unknown = error(b"b: [*list]\n").unwrap();
    assert!(unknown.starts_with("f.yaml:1:5: "), "{unknown}");
}

#[test]
fn an_alias_bomb_is_refused_before_it_costs_memory() {
    let tens = |alias: &str| vec![alias; 50].join(", ");
    let file = format!(
        "a: &a [{}]\nb: &b [{}]\nc: &c [{}]\nd: &d [{}]\ne: [{}]\n",
        tens("x"),
        tens("*a"),
        tens("*b"),
        tens("*c"),
        tens("*d")
    );
    let found = error(file.as_bytes()).unwrap();
    let expected = "found aliases that repeat far more than a person would write, expected the \
                    values themselves";
    assert!(found.ends_with(expected), "{found}");
}

#[test]
fn ten_thousand_levels_are_an_error() {
    let flow = format!("a: {}", "[".repeat(10_000));
    let closed = format!("{}{}", flow, "]".repeat(10_000));
    let block: String = (0..10_000).map(|_| "- ").collect();
    let mapping = format!("a: {}", "{b: ".repeat(10_000));
    for file in [flow, closed, format!("a:\n{block}x"), mapping] {
        assert!(error(file.as_bytes()).is_some());
        // Also where any shape would do.
        let documents = documents("f.yaml", file.as_bytes()).unwrap();
        let found = documents[0].parse::<serde_json::Value>().unwrap_err();
        assert!(found.problem.starts_with("found more"), "{found}");
    }
}

#[test]
fn size_is_bounded() {
    let large = vec![b' '; MAX_BYTES + 1];
    let expected = "f.yaml:1:1: found 16777217 bytes, expected 16777216 at most";
    assert_eq!(error(&large).as_deref(), Some(expected));
    // One text of 2 MB is read; as many values as fit in 1 MB are not.
    let text = format!("text: {}", "x".repeat(2_000_000));
    assert_eq!(error(text.as_bytes()), None);
    let values = format!("a: [{}]", "x,".repeat(500_000));
    let expected = "found more in one document than is looked at, expected 250000 values, 48 \
                    levels and 1000 aliases at most";
    let found = error(values.as_bytes()).unwrap();
    assert!(found.ends_with(expected), "{found}");
    let comments = "# x\n".repeat(500_000);
    assert_eq!(documents("f.yaml", comments.as_bytes()).unwrap().len(), 0);
}

#[test]
fn what_is_not_text_is_an_error_at_its_line() {
    let expected = "f.yaml:2:4: found bytes that are not UTF-8, expected text";
    assert_eq!(error(b"a: [x]\nb: \xff\n").as_deref(), Some(expected));
    // A NUL or another control character is not YAML.
    assert!(error(b"text: a\0b\n").is_some());
}

#[test]
fn what_stands_at_the_place_is_shown_alone() {
    let table = [
        ("a: x # why\n", "found \"x\", expected a list"),
        ("a: \"x, y\" # why\n", "found \"x, y\", expected a list"),
        ("a: {b: c}\n", "found a mapping, expected a list"),
        ("a:\n  b: c\n", "found a mapping, expected a list"),
        ("a:\n", "found nothing, expected a list"),
        ("a: # later\n", "found nothing, expected a list"),
        ("a: ~\n", "found nothing, expected a list"),
        ("a: |\n  x\n", "found \"x\", expected a list"),
        ("text:\n- x\n", "found a list, expected a text"),
    ];
    for (file, expected) in table {
        let found = error(file.as_bytes()).unwrap();
        assert!(
            found.ends_with(&format!(": {expected}")),
            "{file:?}: {found}"
        );
    }
}

#[test]
fn a_json_file_is_one_document_read_as_json() {
    let read = |text: &str| {
        let documents = documents("f.json", text.as_bytes()).unwrap();
        assert_eq!(documents.len(), 1);
        let shape = documents[0].parse::<Shape>();
        shape
            .map(|shape| shape.text)
            .map_err(|error| error.to_string())
    };
    // A surrogate pair, which YAML's escapes do not know.
    assert_eq!(
        read("{\"text\": \"\\ud83e\\udd80\"}").as_deref(),
        Ok("\u{1f980}")
    );
    let unknown = read("{\n  \"a\": [],\n  \"nope\": 1\n}").unwrap_err();
    assert!(
        unknown.starts_with("f.json:3:8: unknown field `nope`"),
        "{unknown}"
    );
    assert!(!unknown.contains(" at line "), "{unknown}");
    let deep = format!("{{\"a\": {}{}}}", "[".repeat(10_000), "]".repeat(10_000));
    assert!(read(&deep).is_err());
}

/// Found by fuzzing: a plain key may go on after blank lines, and be as long as it likes.
#[test]
fn a_problem_is_one_line_whatever_was_found() {
    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Empty {}
    for key in [
        "[{key:eu lma\n\n\n\n more}]",
        "{\"a\\tb\\u0007\": 1}",
        "{? \"a\\n\\nb\" : 1}",
    ] {
        let document = Document::whole("file.yaml", key);
        let error = document
            .parse::<Vec<Empty>>()
            .map(drop)
            .or_else(|_| document.parse::<Empty>().map(drop));
        let problem = error.unwrap_err().problem;
        assert!(!problem.contains(char::is_control), "{problem:?}");
    }
    let long = format!("{{{}: 1}}", "x".repeat(100_000));
    let error = Document::whole("file.yaml", &long)
        .parse::<Empty>()
        .unwrap_err();
    assert!(
        error.problem.chars().count() < 600,
        "{}",
        error.problem.len()
    );
}
