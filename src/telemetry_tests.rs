use clap::Parser;
use tracing::Level;

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

fn parse(filter: &str) -> Result<Targets, String> {
    Program::try_parse_from(["x", "--log-level", filter])
        .map(|program| program.log.log_level)
        .map_err(|error| error.to_string())
}

#[test]
fn levels_are_told_apart_by_module_and_libraries_are_quiet_unless_named() {
    let is_logged = |filter: &str, target: &str, level| {
        let targets = parse(filter).unwrap();
        targets.would_enable(target, &level)
    };
    for (filter, target, level, expected) in [
        ("info", "meshgate::server", Level::INFO, true),
        ("info", "meshgate::server", Level::DEBUG, false),
        ("off", "meshgate::server", Level::ERROR, false),
        (
            "info,meshgate=trace",
            "meshgate::server",
            Level::TRACE,
            true,
        ),
        ("info,meshgate=trace", "hyper", Level::DEBUG, false),
        (
            "warn, meshgate::server=debug",
            "meshgate::server::accept",
            Level::DEBUG,
            true,
        ),
        (
            "warn, meshgate::server=debug",
            "meshgate::cluster",
            Level::INFO,
            false,
        ),
        ("info", "kube_client::client", Level::WARN, false),
        ("info", "kube_runtime::watcher", Level::ERROR, true),
        (
            "info,kube_client=debug",
            "kube_client::client",
            Level::DEBUG,
            true,
        ),
    ] {
        let logged = is_logged(filter, target, level);
        assert_eq!(logged, expected, "{filter}: {target} {level}");
    }
}

#[test]
fn a_filter_that_does_not_parse_is_refused_by_the_flag() {
    for wrong in ["meshgate=loud", "blah", "info,blah", "info,[span]", ""] {
        let refused = parse(wrong).unwrap_err();
        assert!(refused.contains("--log-level"), "{wrong}: {refused}");
    }
}
