//! As much of CEL as rendered policies use, evaluated by the language's rules.
//!
//! An error ends the evaluation: what is printed must meet none, whatever the pod is. That an API server
//! evaluates the same text alike is seen in `lab::fidelity`.

mod syntax;

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use serde_json::{Value, json};

use self::syntax::Expr;

type Result<T> = std::result::Result<T, String>;

/// A value, or an optional one.
#[derive(Debug, Clone, PartialEq)]
enum Cel {
    Is(Value),
    Optional(Option<Value>),
}

/// What expressions may name.
pub(super) struct Scope {
    /// `object`, `namespaceObject` and `request`.
    inputs: Value,
    /// Expressions of `variables`.
    variables: HashMap<String, String>,
    known: RefCell<HashMap<String, Value>>,
}

impl Scope {
    pub(super) fn new(inputs: Value, variables: HashMap<String, String>) -> Self {
        Self {
            inputs,
            variables,
            known: RefCell::default(),
        }
    }

    pub(super) fn evaluate(&self, text: &str) -> Result<Value> {
        // All cases of a preset evaluate the same few texts.
        thread_local! {
            static PARSED: RefCell<HashMap<String, Rc<Expr>>> = RefCell::default();
        }
        let parsed = PARSED.with_borrow(|parsed| parsed.get(text).cloned());
        let expr = match parsed {
            Some(expr) => expr,
            None => {
                let expr = Rc::new(syntax::parse(text)?);
                PARSED.with_borrow_mut(|parsed| parsed.insert(text.to_owned(), Rc::clone(&expr)));
                expr
            }
        };
        self.value(&expr, &Locals::default())
    }

    fn variable(&self, name: &str) -> Result<Value> {
        if let Some(known) = self.known.borrow().get(name) {
            return Ok(known.clone());
        }
        let text = self.variables.get(name);
        let text = text.ok_or_else(|| format!("no variable {name}"))?;
        let value = self
            .evaluate(text)
            .map_err(|why| format!("{name}: {why}"))?;
        self.known
            .borrow_mut()
            .insert(name.to_owned(), value.clone());
        Ok(value)
    }

    fn value(&self, expr: &Expr, locals: &Locals) -> Result<Value> {
        match self.eval(expr, locals)? {
            Cel::Is(value) => Ok(value),
            Cel::Optional(_) => Err(format!("an optional value: {expr:?}")),
        }
    }

    fn truth(&self, expr: &Expr, locals: &Locals) -> Result<bool> {
        let value = self.value(expr, locals)?;
        value.as_bool().ok_or_else(|| format!("{value} is no bool"))
    }

    fn eval(&self, expr: &Expr, locals: &Locals) -> Result<Cel> {
        let value = match expr {
            Expr::Literal(value) => value.clone(),
            Expr::Name(name) => match locals.get(name).or_else(|| self.inputs.get(name)) {
                Some(value) => value.clone(),
                None => return Err(format!("no such name: {name}")),
            },
            Expr::List(items) => {
                let items = items.iter().map(|item| self.value(item, locals));
                Value::Array(items.collect::<Result<_>>()?)
            }
            Expr::Not(inner) => json!(!self.truth(inner, locals)?),
            Expr::If(choice) => {
                let [condition, yes, no] = &**choice;
                let holds = self.truth(condition, locals)?;
                return self.eval(if holds { yes } else { no }, locals);
            }
            Expr::Binary(operator, sides) => {
                let [left, right] = &**sides;
                self.binary(operator, (left, right), locals)?
            }
            Expr::Member(of, key, is_optional) => {
                if **of == Expr::Name("variables".to_owned()) {
                    let name = key_text(&self.value(key, locals)?)?;
                    return Ok(Cel::Is(self.variable(&name)?));
                }
                return self.member(of, key, (*is_optional, locals));
            }
            Expr::Call(of, name, arguments) => self.call(of, name, (arguments, locals))?,
        };
        Ok(Cel::Is(value))
    }

    fn member(&self, of: &Expr, key: &Expr, (is_optional, locals): (bool, &Locals)) -> Result<Cel> {
        let key = self.value(key, locals)?;
        let find = |value: &Value| match &key {
            Value::Number(number) => value.get(usize::try_from(number.as_u64()?).ok()?).cloned(),
            Value::String(key) => value.get(key).cloned(),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        };
        match self.eval(of, locals)? {
            Cel::Optional(value) => Ok(Cel::Optional(value.as_ref().and_then(find))),
            Cel::Is(value) if is_optional => Ok(Cel::Optional(find(&value))),
            Cel::Is(value) => find(&value)
                .map(Cel::Is)
                .ok_or_else(|| format!("no such key: {key}")),
        }
    }

    fn binary(
        &self,
        operator: &str,
        (left, right): (&Expr, &Expr),
        locals: &Locals,
    ) -> Result<Value> {
        match operator {
            "||" => {
                return Ok(json!(
                    self.truth(left, locals)? || self.truth(right, locals)?
                ));
            }
            "&&" => {
                return Ok(json!(
                    self.truth(left, locals)? && self.truth(right, locals)?
                ));
            }
            _ => {}
        }
        let (left, right) = (self.value(left, locals)?, self.value(right, locals)?);
        let wrong = || format!("{left} {operator} {right}");
        Ok(match (operator, &left, &right) {
            ("==", ..) => json!(left == right),
            ("!=", ..) => json!(left != right),
            ("in", one, Value::Array(all)) => json!(all.contains(one)),
            ("in", Value::String(key), Value::Object(map)) => json!(map.contains_key(key)),
            ("+", Value::String(a), Value::String(b)) => json!(format!("{a}{b}")),
            ("+", Value::Array(a), Value::Array(b)) => json!([a.clone(), b.clone()].concat()),
            (">" | "-", Value::Number(a), Value::Number(b)) => {
                let numbers = (a.as_i64().ok_or_else(wrong)?, b.as_i64().ok_or_else(wrong)?);
                match operator {
                    ">" => json!(numbers.0 > numbers.1),
                    _ => json!(numbers.0 - numbers.1),
                }
            }
            _ => return Err(wrong()),
        })
    }

