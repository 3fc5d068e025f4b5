//! From the text of an expression to its parts.

use serde_json::{Value, json};

use super::Result;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Expr {
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

pub(super) fn parse(text: &str) -> Result<Expr> {
    let tokens = tokens(text)?;
    let mut parser = Parser { tokens: &tokens };
    let expr = parser.choice()?;
    match parser.tokens {
        [] => Ok(expr),
        rest => Err(format!("left over: {rest:?}")),
    }
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
