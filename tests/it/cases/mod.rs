//! Runs `tests/cases` over real TLS against the real router: every case, both calls. The core's own
//! tests run those that need no server, and read the format.

#[path = "../../../crates/core/tests/it/cases/format.rs"]
mod format;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::Arc;

use meshgate::cluster::object::Object;
use meshgate::cluster::store::Store;
use meshgate::metrics::Hook;
use meshgate_core::injector::Injectors;
use serde_json::{Value, json};

use self::format::{Case, Condition, Decision, Expected, File};
use crate::hooks::answer::{Verdict, mark_of, with_mark};
use crate::hooks::{self, Hooks, objects};
use crate::support::client::Client;

/// Fewer cases than there were when this was written are a loss, not a success.
const FEWEST_CASES: usize = 500;

/// The folder of the cases.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases");

#[tokio::test]
async fn every_case_is_answered_as_it_says() {
    let files = format::files();
    let hooks = Hooks::start(hooks::nowhere()).await;
    let mut gate = hooks.client().await;
    let mut check = hooks.client().await;
    let (mut total, mut passed, mut report) = (0, 0, String::new());
    for file in &files {
        for case in &file.cases {
            total += 1;
            let run = Run::new(case, file, total);
            hooks.cluster.replace(run.store());
            let wrong = run.wrong(&mut gate, &mut check).await;
            if wrong.is_empty() {
                passed += 1;
            } else {
                write!(report, "\n{}: {}\n{wrong}", file.name, case.name).unwrap();
            }
        }
    }
    let line = format!("cases: {passed} of {total}");
    assert!(report.is_empty(), "{report}\n{line}");
    assert!(
        total >= FEWEST_CASES,
        "{line}, expected {FEWEST_CASES} at least"
    );
    // Not by `println!`, which cargo shows for failures only.
    writeln!(std::io::stderr(), "{line}").unwrap();
}

/// One case, ready to be run.
struct Run<'c> {
    case: &'c Case,
    injectors: Arc<Injectors>,
    number: usize,
}

impl<'c> Run<'c> {
    fn new(case: &'c Case, file: &File, number: usize) -> Self {
        let configuration = case.configuration(&file.folder);
        let injectors = Injectors::from_yaml(&file.name, configuration.as_bytes());
        let injectors = injectors
            .unwrap_or_else(|error| panic!("{error}: {}\n{configuration}", case.name))
            .excluding("meshgate-system");
        Self {
            case,
            injectors: Arc::new(injectors),
            number,
        }
    }

    fn store(&self) -> Store {
        let case = self.case;
        let names: Vec<&str> = self.injectors.iter().map(|i| &*i.profile.name).collect();
        if let format::State::Each(each) = &case.state {
            let unknown = each.keys().find(|name| !names.contains(&name.as_str()));
            assert_eq!(unknown, None, "{}: a state of no injector", case.name);
        }
        let mut found = self.objects();
        for injector in self.injectors.iter() {
            let profile = &injector.profile;
            match case.condition(&profile.name) {
                Condition::None => {}
                Condition::Absent => found.push(objects::foreign_webhooks()),
                condition @ (Condition::Up | Condition::Down) => {
                    let ready = condition == Condition::Up;
                    found.extend(objects::installed(profile, &self.instances(), ready));
                }
            }
        }
        let namespace = &case.namespace;
        if !namespace.unknown {
            let (labels, annotations) = (json!(namespace.labels), json!(namespace.annotations));
            found.push(objects::namespace(&namespace.name, &labels, &annotations));
        }
        Store::with(Arc::clone(&self.injectors), found)
    }

    /// The objects of the case. Only one about objects that cannot be read may hold such.
    fn objects(&self) -> Vec<Object> {
        let objects = self.case.objects.iter();
        if self.case.cases.contains(&41) {
            return objects.filter_map(objects::watched).collect();
        }
        objects.map(objects::object).collect()
    }

