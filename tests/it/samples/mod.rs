//! The samples in `tests/samples`: what must come out of each, as a table, over real TLS and both
//! protocols.

mod table;
mod variants;

use std::io::Write as _;
use std::path::Path;

use meshgate::cluster::object::Object;
use meshgate::metrics::Hook;
use serde_json::{Value, json};

use self::table::{Expected, Given, ROWS, Row};
use crate::hooks::answer::{Verdict, with_mark};
use crate::hooks::{self, Hooks, objects};
use crate::support::client::Client;

/// A file of `tests/samples`, byte for byte.
fn sample(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples");
    std::fs::read(folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn json_of(body: &[u8]) -> Value {
    serde_json::from_slice(body).unwrap()
}

/// The namespaces that the samples assume.
fn namespaces() -> Vec<Object> {
    let none = json!({});
    let linkerd = json!({"linkerd.io/inject": "enabled"});
    vec![
        objects::namespace("orders", &none, &linkerd),
        objects::namespace("peers", &none, &linkerd),
        objects::namespace("reporting", &none, &none),
        objects::namespace("payments", &json!({"istio-injection": "enabled"}), &none),
        objects::namespace("kube-system", &none, &none),
    ]
}

/// Linkerd and Istio's default revision, both up or both down.
fn injectors(ready: bool) -> Vec<Object> {
    let presets = hooks::presets();
    let wanted = presets
        .iter()
        .filter(|i| ["linkerd", "istio"].contains(&&*i.profile.name));
    wanted
        .flat_map(|injector| objects::installed(&injector.profile, &["default"], ready))
        .collect()
}

/// Puts the state of a row in; file 06 brings its own namespace.
fn put(hooks: &Hooks, given: Given, row: &Row) {
    let mut objects = match given {
        Given::Up => [namespaces(), injectors(true)].concat(),
        Given::Down => [namespaces(), injectors(false)].concat(),
        Given::NothingKnown => Vec::new(),
    };
    if row.file == NEWSLETTER {
        objects.push(newsletter_namespace());
    }
    hooks.hold(objects);
}

const NEWSLETTER: &str = "06-namespace-label-not-annotation.yaml";

/// The two items of file 06.
fn newsletter() -> [Value; 2] {
    let list: Value = serde_saphyr::from_str(std::str::from_utf8(&sample(NEWSLETTER)).unwrap())
        .unwrap_or_else(|error| panic!("{NEWSLETTER}: {error}"));
    [list["items"][0].clone(), list["items"][1].clone()]
}

fn newsletter_namespace() -> Object {
    objects::object(&newsletter()[0])
}

/// The body to send for a row.
fn body(row: &Row) -> Vec<u8> {
    if row.file == NEWSLETTER {
        let [namespace, pod] = newsletter();
        let name = namespace["metadata"]["name"].as_str().unwrap();
        return hooks::review("sample-06", name, pod).to_string().into();
    }
    sample(row.file)
}

#[tokio::test]
async fn every_sample_is_answered_as_the_table_says() {
    let hooks = Hooks::start(hooks::unreachable()).await;
    let (mut total, mut passed, mut wrong) = (0, 0, Vec::new());
    let mut client = hooks.client().await;
    for row in ROWS {
        total += 1;
        let before = wrong.len();
        for given in row.given {
            put(&hooks, *given, row);
            for hook in row.hooks {
                let place = format!("{} {} {given:?}", row.file, hook.as_str());
                let found = ask(&mut client, *hook, &body(row), &row.expected).await;
                wrong.extend(found.into_iter().map(|flaw| format!("{place}: {flaw}")));
            }
        }
        passed += usize::from(wrong.len() == before);
    }
    assert_eq!(hooks.live.count(), 0, "no row needs a look-up");
    let line = format!("samples: {passed} of {total}");
    assert!(wrong.is_empty(), "\n{}\n{line}", wrong.join("\n"));
    // Not by `println!`, which cargo shows for failures only.
    writeln!(std::io::stderr(), "{line}").unwrap();
}

/// Sends a body and says what is wrong with the answer.
async fn ask(client: &mut Client, hook: Hook, body: &[u8], expected: &Expected) -> Vec<String> {
    let answer = hooks::send(client, hook, body.to_vec()).await;
    let mut wrong = Vec::new();
    if let Expected::BadCall(text) = expected {
        let found = String::from_utf8_lossy(&answer.body).into_owned();
        if answer.status != 400 || !found.contains(text) || found.contains("\"response\"") {
            wrong.push(format!(
                "expected 400 with {text}, found {} {found}",
                answer.status
            ));
        }
        return wrong;
    }
    let review = json_of(body);
    let uid = review["request"]["uid"].as_str().unwrap();
    if let Some(verdict) = Verdict::of(hook, uid, &answer, &mut wrong) {
        compare(expected, &verdict, &review["request"]["object"], &mut wrong);
    }
    wrong
}

fn compare(expected: &Expected, found: &Verdict, pod: &Value, wrong: &mut Vec<String>) {
    let (code, texts, warnings, mark): (_, &[&str], &[&str], _) = match expected {
        Expected::Marked(name) => (0, &[], &[], Some(*name)),
        Expected::Allowed => (0, &[], &[], None),
        Expected::Warned(warnings) => (0, &[], warnings, None),
        Expected::Refused(code, texts) => (*code, texts, &[], None),
        Expected::BadCall(_) => unreachable!("there is no review"),
    };
    let mut expect = |holds: bool, what: String| {
        if !holds {
            wrong.push(format!("expected {what}, found {found:?}"));
        }
    };
    expect(found.code == code, format!("code {code}"));
    expect(
        found.allowed == (code == 0),
        "allowed without a code only".to_owned(),
    );
    for text in texts {
        expect(
            found.message.contains(text),
            format!("{text} in the message"),
        );
    }
    expect(
        found.warnings.len() == warnings.len(),
        format!("warnings {warnings:?}"),
    );
    for (text, warning) in warnings.iter().zip(&found.warnings) {
        expect(warning.contains(text), format!("warning {text}"));
    }
    expect(
        found.patch.is_some() == mark.is_some(),
        format!("mark {mark:?}"),
    );
    let patched = found.patched(pod, wrong);
    let wanted = mark.map_or_else(|| pod.clone(), |mark| with_mark(pod, Some(mark)));
    if patched != wanted {
        wrong.push(format!("expected {wanted}, found {patched}"));
    }
}

#[test]
fn every_file_has_a_row() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples");
    let mut numbers = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name == "README.md" {
            continue;
        }
        numbers.push(name.chars().take(2).collect::<String>());
        let in_table = ROWS.iter().any(|row| row.file == name);
        assert!(in_table || variants::SLICES.contains(&&*name), "{name}");
    }
    numbers.sort();
    let wanted: Vec<String> = (1..=26).map(|number| format!("{number:02}")).collect();
    assert_eq!(numbers, wanted);
}
