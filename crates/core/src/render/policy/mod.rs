//! The check as policies that the API server evaluates itself: one per injector, exact.
//!
//! A policy looks at the pod as all mutating webhooks left it, and holds with no replica of meshgate
//! running. It knows nothing of readiness. Its verdict is that of `decision::check`, and its sentence that
//! of `message::refusal`.

mod plan;

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::condition::Expr;
use crate::condition::cel::Scope;
use crate::injector::profile::Mode;
use crate::injector::{Injector, Injectors};
use crate::list::listed;
use crate::message::policy as message;
use crate::names::{NAMESPACE_NAME, POLICIES};

use super::{Settings, excluded, exemptions, object};

pub(super) use self::plan::Plan;

/// A policy and its binding for each injector in mode `enforce` or `warn`.
pub fn objects(injectors: &Injectors, settings: &Settings) -> Vec<Value> {
    let excluded = excluded(injectors, settings);
    let looked_at = injectors.iter().filter(|injector| injector.is_looked_at());
    let both = |injector: &Injector| {
        let name = format!("{}{POLICIES}", injector.profile.name);
        let actions: &[&str] = match injector.profile.mode {
            Mode::Warn => &["Warn", "Audit"],
            Mode::Enforce | Mode::Disabled => &["Deny"],
        };
        let spec = spec(injector, &excluded);
        object::validating_policy(&name, actions, spec, settings)
    };
    looked_at.flat_map(both).collect()
}

fn spec(injector: &Injector, excluded: &[&str]) -> Value {
    let plan = Plan::new(injector, excluded);
    let mut variables = variables(injector, &plan);
    let operations: &[&str] = if plan.replaced == Expr::FALSE {
        &["CREATE"]
    } else {
        &["CREATE", "UPDATE"]
    };
    let rules = object::rules("", operations, &["pods"], "Namespaced");
    let concerned = json!({"name": CONCERNED, "expression": concerned(&plan)});
    let mut spec = json!({
        "matchConstraints":
            object::constraints(selector(injector, excluded), rules),
        "validations": [validation(injector, &plan)],
    });
    // Match conditions cost least, and see no namespace.
    if plan.by_pod {
        spec["matchConditions"] = json!([concerned]);
    } else {
        variables.insert(0, concerned);
    }
    spec["variables"] = variables.into();
    spec
}

/// Name of the match condition, or of the variable, that does not hold for most pods. The API server
/// evaluates validations and their sentences for every pod: so what is cheap and says "no" comes first.
const CONCERNED: &str = "concerned";

/// Pods of an update are concerned only where it is to be refused.
const IS_UPDATE: &str = "request.operation == 'UPDATE'";

/// Whether a rule can need anything of the pod, which is not exempt.
fn concerned(plan: &Plan) -> String {
    let mut keys = Scope::Pod.operand_of_choice(&plan.concerned);
    if plan.replaced != Expr::FALSE {
        let replaced = Scope::Pod.operand_of_choice(&plan.replaced);
        keys = format!("({IS_UPDATE} ? {replaced} : {keys})");
    }
    let all = std::iter::once(keys).chain(exemptions::expressions().map(str::to_owned));
    all.collect::<Vec<_>>().join(" &&\n")
}

/// The namespaces in which the injector acts, by their names alone.
fn selector(injector: &Injector, excluded: &[&str]) -> Value {
    let scope = &injector.profile.namespaces;
    let except = scope.except.iter().map(String::as_str);
    let never: BTreeSet<&str> = excluded.iter().copied().chain(except).collect();
    let mut terms = vec![json!({"key": NAMESPACE_NAME, "operator": "NotIn", "values": never})];
    if let Some(only) = &scope.only {
        terms.push(json!({"key": NAMESPACE_NAME, "operator": "In", "values": only}));
    }
    json!({"matchExpressions": terms})
}

/// Variables that every policy has. The API server evaluates each at its first use, and once.
const VARIABLES: [(&str, &str); 7] = [
    ("labels", "object.metadata.?labels.orValue({})"),
    ("annotations", "object.metadata.?annotations.orValue({})"),
    (
        "namespaceLabels",
        "namespaceObject.metadata.?labels.orValue({})",
    ),
    (
        "namespaceAnnotations",
        "namespaceObject.metadata.?annotations.orValue({})",
    ),
    ("containers", "object.spec.?containers.orValue([])"),
    ("initContainers", "object.spec.?initContainers.orValue([])"),
    (
        "nativeSidecars",
        "variables.initContainers.filter(c, c.?restartPolicy.orValue('') == 'Always')",
    ),
];

fn variables(injector: &Injector, plan: &Plan) -> Vec<Value> {
    let every = VARIABLES.map(|(name, expression)| (name, expression.to_owned()));
    let mut variables = every.to_vec();
    // `rule` is the number of the rule that decides, 0 if none does.
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
    format!("[{}]", listed(list))
}

fn validation(injector: &Injector, plan: &Plan) -> Value {
    let mut refused = Vec::new();
    if plan.replaced != Expr::FALSE {
        refused.push((IS_UPDATE.to_owned(), message::image_replaced(injector)));
    }
    if !plan.opt_outs.is_empty() {
        refused.push((
            format!("variables.rule in {}", numbers(&plan.opt_outs)),
            message::opts_out(injector, &plan.opt_outs),
        ));
    }
    if !plan.invalid.is_empty() {
        refused.push((
            format!("variables.rule in {}", numbers(&plan.invalid)),
            message::invalid(injector, &plan.invalid),
        ));
    }
    if !plan.required.is_empty() {
        let required = numbers(&plan.required);
        refused.push((
            format!("variables.rule in {required} && !variables.holdsSidecar"),
            message::missing(injector, &plan.required),
        ));
    }
    let any: Vec<&str> = refused.iter().map(|(when, _)| when.as_str()).collect();
    let any = any.join(" || ");
    let (any, else_silent) = match plan.by_pod {
        true => (any, ""),
        false => (
            format!("variables.concerned && ({any})"),
            "!variables.concerned ? '' :\n",
        ),
    };
    let sentences = refused
        .iter()
        .map(|(when, said)| format!("{when} ?\n{said} :\n"));
    let sentences: String = sentences.collect();
    json!({
        "expression": format!("!({any})"),
        "message": message::plain(injector),
        "messageExpression": format!("{else_silent}{sentences}''"),
        "reason": "Forbidden",
    })
}
