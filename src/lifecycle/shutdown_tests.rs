use super::*;

#[tokio::test]
async fn an_abort_is_a_drain_too_and_the_first_cause_stays() {
    let shutdown = Shutdown::default();
    assert!(!shutdown.is_draining());
    assert_eq!(shutdown.cause(), None);

    let other = shutdown.clone();
    other.drain("SIGTERM");
    shutdown.draining().await;
    assert!(!shutdown.aborted.is_cancelled());

    other.abort("SIGINT");
    shutdown.aborted().await;
    assert_eq!(shutdown.cause(), Some("SIGTERM"));
}

#[tokio::test]
async fn the_first_signal_drains_and_the_second_aborts() {
    let shutdown = Shutdown::on_signals().unwrap();
    let signal = |name: &str| {
        let pid = std::process::id().to_string();
        let mut kill = std::process::Command::new("kill");
        assert!(kill.args([name, &pid]).status().unwrap().success());
    };
    signal("-TERM");
    shutdown.draining().await;
    assert!(!shutdown.aborted.is_cancelled());
    assert_eq!(shutdown.cause(), Some("SIGTERM"));
    signal("-INT");
    shutdown.aborted().await;
}
