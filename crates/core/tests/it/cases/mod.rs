//! Runs `tests/cases` on the core alone: all but those that are about a request's envelope, a namespace
//! that is not known, or objects that the view of the cluster has to make sense of. The root package
//! runs all of them, over TLS.

mod cluster;
mod format;
mod policies;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::rc::Rc;

use meshgate_core::decision::reason::Reason;
use meshgate_core::decision::verdict::Verdict;
use meshgate_core::decision::{Decision, check, exemption, gate, replaced, requirement};
use meshgate_core::injector::{Injectors, PRESETS};
use meshgate_core::names::ADMITTED;
use meshgate_core::view::namespace::NamespaceView;
use meshgate_core::view::pod::PodView;
use serde_json::{Map, Value};

use self::cluster::Cluster;
use self::format::{Case, Covers, Expected, File, Overlay};

/// The folder of the cases.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/cases");

/// Fewer cases than there were when this was written are a loss, not a success.
const FEWEST_CASES: usize = 380;

/// Folders for what all presets share.
const SHARED: [&str; 3] = ["core", "endpoints", "exemptions"];

/// Groups of the ReplicaSet controller, which asks unless a case says who does.
const GROUPS: [&str; 2] = ["system:serviceaccounts", "system:authenticated"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hook {
    Gate,
    Check,
}

#[test]
fn every_case_is_decided_as_it_says() {
    let (mut total, mut report) = (0, String::new());
    let mut configurations = Configurations::default();
    for file in &format::files() {
        for case in file.cases.iter().filter(|case| needs_no_server(case)) {
            total += 1;
            let wrong = wrong(case, &configurations.of(case, file));
            if !wrong.is_empty() {
                write!(report, "\n{}: {}\n{wrong}", file.name, case.name).unwrap();
            }
        }
    }
    assert!(report.is_empty(), "{report}");
    assert!(
        total >= FEWEST_CASES,
        "{total} cases, expected {FEWEST_CASES} at least"
    );
}

fn needs_no_server(case: &Case) -> bool {
    let of_request = case.request == Overlay::default() || updated(case).is_some();
    case.objects.is_empty() && !case.namespace.unknown && of_request
}

/// The object before the update, if the request is nothing but one.
fn updated(case: &Case) -> Option<&Value> {
    let old = case.request.old_object.as_ref()?;
    let update = Overlay {
        operation: Some("UPDATE".to_owned()),
        old_object: Some(old.clone()),
        ..Overlay::default()
    };
    (case.request == update).then_some(old)
}

/// The configurations of cases by their texts, each read once: most cases of a file have the same.
#[derive(Default)]
struct Configurations(BTreeMap<String, Rc<Injectors>>);

impl Configurations {
    fn of(&mut self, case: &Case, file: &File) -> Rc<Injectors> {
        let text = case.configuration(&file.folder);
        let known = self.0.entry(text).or_insert_with_key(|text| {
            let injectors = Injectors::from_yaml(&file.name, text.as_bytes());
            let injectors =
                injectors.unwrap_or_else(|error| panic!("{error}: {}\n{text}", case.name));
            Rc::new(injectors.excluding("meshgate-system"))
        });
        Rc::clone(known)
    }
}

fn wrong(case: &Case, injectors: &Injectors) -> String {
    let cluster = Cluster::of(case, injectors);
    let mut calls = vec![
        ("gate", Hook::Gate, &case.pod, &case.gate),
        ("check", Hook::Check, &case.pod, &case.check),
    ];
    if let (Some(pod), Some(expected)) = (&case.pod_injected, &case.check_injected) {
        calls.push(("checkInjected", Hook::Check, pod, expected));
    }
    let mut text = String::new();
    for (name, hook, pod, expected) in calls {
        let json = pod.to_string();
        let call = Call {
            case,
            hook,
            injectors,
            cluster: &cluster,
        };
        call.decide(&json, |decision, view| {
            for line in compare(expected, decision, pod, view) {
                writeln!(text, "  {name}: {line}").unwrap();
            }
        });
    }
    text
}

struct Call<'c> {
    case: &'c Case,
    hook: Hook,
    injectors: &'c Injectors,
    cluster: &'c Cluster,
}

