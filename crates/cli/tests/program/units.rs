//! The systemd units of scripts/systemd: their commands are valid, and systemd takes them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Parser as _;
use fathom_cli::arguments::Arguments;

use crate::group::skipped;
use crate::test_env::{TestEnvFolder, entries, path_text, text};

const PROGRAM: &str = "/usr/bin/fathom";

fn units() -> Vec<PathBuf> {
    let mut units = entries(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/systemd"));
    units.retain(|unit| unit.extension().is_some_and(|it| it == "service" || it == "timer"));
    assert_eq!(units.len(), 3, "{units:?}");
    units
}

/// The settings of a unit, in order.
fn settings(unit: &Path) -> Vec<(String, String)> {
    let text = fs::read_to_string(unit).expect("a unit");
    let lines = text.lines().filter(|line| !line.starts_with(['#', '[']) && !line.is_empty());
    let pairs = lines.map(|line| line.split_once('=').expect("a setting"));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// The words of a command line: `${NAME}` is in one of them, `$NAME` as many as its value has.
fn words(line: &str, environment: &BTreeMap<String, String>) -> Vec<String> {
    let value = |name: &str| {
        environment.get(name).unwrap_or_else(|| panic!("{name} has no default: {line}"))
    };
    let word = |word: &str| match word.strip_prefix('$') {
        None => vec![word.to_owned()],
        Some(name) => match name.strip_prefix('{').and_then(|name| name.strip_suffix('}')) {
            Some(name) => vec![value(name).clone()],
            None => value(name).split_whitespace().map(str::to_owned).collect(),
        },
    };
    line.split_whitespace().flat_map(word).collect()
}

#[test]
fn commands_of_units_are_valid() {
    let mut commands = 0;
    for unit in units() {
        let settings = settings(&unit);
        let named = |name: &'static str| {
            settings.iter().filter(move |(other, _)| other == name).map(|(_, value)| value)
        };
        let pairs = named("Environment").flat_map(|value| value.split(' '));
        let pairs = pairs.map(|pair| pair.split_once('=').expect("NAME=VALUE"));
        let environment: BTreeMap<String, String> =
            pairs.map(|(name, value)| (name.to_owned(), value.replace("%S", "/var/lib"))).collect();
        for line in named("ExecStart") {
            // The status of a command with a dash does not matter.
            let line = line.strip_prefix('-').unwrap_or(line).replace("%S", "/var/lib");
            let words = words(&line, &environment);
            assert_eq!(words[0], PROGRAM, "{line}");
            let parsed = Arguments::try_parse_from(&words);
            assert!(parsed.is_ok(), "{line}: {}", parsed.expect_err("an error"));
            commands += 1;
        }
    }
    assert_eq!(commands, 6);
}

#[test]
fn units_change_no_numbers_and_serve_files() {
    let changing = ["Nice", "IO", "CPU", "Memory", "AllowedCPUs", "AllowedMemoryNodes", "Slice"];
    // They refuse openat2(2).
    let refusing = ["DynamicUser", "RestrictSUIDSGID"];
    for unit in units() {
        let found = settings(&unit).into_iter().find(|(name, _)| {
            let is_in = |all: &[&str]| all.iter().any(|it| name.starts_with(it));
            (is_in(&changing) && name != "MemoryDenyWriteExecute") || is_in(&refusing)
        });
        assert_eq!(found, None, "{}", unit.display());
    }
}

#[test]
fn systemd_takes_units_and_rates_them_safe() {
    let run = |arguments: &[&str]| Command::new("systemd-analyze").args(arguments).output().ok();
    let help = run(&["--help"]).map(|output| text(&output.stdout));
    if !help.is_some_and(|help| help.contains("--offline")) {
        return skipped("systemd-analyze with --offline is not installed");
    }
    let folder = TestEnvFolder::new();
    let copy = |unit: PathBuf| {
        let text = fs::read_to_string(&unit).expect("a unit");
        let copy = folder.path().join(unit.file_name().expect("a name"));
        // `verify` looks for the program.
        fs::write(&copy, text.replace(PROGRAM, env!("CARGO_BIN_EXE_fathom"))).expect("a file");
        copy
    };
    let units: Vec<PathBuf> = units().into_iter().map(copy).collect();
    let units: Vec<&str> = units.iter().map(|unit| path_text(unit)).collect();
    let verify = ["verify", "--man=no", "--recursive-errors=no"];
    let verified = run(&[&verify[..], &units[..]].concat()).expect("it starts");
    // Other units of the machine may have warnings.
    let is_ours = text(&verified.stderr).contains(path_text(folder.path()));
    assert!(verified.status.success() && !is_ours, "{verified:?}");
    for unit in units.iter().filter(|unit| unit.ends_with(".service")) {
        let rated = run(&["security", "--no-pager", "--offline=true", "--threshold=30", unit]);
        let rated = rated.expect("it starts");
        assert!(rated.status.success(), "{}", text(&rated.stdout));
    }
}
