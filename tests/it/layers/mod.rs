//! The arrows of the drawing in `src/lib.rs`: who may import whom, and what pure code must not know.
//! What the core crate may depend on, its `Cargo.toml` says; the rest is held here.

mod circles;
mod source;

use self::source::{CORE, Line, ROOT, code_of, is_below, paths_in};

/// Which modules of the root package a path may import, besides `meshgate_core`.
const MAY_IMPORT: [(&str, &[&str]); 13] = [
    ("metrics", &[]),
    ("telemetry", &[]),
    ("lifecycle", &[]),
    ("kube_api", &["lifecycle", "telemetry"]),
    ("leader", &["kube_api", "lifecycle", "metrics"]),
    ("cluster", &["kube_api"]),
    ("admission", &["cluster", "lifecycle", "metrics"]),
    (
        "controllers",
        &[
            "certs",
            "cluster",
            "kube_api",
            "leader",
            "lifecycle",
            "metrics",
        ],
    ),
    ("certs", &["telemetry"]),
    ("server", &["certs", "lifecycle", "telemetry"]),
    ("cli", &["*"]),
    ("main.rs", &["*"]),
    ("lib.rs", &["*"]),
];

/// What pure code must not mention: the core crate, and everything named `plan`.
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
    for (path, text) in ROOT.files() {
        let Some((own, allowed)) = MAY_IMPORT.iter().find(|(own, _)| is_below(&path, own)) else {
            panic!("{path} has no row in MAY_IMPORT: say what it may import");
        };
        let code: Vec<String> = code_of(&text).into_iter().map(|(_, code)| code).collect();
        for named in paths_in(&code.join("\n")) {
            let [first, module, ..] = named.as_slice() else {
                continue;
            };
            let module = module.as_str();
            let may = module == *own || allowed.contains(&module) || allowed.contains(&"*");
            if first == "crate" && !may {
                wrong.push(format!("src/{path}: {own} must not import {module}"));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

#[test]
fn pure_code_knows_no_async_clock_io_or_logging() {
    let is_plan = |line: &Line| line.path.split(['/', '.']).any(|part| part == "plan");
    let pure = ROOT.lines().into_iter().filter(is_plan).chain(CORE.lines());
    let mut wrong = Vec::new();
    for line in pure {
        if let Some(found) = IMPURE.iter().find(|impure| line.code.contains(**impure)) {
            wrong.push(format!(
                "{}:{}: {found} in pure code: {}",
                line.path, line.number, line.code
            ));
        }
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

/// Few modules talk to the API server: those that decide, answer or serve do not know it.
#[test]
fn only_the_watch_the_controllers_and_the_commands_know_kube() {
    let mut wrong = Vec::new();
    for Line { path, number, code } in ROOT.lines() {
        let may = ["cluster/watch", "controllers", "cli", "kube_api", "leader"];
        let knows = ["kube::", "k8s_openapi::"];
        if !may.iter().any(|own| is_below(&path, own)) && knows.iter().any(|k| code.contains(k)) {
            wrong.push(format!("src/{path}:{number}: {code}"));
        }
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

/// Tasks are watched: they are started through `lifecycle` and nowhere else. `clippy.toml` bans
/// `tokio::spawn`; it cannot tell the program from its tests for the other ways.
#[test]
fn only_lifecycle_starts_tasks() {
    let mut wrong = Vec::new();
    for Line { path, number, code } in ROOT.lines() {
        // Probes have a thread and a runtime of their own, and end with it.
        let may = is_below(&path, "lifecycle") || is_below(&path, "server/admin");
        let ways = [
            "JoinSet",
            "TaskTracker",
            "spawn_local",
            "thread::spawn",
            "tokio::spawn",
        ];
        if !may && ways.iter().any(|way| code.contains(way)) {
            wrong.push(format!("src/{path}:{number}: {code}"));
        }
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

/// No injector's name in code: a preset is a file and one row in the list of presets.
#[test]
fn no_code_knows_an_injector_by_name() {
    let names = meshgate_core::injector::PRESETS.map(|(name, _)| name);
    let mut wrong = Vec::new();
    for Line { path, number, code } in ROOT.lines().into_iter().chain(CORE.lines()) {
        // The list of presets, and commands in help texts.
        let may = code.contains("preset!(") || code.contains("examples/");
        let found = names
            .iter()
            .find(|name| code.to_lowercase().contains(**name));
        if let Some(name) = found.filter(|_| !may) {
            wrong.push(format!("{path}:{number}: {name} is named in code: {code}"));
        }
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

#[test]
fn the_reader_of_sources_sees_what_it_must() {
    assert!(is_below("cluster/store.rs", "cluster/store.rs") && is_below("yaml.rs", "yaml"));
    assert!(is_below("yaml/tests.rs", "yaml") && !is_below("yamlish.rs", "yaml"));
    let paths = paths_in("use crate::a::{b, c::{d, self}};\nlet x = super::e::f(crate::g::H);");
    let paths: Vec<String> = paths.iter().map(|path| path.join("::")).collect();
    let expected = [
        "crate::a::b",
        "crate::a::c::d",
        "crate::a::c::self",
        "crate::g::H",
        "super::e::f",
    ];
    assert_eq!(paths, expected);
    let (root, core) = (ROOT.lines(), CORE.lines());
    assert!(
        root.len() > 5_000 && core.len() > 2_000,
        "the sources were not found"
    );
    let sees = |path: &str, code: &str| core.iter().any(|l| l.path == path && l.code == code);
    // What comes after a module of tests is code again.
    assert!(sees("decision/mod.rs", "pub struct Decision<'a> {"));
    assert!(!sees("decision/mod.rs", "mod tests;") && !sees("decision/mod.rs", "use super::*;"));
}
