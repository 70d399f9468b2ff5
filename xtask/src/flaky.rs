//! `xtask flaky`: runs `make test` under conditions that show which tests depend on the machine
//! (scripts/flaky.sh), and single tests many times; writes docs/evidence/FLAKY.md.
//!
//! The page is written after each run, and has the state: a later call goes on where it ended. A
//! failure counts until five later runs have passed.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use fathom_lab::evidence::{Criterion, EvidenceContents, EvidenceOrigin, FLAKY};
use fathom_measure::clock::monotonic_raw_ns;

/// The whole suite, this many times each.
const CONDITIONS: [&str; 3] = ["loaded", "stranger", "twice"];
const RUNS: usize = 5;
/// How often each test of a program is run beside others.
const REPEATED: usize = 50;

const PREFACE: &str = "\
Whole runs of `make test`: *loaded* on one CPU beside `stress-ng --cpu 4 --io 2 --vm 2 --vm-bytes
1G`; *stranger* as a user without privileges, in a clone in a path with spaces, with `LC_ALL=
de_DE.UTF-8`, `TZ=Asia/Kathmandu`, umask 077 and without IPv6; *twice* in two clones at once. Then
*repeated*: each test of a program 50 times, six at a time for each CPU, so that each has the others
as its load. No test is run again when it fails. The last five runs of each condition are shown, of
whatever commit.

| condition | run | commit | date | minutes | result | failed |
|---|---|---|---|---:|---|---|
";

/// A run, as a row of the page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct FlakyRow {
    condition: String,
    /// Its number, or the beginning of the names of its tests.
    run: String,
    commit: String,
    date: String,
    minutes: String,
    /// The last line of each suite.
    result: String,
    /// Names of failed tests.
    failed: String,
}

impl FlakyRow {
    fn parse(line: &str) -> Option<Self> {
        let cells: Vec<&str> = line.strip_prefix("| ")?.split('|').map(str::trim).collect();
        let [condition, run, commit, date, minutes, result, failed, ""] = cells[..] else {
            return None;
        };
        if condition == "condition" {
            return None;
        }
        let [condition, run, commit, date, minutes, result, failed] =
            [condition, run, commit, date, minutes, result, failed].map(str::to_owned);
        Some(Self { condition, run, commit, date, minutes, result, failed })
    }

    fn text(&self) -> String {
        let Self { condition, run, commit, date, minutes, result, failed } = self;
        let cells = [condition, run, commit, date, minutes, result, failed];
        format!("| {} |\n", cells.map(String::as_str).join(" | "))
    }
}

/// Runs what is missing on the page, and returns its missed criteria: a condition, or `repeated`
/// with the beginning of the names of tests.
pub(crate) fn run(root: &Path, condition: &str, program: Option<&str>) -> Result<Vec<String>> {
    let is_whole = CONDITIONS.contains(&condition);
    ensure!(
        program.is_some() || is_whole,
        "{condition}: expected {}, or repeated NAME",
        CONDITIONS.join(", ")
    );
    let origin = EvidenceOrigin::here(root);
    ensure!(!origin.commit.ends_with('+'), "commit the changes first: the clones have the commit");
    let mut rows = read(root);
    // The page exists before `make test` checks it.
    let mut missed = write(root, &rows, &origin)?;
    for _ in 0..if is_whole { RUNS } else { 1 } {
        if is_whole && passes(&rows, condition) {
            break;
        }
        let name = program.map_or_else(|| next(&rows, condition).to_string(), str::to_owned);
        let row = measure(root, condition, &name, &origin)?;
        print!("{}", row.text());
        // Another condition may have been measured meanwhile.
        rows = read(root);
        add(&mut rows, row);
        missed = write(root, &rows, &origin)?;
    }
    Ok(missed)
}

/// The number of the next run of a condition.
fn next(rows: &[FlakyRow], condition: &str) -> usize {
    let of_condition = rows.iter().filter(|row| row.condition == condition);
    1 + of_condition.filter_map(|row| row.run.parse().ok()).max().unwrap_or(0)
}

/// Adds a row. It replaces that of the same tests, or the oldest of its condition.
fn add(rows: &mut Vec<FlakyRow>, row: FlakyRow) {
    rows.retain(|other| {
        let is_replaced = match (other.run.parse::<usize>(), row.run.parse::<usize>()) {
            (Ok(other), Ok(run)) => other + RUNS <= run,
            _ => other.run == row.run,
        };
        other.condition != row.condition || !is_replaced
    });
    rows.push(row);
}

/// Whether the latest runs of a condition have all passed.
fn passes(rows: &[FlakyRow], condition: &str) -> bool {
    let is_green = |row: &&FlakyRow| row.condition == condition && row.failed.is_empty();
    rows.iter().filter(is_green).count() >= RUNS
}

fn read(root: &Path) -> Vec<FlakyRow> {
    let text = fs::read_to_string(root.join(FLAKY.path())).unwrap_or_default();
    text.lines().filter_map(FlakyRow::parse).collect()
}

fn measure(root: &Path, condition: &str, name: &str, origin: &EvidenceOrigin) -> Result<FlakyRow> {
    let log = root.join(format!("target/flaky-{condition}-{name}.log"));
    println!("{condition} {name}: {}", log.display());
    let output = File::create(&log).with_context(|| log.display().to_string())?;
    let mut command = if CONDITIONS.contains(&condition) {
        let mut command = Command::new(root.join("scripts/flaky.sh"));
        command.arg(condition);
        command
    } else {
        let mut command = Command::new(std::env::current_exe().context("this program")?);
        command.args(["repeat", &REPEATED.to_string(), name]);
        command
    };
    let started_ns = monotonic_raw_ns();
    let status = command.stderr(output.try_clone()?).stdout(output).current_dir(root).status()?;
    let minutes = (monotonic_raw_ns() - started_ns) as f64 / 60e9;
    let (result, mut failed) = outcome(&fs::read_to_string(&log)?);
    if !status.success() && failed.is_empty() {
        failed = format!("{status}");
    }
    Ok(FlakyRow {
        condition: condition.to_owned(),
        // As it is read back.
        run: name.trim().to_owned(),
        commit: origin.commit.clone(),
        date: origin.date.clone(),
        minutes: format!("{minutes:.1}"),
        result,
        failed,
    })
}

/// The last lines of the suites in a log, and the failed tests and checks.
fn outcome(log: &str) -> (String, String) {
    let is_result = |line: &&str| line.contains(" passed, ") && line.ends_with(" skipped");
    let results: Vec<&str> = log.lines().filter(is_result).collect();
    let name_of = |line: &str| {
        let rest = line.strip_prefix("test ").or_else(|| line.strip_prefix("check "));
        let failed = rest.and_then(|rest| Some(rest.split_once(" ... FAILED")?.0.to_owned()));
        // A test of the page.
        failed.or_else(|| line.strip_prefix("not ok ").map(str::to_owned))
    };
    let mut times = std::collections::BTreeMap::<String, usize>::new();
    log.lines().filter_map(name_of).for_each(|name| *times.entry(name).or_default() += 1);
    let counted = |(name, times): (String, usize)| match times {
        1 => name,
        _ => format!("{name} ({times} times)"),
    };
    let failed: Vec<String> = times.into_iter().map(counted).collect();
    let result = if results.is_empty() { "no result".to_owned() } else { results.join("; ") };
    (result, failed.join(", ").replace('|', " "))
}

fn write(root: &Path, rows: &[FlakyRow], origin: &EvidenceOrigin) -> Result<Vec<String>> {
    let criteria = CONDITIONS.map(|condition| {
        let is_green = |row: &&FlakyRow| row.condition == condition && row.failed.is_empty();
        let green = rows.iter().filter(is_green).count();
        let text = format!("{condition}: the last {RUNS} runs pass: {green}");
        Criterion::new(text, passes(rows, condition))
    });
    let repeated = |row: &&FlakyRow| !CONDITIONS.contains(&row.condition.as_str());
    let of_tests: Vec<&FlakyRow> = rows.iter().filter(repeated).collect();
    let failed = of_tests.iter().filter(|row| !row.failed.is_empty()).count();
    let text = format!("repeated: no test fails: {failed} of {} rows with one", of_tests.len());
    let mut all = criteria.to_vec();
    all.push(Criterion::new(text, failed == 0 && !of_tests.is_empty()));
    let table: String = rows.iter().map(FlakyRow::text).collect();
    let contents = EvidenceContents {
        parameters: &[],
        origins: &[("", origin)],
        criteria: &all,
        body: &(PREFACE.to_owned() + &table),
    };
    FLAKY.write(root, &contents).context(FLAKY.path())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_back() {
        let words = ["loaded", "1", "1a2b3c4d", "2026-11-25", "3.1", "9 passed", "a b::c"];
        let [condition, run, commit, date, minutes, result, failed] = words.map(str::to_owned);
        let row = FlakyRow { condition, run, commit, date, minutes, result, failed };
        assert_eq!(FlakyRow::parse(row.text().trim_end()), Some(row));
        assert!(PREFACE.lines().all(|line| FlakyRow::parse(line).is_none()));
    }

    #[test]
    fn failure_counts_until_five_later_runs_have_passed() {
        let row = |run: usize, failed: &str| FlakyRow {
            condition: "loaded".to_owned(),
            run: run.to_string(),
            failed: failed.to_owned(),
            ..FlakyRow::default()
        };
        let mut rows = vec![row(1, ""), row(2, "a b::c")];
        for run in 3..8 {
            assert!(!passes(&rows, "loaded"), "{run}");
            assert_eq!(next(&rows, "loaded"), run);
            add(&mut rows, row(run, ""));
        }
        assert!(passes(&rows, "loaded") && rows.len() == RUNS);
        assert!(!passes(&rows, "twice"));
    }

    #[test]
    fn failures_of_a_log_are_named() {
        let log = "test program a::b ... ok 0.10 s\ntest program a::c ... FAILED: failed, 0.10 s\n\
                   check lints ... FAILED\nnot ok 3 - table is sorted\ncheck lints ... FAILED\n\
                   7 passed, 3 failed, 1 skipped\n8 passed, 0 failed, 0 skipped\n";
        let (result, failed) = outcome(log);
        assert_eq!(result, "7 passed, 3 failed, 1 skipped; 8 passed, 0 failed, 0 skipped");
        assert_eq!(failed, "3 - table is sorted, lints (2 times), program a::c");
        assert_eq!(outcome("make: error").0, "no result");
    }
}
