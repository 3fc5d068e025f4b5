//! The documentation says what the code says, in plain words, and its links lead somewhere. What the README shows of
//! `serve` is held by `standalone::readme`, what it shows of the lab by `lab::readme`.

mod contributing;
mod flags;
mod links;
mod prose;
mod tables;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The text of a file of the project.
pub(crate) fn page(name: &str) -> String {
    let path = root().join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// All pages for users and contributors, relative to the project's folder.
fn pages() -> Vec<String> {
    let mut pages: Vec<String> = [
        "README.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "certs/README.md",
        "tests/cases/README.md",
    ]
    .map(str::to_owned)
    .into();
    let entries = fs::read_dir(root().join("docs")).unwrap();
    let files = entries.map(|entry| entry.unwrap().path());
    let is_page = |path: &PathBuf| path.extension().is_some_and(|end| end == "md");
    let names = files.filter(is_page).map(|path| {
        let name = path.file_name().unwrap().to_str().unwrap();
        format!("docs/{name}")
    });
    pages.extend(names);
    pages.sort();
    pages
}

/// What stands below a heading, up to the next heading of any level.
fn section<'p>(page: &'p str, heading: &str) -> &'p str {
    let (_, rest) = page
        .split_once(&format!("\n{heading}\n"))
        .unwrap_or_else(|| panic!("no heading {heading:?}"));
    let end = rest.find("\n#").unwrap_or(rest.len());
    rest.get(..end).unwrap()
}

/// The rows of all tables in a text, without their heads, as cells.
fn rows(text: &str) -> Vec<Vec<&str>> {
    let mut rows = Vec::new();
    let mut is_body = false;
    for line in text.lines() {
        let Some(line) = line.strip_prefix('|') else {
            is_body = false;
            continue;
        };
        if line.starts_with(" ---") || line.starts_with("---") {
            is_body = true;
        } else if is_body {
            let cells = line.trim_end_matches('|').split(" | ").map(str::trim);
            rows.push(cells.collect());
        }
    }
    rows
}

/// The texts between backticks.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

#[test]
fn the_readme_is_short() {
    let lines = page("README.md").lines().count();
    assert!(lines <= 200, "README.md has {lines} lines");
}

#[test]
fn the_readme_has_a_row_for_every_preset() {
    let readme = page("README.md");
    let documented: Vec<&str> = rows(section(&readme, "## What it knows"))
        .iter()
        .flat_map(|row| quoted(row[0]))
        .collect();
    let names = meshgate_core::injector::PRESETS.map(|(name, _)| name);
    let mut sorted = documented.clone();
    sorted.sort_unstable();
    let mut expected = names.to_vec();
    expected.sort_unstable();
    assert_eq!(sorted, expected, "README.md: {documented:?}");
}

#[test]
fn the_readme_shows_the_real_explanation() {
    let arguments = [
        "explain",
        "-f",
        "examples/pods/deployment-linkerd.yaml",
        "--state",
        "examples/cluster",
    ];
    let output = Command::new(env!("CARGO_BIN_EXE_meshgate"))
        .current_dir(root())
        .args(arguments)
        .output()
        .unwrap();
    let explained = String::from_utf8(output.stdout).unwrap();
    assert!(explained.lines().count() > 5, "{explained}");
    assert!(
        page("README.md").contains(&explained),
        "README.md lacks:\n{explained}"
    );
}

#[test]
fn what_differs_on_purpose_is_what_the_comparison_forgives() {
    let page = page("docs/configure.md");
    let section = section(
        &page,
        "## Where meshgate differs from an injector, on purpose",
    );
    let words = section.split_whitespace().collect::<Vec<_>>().join(" ");
    let (_, list) = words.split_once(" - ").unwrap();
    let mut said: Vec<&str> = list.split(" - ").collect();
    let mut forgiven = crate::lab::fidelity::decided::sentences();
    said.sort_unstable();
    forgiven.sort_unstable();
    assert_eq!(said, forgiven);
}
