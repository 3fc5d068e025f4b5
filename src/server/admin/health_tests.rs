use super::*;

fn health() -> (HealthChecks, Shutdown, Health) {
    let checks = HealthChecks::default();
    checks.add("view").pass();
    checks.add("listener").pass_with("2 ms");
    let shutdown = Shutdown::default();
    let health = Health::new(checks.clone(), shutdown.clone());
    (checks, shutdown, health)
}

#[test]
fn short_and_verbose_when_all_is_well() {
    let (_, _, health) = health();
    let ok = |path, query, text: &str| {
        assert_eq!(
            health.answer(path, query),
            Some((StatusCode::OK, text.to_owned())),
            "{path}?{query}"
        );
    };
    ok("/readyz", "", "ok");
    ok("/livez", "", "ok");
    ok("/healthz", "", "ok");
    ok("/livez", "verbose", "[+]ping ok\nlivez check passed\n");
    ok(
        "/readyz",
        "verbose=1",
        "[+]ping ok\n[+]view ok\n[+]listener ok: 2 ms\n[+]shutdown ok\nreadyz check passed\n",
    );
    ok("/readyz/view", "", "ok");
    ok("/livez/ping", "", "ok");
}

#[test]
fn a_failure_is_always_verbose_and_touches_readiness_only() {
    let (checks, _, health) = health();
    checks.add("view").fail("namespaces not listed");
    let failed = |path, query| health.answer(path, query);
    assert_eq!(
        failed("/readyz", ""),
        Some((
            StatusCode::INTERNAL_SERVER_ERROR,
            "[+]ping ok\n[-]view failed: namespaces not listed\n[+]listener ok: 2 ms\n[+]shutdown ok\nreadyz check failed\n"
                .to_owned()
        ))
    );
    assert_eq!(
        failed("/readyz/view", ""),
        Some((
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal server error: namespaces not listed\n".to_owned()
        ))
    );
    let live = Some((StatusCode::OK, "ok".to_owned()));
    assert_eq!(failed("/livez", ""), live);
    assert_eq!(failed("/readyz", "exclude=view"), live);
}

#[test]
fn exclusions_are_shown_and_unknown_ones_warned_of() {
    let (_, _, health) = health();
    let (_, text) = health
        .answer("/readyz", "verbose&exclude=view&exclude=etcd")
        .unwrap();
    assert_eq!(
        text,
        "[+]ping ok\n[+]view excluded: ok\n[+]listener ok: 2 ms\n[+]shutdown ok\nwarn: some health checks cannot be excluded: no matches for \"etcd\"\nreadyz check passed\n"
    );
}

#[test]
fn unknown_checks_and_paths_are_not_found() {
    let (_, _, health) = health();
    for path in ["/readyz/etcd", "/livez/view", "/", "/ready", "/metricsx"] {
        assert_eq!(health.answer(path, ""), None, "{path}");
    }
}

#[test]
fn a_shutdown_ends_readiness_at_once() {
    let (_, shutdown, health) = health();
    shutdown.drain("SIGTERM");
    let (status, text) = health.answer("/readyz", "").unwrap();
    assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
    assert!(text.contains("[-]shutdown failed: process is shutting down (SIGTERM)\n"));
    let (status, _) = health.answer("/livez", "").unwrap();
    assert_eq!(status, StatusCode::OK);
}
