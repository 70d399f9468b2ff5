//! `xtask repeatability PROGRAM RUNS [METRIC…]`: how well results repeat on this machine, as
//! docs/REPEATABILITY.md.
//!
//! It takes quick runs one after the other, each with processes of its own, and prints for every
//! case how far values are apart within a process, between the processes of a run, and between
//! runs; then how often a comparison of two neighbouring runs of the unchanged machine (A/A) finds
//! a difference that is not there.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use fathom_analysis::statistics;
use fathom_record::{Document, Host, State, Summary, Unit};

/// What this page is, before its figures.
const PREFACE: &str = "\
# Repeatability

Made by `make repeatability`; run it on your own machine for your own figures.

- *within*: spread of the values of one process; *processes*: spread of the medians of a run's
  processes; both as the median over the runs, relative to the value.
- *runs*: standard deviation of the headlines of all runs, relative to their mean; *range*: the
  highest headline ÷ the lowest, less 1.
- *noisy*: in how many of the runs the case was marked noisy, or had no number.
";

/// A case over all runs.
#[derive(Default)]
struct Case {
    headlines: Vec<f64>,
    within: Vec<f64>,
    between: Vec<f64>,
    marked: usize,
    unit: Option<Unit>,
}

/// Comparisons of neighbouring runs.
#[derive(Default)]
struct Pairs {
    pairs: usize,
    cases: usize,
    excluding_one: usize,
    words: BTreeMap<String, usize>,
}

/// Takes the runs, of everything or of some metrics, and writes the page.
pub(crate) fn write(root: &Path, program: &str, runs: usize, metrics: &[&str]) -> Result<()> {
    if runs < 2 {
        bail!("{runs} runs: at least 2 are needed");
    }
    let folder = std::env::temp_dir().join(format!("fathom-repeatability-{}", std::process::id()));
    std::fs::create_dir(&folder).context("make a folder for the store")?;
    let outcome = measure(program, &folder, runs, metrics);
    std::fs::remove_dir_all(&folder).context("remove the store")?;
    let (documents, pairs) = outcome?;
    let path = root.join("docs/REPEATABILITY.md");
    std::fs::write(&path, page(&documents, &pairs)).context("write docs/REPEATABILITY.md")
}

/// All runs, and the comparisons of the first with the second, the third with the fourth …
fn measure(
    program: &str,
    folder: &Path,
    runs: usize,
    metrics: &[&str],
) -> Result<(Vec<Document>, Pairs)> {
    let (mut documents, mut pairs) = (Vec::new(), Pairs::default());
    for run in 0..runs {
        eprintln!("run {} of {runs}", run + 1);
        let text = output(program, folder, &[&["run", "--quick", "--json"], metrics].concat())?;
        documents.push(serde_json::from_str(&text).context("read a run's JSON")?);
        if run % 2 == 1 {
            let text = output(program, folder, &["compare", "--json", "latest~1", "latest"])?;
            pairs.add(&serde_json::from_str(&text).context("read a comparison's JSON")?);
        }
    }
    Ok((documents, pairs))
}

fn output(program: &str, folder: &Path, arguments: &[&str]) -> Result<String> {
    let mut command = Command::new(program);
    command.args(arguments).env("FATHOM_STORE", folder.join("runs.db")).stderr(Stdio::null());
    let output = command.output().with_context(|| format!("start {program}"))?;
    if !output.status.success() {
        bail!("{program} {} ended with {}", arguments.join(" "), output.status);
    }
    Ok(String::from_utf8(output.stdout)?)
}

impl Pairs {
    fn add(&mut self, comparison: &serde_json::Value) {
        self.pairs += 1;
        for row in comparison["rows"].as_array().into_iter().flatten() {
            self.cases += 1;
            let end = |index: usize| row["interval"][index].as_f64();
            if let (Some(low), Some(high)) = (end(0), end(1)) {
                self.excluding_one += usize::from(low > 1.0 || high < 1.0);
            }
            let word = row["word"].as_str().unwrap_or("unknown").replace('_', " ");
            *self.words.entry(word).or_default() += 1;
        }
    }
}

fn cases(documents: &[Document]) -> Vec<(String, Case)> {
    let mut order = Vec::new();
    let mut cases: BTreeMap<String, Case> = BTreeMap::new();
    for record in documents.iter().flat_map(|document| &document.records) {
        let name = record.name();
        let case = cases.entry(name.clone()).or_insert_with(|| {
            order.push(name);
            Case::default()
        });
        case.unit = Some(record.unit);
        case.marked += usize::from(record.verdict.state != State::Valid);
        if let Some(summary) = record.summary.as_ref().filter(|_| record.verdict.shows_number()) {
            case.add(summary);
        }
    }
    order.into_iter().filter_map(|name| cases.remove(&name).map(|case| (name, case))).collect()
}

impl Case {
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

fn page(documents: &[Document], pairs: &Pairs) -> String {
    let (first, last) = (&documents[0], &documents[documents.len() - 1]);
    let mut text = PREFACE.to_owned();
    text += &format!("\n{}\n", machine(&first.host));
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
    let share = 100.0 * pairs.excluding_one as f64 / pairs.cases.max(1) as f64;
    text += &format!(
        "{} pairs of neighbouring runs, {} comparisons: the interval of the ratio excludes 1 in \
         {} ({share:.1} %).\nThe words that `fathom compare` gave: ",
        pairs.pairs, pairs.cases, pairs.excluding_one
    );
    let words: Vec<String> =
        pairs.words.iter().map(|(word, count)| format!("{word} {count}")).collect();
    text += &format!("{}.\n\n## Case by case\n\n", words.join(", "));
    text += "| case | value | within % | processes % | runs % | range % | noisy |\n";
    text += "|---|---:|---:|---:|---:|---:|---:|\n";
    for (name, case) in cases(documents) {
        text += &row(&name, &case, documents.len());
    }
    text
}

fn row(name: &str, case: &Case, runs: usize) -> String {
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

fn machine(host: &Host) -> String {
    let virtualization = host.virtualization.as_deref().unwrap_or("virtualization unknown");
    format!(
        "Machine: {}, {} logical CPUs, {virtualization}, kernel {}, {}.",
        host.cpu.model,
        host.cpu.logical,
        host.kernel,
        host.distribution.as_deref().unwrap_or("distribution unknown")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_between_runs_is_relative_and_asks_for_two() {
        let case = |headlines: &[f64]| Case { headlines: headlines.to_vec(), ..Case::default() };
        assert_eq!(case(&[100.0]).between_runs(), None);
        let (deviation, range) = case(&[90.0, 100.0, 110.0]).between_runs().unwrap();
        assert!((deviation - 0.1).abs() < 1e-12 && (range - 2.0 / 9.0).abs() < 1e-12);
        assert_eq!(case(&[0.0, 1.0]).between_runs(), None, "nothing to be relative to");
    }

    #[test]
    fn a_comparison_counts_by_its_interval_and_by_its_word() {
        let comparison = serde_json::json!({"rows": [
            {"interval": [0.98, 1.01], "word": "unchanged"},
            {"interval": [1.01, 1.05], "word": "looks_slower"},
            {"interval": null, "word": "inconclusive"},
        ]});
        let mut pairs = Pairs::default();
        pairs.add(&comparison);
        assert_eq!((pairs.pairs, pairs.cases, pairs.excluding_one), (1, 3, 1));
        assert_eq!(pairs.words["looks slower"], 1);
    }
}
