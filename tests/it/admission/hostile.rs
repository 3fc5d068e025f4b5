//! Bodies that are made to hurt.

use hyper::StatusCode;
use hyper::body::Bytes;
use meshgate::metrics::Hook;
use proptest::prelude::{Just, Strategy, any, prop, prop_oneof};
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

use super::{assert_bad_call, assert_serves, serving, verdict};
use crate::hooks::answer::with_mark;
use crate::hooks::{self, ALL_HOOKS, HOOKS, Hooks};
use crate::support::client::{Answer, Client};

/// Levels of nesting: far beyond what any object has, and far below the limit of a body.
const LEVELS: usize = 10_000;

/// A review with this text as its object.
fn with_object(object: &str) -> String {
    let review = hooks::review("u", "orders", json!("OBJECT")).to_string();
    review.replace("\"OBJECT\"", object)
}

/// An answer that keeps to the rules, or a bad call. Returns the code.
fn assert_proper(hook: Hook, answer: &Answer) -> StatusCode {
    match answer.status {
        StatusCode::OK => {
            let review: Value = serde_json::from_slice(&answer.body).unwrap();
            let response = &review["response"];
            assert_eq!(review["kind"], "AdmissionReview");
            assert!(!response["uid"].as_str().unwrap().is_empty());
            let both = response["patch"].is_string() == response["patchType"].is_string();
            let may_patch = hook != Hook::Check && response["allowed"] == true;
            assert!(
                both && (may_patch || response["patch"].is_null()),
                "{review}"
            );
        }
        StatusCode::BAD_REQUEST => assert_bad_call(answer, StatusCode::BAD_REQUEST, ""),
        other => panic!("{other}: {:?}", answer.body),
    }
    answer.status
}

#[tokio::test]
async fn deep_nesting_is_answered() {
    let hooks = serving().await;
    let mut client = hooks.client().await;
    let arrays = format!("{}{}", "[".repeat(LEVELS), "]".repeat(LEVELS));
    let maps = format!("{}1{}", "{\"a\":".repeat(LEVELS), "}".repeat(LEVELS));
    let unclosed = "[".repeat(LEVELS);
    for deep in [&arrays, &maps, &unclosed] {
        let pod = |place: &str| {
            let pod = json!({"metadata": {"annotations": {}}, "spec": {"containers": []}});
            pod.to_string()
                .replacen(place, &format!("{place}\"x\":{deep},"), 1)
        };
        let bodies = [
            with_object(deep),
            with_object(&pod("{")),
            with_object(&pod("\"spec\":{")),
            with_object(&format!("{{\"metadata\":{{\"labels\":{deep}}}}}")),
            with_object(&format!("{{\"spec\":{{\"containers\":{deep}}}}}")),
            with_object("{}").replace("\"oldObject\":null", &format!("\"oldObject\":{deep}")),
            with_object("{}").replace(
                "\"userInfo\":{",
                &format!("\"userInfo\":{{\"extra\":{deep},"),
            ),
            with_object("{}").replacen('{', &format!("{{\"x\":{deep},"), 1),
            deep.clone(),
        ];
        for body in bodies {
            assert!(body.len() >= LEVELS);
            for hook in ALL_HOOKS {
                assert_proper(hook, &hooks::send(&mut client, hook, body.clone()).await);
            }
        }
    }
    assert_serves(&mut client).await;
}

#[tokio::test]
async fn what_is_deep_in_a_field_that_no_rule_reads_does_not_matter() {
    let hooks = serving().await;
    let mut client = hooks.client().await;
    let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
    let mut pod = hooks::plain_pod("shop-");
    pod["spec"]["hologram"] = json!("DEEP");
    let body = with_object(&pod.to_string().replace("\"DEEP\"", &deep));
    assert_eq!(
        verdict(&mut client, Hook::Gate, "u", body).await.decision,
        "mark"
    );
}

