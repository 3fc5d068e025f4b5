//! The commands, as an administrator runs them: the real program on real files, its output and exit code.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn meshgate(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_meshgate"));
    command
        .current_dir(root())
        .args(arguments)
        .env_remove("MESHGATE_NAMESPACE");
    command
}

/// Exit code, standard output, standard error.
fn outcome(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

pub(crate) fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    outcome(&meshgate(arguments).output().unwrap())
}

pub(crate) fn run_with_input(arguments: &[&str], input: &str) -> (Option<i32>, String, String) {
    let mut command = meshgate(arguments);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    outcome(&child.wait_with_output().unwrap())
}

fn explain_json(input: &str, more: &[&str]) -> (Option<i32>, Value) {
    let (code, out, err) = run_with_input(
        &[&["explain", "-f", "-", "-o", "json"], more].concat(),
        input,
    );
    (
        code,
        serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}\n{out}\n{err}")),
    )
}

/// A file in a folder that goes away with it.
pub(crate) fn file(name: &str, text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    (folder, path)
}

const STATE: [&str; 2] = ["--state", "examples/cluster"];

#[test]
fn a_deployment_in_a_namespace_of_linkerd() {
    let file = "examples/pods/deployment-linkerd.yaml";
    let (code, out, _) = run(&[&["explain", "-f", file], &STATE[..]].concat());
    assert_eq!(code, Some(1));
    for text in [
        "Pods of Deployment checkout in namespace orders (examples/pods/deployment-linkerd.yaml:",
        "requires  linkerd: annotation linkerd.io/inject=enabled on the namespace (rule 11 of",
        "not usable: 0 of 2 endpoints of Service linkerd/linkerd-proxy-injector are usable",
        "linkerd/linkerd-proxy-injector-6d5c9b8f7c-8s5mk: not ready",
        "linkerd/linkerd-proxy-injector-6d5c9b8f7c-j2w9f: on lost node pool-a-2",
        "slice linkerd-proxy-injector-5wq2m",
        "would refuse it for now (injector_not_ready): Namespace orders requires linkerd",
        "needs container linkerd-proxy and init container linkerd-init",
        "which the injector adds",
    ] {
        assert!(out.contains(text), "lacks {text:?}:\n{out}");
    }
    assert!(
        !out.contains('\u{1b}'),
        "colour although the output is no terminal:\n{out}"
    );
    assert!(
        out.lines().all(|line| line == line.trim_end()),
        "blanks at ends of lines:\n{out}"
    );
}

#[test]
fn a_deployment_in_a_namespace_of_an_istio_revision_tag() {
    let file = "examples/pods/deployment-istio-revision.yaml";
    let (code, out, _) = run(&[&["explain", "-f", file], &STATE[..]].concat());
    assert_eq!(code, Some(0), "{out}");
    for text in [
        "requires  istio stable",
        "label istio.io/rev=stable",
        "usable: 1 of 1 endpoints of Service istio-system/istiod-1-30 are usable",
        "would admit it and mark it istio (injector_ready)",
        "needs container istio-proxy and init container istio-init",
    ] {
        assert!(out.contains(text), "lacks {text:?}:\n{out}");
    }
}

#[test]
fn the_answer_for_programs_has_stable_keys() {
    let deployment = std::fs::read_to_string(root().join("examples/pods/deployment-linkerd.yaml"));
    let (code, found) = explain_json(&deployment.unwrap(), &STATE);
    assert_eq!(code, Some(1));
    let pod = &found["pods"][0];
    assert_eq!(pod["kind"], "Deployment");
    assert_eq!(pod["namespace"], "orders");
    assert_eq!(pod["template"], true);
    assert_eq!(pod["gate"]["decision"], "defer");
    assert_eq!(pod["gate"]["reason"], "injector_not_ready");
    let injector = &pod["injectors"][0];
    assert_eq!(
        (&injector["name"], &injector["requirement"]),
        (&json!("linkerd"), &json!("required"))
    );
    assert_eq!(
        injector["because"],
        "annotation linkerd.io/inject=enabled on the namespace"
    );
    let readiness = &injector["readiness"];
    assert_eq!(readiness["state"], "notUsable");
    let states: Vec<_> = readiness["endpoints"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| &e["usable"])
        .collect();
    assert_eq!(states, [false, false]);
    assert_eq!(readiness["slices"][0]["endpoints"], 2);
    let keys: Vec<_> = pod
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    let stable = [
        "gate",
        "injectors",
        "kind",
        "name",
        "namespace",
        "origin",
        "template",
        "warnings",
    ];
    assert_eq!(keys, stable);
}

