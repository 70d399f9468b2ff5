//! `xtask compare-check PROGRAM RUNS [METRIC…]`: does `fathom compare` find what was changed, and
//! nothing where nothing was?
//!
//! - A/A: quick runs of the unchanged machine, each compared with the one before. At most 5 % of
//!   the cases may be flagged, by whatever word, and at most 20 % be inconclusive.
//! - Each of those runs compared with a copy of itself: 95 % of the valid cases must be unchanged.
//! - A/B, work: at standard effort one metric does 5 % more work (`FATHOM_SPIN`). It must be
//!   flagged in nine of ten pairs.
//! - A/B, huge pages: never and always. The faults by huge pages must be named in every pair. What
//!   asked for small pages and is flagged all the same is listed. Needs root; the setting is put
//!   back.
//!
//! Figures are worth something on a quiet machine only.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

/// The metric that does more work, and how much more.
const SPUN: (&str, &str) = ("cpu.call", "5%");
/// What is run beside it, so that there is something not to flag.
const BESIDE: [&str; 3] = ["cpu.frequency", "cpu.loop.iteration", "os.syscall"];
/// The setting of huge pages, its two values, and the metric that they bear on.
const HUGE: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
const FAULTS: &str = "memory.fault";
/// Of the cases of an unchanged machine.
const FLAGGED_MAX: f64 = 0.05;
const INCONCLUSIVE_MAX: f64 = 0.2;
/// Of the valid cases of a run and its copy.
const UNCHANGED_MIN: f64 = 0.95;
/// Of all pairs that do more work, and of those with another setting of huge pages.
const NAMED_MIN: f64 = 0.9;
const NAMED_HUGE_MIN: f64 = 1.0;

/// What the comparisons of a part said.
#[derive(Debug, Default, PartialEq)]
struct Answers {
    pairs: usize,
    /// Pairs in which the right metric was named.
    named: usize,
    /// Cases that nothing was done to.
    untouched: usize,
    /// Those of them that were inconclusive.
    inconclusive: usize,
    /// Those of them that were flagged.
    flagged: Vec<String>,
}

impl Answers {
    fn is_named(&self, least: f64) -> bool {
        self.pairs > 0 && self.named as f64 >= least * self.pairs as f64
    }

    fn flagged_share(&self) -> f64 {
        share(self.flagged.len(), self.untouched)
    }

    fn inconclusive_share(&self) -> f64 {
        share(self.inconclusive, self.untouched)
    }

    /// Counts the rows of a comparison that are not of `touched`.
    fn count_others(&mut self, comparison: &Value, touched: impl Fn(&Value) -> bool) {
        self.pairs += 1;
        for row in rows(comparison).filter(|row| !touched(row)) {
            self.untouched += 1;
            match row["word"].as_str() {
                Some("unchanged") => {}
                Some("inconclusive") => self.inconclusive += 1,
                _ => {
                    let metric = row["metric"].as_str().unwrap_or("?");
                    self.flagged.push(format!("{metric}{}", row["params"]));
                }
            }
        }
    }

    fn words(&self) -> String {
        let mut names = self.flagged.clone();
        names.sort();
        names.dedup();
        let shown = names.iter().take(8).cloned().collect::<Vec<String>>().join(" ");
        format!(
            "of {} cases {} flagged ({:.1} %), {} inconclusive ({:.1} %) {shown}",
            self.untouched,
            self.flagged.len(),
            100.0 * self.flagged_share(),
            self.inconclusive,
            100.0 * self.inconclusive_share()
        )
    }
}

/// The valid cases of runs that were compared with a copy of themselves, and the unchanged ones.
#[derive(Debug, Default, PartialEq)]
struct Copies {
    valid: usize,
    unchanged: usize,
}

impl Copies {
    fn count(&mut self, comparison: &Value) {
        let valid = || rows(comparison).filter(|row| row["noisy_a"] == false);
        self.valid += valid().count();
        self.unchanged += valid().filter(|row| row["word"] == "unchanged").count();
    }
}

fn share(count: usize, of: usize) -> f64 {
    count as f64 / of.max(1) as f64
}

fn rows(comparison: &Value) -> impl Iterator<Item = &Value> {
    comparison["rows"].as_array().into_iter().flatten()
}

/// A program with a store of its own.
struct Bench {
    program: String,
    folder: tempfile::TempDir,
    /// Set by Ctrl-C: what was changed is put back first.
    stop: Arc<AtomicBool>,
}