#[tokio::test]
async fn invalid_utf8_and_cut_json_are_bad_calls() {
    let hooks = serving().await;
    let mut client = hooks.client().await;
    let body = with_object(&hooks::plain_pod("shop-").to_string()).into_bytes();
    for at in (0..body.len()).step_by(37) {
        let cut = body.get(..at).unwrap().to_vec();
        let answer = hooks::send(&mut client, Hook::Gate, cut).await;
        assert_bad_call(&answer, StatusCode::BAD_REQUEST, "body is");
        let mut broken = body.clone();
        broken[at] = 0xff;
        assert_proper(
            Hook::Check,
            &hooks::send(&mut client, Hook::Check, broken).await,
        );
    }
    let latin = with_object(&hooks::plain_pod("sh\u{f6}p-").to_string());
    let latin: Vec<u8> = latin
        .chars()
        .map(|c| u8::try_from(u32::from(c)).unwrap())
        .collect();
    let answer = hooks::send(&mut client, Hook::Gate, latin).await;
    assert_ne!(
        assert_proper(Hook::Gate, &answer),
        StatusCode::INTERNAL_SERVER_ERROR
    );
    let twice = [body.clone(), body].concat();
    let answer = hooks::send(&mut client, Hook::Gate, twice).await;
    assert_bad_call(&answer, StatusCode::BAD_REQUEST, "trailing");
    assert_serves(&mut client).await;
}

#[tokio::test]
async fn huge_texts_are_read_and_not_repeated() {
    let hooks = serving().await;
    let mut client = hooks.client().await;
    let huge = "\u{1F6A2}".repeat(500_000);
    let mut pod = hooks::plain_pod(&huge);
    pod["metadata"]["annotations"] = json!({"linkerd.io/inject": huge, "other": "x\ny"});
    let review = hooks::review("u", "orders", pod).to_string();
    let found = verdict(&mut client, Hook::Gate, "u", review).await;
    assert_eq!((found.code, &*found.reason), (403, "invalid_value"));
    assert!(
        found.message.chars().count() < 1_000,
        "{}",
        found.message.len()
    );

    // A uid is repeated in the answer, so that one without end is no uid.
    let review = hooks::review(&huge, "orders", hooks::plain_pod("shop-")).to_string();
    let answer = hooks::send(&mut client, Hook::Gate, review).await;
    assert_bad_call(&answer, StatusCode::BAD_REQUEST, "uid");

    let review = hooks::review("u", &huge, hooks::plain_pod("shop-")).to_string();
    let found = verdict(&mut client, Hook::Gate, "u", review).await;
    assert_eq!(found.reason, "namespace_unknown");
    assert!(found.message.chars().count() < 1_000);
}

#[tokio::test]
async fn escapes_in_keys_and_values_mean_what_they_stand_for() {
    let hooks = serving().await;
    let mut client = hooks.client().await;
    let body = with_object(
        r#"{"\u006detadata":{"\u0061nnotations":{"linkerd.io\/inject":"\u0064isabled"}}}"#,
    );
    let found = verdict(&mut client, Hook::Gate, "u", body).await;
    assert_eq!(found.reason, "pod_opt_out");
    // The uid comes back as it was meant, whatever it holds.
    let uid = "a\"b\\c\u{0}\u{2028}\u{1F6A2}\n";
    let review = hooks::review(uid, "reporting", hooks::plain_pod("shop-")).to_string();
    let found = verdict(&mut client, Hook::Check, uid, review).await;
    assert_eq!(found.reason, "not_required");
    // Half of a surrogate pair is no text.
    for object in [
        r#"{"metadata":{"name":"\ud83d"}}"#,
        r#"{"metadata":{"labels":{"\udc00":""}}}"#,
    ] {
        let answer = hooks::send(&mut client, Hook::Gate, with_object(object)).await;
        assert_proper(Hook::Gate, &answer);
    }
    assert_serves(&mut client).await;
}

