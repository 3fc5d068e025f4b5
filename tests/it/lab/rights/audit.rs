//! The API server's audit log: who asked what of it.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// A request that was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) user: String,
    pub(super) verb: String,
    pub(super) group: String,
    /// With its subresource, as rules have it.
    pub(super) resource: String,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) code: u64,
    /// No role allows it. (Admission refuses with the same code.)
    pub(super) is_forbidden: bool,
}

const POLICY: &str = "apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, Panic]
rules:
- level: Metadata
  userGroups: [system:serviceaccounts:meshgate-system, system:serviceaccounts:on-call]
- level: None
";

fn log(folder: &Path) -> PathBuf {
    folder.join("audit.log")
}

/// What has an API server write its log into this folder.
pub(super) fn flags(folder: &Path) -> Vec<String> {
    let policy = folder.join("policy.yaml");
    fs::write(&policy, POLICY).unwrap();
    vec![
        format!("--audit-policy-file={}", policy.display()),
        format!("--audit-log-path={}", log(folder).display()),
    ]
}

/// What was asked so far.
pub(super) fn calls(folder: &Path) -> Vec<Call> {
    let text = fs::read_to_string(log(folder)).unwrap_or_default();
    // The last line may be in the middle of being written.
    let events = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    events.filter_map(|event| call(&event)).collect()
}

/// Nothing for what is no resource, as discovery is.
fn call(event: &Value) -> Option<Call> {
    let object = event.get("objectRef")?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let resource = text(&object["resource"]);
    Some(Call {
        user: text(&event["user"]["username"]),
        verb: text(&event["verb"]),
        group: text(&object["apiGroup"]),
        resource: match object["subresource"].as_str() {
            Some(sub) => format!("{resource}/{sub}"),
            None => resource,
        },
        namespace: text(&object["namespace"]),
        name: text(&object["name"]),
        code: event["responseStatus"]["code"].as_u64().unwrap_or_default(),
        is_forbidden: event["annotations"]["authorization.k8s.io/decision"] == "forbid",
    })
}
