//! `meshgate serve --standalone`: the built binary on a copy of the example cluster.

mod folder;
mod program;
mod readme;

use std::time::Duration;

use meshgate::metrics::Hook;
use serde_json::Value;

use self::program::{ExampleDir, Program};
use crate::hooks::answer::{Verdict, mark_of};

/// One of the reviews in `examples/reviews`.
fn review(example: &ExampleDir, name: &str) -> Value {
    serde_json::from_str(&example.read(&format!("reviews/{name}-pod.json"))).unwrap()
}

/// The mark of a pod after the gate's patch.
fn mark(review: &Value, verdict: &Verdict) -> Option<String> {
    let mut wrong = Vec::new();
    let pod = verdict.patched(&review["request"]["object"], &mut wrong);
    assert_eq!(wrong, [""; 0]);
    mark_of(&pod).map(str::to_owned)
}

async fn ready(program: &Program) {
    crate::support::eventually("ready", async || {
        program
            .probe("/readyz")
            .is_some_and(|(code, _)| code == 200)
    })
    .await;
}

#[tokio::test]
async fn the_start_up_lines_say_what_was_read_and_what_to_try() {
    let example = ExampleDir::new();
    let program = example.start(&[]).await;
    let banner = program.banner();
    let ca = example.path("certs/ca.crt").display().to_string();
    let review = example
        .path("reviews/orders-pod.json")
        .display()
        .to_string();
    for text in [
        "7 files: 8 Namespaces, 5 Services, 4 EndpointSlices, 3 Nodes",
        "4 MutatingWebhookConfigurations",
        "1 of the Nodes lost",
        "linkerd, istio, vault (by meshgate.yaml)",
        "storage",
        "0 of 2 endpoints of Service linkerd/linkerd-proxy-injector are usable \
         (1 not ready, 1 on lost node pool-a-2)",
        "1 of 1 endpoints of Service istio-system/istiod-1-30",
        "1 of 1 endpoints of Service vault/vault-agent-injector-svc",
        "made just now",
        &format!("curl --cacert {ca} "),
        &format!("--data @{review} https://127.0.0.1:"),
    ] {
        assert!(banner.contains(text), "{text} in {banner}");
    }
    for (injector, state) in [("linkerd", "not usable"), ("istio stable", "usable")] {
        let line = banner
            .lines()
            .find(|line| line.trim_start().starts_with(injector));
        let words = line.unwrap_or_else(|| panic!("{injector} in {banner}"));
        assert!(words.contains(&format!(" {state} ")), "{words}");
    }
    ready(&program).await;
    let (code, text) = program.probe("/metrics").unwrap();
    assert_eq!(code, 200);
    assert!(
        text.contains("meshgate_injector_ready{injector=\"linkerd\"} 0"),
        "{text}"
    );
    assert!(
        text.contains("meshgate_injector_ready{injector=\"istio\"} 1"),
        "{text}"
    );
}

#[tokio::test]
async fn the_reviews_of_the_examples_are_answered_as_the_examples_say() {
    let example = ExampleDir::new();
    let program = example.start(&[]).await;
    let orders = review(&example, "orders");
    let refused = program.ask(Hook::Gate, &orders).await;
    assert_eq!(
        (refused.code, &*refused.reason),
        (503, "injector_not_ready")
    );
    for text in [
        "orders",
        "linkerd.io/inject=enabled",
        "0 of 2 endpoints of Service linkerd/linkerd-proxy-injector",
        "1 not ready",
        "1 on lost node pool-a-2",
        "kubectl -n linkerd get pods",
    ] {
        assert!(refused.message.contains(text), "{}", refused.message);
    }
    for (name, expected) in [
        ("payments", Some("istio")),
        ("shipping", Some("vault")),
        ("reporting", None),
    ] {
        let review = review(&example, name);
        let verdict = program.ask(Hook::Gate, &review).await;
        assert!(verdict.allowed, "{name}: {}", verdict.message);
        assert_eq!(mark(&review, &verdict).as_deref(), expected, "{name}");
        // The pod is bare, whatever the gate says.
        let checked = program.ask(Hook::Check, &review).await;
        let expected = if expected.is_some() { 403 } else { 0 };
        assert_eq!(checked.code, expected, "{name}");
    }
}

