//! The arrows of the drawing in `src/lib.rs`: who may import whom, and what the pure core must
//! not know. One crate, so a test holds what crate borders would.

use std::fs;
use std::path::{Path, PathBuf};

/// Which modules of the crate a path may import. The longest path that fits counts.
const MAY_IMPORT: [(&str, &[&str]); 16] = [
    ("yaml", &[]),
    ("metrics", &[]),
    ("telemetry", &[]),
    ("lifecycle", &[]),
    ("injector", &["yaml"]),
    ("decision", &["injector"]),
    ("render", &["injector"]),
    ("glass", &["render"]),
    ("cluster", &["decision", "glass", "injector", "yaml"]),
    (
        "admission",
        &["cluster", "decision", "injector", "metrics", "render"],
    ),
    (
        "controllers",
        &[
            "certs",
            "cluster",
            "glass",
            "injector",
            "lifecycle",
            "metrics",
            "render",
        ],
    ),
    ("certs", &["telemetry"]),
    ("server", &["certs", "lifecycle", "telemetry"]),
    ("cli", &["*"]),
    ("main.rs", &["*"]),
    ("lib.rs", &["*"]),
];

/// Paths that are pure: no async, clock, IO or logging.
const PURE: [&str; 33] = [
    "injector",
    "decision",
    "render",
    "glass",
    "yaml",
    "certs/bundle.rs",
    "certs/held.rs",
    "certs/rotation",
    "certs/swap.rs",
    "controllers/kind.rs",
    "controllers/lease/plan",
    "controllers/lease/record.rs",
    "controllers/pace.rs",
    "controllers/registration/bulletin.rs",
    "controllers/registration/contains.rs",
    "controllers/registration/entries.rs",
    "controllers/registration/fleet.rs",
    "controllers/registration/mirrored.rs",
    "controllers/registration/narrowed.rs",
    "controllers/registration/policies.rs",
    "controllers/registration/plan",
    "controllers/registration/terms.rs",
    "controllers/registration/trusting.rs",
    "controllers/trust.rs",
    "controllers/namespaces/plan.rs",
    "controllers/removal/plan.rs",
    "cli/status/report",
    "cluster/object.rs",
    "cluster/store.rs",
    "cluster/located.rs",
    "cluster/report.rs",
    "cluster/freshness.rs",
    "cluster/watch/wire.rs",
];

/// What pure code must not mention.
const IMPURE: [&str; 14] = [
    "tokio",
    "kube::",
    "axum",
    "hyper",
    "tracing",
    "anyhow",
    "std::fs",
    "std::net",
    "std::env",
    "std::io",
    "std::thread",
    "std::process",
    "async fn",
    "::now(",
];

