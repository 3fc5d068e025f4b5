//! The refusals of a policy, in CEL: the twin of `refusal`, for a user who meets the policy alone.
//!
//! Both say the same, by the clauses that they share. The API server knows neither where an injector is
//! installed nor what other injectors say, so that the policy's sentence ends with the namespace that the
//! profile names. Each is one line: the API server drops messages with a line break or of more than 5 KiB.

use crate::condition::Expr;
use crate::condition::cel::{self, Scope, text};
use crate::injector::Injector;
use crate::injector::profile::{ContainerName, InjectedSet, Profile};
use crate::injector::rule::{Place, Rule, Term};
use crate::list::distinct;

use super::clause;

/// Variable: the init containers that are missing where a sidecar is there.
const INIT_MISSING: &str = "initMissing";

/// Longest value of the pod that is repeated, in characters: as [`crate::text::shown`] has it.
const LONGEST: usize = 63;

/// Variables that the sentences share: name and expression.
pub(crate) fn variables(injector: &Injector) -> Vec<(&'static str, String)> {
    let name = "object.metadata.?name.orValue('') != '' ? object.metadata.name : \
                object.metadata.?generateName.orValue('')";
    let pod = format!(
        "'Pod ' + (variables.name == '' ? '' : {} + ' ') + 'in namespace ' + request.namespace",
        cut("variables.name")
    );
    let sets = sets(&injector.profile);
    let init_missing = init_missing(&sets).map(|list| (INIT_MISSING, list));
    let first = [("name", name.to_owned()), ("pod", pod)]
        .into_iter()
        .chain(init_missing);
    first.chain([("problem", problem(&sets))]).collect()
}

/// If `messageExpression` fails.
pub(crate) fn plain(injector: &Injector) -> String {
    let name = &injector.profile.name;
    format!(
        "the pod requires {name} and lacks its sidecar, or has a value that {name} does not know"
    )
}

/// `Namespace orders requires linkerd (annotation linkerd.io/inject=enabled) but the pod has no …`, for
/// the rules with these numbers.
pub(crate) fn missing(injector: &Injector, numbers: &[usize]) -> String {
    let profile = &injector.profile;
    let name = &profile.name;
    let requires = by_rule(injector, numbers, |rule| {
        let start = [
            who(rule.is_asked_by_pod()),
            text(&format!(" requires {name} (")),
        ];
        start.into_iter().chain(why(rule)).collect()
    });
    let mut parts = vec![requires, text(") but "), "variables.problem".to_owned()];
    parts.extend(passed_by(profile));
    let hint = profile.hint.iter().map(|hint| clause::hint(hint));
    let last: String = hint
        .chain([clause::see_logs(&profile.service.namespace)])
        .collect();
    parts.push(text(&last));
    parts.join(" +\n")
}

/// `Pod shop in namespace orders has annotation linkerd.io/inject=on, which linkerd does not know …`.
pub(crate) fn invalid(injector: &Injector, numbers: &[usize]) -> String {
    let profile = &injector.profile;
    by_rule(injector, numbers, |rule| match culprit(rule) {
        None => vec![who(true), text(&clause::unknown_value(&profile.name))],
        Some(term) => vec![
            who(term.key.place.is_on_pod()),
            text(&format!(" has {}", clause::key(&term.key))),
            value(term),
            text(&clause::unknown(profile, &term.key)),
        ],
    })
}

/// `Pod shop in namespace orders opts out of linkerd (annotation linkerd.io/inject=disabled), and …`, for the
/// rules with these numbers.
pub(crate) fn opts_out(injector: &Injector, numbers: &[usize]) -> String {
    let [before, behind] = clause::opts_out(&injector.profile.name).map(|part| text(&part));
    let why = by_rule(injector, numbers, why);
    format!("variables.pod + {before} + {why} + {behind}")
}

/// `Pod shop in namespace orders changes the image of container linkerd-proxy to …`.
pub(crate) fn image_replaced(injector: &Injector) -> String {
    let limits = injector.profile.image_limits().into_iter();
    let choices = limits.map(|(name, images)| {
        let owned: Vec<String> = images.iter().map(|&one| one.to_owned()).collect();
        let found = cel::replaced("filter", name, &owned);
        let [before, between] = clause::IMAGE_REPLACED.map(text);
        let images = text(&clause::images(&injector.profile.name, &images));
        let image = shown(&format!("{found}[0].?image.orValue('')"), false);
        format!(
            "{found}.size() > 0 ? variables.pod + {before} + {found}[0].name + {between} + {image} + \
             {images} :\n"
        )
    });
    format!("({}'')", choices.collect::<String>())
}

