//! What the program writes while it runs: format and filter of the log, and nothing else.
//!
//! A leaf: it must not know what is logged. Everything goes to standard error, so that standard
//! output stays free for what a command answers.

use std::error::Error;
use std::io::{self, IsTerminal};
use std::iter::successors;
use std::panic::PanicHookInfo;

use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::filter::{LevelFilter, ParseError, Targets};
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

/// Flags of the log.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Log")]
pub(crate) struct TelemetryArgs {
    /// Format of log lines [default: text on a terminal, json otherwise]
    #[arg(long, value_enum, value_name = "FORMAT", global = true)]
    pub(crate) log_format: Option<LogFormat>,

    /// Lines to log: a level, or levels by module ("info,meshgate::server=debug")
    #[arg(
        long,
        value_name = "FILTER",
        env = "MESHGATE_LOG",
        default_value = "info",
        global = true,
        value_parser = parse_filter
    )]
    pub(crate) log_level: Targets,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LogFormat {
    /// Lines for people: time, level, message, fields.
    Text,
    /// One JSON object per line.
    Json,
}

/// These libraries repeat failures that meshgate logs itself. A filter that names them turns them on.
const QUIET: &str = "kube_client=error,kube_runtime=error";

/// Sets up the log of this process, and has panics reported through it. The guard writes what is
/// still to be written when it is dropped: to be kept until the end.
///
/// Text is coloured only on a terminal, and not when `NO_COLOR` is set. Lines are written by a
/// thread of their own: a reader that is slow, gone or out of space costs lines, never an answer.
///
/// # Errors
///
/// When it has been called before.
pub(crate) fn init(args: &TelemetryArgs) -> Result<WorkerGuard, TryInitError> {
    let filter = args.log_level.clone();
    let terminal = io::stderr().is_terminal();
    let colour = anstream::AutoStream::choice(&io::stderr()) != anstream::ColorChoice::Never;
    let (writer, worker) = NonBlockingBuilder::default()
        .lossy(true)
        // Room is made for all of them at once.
        .buffered_lines_limit(2_000)
        .thread_name("log")
        .finish(io::stderr());
    let lines = fmt()
        .with_max_level(LevelFilter::TRACE)
        .with_writer(writer)
        .with_ansi(colour)
        .log_internal_errors(false);
    match effective_format(args.log_format, terminal) {
        LogFormat::Text => lines.with_target(false).finish().with(filter).try_init()?,
        LogFormat::Json => lines
            .json()
            .flatten_event(true)
            .with_current_span(true)
            .with_span_list(false)
            .finish()
            .with(filter)
            .try_init()?,
    }
    std::panic::set_hook(Box::new(log_panic));
    Ok(worker)
}

/// An error with all that caused it, each cause once: some errors repeat their causes in their own words,
/// most do not say them.
#[must_use]
pub(crate) fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    for cause in successors(error.source(), |&cause| cause.source()) {
        let cause = cause.to_string();
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

fn effective_format(asked: Option<LogFormat>, terminal: bool) -> LogFormat {
    asked.unwrap_or(if terminal {
        LogFormat::Text
    } else {
        LogFormat::Json
    })
}

/// A panic is a log line like any other: free text in a JSON log is lost on most collectors.
fn log_panic(info: &PanicHookInfo<'_>) {
    let message = info.payload_as_str().unwrap_or("no message");
    let at = info.location().map(ToString::to_string).unwrap_or_default();
    tracing::error!(at, "panic: {message}");
}

fn parse_filter(text: &str) -> Result<Targets, String> {
    // A bare word that is no level would be taken for a module, and silence everything else.
    let is_level = |word: &str| !word.is_empty() && word.parse::<LevelFilter>().is_ok();
    let parts: Vec<&str> = text.split(',').map(str::trim).collect();
    if let Some(word) = parts
        .iter()
        .find(|part| !part.contains('=') && !is_level(part))
    {
        let levels = "error, warn, info, debug, trace, off";
        return Err(format!(
            "found \"{word}\", expected one of {levels}, or MODULE=LEVEL"
        ));
    }
    let filter = format!("{QUIET},{}", parts.join(",")).parse();
    filter.map_err(|error: ParseError| error.to_string())
}

#[cfg(test)]
#[path = "telemetry_tests.rs"]
mod tests;
