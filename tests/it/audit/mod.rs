//! `meshgate audit -f`: dumps of a cluster in, rows out.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::cli::{file, run, run_with_input};

fn dump(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/audit/dumps");
    folder.join(name)
}

fn text(name: &str) -> String {
    std::fs::read_to_string(dump(name)).unwrap()
}

/// Of the dumps, with more arguments.
fn audit(more: &[&str]) -> (Option<i32>, String, String) {
    let (cluster, pods) = (dump("cluster.yaml"), dump("pods.json"));
    let [cluster, pods] = [&cluster, &pods].map(|path| path.to_str().unwrap());
    run(&[&["audit", "-f", cluster, "-f", pods], more].concat())
}

fn of_input(input: &str, more: &[&str]) -> (Option<i32>, Value, String) {
    let arguments = [&["audit", "-f", "-", "-o", "json"], more].concat();
    let (code, out, err) = run_with_input(&arguments, input);
    let answer = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}\n{out}\n{err}"));
    (code, answer, err)
}

/// `NAMESPACE/NAME OWNER INJECTOR STATE REASON` of each row.
fn rows(answer: &Value) -> Vec<String> {
    let row = |row: &Value| {
        let word = |key: &str| row[key].as_str().unwrap().to_owned();
        let [kind, name] = ["kind", "name"].map(|key| row["owner"][key].as_str());
        let owner = kind.zip(name).map(|(kind, name)| format!("{kind}/{name}"));
        let owner = owner.unwrap_or_else(|| "-".to_owned());
        let words = ["injector", "state", "reason"].map(word).join(" ");
        format!("{}/{} {owner} {words}", word("namespace"), word("name"))
    };
    answer["pods"].as_array().unwrap().iter().map(row).collect()
}

#[test]
fn a_cluster_is_judged_pod_by_pod() {
    let (code, out, err) = audit(&["-o", "json"]);
    assert_eq!((code, err.as_str()), (Some(1), ""));
    let answer: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        rows(&answer),
        [
            "orders/checkout-6c9f-aaaaa Deployment/checkout linkerd injected sidecarPresent",
            "orders/checkout-6c9f-bbbbb Deployment/checkout linkerd bare olderThanRequirement",
            // Its Rollout is not in the dump.
            "orders/orphan-77-ccccc ReplicaSet/orphan-77 linkerd bare notArmed",
            "orders/report-2901-ddddd CronJob/report linkerd bare markedButBare",
            "orders/by-hand - linkerd optedOut podOptOut",
            "orders/static-node-1 Node/node-1 linkerd exempt mirrorPod",
            // Its StatefulSet is not in the dump: the ownerReference says it.
            "payments/ledger-0 StatefulSet/ledger istio stale otherRevision",
            "payments/gateway - istio bare placeholderImage",
            "gone/lost - linkerd unknown namespaceUnknown",
            "gone/lost - istio unknown namespaceUnknown",
        ]
    );
    assert_eq!(
        answer,
        serde_json::from_str::<Value>(&text("expected.json")).unwrap()
    );
    let (_, yaml, _) = audit(&["-o", "yaml"]);
    assert_eq!(answer, serde_saphyr::from_str::<Value>(&yaml).unwrap());
}

#[test]
fn a_table_has_the_worst_owners_first() {
    let more: String = (0..3).fold(String::new(), |mut all, number| {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": format!("worst-{number}"), "namespace": "orders", "creationTimestamp": "2026-04-01T08:00:00Z",
                "ownerReferences": [{"kind": "DaemonSet", "name": "worst", "controller": true}],
            },
            "spec": {"containers": [{"name": "app"}]},
        });
        writeln!(all, "---\n{pod}").unwrap();
        all
    });
    let (_folder, more) = file("more.yaml", &more);
    let (code, out, _) = audit(&["-f", more.to_str().unwrap()]);
    assert_eq!(code, Some(1));
    assert!(
        !out.contains('\u{1b}'),
        "colour although the output is no terminal:\n{out}"
    );
    let words: Vec<String> = out
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(
        words,
        [
            "STATE PODS NAMESPACE OWNER INJECTOR REASON WHAT TO DO",
            "bare 3 orders DaemonSet worst linkerd unknown kubectl -n orders rollout restart daemonset worst",
            "bare 1 orders CronJob report linkerd markedButBare delete its pods",
            "bare 1 orders Deployment checkout linkerd olderThanRequirement kubectl -n orders rollout restart \
             deployment checkout",
            "bare 1 orders ReplicaSet orphan-77 linkerd notArmed delete its pods",
            "bare 1 payments Pod gateway istio placeholderImage create the pod again",
            "stale 1 payments StatefulSet ledger istio otherRevision kubectl -n payments rollout restart \
             statefulset ledger",
            "unknown 1 gone istio namespaceUnknown give the Namespace among the files, or grant the right to read it",
            "unknown 1 gone linkerd namespaceUnknown give the Namespace among the files, or grant the right to read it",
            "",
            "INJECTOR INJECTED STALE BARE OPTED OUT EXEMPT UNKNOWN",
            "linkerd 1 0 6 1 1 1",
            "istio 0 1 1 0 0 1",
        ]
    );
    // Columns stand below their headings.
    let at = |line: &str, word: &str| line.find(word).unwrap();
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(at(lines[0], "NAMESPACE"), at(lines[1], "orders"));
}

