//! `meshgate render`, as a user runs it: what registers meshgate, printed with no cluster.

use std::path::Path;
use std::process::Command;

use meshgate_core::injector::PRESETS;
use meshgate_core::yaml;
use serde_json::Value;

const URL: [&str; 2] = ["--webhook-url", "https://127.0.0.1:8443"];

fn render(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_meshgate"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .arg("render")
        .args(arguments)
        .env_remove("MESHGATE_NAMESPACE")
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

/// Runs a form with a configuration of these `injectors:`.
fn rendered(form: &str, list: &str, more: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("configuration.yaml");
    let text = format!("apiVersion: meshgate.io/v1alpha1\nkind: Configuration\ninjectors:\n{list}");
    std::fs::write(&path, text).unwrap();
    let config = ["--config", path.to_str().unwrap()];
    let (code, out, err) = render(&[&[form][..], &config, more].concat());
    assert_eq!(code, Some(0), "{err}");
    out
}

fn items(json: &str) -> Vec<Value> {
    let list: Value = serde_json::from_str(json).unwrap();
    assert_eq!(list["kind"], "List");
    list["items"].as_array().unwrap().clone()
}

/// The entries of the gate: who is asked about.
fn entries(list: &str) -> String {
    let out = rendered("registration", list, &[&URL[..], &["-o", "json"]].concat());
    let objects = items(&out);
    let gate = objects
        .iter()
        .find(|o| o["kind"] == "MutatingWebhookConfiguration")
        .unwrap();
    let mut text = String::new();
    for entry in gate["webhooks"].as_array().unwrap() {
        text.push_str(&format!("{}\n", entry["name"].as_str().unwrap()));
        for term in entry["namespaceSelector"]["matchExpressions"]
            .as_array()
            .into_iter()
            .flatten()
        {
            let [key, operator] = ["key", "operator"].map(|field| term[field].as_str().unwrap());
            let values = term.get("values").map(Value::to_string).unwrap_or_default();
            text.push_str(format!("  {key} {operator} {values}").trim_end());
            text.push('\n');
        }
        let conditions = entry["matchConditions"].as_array().into_iter().flatten();
        for condition in conditions.filter(|condition| condition["name"] == "required") {
            text.push_str(&format!(
                "  {}\n",
                condition["expression"].as_str().unwrap()
            ));
        }
    }
    text
}

/// What each preset becomes changes on purpose only: `make bless` writes the snapshots anew.
#[test]
fn every_preset_is_rendered_as_it_was() {
    for (name, _) in PRESETS {
        let list = format!("- preset: {name}\n");
        insta::assert_snapshot!(format!("entries-{name}"), entries(&list));
        insta::assert_snapshot!(format!("policy-{name}"), rendered("policy", &list, &[]));
    }
    let whole = rendered("registration", "- preset: linkerd\n", &URL);
    insta::assert_snapshot!("registration-linkerd", whole);
    let service = [
        "--mirror",
        "webhook",
        "--enforcement",
        "policy",
        "--failure-policy",
        "ignore",
    ];
    let other = rendered(
        "registration",
        "- {preset: opentelemetry, mode: warn}\n",
        &service,
    );
    insta::assert_snapshot!("registration-opentelemetry-policy", other);
}

/// Both forms of output hold the same objects.
#[test]
fn yaml_says_what_json_says() {
    for form in ["registration", "policy", "static"] {
        let arguments = [&[form][..], &URL].concat();
        let (code, text, err) = render(&arguments);
        assert_eq!((code, err.as_str()), (Some(0), ""));
        let (_, json, _) = render(&[&arguments[..], &["-o", "json"]].concat());
        let documents = yaml::documents("output", text.as_bytes()).unwrap();
        let read: Vec<Value> = documents.iter().map(|one| one.parse().unwrap()).collect();
        assert_eq!(read, items(&json), "{form}");
        assert!(
            text.lines().all(|line| line == line.trim_end()),
            "blanks at ends of lines"
        );
    }
}

/// Whatever the API server would fill in is there already (case 79).
#[test]
fn defaulted_fields_are_spelled_out() {
    let (_, json, _) = render(&[&["registration"][..], &URL, &["-o", "json"]].concat());
    let mut looked_at = 0;
    for object in items(&json) {
        for webhook in object["webhooks"].as_array().into_iter().flatten() {
            looked_at += 1;
            let fields = [
                "admissionReviewVersions",
                "failurePolicy",
                "matchPolicy",
                "namespaceSelector",
                "objectSelector",
                "sideEffects",
                "timeoutSeconds",
            ];
            for field in fields {
                assert!(
                    webhook.get(field).is_some(),
                    "{field} of {}",
                    webhook["name"]
                );
            }
            let is_mutating = object["kind"] == "MutatingWebhookConfiguration";
            assert_eq!(webhook.get("reinvocationPolicy").is_some(), is_mutating);
            assert!(webhook["rules"][0].get("scope").is_some());
            assert_eq!(webhook["sideEffects"], "None");
        }
        if let Some(constraints) = object["spec"].get("matchConstraints") {
            for field in [
                "matchPolicy",
                "namespaceSelector",
                "objectSelector",
                "resourceRules",
            ] {
                assert!(
                    constraints.get(field).is_some(),
                    "{field} of {}",
                    object["metadata"]["name"]
                );
            }
        }
    }
    assert!(looked_at > 100, "{looked_at}");
}

/// A file per admission plugin, and the file that names them.
#[test]
fn the_static_form_is_written_into_folders() {
    let folder = tempfile::tempdir().unwrap();
    let into = folder.path().join("static");
    let arguments = [&["static"][..], &URL, &["--into", into.to_str().unwrap()]].concat();
    let (code, out, err) = render(&arguments);
    assert_eq!((code, out.as_str(), err.as_str()), (Some(0), "", ""));
    let read = |path: &Path| -> Vec<Value> {
        let bytes = std::fs::read(path).unwrap();
        let documents = yaml::documents("file", &bytes).unwrap();
        documents.iter().map(|one| one.parse().unwrap()).collect()
    };
    let plugins = read(&into.join("admission-configuration.yaml"));
    for plugin in plugins[0]["plugins"].as_array().unwrap() {
        let folder = plugin["configuration"]["staticManifestsDir"]
            .as_str()
            .unwrap();
        let plugin = plugin["name"].as_str().unwrap();
        let kind = plugin
            .replace("Webhook", "WebhookConfiguration")
            .replace("Admission", "");
        for object in read(&Path::new(folder).join("meshgate.yaml")) {
            let found = object["kind"].as_str().unwrap().replace("Admission", "");
            assert!(
                found.starts_with(&kind),
                "{found} in the folder of {plugin}"
            );
        }
    }
}

#[test]
fn what_cannot_be_rendered_is_said() {
    for (arguments, problem) in [
        (
            &["static"][..],
            "static manifests call webhooks by URL only; give it by --webhook-url",
        ),
        (
            &["static", "--service", "a/b"],
            "static manifests call webhooks by URL only",
        ),
        (
            &["registration", "--webhook-url", "http://a"],
            "expected https://HOST:PORT without a path",
        ),
        (
            &["registration", "--webhook-url", "https://a/b"],
            "expected https://HOST:PORT without a path",
        ),
        (
            &["registration", "--webhook-url", "https://a:99999"],
            "no port from 1 to 65535",
        ),
        (
            &["registration", "--service", "a"],
            "expected NAMESPACE/NAME or NAMESPACE/NAME:PORT",
        ),
        (
            &["registration", "--service", "a/b:0"],
            "expected NAMESPACE/NAME or NAMESPACE/NAME:PORT",
        ),
        (
            &["registration", "--config", "no/such"],
            "cannot read --config no/such",
        ),
        (
            &["registration", "--ca", "no/such"],
            "cannot read --ca no/such",
        ),
        (
            &["registration", "--ca", "Cargo.toml"],
            "cannot use --ca Cargo.toml",
        ),
    ] {
        let (code, out, err) = render(arguments);
        assert_eq!((code, out.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(err.contains(problem), "{arguments:?}: {err}");
    }
}

/// The page shows what the program prints, line for line.
#[test]
fn the_page_shows_what_is_printed() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/registration.md");
    let page = std::fs::read_to_string(page).unwrap();
    let printed = rendered("registration", "- preset: linkerd\n", &URL)
        + &rendered("policy", "- preset: linkerd\n", &[]);
    let mut shown = 0;
    let mut blocks = page.split("```yaml\n");
    blocks.next();
    for block in blocks {
        let (block, _) = block.split_once("```").unwrap();
        let is_input = block.starts_with("apiVersion: meshgate.io");
        for line in block
            .lines()
            .filter(|line| !is_input && !line.trim().starts_with('#'))
        {
            shown += 1;
            let is_printed = printed.lines().any(|own| own.trim() == line.trim());
            assert!(is_printed, "docs/registration.md shows {line:?}");
        }
    }
    assert!(shown > 20, "{shown}");
}
