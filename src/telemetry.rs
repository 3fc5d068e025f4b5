//! What the program writes while it runs: format and filter of the log, and nothing else.
//!
//! A leaf: it must not know what is logged. Everything goes to standard error, so that standard
//! output stays free for what a command answers.

use std::error::Error;
use std::io::{self, IsTerminal};
use std::panic::PanicHookInfo;

use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::{LevelFilter, ParseError};
use tracing_subscriber::fmt;
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
    pub(crate) log_level: EnvFilterText,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LogFormat {
    /// Lines for people: time, level, message, fields.
    Text,
    /// One JSON object per line.
    Json,
}

/// A filter that is known to parse. Kept as text because the filter itself cannot be cloned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EnvFilterText(String);

/// What libraries say of failures that we say ourselves, in our words. Whoever names them in the filter
/// hears them.
const QUIET: &str = "kube_client=error,kube_runtime=error";

/// A log that could not be set up.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TelemetryError {
    /// The filter does not parse.
    #[error("the log filter cannot be read")]
    Filter(#[from] ParseError),
    /// A log was already set up in this process.
    #[error("the log was already set up")]
    Twice(#[from] TryInitError),
}

/// Writes what is still to be written when it is dropped: to be kept until the end.
#[must_use = "what was logged last is lost with it"]
pub(crate) struct LogGuard {
    _worker: WorkerGuard,
}

/// Sets up the log of this process, and has panics reported through it.
///
/// Text is coloured only on a terminal, and not when `NO_COLOR` is set. Lines are written by a
/// thread of their own: a reader that is slow, gone or out of space costs lines, never an answer.
///
/// # Errors
///
/// When it has been called before, or the filter does not parse.
pub(crate) fn init(args: &TelemetryArgs) -> Result<LogGuard, TelemetryError> {
    let filter = EnvFilter::try_new(format!("{QUIET},{}", args.log_level.0))?;
    let terminal = io::stderr().is_terminal();
    let colour = anstream::AutoStream::choice(&io::stderr()) != anstream::ColorChoice::Never;
    let (writer, worker) = NonBlockingBuilder::default()
        .lossy(true)
        // Room is made for all of them at once.
        .buffered_lines_limit(2_000)
        .thread_name("log")
        .finish(io::stderr());
    let lines = fmt()
        .with_env_filter(filter)
        .with_writer(writer)
        .with_ansi(colour)
        .log_internal_errors(false);
    match effective_format(args.log_format, terminal) {
        LogFormat::Text => lines.with_target(false).finish().try_init()?,
        LogFormat::Json => lines
            .json()
            .flatten_event(true)
            .with_current_span(true)
            .with_span_list(false)
            .finish()
            .try_init()?,
    }
    std::panic::set_hook(Box::new(log_panic));
    Ok(LogGuard { _worker: worker })
}

/// An error with all that caused it, for a field of a log line: the JSON form shows the error's
/// own words only, which are seldom the reason.
#[must_use]
pub(crate) fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text.push_str(&format!(": {cause}"));
        next = cause.source();
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

fn parse_filter(text: &str) -> Result<EnvFilterText, String> {
    // A bare word that is no level would be taken for a module, and silence everything else.
    let is_level = |word: &str| !word.is_empty() && word.parse::<LevelFilter>().is_ok();
    let mut bare = text
        .split(',')
        .map(str::trim)
        .filter(|part| !part.contains(['=', '[']));
    if let Some(word) = bare.find(|word| !is_level(word)) {
        let levels = "error, warn, info, debug, trace, off";
        return Err(format!(
            "found \"{word}\", expected one of {levels}, or MODULE=LEVEL"
        ));
    }
    let filter = EnvFilter::try_new(text).map(|_| EnvFilterText(text.to_owned()));
    filter.map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Program {
        #[command(flatten)]
        log: TelemetryArgs,
    }

    #[test]
    fn text_on_a_terminal_json_otherwise_and_as_asked() {
        assert_eq!(effective_format(None, true), LogFormat::Text);
        assert_eq!(effective_format(None, false), LogFormat::Json);
        assert_eq!(
            effective_format(Some(LogFormat::Text), false),
            LogFormat::Text
        );
    }

    #[test]
    fn a_filter_that_does_not_parse_is_refused_by_the_flag() {
        let program = Program::try_parse_from(["x", "--log-level", "info,meshgate=trace"]).unwrap();
        assert_eq!(
            program.log.log_level,
            EnvFilterText("info,meshgate=trace".to_owned())
        );
        for wrong in ["meshgate=loud", "blah", "info,blah", ""] {
            let refused = Program::try_parse_from(["x", "--log-level", wrong]);
            assert!(
                refused.unwrap_err().to_string().contains("--log-level"),
                "{wrong}"
            );
        }
    }
}
