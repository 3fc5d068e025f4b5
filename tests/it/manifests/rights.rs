//! What the roles say, without a cluster. That each rule is used, and that no other is needed, is
//! held by `lab::rights`.

use std::collections::BTreeSet;

use meshgate_core::injector::{Injectors, PRESETS};
use meshgate_core::render::mirror::is_needed;
use meshgate_core::render::{Client, MirrorForm, Settings, registration};
use serde_json::Value;

use super::{installed, name, of_kind, text};

fn rules(role: &Value) -> impl Iterator<Item = &Value> {
    role["rules"].as_array().into_iter().flatten()
}

fn texts<'v>(rule: &'v Value, field: &str) -> Vec<&'v str> {
    let list = rule[field].as_array().into_iter().flatten();
    list.map(|text| text.as_str().unwrap()).collect()
}

#[test]
fn no_rule_has_a_wildcard_or_can_give_itself_more() {
    let objects = installed();
    for role in [of_kind(&objects, "ClusterRole"), of_kind(&objects, "Role")].concat() {
        for rule in rules(role) {
            for field in ["apiGroups", "resources", "verbs", "resourceNames"] {
                let found = texts(rule, field);
                let bad = ["*", "escalate", "bind", "impersonate", "deletecollection"];
                assert!(!found.iter().any(|word| bad.contains(word)), "{rule}");
            }
            assert!(rule.get("nonResourceURLs").is_none(), "{rule}");
        }
    }
}

/// Design section 8: `serve` has no write permission anywhere.
#[test]
fn what_serves_writes_nothing() {
    let objects = installed();
    let roles = [of_kind(&objects, "ClusterRole"), of_kind(&objects, "Role")].concat();
    let own: Vec<_> = roles
        .into_iter()
        .filter(|role| role["metadata"]["name"] == "meshgate-serve")
        .collect();
    assert_eq!(own.len(), 2);
    for rule in own.into_iter().flat_map(rules) {
        let reads = ["get", "list", "watch"];
        assert!(
            texts(rule, "verbs").iter().all(|verb| reads.contains(verb)),
            "{rule}"
        );
        let is_secret = texts(rule, "resources").contains(&"secrets");
        assert!(
            !is_secret || texts(rule, "resourceNames") == ["meshgate-tls"],
            "{rule}"
        );
    }
}

/// Secrets are read by name only, and webhooks and roles changed by name only.
#[test]
fn what_others_own_cannot_be_changed() {
    let objects = installed();
    for role in [of_kind(&objects, "ClusterRole"), of_kind(&objects, "Role")].concat() {
        for rule in rules(role) {
            let named = !texts(rule, "resourceNames").is_empty();
            let verbs = texts(rule, "verbs");
            for resource in texts(rule, "resources") {
                let (harmless, is_named): (&[&str], bool) = match resource {
                    "secrets" => (&["create"], true),
                    "clusterroles" | "leases" => (&["create"], true),
                    "mutatingwebhookconfigurations"
                    | "validatingwebhookconfigurations"
                    | "mutatingadmissionpolicies"
                    | "mutatingadmissionpolicybindings"
                    | "validatingadmissionpolicies"
                    | "validatingadmissionpolicybindings" => (&["list", "watch"], true),
                    _ => (&[], false),
                };
                let harmless = verbs.iter().all(|verb| harmless.contains(verb));
                assert!(!is_named || named || harmless, "{}: {rule}", name(role));
            }
        }
    }
}

/// The chart grants what the mirror takes where a preset in this list is named, and nowhere else.
#[test]
fn the_chart_knows_which_presets_are_mirrored() {
    let text = text("chart/templates/_injectors.tpl");
    let needs = |name: &str| {
        let head = "apiVersion: meshgate.io/v1alpha1\nkind: Configuration\ninjectors:\n";
        let config = format!("{head}- preset: {name}\n");
        let injectors = Injectors::from_yaml("test", config.as_bytes()).unwrap();
        injectors.iter().any(is_needed)
    };
    let names = PRESETS.iter().map(|(name, _)| *name);
    let mirrored: Vec<String> = names
        .filter(|name| needs(name))
        .map(|name| format!("\"{name}\""))
        .collect();
    let expected = format!("has .preset (list {})", mirrored.join(" "));
    assert!(text.contains(&expected), "{expected}");
}

