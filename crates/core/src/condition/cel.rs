//! Conditions printed as CEL, safe against absent maps and keys, whatever the values are.

use crate::injector::profile::ContainerName;
use crate::injector::rule::{Place, Test};

use super::{Container, Expr, KeyTest};
use crate::list::listed;
use crate::names::ALTERNATIVE;

/// The names that an expression may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// A condition on a pod, without variables. That of a webhook, or one that is a policy's match condition,
    /// sees no namespace but its name (the API server accepts `namespaceObject` there, which then is always
    /// null).
    Pod,
    /// A policy on pods, with the variables `labels`, `annotations`, `namespaceLabels` and
    /// `namespaceAnnotations`.
    Policy,
    /// A condition on a namespace itself.
    Namespace,
}

impl Scope {
    /// The map of a place, and what makes an absent one empty.
    fn map(self, place: Place) -> (&'static str, &'static str) {
        use Place::{NamespaceAnnotation, NamespaceLabel, PodAnnotation, PodLabel};
        match (self, place) {
            (Self::Policy, PodLabel) => ("variables.labels", ""),
            (Self::Policy, PodAnnotation) => ("variables.annotations", ""),
            (Self::Policy, NamespaceLabel) => ("variables.namespaceLabels", ""),
            (Self::Policy, NamespaceAnnotation) => ("variables.namespaceAnnotations", ""),
            (Self::Pod, NamespaceLabel) => ("namespaceObject.metadata.?labels", ".orValue({})"),
            (Self::Pod, NamespaceAnnotation) => {
                ("namespaceObject.metadata.?annotations", ".orValue({})")
            }
            (Self::Pod | Self::Namespace, PodLabel | NamespaceLabel) => {
                ("object.metadata.?labels", ".orValue({})")
            }
            (Self::Pod | Self::Namespace, PodAnnotation | NamespaceAnnotation) => {
                ("object.metadata.?annotations", ".orValue({})")
            }
        }
    }

    /// The name of the namespace.
    fn namespace(self) -> &'static str {
        match self {
            Self::Pod | Self::Policy => "request.namespace",
            // Not there yet with `generateName`.
            Self::Namespace => "object.metadata.?name.orValue('')",
        }
    }

    /// The value of a key, `''` if it is absent.
    pub(crate) fn value(self, place: Place, key: &str) -> String {
        format!("{}[?{}].orValue('')", self.map(place).0, text(key))
    }

    /// Whether a key is there.
    pub(crate) fn has(self, place: Place, key: &str) -> String {
        let (map, or_empty) = self.map(place);
        format!("{} in {map}{or_empty}", text(key))
    }

    /// A condition in CEL.
    pub(crate) fn print(self, expr: &Expr) -> String {
        self.within(expr).0
    }

    /// Alternatives that stay apart in the text, see [`ALTERNATIVE`].
    pub(crate) fn alternatives(self, parts: &[Expr]) -> String {
        if let [one] = parts {
            return self.print(one);
        }
        let parts = parts.iter().map(|one| self.operand_of_choice(one));
        parts.collect::<Vec<_>>().join(ALTERNATIVE)
    }

    /// The same as what stands before `?`.
    pub(crate) fn operand_of_choice(self, expr: &Expr) -> String {
        self.operand(expr, Binding::And)
    }

    /// As an operand of something that binds as strongly as `outer`.
    fn operand(self, expr: &Expr, outer: Binding) -> String {
        let (text, own) = self.within(expr);
        if own < outer {
            format!("({text})")
        } else {
            text
        }
    }

    fn within(self, expr: &Expr) -> (String, Binding) {
        let join = |parts: &[Expr], word: &str, binding: Binding| {
            let parts: Vec<String> = parts
                .iter()
                .map(|part| self.operand(part, binding.inner()))
                .collect();
            (parts.join(word), binding)
        };
        match expr {
            Expr::Const(value) => (value.to_string(), Binding::Atom),
            Expr::Key(test) => self.key(test),
            Expr::Namespace(names) => one_of(self.namespace(), names),
            Expr::Container(wanted) => container(wanted),
            Expr::Not(inner) => {
                if let Expr::Namespace(names) = &**inner {
                    return not_one_of(self.namespace(), names);
                }
                let text = format!("!{}", self.operand(inner, Binding::Atom));
                (text, Binding::Atom)
            }
            Expr::All(parts) => join(parts, " && ", Binding::And),
            Expr::Any(parts) => join(parts, " || ", Binding::Or),
        }
    }

    /// A test of a key. An absent key reads as `''`, so that presence is asked for only where
    /// the two differ.
    fn key(self, test: &KeyTest) -> (String, Binding) {
        let KeyTest { key, test } = test;
        let Test {
            absent,
            others,
            values,
            fold,
            trim,
        } = test;
        let has = self.has(key.place, &key.name);
        if values.is_empty() {
            return if *others {
                (has, Binding::Relation)
            } else {
                (format!("!({has})"), Binding::Atom)
            };
        }
        let mut value = self.value(key.place, &key.name);
        if *trim {
            value.push_str(".trim()");
        }
        if *fold {
            value.push_str(".lowerAscii()");
        }
        let (compared, binding) = if *others {
            not_one_of(&value, values)
        } else {
            one_of(&value, values)
        };
        if test.passes(Some("")) == *absent {
            (compared, binding)
        } else if *absent {
            (format!("!({has}) || {compared}"), Binding::Or)
        } else {
            (format!("{has} && {compared}"), Binding::And)
        }
    }
}