/// Takes all runs, prints what they said, and fails where a promise is broken.
pub(crate) fn run(program: &str, runs: usize, metrics: &[&str]) -> Result<()> {
    ensure!(runs >= 2, "{runs} runs: at least 2 are needed");
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let folder = tempfile::tempdir().context("make a folder for the stores")?;
    let bench = Bench { program: program.to_owned(), folder, stop };
    let mut broken = Vec::new();

    let (same, copies) = unchanged(&bench, runs, metrics)?;
    println!("A/A: {} pairs: {}", same.pairs, same.words());
    if same.flagged_share() > FLAGGED_MAX {
        broken.push("the unchanged machine is called changed too often");
    }
    if same.inconclusive_share() > INCONCLUSIVE_MAX {
        broken.push("too many cases of the unchanged machine are inconclusive");
    }
    println!("a run and its copy: {} of {} unchanged", copies.unchanged, copies.valid);
    if share(copies.unchanged, copies.valid) < UNCHANGED_MIN {
        broken.push("a run is not unchanged beside its copy");
    }
    let pairs = runs.div_ceil(2);
    let more = more_work(&bench, pairs)?;
    let (metric, dose) = SPUN;
    println!(
        "A/B, {metric} does {dose} more: named in {} of {} pairs; {}",
        more.named,
        more.pairs,
        more.words()
    );
    if !more.is_named(NAMED_MIN) {
        broken.push("more work is not found often enough");
    }
    match huge_pages(&bench, pairs)? {
        None => println!("skipped: huge pages: {HUGE} cannot be written; run as root"),
        Some(huge) => {
            println!(
                "A/B, huge pages never and always: named in {} of {} pairs; {}",
                huge.named,
                huge.pairs,
                huge.words()
            );
            if !huge.is_named(NAMED_HUGE_MIN) {
                broken.push("the setting of huge pages is not found in every pair");
            }
        }
    }
    ensure!(broken.is_empty(), "{}", broken.join("; "));
    Ok(())
}

fn unchanged(bench: &Bench, runs: usize, metrics: &[&str]) -> Result<(Answers, Copies)> {
    let store = bench.store("same");
    let (mut answers, mut copies) = (Answers::default(), Copies::default());
    for run in 0..runs {
        eprintln!("A/A: run {} of {runs}", run + 1);
        bench.measure(&store, &["--quick"], metrics, &[])?;
        if run > 0 {
            answers.count_others(&bench.compared(&store, "latest~1")?, |_| false);
        }
        copies.count(&bench.compared(&store, &bench.copy_of_latest(&store)?)?);
    }
    Ok((answers, copies))
}

fn more_work(bench: &Bench, pairs: usize) -> Result<Answers> {
    let store = bench.store("work");
    let (metric, dose) = SPUN;
    let imposed = format!("{metric}={dose}");
    let metrics = [&BESIDE[..], &[metric]].concat();
    let mut answers = Answers::default();
    for pair in 0..pairs {
        eprintln!("A/B, work: pair {} of {pairs}", pair + 1);
        bench.measure(&store, &[], &metrics, &[])?;
        bench.measure(&store, &[], &metrics, &[("FATHOM_SPIN", &imposed)])?;
        let comparison = bench.compared(&store, "latest~1")?;
        answers.named += usize::from(is_named_worse(&comparison, metric));
        answers.count_others(&comparison, |row| row["metric"] == metric);
    }
    Ok(answers)
}

/// Whether most cases of the metric are flagged, as slower.
fn is_named_worse(comparison: &Value, metric: &str) -> bool {
    let cases: Vec<&Value> = rows(comparison).filter(|row| row["metric"] == metric).collect();
    let worse = cases.iter().filter(|row| {
        matches!(row["word"].as_str(), Some("slower" | "worse" | "looks_slower" | "looks_worse"))
    });
    2 * worse.count() > cases.len()
}

/// The kernel's setting of huge pages, put back in the end.
struct Setting {
    before: String,
}

impl Setting {
    /// `None` where it cannot be changed.
    fn taken() -> Option<Self> {
        let text = std::fs::read_to_string(HUGE).ok()?;
        let before = text.split(['[', ']']).nth(1)?.to_owned();
        // Writing what it is changes nothing, and shows whether it may be written.
        std::fs::write(HUGE, &before).ok()?;
        Some(Self { before })
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        if let Err(error) = std::fs::write(HUGE, &self.before) {
            eprintln!("put {HUGE} back to {}: {error}", self.before);
        }
    }
}

fn huge_pages(bench: &Bench, pairs: usize) -> Result<Option<Answers>> {
    let Some(_setting) = Setting::taken() else { return Ok(None) };
    let store = bench.store("huge");
    let mut answers = Answers::default();
    for pair in 0..pairs {
        eprintln!("A/B, huge pages: pair {} of {pairs}", pair + 1);
        for value in ["never", "always"] {
            std::fs::write(HUGE, value).with_context(|| format!("write {HUGE}"))?;
            bench.measure(&store, &["--quick"], &[FAULTS], &[])?;
        }
        let comparison = bench.compared(&store, "latest~1")?;
        answers.named += usize::from(names_huge_pages(&comparison));
        answers.count_others(&comparison, |row| row["params"]["kind"] == "huge");
    }
    Ok(Some(answers))
}

