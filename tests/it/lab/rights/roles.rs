//! The smallest parts of roles, each of which is either used or not needed.

use std::fmt;

use serde_json::Value;

use super::audit::Call;

/// One verb on one resource, of one name if the rule has names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Grant {
    /// `meshgate-serve`.
    pub(super) role: String,
    /// Empty for a ClusterRole.
    namespace: String,
    group: String,
    resource: String,
    name: Option<String>,
    verb: String,
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            role,
            namespace,
            group,
            resource,
            verb,
            ..
        } = self;
        let name = self.name.as_deref().unwrap_or_default();
        write!(f, "{role}: {verb} {resource}.{group}/{name}")?;
        if namespace.is_empty() {
            return Ok(());
        }
        write!(f, " in {namespace}")
    }
}

fn texts<'v>(rule: &'v Value, field: &str) -> Vec<&'v str> {
    let list = rule[field].as_array().into_iter().flatten();
    list.map(|text| text.as_str().unwrap()).collect()
}

/// All of a role.
pub(super) fn grants(role: &Value) -> Vec<Grant> {
    let metadata = &role["metadata"];
    let mut grants = Vec::new();
    for rule in role["rules"].as_array().into_iter().flatten() {
        let names = texts(rule, "resourceNames");
        let names: Vec<Option<&str>> = match names.is_empty() {
            true => vec![None],
            false => names.into_iter().filter(is_tried).map(Some).collect(),
        };
        for group in texts(rule, "apiGroups") {
            for resource in texts(rule, "resources") {
                for verb in texts(rule, "verbs") {
                    grants.extend(names.iter().map(|name| {
                        Grant {
                            role: metadata["name"].as_str().unwrap().to_owned(),
                            namespace: metadata["namespace"]
                                .as_str()
                                .unwrap_or_default()
                                .to_owned(),
                            group: group.to_owned(),
                            resource: resource.to_owned(),
                            name: name.map(str::to_owned),
                            verb: verb.to_owned(),
                        }
                    }));
                }
            }
        }
    }
    grants
}

impl Grant {
    /// Whether this request took it. A server-side apply that creates takes `create` besides `patch`, and
    /// is told by its answer alone.
    pub(super) fn is_used_by(&self, call: &Call) -> bool {
        let is_verb = match &*self.verb {
            "create" => call.verb == "create" || call.verb == "patch" && call.code == 201,
            verb => call.verb == verb,
        };
        is_verb
            && call.group == self.group
            && call.resource == self.resource
            && (self.namespace.is_empty() || call.namespace == self.namespace)
            && self.name.as_ref().is_none_or(|name| *name == call.name)
    }
}

/// The checks of all presets have the same rights. One of them is tried.
fn is_tried(name: &&str) -> bool {
    *name == "linkerd.check.meshgate.io" || !name.ends_with(".check.meshgate.io")
}
