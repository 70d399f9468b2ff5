//! `xtask repeatability PROGRAM RUNS [METRIC…]`: how well results repeat on this machine, as
//! docs/evidence/REPEATABILITY.md.
//!
//! It takes quick runs one after the other, each with processes of its own, and prints for every
//! case how far values are apart within a process, between the processes of a run, and between
//! runs; then how often comparisons of the unchanged machine (A/A) find a change: of each run with
//! the one before, and with a copy of itself.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use fathom_analysis::statistics;
use fathom_lab::evidence::{Criterion, EvidenceContents, EvidenceOrigin, REPEATABILITY};
use fathom_record::{Document, State, Summary, Unit};
use serde_json::Value;

use crate::bench::{BenchWords, XtaskBench, rows, share};

/// Of all cases of neighbouring runs.
const FLAGGED_MAX: f64 = 0.05;
const INCONCLUSIVE_MAX: f64 = 0.2;
/// Of the valid cases of a run and its copy.
const COPY_MIN: f64 = 0.95;

/// What this page is, before its figures.
const PREFACE: &str = "\
How well results repeat on this machine; run the command on yours for your own figures.

- *within*: spread of the values of one process; *processes*: spread of the medians of a run's
  processes; both as the median over the runs, relative to the value.
- *runs*: standard deviation of the headlines of all runs, relative to their mean; *range*: the
  highest headline ÷ the lowest, less 1.
- *noisy*: in how many of the runs the case was marked noisy, or had no number.
";

/// A case over all runs.
#[derive(Default)]
struct RepeatabilityCase {
    headlines: Vec<f64>,
    within: Vec<f64>,
    between: Vec<f64>,
    marked: usize,
    unit: Option<Unit>,
}

/// What comparisons of the unchanged machine said.
#[derive(Default)]
struct Unchanged {
    /// Of neighbouring runs.
    neighbours: BenchWords,
    /// Valid cases of runs that were compared with a copy of themselves, and the unchanged of them.
    copies: (usize, usize),
}

/// Measures all runs, of everything or of some metrics, and writes the page. Returns the missed
/// criteria: comparisons of the unchanged machine were flagged or inconclusive too often.
pub(crate) fn write(
    root: &Path,
    program: &str,
    runs: usize,
    metrics: &[&str],
) -> Result<Vec<String>> {
    ensure!(runs >= 2, "{runs} runs: at least 2 are needed");
    let bench = XtaskBench::new(program)?;
    let origin = EvidenceOrigin::here(root);
    let store = bench.path("runs.db");
    let mut documents: Vec<Document> = Vec::new();
    for run in 0..runs {
        eprintln!("run {} of {runs}", run + 1);
        bench.measure(&store, &["--quick"], metrics, &[])?;
        let text = bench.output(&store, &["export"], &[])?;
        documents.push(serde_json::from_str(&text).context("read an exported run")?);
    }
    let unchanged = compare(&bench, &store, &documents)?;
    let contents = EvidenceContents {
        parameters: &[("RUNS", runs.to_string()), ("METRICS", metrics.join(" "))],
        origins: &[("", &origin)],
        criteria: &unchanged.criteria(),
        body: &page(&documents, &unchanged),
    };
    REPEATABILITY.write(root, &contents).context(REPEATABILITY.path())
}

/// Each run with the one before and with a copy of itself. All are kept by now, so that each
/// comparison knows the noise between the other runs.
fn compare(bench: &XtaskBench, store: &Path, documents: &[Document]) -> Result<Unchanged> {
    let mut unchanged = Unchanged::default();
    for (at, document) in documents.iter().enumerate() {
        let id = document.run.id.as_str();
        if let Some(before) = at.checked_sub(1) {
            let comparison = bench.compared(store, &documents[before].run.id, id)?;
            unchanged.neighbours.count(&comparison, |_| true);
        }
        let mut copy = document.clone();
        // No run has an id like this for some thousand years.
        copy.run.id.replace_range(..1, "f");
        let path = bench.path("copy.json");
        std::fs::write(&path, serde_json::to_string(&copy)?).context("write a run's copy")?;
        let comparison = bench.compared(store, &path.display().to_string(), id)?;
        unchanged.count_copy(&comparison);
    }
    Ok(unchanged)
}

impl Unchanged {
    fn count_copy(&mut self, comparison: &Value) {
        for row in rows(comparison).filter(|row| row["noisy_b"] == false) {
            self.copies.0 += 1;
            self.copies.1 += usize::from(row["word"] == "unchanged");
        }
    }

    fn criteria(&self) -> [Criterion; 3] {
        let (valid, unchanged) = self.copies;
        let most = |words: &str, found: f64, max: f64| {
            let text = format!(
                "at most {:.0} % of cases of neighbouring runs {words}: {:.1} %",
                100.0 * max,
                100.0 * found
            );
            Criterion::new(text, found <= max)
        };
        let alike = share(unchanged, valid);
        [
            most("flagged", self.neighbours.flagged_share(), FLAGGED_MAX),
            most("inconclusive", self.neighbours.inconclusive_share(), INCONCLUSIVE_MAX),
            Criterion::new(
                format!(
                    "{:.0} % of valid cases of a run's copy unchanged: {:.1} %",
                    100.0 * COPY_MIN,
                    100.0 * alike
                ),
                alike >= COPY_MIN,
            ),
        ]
    }
}

