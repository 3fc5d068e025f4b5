//! What the account of the controllers must not do, tried with its own token. That it can do all that it
//! must is told by the story, under the same fence.

use serde_json::{Value, json};

use crate::lab::harness::{Account, HOME, Lab, Meshgate, Outcome, within};
use crate::lab::registration::{CONFIG, SECONDS, lab};

/// One try: what is written on the standard input of `kubectl` with these arguments.
struct Try {
    what: &'static str,
    arguments: Vec<String>,
    input: Value,
}

fn patch(what: &'static str, object: &str, patch: &Value) -> Try {
    let mut arguments: Vec<String> = vec!["patch".to_owned()];
    arguments.extend(object.split(' ').map(str::to_owned));
    arguments.extend(["--type=merge".to_owned(), format!("-p={patch}")]);
    let input = Value::Null;
    Try {
        what,
        arguments,
        input,
    }
}

fn with(what: &'static str, arguments: &str, input: Value) -> Try {
    let arguments = arguments.split(' ').map(str::to_owned).collect();
    Try {
        what,
        arguments,
        input,
    }
}

fn object(kind: &str, metadata: &Value, rest: &Value) -> Value {
    let version = match kind {
        "ConfigMap" | "Namespace" | "Secret" => "v1",
        "ClusterRole" | "ClusterRoleBinding" => "rbac.authorization.k8s.io/v1",
        _ => "admissionregistration.k8s.io/v1",
    };
    let mut object = json!({"apiVersion": version, "kind": kind, "metadata": metadata});
    json_patch::merge(&mut object, rest);
    object
}

const APPLY: &str = "apply --server-side --force-conflicts -f -";
const CREATE: &str = "create -f -";

/// What the fence refuses to change of a namespace.
fn fenced_namespaces() -> Vec<Try> {
    let orders = "namespace orders";
    let label = |key: &str, value: Value| json!({"metadata": {"labels": {key: value}}});
    vec![
        patch(
            "a label of others",
            orders,
            &label("pod-security.kubernetes.io/enforce", json!("privileged")),
        ),
        patch("a label taken off", orders, &label("team", Value::Null)),
        patch(
            "another label of ours",
            orders,
            &label("meshgate.io/other", json!("")),
        ),
        patch(
            "an annotation",
            orders,
            &json!({"metadata": {"annotations": {"linkerd.io/inject": "disabled"}}}),
        ),
        patch(
            "a finalizer",
            orders,
            &json!({"metadata": {"finalizers": ["example.test/a"]}}),
        ),
        patch(
            "an owner",
            orders,
            &json!({"metadata": {"ownerReferences": [
            {"apiVersion": "v1", "kind": "Node", "name": "a", "uid": "1"}]}}),
        ),
    ]
}

/// What the fence refuses to create.
fn fenced_objects() -> Vec<Try> {
    let secret = |name: &str, kind: &str| {
        let metadata = json!({"name": name, "namespace": HOME});
        let metadata_of_token = json!({"name": name, "namespace": HOME, "annotations": {
            "kubernetes.io/service-account.name": "meshgate"}});
        let is_token = kind.ends_with("-token");
        let metadata = if is_token {
            metadata_of_token
        } else {
            metadata
        };
        let data = if is_token {
            json!({})
        } else {
            json!({"tls.crt": "", "tls.key": ""})
        };
        object("Secret", &metadata, &json!({"type": kind, "data": data}))
    };
    let generated = json!({"generateName": "meshgate-", "namespace": HOME});
    let map = json!({"name": "a", "namespace": HOME});
    vec![
        with(
            "a Secret of another name",
            CREATE,
            secret("other", "kubernetes.io/tls"),
        ),
        with(
            "a Secret of any name",
            CREATE,
            object("Secret", &generated, &json!({})),
        ),
        with(
            "a token of a ServiceAccount",
            CREATE,
            secret("meshgate-tls", "kubernetes.io/service-account-token"),
        ),
        with("another type", CREATE, secret("meshgate-ca", "Opaque")),
        with("a ConfigMap", CREATE, object("ConfigMap", &map, &json!({}))),
    ]
}