/// Whether the pod holds a container, by the variables of a policy.
fn container(wanted: &Container) -> (String, Binding) {
    match wanted {
        Container::Replaced { name, images } => (replaced("exists", name, images), Binding::Atom),
        Container::Init(name) => {
            let is_it = format!("exists(c, c.name == {})", text(name));
            (format!("variables.initContainers.{is_it}"), Binding::Atom)
        }
        Container::Sidecar {
            name,
            not_image,
            images,
        } => {
            let mut is_it = is_named(name);
            if !not_image.is_empty() {
                let image = not_one_of("c.?image.orValue('')", not_image).0;
                is_it = format!("{is_it} && {image}");
            }
            if !images.is_empty() {
                is_it = format!("{is_it} && {}", begins("c", images));
            }
            let [plain, native] = ["containers", "nativeSidecars"]
                .map(|list| format!("variables.{list}.exists(c, {is_it})"));
            (format!("{plain} || {native}"), Binding::Or)
        }
    }
}

/// Containers of an update whose image begins with none of these texts, and did so before: `exists`, or
/// `filter`. Without variables, as match conditions have none.
pub(crate) fn replaced(function: &str, name: &ContainerName, images: &[String]) -> String {
    let all = |object| {
        format!(
            "({object}.spec.?containers.orValue([]) + {object}.spec.?initContainers.orValue([]))"
        )
    };
    let (new, old) = (all("object"), all("oldObject"));
    let [is_now, was] = ["c", "o"].map(|container| begins(container, images));
    let before = format!("{old}.exists(o, o.name == c.name && {was})");
    format!(
        "{new}.{function}(c, {} && !{is_now} && {before})",
        is_named(name)
    )
}

/// Whether the image of a container begins with one of these texts.
fn begins(container: &str, images: &[String]) -> String {
    let image = |start: &String| {
        let start = text(start);
        format!("{container}.?image.orValue('').startsWith({start})")
    };
    let all: Vec<String> = images.iter().map(image).collect();
    format!("({})", all.join(" || "))
}

/// Whether the container `c` is meant.
pub(crate) fn is_named(name: &ContainerName) -> String {
    match name {
        ContainerName::Exact(name) => format!("c.name == {}", text(name)),
        ContainerName::Prefix(start) => format!("c.name.startsWith({})", text(start)),
    }
}

/// How strongly an expression binds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Binding {
    Or,
    And,
    Relation,
    Atom,
}

impl Binding {
    /// What its operands must have to go without parentheses. `a && b` within `||` has some all
    /// the same, for those who read it.
    fn inner(self) -> Self {
        match self {
            Self::Or | Self::Relation => Self::Relation,
            Self::And => Self::And,
            Self::Atom => Self::Atom,
        }
    }
}

/// `value == 'a'` or `value in ['a', 'b']`.
fn one_of(value: &str, list: &[String]) -> (String, Binding) {
    let text = match list {
        [only] => format!("{value} == {}", text(only)),
        _ => format!("{value} in {}", texts(list)),
    };
    (text, Binding::Relation)
}

fn not_one_of(value: &str, list: &[String]) -> (String, Binding) {
    match list {
        [only] => (format!("{value} != {}", text(only)), Binding::Relation),
        _ => (format!("!({})", one_of(value, list).0), Binding::Atom),
    }
}

/// A list of texts.
pub(crate) fn texts(list: &[String]) -> String {
    format!("[{}]", listed(list.iter().map(|one| text(one))))
}

/// A text literal. All but printable ASCII is escaped, so that no value can end the literal or hide in
/// it.
pub(crate) fn text(value: &str) -> String {
    let mut literal = String::with_capacity(value.len() + 2);
    literal.push('\'');
    for c in value.chars() {
        match c {
            '\'' => literal.push_str("\\'"),
            '\\' => literal.push_str("\\\\"),
            ' '..='~' => literal.push(c),
            _ if u32::from(c) <= 0xffff => literal.push_str(&format!("\\u{:04x}", u32::from(c))),
            _ => literal.push_str(&format!("\\U{:08x}", u32::from(c))),
        }
    }
    literal.push('\'');
    literal
}
