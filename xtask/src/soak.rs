//! `xtask soak`: the tests of faults with their full counts, and docs/FAULTS.md from their tables.
//!
//! The tests are those of `make test`; `FATHOM_SOAK` names the folder into which they put their
//! tables, and makes them count further. A test that is skipped puts nothing there.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Where the page is.
const PAGE: &str = "docs/FAULTS.md";

/// What is run: package, and the part of its tests.
const TESTS: [(&str, &[&str]); 3] = [
    ("fathom", &["--test", "faults"]),
    ("fathom-store", &["--test", "store"]),
    ("fathom", &["--lib", "import::fuzz"]),
];
/// Documents that are spoilt.
const SPOILT: &str = "200000";

/// What the page is, before its tables.
const PREFACE: &str = "\
# Faults

Made by `make soak`: what the program and its store lose when something fails. Every promise below
is asserted by the tests (`crates/cli/tests/faults`, `crates/cli/src/commands/import/fuzz.rs`,
`crates/store/tests/store`), which `make test` runs with smaller counts. A *record* is acknowledged
by its line of `--jsonl`, a whole run by \"Kept as run\" or exit status 0; *lost* is what was
acknowledged and is not in the store as it was printed, *twice* what is there more than once.
";

/// Runs the tests and writes the page.
pub(crate) fn write(root: &Path) -> Result<()> {
    let folder = root.join("target/soak");
    // What an earlier soak left is not of this one.
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
    let begun = fathom_measure::clock::monotonic_raw_ns();
    let mut failed = Vec::new();
    for (package, part) in TESTS {
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
        let mut command = Command::new(cargo);
        command.args(["test", "--locked", "--package", package]).args(part);
        // One after the other: a test of memory or of moments has no neighbour of ours.
        command.args(["--", "--show-output", "--test-threads=1"]);
        command.current_dir(root).env("FATHOM_SOAK", &folder).env("FATHOM_KILLS", "200");
        command.env("FATHOM_FUZZ", SPOILT);
        let status = command.status().context("start cargo")?;
        if !status.success() {
            failed.push(format!("{package}, {}", part.join(" ")));
        }
    }
    let seconds = (fathom_measure::clock::monotonic_raw_ns() - begun) / 1_000_000_000;
    let sections = sections(&folder)?;
    ensure!(failed.is_empty(), "failed: {}; {PAGE} is left as it was", failed.join("; "));
    std::fs::write(root.join(PAGE), page(&sections, seconds)).with_context(|| PAGE.to_owned())
}

/// The tables, in the order of their files' names.
fn sections(folder: &Path) -> Result<Vec<String>> {
    let entries = std::fs::read_dir(folder)?.flatten().map(|entry| entry.path());
    let mut files: Vec<_> = entries.collect();
    files.sort();
    files.iter().map(|file| std::fs::read_to_string(file).context("read a table")).collect()
}

fn page(sections: &[String], seconds: u64) -> String {
    let host = fathom_measure::host::read();
    let today = Command::new("date").args(["-u", "+%F"]).output().map(|output| output.stdout);
    let today = String::from_utf8_lossy(&today.unwrap_or_default()).trim().to_owned();
    let place = format!(
        "\n{today}, Linux {}, {}, {} CPUs; {} minutes.\n\n",
        host.kernel,
        host.cpu.model,
        host.cpu.logical,
        seconds / 60
    );
    let text = PREFACE.to_owned() + &place + &sections.join("\n");
    text.trim_end().to_owned() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_its_tables_in_order_and_says_where_they_were_made() {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [("2-b.md", "## B\n"), ("1-a.md", "## A\n")] {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let page = page(&sections(folder.path()).unwrap(), 125);
        assert!(page.starts_with("# Faults\n") && page.ends_with("2 minutes.\n\n## A\n\n## B\n"));
        assert!(page.contains("Linux "), "{page}");
    }
}
