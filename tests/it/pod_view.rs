//! The slim reader of pods: it agrees with a full decode, borrows, and survives any input.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::core::v1::{Affinity, Container, EnvVar, PodOS, PodSpec, Toleration, Volume};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use meshgate_core::injector::Injectors;
use meshgate_core::injector::rule::Place;
use meshgate_core::view::json::Text;
use meshgate_core::view::pod::{Container as Slim, PodView};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

/// Keys that rules read, and others.
const KEYS: [&str; 8] = [
    "linkerd.io/inject",
    "sidecar.istio.io/inject",
    "istio.io/rev",
    "vault.hashicorp.com/agent-inject",
    "kuma.io/sidecar-injection",
    "app",
    "example.com/other",
    "kubernetes.io/os",
];

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        select(
            &[
                "", "enabled", "true", "a\"b", "a\\b", "tab\t", "línea\n", "🦀", "windows"
            ][..]
        )
        .prop_map(str::to_owned),
        "\\PC{0,10}",
    ]
}

fn map() -> impl Strategy<Value = Option<BTreeMap<String, String>>> {
    let key = prop_oneof![select(&KEYS[..]).prop_map(str::to_owned), text()];
    prop::option::of(prop::collection::btree_map(key, text(), 0..6))
}

fn containers() -> impl Strategy<Value = Vec<Container>> {
    let policy = select(&["Always", "OnFailure", "always"][..]).prop_map(str::to_owned);
    let container = (
        text(),
        prop::option::of(text()),
        prop::option::of(policy),
        any::<bool>(),
    );
    let container = container.prop_map(|(name, image, restart_policy, noise)| Container {
        name,
        image,
        restart_policy,
        command: noise.then(|| vec!["sh".to_owned(), "-c \"}]\"".to_owned()]),
        env: noise.then(|| {
            vec![EnvVar {
                name: "hostNetwork".to_owned(),
                value: Some("{\"labels\":{}}".to_owned()),
                value_from: None,
            }]
        }),
        ..Container::default()
    });
    prop::collection::vec(container, 0..4)
}

fn metadata() -> impl Strategy<Value = ObjectMeta> {
    let owner =
        (text(), text(), prop::option::of(any::<bool>())).prop_map(|(kind, name, controller)| {
            OwnerReference {
                api_version: "apps/v1".to_owned(),
                kind,
                name,
                uid: "1".to_owned(),
                controller,
                block_owner_deletion: Some(true),
            }
        });
    let owners = prop::option::of(prop::collection::vec(owner, 0..3));
    (
        prop::option::of(text()),
        prop::option::of(text()),
        map(),
        map(),
        owners,
    )
        .prop_map(
            |(name, generate_name, labels, annotations, owner_references)| ObjectMeta {
                name,
                generate_name,
                labels,
                annotations,
                owner_references,
                namespace: Some("elsewhere".to_owned()),
                finalizers: Some(vec!["a/b".to_owned()]),
                ..ObjectMeta::default()
            },
        )
}

fn spec() -> impl Strategy<Value = Option<PodSpec>> {
    let os = prop::option::of(text().prop_map(|name| PodOS { name }));
    let runtime = prop::option::of(select(&["windows-1", "gvisor"][..]).prop_map(str::to_owned));
    let fields = (
        containers(),
        prop::option::of(containers()),
        prop::option::of(any::<bool>()),
        os,
        map(),
        runtime,
        any::<bool>(),
    );
    let spec = fields.prop_map(
        |(containers, init_containers, host_network, os, node_selector, runtime, noise)| PodSpec {
            containers,
            init_containers,
            host_network,
            os,
            node_selector,
            runtime_class_name: runtime,
            affinity: noise.then(Affinity::default),
            tolerations: noise.then(|| vec![Toleration::default()]),
            volumes: noise.then(|| vec![Volume::default()]),
            automount_service_account_token: Some(noise),
            ..PodSpec::default()
        },
    );
    prop::option::of(spec)
}