#[tokio::test]
async fn a_key_that_is_there_twice_never_opens_the_gate() {
    let hooks = serving().await;
    let mut client = hooks.client().await;
    let opt_out = r#"{"linkerd.io/inject":"disabled"}"#;
    // The API server takes the last of two equal keys; no pod may be let in for the first.
    let pods = [
        format!(r#"{{"metadata":{{"annotations":{opt_out}}},"metadata":{{}},"spec":{{}}}}"#),
        format!(r#"{{"metadata":{{"annotations":{opt_out},"annotations":{{}}}},"spec":{{}}}}"#),
        r#"{"metadata":{},"spec":{"hostNetwork":true,"hostNetwork":false}}"#.to_owned(),
        r#"{"metadata":{},"spec":{"hostNetwork":true},"spec":{}}"#.to_owned(),
        r#"{"metadata":{"annotations":{"linkerd.io/inject":"disabled","linkerd.io/inject":"enabled"}}}"#
            .to_owned(),
    ];
    for pod in pods {
        let answer = hooks::send(&mut client, Hook::Check, with_object(&pod)).await;
        if assert_proper(Hook::Check, &answer) == StatusCode::OK {
            let review: Value = serde_json::from_slice(&answer.body).unwrap();
            assert_eq!(review["response"]["allowed"], false, "{pod}");
        }
    }
    let request = with_object("{}");
    let twice = [
        request.replacen("\"uid\":", "\"uid\":\"first\",\"uid\":", 1),
        request.replacen(
            "\"operation\":",
            "\"operation\":\"DELETE\",\"operation\":",
            1,
        ),
        request.replacen(
            "\"namespace\":",
            "\"namespace\":\"kube-system\",\"namespace\":",
            1,
        ),
        request.replacen("\"request\":", "\"request\":{},\"request\":", 1),
    ];
    for body in twice {
        assert_ne!(body, request);
        let answer = hooks::send(&mut client, Hook::Check, body.clone()).await;
        if assert_proper(Hook::Check, &answer) == StatusCode::OK {
            let review: Value = serde_json::from_slice(&answer.body).unwrap();
            assert_eq!(review["response"]["allowed"], false, "{body}");
            assert_eq!(review["response"]["uid"], "u");
        }
    }
    assert_serves(&mut client).await;
}

#[tokio::test]
async fn null_means_missing_wherever_it_stands() {
    let hooks = serving().await;
    let mut client = hooks.client().await;
    let required = [
        json!({"metadata": {}, "spec": null}),
        json!({"metadata": {"labels": null, "annotations": null, "name": null,
                            "generateName": null, "ownerReferences": null}}),
        json!({"metadata": {}, "spec": {"containers": null, "initContainers": null, "os": null,
                        "nodeSelector": null, "hostNetwork": null, "affinity": null}}),
        json!({"metadata": {}, "spec": {"containers": [{"name": null, "image": null, "restartPolicy": null}]}}),
        json!({"metadata": {"ownerReferences": [{"kind": null, "name": null, "controller": null}]}}),
    ];
    for pod in required {
        let review = hooks::review("u", "orders", pod.clone()).to_string();
        let found = verdict(&mut client, Hook::Gate, "u", review).await;
        assert_eq!(found.decision, "mark", "{pod}");
        let mut wrong = Vec::new();
        assert_eq!(
            found.patched(&pod, &mut wrong),
            with_mark(&pod, Some("linkerd"))
        );
        assert_eq!(wrong, [""; 0]);
    }
}

#[tokio::test]
async fn what_is_no_pod_is_refused_with_code_400() {
    let hooks = serving().await;
    let mut client = hooks.client().await;
    let objects = [
        json!(null),
        json!(7),
        json!("pod"),
        json!([]),
        json!([{"annotations": {}}, {"hostNetwork": true}]),
        json!({}),
        // No patch would apply to it.
        json!({"metadata": null}),
        json!({"metadata": [], "spec": {}}),
        json!({"metadata": {}, "spec": [true]}),
        json!({"metadata": {}, "spec": {"os": ["windows"]}}),
        json!({"metadata": {}, "spec": {"containers": [["linkerd-proxy"]]}}),
        json!({"metadata": {}, "spec": {"hostNetwork": "true"}}),
        json!({"metadata": {"annotations": {"linkerd.io/inject": true}}}),
        json!({"metadata": {"labels": {"other": {}}}}),
    ];
    for object in objects {
        for hook in HOOKS {
            let review = hooks::review("u", "orders", object.clone()).to_string();
            let found = verdict(&mut client, hook, "u", review).await;
            assert_eq!(
                (found.code, &*found.reason),
                (400, "unreadable_object"),
                "{object}"
            );
            let review = hooks::review("u", "kube-system", object.clone()).to_string();
            let found = verdict(&mut client, hook, "u", review).await;
            assert_eq!(
                (found.allowed, &*found.reason),
                (true, "excluded_namespace")
            );
        }
    }
}

/// Any JSON, with the keys that are read more often than others.
/// Eight megabytes of entries that hold nothing would take two hundred as a list of containers.
#[tokio::test]
async fn lists_without_end_are_no_pod() {
    let hooks = serving().await;
    let mut client = hooks.client().await;
    for object in [
        format!(
            r#"{{"metadata":{{}},"spec":{{"containers":[{{}}{}]}}}}"#,
            ",{}".repeat(100_000)
        ),
        format!(
            r#"{{"metadata":{{"labels":{{"a":""{}}}}}}}"#,
            r#","a":"""#.repeat(100_000)
        ),
    ] {
        let verdict = verdict(&mut client, Hook::Gate, "u", with_object(&object)).await;
        assert_eq!(verdict.decision, "unreadable");
    }
}

fn anything() -> impl Strategy<Value = Value> {
    let key = prop_oneof![
        prop::sample::select(vec![
            "metadata",
            "spec",
            "annotations",
            "labels",
            "containers",
            "initContainers",
            "name",
            "image",
            "restartPolicy",
            "hostNetwork",
            "os",
            "nodeSelector",
            "ownerReferences",
            "linkerd.io/inject",
            "meshgate.io/admitted",
            "generateName",
            "kind",
            "controller",
        ])
        .prop_map(str::to_owned),
        any::<String>(),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        prop::sample::select(vec!["enabled", "disabled", "linkerd", "windows", "Always"])
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 48, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(key.clone(), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// How a body is spoiled: bytes replaced, then cut.
fn spoilt() -> impl Strategy<Value = (Vec<(usize, u8)>, Option<usize>)> {
    let edits = prop::collection::vec((any::<usize>(), any::<u8>()), 0..4);
    (edits, prop::option::weighted(0.2, any::<usize>()))
}

async fn survives(client: &mut Client, hook: Hook, body: Vec<u8>) {
    let answer = hooks::send(client, hook, Bytes::from(body)).await;
    assert_proper(hook, &answer);
}

#[test]
fn random_and_mutated_bodies_get_an_answer_or_a_bad_call() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let (hooks, client): (Hooks, _) = runtime.block_on(async {
        let hooks = serving().await;
        let client = hooks.client().await;
        (hooks, tokio::sync::Mutex::new(client))
    });
    let config = Config {
        cases: 600,
        failure_persistence: None,
        ..Config::default()
    };
    let strategy = (anything(), anything(), spoilt());
    let run = TestRunner::new(config).run(&strategy, |(object, other, (edits, cut))| {
        runtime.block_on(async {
            let client = &mut *client.lock().await;
            let review = hooks::review("u", "orders", object);
            let mut request = review.clone();
            request["request"]["userInfo"] = other.clone();
            let mut body = review.to_string().into_bytes();
            for (at, byte) in edits {
                let at = at % body.len();
                body[at] = byte;
            }
            body.truncate(cut.map_or(body.len(), |cut| cut % body.len()));
            for hook in ALL_HOOKS {
                survives(client, hook, body.clone()).await;
                survives(client, hook, request.to_string().into_bytes()).await;
                survives(client, hook, other.to_string().into_bytes()).await;
            }
        });
        Ok(())
    });
    run.unwrap();
    runtime.block_on(async { assert_serves(&mut *client.lock().await).await });
    drop(hooks);
}