impl Call<'_> {
    /// In the order of design section 5, as the server does it.
    fn decide(&self, json: &str, look: impl FnOnce(&Decision<'_>, Option<&PodView<'_>>)) {
        let namespace = &self.case.namespace;
        if self.injectors.excludes(&namespace.name) {
            return look(&Decision::admit(Reason::ExcludedNamespace), None);
        }
        let old = updated(self.case).map(Value::to_string);
        if old.is_some() && self.hook == Hook::Gate {
            return look(&Decision::admit(Reason::NotAPodCreate), None);
        }
        let pod = match PodView::read(json, self.injectors.keys()) {
            Ok(pod) => pod,
            Err(error) => return look(&Decision::unreadable(&error), None),
        };
        let groups = self
            .case
            .user
            .as_ref()
            .and_then(|user| user.groups.as_ref());
        let is_in_group = |group: &str| match groups {
            Some(groups) => groups.iter().any(|own| own == group),
            None => GROUPS.contains(&group),
        };
        if let Some(reason) = exemption::of(&pod, is_in_group) {
            return look(&Decision::admit(reason), Some(&pod));
        }
        if let Some(old) = &old {
            let old = PodView::read(old, self.injectors.keys()).unwrap();
            let pods = (&old, &pod);
            let decision = replaced::decide(pods, &namespace.name, self.injectors, |_| false);
            return look(&decision, Some(&pod));
        }
        let view = NamespaceView::new(
            &namespace.name,
            texts(&namespace.labels),
            texts(&namespace.annotations),
            self.injectors.keys(),
        );
        let requirement = requirement::of(&pod, &view, self.injectors);
        let readiness = |one: &requirement::RuleMatch<'_>| {
            self.cluster.readiness(
                &self.injectors.get(one.number).unwrap().profile,
                one.instance(),
            )
        };
        let decision = match self.hook {
            Hook::Gate => gate::decide(&pod, &requirement, readiness),
            Hook::Check => check::decide(&pod, &requirement, readiness),
        };
        self.is_the_same_without_the_rest(&pod, &view, &decision);
        look(&decision, Some(&pod));
    }

    /// What the leader keeps of a pod decides as the pod does.
    fn is_the_same_without_the_rest(
        &self,
        pod: &PodView<'_>,
        view: &NamespaceView,
        decision: &Decision<'_>,
    ) {
        let keys = self.injectors.keys();
        let kept = pod.compact(keys).to_string();
        let kept = PodView::read(&kept, keys).unwrap();
        assert_eq!(kept.compact(keys), pod.compact(keys));
        let requirement = requirement::of(&kept, view, self.injectors);
        let readiness = |one: &requirement::RuleMatch<'_>| {
            let profile = &self.injectors.get(one.number).unwrap().profile;
            self.cluster.readiness(profile, one.instance())
        };
        let found = match self.hook {
            Hook::Gate => gate::decide(&kept, &requirement, readiness),
            Hook::Check => check::decide(&kept, &requirement, readiness),
        };
        let words = |one: &Decision<'_>| (one.verdict, one.reason, one.required.join(","));
        assert_eq!(words(&found), words(decision), "{}", self.case.name);
        assert_eq!(exemption::of(&kept, |_| false), None);
    }
}

fn texts(map: &Map<String, Value>) -> impl Iterator<Item = (&str, &str)> {
    map.iter()
        .map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
}