#[tokio::test]
async fn a_refusal_is_one_log_line_that_names_the_pod_and_its_owner() {
    let example = ExampleDir::new();
    let program = example.start(&[]).await;
    let sample = "tests/samples/01-deployment-pod-with-annotations.json";
    let sample = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(sample);
    let review: Value = serde_json::from_slice(&std::fs::read(sample).unwrap()).unwrap();
    for _ in 0..5 {
        let verdict = program.ask(Hook::Gate, &review).await;
        assert_eq!(verdict.code, 503);
    }
    let line = program.logged(&["pod refused"]).await;
    let line: Value = serde_json::from_str(&line).unwrap();
    let uid = &review["request"]["uid"];
    for (field, value) in [
        ("level", "WARN"),
        ("pod", "checkout-api-6c9f7b8d54-"),
        ("owner_kind", "ReplicaSet"),
        ("owner", "checkout-api-6c9f7b8d54"),
        ("namespace", "orders"),
        ("injector", "linkerd"),
        ("reason", "injector_not_ready"),
        ("hook", "gate"),
    ] {
        assert_eq!(line[field], value, "{line}");
    }
    assert_eq!(&line["uid"], uid);
    let lines = program
        .log()
        .lines()
        .filter(|line| line.contains("pod refused"))
        .count();
    assert_eq!(lines, 1, "one per owner and minute");
    let (_, metrics) = program.probe("/metrics").unwrap();
    let counted = "reason=\"injector_not_ready\",injector=\"linkerd\",dry_run=\"false\"} 5";
    assert!(metrics.contains(counted), "{metrics}");
}

#[tokio::test]
async fn either_signal_ends_it_in_order_with_exit_code_0() {
    for name in ["TERM", "INT"] {
        let example = ExampleDir::new();
        let mut program = example.start(&["--shutdown-delay", "1500ms"]).await;
        ready(&program).await;
        program.signal(name);
        crate::support::eventually("not ready", async || {
            program
                .probe("/readyz")
                .is_some_and(|(code, _)| code == 500)
        })
        .await;
        // Not ready, alive, and still answering until every kube-proxy has heard of it.
        assert_eq!(program.probe("/livez").map(|(code, _)| code), Some(200));
        assert_eq!(program.gate("reporting").await.0, "admit");
        assert_eq!(program.ended().await, Some(0), "{}", program.log());
        assert!(program.probe("/livez").is_none());
    }
}

#[tokio::test]
async fn a_second_signal_does_not_wait() {
    let example = ExampleDir::new();
    let mut program = example.start(&["--shutdown-delay", "10m"]).await;
    ready(&program).await;
    program.signal("TERM");
    program.logged(&["stopping"]).await;
    program.signal("TERM");
    program.ended().await;
}

#[tokio::test]
async fn the_throw_away_certificate_is_kept_for_the_next_start() {
    let example = ExampleDir::new();
    let mut program = example.start(&[]).await;
    let first = example.read("certs/ca.crt");
    program.signal("TERM");
    assert_eq!(program.ended().await, Some(0));
    let again = example.start(&[]).await;
    assert_eq!(example.read("certs/ca.crt"), first);
    assert!(again.banner().contains("found there"), "{}", again.banner());
    assert_eq!(again.gate("reporting").await.0, "admit");
}

#[tokio::test]
#[expect(clippy::print_stdout, reason = "the time is worth a look")]
async fn an_edit_counts_within_a_second() {
    let example = ExampleDir::new();
    let program = example.start(&[]).await;
    let state = "conditions: {ready: false, serving: false, terminating: false}";
    let up = "conditions: {ready: true, serving: true, terminating: false}";
    example.edit("cluster/linkerd.yaml", state, up);
    let took = program.comes_to("orders", "mark", "injector_ready").await;
    println!("an edit counted after {took:?}");
    assert!(took < Duration::from_secs(3), "{took:?}");
    program
        .logged(&["linkerd is usable: 1 of 2 endpoints"])
        .await;
    let orders = review(&example, "orders");
    let verdict = program.ask(Hook::Gate, &orders).await;
    assert_eq!(mark(&orders, &verdict).as_deref(), Some("linkerd"));
}