    /// The copies that there are of an injector that has copies: those that the case names.
    fn instances(&self) -> Vec<&'c str> {
        let named = self.case.values().into_iter().chain(["default"]);
        let fits = |name: &&str| !name.is_empty();
        named
            .filter(fits)
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect()
    }

    async fn wrong(&self, gate: &mut Client, check: &mut Client) -> String {
        let case = self.case;
        let mut text = String::new();
        let pod = completed(&case.pod);
        let mut calls = vec![
            ("gate", Hook::Gate, pod.clone(), &case.gate),
            ("check", Hook::Check, pod, &case.check),
        ];
        if let (Some(pod), Some(expected)) = (&case.pod_injected, &case.check_injected) {
            calls.push(("checkInjected", Hook::Check, completed(pod), expected));
        }
        for (name, hook, pod, expected) in calls {
            let client = match hook {
                Hook::Gate => &mut *gate,
                Hook::Check => &mut *check,
                Hook::Namespaces | Hook::Reach => panic!("{hook:?} is not asked about pods"),
            };
            let uid = format!("case-{}-{name}", self.number);
            let mut review = hooks::review(&uid, &case.namespace.name, pod.clone());
            case.lay_over(&mut review);
            let answer = hooks::send(client, hook, review.to_string()).await;
            let mut wrong = Vec::new();
            if let Some(verdict) = Verdict::of(hook, &uid, &answer, &mut wrong) {
                compare(expected, &verdict, &pod, &mut wrong);
            }
            for line in wrong {
                writeln!(text, "  {name}: {line}").unwrap();
            }
        }
        text
    }
}

/// `apiVersion` and `kind` filled in.
fn completed(pod: &Value) -> Value {
    let mut pod = pod.clone();
    if let Some(fields) = pod.as_object_mut() {
        fields.entry("apiVersion").or_insert(json!("v1"));
        fields.entry("kind").or_insert(json!("Pod"));
    }
    pod
}

fn compare(expected: &Expected, found: &Verdict, pod: &Value, wrong: &mut Vec<String>) {
    let (allowed, code, word) = match expected.decision {
        Decision::Mark => (true, 0, "mark"),
        Decision::Admit | Decision::Unmark => (true, 0, "admit"),
        Decision::Warn => (true, 0, "warn"),
        Decision::Defer => (false, 503, "defer"),
        Decision::Deny => (false, 403, "deny"),
        Decision::Unreadable => (false, 400, "unreadable"),
    };
    if (found.allowed, found.code) != (allowed, code) || found.decision != word {
        wrong.push(format!(
            "decision: expected {:?} (allowed {allowed}, code {code}), found {} (allowed {}, code {}) {}",
            expected.decision, found.decision, found.allowed, found.code, found.message
        ));
    }
    if found.reason != expected.reason {
        wrong.push(format!(
            "reason: expected {}, found {}",
            expected.reason, found.reason
        ));
    }
    for text in &expected.message {
        if !found.message.contains(text) {
            wrong.push(format!("message: expected {text:?} in {:?}", found.message));
        }
    }
    compare_warnings(expected, found, wrong);
    compare_pods(expected, found, pod, wrong);
}

fn compare_warnings(expected: &Expected, found: &Verdict, wrong: &mut Vec<String>) {
    let pairs = expected.warnings.iter().zip(&found.warnings);
    let are_there = pairs.clone().all(|(text, warning)| warning.contains(text));
    if !are_there || expected.warnings.len() != found.warnings.len() {
        wrong.push(format!(
            "warnings: expected {:?}, found {:?}",
            expected.warnings, found.warnings
        ));
    }
}

/// The whole pod, as it is after the patch.
fn compare_pods(expected: &Expected, found: &Verdict, pod: &Value, wrong: &mut Vec<String>) {
    let mark = match expected.decision {
        Decision::Mark | Decision::Warn => expected.mark.as_deref(),
        Decision::Unmark => None,
        Decision::Admit | Decision::Defer | Decision::Deny | Decision::Unreadable => mark_of(pod),
    };
    let wanted = match (mark, expected.decision) {
        (None, Decision::Unmark | Decision::Warn) => with_mark(pod, None),
        (None, _) => pod.clone(),
        (Some(mark), _) => with_mark(pod, Some(mark)),
    };
    let is_set = mark_of(pod).is_none() || mark_of(pod) != mark;
    let wants_patch = match expected.decision {
        Decision::Mark => expected.patch.is_none(),
        Decision::Unmark => true,
        Decision::Warn => is_set && mark != mark_of(pod),
        Decision::Admit | Decision::Defer | Decision::Deny | Decision::Unreadable => false,
    };
    if found.patch.is_some() != wants_patch {
        wrong.push(format!(
            "patch: expected {}, found {:?}",
            if wants_patch { "one" } else { "none" },
            found.patch
        ));
    }
    let patched = found.patched(pod, wrong);
    if patched != wanted {
        wrong.push(format!(
            "pod: expected mark {mark:?} and nothing else changed\n    expected {wanted}\n    found    {patched}"
        ));
    }
}