#[test]
fn imports_follow_the_drawing() {
    let mut wrong = Vec::new();
    for (path, number, line) in code_lines() {
        let Some((own, allowed)) = MAY_IMPORT.iter().find(|(own, _)| is_below(&path, own)) else {
            panic!("{path} has no row in MAY_IMPORT: say what it may import");
        };
        assert!(
            !line.contains("crate::{"),
            "src/{path}:{number}: one `use` per module, please"
        );
        for module in imported(&line) {
            let is_fine =
                module == *own || allowed.contains(&"*") || allowed.contains(&module.as_str());
            if !is_fine {
                wrong.push(format!(
                    "src/{path}:{number}: {own} must not import {module}: {line}"
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

#[test]
fn the_pure_core_knows_no_async_clock_io_or_logging() {
    let mut wrong = Vec::new();
    for (path, number, line) in code_lines() {
        if !PURE.iter().any(|pure| is_below(&path, pure)) {
            continue;
        }
        if let Some(found) = IMPURE.iter().find(|impure| line.contains(**impure)) {
            wrong.push(format!(
                "src/{path}:{number}: {found} in the pure core: {line}"
            ));
        }
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

/// The API server is talked to in few places: whoever decides, answers or serves knows of none.
#[test]
fn only_the_watch_the_controllers_and_the_commands_know_kube() {
    let mut wrong = Vec::new();
    for (path, number, line) in code_lines() {
        let may = ["cluster/watch", "controllers", "cli"];
        let knows = ["kube::", "k8s_openapi::"];
        if !may.iter().any(|own| is_below(&path, own)) && knows.iter().any(|k| line.contains(k)) {
            wrong.push(format!("src/{path}:{number}: {line}"));
        }
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

/// Tasks are watched: they are started through `lifecycle` and nowhere else. `clippy.toml` bans
/// `tokio::spawn`; it cannot tell the program from its tests for the other ways.
#[test]
fn only_lifecycle_starts_tasks() {
    let mut wrong = Vec::new();
    for (path, number, line) in code_lines() {
        // Probes have a thread and a runtime of their own, and end with it.
        let may = is_below(&path, "lifecycle") || is_below(&path, "server/admin");
        let ways = [
            "JoinSet",
            "TaskTracker",
            "spawn_local",
            "thread::spawn",
            "tokio::spawn",
        ];
        if !may && ways.iter().any(|way| line.contains(way)) {
            wrong.push(format!("src/{path}:{number}: {line}"));
        }
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

/// No injector's name in code: a preset is a file and one row in the list of presets.
#[test]
fn no_code_knows_an_injector_by_name() {
    let names = meshgate::injector::PRESETS.map(|(name, _)| name);
    let mut wrong = Vec::new();
    for (path, number, line) in code_lines() {
        // The list of presets, and commands in help texts.
        let is_row = path == "injector/mod.rs" && line.contains("preset!(");
        let is_row = is_row || line.contains("examples/");
        let found = names
            .iter()
            .find(|name| line.to_lowercase().contains(**name));
        if let Some(name) = found.filter(|_| !is_row) {
            wrong.push(format!(
                "src/{path}:{number}: {name} is named in code: {line}"
            ));
        }
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

#[test]
fn the_reader_of_lines_sees_what_it_must() {
    assert_eq!(imported("use crate::cluster::store::Store;"), ["cluster"]);
    assert_eq!(
        imported("crate::metrics::Hook, crate::yaml::x"),
        ["metrics", "yaml"]
    );
    assert_eq!(imported("use std::fs;"), Vec::<String>::new());
    assert!(is_below("cluster/store.rs", "cluster/store.rs") && is_below("yaml.rs", "yaml"));
    assert!(is_below("yaml/tests.rs", "yaml") && !is_below("yamlish.rs", "yaml"));
    let lines = code_lines();
    assert!(lines.len() > 2_000, "the sources were not found");
    let sees = |path: &str, text: &str| lines.iter().any(|(p, _, l)| p == path && l == text);
    // What comes after a module of tests is code again.
    assert!(sees("decision/mod.rs", "pub struct Decision<'a> {"));
    assert!(!sees("decision/mod.rs", "mod testing;") && !sees("metrics/mod.rs", "use super::*;"));
}

fn is_below(path: &str, own: &str) -> bool {
    path == own
        || path.strip_suffix(".rs") == Some(own)
        || path
            .strip_prefix(own)
            .is_some_and(|rest| rest.starts_with('/'))
}

/// The first modules after each `crate::` of a line.
fn imported(line: &str) -> Vec<String> {
    let parts = line.split("crate::").skip(1);
    let word = |part: &str| -> String {
        part.chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect()
    };
    parts.map(word).filter(|word| !word.is_empty()).collect()
}

/// Lines of code outside tests and comments: path below `src`, number, text.
fn code_lines() -> Vec<(String, usize, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    collect(&root, &mut files);
    let mut lines = Vec::new();
    for file in files {
        let path = file
            .strip_prefix(&root)
            .unwrap()
            .to_string_lossy()
            .into_owned();
        if path.ends_with("tests.rs") || path.contains("/tests/") {
            continue;
        }
        let text = fs::read_to_string(&file).unwrap();
        let mut is_test = false;
        for (number, line) in (1..).zip(text.lines()) {
            is_test |= line.trim() == "#[cfg(test)]";
            if is_test {
                // A module in a file of its own is one item; one that is here ends the file.
                if line.ends_with('{') {
                    break;
                }
                is_test = !line.ends_with(';');
                continue;
            }
            let code = line.split("//").next().unwrap_or_default().trim();
            if !code.is_empty() {
                lines.push((path.clone(), number, code.to_owned()));
            }
        }
    }
    lines
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|end| end == "rs") {
            files.push(path);
        }
    }
}
