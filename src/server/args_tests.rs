use clap::Parser;

use super::*;

#[derive(Debug, Parser)]
struct Program {
    #[command(flatten)]
    server: ServerArgs,
}

fn parse(args: &[&str]) -> Result<ServerArgs, String> {
    Program::try_parse_from([&["x"], args].concat())
        .map(|program| program.server)
        .map_err(|error| error.to_string())
}

#[test]
fn defaults_follow_the_placement() {
    let args = parse(&[]).unwrap();
    let standalone = args.listen(Placement::Standalone);
    assert_eq!(standalone.to_string(), "127.0.0.1:8443");
    assert_eq!(args.listen(Placement::Cluster).to_string(), "[::]:8443");
    assert_eq!(args.admin_listen(Placement::Cluster).port(), 8080);

    let delay = |placement| args.limits(placement).shutdown_delay;
    assert_eq!(delay(Placement::Standalone), Duration::ZERO);
    assert_eq!(delay(Placement::Cluster), Duration::from_secs(15));
}

#[test]
fn a_delay_that_is_given_holds_everywhere() {
    let args = parse(&["--shutdown-delay", "1500ms"]).unwrap();
    let limits = args.limits(Placement::Standalone);
    assert_eq!(limits.shutdown_delay, Duration::from_millis(1500));
}

#[test]
fn values_that_would_hurt_are_refused() {
    let short = parse(&["--idle-time", "90s"]).unwrap_err();
    assert!(short.contains("at least 120s"), "{short}");
    assert!(parse(&["--idle-time", "2m"]).is_ok());
    assert!(parse(&["--max-connections", "0"]).is_err());
    assert!(parse(&["--header-time", "10"]).is_err());
    assert!(parse(&["--header-time=-10s"]).is_err());
    assert!(parse(&["--header-size", "100"]).is_err());
    assert!(parse(&["--body-memory", "1000000"]).is_err());
}