/// Whether the setting is among the differences, and the faults that it makes possible.
fn names_huge_pages(comparison: &Value) -> bool {
    let list = |name: &str| comparison[name].as_array().into_iter().flatten();
    let is_listed = list("differences").any(|one| {
        one["what"] == "transparent huge pages" && one["a"] == "never" && one["b"] == "always"
    });
    let is_named = list("not_comparable").any(|one| {
        one["metric"] == FAULTS
            && one["params"]["kind"] == "huge"
            && one["reason"] == "unavailable in A"
    });
    is_listed && is_named
}

impl Bench {
    fn store(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.db"))
    }

    fn measure(
        &self,
        store: &Path,
        effort: &[&str],
        metrics: &[&str],
        imposed: &[(&str, &str)],
    ) -> Result<()> {
        let only: &[&str] = if metrics.is_empty() { &[] } else { &["--only"] };
        let words = [&["run"], effort, only, metrics].concat();
        self.output(store, &words, imposed).map(drop)
    }

    /// The latest run compared with `a`, a run of the store or a file.
    fn compared(&self, store: &Path, a: &str) -> Result<Value> {
        let text = self.output(store, &["compare", "--json", a, "latest"], &[])?;
        serde_json::from_str(&text).context("read a comparison's JSON")
    }

    /// A file with the latest run under another id.
    fn copy_of_latest(&self, store: &Path) -> Result<String> {
        let mut run: Value = serde_json::from_str(&self.output(store, &["export"], &[])?)
            .context("read an exported run")?;
        let id = run["run"]["id"].as_str().context("a run without an id")?;
        // No run begins with it for some thousand years.
        run["run"]["id"] = Value::from(format!("f{}", &id[1..]));
        let path = self.folder.path().join("copy.json").display().to_string();
        std::fs::write(&path, run.to_string()).with_context(|| format!("write {path}"))?;
        Ok(path)
    }

    fn output(&self, store: &Path, words: &[&str], imposed: &[(&str, &str)]) -> Result<String> {
        let mut command = Command::new(&self.program);
        command.args(words).env("FATHOM_STORE", store).env_remove("FATHOM_SPIN");
        command.envs(imposed.iter().copied()).stdin(Stdio::null()).stderr(Stdio::inherit());
        let output = command.output().with_context(|| format!("start {}", self.program))?;
        if self.stop.load(Ordering::Relaxed) {
            bail!("stopped");
        }
        ensure!(output.status.success(), "{} ended with {}", words.join(" "), output.status);
        Ok(String::from_utf8(output.stdout)?)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row(metric: &str, word: &str, noisy: bool) -> Value {
        json!({"metric": metric, "params": {}, "word": word, "noisy_a": noisy})
    }

    #[test]
    fn more_work_is_named_and_other_cases_count_apart() {
        let comparison = json!({"rows": [
            row("cpu.call", "looks_slower", false),
            row("cpu.call", "slower", false),
            row("cpu.call", "inconclusive", false),
            row("os.syscall", "looks_faster", false),
            row("os.syscall", "unchanged", false),
            row("os.syscall", "unchanged", false),
            row("os.syscall", "inconclusive", false),
        ]});
        assert!(is_named_worse(&comparison, "cpu.call"));
        assert!(!is_named_worse(&comparison, "os.syscall"));
        let mut answers = Answers::default();
        answers.count_others(&comparison, |row| row["metric"] == "cpu.call");
        assert_eq!((answers.pairs, answers.untouched, answers.inconclusive), (1, 4, 1));
        assert_eq!(answers.flagged, ["os.syscall{}"]);
        let shares = [answers.flagged_share(), answers.inconclusive_share()];
        assert_eq!(shares, [0.25, 0.25]);
    }

    #[test]
    fn nine_of_ten_pairs_must_be_named() {
        let of = |named| Answers { pairs: 10, named, ..Answers::default() };
        assert!(of(9).is_named(NAMED_MIN) && !of(8).is_named(NAMED_MIN));
        assert!(!of(9).is_named(NAMED_HUGE_MIN));
        assert!(!Answers::default().is_named(NAMED_MIN), "no pair at all");
    }

    #[test]
    fn of_a_run_and_its_copy_valid_cases_count() {
        let comparison = json!({"rows": [
            row("cpu.call", "unchanged", false),
            row("cpu.call", "inconclusive", false),
            row("cpu.call", "inconclusive", true),
        ]});
        let mut copies = Copies::default();
        copies.count(&comparison);
        assert_eq!(copies, Copies { valid: 2, unchanged: 1 });
    }

    #[test]
    fn huge_pages_are_named_by_the_setting_and_by_the_faults_that_it_forbade() {
        let comparison = |reason: &str| {
            json!({
                "differences": [{"what": "transparent huge pages", "a": "never", "b": "always"}],
                "not_comparable": [
                    {"metric": "memory.fault", "params": {"kind": "huge"}, "reason": reason},
                ],
            })
        };
        assert!(names_huge_pages(&comparison("unavailable in A")));
        assert!(!names_huge_pages(&comparison("unavailable in B")));
        let mut silent = comparison("unavailable in A");
        silent["differences"] = json!([]);
        assert!(!names_huge_pages(&silent));
    }
}
