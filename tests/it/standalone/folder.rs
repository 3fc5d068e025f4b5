//! What becomes of the files: half written, emptied, deleted, contradicting each other.

use std::sync::atomic::{AtomicBool, Ordering};

use meshgate::cluster::manifest::dir::ManifestDir;

use super::program::{ExampleDir, Program};

const LINKERD: &str = "cluster/linkerd.yaml";
const CONFIGURATION: &str = "cluster/meshgate.yaml";
const DOWN: (&str, &str) = ("defer", "injector_not_ready");

async fn is_still(program: &Program, namespace: &str, (decision, reason): (&str, &str)) {
    let found = program.gate(namespace).await;
    assert_eq!(
        found,
        (decision.to_owned(), reason.to_owned()),
        "{}",
        program.log()
    );
}

/// Writes a file that is read without a problem, and waits until it was.
async fn sees_another_change(example: &ExampleDir, program: &Program, name: &str) {
    let text = format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n");
    example.write(&format!("cluster/{name}.yaml"), &text);
    program
        .logged(&["read again", &format!("{name}.yaml")])
        .await;
}

#[tokio::test]
async fn a_half_written_file_changes_nothing_and_is_reported_with_its_line() {
    let example = ExampleDir::new();
    let program = example.start(&[]).await;
    let whole = example.read(LINKERD);
    let cut = whole.find("addressType").unwrap();
    let half = format!("{}  labels: [", whole.get(..cut).unwrap());
    example.write(LINKERD, &half);
    let line = program.logged(&["linkerd.yaml:"]).await;
    let number = half.lines().count();
    assert!(
        (number - 3..=number + 1).any(|n| line.contains(&format!("linkerd.yaml:{n}:"))),
        "line {number} in {line}"
    );
    assert!(line.contains("stays in force"), "{line}");
    is_still(&program, "orders", DOWN).await;
    is_still(&program, "payments", ("mark", "injector_ready")).await;
    // Others are read in the meantime, and this one keeps what it said.
    sees_another_change(&example, &program, "late").await;
    program.comes_to("late", "admit", "not_required").await;
    is_still(&program, "orders", DOWN).await;
    let state = "{ready: false, serving: false, terminating: false}";
    example.write(LINKERD, &whole.replacen(state, "{ready: true}", 1));
    program.comes_to("orders", "mark", "injector_ready").await;
    let reports = program.log().matches("linkerd.yaml:").count();
    assert_eq!(reports, 1, "reported once: {}", program.log());
}

#[tokio::test]
async fn an_emptied_file_keeps_its_objects_and_a_deleted_one_takes_them_away() {
    let example = ExampleDir::new();
    let program = example.start(&[]).await;
    example.write("cluster/vault.yaml", "");
    program.logged(&["vault.yaml", "empty"]).await;
    let review = super::review(&example, "shipping");
    let verdict = program.ask(meshgate::metrics::Hook::Gate, &review).await;
    assert_eq!(verdict.decision, "mark");
    example.delete("cluster/vault.yaml");
    crate::support::eventually("not installed", async || {
        let verdict = program.ask(meshgate::metrics::Hook::Gate, &review).await;
        verdict.reason == "injector_not_installed"
    })
    .await;
    is_still(&program, "orders", DOWN).await;
    example.delete(LINKERD);
    program
        .comes_to("orders", "defer", "injector_not_installed")
        .await;
    example.delete("cluster/namespaces.yaml");
    program
        .comes_to("orders", "defer", "namespace_unknown")
        .await;
}

/// Editors delete and write anew, or rename.
#[test]
fn a_file_that_is_away_for_one_look_keeps_what_it_says() {
    let example = ExampleDir::new();
    let mut folder = ManifestDir::new(&example.path("cluster"), None, "meshgate-system");
    folder.open().unwrap();
    let configuration = example.read(CONFIGURATION);
    example.delete(CONFIGURATION);
    assert!(folder.look().store.is_none(), "all presets would be on");
    example.write(CONFIGURATION, &configuration);
    for _ in 0..3 {
        if let Some(store) = folder.look().store {
            assert_eq!(store.injectors().len(), 3);
        }
    }
    example.delete(CONFIGURATION);
    assert!(folder.look().store.is_none());
    let store = folder.look().store.expect("it was deleted");
    assert_eq!(
        store.injectors().len(),
        meshgate_core::injector::PRESETS.len()
    );
    assert!(folder.look().store.is_none(), "told once");
}

