use super::WebhookUrl;

#[test]
fn an_address_is_scheme_host_and_port() {
    for (text, host) in [
        ("https://127.0.0.1:8443", "127.0.0.1"),
        ("https://127.0.0.1:8443/", "127.0.0.1"),
        ("https://[::1]:8443", "[::1]"),
        ("https://dev.example.test", "dev.example.test"),
    ] {
        let url: WebhookUrl = text.parse().unwrap();
        assert_eq!(url.host(), host);
        assert_eq!(url.to_string(), text.trim_end_matches('/'));
    }
    for wrong in [
        "",
        "http://a:1",
        "a:1",
        "https://",
        "https://a:1/x",
        "https://a:1?x",
        "https://a:",
        "https://a:0",
        "https://a:99999",
        "https://[::1]:99999",
        "https://u@a:1",
        "https://a b",
    ] {
        assert!(wrong.parse::<WebhookUrl>().is_err(), "{wrong}");
    }
}
