use proptest::prelude::*;
use serde_json::{Value, json};

use super::Items;

/// The name alone; of one without a name, nothing is made.
fn name(item: &str) -> Option<String> {
    let item: Value = serde_json::from_str(item).unwrap();
    let name = item["metadata"]["name"].as_str()?;
    Some(json!({ "name": name }).to_string())
}

/// What becomes of a text that arrives in pieces of this size, and the most that was held of it.
fn shrunk(text: &str, piece: usize) -> (Value, usize) {
    let (mut items, mut out, mut most) = (Items::default(), Vec::new(), 0);
    for piece in text.as_bytes().chunks(piece) {
        out.extend_from_slice(&items.shrunk(piece, name));
        most = most.max(items.item.capacity());
    }
    (serde_json::from_slice(&out).unwrap(), most)
}

fn item(number: usize, note: &str) -> Value {
    let notes = json!({"a": note, "b\\\"{[": [note, {"c": "]}\\"}]});
    json!({"metadata": {"name": format!("n{number}"), "annotations": notes}, "spec": {"finalizers": ["x"]}})
}

#[test]
fn other_answers_pass_as_they_are() {
    let status = json!({
        "kind": "Status", "status": "Failure",
        "details": {"causes": [{"metadata": {"name": "a"}}], "retryAfterSeconds": 1},
    });
    let empty = json!({"kind": "List", "metadata": {"continue": ""}, "items": []});
    let null = json!({"kind": "List", "items": null});
    let nameless = json!({"kind": "List", "items": [{"metadata": {"labels": [1, {}]}}]});
    for answer in [status, empty, null, nameless] {
        assert_eq!(shrunk(&answer.to_string(), 3).0, answer);
    }
}

#[test]
fn of_a_long_page_one_item_is_held() {
    let note = "x".repeat(10_000);
    let items: Vec<Value> = (0..100).map(|number| item(number, &note)).collect();
    let page = json!({"kind": "List", "items": items}).to_string();
    let (list, most) = shrunk(&page, 1_000);
    assert_eq!(list["items"].as_array().unwrap().len(), 100);
    assert!(most < 50_000, "{most} bytes of {}", page.len());
}

proptest! {
    #[test]
    fn items_are_shrunk_however_they_arrive(
        notes in prop::collection::vec(".{0,20}", 0..4),
        piece in 1_usize..50,
        is_pretty in any::<bool>(),
    ) {
        let items = notes.iter().enumerate().map(|(number, note)| item(number, note));
        let list = json!({
            "apiVersion": "v1", "kind": "List", "items": items.collect::<Vec<_>>(),
            "metadata": {"resourceVersion": "7", "continue": "\\\"}]", "x": {"y": [{"metadata": {"name": "z"}}]}},
        });
        let text = if is_pretty {
            serde_json::to_string_pretty(&list).unwrap()
        } else {
            list.to_string()
        };
        let mut expected = list;
        let names = (0..notes.len()).map(|number| json!({"name": format!("n{number}")}));
        expected["items"] = names.collect();
        prop_assert_eq!(shrunk(&text, piece).0, expected);
    }
}
