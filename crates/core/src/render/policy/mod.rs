//! The check as a policy that the API server evaluates itself: one per injector, exact.
//!
//! It looks at the pod as all mutating webhooks left it, holds with nothing of meshgate running,
//! and knows nothing of readiness. A verdict is that of `decision::check`; its sentence says the
//! same in nearly the same words.

mod message;
mod plan;

use serde_json::{Value, json};

use crate::injector::profile::Mode;
use crate::injector::{Injector, Injectors};

use super::condition::Expr;
use super::condition::cel::Scope;
use super::exemptions;
use super::webhooks::{NAMESPACE_NAME, rule};
use super::{Rendered, Settings, excluded, metadata};

pub(super) use self::plan::Plan;

/// How names of the policies end.
pub const SUFFIX: &str = ".check.meshgate.io";

/// A policy and its binding for each injector that is looked at.
pub fn objects(injectors: &Injectors, settings: &Settings) -> Rendered {
    let excluded = excluded(injectors, settings);
    let looked_at = injectors.iter().filter(|injector| injector.is_looked_at());
    let both = |injector: &Injector| {
        let name = format!("{}{SUFFIX}", injector.profile.name);
        let actions: &[&str] = match injector.profile.mode {
            Mode::Warn => &["Warn", "Audit"],
            Mode::Enforce | Mode::Disabled => &["Deny"],
        };
        [
            policy(&name, injector, &excluded, settings),
            binding(&name, actions, settings),
        ]
    };
    Rendered {
        objects: looked_at.flat_map(both).collect(),
        notes: Vec::new(),
    }
}

/// The binding of a policy to the whole cluster.
pub(super) fn binding(name: &str, actions: &[&str], settings: &Settings) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": metadata(name, settings),
        "spec": {
            "policyName": name,
            "validationActions": actions,
            "matchResources": everywhere(),
        },
    })
}

/// Where a binding holds: said, so that whoever narrows it changes something of ours.
pub(super) fn everywhere() -> Value {
    json!({"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}})
}

fn policy(name: &str, injector: &Injector, excluded: &[&str], settings: &Settings) -> Value {
    let plan = Plan::new(injector, excluded);
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": metadata(name, settings),
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "matchPolicy": "Equivalent",
                "namespaceSelector": selector(injector, excluded),
                "objectSelector": {},
                "resourceRules": [rule("pods")],
            },
            "matchConditions": exemptions::conditions(),
            "variables": variables(injector, &plan),
            "validations": validations(injector, &plan),
        },
    })
}

/// Where the injector acts: by names alone.
fn selector(injector: &Injector, excluded: &[&str]) -> Value {
    let scope = &injector.profile.namespaces;
    let mut never: Vec<&str> = excluded.to_vec();
    never.extend(scope.except.iter().map(String::as_str));
    never.sort_unstable();
    never.dedup();
    let mut terms = vec![json!({"key": NAMESPACE_NAME, "operator": "NotIn", "values": never})];
    if let Some(only) = &scope.only {
        terms.push(json!({"key": NAMESPACE_NAME, "operator": "In", "values": only}));
    }
    json!({"matchExpressions": terms})
}

/// What expressions share. Evaluated when they are first asked for, and once.
fn variables(injector: &Injector, plan: &Plan) -> Value {
    let mut variables = vec![
        ("labels", "object.metadata.?labels.orValue({})".to_owned()),
        (
            "annotations",
            "object.metadata.?annotations.orValue({})".to_owned(),
        ),
        (
            "namespaceLabels",
            "namespaceObject.metadata.?labels.orValue({})".to_owned(),
        ),
        (
            "namespaceAnnotations",
            "namespaceObject.metadata.?annotations.orValue({})".to_owned(),
        ),
        (
            "containers",
            "object.spec.?containers.orValue([])".to_owned(),
        ),
        (
            "initContainers",
            "object.spec.?initContainers.orValue([])".to_owned(),
        ),
        (
            "nativeSidecars",
            "variables.initContainers.filter(c, c.?restartPolicy.orValue('') == 'Always')"
                .to_owned(),
        ),
    ];
    // The number of the rule that decides, 0 if none does.
    match &plan.home {
        None => variables.push(("rule", first(&plan.ordinary))),
        Some(home) => {
            variables.push(("ruleOfLabels", first(&plan.ordinary)));
            // In the injector's own namespace, only what the pod says can ask for it.
            variables.push(("ruleOfPod", first(&home.asked)));
            let is_home = Scope::Policy.print(&Expr::namespace([home.namespace.as_str()]));
            let switched_off = format!("variables.ruleOfLabels in {}", numbers(&home.off));
            let asks = format!("variables.ruleOfPod in {}", numbers(&home.asking));
            variables.push((
                "rule",
                format!(
                    "{is_home}\n? ({asks} && !({switched_off}) ? variables.ruleOfPod : 0)\n: \
                     variables.ruleOfLabels"
                ),
            ));
        }
    }
    variables.push(("holdsSidecar", lines(&plan.injected)));
    variables.extend(message::variables(injector));
    let all = variables
        .into_iter()
        .map(|(name, expression)| json!({"name": name, "expression": expression}));
    all.collect()
}

/// A condition with a line for each way in which it can hold.
fn lines(expr: &Expr) -> String {
    let Expr::Any(parts) = expr else {
        return Scope::Policy.print(expr);
    };
    let parts = parts
        .iter()
        .map(|part| Scope::Policy.operand_of_choice(part));
    parts.collect::<Vec<_>>().join(" ||\n")
}

/// The number of the first that holds.
fn first(rules: &[(usize, Expr)]) -> String {
    let lines = rules
        .iter()
        .map(|(number, expr)| format!("{} ? {number} :\n", Scope::Policy.operand_of_choice(expr)));
    lines.chain(["0".to_owned()]).collect()
}

fn numbers(list: &[usize]) -> String {
    let list: Vec<String> = list.iter().map(usize::to_string).collect();
    format!("[{}]", list.join(", "))
}

fn validations(injector: &Injector, plan: &Plan) -> Value {
    let mut validations = Vec::new();
    if !plan.invalid.is_empty() {
        validations.push(json!({
            "expression": format!("!(variables.rule in {})", numbers(&plan.invalid)),
            "message": message::plain_invalid(injector),
            "messageExpression": message::invalid(injector, &plan.invalid),
            "reason": "Forbidden",
        }));
    }
    if !plan.required.is_empty() {
        validations.push(json!({
            "expression": format!(
                "!(variables.rule in {}) || variables.holdsSidecar", numbers(&plan.required)
            ),
            "message": message::plain_missing(injector),
            "messageExpression": message::missing(injector, &plan.required),
            "reason": "Forbidden",
        }));
    }
    json!(validations)
}