    fn call(
        &self,
        of: &Expr,
        name: &str,
        (arguments, locals): (&[Expr], &Locals),
    ) -> Result<Value> {
        let of = match self.eval(of, locals)? {
            Cel::Is(value) => value,
            Cel::Optional(value) => {
                let [or] = arguments else {
                    return Err(format!("{name} of an optional value"));
                };
                return match (name, value) {
                    ("orValue", Some(value)) => Ok(value),
                    ("orValue", None) => self.value(or, locals),
                    _ => Err(format!("{name} of an optional value")),
                };
            }
        };
        if let (Value::Array(items), [Expr::Name(local), test]) = (&of, arguments)
            && let "exists" | "filter" = name
        {
            let mut found = Vec::new();
            for item in items {
                let mut locals = locals.clone();
                locals.insert(local.clone(), item.clone());
                if self.truth(test, &locals)? {
                    found.push(item.clone());
                }
            }
            return Ok(match name {
                "exists" => json!(!found.is_empty()),
                _ => Value::Array(found),
            });
        }
        let arguments = arguments.iter().map(|one| self.value(one, locals));
        let arguments: Vec<Value> = arguments.collect::<Result<_>>()?;
        let wrong = || format!("{name} of {of} with {arguments:?}");
        let text = |value: &Value| value.as_str().map(str::to_owned).ok_or_else(wrong);
        Ok(match (name, &of, arguments.as_slice()) {
            ("size", Value::String(own), []) => json!(own.chars().count()),
            ("size", Value::Array(own), []) => json!(own.len()),
            ("trim", own, []) => json!(text(own)?.trim()),
            ("lowerAscii", own, []) => json!(text(own)?.to_ascii_lowercase()),
            ("startsWith", own, [start]) => json!(text(own)?.starts_with(&text(start)?)),
            ("replace", own, [from, to]) => json!(text(own)?.replace(&text(from)?, &text(to)?)),
            ("join", Value::Array(own), [between]) => {
                let parts = own.iter().map(text).collect::<Result<Vec<_>>>()?;
                json!(parts.join(&text(between)?))
            }
            ("substring", own, [from, to]) => {
                let [from, to] = [from, to].map(|n| n.as_u64().and_then(|n| n.try_into().ok()));
                let (from, to): (usize, usize) = (from.ok_or_else(wrong)?, to.ok_or_else(wrong)?);
                json!(
                    text(own)?
                        .chars()
                        .skip(from)
                        .take(to - from)
                        .collect::<String>()
                )
            }
            _ => return Err(wrong()),
        })
    }
}

type Locals = HashMap<String, Value>;

fn key_text(key: &Value) -> Result<String> {
    let text = key.as_str().map(str::to_owned);
    text.ok_or_else(|| format!("{key} is no name"))
}

#[test]
fn expressions_are_evaluated_as_the_language_has_it() {
    let inputs = json!({"object": {"metadata": {"labels": {"a": "B"}}, "list": [{"n": "x"}, {}]}});
    let two = ("two".to_owned(), "1 - 0 == 1 ? 'yes' : 'no'".to_owned());
    let scope = Scope::new(inputs, HashMap::from([two]));
    for (text, expected) in [
        ("object.metadata.?labels[?'a'].orValue('')", json!("B")),
        ("object.metadata.?labels[?'b'].orValue('-')", json!("-")),
        ("object.metadata.?annotations.orValue({})", json!({})),
        ("object.metadata.?annotations[?'b'].orValue('')", json!("")),
        (
            "'a' in object.metadata.labels && !('b' in object.metadata.labels)",
            json!(true),
        ),
        (
            "object.list.exists(c, c.?n.orValue('') == 'x')",
            json!(true),
        ),
        (
            "object.list.filter(c, c.?n.orValue('') == 'x')[0].n",
            json!("x"),
        ),
        (
            "['a', 'b'].filter(n, n != 'a').size() > 0 ? 'it\\'s' : ''",
            json!("it's"),
        ),
        ("(['a'] + ['b']).join(' or ')", json!("a or b")),
        ("'äbc'.substring(0, 2) + '\\u2026'", json!("äb…")),
        (
            "'\\u00a0Ab\\t '.trim().lowerAscii().startsWith('ab') || 'a' in []",
            json!(true),
        ),
        ("'a\\nb'.replace('\\n', ' ').size() - 1", json!(2)),
        ("false && true || true", json!(true)),
        ("variables.two", json!("yes")),
    ] {
        assert_eq!(scope.evaluate(text), Ok(expected), "{text}");
    }
    for wrong in [
        "object.metadata.annotations",
        "object.metadata.?labels",
        "'a' + 1",
        "variables.three",
        "1 +",
        "[0].none()",
        "true true",
    ] {
        assert!(scope.evaluate(wrong).is_err(), "{wrong}");
    }
}
