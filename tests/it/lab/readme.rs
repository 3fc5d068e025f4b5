//! What the README and the pages show of `make lab-shell` is what happens in it, line by line.

use std::fmt::Write as _;
use std::process::Stdio;

use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::time::timeout;

use super::harness::{PATIENCE, example};
use crate::docs::page;

/// Page and heading of each, in one shell, one after the other.
const CHAPTERS: [(&str, &str); 4] = [
    ("README.md", "Which pods run without their sidecar?"),
    ("README.md", "With a cluster"),
    ("docs/operate.md", "Try it in the lab"),
    ("docs/install.md", "A whole round in the lab"),
];

/// A command and the lines that a page shows after it.
struct Step {
    page: &'static str,
    command: String,
    shown: Vec<String>,
}

#[tokio::test(flavor = "multi_thread")]
async fn the_chapters_with_a_cluster_are_what_happens() {
    let steps: Vec<Step> = CHAPTERS
        .iter()
        .flat_map(|(page, chapter)| steps(page, chapter))
        .collect();
    assert!(steps.len() > 15, "only {} commands found", steps.len());
    let mut script = String::new();
    for (number, step) in steps.iter().enumerate() {
        writeln!(script, "echo '=== {number}'\n{} 2>&1", step.command).unwrap();
    }
    let said = in_lab_shell(&script).await;
    for (number, step) in steps.iter().enumerate() {
        let begin = format!("=== {number}\n");
        let from = said.split(begin.as_str()).nth(1);
        let from = from.unwrap_or_else(|| panic!("{} was not reached:\n{said}", step.command));
        let output = from.split("=== ").next().unwrap();
        let mut lines = output.lines();
        for shown in step.shown.iter().filter(|line| *line != "…") {
            assert!(
                lines.any(|line| fits(shown, line)),
                "{} shows after {}\n{shown}\nbut it printed\n{output}",
                step.page,
                step.command
            );
        }
    }
}

/// The commands of a chapter's transcripts; what opens and closes the shell is not run in it.
fn steps(name: &'static str, chapter: &str) -> Vec<Step> {
    let text = page(name);
    let begin = format!("\n## {chapter}\n");
    let chapter = text.split(begin.as_str()).nth(1).unwrap();
    let chapter = chapter.split("\n## ").next().unwrap();
    let mut steps: Vec<Step> = Vec::new();
    for block in chapter.split("```console\n").skip(1) {
        for line in block.split("```").next().unwrap().lines() {
            if let Some(command) = line.strip_prefix("$ ") {
                steps.push(Step {
                    page: name,
                    command: command.to_owned(),
                    shown: Vec::new(),
                });
            } else {
                steps.last_mut().unwrap().shown.push(line.to_owned());
            }
        }
    }
    steps.retain(|step| !["make lab-shell", "exit"].contains(&step.command.as_str()));
    steps
}

/// Whether a line is what is shown, in which `…` stands for anything.
fn fits(shown: &str, line: &str) -> bool {
    let mut pieces = shown.split('…');
    let Some(mut rest) = line.strip_prefix(pieces.next().unwrap_or_default()) else {
        return false;
    };
    let pieces: Vec<&str> = pieces.collect();
    let Some((last, middle)) = pieces.split_last() else {
        return rest.is_empty();
    };
    for piece in middle {
        let Some((_, after)) = rest.split_once(piece) else {
            return false;
        };
        rest = after;
    }
    rest.ends_with(last)
}

async fn in_lab_shell(script: &str) -> String {
    let mut shell = Command::new(example("lab"))
        .args(["shell", "--network"])
        .env("SHELL", "/bin/sh")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut input = shell.stdin.take().unwrap();
    input.write_all(script.as_bytes()).await.unwrap();
    drop(input);
    let output = timeout(4 * PATIENCE, shell.wait_with_output()).await;
    let output = output.expect("the shell ends").unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.stdout.starts_with(b"=== 0"), "{errors}");
    String::from_utf8(output.stdout).unwrap()
}