/// Half of a Namespace would say that nothing is required.
#[test]
fn a_look_up_does_not_believe_a_file_that_is_being_written() {
    let example = ExampleDir::new();
    let half = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: late\n";
    example.write("cluster/late.yaml", half);
    let folder = example.path("cluster");
    let (is_read, mut comments) = (AtomicBool::new(false), String::new());
    std::thread::scope(|threads| {
        let found = threads.spawn(|| {
            let found = ManifestDir::namespace(&folder, "late");
            is_read.store(true, Ordering::SeqCst);
            found
        });
        while !is_read.load(Ordering::SeqCst) {
            comments.push_str("  #\n");
            example.write("cluster/late.yaml", &format!("{half}{comments}"));
        }
        let problem = found.join().unwrap().unwrap_err().to_string();
        assert!(problem.contains("late.yaml is being written"), "{problem}");
    });
    let annotations = "  annotations: {linkerd.io/inject: enabled}\n";
    example.write("cluster/late.yaml", &format!("{half}{annotations}"));
    let found = ManifestDir::namespace(&folder, "late").unwrap().unwrap();
    assert_eq!(found.metadata.annotations.len(), 1);
    assert_eq!(ManifestDir::namespace(&folder, "nowhere").unwrap(), None);
}

#[tokio::test]
async fn an_edit_of_the_configuration_counts() {
    let example = ExampleDir::new();
    let program = example.start(&[]).await;
    is_still(&program, "orders", DOWN).await;
    example.edit(
        CONFIGURATION,
        "- preset: linkerd\n",
        "- preset: linkerd\n  mode: warn\n",
    );
    program
        .comes_to("orders", "warn", "injector_not_ready")
        .await;
    example.edit(CONFIGURATION, "- storage", "- orders");
    program
        .comes_to("orders", "admit", "excluded_namespace")
        .await;
    // An unknown key: meshgate refuses the file and keeps what it read before.
    example.edit(CONFIGURATION, "excludedNamespaces", "excludedNamespace");
    let line = program
        .logged(&["meshgate.yaml:", "excludedNamespace"])
        .await;
    assert!(
        line.contains("excludedNamespaces"),
        "what was expected: {line}"
    );
    is_still(&program, "orders", ("admit", "excluded_namespace")).await;
    // Without it all presets are on.
    example.delete(CONFIGURATION);
    program
        .comes_to("orders", "defer", "injector_not_ready")
        .await;
}

#[tokio::test]
async fn what_contradicts_itself_is_reported_and_changes_nothing() {
    let example = ExampleDir::new();
    let program = example.start(&[]).await;
    let second =
        "apiVersion: meshgate.io/v1alpha1\nkind: Configuration\ninjectors: [{preset: vault}]\n";
    example.write("cluster/other.yaml", second);
    let line = program.logged(&["Configuration", "other.yaml"]).await;
    assert!(
        line.contains("meshgate.yaml") && line.contains("stays in force"),
        "{line}"
    );
    is_still(&program, "orders", DOWN).await;
    example.delete("cluster/other.yaml");

    let orders = "apiVersion: v1\nkind: Namespace\nmetadata: {name: orders}\n";
    example.write("cluster/zz-again.yaml", orders);
    let line = program.logged(&["Namespace orders", "zz-again.yaml"]).await;
    assert!(
        line.contains("namespaces.yaml") && line.contains("stays in force"),
        "{line}"
    );
    is_still(&program, "orders", DOWN).await;
    let (from, to) = ("linkerd.io/inject: enabled", "linkerd.io/inject: disabled");
    example.edit("cluster/namespaces.yaml", from, to);
    crate::support::eventually("told again", async || {
        program.log().matches("found Namespace orders").count() == 2
    })
    .await;
    is_still(&program, "orders", DOWN).await;
    example.delete("cluster/zz-again.yaml");
    program.comes_to("orders", "admit", "not_required").await;
}

#[tokio::test]
async fn the_start_is_refused_with_what_is_wrong_and_exit_code_2() {
    let example = ExampleDir::new();
    let own = example.path("own.yaml").display().to_string();
    let configuration = example.read(CONFIGURATION);
    example.write("own.yaml", &configuration);
    let (code, _, text) = example.refused(&["--config", &own]).await;
    assert_eq!(code, Some(2), "{text}");
    assert!(
        text.contains("own.yaml") && text.contains("meshgate.yaml"),
        "{text}"
    );
    assert!(
        text.contains("error:") && text.contains("expected one"),
        "{text}"
    );

    example.delete(CONFIGURATION);
    let (code, _, text) = example.refused(&["--config", "/nowhere/own.yaml"]).await;
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("/nowhere/own.yaml"), "{text}");
    let misspelt = configuration.replace("preset: vault", "preset: vualt");
    example.write("own.yaml", &misspelt);
    let (code, _, text) = example.refused(&["--config", &own]).await;
    assert_eq!(code, Some(2), "{text}");
    let line = misspelt
        .lines()
        .position(|line| line.contains("vualt"))
        .unwrap()
        + 1;
    assert!(
        text.contains(&format!("own.yaml:{line}:")) && text.contains("vualt"),
        "{text}"
    );

    example.write(
        "cluster/broken.yaml",
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: [a}\n",
    );
    let (code, stdout, text) = example.refused(&[]).await;
    assert_eq!((code, &*stdout), (Some(2), ""), "{text}");
    let (_, place_of) = text
        .split_once("broken.yaml:3:")
        .unwrap_or_else(|| panic!("{text}"));
    assert!(place_of.starts_with(|c: char| c.is_ascii_digit()), "{text}");
    example.write("cluster/also.yaml", "kind: Namespace\n");
    let (_, _, text) = example.refused(&[]).await;
    assert!(
        text.contains("broken.yaml:3:") && text.contains("also.yaml:1:"),
        "all of them: {text}"
    );
}