fn pods() -> impl Strategy<Value = Pod> {
    (metadata(), spec()).prop_map(|(metadata, spec)| Pod {
        metadata,
        spec,
        status: None,
    })
}

type Seen = (String, String, bool);

fn slim(list: &[Slim<'_>]) -> Vec<Seen> {
    let one = |c: &Slim<'_>| (c.name.to_string(), c.image.to_string(), c.restarts_always());
    list.iter().map(one).collect()
}

fn full(list: &[Container]) -> Vec<Seen> {
    let one = |c: &Container| {
        let always = c.restart_policy.as_deref() == Some("Always");
        (c.name.clone(), c.image.clone().unwrap_or_default(), always)
    };
    list.iter().map(one).collect()
}

/// Parsed once: each case asks for them.
static PRESETS: LazyLock<Injectors> = LazyLock::new(|| Injectors::all_presets().unwrap());

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn it_agrees_with_a_full_decode(pod in pods(), pretty in any::<bool>()) {
        let json = if pretty {
            serde_json::to_string_pretty(&pod).unwrap()
        } else {
            serde_json::to_string(&pod).unwrap()
        };
        let pod: Pod = serde_json::from_str(&json).unwrap();
        let injectors = &*PRESETS;
        let view = PodView::read(&json, injectors.keys()).unwrap();

        let metadata = &pod.metadata;
        let filled = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let name = filled(&metadata.name).or_else(|| filled(&metadata.generate_name));
        prop_assert_eq!(view.display_name(), name.unwrap_or_default());
        let owners = metadata.owner_references.iter().flatten();
        let owner = owners.into_iter().find(|owner| owner.controller == Some(true));
        let expected = owner.map(|owner| (owner.kind.as_str(), owner.name.as_str()));
        prop_assert_eq!(view.owner().map(|owner| (&*owner.kind, &*owner.name)), expected);

        for key in injectors.keys().iter() {
            let map = match key.place {
                Place::PodLabel => &metadata.labels,
                Place::PodAnnotation => &metadata.annotations,
                Place::NamespaceLabel | Place::NamespaceAnnotation => &None,
            };
            let expected = map.as_ref().and_then(|map| map.get(&key.name));
            let slot = injectors.keys().slot(key.place, &key.name).unwrap();
            prop_assert_eq!(view.values.get(slot), expected.map(String::as_str), "{}", key);
        }

        let spec = pod.spec.unwrap_or_default();
        prop_assert_eq!(slim(view.containers()), full(&spec.containers));
        let init = spec.init_containers.as_deref().unwrap_or_default();
        prop_assert_eq!(slim(view.init_containers()), full(init));
        prop_assert_eq!(view.host_network(), spec.host_network == Some(true));
        let selector = spec.node_selector.as_ref().and_then(|map| map.get("kubernetes.io/os"));
        let by_os = spec.os.as_ref().is_some_and(|os| os.name == "windows");
        let by_selector = selector.is_some_and(|os| os == "windows");
        prop_assert_eq!(view.is_windows(), by_os || by_selector);
        let class = spec.runtime_class_name.as_deref();
        prop_assert_eq!(view.hints_at_windows(), class == Some("windows-1"));
    }
}

#[test]
fn texts_are_borrowed_unless_they_hold_escapes() {
    let json = r#"{"metadata": {"ownerReferences":
        [{"kind": "ReplicaSet", "name": "a\u002db", "controller": true}]},
        "spec": {"containers": [{"name": "app", "image": "a\/b"}]}}"#;
    let injectors = &*PRESETS;
    let view = PodView::read(json, injectors.keys()).unwrap();
    let is_borrowed = |text: &Text<'_>| matches!(text.0, Cow::Borrowed(_));
    let owner = view.owner().unwrap();
    assert_eq!(
        (&*owner.kind, is_borrowed(&owner.kind)),
        ("ReplicaSet", true)
    );
    assert_eq!((&*owner.name, is_borrowed(&owner.name)), ("a-b", false));
    let container = &view.containers()[0];
    assert_eq!(
        (&*container.name, is_borrowed(&container.name)),
        ("app", true)
    );
    assert_eq!(
        (&*container.image, is_borrowed(&container.image)),
        ("a/b", false)
    );
}

