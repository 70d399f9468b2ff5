//! `xtask soak`: runs the fault tests with their full counts, and writes docs/evidence/FAULTS.md.
//!
//! The tests are those of `make test`. With `FATHOM_SOAK` they use higher counts and write their
//! tables into that folder. Skipped tests write no table.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use fathom_lab::evidence::{Criterion, EvidenceContents, EvidenceOrigin, FAULTS};

/// Package and arguments of `cargo test`.
const TESTS: [(&str, &[&str]); 4] = [
    ("fathom", &["--test", "faults"]),
    ("fathom-store", &["--test", "store"]),
    ("fathom-service", &["--test", "service", "traversal::rename_races"]),
    ("fathom", &["--lib", "import::fuzz"]),
];
/// Mutated files of the import fuzz test.
const FUZZ_FILES: &str = "200000";

/// The introduction of the page.
const PREFACE: &str = "\
What the program and its store lose when something fails, and what the service does then. Every
promise below is asserted by the tests (`crates/cli/tests/faults`,
`crates/cli/src/commands/import/fuzz.rs`, `crates/store/tests/store`,
`crates/service/tests/service/traversal.rs`), which `make test` runs with smaller counts. A *record*
is acknowledged by its line of `--jsonl`, a whole run by \"Kept as run\" or exit status 0; *lost* is
what was acknowledged and is not in the store as it was printed, *twice* what is there more than
once.
";

/// Runs the tests and writes the page; returns what failed. With the part of a name only the tests
/// of that name are run, and the page stays as it is.
pub(crate) fn write(root: &Path, name: Option<&str>) -> Result<Vec<String>> {
    let folder = root.join("target/soak");
    // Remove the tables of an earlier soak.
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
    let origin = EvidenceOrigin::here(root);
    let mut failed = Vec::new();
    for (package, part) in TESTS {
        // cargo would run the tests of either name.
        let own = part.iter().find(|word| word.contains("::"));
        if own.zip(name).is_some_and(|(own, name)| !own.contains(name)) {
            continue;
        }
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
        let mut command = Command::new(cargo);
        command.args(["test", "--locked", "--package", package]).args(part);
        // Serial: tests of memory use and of timing disturb each other.
        command.args(["--", "--show-output", "--test-threads=1"]).args(name);
        command.current_dir(root).env("FATHOM_SOAK", &folder).env("FATHOM_FUZZ", FUZZ_FILES);
        let status = command.status().context("start cargo")?;
        if !status.success() {
            failed.push(format!("{package}, {}", part.join(" ")));
        }
    }
    let sections = sections(&folder)?;
    let criteria = criteria(&sections, &failed);
    if name.is_some() {
        eprintln!("{} stays as it is: it is written by all tests only", FAULTS.path());
        let missed = criteria.into_iter().filter(|criterion| !criterion.is_met);
        return Ok(missed.map(|criterion| format!("MISSED: {}", criterion.text)).collect());
    }
    let contents = EvidenceContents {
        parameters: &[],
        origins: &[("", &origin)],
        criteria: &criteria,
        body: &format!("{PREFACE}\n{}", sections.join("\n")),
    };
    FAULTS.write(root, &contents).context(FAULTS.path())
}

fn criteria(sections: &[String], failed: &[String]) -> [Criterion; 2] {
    let broken = sections.iter().filter(|table| table.contains("BROKEN")).count();
    let all_pass = match failed {
        [] => "every test passes".to_owned(),
        failed => format!("every test passes; failed: {}", failed.join("; ")),
    };
    [
        Criterion::new(format!("no table with a broken promise: {broken}"), broken == 0),
        Criterion::new(all_pass, failed.is_empty()),
    ]
}

/// The tables, sorted by file name.
fn sections(folder: &Path) -> Result<Vec<String>> {
    let entries = std::fs::read_dir(folder)?.flatten().map(|entry| entry.path());
    let mut files: Vec<_> = entries.collect();
    files.sort();
    files.iter().map(|file| std::fs::read_to_string(file).context("read a table")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_sorted_and_broken_promises_counted() {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [("2-b.md", "## B\n\nBROKEN\n"), ("1-a.md", "## A\n")] {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let sections = sections(folder.path()).unwrap();
        assert_eq!(sections, ["## A\n", "## B\n\nBROKEN\n"]);
        let met = |sections, failed| criteria(sections, failed).map(|criterion| criterion.is_met);
        assert_eq!(met(&sections, &[]), [false, true]);
        assert_eq!(met(&sections[..1], &["a".to_owned()]), [true, false]);
    }
}
