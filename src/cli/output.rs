//! How commands print: tables for people, JSON and YAML for programs, exit codes.

use std::io::{self, Write};
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use comfy_table::presets::NOTHING;
use comfy_table::{ContentArrangement, Table};
use serde::Serialize;

/// How a command ended. Anything that kept it from running is an error, which is 2 as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Exit {
    /// 0: fine.
    Fine,
    /// 1: findings.
    Findings,
    /// 2: could not tell.
    CannotTell,
}

/// The form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    /// For people.
    Table,
    /// For programs.
    Json,
    /// For programs and people.
    Yaml,
}

/// The process's exit code. An error is printed with what caused it, one line each.
pub(super) fn exit_code(done: anyhow::Result<Exit>) -> ExitCode {
    match done {
        Ok(Exit::Fine) => ExitCode::SUCCESS,
        Ok(Exit::Findings) => ExitCode::from(1),
        Ok(Exit::CannotTell) => ExitCode::from(2),
        Err(error) => {
            let style = Style::new().bold().fg_color(Some(AnsiColor::Red.into()));
            let mut text = format!("{style}error{style:#}: {error}\n");
            // Some errors say in their own text what caused them.
            for cause in error.chain().skip(1).map(ToString::to_string) {
                if !text.contains(&cause) {
                    text.push_str(&format!("  because {cause}\n"));
                }
            }
            // Nobody is left to tell if standard error is closed.
            anstream::stderr().lock().write_all(text.as_bytes()).ok();
            ExitCode::from(2)
        }
    }
}

/// Prints to standard output; colour codes only where a terminal wants them. A reader that has
/// gone away (`| head`) is no error.
pub(super) fn print(text: &str) -> anyhow::Result<()> {
    match anstream::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}

/// Prints a value for programs.
pub(super) fn print_value(format: Format, value: &impl Serialize) -> anyhow::Result<()> {
    match format {
        Format::Json => print(&(serde_json::to_string_pretty(value)? + "\n")),
        Format::Yaml | Format::Table => print(&serde_saphyr::to_string(value)?),
    }
}

/// A table without lines, as `kubectl` has it; without a header if that is empty.
pub(super) fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table
        .load_style(NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled);
    if !header.is_empty() {
        table.set_header(header);
    }
    table
}

/// A table's text, indented, without blanks at the ends of lines.
pub(super) fn indented(table: &Table) -> String {
    table
        .lines()
        .map(|line| format!(" {}\n", line.trim_end()))
        .collect()
}

/// How good a thing is, for its colour.
pub(super) fn good(text: &str) -> String {
    coloured(AnsiColor::Green, text)
}

/// The same for a bad thing.
pub(super) fn bad(text: &str) -> String {
    coloured(AnsiColor::Red, text)
}

/// The same for one that nobody can tell.
pub(super) fn unclear(text: &str) -> String {
    coloured(AnsiColor::Yellow, text)
}

fn coloured(colour: AnsiColor, text: &str) -> String {
    let style = Style::new().fg_color(Some(colour.into()));
    format!("{style}{text}{style:#}")
}

/// Something to know, on standard error.
pub(super) fn note(text: &str) {
    let style = Style::new().bold();
    let line = format!("{style}note{style:#}: {text}\n");
    // Nobody is left to tell if standard error is closed.
    anstream::stderr().lock().write_all(line.as_bytes()).ok();
}