#[test]
fn escapes_in_keys_and_values_are_read() {
    let json = r#"{"metadata": {"annotations": {"linkerd\u002eio\/inject": "en\u0061bled"}}}"#;
    let injectors = &*PRESETS;
    let view = PodView::read(json, injectors.keys()).unwrap();
    let slot = injectors
        .keys()
        .slot(Place::PodAnnotation, "linkerd.io/inject")
        .unwrap();
    assert_eq!(view.values.get(slot), Some("enabled"));
}

#[test]
fn null_is_nothing_wherever_go_takes_it() {
    let nulls = [
        json!({"metadata": {"name": null, "generateName": null, "labels": null,
            "annotations": null, "ownerReferences": null}, "spec": null}),
        json!({"metadata": {"ownerReferences": [null]}, "spec": {"hostNetwork": null, "os": null,
            "nodeSelector": null, "containers": null, "initContainers": null, "affinity": null,
            "runtimeClassName": null}}),
        json!({"metadata": {"ownerReferences": [{"kind": null, "name": null, "controller": null}]},
            "spec": {"os": {"name": null}, "nodeSelector": {"kubernetes.io/os": null},
            "containers": [null, {"name": null, "image": null, "restartPolicy": null}],
            "initContainers": [null]}}),
    ];
    let injectors = &*PRESETS;
    for pod in &nulls {
        let json = pod.to_string();
        let view = PodView::read(&json, injectors.keys()).unwrap();
        assert_eq!((view.display_name(), view.owner()), ("", None), "{json}");
        assert!(!view.host_network() && !view.is_windows() && !view.hints_at_windows());
        let names = view.containers().iter().chain(view.init_containers());
        assert!(
            names
                .into_iter()
                .all(|c| c.name.is_empty() && !c.restarts_always())
        );
    }
    let json = nulls[2].to_string();
    let view = PodView::read(&json, injectors.keys()).unwrap();
    assert_eq!(
        (view.containers().len(), view.init_containers().len()),
        (2, 1)
    );
    // The value of an annotation that is null is the empty text, and the key is there.
    let json = json!({"metadata": {"annotations": {"linkerd.io/inject": null}}}).to_string();
    let view = PodView::read(&json, injectors.keys()).unwrap();
    let slot = injectors
        .keys()
        .slot(Place::PodAnnotation, "linkerd.io/inject")
        .unwrap();
    assert_eq!(view.values.get(slot), Some(""));
}

/// Whether the text can be read; that it returns at all is half of the test.
fn reads(json: &str) -> bool {
    let view = PodView::read(json, PRESETS.keys());
    view.map(|view| (view.is_windows(), view.hints_at_windows()))
        .is_ok()
}