/// One text by the number of the rule that decided, joined from parts.
fn by_rule<'r>(
    injector: &'r Injector,
    numbers: &[usize],
    parts: impl Fn(&'r Rule) -> Vec<String>,
) -> String {
    let rules = injector.active_rules();
    let rules = rules.filter(|rule| numbers.contains(&rule.position));
    let mut texts: Vec<_> = rules
        .map(|rule| (rule.position, parts(rule).join(" + ")))
        .collect();
    let Some((_, last)) = texts.pop() else {
        return text("");
    };
    if texts.is_empty() {
        return last;
    }
    let before = texts
        .iter()
        .map(|(number, text)| format!("variables.rule == {number} ? {text} :\n"));
    format!("({}{last})", before.collect::<String>())
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
    let (terms, is_mixed) = clause::reasons(rule);
    if terms.is_empty() {
        return vec![text(&clause::by_default(rule))];
    }
    let mut parts = Vec::new();
    for (number, term) in terms.into_iter().enumerate() {
        let and = if number == 0 { "" } else { " and " };
        parts.push(text(&format!("{and}{}", clause::key(&term.key))));
        parts.push(value(term));
        if is_mixed {
            parts.push(text(clause::whose(&term.key)));
        }
    }
    parts
}

/// The value of a term's key.
fn value(term: &Term) -> String {
    let value = Scope::Policy.value(term.key.place, &term.key.name);
    let is_annotation = matches!(
        term.key.place,
        Place::PodAnnotation | Place::NamespaceAnnotation
    );
    let test = &term.test;
    match test.values.as_slice() {
        [only] if !test.others && !test.fold && !test.trim => text(only),
        // A label is short, and so is a value that a rule names.
        _ if (test.others || test.trim) && is_annotation => shown(&value, test.trim),
        _ => value,
    }
}

/// A text that a user wrote, short and on one line: as [`crate::text::shown`] has it, but for control
/// characters other than line breaks and tabs, and other white space where a rule trims.
fn shown(value: &str, trims: bool) -> String {
    let line = text("\u{fffd}");
    let controls = ["\\n", "\\r", "\\t", "\\u000b", "\\u000c", "\\u0085"];
    let controls = controls.iter().take(if trims { 6 } else { 3 });
    let plain = controls.map(|control| format!(".replace('{control}', {line})"));
    format!("{}{}", cut(value), plain.collect::<String>())
}

/// A text that is not too long.
fn cut(value: &str) -> String {
    let long = text("…");
    format!("({value}.size() > {LONGEST} ? {value}.substring(0, {LONGEST}) + {long} : {value})")
}

/// Containers that make the injector pass the pod by: the first that is there is named.
fn passed_by(profile: &Profile) -> Option<String> {
    let choices = profile.skips.iter().map(|skip| {
        let is_it = format!("exists(c, c.name == {})", text(skip));
        let said = text(&clause::passed_by(&profile.name, skip));
        format!("variables.containers.{is_it} || variables.initContainers.{is_it} ? {said} : ")
    });
    let choices: String = choices.collect();
    (!choices.is_empty()).then(|| format!("({choices}'')"))
}

/// The term whose value is the unknown one: the first that excludes values, of a key that is
/// there; else the last whose key is.
fn culprit(rule: &Rule) -> Option<&Term> {
    let is_there = |term: &&Term| {
        let mut terms = rule.when.iter();
        terms.any(|other| other.key == term.key && other.test.is_positive())
    };
    let mut terms = rule.when.iter().filter(is_there);
    let excludes = terms.clone().find(|term| term.test.excludes());
    excludes.or_else(|| terms.next_back())
}

/// The sets of the profile that may count.
fn sets(profile: &Profile) -> Vec<Set<'_>> {
    let name = profile.name.as_str();
    profile.sets().map(|set| Set { set, name }).collect()
}

