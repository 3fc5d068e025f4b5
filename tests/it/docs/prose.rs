//! Pages, help texts and sources are plain English: they name who acts, in short sentences.

use std::fs;
use std::path::PathBuf;

use clap::{Command, CommandFactory};
use meshgate::cli::Cli;

use super::{page, pages, root};

/// Words that hide who acts.
const HIDING: [&str; 8] = [
    "somebody",
    "nobody",
    "whoever",
    "anybody",
    "everybody",
    "someone",
    "anyone",
    "everyone",
];

/// Riddles.
const RIDDLES: [&str; 2] = ["that is so", "as it were"];

const MOST_WORDS: usize = 25;

/// Those words that a text has.
fn hidden(text: &str) -> Vec<&'static str> {
    let text = text.to_lowercase();
    let words: Vec<&str> = text
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .collect();
    let hiding = HIDING.into_iter().filter(|word| words.contains(word));
    let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let riddles = RIDDLES.into_iter().filter(|riddle| joined.contains(riddle));
    hiding.chain(riddles).collect()
}

#[test]
fn pages_name_who_acts() {
    let mut wrong = Vec::new();
    for name in pages() {
        let found = hidden(&page(&name));
        if !found.is_empty() {
            wrong.push(format!("{name}: {}", found.join(", ")));
        }
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

/// Comments, messages and names, of tests as well.
#[test]
fn sources_name_who_acts() {
    let mut wrong = Vec::new();
    let mut folders: Vec<PathBuf> = ["src", "crates", "tests", "benches", "fuzz/targets"]
        .map(|folder| root().join(folder))
        .into();
    let mut count = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let is_source = path
                .extension()
                .is_some_and(|end| end == "rs" || end == "yaml");
            if path.is_dir() {
                folders.push(path);
            } else if is_source && !path.ends_with(file!()) {
                count += 1;
                let text = fs::read_to_string(&path).unwrap().replace('_', " ");
                let found = hidden(&text);
                if !found.is_empty() {
                    wrong.push(format!("{}: {}", path.display(), found.join(", ")));
                }
            }
        }
    }
    assert!(count > 300, "{count} files");
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

#[test]
fn help_names_who_acts() {
    let mut program = Cli::command();
    let mut wrong = Vec::new();
    help("meshgate", &mut program, &mut wrong);
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

fn help(name: &str, command: &mut Command, wrong: &mut Vec<String>) {
    let text = command.render_long_help().to_string();
    assert!(text.contains("Usage:"), "{text}");
    let found = hidden(&text);
    if !found.is_empty() {
        wrong.push(format!("{name} --help: {}", found.join(", ")));
    }
    for inner in command.get_subcommands_mut() {
        let name = format!("{name} {}", inner.get_name());
        help(&name, inner, wrong);
    }
}

/// Paragraphs and items of lists, without tables, headings and code.
fn paragraphs(page: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let (mut is_code, mut is_open, mut is_list) = (false, false, false);
    for line in page.lines() {
        let text = line.trim();
        if line.starts_with("```") {
            is_code = !is_code;
            is_open = false;
        }
        let begins = item(text);
        if !line.starts_with(' ') && !text.is_empty() {
            is_list = begins.is_some();
        }
        let is_block = line.starts_with("    ") && !is_list;
        let is_other = ["```", "|", "#", "!["]
            .iter()
            .any(|mark| text.starts_with(mark));
        if is_code || is_block || is_other || text.is_empty() {
            is_open = false;
        } else if let Some(text) = begins {
            found.push(text.to_owned());
            is_open = true;
        } else if let (true, Some(last)) = (is_open, found.last_mut()) {
            last.push(' ');
            last.push_str(text);
        } else {
            found.push(text.to_owned());
            is_open = true;
        }
    }
    found
}

/// The text of a list's item.
fn item(line: &str) -> Option<&str> {
    let (mark, text) = line.split_once(' ')?;
    let number = mark.strip_suffix('.');
    let is_number = number.is_some_and(|number| number.parse::<u8>().is_ok());
    (mark == "-" || is_number).then_some(text)
}

/// A text in which a piece of code or the target of a link counts as no more than one word.
fn spoken(paragraph: &str) -> String {
    let mut text = String::new();
    for (number, piece) in paragraph.split('`').enumerate() {
        text.push_str(if number % 2 == 0 { piece } else { "code" });
    }
    let mut spoken = String::new();
    let mut pieces = text.split("](");
    spoken.push_str(pieces.next().unwrap());
    for piece in pieces {
        let (_, rest) = piece.split_once(')').unwrap();
        spoken.push_str(rest);
    }
    spoken
}

/// The sentences of a text.
fn sentences(text: &str) -> Vec<String> {
    let mut all = vec![String::new()];
    for word in text.split_whitespace() {
        let last = all.last_mut().unwrap();
        last.push_str(word);
        last.push(' ');
        let word = word.trim_end_matches(['*', ')', '"', ']']);
        if word.ends_with(['.', '?', '!']) {
            all.push(String::new());
        }
    }
    all
}

#[test]
fn sentences_are_short() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for name in pages() {
        for paragraph in paragraphs(&page(&name)) {
            for sentence in sentences(&spoken(&paragraph)) {
                let words = sentence.split(' ');
                let words = words.filter(|word| word.contains(char::is_alphanumeric));
                let words = words.count();
                count += usize::from(words > 0);
                if words > MOST_WORDS {
                    wrong.push(format!("{name}: {words} words: {sentence}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
    assert!(count > 500, "only {count} sentences found");
}