#[test]
#[expect(clippy::too_many_lines, reason = "one table")]
fn hostile_objects_are_a_value_or_an_error() {
    let levels =
        |open: &str, close: &str| format!("{}{}", open.repeat(10_000), close.repeat(10_000));
    let deep = levels("[", "]");
    let deeper = levels("{\"a\":", "}").replace(":}", ":1}");
    let huge = "x".repeat(5_000_000);
    let table = [
        // What rules do not read may be anything.
        (format!(r#"{{"metadata":{{}},"status":{deep}}}"#), true),
        (
            format!(r#"{{"metadata":{{"managedFields":{deeper}}},"spec":{{"x":{deep}}}}}"#),
            true,
        ),
        (
            format!(r#"{{"metadata":{{}},"spec":{{"affinity":{deep}}}}}"#),
            true,
        ),
        (
            format!(r#"{{"metadata":{{"annotations":{{"k":"{huge}"}}}}}}"#),
            true,
        ),
        (format!(r#"{{"metadata":{{"name":"{huge}"}}}}"#), true),
        (
            r#"{"metadata":{"annotations":{"other":"\ud800"}}}"#.to_owned(),
            true,
        ),
        // What they read may not.
        (format!(r#"{{"metadata":{{"labels":{deep}}}}}"#), false),
        (
            format!(r#"{{"metadata":{{"annotations":{{"k":{deep}}}}}}}"#),
            false,
        ),
        (
            format!(r#"{{"metadata":{{}},"spec":{{"containers":{deep}}}}}"#),
            false,
        ),
        (
            r#"{"metadata":{"annotations":{"linkerd.io/inject":"\ud800"}}}"#.to_owned(),
            false,
        ),
        (
            r#"{"metadata":{"annotations":{"linkerd.io/inject":1}}}"#.to_owned(),
            false,
        ),
        (
            r#"{"metadata":{"annotations":{"linkerd.io/inject":nul}}}"#.to_owned(),
            false,
        ),
        (
            r#"{"metadata":{"annotations":{"k":true}}}"#.to_owned(),
            false,
        ),
        (r#"{"metadata":{"annotations":[]}}"#.to_owned(), false),
        (r#"{"metadata":{"labels":"x"}}"#.to_owned(), false),
        (r#"{"metadata":{"name":1}}"#.to_owned(), false),
        (
            r#"{"metadata":{},"spec":{"hostNetwork":"true"}}"#.to_owned(),
            false,
        ),
        (
            r#"{"metadata":{},"spec":{"containers":{}}}"#.to_owned(),
            false,
        ),
        (
            r#"{"metadata":{},"spec":{"initContainers":[1]}}"#.to_owned(),
            false,
        ),
        (r#"{"metadata":{}} x"#.to_owned(), false),
        (r#"{"metadata":null}"#.to_owned(), false),
        ("{}".to_owned(), false),
        ("null".to_owned(), false),
        ("[]".to_owned(), false),
        ("".to_owned(), false),
        (deep, false),
    ];
    for (json, expected) in table {
        let start: String = json.chars().take(80).collect();
        assert_eq!(reads(&json), expected, "{start}");
    }
}

#[test]
fn the_last_of_equal_keys_counts() {
    let injectors = &*PRESETS;
    let json = r#"{"metadata":{"annotations":{"linkerd.io/inject":"a","linkerd.io/inject":"b"}},
        "spec":{"nodeSelector":{"kubernetes.io/os":"linux","kubernetes.io/os":"windows"}}}"#;
    let view = PodView::read(json, injectors.keys()).unwrap();
    let slot = injectors
        .keys()
        .slot(Place::PodAnnotation, "linkerd.io/inject")
        .unwrap();
    assert_eq!(view.values.get(slot), Some("b"));
    assert!(view.is_windows());
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 32, 5, |inner| {
        let key = select(
            &[
                "metadata",
                "spec",
                "labels",
                "annotations",
                "name",
                "containers",
                "initContainers",
                "os",
                "nodeSelector",
                "affinity",
                "ownerReferences",
                "kubernetes.io/os",
                "linkerd.io/inject",
                "restartPolicy",
                "hostNetwork",
                "x",
            ][..],
        );
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key.prop_map(str::to_owned), inner), 0..6)
                .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn random_json_is_a_value_or_an_error(json in any_json(), inner in any_json()) {
        reads(&json.to_string());
        reads(&json!({"metadata": inner, "spec": json}).to_string());
    }

    /// A pod that is cut anywhere is no pod.
    #[test]
    fn cut_json_is_an_error(pod in pods(), cut in any::<prop::sample::Index>()) {
        let json = serde_json::to_string(&pod).unwrap();
        let cut = json.floor_char_boundary(cut.index(json.len()));
        prop_assert!(!reads(json.get(..cut).unwrap()));
    }

    #[test]
    fn random_text_is_a_value_or_an_error(text in "\\PC{0,60}", noise in "[{}\\[\\]\",:a0\\\\]{0,60}") {
        reads(&text);
        reads(&noise);
        reads(&format!("{{\"metadata\":{{\"labels\":{noise}}}}}"));
    }
}
