//! The guard: a policy in the API server that holds webhook configurations of ours to what they are for.
//!
//! It holds for all users, meshgate's own account included: webhooks call meshgate alone, by rules that it
//! renders. The API server admits changes of policies and bindings without asking any policy: RBAC is the
//! wall.

use serde_json::{Value, json};

use crate::break_glass::note::{self, CEL_NOTE, CEL_TAIL, CEL_TIME};
use crate::break_glass::{CONDITION, CONFIGURATIONS};
use crate::condition::cel;
use crate::names::{BREAK_GLASS, GUARD};

use super::{Client, Settings, exemptions, mirror, object};

/// The account that removes the registration when its owner is deleted.
const COLLECTOR: &str = "system:serviceaccount:kube-system:generic-garbage-collector";

/// How all paths of meshgate begin.
const PATHS: [&str; 2] = ["/mutate/", "/validate/"];

/// The policy and its binding.
pub(super) fn objects(settings: &Settings) -> [Value; 2] {
    let resources = [
        "mutatingwebhookconfigurations",
        "validatingwebhookconfigurations",
    ];
    let operations = ["CREATE", "UPDATE", "DELETE"];
    let rules = object::rules(
        "admissionregistration.k8s.io",
        &operations,
        &resources,
        "Cluster",
    );
    let validation = |expression: &str, (message, details): (String, String)| {
        let message_expression = format!("variables.name + {}{details}", cel::text(&message));
        json!({
            "expression": expression,
            "message": format!("this webhook configuration{message}"),
            "messageExpression": message_expression,
            "reason": "Forbidden",
        })
    };
    let spec = json!({
        "matchConstraints": object::constraints(json!({}), rules),
        "matchConditions": conditions(),
        "variables": variables(settings),
        "validations": [
            validation("variables.callsUs", calls_us()),
            validation("variables.isNoted", is_noted()),
            validation("variables.isAsStrict", is_as_strict()),
        ],
        // So that the audit log has who and why.
        "auditAnnotations": [{
            "key": "break-glass",
            "valueExpression": "variables.after != '' ? variables.after : variables.before",
        }],
    });
    object::validating_policy(GUARD, &["Deny"], spec, settings)
}

/// The changes that it looks at.
fn conditions() -> Value {
    let ours = cel::texts(&CONFIGURATIONS.map(str::to_owned));
    json!([
        {
            "name": "ours",
            "expression": format!("(object == null ? oldObject : object).metadata.name in {ours}"),
        },
        {
            "name": "not-the-garbage-collector",
            "expression": format!("request.userInfo.username != {}", cel::text(COLLECTOR)),
        },
    ])
}

fn variables(settings: &Settings) -> Value {
    let key = cel::text(BREAK_GLASS);
    let annotation = |of: &str| {
        format!("{of} == null ? '' : string({of}.metadata.?annotations[?{key}].orValue(''))")
    };
    let webhooks = |of: &str| format!("{of} == null ? [] : {of}.?webhooks.orValue([])");
    let writers = cel::texts(&settings.writers);
    let all = [
        (
            "name",
            "(object == null ? oldObject : object).metadata.name".to_owned(),
        ),
        ("before", annotation("oldObject")),
        ("after", annotation("object")),
        ("old", webhooks("oldObject")),
        ("new", webhooks("object")),
        (
            "suspends",
            format!("variables.after.matches({})", cel::text(CEL_NOTE)),
        ),
        (
            "written",
            format!(
                "object.metadata.?managedFields.orValue([]).filter(m,\n\
                 dyn(m).?fieldsV1[?'f:metadata'][?'f:annotations'][?{}].hasValue())",
                cel::text(&format!("f:{BREAK_GLASS}"))
            ),
        ),
        ("callsUs", calls_us_expression(&settings.client)),
        ("isNoted", is_noted_expression()),
        (
            "isAsStrict",
            format!(
                "request.operation == 'CREATE' || request.userInfo.username in {writers} ||\n\
                 (request.operation == 'DELETE' ? variables.before.matches({note}) :\n\
                 object.metadata.?ownerReferences == oldObject.metadata.?ownerReferences &&\n\
                 (variables.new == variables.old || {}))",
                keeps_all_but_suspension(),
                note = cel::text(CEL_NOTE),
            ),
        ),
    ];
    let variable = |(name, expression)| json!({"name": name, "expression": expression});
    all.map(variable).into_iter().collect()
}

