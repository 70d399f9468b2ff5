//! Results of all sabotages: kept in the target folder, so that the lab can run in parts, and
//! written as a page when complete.

use std::path::Path;

use anyhow::{Context as _, Result};
use fathom_lab::evidence::{Criterion, EvidenceContents, EvidenceOrigin, EvidenceParts, SABOTAGE};
use serde::{Deserialize, Serialize};

use super::table::{RIGHT_MIN, SUMMARY, SabotageCount, SabotageRow, WITH_CAUSE_MIN, summary};

const KEPT: &str = "target/sabotage.json";
pub(super) const SLOPE: &str = "slope";

/// The result of a part.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum SabotagePart {
    Runs(Vec<SabotageRow>),
    /// Why it is not possible on this machine.
    Skipped(String),
    /// A text, and whether it is right.
    Slope(String, bool),
}

/// The results of one seed.
pub(super) struct SabotageResults {
    parameters: [(&'static str, String); 2],
    origin: EvidenceOrigin,
    parts: EvidenceParts<SabotagePart>,
}

impl SabotageResults {
    pub(super) fn load(root: &Path, runs: u32, seed: u64) -> Self {
        Self::with(root, EvidenceOrigin::here(root), runs, seed)
    }

    fn with(root: &Path, origin: EvidenceOrigin, runs: u32, seed: u64) -> Self {
        let parameters = [("RUNS", runs.to_string()), ("SEED", seed.to_string())];
        let values = parameters.clone().map(|(_, value)| value);
        Self { parts: EvidenceParts::load(root.join(KEPT), &values), parameters, origin }
    }

    /// Replaces and keeps the result of a part.
    pub(super) fn set(&mut self, name: &str, part: SabotagePart) -> Result<()> {
        self.parts.set(name, &self.origin, part).context(KEPT)
    }

    /// Writes the page if every part ran or was skipped, and returns the missed criteria.
    pub(super) fn write(&self, root: &Path, names: &[&'static str]) -> Result<Vec<String>> {
        let Some(parts) = self.parts.all(names) else { return Ok(Vec::new()) };
        let (mut rows, mut skipped, mut slope) = (Vec::new(), String::new(), (String::new(), true));
        for (name, _, part) in &parts {
            match part {
                SabotagePart::Runs(runs) => rows.extend(runs.iter().cloned()),
                SabotagePart::Skipped(why) => {
                    skipped += &format!("- *{name}* was skipped: {why}\n\n")
                }
                SabotagePart::Slope(text, is_right) => slope = (text.clone(), *is_right),
            }
        }
        let counts = table(&SUMMARY, summary(&rows));
        let all = rows.iter().map(|row| row.cells().map(str::to_owned));
        let all = table(&["sabotage", "dose", "verdict", "first cause", "truth", "outcome"], all);
        let known = format!("## A known answer\n\n{}.\n", slope.0);
        let body = format!("{PREFACE}{counts}\n{skipped}{known}\n## Every run\n\n{all}");
        let origins: Vec<(&str, &EvidenceOrigin)> = parts.iter().map(|it| (it.0, it.1)).collect();
        let contents = EvidenceContents {
            parameters: &self.parameters,
            origins: &origins,
            criteria: &criteria(&SabotageCount::from_rows(&rows), slope.1),
            body: &body,
        };
        SABOTAGE.write(root, &contents).context(SABOTAGE.path())
    }
}

fn criteria(count: &SabotageCount, slope_is_right: bool) -> [Criterion; 4] {
    let SabotageCount { sabotaged, alarms, noisy, named, .. } = count;
    let right = count.first + count.after;
    [
        Criterion::new(
            format!("{RIGHT_MIN} % of sabotaged runs right: {right} of {sabotaged}"),
            count.is_right(),
        ),
        Criterion::new(format!("no false alarm: {alarms}"), *alarms == 0),
        Criterion::new(
            format!("{WITH_CAUSE_MIN} % of noisy cases with a cause: {named} of {noisy}"),
            count.has_causes(),
        ),
        Criterion::new("slopes of measured on injected work within 5 % of 1", slope_is_right),
    ]
}

fn table<const N: usize>(head: &[&str; N], lines: impl IntoIterator<Item = [String; N]>) -> String {
    let mut text = format!("| {} |\n|{}\n", head.join(" | "), "---|".repeat(N));
    for line in lines {
        text.push_str(&format!("| {} |\n", line.join(" | ")));
    }
    text
}

const PREFACE: &str = "\
Each sabotage disturbs half of its runs with a random dose; the other half is undisturbed.

- *Right first*: most affected records name the sabotage as their first cause, and its recorded
  size agrees with the machine's counters where these count it.
- *Right after a real one*: another cause comes first, which the machine's counters confirm.
- *False alarm*: an undisturbed run names a cause that the counters refute.
- *Shape*: an undisturbed run names a shape of its values (a wide interval, drift, clusters) that no
  counter explains.
- *With a cause*: noisy cases that name the sabotage or a cause that has a counter, not only a
  shape.

A record at full speed beside a busy neighbour was not slowed: it need not name a cause if it is
within 2 % of the undisturbed runs.

The lab can run in parts, each on a quiet machine. All random numbers come from the seed and are the
same in parts.

The machine's counters are read outside the program: CPU ticks, preemptions and faults of the
program's processes, the cgroup's counters. Only the core's own speed has no other counter than the
program's reference loop; its raw samples are evaluated again.

";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sabotage::table::SabotageOutcome;

    fn row(name: &str) -> SabotageRow {
        let [sabotage, dose, verdict, cause] =
            [name, "7 %", "noisy", "throttled"].map(str::to_owned);
        let (truth, outcome) = (dose.clone(), SabotageOutcome::Right);
        SabotageRow {
            sabotage,
            sabotaged: true,
            dose,
            verdict,
            cause,
            truth,
            outcome,
            noisy: 3,
            named: 2,
        }
    }

    #[test]
    fn page_needs_every_part_run_or_skipped() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for path in ["target", fathom_lab::evidence::FOLDER] {
            std::fs::create_dir_all(root.join(path)).unwrap();
        }
        let of = |text: &str| text.to_owned();
        let origin =
            EvidenceOrigin { commit: of("1a"), machine: of("A CPU"), date: of("2026-11-25") };
        let mut results = SabotageResults::with(root, origin.clone(), 10, 3);
        results.set("a", SabotagePart::Runs(vec![row("a")])).unwrap();
        results.set(SLOPE, SabotagePart::Slope(of("slope 0.80"), false)).unwrap();
        let names = ["a", "b", SLOPE];
        assert_eq!(results.write(root, &names).unwrap(), [""; 0]);
        assert!(!root.join(SABOTAGE.path()).exists(), "b is missing");
        // The next part, of another commit.
        let mut results =
            SabotageResults::with(root, EvidenceOrigin { commit: of("2b"), ..origin }, 10, 3);
        results.set("b", SabotagePart::Skipped(of("needs root"))).unwrap();
        let missed = results.write(root, &names).unwrap();
        assert!(missed.len() == 1 && missed[0].contains("MISSED: slopes of"), "{missed:?}");
        let page = std::fs::read_to_string(root.join(SABOTAGE.path())).unwrap();
        for part in [
            "RUNS=10 SEED=3`\n- Commit: 1a (a, slope); 2b (b)\n",
            "| 90 % of sabotaged runs right: 1 of 1 | met |",
            "| a | 1 | 1 | 1 | 0 | 0 | 0 | 0 | 3 | 2 |\n| all | 1 |",
            "| a | 7 % | noisy | throttled | 7 % | right |",
            "*b* was skipped: needs root",
            "slope 0.80.",
        ] {
            assert!(page.contains(part), "`{part}` is missing: {page}");
        }
    }
}