/// What RBAC refuses of policies.
fn forbidden_policies() -> Vec<Try> {
    let named = |name: &str| json!({"name": name});
    let spec = json!({"spec": {"policyName": "a", "validationActions": ["Audit"]}});
    let fence = "validatingadmissionpolicy meshgate-control";
    let binding = "validatingadmissionpolicybinding meshgate-control";
    vec![
        patch(
            "the fence",
            fence,
            &json!({"spec": {"failurePolicy": "Ignore"}}),
        ),
        patch(
            "its binding",
            binding,
            &json!({"spec": {"validationActions": ["Audit"]}}),
        ),
        with(
            "no fence",
            "delete validatingadmissionpolicy meshgate-control",
            Value::Null,
        ),
        with(
            "no binding",
            "delete validatingadmissionpolicybinding meshgate-control",
            Value::Null,
        ),
        with(
            "a policy of others",
            "delete validatingadmissionpolicybinding theirs",
            Value::Null,
        ),
        patch(
            "the binding of others",
            "validatingadmissionpolicybinding theirs",
            &json!({"spec": {"validationActions": ["Audit"]}}),
        ),
        with(
            "a binding of another name",
            CREATE,
            object("ValidatingAdmissionPolicyBinding", &named("a"), &spec),
        ),
        with(
            "the same by apply",
            APPLY,
            object("ValidatingAdmissionPolicyBinding", &named("a"), &spec),
        ),
    ]
}

/// What else RBAC refuses.
fn forbidden_objects() -> Vec<Try> {
    let named = |name: &str| json!({"name": name});
    let group = "rbac.authorization.k8s.io";
    let admin = json!({
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "namespace": HOME, "name": "meshgate-control"}],
    });
    vec![
        with(
            "a webhook configuration",
            APPLY,
            object(
                "MutatingWebhookConfiguration",
                &named("a"),
                &json!({"webhooks": []}),
            ),
        ),
        with(
            "a mutating policy",
            APPLY,
            object(
                "MutatingAdmissionPolicyBinding",
                &named("a"),
                &json!({"spec": {"policyName": "a"}}),
            ),
        ),
        with(
            "a namespace",
            CREATE,
            object("Namespace", &named("a"), &json!({})),
        ),
        with("no namespace", "delete namespace orders", Value::Null),
        with("Secrets", "-n meshgate-system get secrets", Value::Null),
        with("Secrets elsewhere", "-n orders get secret a", Value::Null),
        with(
            "cluster-admin",
            CREATE,
            object("ClusterRoleBinding", &named("a"), &admin),
        ),
        with("pods", "-n orders run a --image=a", Value::Null),
    ]
}

