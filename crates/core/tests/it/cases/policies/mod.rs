//! The policies of every case, evaluated: they refuse what the check refuses, in the same words.
//!
//! Two clauses differ, since an API server does not know what a replica knows:
//!
//! - the last one, from `; see kubectl` on: the check names the namespace that the injector is in now, other
//!   injectors that refuse the pod too, and a Windows pod's way out;
//! - the one after `but` where the injector is not installed: the check says so.

mod cel;

use std::collections::HashMap;

use meshgate_core::decision::Decision;
use meshgate_core::decision::reason::Reason;
use meshgate_core::injector::Injectors;
use meshgate_core::render::{Client, Settings, policy};
use serde_json::{Value, json};

use super::cluster::Cluster;
use super::format::{self, Case, Overlay};
use super::{Call, Configurations, GROUPS, Hook, updated};

use self::cel::Scope;

/// Fewer refusals than there were when this was written are a loss, not a success.
const FEWEST_REFUSALS: usize = 130;

#[test]
fn a_policy_refuses_what_the_check_refuses_in_the_same_words() {
    let (mut refusals, mut equal, mut report) = (0, 0, String::new());
    let mut configurations = Configurations::default();
    for file in &format::files() {
        for case in file.cases.iter().filter(|case| meets_policies(case)) {
            for pod in [Some(&case.pod), case.pod_injected.as_ref()] {
                let Some(pod) = pod.filter(|pod| pod["spec"].is_object()) else {
                    continue;
                };
                let found = Found::of(case, &configurations.of(case, file), pod);
                refusals += usize::from(found.is_refused);
                equal += usize::from(found.is_equal);
                if let Some(problem) = found.problem {
                    report.push_str(&format!("\n{}: {}: {problem}", file.name, case.name));
                }
            }
        }
    }
    assert!(report.is_empty(), "{report}");
    assert!(refusals >= FEWEST_REFUSALS, "{refusals} refusals");
    // The rest differs in a clause.
    assert!(
        equal * 4 > refusals * 3,
        "{equal} of {refusals} to the last word"
    );
}

/// An API server evaluates policies for the creation of pods, and for updates that a profile limits; it holds
/// their namespace.
fn meets_policies(case: &Case) -> bool {
    let of_request = case.request == Overlay::default() || updated(case).is_some();
    !case.namespace.unknown && of_request
}

/// One pod of a case.
#[derive(Default)]
struct Found {
    is_refused: bool,
    /// To the last word.
    is_equal: bool,
    problem: Option<String>,
}

impl Found {
    fn of(case: &Case, injectors: &Injectors, pod: &Value) -> Self {
        let call = Call {
            case,
            hook: Hook::Check,
            injectors,
            cluster: &Cluster::of(case, injectors),
        };
        let mut found = Self::default();
        let mut refused = None;
        call.decide(&pod.to_string(), |check, view| {
            if view.is_none() && check.reason != Reason::ExcludedNamespace {
                return;
            }
            let refused = refused.get_or_insert_with(|| refusals(case, injectors, pod));
            found.is_refused = !check.verdict.allows();
            found.is_equal = found.is_refused && refused.contains(&check.message);
            found.problem = difference(check, refused, is_installed(check));
        });
        found
    }
}

fn is_installed(check: &Decision<'_>) -> bool {
    !matches!(
        check.reason,
        Reason::InjectorNotInstalled | Reason::NoInjectorForRevision
    )
}

/// The sentences of the policies that deny the pod, in the order of the configuration.
fn refusals(case: &Case, injectors: &Injectors, pod: &Value) -> Vec<String> {
    let client = Client::Url("https://a.test".to_owned());
    let objects = policy::objects(injectors, &Settings::new(client, "meshgate-system"));
    let (policies, bindings): (Vec<Value>, Vec<Value>) = objects
        .into_iter()
        .partition(|object| object["kind"] == "ValidatingAdmissionPolicy");
    let denies = |binding: &Value| binding["spec"]["validationActions"] == json!(["Deny"]);
    let both = policies.iter().zip(&bindings);
    let denying = both.filter(|(_, binding)| denies(binding));
    let refusals = denying.filter_map(|(policy, _)| refusal(&policy["spec"], case, pod));
    refusals.collect()
}

