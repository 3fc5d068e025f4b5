//! The sentences of a policy, as CEL: those of `message`, for who meets the policy
//! alone. One line each: one with a line break, or of more than 5 KiB, would be dropped.

use crate::injector::Injector;
use crate::injector::profile::{InjectedSet, Profile};
use crate::injector::rule::{Place, Rule, Term, Test};

use crate::render::condition::cel::{Scope, text};

use super::plan;

/// Longest value of an annotation that is repeated, in characters.
const LONGEST: usize = 63;

/// What the sentences share.
pub(super) fn variables(injector: &Injector) -> Vec<(&'static str, String)> {
    let name = "object.metadata.?name.orValue('')";
    let pod = format!(
        "'Pod ' + ({name} != '' ? {name} + ' ' : (object.metadata.?generateName.orValue('') != '' ? \
         object.metadata.generateName + ' ' : '')) + 'in namespace ' + request.namespace"
    );
    let mut variables = vec![("pod", pod)];
    variables.push(("wanted", wanted(&injector.profile)));
    variables
}

/// If `messageExpression` fails.
pub(super) fn plain_missing(injector: &Injector) -> String {
    let name = &injector.profile.name;
    format!("the pod requires {name}, and its sidecar is not in it")
}

/// If `messageExpression` fails.
pub(super) fn plain_invalid(injector: &Injector) -> String {
    format!(
        "a label or annotation has a value that {} does not know",
        injector.profile.name
    )
}

/// Parts joined into one text.
fn joined(parts: impl IntoIterator<Item = String>) -> String {
    let parts: Vec<String> = parts.into_iter().collect();
    parts.join(" + ")
}

/// One text by the number of the rule that decided.
fn by_rule<'r>(
    injector: &'r Injector,
    numbers: &[usize],
    one: impl Fn(&'r Rule) -> String,
) -> String {
    let rules = injector
        .active_rules()
        .filter(|rule| numbers.contains(&rule.number));
    let mut texts: Vec<(usize, String)> = rules.map(|rule| (rule.number, one(rule))).collect();
    let Some((_, last)) = texts.pop() else {
        return text("");
    };
    let before = texts
        .iter()
        .map(|(number, text)| format!("variables.rule == {number} ? {text} :\n"));
    let before: String = before.collect();
    if before.is_empty() {
        last
    } else {
        format!("({before}{last})")
    }
}

/// `Namespace orders requires linkerd (annotation linkerd.io/inject=enabled) but the pod lacks …`.
pub(super) fn missing(injector: &Injector, numbers: &[usize]) -> String {
    let profile = &injector.profile;
    let name = &profile.name;
    let requires = by_rule(injector, numbers, |rule| {
        let who = who(rule.is_asked_by_pod());
        let mut parts = vec![who, text(&format!(" requires {name} ("))];
        parts.extend(why(rule));
        joined(parts)
    });
    let mut parts = vec![
        requires,
        text(") but the pod lacks "),
        "variables.wanted".to_owned(),
        text(&format!(
            " (looked for in containers, and in initContainers with restartPolicy Always): {name}'s \
             webhook did not add it"
        )),
    ];
    parts.extend(profile.skips.iter().map(|skip| passed_by(name, skip)));
    if let Some(hint) = &profile.hint {
        parts.push(text(&format!("; {hint}")));
    }
    let place = &profile.service.namespace;
    parts.push(text(&format!(
        "; see kubectl -n {place} get pods and the logs there"
    )));
    parts.join(" +\n")
}

fn who(is_pod: bool) -> String {
    if is_pod {
        "variables.pod".to_owned()
    } else {
        "'Namespace ' + request.namespace".to_owned()
    }
}

/// The terms that decided, with the values that are there.
fn why(rule: &Rule) -> Vec<String> {
    let positive: Vec<&Term> = rule
        .when
        .iter()
        .filter(|term| term.test.is_positive())
        .collect();
    let on_pod = |term: &&&Term| term.key.place.is_on_pod();
    let is_mixed = positive.iter().any(|t| on_pod(&t)) && !positive.iter().all(|t| on_pod(&t));
    let mut named: Vec<&Term> = Vec::new();
    for term in positive {
        if !named.iter().any(|other| other.key == term.key) {
            named.push(term);
        }
    }
    let mut parts = Vec::new();
    for (number, term) in named.iter().enumerate() {
        let and = if number == 0 { "" } else { " and " };
        parts.push(text(&format!(
            "{and}{} {}=",
            term.key.place.noun(),
            term.key.name
        )));
        parts.push(value(term));
        if is_mixed {
            let whose = if term.key.place.is_on_pod() {
                "pod"
            } else {
                "namespace"
            };
            parts.push(text(&format!(" on the {whose}")));
        }
    }
    if parts.is_empty() {
        parts.push(text(&match &rule.option {
            Some(option) => format!("by default: option {option}"),
            None => format!("by default: rule {}", rule.number),
        }));
    }
    parts
}

