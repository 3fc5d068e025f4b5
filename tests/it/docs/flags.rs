//! The tables of flags have every flag of every command, with the default that `--help` has.

use clap::{Arg, Command, CommandFactory};
use meshgate::cli::Cli;

use super::{page, quoted, rows, section};

/// Flags by which all commands are alike.
const COMMON: [&str; 4] = ["help", "version", "log-format", "log-level"];

/// A row: the flag, and what the table says that its default is.
struct Row {
    flag: String,
    default: String,
}

fn row(cells: &[&str], default: usize) -> Row {
    let flag = quoted(cells[0])[0].strip_prefix("--").unwrap();
    Row {
        flag: flag.split(' ').next().unwrap().to_owned(),
        default: cells[default].trim_matches('`').to_owned(),
    }
}

/// The flags of a command that its help shows, in that order.
fn flags(command: &Command) -> Vec<&Arg> {
    let shown = command.get_arguments().filter(|flag| !flag.is_hide_set());
    let own = shown.filter(|flag| flag.get_long().is_some_and(|long| !COMMON.contains(&long)));
    own.collect()
}

/// Compares flags with rows, whatever their order: a table has what belongs together side by side.
fn agree(of: &str, flags: &[&Arg], documented: &[Row]) {
    let mut names: Vec<&str> = flags.iter().filter_map(|flag| flag.get_long()).collect();
    names.sort_unstable();
    let mut rows: Vec<&str> = documented.iter().map(|row| row.flag.as_str()).collect();
    rows.sort_unstable();
    assert_eq!(rows, names, "{of}: the table, and what --help has");
    for flag in flags {
        let long = flag.get_long().unwrap();
        let row = documented.iter().find(|row| row.flag == long).unwrap();
        // A switch has no default to speak of, and what depends on where it runs has prose.
        if let [value] = flag.get_default_values()
            && flag.get_action().takes_values()
        {
            assert_eq!(row.default, value.to_string_lossy(), "{of}: --{long}");
        }
    }
}

#[test]
fn every_flag_of_every_command_is_in_its_table() {
    let page = page("docs/reference.md");
    let program = Cli::command();
    for command in program.get_subcommands() {
        let name = command.get_name();
        let of = format!("### meshgate {name}");
        let mut documented: Vec<Row> = rows(section(&page, &of))
            .iter()
            .map(|cells| {
                // `explain` and `render` show the default of `-o` as a list whose first is it.
                let mut row = row(cells, 2);
                if row.flag == "output" {
                    quoted(cells[2])[0].clone_into(&mut row.default);
                }
                row
            })
            .collect();
        if name == "serve" {
            let limits = rows(section(&page, "## Limits"));
            documented.extend(limits.iter().map(|cells| row(cells, 1)));
        }
        let mut all = flags(command);
        // Forms of `render` share most of theirs.
        for form in command.get_subcommands() {
            let more = flags(form);
            all.extend(more);
        }
        all.sort_by_key(|flag| flag.get_long());
        all.dedup_by_key(|flag| flag.get_long());
        agree(&of, &all, &documented);
    }
}

/// Limits whose default depends on where the server runs say so.
#[test]
fn defaults_that_depend_on_the_place_name_it() {
    let page = page("docs/reference.md");
    let program = Cli::command();
    let serve = program.find_subcommand("serve").unwrap();
    for cells in rows(section(&page, "## Limits")) {
        let row = row(&cells, 1);
        let flag = flags(serve)
            .into_iter()
            .find(|flag| flag.get_long() == Some(&row.flag));
        let flag = flag.unwrap_or_else(|| panic!("--{}", row.flag));
        if flag.get_default_values().is_empty() {
            assert!(row.default.contains("standalone"), "--{}", row.flag);
        }
    }
}