#[test]
fn rows_can_be_chosen() {
    let chosen = |more: &[&str]| {
        let (code, out, _) = audit(&[&["-o", "json"], more].concat());
        (code, serde_json::from_str::<Value>(&out).unwrap())
    };
    let (code, payments) = chosen(&["-n", "payments"]);
    assert_eq!((code, rows(&payments).len()), (Some(1), 2));
    let (code, none) = chosen(&["-n", "plain"]);
    assert_eq!((code, rows(&none).len()), (Some(0), 0));
    let (code, unknown) = chosen(&["-n", "gone", "--injector", "istio"]);
    assert_eq!((code, rows(&unknown).len()), (Some(2), 1));
    assert_eq!(unknown["summary"].as_array().unwrap().len(), 1);
    let (code, summary) = chosen(&["--summary", "-A", "--injector=linkerd,istio"]);
    assert_eq!((code, summary.get("pods")), (Some(1), None));
    let linkerd = json!({"injector": "linkerd", "injected": 1, "stale": 0, "bare": 3, "optedOut": 1, "exempt": 1, "unknown": 1});
    assert_eq!(summary["summary"][0], linkerd);
    let (code, _, err) = audit(&["--injector", "vault"]);
    assert_eq!(code, Some(2));
    assert!(
        err.contains("found --injector vault, expected one of linkerd, istio"),
        "{err}"
    );
}

/// What `kubectl get -o yaml` and `-o json` write, one after the other or together.
#[test]
fn dumps_have_many_forms() {
    let list: Value = serde_saphyr::from_str(&text("cluster.yaml")).unwrap();
    let pods: Value = serde_json::from_str(&text("pods.json")).unwrap();
    let expected: Value = serde_json::from_str(&text("expected.json")).unwrap();
    let typed = {
        let mut typed = pods.clone();
        typed["kind"] = json!("PodList");
        for pod in typed["items"].as_array_mut().unwrap() {
            pod.as_object_mut()
                .unwrap()
                .retain(|key, _| key != "kind" && key != "apiVersion");
        }
        typed
    };
    let single = |list: &Value| -> String {
        let items = list["items"].as_array().unwrap().iter();
        items
            .map(|item| format!("---\n{}", serde_saphyr::to_string(item).unwrap()))
            .collect()
    };
    for (form, input) in [
        ("JSON twice", format!("{list}\n{pods}\n")),
        ("the same pods twice", format!("{list}\n{pods}\n{pods}\n")),
        ("a typed list", format!("{list}{typed}")),
        ("YAML documents", single(&list) + &single(&pods)),
        (
            "a flow mapping among YAML",
            format!("---\n{pods}\n---\n{list}\n"),
        ),
    ] {
        let (code, answer, err) = of_input(&input, &[]);
        assert_eq!((code, err.as_str()), (Some(1), ""), "{form}");
        assert_eq!(answer, expected, "{form}");
    }
}

/// Far more than a Configuration or a folder of manifests may hold.
#[test]
fn a_dump_may_be_large() {
    let mut dump = "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Namespace\n  metadata: {name: orders, \
                    annotations: {linkerd.io/inject: enabled}}\n"
        .to_owned();
    let arguments = vec!["a"; 500].join(", ");
    for number in 0..600 {
        writeln!(
            dump,
            "- {{apiVersion: v1, kind: Pod, metadata: {{name: p-{number}, namespace: orders}}, spec: \
             {{containers: [{{name: a, args: [{arguments}]}}]}}}}"
        )
        .unwrap();
    }
    let (code, answer, _) = of_input(&dump, &["--summary"]);
    assert_eq!(
        (code, &answer["summary"][0]["bare"]),
        (Some(1), &json!(600))
    );
}

