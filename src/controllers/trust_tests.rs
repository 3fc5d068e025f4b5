use serde_json::json;

use super::*;

#[test]
fn urls_are_compared_by_host_and_services_without_their_path() {
    let url = |url: &str| json!({"url": url});
    assert!(has_same_address(&url("https://a:1/x"), &url("https://a:1")));
    assert!(!has_same_address(
        &url("https://a:1/x"),
        &url("https://a:2/x")
    ));
    let service = |name: &str, path: &str| json!({"service": {"name": name, "path": path}});
    assert!(has_same_address(&service("a", "/x"), &service("a", "/y")));
    assert!(!has_same_address(&service("a", "/x"), &service("b", "/x")));
    assert!(!has_same_address(&service("a", "/x"), &url("https://a")));
}
