//! "Where a new thing goes" names places that there are.

use super::{page, quoted, root, rows, section};

/// Whether a quote of the table is a path: it has a folder, or is a file at the root.
fn is_path(quote: &str) -> bool {
    let begins = [
        "src/",
        "crates/",
        "tests/",
        "docs/",
        "benches/",
        "manifests/",
        "schema/",
    ];
    let files = ["README.md", "CHANGELOG.md", "Cargo.toml"];
    begins.iter().any(|folder| quote.starts_with(folder)) || files.contains(&quote)
}

#[test]
fn every_place_for_a_new_thing_is_there() {
    let page = page("CONTRIBUTING.md");
    let rows = rows(section(&page, "## Where a new thing goes"));
    assert!(rows.len() > 10, "{rows:?}");
    let mut wrong = Vec::new();
    for row in &rows {
        let paths: Vec<&str> = row
            .iter()
            .flat_map(|cell| quoted(cell))
            .filter(|quote| is_path(quote))
            .collect();
        if paths.is_empty() {
            wrong.push(format!("{} has no path", row[0]));
        }
        for path in paths {
            // A file that is new: its folder is there.
            let (known, _) = path.split_once("NAME").unwrap_or((path, ""));
            if !root().join(known).exists() {
                wrong.push(format!("{}: {path}", row[0]));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

/// A filter that fits no module would leave its tests out, and no line would say so.
#[test]
fn what_make_compat_runs_is_there() {
    let makefile = page("Makefile");
    let (_, list) = makefile.split_once("\nCOMPAT = ").unwrap();
    let (list, _) = list.split_once("\n\n").unwrap();
    let modules = list.split_whitespace().filter(|word| *word != "\\");
    let is_missing = |module: &&str| {
        let path = module.trim_end_matches("::").replace("::", "/");
        let of = |end| root().join("tests/it").join(format!("{path}{end}"));
        !of(".rs").exists() && !of("/mod.rs").exists()
    };
    let (missing, there): (Vec<&str>, Vec<&str>) = modules.partition(is_missing);
    assert!(missing.is_empty(), "{missing:?}");
    assert!(there.len() > 5, "{there:?}");
}

/// Each of the folders in the table of layers too.
#[test]
fn every_folder_that_is_explained_is_there() {
    let page = page("CONTRIBUTING.md");
    let rows = rows(section(&page, "## The layers"));
    let missing: Vec<&str> = rows
        .iter()
        .flat_map(|row| quoted(row[0]))
        .filter(|path| !root().join(path).exists())
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert!(rows.len() > 10, "{rows:?}");
}

/// And the other way round: a folder of sources without a row is one that a reader cannot place.
#[test]
fn every_folder_of_sources_is_explained() {
    let page = page("CONTRIBUTING.md");
    let rows = rows(section(&page, "## The layers"));
    let explained: Vec<&str> = rows.iter().flat_map(|row| quoted(row[0])).collect();
    let mut missing = Vec::new();
    for parent in ["src", "crates/core/src"] {
        for entry in std::fs::read_dir(root().join(parent)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            let name = format!("{parent}/{name}/");
            if path.is_dir() && !explained.contains(&name.as_str()) {
                missing.push(name);
            }
        }
    }
    assert!(missing.is_empty(), "{missing:?}");
}