/// Each webhook calls meshgate, by rules that meshgate renders; or an address and rules that it had before. The
/// fence of the chart has the same expression, so it depends on no configuration.
fn calls_us_expression(client: &Client) -> String {
    let rules = [
        mirror::rules(),
        object::creates("configmaps"),
        object::creates("pods"),
        object::updates("pods"),
    ];
    let rules = rules.map(|one| literal(&one)).join(",\n");
    let begins = |field: &str, base: &str| {
        let begins = PATHS.map(|path| {
            let prefix = cel::text(&format!("{base}{path}"));
            format!("{field}.orValue('').startsWith({prefix})")
        });
        format!("({})", begins.join(" || "))
    };
    let address = match client {
        Client::Url(base) => begins("w.clientConfig.?url", base.trim_end_matches('/')),
        // Its ports are not compared: all of them lead to meshgate.
        Client::Service {
            namespace, name, ..
        } => format!(
            "w.clientConfig.?service.?namespace.orValue('') == {} &&\n\
             w.clientConfig.?service.?name.orValue('') == {} &&\n\
             {}",
            cel::text(namespace),
            cel::text(name),
            begins("w.clientConfig.?service.?path", ""),
        ),
    };
    format!(
        "variables.new.all(w, {address} &&\ndyn(w.?rules.orValue([])) in [{rules}] ||\n\
         variables.old.exists(o, o.name == w.name && o.?rules == w.?rules &&\n\
         o.clientConfig.?service == w.clientConfig.?service && o.clientConfig.?url == w.clientConfig.?url))"
    )
}

/// A note that is new says who, why and until when. Policies know no clock. But the API server notes the
/// time in `managedFields` before it asks policies, for the fields that a request changes, and takes these
/// fields from all other entries there. Where there are many, it merges old ones into `ancient-changes`, with
/// the latest time among them, which a client can forge: an honest note is in an entry of its own.
fn is_noted_expression() -> String {
    let (tail, time) = (cel::text(CEL_TAIL), cel::text(CEL_TIME));
    let longest = cel::text(&format!("{}s", note::longest().as_secs()));
    format!(
        "variables.after == '' || variables.after == variables.before ||\n\
         variables.suspends &&\n\
         size(variables.written) > 0 && variables.written.all(m, m.manager != 'ancient-changes' &&\n\
         timestamp(m.time) + duration({longest}) >= timestamp(variables.after.find({tail}).find({time})))"
    )
}

/// Each webhook keeps all but its conditions, and of these meshgate's own as they are. Others may only go; but a
/// note lets the one that suspends come and change.
fn keeps_all_but_suspension() -> String {
    let condition = cel::text(CONDITION);
    let own: Vec<String> = exemptions::names()
        .chain(mirror::CONDITIONS)
        .map(str::to_owned)
        .collect();
    let own = cel::texts(&own);
    format!(
        "size(variables.new) == size(variables.old) &&\n\
         variables.new.all(w, variables.old.exists(o, o.name == w.name &&\n\
         dyn(w).all(k, k == 'matchConditions' || dyn(o)[?k] == dyn(w)[?k]) &&\n\
         dyn(o).all(k, k == 'matchConditions' || k in dyn(w)) &&\n\
         w.?matchConditions.orValue([]).filter(c, c.name in {own}) ==\n\
         o.?matchConditions.orValue([]).filter(c, c.name in {own}) &&\n\
         w.?matchConditions.orValue([]).all(c, c.name in {own} ||\n\
         (c.name == {condition} ? variables.suspends : c in o.?matchConditions.orValue([])))))"
    )
}

/// A message, and what CEL adds to it.
fn calls_us() -> (String, String) {
    let text = " would call something other than meshgate, or by other rules: leave clientConfig and rules \
                as meshgate writes them, or delete meshgate's objects first";
    (text.to_owned(), String::new())
}

fn is_noted() -> (String, String) {
    let text = format!(
        " would be suspended without who, why and an end within 24 hours: write the annotation {BREAK_GLASS} \
         as in \"jane: the mesh is being replaced; until=2026-01-31T12:00:00Z\", or run meshgate break-glass"
    );
    (text, String::new())
}

fn is_as_strict() -> (String, String) {
    let text = format!(
        " would let pods start without their sidecar. Run meshgate break-glass, or set the annotation \
         {BREAK_GLASS} on it with who, why and an end; then it may be deleted, and its webhooks may have a \
         matchCondition {CONDITION}"
    );
    let example = cel::text(&format!(
        " {BREAK_GLASS}=\"jane: the mesh is being replaced; until=TIME\""
    ));
    let details = format!(
        " +\n', for example: kubectl annotate ' + request.resource.resource + ' ' + variables.name +\n{example}"
    );
    (text, details)
}

/// A JSON value as CEL. Values of a map may be of several types there, if they are said to be.
fn literal(value: &Value) -> String {
    match value {
        Value::String(text) => cel::text(text),
        Value::Array(list) => {
            let items = list.iter().map(literal).collect::<Vec<_>>();
            format!("[{}]", items.join(", "))
        }
        Value::Object(map) => {
            let items = map.iter();
            let items =
                items.map(|(key, one)| format!("{}: dyn({})", cel::text(key), literal(one)));
            format!("{{{}}}", items.collect::<Vec<_>>().join(", "))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}
