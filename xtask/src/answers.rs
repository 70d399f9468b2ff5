//! docs/evidence/ANSWERS.md: what the tests of `make lab` found on this machine.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use fathom_lab::evidence::{ANSWERS, Criterion, EvidenceContents, EvidenceOrigin};

use crate::runner::{RunnerEnded, RunnerOutcome};

const PREFACE: &str = "\
The tests whose answer depends on the real machine: shaped links, throttled disks, limits of
cgroups, neighbours, the wall clock. Each runs alone, in a process of its own.
";

/// How an attribute begins that keeps a test out of `make test`.
const IGNORED: &str = "#[ignore = \"";

/// Writes the page of all tests. Of those whose name contains `part` no page is written.
pub(crate) fn write(root: &Path, part: &str, ended: &[RunnerEnded]) -> Result<()> {
    if !part.is_empty() {
        println!("{} stays as it is: it is written by all tests only", ANSWERS.path());
        return Ok(());
    }
    let mut reasons = BTreeMap::new();
    for folder in ["crates", "lab", "xtask"] {
        collect(&root.join(folder), &mut reasons)?;
    }
    let rows: Vec<AnswerRow> =
        ended.iter().map(|one| AnswerRow::from_ended(one, &reasons)).collect();
    let count = |word: &str| rows.iter().filter(|row| row.outcome.starts_with(word)).count();
    let [passed, failed, skipped] = [PASSED, FAILED, SKIPPED].map(count);
    let counts = format!("{passed} passed, {failed} failed, {skipped} skipped.");
    let contents = EvidenceContents {
        parameters: &[],
        origins: &[("", &EvidenceOrigin::here(root))],
        criteria: &[
            Criterion::new(format!("no test fails: {failed}"), failed == 0),
            Criterion::new(format!("any test passes: {passed}"), passed > 0),
        ],
        body: &format!("{PREFACE}\n{counts}\n\n{}", table(&rows)),
    };
    ANSWERS.write(root, &contents).context(ANSWERS.path())?;
    Ok(())
}

const PASSED: &str = "passed";
const FAILED: &str = "FAILED";
const SKIPPED: &str = "skipped";

#[derive(Debug, PartialEq)]
struct AnswerRow {
    test: String,
    reason: String,
    outcome: String,
    seconds: f64,
}

impl AnswerRow {
    fn from_ended(ended: &RunnerEnded, reasons: &BTreeMap<String, Vec<String>>) -> Self {
        let test = ended.test.full_name();
        let function = test.rsplit([':', ' ']).next().unwrap_or(&test);
        let reason = reasons.get(function).map(|all| all.join(" / ")).unwrap_or_default();
        let outcome = match &ended.outcome {
            RunnerOutcome::Passed => PASSED.to_owned(),
            RunnerOutcome::Skipped(why) => format!("{SKIPPED}: {why}"),
            RunnerOutcome::Failed { how, .. } => format!("{FAILED}: {how}"),
        };
        Self { test, reason, outcome, seconds: ended.seconds }
    }
}

fn table(rows: &[AnswerRow]) -> String {
    let mut text = "| test | why in the lab | outcome | s |\n|---|---|---|---:|\n".to_owned();
    for AnswerRow { test, reason, outcome, seconds } in rows {
        let cells = [test, reason, outcome].map(|cell| cell.replace(['|', '\n'], " "));
        text += &format!("| `{}` | {} | {} | {seconds:.1} |\n", cells[0], cells[1], cells[2]);
    }
    text
}

/// Collects the reasons of ignored tests by the names of their functions.
fn collect(folder: &Path, reasons: &mut BTreeMap<String, Vec<String>>) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    for entry in entries.flatten() {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            collect(&path, reasons)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            for (function, reason) in ignored(&fs::read_to_string(&path)?) {
                let all = reasons.entry(function).or_default();
                if !all.contains(&reason) {
                    all.push(reason);
                }
            }
        }
    }
    Ok(())
}

/// The functions with an `#[ignore]`, each with its reason.
fn ignored(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut reason = None;
    for line in text.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix(IGNORED) {
            let why = rest.trim_end_matches(['"', ']']);
            reason = Some(why.strip_prefix("lab: ").unwrap_or(why).to_owned());
        } else if let Some(name) = line.strip_prefix("fn ").and_then(|rest| rest.split('(').next())
        {
            found.extend(reason.take().map(|reason| (name.to_owned(), reason)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_of_ignored_tests_are_read() {
        let source = "#[test]\n#[ignore = \"lab: a shaped link\"]\n#[expect(x)]\nfn one() {}\n\
            #[test]\nfn two() {}\n    #[ignore = \"make soak\"]\n    fn three() {}\n";
        let pair = |name: &str, reason: &str| (name.to_owned(), reason.to_owned());
        assert_eq!(ignored(source), [pair("one", "a shaped link"), pair("three", "make soak")]);
        let mut reasons = BTreeMap::new();
        let lab = Path::new(env!("CARGO_MANIFEST_DIR")).join("../lab");
        collect(&lab, &mut reasons).unwrap();
        assert_eq!(reasons["nothing_stays_after_panic"], ["changes settings of the machine"]);
    }

    #[test]
    fn page_of_no_test_says_so() {
        let folder = tempfile::tempdir().unwrap();
        for path in ["crates", "lab", "xtask", fathom_lab::evidence::FOLDER] {
            fs::create_dir_all(folder.path().join(path)).unwrap();
        }
        write(folder.path(), "a_name", &[]).unwrap();
        assert!(!folder.path().join(ANSWERS.path()).exists(), "not of all tests");
        write(folder.path(), "", &[]).unwrap();
        let page = fs::read_to_string(folder.path().join(ANSWERS.path())).unwrap();
        assert!(page.contains("| any test passes: 0 | **MISSED** |"), "{page}");
    }

    #[test]
    fn cells_of_a_test_fit_its_row() {
        let [test, reason, outcome] = ["a b::c", "a link", "FAILED: x | y\nz"].map(str::to_owned);
        let row = AnswerRow { test, reason, outcome, seconds: 1.26 };
        let table = table(&[row]);
        assert_eq!(table.lines().last(), Some("| `a b::c` | a link | FAILED: x   y z | 1.3 |"));
    }
}
