use super::*;

#[test]
fn lifetimes_have_a_unit_and_a_least() {
    assert_eq!(parse_lifetime("90d"), Ok(Duration::from_secs(90 * 86_400)));
    assert_eq!(parse_lifetime("1h30m"), Ok(Duration::from_secs(90 * 60)));
    assert_eq!(parse_lifetime("30s"), Ok(SHORTEST));
    for wrong in [
        "",
        "d",
        "29s",
        "90",
        "-1d",
        "ü",
        "99999999999999999999d",
        "40000d",
    ] {
        assert!(parse_lifetime(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_service_is_called_by_its_long_name_first() {
    let names = names("meshgate-system", "meshgate");
    assert_eq!(
        names,
        [
            "meshgate.meshgate-system.svc",
            "meshgate.meshgate-system.svc.cluster.local",
            "meshgate.meshgate-system",
            "meshgate",
        ]
    );
}