#[tokio::test]
async fn the_start_says_what_is_not_looked_at() {
    let example = ExampleDir::new();
    for file in ["nodes", "linkerd", "istio", "vault", "meshgate"] {
        example.delete(&format!("cluster/{file}.yaml"));
    }
    let deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: shop}\n---\n\
                      apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";
    example.write("cluster/app.yml", deployment);
    let program = example.start(&[]).await;
    let banner = program.banner();
    for text in [
        "meshgate does not look at nodes",
        "no webhook configuration",
        "Deployment",
        "ConfigMap",
    ] {
        assert!(banner.contains(text), "{text} in {banner}");
    }
    assert!(banner.contains("all presets"), "{banner}");
    // No injector counts as not installed: the usual Service has no endpoint.
    is_still(&program, "orders", DOWN).await;
    example.write(
        "cluster/job.yaml",
        "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: j}\n",
    );
    program.logged(&["CronJob"]).await;
}

#[tokio::test]
async fn a_namespace_that_was_just_written_is_looked_up_in_the_folder() {
    let example = ExampleDir::new();
    // Neither an empty file nor a broken one keeps others from being looked at.
    example.write("cluster/aa-empty.yaml", "");
    let program = example.start(&[]).await;
    example.write("cluster/ab-broken.yaml", "kind: [");
    for number in 0..3 {
        let name = format!("fresh-{number}");
        let text = format!(
            "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: {name}\n  \
             annotations: {{linkerd.io/inject: enabled}}\n"
        );
        example.write(&format!("cluster/{name}.yaml"), &text);
        is_still(&program, &name, DOWN).await;
    }
    let (_, metrics) = program.probe("/metrics").unwrap();
    let count = metrics
        .lines()
        .find_map(|line| line.strip_prefix("meshgate_live_lookups_total "));
    assert!(count.unwrap().parse::<u64>().unwrap() >= 1, "{metrics}");
    is_still(&program, "nowhere", ("defer", "namespace_unknown")).await;
}

/// A kind that is nearly one of ours would be looked for long.
#[tokio::test]
async fn an_object_that_is_nearly_right_is_refused() {
    for (text, expected) in [
        (
            "apiVersion: meshgate.io/v1alpha1\nkind: Config\ninjectors: [{preset: vault}]\n",
            "expected Configuration of meshgate.io/v1alpha1",
        ),
        (
            "apiVersion: discovery.k8s.io/v1beta1\nkind: EndpointSlice\nmetadata: {name: a}\n",
            "expected EndpointSlice of discovery.k8s.io/v1",
        ),
        (
            "apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: namespace, metadata: {name: a}}]\n",
            "expected Namespace of v1",
        ),
    ] {
        let example = ExampleDir::new();
        example.write("cluster/more.yaml", text);
        let (code, _, err) = example.refused(&[]).await;
        assert_eq!(code, Some(2), "{err}");
        assert!(
            err.contains("more.yaml:1:1: ") && err.contains(expected),
            "{err}"
        );
    }
    let example = ExampleDir::new();
    example.write(
        "cluster/more.yaml",
        "apiVersion: serving.knative.dev/v1\nkind: Service\nmetadata: {name: a}\n",
    );
    let program = example.start(&[]).await;
    assert!(
        program.banner().contains("not looked at: 1 Service"),
        "{}",
        program.banner()
    );
}

/// Files that go are told, and so is which injectors count then.
#[tokio::test]
async fn what_a_change_has_changed_is_told() {
    let example = ExampleDir::new();
    let program = example.start(&[]).await;
    example.delete("cluster/meshgate.yaml");
    program.logged(&["no longer there", "meshgate.yaml"]).await;
    program
        .logged(&["injectors: ", "no Configuration was found"])
        .await;
    example.delete("cluster/namespaces.yaml");
    program.logged(&["no Namespace was found"]).await;
}

/// A log without a reader, or on a full disk, costs lines and never an answer.
#[tokio::test]
async fn a_log_that_cannot_be_written_ends_nothing() {
    let example = ExampleDir::new();
    let full = std::fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let program = example.start_with_log(full.into()).await;
    for _ in 0..3 {
        assert_eq!(program.gate("orders").await.0, "defer");
    }
}
