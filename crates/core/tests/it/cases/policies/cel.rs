//! As much of CEL as rendered policies use, evaluated by the language's rules.
//!
//! An error ends the evaluation: what is printed must meet none, whatever the pod is. That an API server
//! evaluates the same text alike is seen in `lab::fidelity`.

use std::cell::RefCell;
use std::collections::HashMap;

use serde_json::{Value, json};

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
        let tokens = tokens(text)?;
        let mut parser = Parser { tokens: &tokens };
        let expr = parser.choice()?;
        match parser.tokens {
            [] => self.value(&expr, &Locals::default()),
            rest => Err(format!("left over: {rest:?}")),
        }
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

#[derive(Debug, Clone, PartialEq)]
enum Expr {
    Literal(Value),
    Name(String),
    List(Vec<Self>),
    Not(Box<Self>),
    If(Box<[Self; 3]>),
    Binary(String, Box<[Self; 2]>),
    /// `.key`, `[key]`; true with `?`.
    Member(Box<Self>, Box<Self>, bool),
    Call(Box<Self>, String, Vec<Self>),
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Text(String),
    Number(i64),
    Name(String),
    Mark(String),
}

fn tokens(text: &str) -> Result<Vec<Token>> {
    let chars: Vec<char> = text.chars().collect();
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(&c) = chars.get(at) {
        let run = |is: fn(char) -> bool| -> String {
            chars[at..].iter().copied().take_while(|&c| is(c)).collect()
        };
        let token = if c.is_whitespace() {
            at += 1;
            continue;
        } else if c == '\'' {
            let (text, length) = literal(&chars[at..])?;
            at += length;
            tokens.push(Token::Text(text));
            continue;
        } else if c.is_ascii_digit() {
            let digits = run(|c| c.is_ascii_digit());
            at += digits.len();
            Token::Number(
                digits
                    .parse()
                    .map_err(|_| format!("{digits} is no number"))?,
            )
        } else if c.is_ascii_alphabetic() {
            let word = run(|c| c.is_ascii_alphanumeric() || c == '_');
            at += word.len();
            Token::Name(word)
        } else {
            let two: String = chars[at..].iter().take(2).collect();
            let is_two = ["||", "&&", "==", "!=", ".?", "[?"].contains(&two.as_str());
            let mark = if is_two { two } else { c.to_string() };
            at += mark.len();
            Token::Mark(mark)
        };
        tokens.push(token);
    }
    Ok(tokens)
}

/// A text literal, and how many characters it takes.
fn literal(chars: &[char]) -> Result<(String, usize)> {
    let mut text = String::new();
    let mut at = 1;
    loop {
        let c = *chars.get(at).ok_or("a literal that does not end")?;
        at += 1;
        match c {
            '\'' => return Ok((text, at)),
            '\\' => {
                let escaped = *chars.get(at).ok_or("a literal that does not end")?;
                at += 1;
                let digits = match escaped {
                    'n' => {
                        text.push('\n');
                        continue;
                    }
                    'r' => {
                        text.push('\r');
                        continue;
                    }
                    't' => {
                        text.push('\t');
                        continue;
                    }
                    '\'' | '\\' => {
                        text.push(escaped);
                        continue;
                    }
                    'u' => 4,
                    'U' => 8,
                    other => return Err(format!("\\{other}")),
                };
                let hex: String = chars[at..].iter().take(digits).collect();
                at += digits;
                let code = u32::from_str_radix(&hex, 16).map_err(|error| error.to_string())?;
                text.push(char::from_u32(code).ok_or("no character")?);
            }
            c => text.push(c),
        }
    }
}

struct Parser<'t> {
    tokens: &'t [Token],
}

/// Operators from the weakest to the strongest.
const OPERATORS: [&[&str]; 4] = [&["||"], &["&&"], &["==", "!=", "in", ">"], &["+", "-"]];

