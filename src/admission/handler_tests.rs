use super::*;

#[test]
fn the_timeout_is_that_of_the_query_within_what_the_api_server_allows() {
    let seconds =
        |query: &str| timeout(&format!("/mutate/pods{query}").parse().unwrap()).as_millis();
    assert_eq!(seconds("?timeout=2s"), 2_000);
    assert_eq!(seconds("?a=b&timeout=30s"), 30_000);
    for odd in [
        "",
        "?timeout=",
        "?timeout=x",
        "?timeout=0s",
        "?timeout=-3s",
        "?timeout=31s",
        "?timeout=9999999999999h",
    ] {
        assert_eq!(seconds(odd), 5_000, "{odd}");
    }
}
