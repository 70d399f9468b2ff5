//! `xtask fuzz SECONDS [TARGET…]`: runs fuzz/run.sh; all targets write docs/evidence/FUZZ.md.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use fathom_lab::evidence::{Criterion, EvidenceContents, EvidenceOrigin, FUZZ};

const SECONDS_MIN: u64 = 900;

const PREFACE: &str = "\
Coverage-guided fuzzing of every parser that reads what another end sent: inputs of up to 4 KiB,
64-bit integers checked for overflow, at most 1 GiB of memory and 60 s for each input. *corp* counts
the inputs that reach new code, with those of fuzz/corpus, which tests replay.

| target | inputs tried | result |
|---|---:|---|
";

/// Fuzzes, and returns the missed criteria.
pub(crate) fn run(root: &Path, seconds: &str, targets: &[&str]) -> Result<Vec<String>> {
    let limit: u64 = seconds.parse().with_context(|| format!("{seconds} is not a time in s"))?;
    let origin = EvidenceOrigin::here(root);
    let mut command = Command::new(root.join("fuzz/run.sh"));
    command.arg(seconds).args(targets).stdout(Stdio::piped());
    let mut child = command.spawn().context("fuzz/run.sh")?;
    let mut rows = Vec::new();
    for line in child.stdout.take().into_iter().flat_map(|pipe| BufReader::new(pipe).lines()) {
        let line = line.context("fuzz/run.sh")?;
        println!("{line}");
        rows.extend(row(&line));
    }
    let status = child.wait().context("fuzz/run.sh")?;
    let failed: Vec<String> = rows.iter().filter(|row| row.contains(FAILED)).cloned().collect();
    ensure!(status.success() || !failed.is_empty(), "fuzz/run.sh: {status}");
    if !targets.is_empty() {
        return Ok(failed);
    }
    let no_failure = format!("no input fails: {} targets", rows.len());
    let criteria = [
        Criterion::new(no_failure, failed.is_empty() && !rows.is_empty()),
        Criterion::new(format!("each for at least {SECONDS_MIN} s"), limit >= SECONDS_MIN),
    ];
    let contents = EvidenceContents {
        parameters: &[("SECONDS", seconds.to_owned())],
        origins: &[("", &origin)],
        criteria: &criteria,
        body: &(PREFACE.to_owned() + &rows.concat()),
    };
    FUZZ.write(root, &contents).context(FUZZ.path())
}

const FAILED: &str = "FAILED";

/// The row of `target: 1000 runs, cov: …` or of `target: FAILED; …`.
fn row(line: &str) -> Option<String> {
    let (target, rest) = line.split_once(": ")?;
    let (runs, result) = match rest.split_once(" runs, ") {
        Some((runs, coverage)) => (runs, coverage.trim()),
        None if rest.starts_with(FAILED) => ("", rest),
        None => return None,
    };
    Some(format!("| {target} | {runs} | {result} |\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_the_inputs_tried_or_the_failure() {
        assert_eq!(
            row("head: 1200 runs, cov: 7 ft: 9").unwrap(),
            "| head | 1200 | cov: 7 ft: 9 |\n"
        );
        let failed = row("token: FAILED; see token.log").unwrap();
        assert_eq!(failed, "| token |  | FAILED; see token.log |\n");
        assert_eq!((row("Compiling: x"), row("warning")), (None, None));
    }
}
