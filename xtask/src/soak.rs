//! `xtask soak`: runs the fault tests with their full counts, and writes docs/FAULTS.md.
//!
//! The tests are those of `make test`. With `FATHOM_SOAK` they use higher counts and write their
//! tables into that folder. Skipped tests write no table.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

const PAGE: &str = "docs/FAULTS.md";

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
# Faults

Made by `make soak`: what the program and its store lose when something fails, and what the service
does then. Every promise below is asserted by the tests (`crates/cli/tests/faults`,
`crates/cli/src/commands/import/fuzz.rs`, `crates/store/tests/store`,
`crates/service/tests/service/traversal.rs`), which `make test` runs with smaller counts. A *record*
is acknowledged by its line of `--jsonl`, a whole run by \"Kept as run\" or exit status 0; *lost* is
what was acknowledged and is not in the store as it was printed, *twice* what is there more than
once.
";

/// Runs the tests and writes the page. With the part of a name only the tests of that name are run,
/// and the page keeps the tables of the others.
pub(crate) fn write(root: &Path, name: Option<&str>) -> Result<()> {
    let folder = root.join("target/soak");
    // Remove the tables of an earlier soak.
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
    let started = fathom_measure::clock::monotonic_raw_ns();
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
    let seconds = (fathom_measure::clock::monotonic_raw_ns() - started) / 1_000_000_000;
    let mut sections = sections(&folder)?;
    let broken = sections.iter().filter(|table| table.contains("BROKEN")).count();
    ensure!(broken == 0, "{broken} tables have broken promises; {PAGE} is unchanged");
    ensure!(failed.is_empty(), "failed: {}; {PAGE} is unchanged", failed.join("; "));
    let path = root.join(PAGE);
    if name.is_some() {
        let earlier = std::fs::read_to_string(&path).with_context(|| PAGE.to_owned())?;
        sections = merge(&earlier, sections);
    }
    std::fs::write(&path, page(&sections, seconds, name)).with_context(|| PAGE.to_owned())
}

/// The tables of a page, with new ones in the places of those with the same headings.
fn merge(page: &str, new: Vec<String>) -> Vec<String> {
    let heading = |table: &str| table.lines().next().map(str::to_owned);
    let parts = page.split("\n## ").skip(1);
    let mut tables: Vec<String> = parts.map(|part| format!("## {}\n", part.trim_end())).collect();
    for table in new {
        match tables.iter_mut().find(|old| heading(old) == heading(&table)) {
            Some(old) => *old = table,
            None => tables.push(table),
        }
    }
    tables
}

/// The tables, sorted by file name.
fn sections(folder: &Path) -> Result<Vec<String>> {
    let entries = std::fs::read_dir(folder)?.flatten().map(|entry| entry.path());
    let mut files: Vec<_> = entries.collect();
    files.sort();
    files.iter().map(|file| std::fs::read_to_string(file).context("read a table")).collect()
}

fn page(sections: &[String], seconds: u64, name: Option<&str>) -> String {
    let host = fathom_measure::host::read();
    let today = Command::new("date").args(["-u", "+%F"]).output().map(|output| output.stdout);
    let today = String::from_utf8_lossy(&today.unwrap_or_default()).trim().to_owned();
    let minutes = seconds / 60;
    let time = match name {
        None => format!("{minutes} minutes"),
        Some(name) => format!("the tests of `{name}` last, in {minutes} minutes"),
    };
    let origin = format!(
        "\n{today}, Linux {}, {}, {} CPUs; {time}.\n\n",
        host.kernel, host.cpu.model, host.cpu.logical
    );
    let text = PREFACE.to_owned() + &origin + &sections.join("\n");
    text.trim_end().to_owned() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_tables_take_the_places_of_old_ones() {
        let [old, new] = ["old", "new"].map(|word| format!("## B\n\n{word}\n"));
        let [a, c] = ["## A\n\n| a |\n", "## C\n"].map(str::to_owned);
        let earlier = page(&[a.clone(), old], 1, None);
        let merged = merge(&earlier, vec![new.clone(), c.clone()]);
        assert_eq!(merged, [a, new, c]);
    }

    #[test]
    fn page_has_tables_and_their_origin() {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [("2-b.md", "## B\n"), ("1-a.md", "## A\n")] {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let page = page(&sections(folder.path()).unwrap(), 125, None);
        assert!(page.starts_with("# Faults\n") && page.ends_with("2 minutes.\n\n## A\n\n## B\n"));
        assert!(page.contains("Linux "), "{page}");
    }
}
