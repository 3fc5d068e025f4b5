//! How commands print: tables for people, JSON and YAML for programs, exit codes.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use comfy_table::presets::NOTHING;
use comfy_table::{ContentArrangement, Table};
use serde::Serialize;

/// What running a command gives. An error, which kept the command from running, is exit code 2.
pub(super) type Done = anyhow::Result<Exit>;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Exit {
    /// Exit code 0.
    Fine,
    /// Exit code 1.
    Findings,
    /// Exit code 2.
    CannotTell,
}

#[derive(Debug, Clone, Copy, clap::Args)]
pub(super) struct OutputArgs {
    /// Output format
    #[arg(
        long = "output",
        short = 'o',
        value_name = "FORMAT",
        default_value = "table"
    )]
    format: Format,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Format {
    /// A table for people.
    Table,
    /// JSON for programs.
    Json,
    /// The same as YAML.
    Yaml,
}

/// The process's exit code. Prints an error with its causes, one line each.
pub(super) fn exit_code(done: Done) -> ExitCode {
    match done {
        Ok(Exit::Fine) => ExitCode::SUCCESS,
        Ok(Exit::Findings) => ExitCode::from(1),
        Ok(Exit::CannotTell) => ExitCode::from(2),
        Err(error) => {
            let style = Style::new().bold().fg_color(Some(AnsiColor::Red.into()));
            let mut text = format!("{style}error{style:#}: {error}\n");
            // Some errors have their causes in their own text.
            for cause in error.chain().skip(1).map(ToString::to_string) {
                if !text.contains(&cause) {
                    text.push_str(&format!("  because {cause}\n"));
                }
            }
            to_stderr(&text);
            ExitCode::from(2)
        }
    }
}

/// Prints to standard output, with colours only on a terminal. A reader that has gone away
/// (`| head`) is no error.
pub(super) fn print(text: &str) -> anyhow::Result<()> {
    match anstream::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}

impl OutputArgs {
    /// Whether it is a table for people, and not a value for programs.
    pub(super) fn is_table(self) -> bool {
        matches!(self.format, Format::Table)
    }

    /// Prints an answer: `text` for people, the same as a value for programs.
    pub(super) fn print(
        self,
        value: &impl Serialize,
        text: impl FnOnce() -> String,
    ) -> anyhow::Result<()> {
        print(&match self.format {
            Format::Table => text(),
            Format::Json => serde_json::to_string_pretty(value)? + "\n",
            Format::Yaml => serde_saphyr::to_string(value)?,
        })
    }
}

/// A table without lines, as `kubectl` prints it; without a header if `header` is empty.
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

/// A table's text: indented, lines without trailing blanks.
pub(super) fn indented(table: &Table) -> String {
    table
        .lines()
        .map(|line| format!(" {}\n", line.trim_end()))
        .collect()
}

/// A number of things: `1 file`, `2 files`.
pub(super) fn plural(count: usize, noun: &str) -> String {
    let end = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{end}")
}

/// In green.
pub(super) fn good(text: &str) -> String {
    coloured(AnsiColor::Green, text)
}

/// In red.
pub(super) fn bad(text: &str) -> String {
    coloured(AnsiColor::Red, text)
}

/// In yellow.
pub(super) fn unclear(text: &str) -> String {
    coloured(AnsiColor::Yellow, text)
}

fn coloured(colour: AnsiColor, text: &str) -> String {
    let style = Style::new().fg_color(Some(colour.into()));
    format!("{style}{text}{style:#}")
}

/// Prints a remark to standard error.
pub(super) fn note(text: &str) {
    let style = Style::new().bold();
    to_stderr(&format!("{style}note{style:#}: {text}\n"));
}

/// Shows on a terminal how far the command is; the next call writes over it, and an empty text takes it away.
pub(super) fn progress(text: &str) {
    if io::stderr().is_terminal() {
        to_stderr(&format!("\r\u{1b}[K{text}"));
    }
}

fn to_stderr(text: &str) {
    // When standard error is closed there is no other place to report it.
    anstream::stderr().lock().write_all(text.as_bytes()).ok();
}