/// As `serve --standalone` of the same folder answers.
#[test]
fn suspended_enforcement_is_waived() {
    let state = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(root().join("examples/cluster")).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, state.path().join(path.file_name().unwrap())).unwrap();
    }
    let pods = std::fs::read_to_string(root().join("examples/pods/deployment-linkerd.yaml"));
    let pods = pods.unwrap();
    let explained = |note: &str| {
        let suspended = format!(
            "apiVersion: admissionregistration.k8s.io/v1\nkind: MutatingWebhookConfiguration\n\
             metadata:\n  name: admission.meshgate.io\n  annotations:\n    meshgate.io/break-glass: '{note}'\n"
        );
        std::fs::write(state.path().join("suspended.yaml"), suspended).unwrap();
        let (code, found) = explain_json(&pods, &["--state", state.path().to_str().unwrap()]);
        let pod = &found["pods"][0];
        let decision = pod["gate"]["decision"].as_str().unwrap().to_owned();
        (code, decision, pod["warnings"].to_string())
    };
    let soon = crate::support::in_hours(23);
    let note = format!("jane: INC-1; until={soon}");
    let (code, decision, warnings) = explained(&note);
    assert_eq!((code, decision.as_str()), (Some(0), "warn"), "{warnings}");
    let expected = format!("enforcement is suspended ({note})");
    assert!(warnings.contains(&expected), "{warnings}");
    for other in [
        "jane: INC-1",
        "jane: INC-1; until=2020-01-01T00:00:00Z",
        "jane: INC-1; until=2999-01-01T00:00:00Z",
        &format!("{note}; injector=vault"),
    ] {
        let (code, decision, warnings) = explained(other);
        assert_eq!((code, decision.as_str()), (Some(1), "defer"), "{other}");
        assert_eq!(warnings, "[]", "{other}");
    }
}

#[test]
fn yaml_says_the_same_as_json() {
    let file = "examples/pods/cronjob-vault.yaml";
    let of = |form| run(&[&["explain", "-f", file, "-o", form], &STATE[..]].concat()).1;
    let yaml: Value = serde_saphyr::from_str(&of("yaml")).unwrap();
    assert_eq!(yaml, serde_json::from_str::<Value>(&of("json")).unwrap());
}

/// A review, a List, templates wherever they stand, several documents: each pod once.
#[test]
fn pods_are_found_wherever_they_are() {
    let template = "{metadata: {labels: {app: a}}, spec: {containers: [{name: a, image: b}]}}";
    let input = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: one, namespace: reporting}}\n\
         spec: {{containers: [{{name: a, image: b}}]}}\n---\n\
         apiVersion: batch/v1\nkind: CronJob\nmetadata: {{name: two, namespace: reporting}}\n\
         spec: {{jobTemplate: {{spec: {{template: {template}}}}}}}\n---\n\
         apiVersion: v1\nkind: PodTemplate\nmetadata: {{name: three, namespace: reporting}}\n\
         template: {template}\n---\n\
         apiVersion: argoproj.io/v1alpha1\nkind: Rollout\nmetadata: {{name: four, namespace: reporting}}\n\
         spec: {{template: {template}}}\n---\n\
         apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: none}}\n---\n\
         apiVersion: v1\nkind: List\nitems:\n\
         - {{apiVersion: apps/v1, kind: StatefulSet, metadata: {{name: five, namespace: reporting}}, \
         spec: {{template: {template}}}}}\n"
    );
    let (code, found) = explain_json(&input, &STATE);
    assert_eq!(code, Some(0), "{found}");
    let pods = found["pods"].as_array().unwrap();
    let names: Vec<_> = pods
        .iter()
        .map(|pod| (&pod["name"], &pod["template"]))
        .collect();
    let expected = [
        ("one", false),
        ("two", true),
        ("three", true),
        ("four", true),
        ("five", true),
    ];
    let expected = expected.map(|(name, template)| (json!(name), json!(template)));
    assert_eq!(
        names,
        expected
            .iter()
            .map(|(name, is)| (name, is))
            .collect::<Vec<_>>()
    );
    assert_eq!(pods[1]["origin"], "standard input:6");

    let review = "examples/reviews/payments-pod.json";
    let (code, out, _) = run(&[&["explain", "-f", review], &STATE[..]].concat());
    assert_eq!(code, Some(0), "{out}");
    assert!(out.contains("in namespace payments"), "{out}");
}

#[test]
fn namespaces_among_the_files_count() {
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: new}\n\
               spec: {containers: [{name: a, image: b}]}\n";
    let namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: new, annotations: \
                     {linkerd.io/inject: enabled}}\n";
    let (code, found) = explain_json(pod, &STATE);
    assert_eq!(
        (code, &found["pods"][0]["gate"]["decision"]),
        (Some(2), &json!("unknown"))
    );
    assert_eq!(found["pods"][0]["gate"]["reason"], "namespace_unknown");
    let (code, found) = explain_json(&format!("{pod}---\n{namespace}"), &STATE);
    assert_eq!(
        (code, &found["pods"][0]["gate"]["reason"]),
        (Some(1), &json!("injector_not_ready"))
    );
}

