//! The documentation says what the code says.

use std::fs;
use std::path::Path;

use clap::CommandFactory;
use meshgate::cluster::folder::Folder;
use meshgate::config::{ConfigurationSpec, InjectedSpec, InjectorSpec, RuleSpec, TermSpec};
use meshgate::decision::reason::Reason;
use meshgate::decision::{gate, requirement};
use meshgate::injector::PRESETS;
use meshgate::server::args::ServerArgs;
use meshgate::view::pod::PodView;

fn page(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The first cells of the rows of a page's tables.
fn first_cells(page: &str) -> Vec<&str> {
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.filter_map(|row| row.split('`').next()).collect()
}

#[test]
fn every_reason_is_explained_and_no_other() {
    let page = page("docs/answers.md");
    let documented: Vec<&str> = first_cells(&page);
    let reasons: Vec<&str> = Reason::ALL.iter().map(|reason| reason.as_str()).collect();
    let start = documented
        .iter()
        .position(|word| *word == reasons[0])
        .expect("the first reason");
    assert_eq!(
        &documented[start..start + reasons.len()],
        reasons,
        "docs/answers.md"
    );
    assert!(
        documented[start + reasons.len()].starts_with("meshgate_"),
        "docs/answers.md"
    );
}

#[test]
fn every_key_of_the_format_is_explained() {
    let page = page("docs/profiles.md");
    let mut missing = Vec::new();
    for schema in [
        schemars::schema_for!(ConfigurationSpec),
        schemars::schema_for!(InjectorSpec),
        schemars::schema_for!(RuleSpec),
        schemars::schema_for!(TermSpec),
        schemars::schema_for!(InjectedSpec),
    ] {
        let properties = schema
            .get("properties")
            .and_then(|p| p.as_object())
            .expect("properties");
        missing.extend(
            properties
                .keys()
                .filter(|key| !page.contains(key.as_str()))
                .cloned(),
        );
    }
    assert!(
        missing.is_empty(),
        "docs/profiles.md does not mention {missing:?}"
    );
}

#[test]
fn the_readme_names_every_preset() {
    let readme = page("README.md");
    for (name, _) in PRESETS {
        assert!(
            readme.contains(&format!("`{name}`")),
            "README.md does not name {name}"
        );
    }
}

/// The README's refusal is what the code says today of the files in `examples/`.
#[test]
fn the_readme_shows_the_real_refusal() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folder = Folder::new(&root.join("examples/cluster"), None, "meshgate-system");
    let store = folder.open().expect("the example cluster");
    let review: serde_json::Value =
        serde_json::from_str(&page("examples/reviews/orders-pod.json")).unwrap();
    let pod = review["request"]["object"].to_string();
    let pod = PodView::read(&pod, store.injectors().keys()).unwrap();
    let namespace = store.namespace("orders").unwrap();
    let requirement = requirement::of(&pod, namespace, store.injectors());
    let decision = gate::decide(&pod, &requirement, |claim| {
        store.readiness(claim.number, claim.instance())
    });
    assert!(!decision.verdict.allows());
    assert!(
        page("README.md").contains(&decision.message),
        "README.md lacks: {}",
        decision.message
    );
}

/// And its `explain` is what the program prints.
#[test]
fn the_readme_shows_the_real_explanation() {
    let arguments = [
        "explain",
        "-f",
        "examples/pods/deployment-linkerd.yaml",
        "--state",
        "examples/cluster",
    ];
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_meshgate"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(arguments)
        .output()
        .unwrap();
    let explained = String::from_utf8(output.stdout).unwrap();
    assert!(
        page("README.md").contains(&explained),
        "README.md lacks:\n{explained}"
    );
}

/// Its greeting too, but for what differs from start to start.
#[test]
fn the_readme_shows_the_real_states() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let store = Folder::new(&root.join("examples/cluster"), None, "meshgate-system").open();
    let readme = page("README.md");
    for state in store.expect("the example cluster").states() {
        let name = &state.injector.profile.name;
        let row = readme
            .lines()
            .any(|line| line.trim_start().starts_with(name.as_str()));
        assert!(row, "README.md has no row for {name}");
    }
}

/// The table of limits has every flag of the server, with the default that `--help` has.
#[test]
fn every_limit_is_in_the_table_with_its_default() {
    #[derive(clap::Parser)]
    struct Program {
        #[command(flatten)]
        server: ServerArgs,
    }
    let page = page("docs/reliability.md");
    let rows: Vec<(&str, &str)> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `--")?.split_once("` | "))
        .map(|(flag, rest)| (flag, rest.split(" | ").next().unwrap()))
        .collect();
    let command = Program::command();
    let flags: Vec<_> = command
        .get_arguments()
        .filter(|flag| !["help", "version"].contains(&flag.get_id().as_str()))
        .collect();
    let names: Vec<_> = flags.iter().filter_map(|flag| flag.get_long()).collect();
    let documented: Vec<_> = rows.iter().map(|(flag, _)| *flag).collect();
    assert_eq!(documented, names, "docs/reliability.md");
    for (flag, (name, default)) in flags.iter().zip(&rows) {
        // Those without a default of clap's own depend on the placement.
        if let [value] = flag.get_default_values() {
            assert_eq!(*default, value.to_string_lossy(), "--{name}");
        } else {
            assert!(default.contains("standalone"), "--{name}");
        }
    }
}