/// The value of a term's key. Whatever anybody may have written is cut, and kept on one line.
fn value(term: &Term) -> String {
    if let Test::In(values) = &term.test
        && let ([only], false) = (values.list.as_slice(), values.fold)
    {
        return text(only);
    }
    let value = Scope::Policy.value(term.key.place, &term.key.name);
    let is_annotation = matches!(
        term.key.place,
        Place::PodAnnotation | Place::NamespaceAnnotation
    );
    if !is_annotation || matches!(term.test, Test::In(_)) {
        return value;
    }
    format!(
        "({value}.size() > {LONGEST} ? {value}.substring(0, {LONGEST}) + '...' : {value})\
         .replace('\\n', ' ').replace('\\r', ' ')"
    )
}

/// `; linkerd passes by pods with container istio-proxy …`, if there is one.
fn passed_by(name: &str, skip: &str) -> String {
    let is_it = format!("exists(c, c.name == {})", text(skip));
    let said = text(&format!(
        "; {name} passes by pods with container {skip}, so that one pod cannot have both"
    ));
    format!("(variables.containers.{is_it} || variables.initContainers.{is_it} ? {said} : '')")
}

/// What a pod must hold, in words: any one of the sets that count for it.
fn wanted(profile: &Profile) -> String {
    let sets = profile
        .injected
        .iter()
        .filter(|set| profile.is_on(set.option.as_deref()));
    let (always, sometimes): (Vec<&InjectedSet>, Vec<&InjectedSet>) =
        sets.partition(|set| set.when.is_empty());
    let mut words: Vec<String> = Vec::new();
    for set in always {
        let word = in_words(set);
        if !words.contains(&word) {
            words.push(word);
        }
    }
    let first = if words.is_empty() {
        format!("what {}'s configuration names for such a pod", profile.name)
    } else {
        words.join(", or ")
    };
    let more = sometimes.into_iter().map(|set| {
        let when = plan::all(&set.when);
        let said = text(&format!(", or {}", in_words(set)));
        format!("({} ? {said} : '')", Scope::Policy.operand_of_choice(&when))
    });
    joined(std::iter::once(text(&first)).chain(more))
}

fn in_words(set: &InjectedSet) -> String {
    let sidecar = set.sidecar.iter().map(|name| format!("container {name}"));
    let init = set.init.iter().map(|name| format!("init container {name}"));
    sidecar.chain(init).collect::<Vec<_>>().join(" and ")
}

/// `Pod shop in namespace orders has annotation linkerd.io/inject=on, which linkerd does not know …`.
pub(super) fn invalid(injector: &Injector, numbers: &[usize]) -> String {
    let profile = &injector.profile;
    let name = &profile.name;
    by_rule(injector, numbers, |rule| {
        let Some(term) = culprit(rule) else {
            return joined([
                who(true),
                text(&format!(" has a value that {name} does not know")),
            ]);
        };
        let what = format!(" has {} {}=", term.key.place.noun(), term.key.name);
        let accepted = profile.accepted_values(&term.key).join(", ");
        joined([
            who(term.key.place.is_on_pod()),
            text(&what),
            value(term),
            text(&format!(
                ", which {name} does not know, so that it would never inject this pod; accepted \
                 values are {accepted}"
            )),
        ])
    })
}

/// The term whose value is the unknown one: the first that excludes values, of a key that is
/// there; else the last whose key is.
fn culprit(rule: &Rule) -> Option<&Term> {
    let there = |term: &&Term| {
        rule.when
            .iter()
            .any(|other| other.key == term.key && other.test.is_positive())
    };
    let excludes = |term: &&Term| there(term) && matches!(term.test, Test::NotIn(_));
    rule.when
        .iter()
        .find(excludes)
        .or_else(|| rule.when.iter().rev().find(there))
}