/// The fence holds for the account that it is bound to, and that account cannot change it.
#[test]
fn the_fence_is_out_of_reach_of_those_whom_it_limits() {
    let objects = installed();
    let fences = of_kind(&objects, "ValidatingAdmissionPolicy");
    let names: Vec<_> = fences
        .iter()
        .map(|fence| &fence["metadata"]["name"])
        .collect();
    assert_eq!(names, ["meshgate-control", "meshgate-control-wake"]);
    for fence in fences {
        is_out_of_reach(&objects, fence);
    }
}

fn is_out_of_reach(objects: &[Value], fence: &Value) {
    let conditions = fence["spec"]["matchConditions"].as_array().unwrap();
    assert_eq!(conditions.len(), 1);
    let account =
        "request.userInfo.username == 'system:serviceaccount:meshgate-system:meshgate-control'";
    assert_eq!(conditions[0]["expression"], account);
    assert_eq!(fence["spec"]["failurePolicy"], "Fail");
    let own = fence["metadata"]["name"].as_str().unwrap();
    for role in [of_kind(objects, "ClusterRole"), of_kind(objects, "Role")].concat() {
        for rule in
            rules(role).filter(|rule| texts(rule, "resources").join(" ").contains("validating"))
        {
            let reads = texts(rule, "verbs")
                .iter()
                .all(|verb| ["list", "watch"].contains(verb));
            let names = texts(rule, "resourceNames");
            assert!(
                reads || !names.is_empty() && !names.contains(&own),
                "{rule}"
            );
        }
    }
}

fn variable<'p>(policy: &'p Value, name: &str) -> &'p str {
    let mut all = policy["spec"]["variables"].as_array().unwrap().iter();
    let found = all.find(|one| one["name"] == name);
    found.unwrap()["expression"].as_str().unwrap()
}

/// The fence stands in for the guard, which the account can delete. Both know all rules that meshgate renders.
#[test]
fn the_fence_holds_webhooks_to_what_the_guard_does() {
    let objects = installed();
    let fence = of_kind(&objects, "ValidatingAdmissionPolicy")[0];
    let names = PRESETS.iter().map(|(name, _)| *name);
    let all: String = names.map(|name| format!("- preset: {name}\n")).collect();
    let own = "- {name: own, service: {namespace: own, name: own}, webhook: own.example, rules: [{when: \
               [{podLabel: own, in: [a]}], then: required}], injected: [{sidecar: own, images: [own/]}]}\n";
    let config =
        format!("apiVersion: meshgate.io/v1alpha1\nkind: Configuration\ninjectors:\n{all}{own}");
    let injectors = Injectors::from_yaml("test", config.as_bytes()).unwrap();
    let client = Client::Service {
        namespace: "meshgate-system".to_owned(),
        name: "meshgate".to_owned(),
        port: 443,
    };
    let mut settings = Settings::new(client, "meshgate-system");
    settings.mirror = MirrorForm::Webhook;
    let rendered = registration(&injectors, &settings).objects;
    let guard = of_kind(&rendered, "ValidatingAdmissionPolicy")[0];
    let expression = variable(guard, "callsUs");
    assert_eq!(variable(fence, "callsUs"), expression);
    let webhooks = rendered.iter().flat_map(|one| one["webhooks"].as_array());
    let mut all = BTreeSet::new();
    for rule in webhooks.flatten().map(|one| &one["rules"][0]) {
        let quoted = |field| format!("'{}'", texts(rule, field).join("', '"));
        let known = format!(
            "'operations': dyn([{}]), 'resources': dyn([{}])",
            quoted("operations"),
            quoted("resources")
        );
        assert!(expression.contains(&known), "{known}");
        all.insert(known);
    }
    assert_eq!(
        expression.matches("'operations'").count(),
        all.len(),
        "{all:?}"
    );
}

/// The chart grants the names of all presets' checks: an earlier Configuration may have had any of them.
#[test]
fn the_chart_knows_all_presets() {
    let names = PRESETS.iter().map(|(name, _)| format!("\"{name}\""));
    let expected = format!(
        "$injectors := list {} }}",
        names.collect::<Vec<_>>().join(" ")
    );
    assert!(
        text("chart/templates/_injectors.tpl").contains(&expected),
        "{expected}"
    );
}

/// The owner grants nothing.
#[test]
fn the_owner_is_empty_and_unbound() {
    let objects = installed();
    let is_owner = |object: &&&Value| object["metadata"]["name"] == "meshgate";
    let roles = of_kind(&objects, "ClusterRole");
    let owner = roles.iter().find(is_owner).unwrap();
    assert_eq!(owner.get("rules"), None);
    assert!(
        !of_kind(&objects, "ClusterRoleBinding")
            .iter()
            .any(|b| is_owner(&b))
    );
}