/// What RBAC refuses to every role that has fewer rights itself.
fn escalating() -> Vec<Try> {
    let all = json!({"rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]});
    let own = object("ClusterRole", &json!({"name": "meshgate"}), &all);
    vec![with("more rights", APPLY, own)]
}

/// What the guard and the fence refuse.
fn guarded() -> Vec<Try> {
    let change_of = |kind: &str, what, path: &str, value: Value| {
        let operation =
            json!([{"op": "replace", "path": format!("/webhooks/0/{path}"), "value": value}]);
        let object = format!("{kind}webhookconfiguration admission.meshgate.io");
        with(
            what,
            &format!("patch {object} --type=json -p={operation}"),
            Value::Null,
        )
    };
    let change = |what, path: &str, value: Value| change_of("mutating", what, path, value);
    let rules = json!([{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}]);
    let theirs = json!({"webhooks": [{
        "name": "theirs.example.test", "clientConfig": {"url": "https://evil.example.test/mutate/pods"},
        "rules": rules, "sideEffects": "None", "admissionReviewVersions": ["v1"]}]});
    vec![
        change(
            "another address",
            "clientConfig",
            json!({"url": "https://evil.example.test/mutate/pods"}),
        ),
        change(
            "another Service",
            "clientConfig",
            json!({"service": {"namespace": "orders", "name": "evil", "path": "/mutate/pods"}}),
        ),
        change("all requests", "rules", rules.clone()),
        change_of("validating", "all requests of the check", "rules", rules),
        with(
            "an entry of its own",
            APPLY,
            object(
                "MutatingWebhookConfiguration",
                &json!({"name": "admission.meshgate.io"}),
                &theirs,
            ),
        ),
        with(
            "another configuration",
            APPLY,
            object(
                "MutatingWebhookConfiguration",
                &json!({"name": "namespaces.meshgate.io"}),
                &theirs,
            ),
        ),
    ]
}

async fn tried(lab: &Lab, one: &Try) -> Outcome {
    let kubeconfig = lab.kubeconfig_for(HOME, "meshgate-control").await;
    let arguments: Vec<&str> = one.arguments.iter().map(String::as_str).collect();
    lab.kubectl_by(&kubeconfig, &arguments, &one.input.to_string())
        .await
}

/// It may delete the guard, and the fence holds all the same.
async fn unguarded(lab: &Lab, meshgate: &Meshgate<'_>) {
    meshgate.order("pause").await;
    for kind in [
        "validatingadmissionpolicybinding",
        "validatingadmissionpolicy",
    ] {
        let delete = format!("delete {kind} guard.meshgate.io");
        tried(lab, &with("no guard", &delete, Value::Null))
            .await
            .ok();
    }
    for one in guarded() {
        within(SECONDS, "the fence refuses it alone", async || {
            let outcome = tried(lab, &one).await;
            assert_ne!(outcome.code, Some(0), "{}", one.what);
            let is_alone = !outcome.err.contains("guard.meshgate.io");
            let by_fence = outcome.err.contains("by the rules that it renders");
            (is_alone && by_fence).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn the_account_of_the_controllers_can_do_nothing_that_it_is_not_for() {
    let lab = lab(&[], &[]).await;
    lab.kubeconfig_of(Account::Control).await;
    let meshgate = Meshgate::start(&lab, CONFIG).await;
    let labels = json!({"team": "a"});
    let orders = object(
        "Namespace",
        &json!({"name": "orders", "labels": labels}),
        &json!({}),
    );
    let binding = json!({"spec": {"policyName": "theirs", "validationActions": ["Audit"]}});
    let theirs = object(
        "ValidatingAdmissionPolicyBinding",
        &json!({"name": "theirs"}),
        &binding,
    );
    for made in [orders, theirs] {
        lab.apply_whole(&made.to_string()).await;
    }
    let fence = "ValidatingAdmissionPolicy 'meshgate-control'";
    let first = &fenced_namespaces()[0];
    within(SECONDS, "the fence is in force", async || {
        tried(&lab, first).await.err.contains(fence).then_some(())
    })
    .await;
    for (tries, by) in [
        (fenced_namespaces(), fence),
        (fenced_objects(), fence),
        (forbidden_policies(), "cannot "),
        (forbidden_objects(), "cannot "),
        (escalating(), "attempting to grant RBAC permissions"),
        // Fence and guard refuse these. The API server names one of them.
        (guarded(), "denied request: "),
    ] {
        for one in tries {
            let outcome = tried(&lab, &one).await;
            let is_refused = outcome.code != Some(0) && outcome.err.contains(by);
            assert!(is_refused, "{}: {outcome:?}", one.what);
        }
    }
    unguarded(&lab, &meshgate).await;
    // What it is for, and what no other account is kept from.
    let label = json!({"metadata": {"labels": {"meshgate.io/requires.other": ""}}});
    tried(&lab, &patch("a label", "namespace orders", &label))
        .await
        .ok();
    let map = object(
        "ConfigMap",
        &json!({"name": "a", "namespace": HOME}),
        &json!({}),
    );
    let dry = format!("{CREATE} --dry-run=server");
    tried(&lab, &with("a dry run", &dry, map.clone()))
        .await
        .ok();
    lab.apply_whole(&map.to_string()).await;
}