/// The server does not read a pod of a namespace that it never looks at.
#[test]
fn a_pod_of_an_excluded_namespace_may_be_of_any_shape() {
    let explain = |namespace: &str| {
        let pod = format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: a, namespace: {namespace}}}\n\
             spec: {{containers: 5}}\n"
        );
        let (code, found) = explain_json(&pod, &STATE);
        let reason = found["pods"][0]["gate"]["reason"].as_str().unwrap();
        (code.unwrap(), reason.to_owned())
    };
    assert_eq!(explain("kube-system"), (0, "excluded_namespace".to_owned()));
    assert_eq!(explain("orders"), (1, "unreadable_object".to_owned()));
}

/// Without a state the rules are known, and so is all that does not depend on it.
#[test]
fn what_is_certain_without_a_state_is_said() {
    let explain = |annotation: &str, containers: &str| {
        let input = format!(
            "apiVersion: v1\nkind: Namespace\nmetadata: {{name: team, annotations: {{linkerd.io/inject: enabled}}}}\n---\n\
             apiVersion: v1\nkind: Pod\nmetadata: {{name: a, namespace: team, annotations: {{{annotation}}}}}\n\
             spec: {{containers: [{containers}], initContainers: [{{name: linkerd-init, image: i}}]}}\n"
        );
        let (code, found) = explain_json(&input, &[]);
        (
            code.unwrap(),
            found["pods"][0]["gate"]["decision"]
                .as_str()
                .unwrap()
                .to_owned(),
        )
    };
    let app = "{name: app, image: a}";
    let meshed = "{name: app, image: a}, {name: linkerd-proxy, image: p}";
    assert_eq!(explain("", app), (2, "unknown".to_owned()));
    assert_eq!(explain("", meshed), (0, "mark".to_owned()));
    assert_eq!(
        explain("linkerd.io/inject: disabled", app),
        (0, "admit".to_owned())
    );
    assert_eq!(
        explain("linkerd.io/inject: maybe", app),
        (1, "deny".to_owned())
    );
}

#[test]
fn a_configuration_of_ones_own_counts() {
    let (_folder, config) = file(
        "config.yaml",
        "apiVersion: meshgate.io/v1alpha1\nkind: Configuration\ninjectors: [{preset: vault}]\n",
    );
    let input = std::fs::read_to_string(root().join("examples/pods/deployment-linkerd.yaml"))
        .unwrap()
        + "\n---\n"
        + &std::fs::read_to_string(root().join("examples/cluster/namespaces.yaml")).unwrap();
    let config = config.to_str().unwrap();
    let (code, found) = explain_json(&input, &["--config", config]);
    assert_eq!(
        (code, &found["pods"][0]["gate"]["reason"]),
        (Some(0), &json!("not_required"))
    );
    // Two of them are one too many.
    let both = [
        &[
            "explain",
            "-f",
            "examples/pods/deployment-linkerd.yaml",
            "--config",
            config,
        ],
        &STATE[..],
    ];
    let (code, _, err) = run(&both.concat());
    assert_eq!(code, Some(2));
    assert!(
        err.contains("expected one") && err.contains("meshgate.yaml"),
        "{err}"
    );
}

#[test]
fn what_cannot_be_read_is_said_and_is_2() {
    let (_folder, broken) = file(
        "broken.yaml",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: [}\n",
    );
    let (code, _, err) = run(&["explain", "-f", broken.to_str().unwrap()]);
    assert_eq!(code, Some(2));
    assert!(err.contains("broken.yaml:3:"), "{err}");
    let (code, _, err) = run(&["explain", "-f", "no-such-file.yaml"]);
    assert_eq!(code, Some(2));
    assert!(err.contains("cannot read no-such-file.yaml"), "{err}");
    let (code, _, err) =
        run_with_input(&["explain", "-f", "-"], "apiVersion: v1\nkind: ConfigMap\n");
    assert_eq!(code, Some(2));
    assert!(
        err.contains("found no pod") && err.contains("a ConfigMap"),
        "{err}"
    );
    let (code, _, err) = run(&["explain"]);
    assert_eq!(code, Some(2), "{err}");
}

/// `| head` closes the pipe: no error, no panic.
#[test]
fn a_reader_that_goes_away_is_no_error() {
    let mut command = meshgate(&["completions", "bash"]);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let (code, _, err) = outcome(&child.wait_with_output().unwrap());
    assert_eq!((code, err.as_str()), (Some(0), ""));
}

#[test]
fn completions_know_the_commands() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let (code, out, _) = run(&["completions", shell]);
        assert_eq!(code, Some(0), "{shell}");
        for word in ["serve", "explain", "standalone"] {
            assert!(out.contains(word), "{shell} does not know {word}");
        }
    }
}