/// The sentence of a policy, if it refuses the pod.
fn refusal(spec: &Value, case: &Case, pod: &Value) -> Option<String> {
    let operation = match updated(case) {
        Some(_) => "UPDATE",
        None => "CREATE",
    };
    let rules = &spec["matchConstraints"]["resourceRules"][0]["operations"];
    if !rules.as_array()?.contains(&json!(operation)) {
        return None;
    }
    if !selects(&spec["matchConstraints"]["namespaceSelector"], case) {
        return None;
    }
    let list = |field: &str| spec[field].as_array().unwrap();
    let text = |one: &'static str| move |value: &Value| value[one].as_str().unwrap().to_owned();
    let (name, expression) = (text("name"), text("expression"));
    let variables = list("variables").iter();
    let variables: HashMap<String, String> =
        variables.map(|one| (name(one), expression(one))).collect();
    let scope = Scope::new(inputs(case, pod, operation), variables);
    let evaluate = |text: &str| {
        let value = scope.evaluate(text);
        value.unwrap_or_else(|why| panic!("{}: {why}\n{text}", case.name))
    };
    let holds = |one: &&Value| evaluate(&expression(one)) == json!(true);
    let conditions = spec["matchConditions"].as_array();
    if !conditions.into_iter().flatten().all(|one| holds(&one)) {
        return None;
    }
    let failed = list("validations").iter().find(|one| !holds(one))?;
    let sentence = evaluate(&text("messageExpression")(failed));
    let Value::String(sentence) = sentence else {
        panic!("{}: {sentence} is no sentence", case.name)
    };
    Some(sentence)
}

/// As the API server has them.
fn inputs(case: &Case, pod: &Value, operation: &str) -> Value {
    let namespace = &case.namespace;
    let groups = case.user.as_ref().and_then(|user| user.groups.clone());
    let groups = groups.unwrap_or_else(|| GROUPS.map(str::to_owned).to_vec());
    json!({
        "request": {"operation": operation, "namespace": namespace.name, "userInfo": {"groups": groups}},
        "object": without_nulls(pod.clone()),
        "oldObject": without_nulls(updated(case).cloned().unwrap_or_default()),
        "namespaceObject": {"metadata": {
            "name": namespace.name,
            "labels": namespace.labels,
            "annotations": namespace.annotations,
        }},
    })
}

/// A field that is null is absent once the API server has read the object.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(
                fields
                    .map(|(key, value)| (key, without_nulls(value)))
                    .collect(),
            )
        }
        Value::Array(items) => Value::Array(items.into_iter().map(without_nulls).collect()),
        plain @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => plain,
    }
}

/// Terms of a policy's selector look at names alone.
fn selects(selector: &Value, case: &Case) -> bool {
    let terms = selector["matchExpressions"].as_array().unwrap();
    terms.iter().all(|term| {
        assert_eq!(term["key"], "kubernetes.io/metadata.name");
        let named = term["values"].as_array().unwrap();
        let is_in = named.contains(&json!(case.namespace.name));
        is_in == (term["operator"] == "In")
    })
}

/// How the policies speak otherwise than the check, beyond the two clauses.
fn difference(check: &Decision<'_>, refused: &[String], is_installed: bool) -> Option<String> {
    if check.verdict.allows() {
        let first = refused.first()?;
        return Some(format!("the check admits the pod, a policy says {first:?}"));
    }
    let ends: &[&str] = if is_installed {
        &["; see kubectl -n ", "; it is refused because of "]
    } else {
        &[" but "]
    };
    let cut = |text: &str| {
        let cuts = ends.iter().filter_map(|end| text.find(end));
        let end = cuts.min().unwrap_or(text.len());
        text.split_at(end).0.to_owned()
    };
    let is_said = refused.iter().any(|one| cut(one) == cut(&check.message));
    (!is_said).then(|| format!("\n  check    {:?}\n  policies {refused:?}", check.message))
}