fn cases(documents: &[Document]) -> Vec<(String, RepeatabilityCase)> {
    let mut order = Vec::new();
    let mut cases: BTreeMap<String, RepeatabilityCase> = BTreeMap::new();
    for record in documents.iter().flat_map(|document| &document.records) {
        let name = record.name();
        let case = cases.entry(name.clone()).or_insert_with(|| {
            order.push(name);
            RepeatabilityCase::default()
        });
        case.unit = Some(record.unit);
        case.marked += usize::from(record.verdict.state != State::Valid);
        if let Some(summary) = record.summary.as_ref().filter(|_| record.verdict.shows_number()) {
            case.add(summary);
        }
    }
    order.into_iter().filter_map(|name| cases.remove(&name).map(|case| (name, case))).collect()
}

impl RepeatabilityCase {
    fn add(&mut self, summary: &Summary) {
        self.headlines.push(summary.median);
        self.within.push(summary.spread_within);
        self.between.push(summary.spread_between);
    }

    /// Standard deviation and range of the headlines, relative.
    fn between_runs(&self) -> Option<(f64, f64)> {
        let n = self.headlines.len() as f64;
        let mean = self.headlines.iter().sum::<f64>() / n;
        let squares: f64 = self.headlines.iter().map(|value| (value - mean).powi(2)).sum();
        let low = self.headlines.iter().copied().fold(f64::INFINITY, f64::min);
        let high = self.headlines.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        (n >= 2.0 && low > 0.0).then(|| ((squares / (n - 1.0)).sqrt() / mean, high / low - 1.0))
    }
}

fn page(documents: &[Document], unchanged: &Unchanged) -> String {
    let (first, last) = (&documents[0], &documents[documents.len() - 1]);
    let mut text = PREFACE.to_owned();
    text += &format!(
        "\n{} quick runs of fathom {}{} from {} to {}, {:.0} s each (median).\n",
        documents.len(),
        first.tool.version,
        match first.run.asked.as_slice() {
            [] => String::new(),
            asked => format!(", asked for {},", asked.join(" ")),
        },
        first.run.started,
        last.run.started,
        statistics::median(&durations_s(documents)).unwrap_or_default()
    );
    text += "\n## The unchanged machine against itself\n\n";
    let (valid, alike) = unchanged.copies;
    text += &format!(
        "{} pairs of neighbouring runs: {}.\n\nA run and a copy of itself: {alike} of {valid} \
         valid cases unchanged ({:.1} %).\n\n## Case by case\n\n",
        unchanged.neighbours.pairs,
        unchanged.neighbours.summary(),
        100.0 * share(alike, valid)
    );
    text += "| case | value | within % | processes % | runs % | range % | noisy |\n";
    text += "|---|---:|---:|---:|---:|---:|---:|\n";
    for (name, case) in cases(documents) {
        text += &row(&name, &case, documents.len());
    }
    text
}

fn row(name: &str, case: &RepeatabilityCase, runs: usize) -> String {
    let percent = |share: Option<f64>| match share {
        Some(share) if share.is_finite() => format!("{:.2}", 100.0 * share),
        _ => "–".to_owned(),
    };
    let unit = case.unit.map_or("", Unit::symbol);
    let value = statistics::median(&case.headlines);
    let value = value.map_or_else(|| "–".to_owned(), |value| format!("{value:.4e} {unit}"));
    let runs_apart = case.between_runs();
    format!(
        "| `{name}` | {value} | {} | {} | {} | {} | {} of {runs} |\n",
        percent(statistics::median(&case.within)),
        percent(statistics::median(&case.between)),
        percent(runs_apart.map(|(deviation, _)| deviation)),
        percent(runs_apart.map(|(_, range)| range)),
        case.marked
    )
}

fn durations_s(documents: &[Document]) -> Vec<f64> {
    documents.iter().filter_map(|document| Some(document.run.duration_ns? / 1e9)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn spread_between_runs_is_relative_and_asks_for_two() {
        let case = |headlines: &[f64]| RepeatabilityCase {
            headlines: headlines.to_vec(),
            ..RepeatabilityCase::default()
        };
        assert_eq!(case(&[100.0]).between_runs(), None);
        let (deviation, range) = case(&[90.0, 100.0, 110.0]).between_runs().unwrap();
        assert!((deviation - 0.1).abs() < 1e-12 && (range - 2.0 / 9.0).abs() < 1e-12);
        assert_eq!(case(&[0.0, 1.0]).between_runs(), None, "nothing to be relative to");
    }

    #[test]
    fn valid_cases_of_a_copy_must_be_unchanged() {
        let row = |word: &str, noisy: bool| json!({"word": word, "noisy_b": noisy});
        let mut unchanged = Unchanged::default();
        let copy = [row("unchanged", false), row("inconclusive", false), row("unchanged", true)];
        unchanged.count_copy(&json!({"rows": copy}));
        assert_eq!(unchanged.copies, (2, 1));
        let criteria = unchanged.criteria();
        assert_eq!(criteria.each_ref().map(|criterion| criterion.is_met), [true, true, false]);
        assert_eq!(criteria[2].text, "95 % of valid cases of a run's copy unchanged: 50.0 %");
    }
}
