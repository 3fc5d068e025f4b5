//! No two files of a crate need each other, directly or by way of others.
//!
//! A file may name the `mod.rs` of a folder that it is in: that is where the files of a folder find
//! what they share. Everything else counts.

use std::collections::{BTreeMap, BTreeSet};

use super::source::{CORE, ROOT, code_of, paths_in};

/// From each file to the files that it names.
type Arrows = BTreeMap<String, BTreeSet<String>>;

#[test]
fn files_of_a_crate_form_no_circle() {
    for one in [ROOT, CORE] {
        let found = circles(&arrows(&one.files()));
        let found: Vec<String> = found.iter().map(|files| files.join(" <-> ")).collect();
        assert!(found.is_empty(), "{}:\n{}", one.src, found.join("\n"));
    }
}

#[test]
fn the_reader_finds_a_circle_of_any_length_and_no_other() {
    let files = |all: &[(&str, &str)]| -> Vec<(String, String)> {
        let own = |(path, text): &(&str, &str)| ((*path).to_owned(), (*text).to_owned());
        all.iter().map(own).collect()
    };
    let three = [
        ("a/one.rs", "use super::two::{Two, self};"),
        ("a/two.rs", "fn f() { crate::b::call() }"),
        (
            "b.rs",
            "use crate::{\n    c::C,\n    a::one::One as Other,\n};",
        ),
        (
            "c.rs",
            "// use crate::b;\n#[cfg(test)]\nmod tests {\n    use crate::b;",
        ),
        // What a folder shares is in its `mod.rs`.
        ("d/mod.rs", "mod e;\nuse self::e::E;"),
        ("d/e.rs", "use super::Shared;"),
        ("lib.rs", "pub mod a;"),
    ];
    let found = circles(&arrows(&files(&three)));
    assert_eq!(found, [["a/one.rs", "a/two.rs", "b.rs"]]);
    let siblings = [
        ("a/mod.rs", "use crate::b::B;"),
        ("a/inner.rs", ""),
        ("b.rs", "use crate::a::inner;"),
    ];
    assert!(circles(&arrows(&files(&siblings))).is_empty());
    let whole = [
        ("a/mod.rs", "use crate::b::B;"),
        ("b.rs", "use crate::a::A;"),
    ];
    assert_eq!(circles(&arrows(&files(&whole))), [["a/mod.rs", "b.rs"]]);
    let (root, core) = (arrows(&ROOT.files()), arrows(&CORE.files()));
    assert!(
        root.values()
            .chain(core.values())
            .map(BTreeSet::len)
            .sum::<usize>()
            > 200
    );
}

fn arrows(files: &[(String, String)]) -> Arrows {
    let by_module: BTreeMap<Vec<String>, &str> = files
        .iter()
        .map(|(path, _)| (module_of(path), path.as_str()))
        .collect();
    let arrows = files.iter().map(|(path, text)| {
        let code: Vec<String> = code_of(text).into_iter().map(|(_, code)| code).collect();
        let own = module_of(path);
        let named = paths_in(&code.join("\n")).into_iter().filter_map(|named| {
            let mut module = resolved(&own, &named);
            // What is left over is an item in the module.
            while !by_module.contains_key(&module) {
                module.pop()?;
            }
            (!own.starts_with(&module)).then(|| by_module[&module].to_owned())
        });
        (path.clone(), named.collect())
    });
    arrows.collect()
}

/// `a/b.rs` and `a/b/mod.rs` are module `a::b`; `lib.rs` and `main.rs` are the crate.
fn module_of(path: &str) -> Vec<String> {
    let path = path.trim_end_matches(".rs");
    let words = path.split('/').map(str::to_owned);
    let is_file = |word: &String| !matches!(word.as_str(), "mod" | "lib" | "main");
    words.filter(is_file).collect()
}

/// A path as modules from the root of the crate.
fn resolved(own: &[String], path: &[String]) -> Vec<String> {
    let mut module = Vec::new();
    for (index, word) in path.iter().enumerate() {
        match word.as_str() {
            "crate" => module.clear(),
            "self" if index == 0 => module = own.to_vec(),
            "self" => {}
            "super" => {
                if index == 0 {
                    module = own.to_vec();
                }
                module.pop();
            }
            _ => module.push(word.clone()),
        }
    }
    module
}

/// Groups of files in which each is reached from each.
fn circles(arrows: &Arrows) -> Vec<Vec<String>> {
    let reached: BTreeMap<&String, BTreeSet<&String>> = arrows
        .keys()
        .map(|file| (file, reach(arrows, file)))
        .collect();
    let mut found = BTreeSet::new();
    for (file, others) in &reached {
        let back = others
            .iter()
            .filter(|other| reached[**other].contains(*file));
        let group: Vec<String> = back.map(|other| (*other).clone()).collect();
        if group.len() > 1 {
            found.insert(group);
        }
    }
    found.into_iter().collect()
}

/// All files that `file` names, and those that they name.
fn reach<'a>(arrows: &'a Arrows, file: &String) -> BTreeSet<&'a String> {
    let mut reached = BTreeSet::new();
    let mut waiting: Vec<&String> = arrows[file].iter().collect();
    while let Some(next) = waiting.pop() {
        if reached.insert(next) {
            waiting.extend(&arrows[next]);
        }
    }
    reached
}