impl Parser<'_> {
    /// Takes the next token if it is this mark or word.
    fn takes(&mut self, wanted: &str) -> bool {
        let is_it = match self.tokens.first() {
            Some(Token::Mark(mark) | Token::Name(mark)) => mark == wanted,
            Some(Token::Text(_) | Token::Number(_)) | None => false,
        };
        if is_it {
            self.tokens = &self.tokens[1..];
        }
        is_it
    }

    fn expects(&mut self, wanted: &str) -> Result<()> {
        let is_it = self.takes(wanted);
        let found = self.tokens.first();
        is_it
            .then_some(())
            .ok_or_else(|| format!("expected {wanted}, found {found:?}"))
    }

    fn choice(&mut self) -> Result<Expr> {
        let condition = self.operation(0)?;
        if !self.takes("?") {
            return Ok(condition);
        }
        let yes = self.choice()?;
        self.expects(":")?;
        Ok(Expr::If(Box::new([condition, yes, self.choice()?])))
    }

    fn operation(&mut self, level: usize) -> Result<Expr> {
        let Some(operators) = OPERATORS.get(level) else {
            return self.unary();
        };
        let mut left = self.operation(level + 1)?;
        while let Some(operator) = operators.iter().find(|one| self.takes(one)) {
            let right = self.operation(level + 1)?;
            left = Expr::Binary((*operator).to_owned(), Box::new([left, right]));
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Expr> {
        if self.takes("!") {
            return Ok(Expr::Not(Box::new(self.unary()?)));
        }
        let mut expr = self.primary()?;
        loop {
            if let Some(is_optional) = self.one_of([".", ".?"]) {
                let name = self.name()?;
                if self.takes("(") {
                    expr = Expr::Call(Box::new(expr), name, self.items(")")?);
                } else {
                    let key = Box::new(Expr::Literal(json!(name)));
                    expr = Expr::Member(Box::new(expr), key, is_optional);
                }
            } else if let Some(is_optional) = self.one_of(["[", "[?"]) {
                let key = Box::new(self.choice()?);
                self.expects("]")?;
                expr = Expr::Member(Box::new(expr), key, is_optional);
            } else {
                return Ok(expr);
            }
        }
    }

    /// Which of two marks was taken: true for the second.
    fn one_of(&mut self, marks: [&str; 2]) -> Option<bool> {
        let found = marks.iter().position(|mark| self.takes(mark))?;
        Some(found == 1)
    }

    fn primary(&mut self) -> Result<Expr> {
        if self.takes("(") {
            let inner = self.choice()?;
            self.expects(")")?;
            return Ok(inner);
        }
        if self.takes("[") {
            return Ok(Expr::List(self.items("]")?));
        }
        if self.takes("{") {
            self.expects("}")?;
            return Ok(Expr::Literal(json!({})));
        }
        let (first, rest) = self.tokens.split_first().ok_or("nothing")?;
        self.tokens = rest;
        Ok(match first {
            Token::Text(text) => Expr::Literal(json!(text)),
            Token::Number(number) => Expr::Literal(json!(number)),
            Token::Name(name) if name == "true" => Expr::Literal(json!(true)),
            Token::Name(name) if name == "false" => Expr::Literal(json!(false)),
            Token::Name(name) => Expr::Name(name.clone()),
            Token::Mark(mark) => return Err(format!("{mark} begins nothing")),
        })
    }

    fn name(&mut self) -> Result<String> {
        let (Some(Token::Name(name)), rest) = (self.tokens.first(), self.tokens.get(1..)) else {
            return Err(format!("expected a name, found {:?}", self.tokens.first()));
        };
        self.tokens = rest.unwrap_or_default();
        Ok(name.clone())
    }

    /// Expressions with commas between them, up to the closing mark.
    fn items(&mut self, end: &str) -> Result<Vec<Expr>> {
        let mut items = Vec::new();
        while !self.takes(end) {
            if !items.is_empty() {
                self.expects(",")?;
            }
            items.push(self.choice()?);
        }
        Ok(items)
    }
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
            "'Ab'.lowerAscii().startsWith('ab') || 'a' in []",
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