fn compare(
    expected: &Expected,
    found: &Decision<'_>,
    pod: &Value,
    view: Option<&PodView<'_>>,
) -> Vec<String> {
    let mut wrong = Vec::new();
    let verdict = match expected.decision {
        format::Decision::Mark => Verdict::Mark,
        format::Decision::Admit | format::Decision::Unmark => Verdict::Admit,
        format::Decision::Warn => Verdict::Warn,
        format::Decision::Defer => Verdict::Defer,
        format::Decision::Deny => Verdict::Deny,
        format::Decision::Unreadable => Verdict::Unreadable,
    };
    if (found.verdict, found.reason.as_str()) != (verdict, &expected.reason) {
        let reason = &expected.reason;
        wrong.push(format!(
            "expected {verdict:?} for {reason}, found {found:?}"
        ));
    }
    let message = &found.message;
    let absent = expected
        .message
        .iter()
        .filter(|text| !message.contains(*text));
    wrong.extend(absent.map(|text| format!("expected {text:?} in {message:?}")));
    let mut pairs = expected.warnings.iter().zip(&found.warnings);
    if expected.warnings.len() != found.warnings.len()
        || !pairs.all(|(text, warning)| warning.contains(text))
    {
        let (expected, found) = (&expected.warnings, &found.warnings);
        wrong.push(format!("expected warnings {expected:?}, found {found:?}"));
    }
    let came = pod["metadata"]["annotations"][ADMITTED].as_str();
    let wanted = match expected.decision {
        format::Decision::Mark | format::Decision::Warn => expected.mark.as_deref(),
        format::Decision::Unmark => None,
        format::Decision::Admit
        | format::Decision::Defer
        | format::Decision::Deny
        | format::Decision::Unreadable => came,
    };
    let mut after = pod.clone();
    if let Some(patch) = view.and_then(|view| found.mark.patch(view)) {
        let patch: json_patch::Patch = serde_json::from_str(&patch).unwrap();
        json_patch::patch(&mut after, &patch).unwrap();
    }
    let mark = after["metadata"]["annotations"][ADMITTED].as_str();
    if mark != wanted {
        wrong.push(format!("expected mark {wanted:?}, found {mark:?}"));
    }
    wrong
}

#[test]
fn every_preset_has_a_case_of_each_kind_and_every_file_an_owner() {
    let files = format::files();
    let presets: Vec<&str> = PRESETS.iter().map(|(name, _)| *name).collect();
    let wanted = [
        Covers::Required,
        Covers::OptedOut,
        Covers::UnknownValue,
        Covers::NativeSidecar,
    ];
    let mut missing = String::new();
    for preset in &presets {
        let of_preset = files.iter().filter(|file| file.folder == *preset);
        let covered: Vec<Covers> = of_preset
            .flat_map(|file| &file.cases)
            .map(|case| case.covers)
            .collect();
        for kind in wanted.iter().filter(|kind| !covered.contains(kind)) {
            writeln!(
                missing,
                "tests/cases/{preset} has no case with `covers: {}`",
                kind.as_str()
            )
            .unwrap();
        }
    }
    for file in &files {
        let folder = file.folder.as_str();
        if !presets.contains(&folder) && !SHARED.contains(&folder) {
            writeln!(missing, "{} belongs to no preset", file.name).unwrap();
        }
    }
    for path in format::entries(&format::folder()) {
        if path.is_file() && !path.ends_with("README.md") {
            writeln!(missing, "{} is in no folder", path.display()).unwrap();
        }
    }
    assert!(missing.is_empty(), "\n{missing}");
}

#[test]
fn names_of_cases_are_unique_in_their_file() {
    for file in format::files() {
        let mut names = BTreeSet::new();
        for case in &file.cases {
            assert!(names.insert(&case.name), "{}: {}", file.name, case.name);
        }
    }
}

#[test]
fn a_case_file_is_read_strictly() {
    let case = "name: a case\ncovers: other\nstate: up\nnamespace: {name: a}\npod: {}\n\
                gate: {decision: admit, reason: not_required}\n\
                check: {decision: admit, reason: not_required}\n";
    let flaw = |text: String| format::read_cases("f.yaml", text.as_bytes()).unwrap_err();
    assert_eq!(
        format::read_cases("f.yaml", case.as_bytes()).unwrap().len(),
        1
    );
    assert!(flaw(format!("{case}gat: {{}}\n")).contains("gat"));
    assert!(flaw(case.replace("reason", "raeson")).contains("raeson"));
    assert!(flaw(case.replace("state: up", "state: upp")).contains("f.yaml:3"));
    assert!(flaw(case.replace("check:", "# check:")).contains("check"));
    assert!(flaw(case.replace("decision: admit", "decision: mark")).contains("a value"));
    assert!(flaw(case.replace("decision: admit", "decision: deny")).contains("to say"));
}
