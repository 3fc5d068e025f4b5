//! Links between pages, and to files of the project, lead somewhere.

use std::collections::BTreeSet;
use std::path::Path;

use super::{page, pages, root};

/// The texts of a page outside blocks of code.
fn prose(page: &str) -> String {
    let mut is_code = false;
    let mut prose = String::new();
    for line in page.lines() {
        if line.starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            prose.push_str(line);
            prose.push('\n');
        }
    }
    prose
}

/// The anchors that GitHub makes of a page's headings.
fn anchors(page: &str) -> BTreeSet<String> {
    let prose = prose(page);
    let headings = prose.lines().filter(|line| line.starts_with('#'));
    headings
        .map(|heading| {
            let heading = heading.trim_start_matches('#').trim().to_lowercase();
            let kept = |c: &char| c.is_alphanumeric() || ['-', '_', ' '].contains(c);
            heading
                .chars()
                .filter(kept)
                .collect::<String>()
                .replace(' ', "-")
        })
        .collect()
}

/// The targets of links and pictures; what stands between backticks is none.
fn targets(page: &str) -> Vec<String> {
    let prose = prose(page);
    let text: String = prose.split('`').step_by(2).collect();
    let rest = text.split("](").skip(1);
    rest.map(|rest| rest.split(')').next().unwrap().to_owned())
        .collect()
}

#[test]
fn every_link_leads_somewhere() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for name in pages() {
        let text = page(&name);
        for target in targets(&text) {
            if target.starts_with("https://") {
                continue;
            }
            count += 1;
            let (file, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let path = match file {
                "" => root().join(&name),
                file => root().join(&name).parent().unwrap().join(file),
            };
            if !path.exists() {
                wrong.push(format!("{name}: no file {file}"));
            } else if !anchor.is_empty() && !has_anchor(&path, anchor) {
                wrong.push(format!("{name}: no heading {target}"));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
    assert!(count > 40, "only {count} links found");
}

fn has_anchor(path: &Path, anchor: &str) -> bool {
    let text = std::fs::read_to_string(path).unwrap();
    anchors(&text).contains(anchor)
}

/// Pages that something else names: help, notes of the chart, sources.
#[test]
fn pages_that_others_name_are_there() {
    let mut wrong = Vec::new();
    for folder in ["src", "crates", "manifests", "benches", "tests", "examples"] {
        for (path, text) in texts(&root().join(folder)) {
            for rest in text.split("docs/").skip(1) {
                let name: String = rest
                    .chars()
                    .take_while(|c| c.is_ascii_alphanumeric() || ['-', '.', '_', '/'].contains(c))
                    .collect();
                let name = name.trim_end_matches('.');
                let is_page = name.ends_with(".md") || name.ends_with(".svg");
                if is_page && !root().join("docs").join(name).exists() {
                    wrong.push(format!("{path} names docs/{name}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

/// Path and text of each file below a folder that is one of text.
fn texts(folder: &Path) -> Vec<(String, String)> {
    let mut open = vec![folder.to_owned()];
    let mut found = Vec::new();
    while let Some(path) = open.pop() {
        if path.is_dir() {
            let entries = std::fs::read_dir(&path).unwrap();
            open.extend(entries.map(|entry| entry.unwrap().path()));
        } else if let Ok(text) = std::fs::read_to_string(&path) {
            found.push((path.display().to_string(), text));
        }
    }
    found
}
