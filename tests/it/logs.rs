//! What the real program writes to standard error.

use std::collections::BTreeMap;

use crate::support::eventually;
use crate::support::process::{Start, authority};

/// Starts it, lets it say something, stops it; what it wrote.
async fn log_of(flags: &[&str], env: &[(&str, &str)]) -> String {
    let start = Start {
        flags,
        env,
        ..Start::default()
    };
    let mut process = start.run(&authority()).await;
    std::fs::write(process.certs().join("tls.crt"), "no certificate").unwrap();
    let is_told = async || process.log().contains("the certificate files are refused");
    eventually("a refusal in the log", is_told).await;
    process.terminate();
    process.exited().await;
    eventually("the last line", async || process.log().contains("stopped")).await;
    process.log()
}

#[tokio::test]
async fn json_by_default_without_a_terminal_a_line_each_with_all_causes() {
    let log = log_of(&[], &[]).await;
    for line in log.lines() {
        let fields: BTreeMap<String, serde_json::Value> = serde_json::from_str(line).unwrap();
        for field in ["timestamp", "level", "message"] {
            assert!(fields.contains_key(field), "{line}");
        }
        assert!(!line.contains('\u{1b}'), "{line}");
        let name = line.matches(r#""name":"#).count();
        assert!(name <= 1, "a key twice in one object: {line}");
    }
    assert!(
        log.contains("the certificate has no CERTIFICATE block"),
        "{log}"
    );
}

#[tokio::test]
async fn colours_only_where_they_are_wanted() {
    let text = ["--log-format=text"];
    let forced = ("CLICOLOR_FORCE", "1");
    let plain = log_of(&text, &[]).await;
    assert!(
        plain.contains("the certificate has no CERTIFICATE block"),
        "{plain}"
    );
    assert!(!plain.contains('\u{1b}'), "{plain}");
    assert!(log_of(&text, &[forced]).await.contains('\u{1b}'));
    let refused = log_of(&text, &[forced, ("NO_COLOR", "1")]).await;
    assert!(!refused.contains('\u{1b}'), "{refused}");
}

#[tokio::test]
async fn the_level_is_obeyed() {
    let log = log_of(&["--log-level=warn,meshgate::cli=info"], &[]).await;
    assert!(!log.contains("serving with the certificate"), "{log}");
}