/// What `--help` teaches changes on purpose only: `make bless` writes the snapshots anew.
#[test]
fn help_is_what_it_was() {
    for (name, arguments) in [
        ("help", &["--help"][..]),
        ("help-serve", &["serve", "--help"]),
        ("help-control", &["control", "--help"]),
        ("help-audit", &["audit", "--help"]),
        ("help-explain", &["explain", "--help"]),
        ("help-render", &["render", "--help"]),
        (
            "help-render-registration",
            &["render", "registration", "--help"],
        ),
        ("help-render-policy", &["render", "policy", "--help"]),
        ("help-render-static", &["render", "static", "--help"]),
        ("help-status", &["status", "--help"]),
        ("help-break-glass", &["break-glass", "--help"]),
        ("help-uninstall", &["uninstall", "--help"]),
        ("help-completions", &["completions", "--help"]),
    ] {
        let (code, out, _) = run(arguments);
        assert_eq!(code, Some(0));
        insta::assert_snapshot!(name, out);
    }
}

/// A key that no injector reads where it stands, and a container that does not count.
#[test]
fn slips_are_pointed_at() {
    let workload = |metadata: &str, template: &str, spec: &str| {
        let input = format!(
            "apiVersion: apps/v1\nkind: StatefulSet\n\
             metadata: {{name: db, namespace: orders, annotations: {{{metadata}}}}}\n\
             spec: {{template: {{metadata: {{annotations: {{{template}}}}}, spec: {{{spec}}}}}}}\n"
        );
        explain_json(&input, &STATE).1["pods"][0].clone()
    };
    let app = "containers: [{name: a, image: b}]";
    let disabled = "linkerd.io/inject: disabled";
    let slip = workload(disabled, "", app);
    let warning = slip["warnings"][0].as_str().unwrap();
    assert!(
        warning.contains("linkerd.io/inject stands on the StatefulSet itself"),
        "{warning}"
    );
    assert_eq!(workload(disabled, disabled, app)["warnings"], json!([]));
    assert_eq!(workload("note: a", "", app)["warnings"], json!([]));

    let ends = format!("{app}, initContainers: [{{name: linkerd-proxy, image: p}}]");
    let check = workload("", "", &ends)["injectors"][0]["check"].clone();
    assert!(
        check
            .as_str()
            .unwrap()
            .ends_with("restartPolicy Always and does not count"),
        "{check}"
    );

    let unquoted = workload("", "linkerd.io/inject: false", app);
    assert_eq!(unquoted["gate"]["decision"], "unreadable");
    let message = unquoted["gate"]["message"].as_str().unwrap();
    assert!(
        message.contains("linkerd.io/inject") && message.contains("quotes"),
        "{message}"
    );
    assert!(!message.contains("at line"), "{message}");
}

#[test]
fn serve_says_what_it_lacks_for_a_cluster() {
    let (folder, kubeconfig) = file("kubeconfig", "apiVersion: v1\nkind: Config\n");
    let kubeconfig = kubeconfig.to_str().unwrap();
    let missing = folder.path().join("missing");
    let missing = missing.to_str().unwrap();
    for (arguments, expected) in [
        (
            &["serve"][..],
            "found neither --standalone nor --kubeconfig",
        ),
        (
            &["serve", "--kubeconfig", missing],
            "cannot use --kubeconfig",
        ),
        (
            &["serve", "--kubeconfig", kubeconfig],
            "cannot use --kubeconfig",
        ),
        (
            &[
                "serve",
                "--kubeconfig",
                kubeconfig,
                "--standalone",
                "examples/cluster",
            ],
            "cannot be used with",
        ),
        (
            &[
                "serve",
                "--standalone",
                "examples/cluster",
                "--webhook-url",
                "https://127.0.0.1:8443",
            ],
            "cannot be used with",
        ),
    ] {
        let mut command = meshgate(arguments);
        command.env_remove("KUBERNETES_SERVICE_HOST");
        let (code, _, err) = outcome(&command.output().unwrap());
        assert_eq!(code, Some(2), "{arguments:?}: {err}");
        assert!(err.contains(expected), "{arguments:?}: {err}");
    }
    let cluster = "
apiVersion: v1
kind: Config
clusters: [{name: x, cluster: {server: 'https://127.0.0.1:1'}}]
users: [{name: x, user: {token: x}}]
contexts: [{name: x, context: {cluster: x, user: x}}]
current-context: x
";
    let (_folder, kubeconfig) = file("kubeconfig", cluster);
    let (code, _, err) = run(&["serve", "--kubeconfig", kubeconfig.to_str().unwrap()]);
    assert_eq!(code, Some(2));
    assert!(
        err.contains("expected --config FILE: for a cluster the injectors are named"),
        "{err}"
    );
}