fn init_missing(sets: &[Set<'_>]) -> Option<String> {
    let lists: Vec<String> = sets.iter().filter_map(Set::init_missing).collect();
    (!lists.is_empty()).then(|| lists.join(" +\n"))
}

/// The flaw of the set that comes closest, as `decision::injected` finds it.
fn problem(sets: &[Set<'_>]) -> String {
    let mut choices: Vec<String> = Vec::new();
    if init_missing(sets).is_some() {
        let [before, behind] = clause::INIT_MISSING.map(text);
        let names = format!("variables.{INIT_MISSING}");
        choices.push(format!(
            "{names}.size() > 0 ? {before} + {names}.join(' or ') + {behind}"
        ));
    }
    choices.extend(sets.iter().filter_map(Set::foreign_image));
    choices.extend(sets.iter().filter_map(Set::placeholder));
    choices.extend(sets.iter().filter_map(Set::not_restartable));
    let (always, sometimes): (Vec<&Set<'_>>, Vec<_>) = sets.iter().partition(|one| one.is_always());
    let sometimes = sometimes.into_iter().rev();
    choices.extend(sometimes.map(|one| {
        let counts = one.counts_and(Expr::Const(true));
        format!("{counts} ? {}", one.missing())
    }));
    let last = always.first().map(|one| one.missing());
    choices.push(last.unwrap_or_else(|| text(clause::NO_SET)));
    // Sets that differ by their init containers alone have the same flaws otherwise.
    distinct(choices).join(" :\n")
}

/// A set of containers that a pod may hold, and the injector's name.
struct Set<'p> {
    set: &'p InjectedSet,
    name: &'p str,
}

impl Set<'_> {
    /// The set counts for every pod.
    fn is_always(&self) -> bool {
        self.set.when.is_empty()
    }

    /// A container by the name of the sidecar runs, with an image that is none of these and begins with one
    /// of those.
    fn runs(&self, not_image: &[String], images: &[String]) -> Option<Expr> {
        let name = self.set.sidecar.as_ref()?;
        Some(Expr::sidecar(name, not_image, images))
    }

    /// The last container that has the name of the sidecar and may run, and for which this holds.
    fn last(&self, condition: &str) -> Option<String> {
        let running = self.meant(
            "(variables.containers + variables.nativeSidecars)",
            condition,
        )?;
        Some(format!("{running}[{running}.size() - 1]"))
    }

    /// Those of these containers that have the name of the sidecar.
    fn meant(&self, containers: &str, condition: &str) -> Option<String> {
        let is_meant = cel::is_named(self.set.sidecar.as_ref()?);
        Some(format!("{containers}.filter(c, {is_meant}{condition})"))
    }

    /// The name of the sidecar, or of this container where the profile has only how it begins.
    fn sidecar(&self, container: &str) -> String {
        match &self.set.sidecar {
            Some(ContainerName::Exact(name)) => text(name),
            Some(ContainerName::Prefix(_)) | None => format!("{container}.name"),
        }
    }

    /// Whether the set counts for the pod and this holds: what stands before `?`.
    fn counts_and(&self, condition: Expr) -> String {
        let all = Expr::all([Expr::terms(&self.set.when), condition]);
        Scope::Policy.operand_of_choice(&all)
    }

    /// The names of the init containers that are missing, where the sidecar is there.
    fn init_missing(&self) -> Option<String> {
        let runs = self.runs(&self.set.not_image, &self.set.images)?;
        if self.set.init.is_empty() {
            return None;
        }
        let names = cel::texts(&self.set.init);
        let missing =
            format!("{names}.filter(n, !variables.initContainers.exists(c, c.name == n))");
        Some(format!("({} ? {missing} : [])", self.counts_and(runs)))
    }

    fn foreign_image(&self) -> Option<String> {
        let InjectedSet {
            not_image, images, ..
        } = self.set;
        if images.is_empty() {
            return None;
        }
        let no_placeholder = format!(" && !(c.?image.orValue('') in {})", cel::texts(not_image));
        let last = self.last(if not_image.is_empty() {
            ""
        } else {
            &no_placeholder
        })?;
        let [before, between] = clause::IMAGE.map(text);
        let (name, image) = (
            self.sidecar(&last),
            shown(&format!("{last}.?image.orValue('')"), false),
        );
        let behind = text(&clause::images(self.name, images));
        let filled = self.runs(not_image, &[])?;
        let is_foreign = self.counts_and(Expr::all([filled, self.runs(not_image, images)?.not()]));
        Some(format!(
            "{is_foreign} ? {before} + {name} + {between} + {image} + {behind}"
        ))
    }

    fn placeholder(&self) -> Option<String> {
        let filled = self.runs(&self.set.not_image, &[])?;
        let last = self.last("")?;
        let image = match self.set.not_image.as_slice() {
            [] => return None,
            [only] => text(only),
            _ => format!("{last}.image"),
        };
        let [before, between, behind] = clause::placeholder(self.name).map(|part| text(&part));
        let name = self.sidecar(&last);
        let then = format!("{before} + {name} + {between} + {image} + {behind}");
        let is_unfilled = self.counts_and(Expr::all([self.runs(&[], &[])?, filled.not()]));
        Some(format!("{is_unfilled} ? {then}"))
    }

    fn not_restartable(&self) -> Option<String> {
        let found = self.meant("variables.initContainers", "")?;
        let name = self.sidecar(&format!("{found}[0]"));
        let is_there = format!("{found}.size() > 0");
        let then = format!("{name} + {}", text(clause::NOT_RESTARTABLE));
        let does_not_run = self.counts_and(self.runs(&[], &[])?.not());
        Some(format!("{does_not_run} && {is_there} ? {then}"))
    }

    fn missing(&self) -> String {
        text(&clause::missing(self.name, self.set))
    }
}
