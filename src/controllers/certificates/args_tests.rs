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
        "1w",
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

/// rustls takes no name whose last label is a number, and no address in brackets.
#[test]
fn names_that_no_caller_takes_are_left_out() {
    let of_digits = names("2024", "meshgate");
    assert!(!of_digits.contains(&"meshgate.2024".to_owned()));
    assert_eq!(of_digits.len(), 3);
    assert_eq!(names("meshgate-system", "[::1]"), ["::1"]);
}
