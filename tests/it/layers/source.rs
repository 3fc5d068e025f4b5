//! The sources of both crates as lines of code, and as modules that name other modules.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// A crate of the workspace.
pub(super) struct Crate {
    pub(super) src: &'static str,
}

pub(super) const ROOT: Crate = Crate { src: "src" };
pub(super) const CORE: Crate = Crate {
    src: "crates/core/src",
};

/// A line of code outside tests and comments.
pub(super) struct Line {
    /// Below `src`.
    pub(super) path: String,
    pub(super) number: usize,
    pub(super) code: String,
}

impl Crate {
    /// Lines of code outside tests and comments.
    pub(super) fn lines(&self) -> Vec<Line> {
        self.files()
            .into_iter()
            .flat_map(|(path, text)| {
                let code = code_of(&text);
                let line = move |(number, code)| Line {
                    path: path.clone(),
                    number,
                    code,
                };
                code.into_iter().map(line)
            })
            .collect()
    }

    /// Source files that are no files of tests: path below `src`, and text.
    pub(super) fn files(&self) -> Vec<(String, String)> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(self.src);
        let mut files = Vec::new();
        collect(&root, &mut files);
        files.sort();
        let path = |file: &PathBuf| file.strip_prefix(&root).unwrap().display().to_string();
        let read = |file: PathBuf| (path(&file), fs::read_to_string(&file).unwrap());
        let is_tests = |path: &str| path.ends_with("tests.rs") || path.contains("/tests/");
        let files = files.into_iter().map(read);
        files.filter(|(path, _)| !is_tests(path)).collect()
    }
}

/// Whether `path` is `own`, or a file below the folder `own`.
pub(super) fn is_below(path: &str, own: &str) -> bool {
    path == own
        || path.strip_suffix(".rs") == Some(own)
        || path
            .strip_prefix(own)
            .is_some_and(|rest| rest.starts_with('/'))
}

/// The paths in a text that begin with `crate`, `self` or `super`, with braces expanded:
/// `use crate::a::{b, c::d};` has `crate::a::b` and `crate::a::c::d`.
pub(super) fn paths_in(text: &str) -> BTreeSet<Vec<String>> {
    let tokens = tokens_of(text);
    let mut paths = BTreeSet::new();
    let mut position = 0;
    while position < tokens.len() {
        let is_start = matches!(tokens[position].as_str(), "crate" | "self" | "super");
        let goes_on = tokens.get(position + 1).is_some_and(|next| next == "::");
        let follows = position > 0 && tokens[position - 1] == "::";
        if is_start && goes_on && !follows {
            position = expand(&tokens, position, Vec::new(), &mut paths);
        } else {
            position += 1;
        }
    }
    paths
}

/// Reads one path or tree of paths; returns the position behind it.
fn expand(
    tokens: &[String],
    mut position: usize,
    mut path: Vec<String>,
    paths: &mut BTreeSet<Vec<String>>,
) -> usize {
    loop {
        match tokens.get(position).map(String::as_str) {
            Some("{") => {
                position += 1;
                while tokens.get(position).is_some_and(|token| token != "}") {
                    position = expand(tokens, position, path.clone(), paths);
                    while matches!(tokens.get(position).map(String::as_str), Some("," | "as")) {
                        let skipped = if tokens[position] == "as" { 2 } else { 1 };
                        position += skipped;
                    }
                }
                return position + 1;
            }
            Some(word) if is_word(word) => {
                path.push(word.to_owned());
                position += 1;
            }
            // A glob, or what no path of imports holds.
            _ => position += 1,
        }
        if tokens.get(position).is_some_and(|token| token == "::") {
            position += 1;
        } else {
            paths.insert(path);
            return position;
        }
    }
}

fn is_word(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Words, `::`, and every other sign by itself.
fn tokens_of(text: &str) -> Vec<String> {
    let mut tokens: Vec<String> = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let word = rest.find(|c: char| !(c.is_alphanumeric() || c == '_'));
        let length = match word.unwrap_or(rest.len()) {
            0 if rest.starts_with("::") => 2,
            0 => first.len_utf8(),
            length => length,
        };
        let (token, after) = rest.split_at(length);
        if !first.is_whitespace() {
            tokens.push(token.to_owned());
        }
        rest = after;
    }
    tokens
}

/// Numbered lines without comments and without what is for tests alone.
pub(super) fn code_of(text: &str) -> Vec<(usize, String)> {
    let mut lines = Vec::new();
    let mut is_test = false;
    for (number, line) in (1..).zip(text.lines()) {
        is_test |= line.trim() == "#[cfg(test)]";
        if is_test {
            // A module in a file of its own is one item; one that is here ends the file.
            if line.ends_with('{') {
                break;
            }
            is_test = !line.ends_with(';');
            continue;
        }
        let code = line.split("//").next().unwrap_or_default().trim();
        if !code.is_empty() {
            lines.push((number, code.to_owned()));
        }
    }
    lines
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|end| end == "rs") {
            files.push(path);
        }
    }
}
