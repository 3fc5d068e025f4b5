//! What an answer to a readable review must look like, whatever it says, and what it says.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hyper::StatusCode;
use meshgate::metrics::Hook;
use serde_json::{Map, Value};

use crate::support::client;

/// Key of the mark.
pub(crate) const MARK: &str = "meshgate.io/admitted";
/// The API server cuts warnings short where all of them together are longer, in characters.
const LONGEST_WARNINGS: usize = 4096;
/// A rule's own warning (case 24); what mode `warn` says in place of a refusal is longer.
const LONGEST_RULE_WARNING: usize = 120;

/// An answer, taken apart.
#[derive(Debug)]
pub(crate) struct Verdict {
    pub(crate) allowed: bool,
    /// 0 if allowed.
    pub(crate) code: u64,
    pub(crate) message: String,
    /// `decision` and `reason` of the audit annotations.
    pub(crate) decision: String,
    pub(crate) reason: String,
    pub(crate) warnings: Vec<String>,
    /// The operations of the patch.
    pub(crate) patch: Option<Value>,
}

impl Verdict {
    /// Takes an answer apart. What no answer may be is added to `wrong`.
    pub(crate) fn of(
        hook: Hook,
        uid: &str,
        answer: &client::Answer,
        wrong: &mut Vec<String>,
    ) -> Option<Self> {
        if answer.status != StatusCode::OK {
            let text = String::from_utf8_lossy(&answer.body);
            wrong.push(format!("HTTP {}, expected 200: {text}", answer.status));
            return None;
        }
        let body: Value = match serde_json::from_slice(&answer.body) {
            Ok(body) => body,
            Err(error) => {
                wrong.push(format!("the answer is not JSON: {error}"));
                return None;
            }
        };
        if answer.header("content-type") != "application/json" {
            wrong.push(format!("content type {}", answer.header("content-type")));
        }
        envelope(&body, uid, wrong);
        let verdict = Self::read(&body["response"], wrong);
        verdict.hold(hook, &body["response"], wrong);
        Some(verdict)
    }

    fn read(response: &Value, wrong: &mut Vec<String>) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let warnings = response["warnings"].as_array().into_iter().flatten();
        Self {
            allowed: response["allowed"].as_bool().unwrap_or_else(|| {
                wrong.push("allowed is not there".to_owned());
                false
            }),
            code: response["status"]["code"].as_u64().unwrap_or_default(),
            message: text(&response["status"]["message"]),
            decision: text(&response["auditAnnotations"]["decision"]),
            reason: text(&response["auditAnnotations"]["reason"]),
            warnings: warnings.map(text).collect(),
            patch: patch(&response["patch"], wrong),
        }
    }

    /// What holds for every answer (samples README, cases 4 to 8 and 20).
    fn hold(&self, hook: Hook, response: &Value, wrong: &mut Vec<String>) {
        let mut expect = |holds: bool, what: &str| {
            if !holds {
                wrong.push(format!("{what}: {response}"));
            }
        };
        let known = ["uid", "allowed", "status", "patch", "patchType", "warnings"];
        let only = |value: &Value, known: &[&str]| {
            let keys = value.as_object().map(Map::keys).into_iter().flatten();
            keys.clone().all(|key| known.contains(&key.as_str()))
        };
        let known: Vec<&str> = known.into_iter().chain(["auditAnnotations"]).collect();
        expect(only(response, &known), "an unknown key in the response");
        let status = &response["status"];
        let in_status = ["status", "code", "reason", "message"];
        expect(
            only(status, &in_status),
            "no details, nothing but four keys",
        );
        expect(
            self.allowed == status.is_null(),
            "a status with refusals only",
        );
        if !self.allowed {
            let word = match self.code {
                503 => "ServiceUnavailable",
                403 => "Forbidden",
                400 => "BadRequest",
                _ => "",
            };
            expect(status["reason"] == word, "reason and code of a refusal");
            expect(status["status"] == "Failure", "status of a refusal");
            expect(!self.message.is_empty(), "a refusal says why");
            expect(!self.message.contains('\n'), "one line");
        }
        let both = response["patch"].is_string() && response["patchType"] == "JSONPatch";
        let neither = response["patch"].is_null() && response["patchType"].is_null();
        expect(both || neither, "patch and patchType both or neither");
        let may_patch = hook != Hook::Check && self.allowed;
        expect(neither || may_patch, "no patch from refusals and the check");
        let length = |warning: &String| warning.chars().count();
        let fits = |warning: &String| {
            let is_short = length(warning) < LONGEST_RULE_WARNING || self.decision == "warn";
            !warning.is_empty() && is_short && !warning.contains(char::is_control)
        };
        let together = self.warnings.iter().map(length).sum::<usize>();
        expect(self.warnings.iter().all(fits), "length of a warning");
        expect(together <= LONGEST_WARNINGS, "length of all warnings");
        let audit = response["auditAnnotations"].as_object();
        let keys = audit.map(Map::keys).into_iter().flatten();
        expect(
            keys.clone().all(|key| !key.contains('/')),
            "audit keys without a slash",
        );
    }

    /// The pod as the API server goes on with it.
    pub(crate) fn patched(&self, pod: &Value, wrong: &mut Vec<String>) -> Value {
        let mut patched = pod.clone();
        let Some(patch) = &self.patch else {
            return patched;
        };
        let operations = patch.as_array().map(Vec::as_slice).unwrap_or_default();
        let is_ours = |operation: &Value| {
            let path = operation["path"].as_str().unwrap_or_default();
            path == "/metadata/annotations" || path == "/metadata/annotations/meshgate.io~1admitted"
        };
        if operations.len() != 1 || !operations.iter().all(is_ours) {
            wrong.push(format!(
                "expected one operation on our annotation, found {patch}"
            ));
        }
        let applied = serde_json::from_value::<json_patch::Patch>(patch.clone())
            .map_err(|error| error.to_string())
            .and_then(|patch| {
                json_patch::patch(&mut patched, &patch).map_err(|error| error.to_string())
            });
        if let Err(error) = applied {
            wrong.push(format!("the patch {patch} does not apply: {error}"));
        }
        patched
    }
}