fn orders(pod: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Namespace\nmetadata: {{name: orders, annotations: {{linkerd.io/inject: enabled}}}}\n---\n\
         apiVersion: v1\nkind: Pod\nmetadata: {{name: a, namespace: orders}}\nspec: {{containers: [{pod}]}}\n"
    )
}

#[test]
fn without_webhook_configurations_all_presets_count() {
    let (code, answer, err) = of_input(&orders("{name: a}"), &[]);
    assert_eq!(code, Some(1));
    assert_eq!(rows(&answer), ["orders/a - linkerd bare unknown"]);
    assert_eq!(answer["summary"].as_array().unwrap().len(), 7);
    assert!(err.contains("all presets count"), "{err}");
    let (_folder, config) = file(
        "config.yaml",
        "apiVersion: meshgate.io/v1alpha1\nkind: Configuration\ninjectors: [{preset: vault}]\n",
    );
    let (code, answer, err) = of_input(
        &orders("{name: a}"),
        &["--config", config.to_str().unwrap()],
    );
    assert_eq!((code, err.as_str(), rows(&answer).len()), (Some(0), "", 0));
}

#[test]
fn a_sidecar_can_be_too_old() {
    let (_folder, config) = file(
        "config.yaml",
        "apiVersion: meshgate.io/v1alpha1\nkind: Configuration\ninjectors: [{preset: linkerd, staleness: 2}]\n",
    );
    let injector = |image: &str, label: &str| {
        format!(
            "---\napiVersion: v1\nkind: Service\nmetadata: {{name: linkerd-proxy-injector, namespace: linkerd}}\n\
             spec: {{selector: {{component: injector}}}}\n---\n\
             apiVersion: v1\nkind: Pod\nmetadata: {{name: i, namespace: linkerd, labels: {{component: {label}}}}}\n\
             spec: {{containers: [{{name: linkerd-proxy, image: 'p:edge-99.1.1'}}, {{name: i, image: '{image}'}}]}}\n"
        )
    };
    let init = "], initContainers: [{name: linkerd-init}";
    let meshed = orders(&format!(
        "{{name: linkerd-proxy, image: 'proxy:edge-24.5.1'}}{init}"
    ));
    for (image, label, state) in [
        ("controller:edge-24.7.1", "injector", "stale"),
        ("controller:edge-24.6.9", "injector", "injected"),
        ("controller:edge-24.7.1", "other", "injected"),
        ("controller:latest", "injector", "injected"),
    ] {
        let input = meshed.clone() + &injector(image, label);
        let (_, answer, _) = of_input(&input, &["--config", config.to_str().unwrap()]);
        assert_eq!(answer["pods"][0]["state"], state, "{image} {label}");
    }
}

#[test]
fn what_cannot_be_read_is_said_and_the_rest_is_judged() {
    let bare = orders("{name: a}");
    let fine = orders("{name: linkerd-proxy, image: p}], initContainers: [{name: linkerd-init}");
    let (_folder, broken) = file(
        "broken.yaml",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: [}\n",
    );
    let broken = broken.to_str().unwrap();
    for (input, more, code, said) in [
        (fine.as_str(), vec![], 0, ""),
        (&fine, vec!["-f", broken], 2, "broken.yaml:3:"),
        (&bare, vec!["-f", broken], 1, "broken.yaml:3:"),
        (
            &fine,
            vec!["-f", "no-such-file.yaml"],
            2,
            "cannot read no-such-file.yaml",
        ),
        ("", vec![], 2, "found nothing in standard input"),
        ("{\"apiVersion\": \"v1\"", vec![], 2, "standard input:1:"),
        ("{\"metadata\": {}}", vec![], 2, "without kind"),
        (
            "apiVersion: meshgate.io/v1alpha1\nkind: Configuration\ninjectors: [{preset: linkerd}]\n",
            vec![],
            2,
            "found a Configuration, expected it by --config",
        ),
        (
            &(fine.clone()
                + "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: b, labels: 5}\n"),
            vec![],
            2,
            "cannot read a Namespace",
        ),
        // No List, for all its name: a kind of a user's own.
        (
            "apiVersion: a.test/v1\nkind: AllowList\nmetadata: {name: a}\n",
            vec![],
            0,
            "",
        ),
        // Other groups have these kinds too.
        (
            "apiVersion: a.test/v1\nkind: Pod\nmetadata: {name: a}\nspec: 5\n",
            vec![],
            0,
            "",
        ),
    ] {
        let (found, _, err) = of_input(input, &more);
        assert_eq!(found, Some(code), "{input} {more:?}\n{err}");
        assert!(err.contains(said), "{said:?} is not in\n{err}");
    }
}