fn envelope(body: &Value, uid: &str, wrong: &mut Vec<String>) {
    let mut expect = |name: &str, found: &Value, wanted: &str| {
        if found != wanted {
            wrong.push(format!("{name} is {found}, expected {wanted}"));
        }
    };
    expect("apiVersion", &body["apiVersion"], "admission.k8s.io/v1");
    expect("kind", &body["kind"], "AdmissionReview");
    expect("response.uid", &body["response"]["uid"], uid);
}

fn patch(patch: &Value, wrong: &mut Vec<String>) -> Option<Value> {
    let text = patch.as_str()?;
    let bytes = BASE64_STANDARD.decode(text).map_err(|e| e.to_string());
    let patch = bytes.and_then(|bytes| {
        serde_json::from_slice::<Value>(&bytes).map_err(|error| error.to_string())
    });
    match patch {
        Ok(patch) if patch.as_array().is_some_and(|list| !list.is_empty()) => Some(patch),
        Ok(patch) => {
            wrong.push(format!("the patch is {patch}, expected operations"));
            None
        }
        Err(error) => {
            wrong.push(format!("the patch cannot be read: {error}"));
            None
        }
    }
}

/// Our annotation on a pod.
pub(crate) fn mark_of(pod: &Value) -> Option<&str> {
    pod["metadata"]["annotations"][MARK].as_str()
}

/// The pod with our annotation at this value, or without it. A pod without annotations stays so
/// if nothing is to be set.
pub(crate) fn with_mark(pod: &Value, mark: Option<&str>) -> Value {
    let mut pod = pod.clone();
    match mark {
        Some(mark) => {
            let annotations = &mut pod["metadata"]["annotations"];
            if annotations.is_null() {
                *annotations = Value::Object(Map::new());
            }
            annotations[MARK] = mark.into();
        }
        None => {
            let annotations = pod.pointer_mut("/metadata/annotations");
            if let Some(annotations) = annotations.and_then(Value::as_object_mut) {
                annotations.remove(MARK);
            }
        }
    }
    pod
}
