//! `xtask compare-check PROGRAM RUNS [METRIC…]`: does `fathom compare` find what was changed, and
//! nothing where nothing was?
//!
//! - A/A: quick runs of the unchanged machine, each against the one before. At most 5 % of the
//!   cases that no slow core hides may be flagged, by whatever word, and those must be most.
//! - A/B, work: one metric does 5 % more work (`FATHOM_SPIN`, which stands in the run's notes). It
//!   must be flagged in nine of ten pairs. Pairs that say that too few processes met a core at full
//!   speed are told apart, and may be less than half of all.
//! - A/B, huge pages: never against always. The faults by huge pages must be named in nine of ten
//!   pairs. What asked for small pages and is flagged all the same is told. Needs root; the setting
//!   is put back.
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
/// Of all cases of an unchanged machine.
const FLAGGED_MAX: f64 = 0.05;
/// Of all pairs of a changed one.
const NAMED_MIN: f64 = 0.9;

/// What the comparisons of a part said.
#[derive(Debug, Default, PartialEq)]
struct Told {
    pairs: usize,
    /// Pairs in which the right metric was named.
    named: usize,
    /// Pairs that a neighbour on the core spoiled, and that say so of the right metric.
    spoiled: usize,
    /// Cases that nothing was done to.
    untouched: usize,
    /// Those of them of which a slow core let nobody tell anything.
    silent: usize,
    /// Those of them that were flagged.
    flagged: Vec<String>,
}

impl Told {
    /// Whether the right metric was named often enough in the pairs that nobody spoiled, and these
    /// are most.
    fn is_named(&self) -> bool {
        let quiet = self.pairs - self.spoiled;
        2 * quiet > self.pairs && self.named as f64 >= NAMED_MIN * quiet as f64
    }

    fn named_words(&self) -> String {
        let words = format!("named in {} of {} pairs", self.named, self.pairs);
        match self.spoiled {
            0 => words,
            spoiled => format!("{words}, {spoiled} of which say that the core was slow"),
        }
    }

    /// Of those that a slow core left to be judged: silence is no merit.
    fn flagged_share(&self) -> f64 {
        self.flagged.len() as f64 / (self.untouched - self.silent).max(1) as f64
    }

    /// Counts the rows of a comparison that are not of `touched`.
    fn count_others(&mut self, comparison: &Value, touched: impl Fn(&Value) -> bool) {
        self.pairs += 1;
        for row in rows(comparison).filter(|row| !touched(row)) {
            self.untouched += 1;
            self.silent += usize::from(row["slow_core"]["left_out"] == false);
            if is_flagged(row) {
                let params = row["params"].to_string();
                self.flagged.push(format!("{}{params}", row["metric"].as_str().unwrap_or("?")));
            }
        }
    }
}

fn rows(comparison: &Value) -> impl Iterator<Item = &Value> {
    comparison["rows"].as_array().into_iter().flatten()
}

/// Any word but that nothing changed, or that nobody can tell.
fn is_flagged(row: &Value) -> bool {
    !matches!(row["word"].as_str(), Some("no_change" | "within_noise" | "inconclusive"))
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

    let same = unchanged(&bench, runs, metrics)?;
    println!("A/A: {} pairs: {}", same.pairs, told_flags(&same));
    if 2 * same.silent > same.untouched {
        broken.push("the machine is not quiet enough to tell anything");
    }
    if same.flagged_share() > FLAGGED_MAX {
        broken.push("the unchanged machine is called changed too often");
    }
    let pairs = runs.div_ceil(2);
    let more = more_work(&bench, pairs)?;
    let (metric, share) = SPUN;
    println!(
        "A/B, {metric} does {share} more: {}; of the others {}",
        more.named_words(),
        told_flags(&more)
    );
    if !more.is_named() {
        broken.push("more work is not found often enough");
    }
    match huge_pages(&bench, pairs)? {
        None => println!("skipped: huge pages: {HUGE} cannot be written; run as root"),
        Some(huge) => {
            println!(
                "A/B, huge pages never and always: {}; of the others {}",
                huge.named_words(),
                told_flags(&huge)
            );
            if !huge.is_named() {
                broken.push("the setting of huge pages is not found often enough");
            }
        }
    }
    ensure!(broken.is_empty(), "{}", broken.join("; "));
    Ok(())
}

fn told_flags(told: &Told) -> String {
    let mut names = told.flagged.clone();
    names.sort();
    names.dedup();
    let shown = names.iter().take(8).cloned().collect::<Vec<String>>().join(" ");
    let count = told.flagged.len();
    let (share, judged) = (100.0 * told.flagged_share(), told.untouched - told.silent);
    let silent = told.silent;
    format!("{count} of {judged} flagged ({share:.1} %), {silent} more met a slow core; {shown}")
}

fn unchanged(bench: &Bench, runs: usize, metrics: &[&str]) -> Result<Told> {
    let store = bench.store("same");
    let mut told = Told::default();
    for run in 0..runs {
        eprintln!("A/A: run {} of {runs}", run + 1);
        bench.measure(&store, metrics, &[])?;
        if run > 0 {
            told.count_others(&bench.compared(&store)?, |_| false);
        }
    }
    Ok(told)
}

fn more_work(bench: &Bench, pairs: usize) -> Result<Told> {
    let store = bench.store("work");
    let (metric, share) = SPUN;
    let imposed = format!("{metric}={share}");
    let metrics = [&BESIDE[..], &[metric]].concat();
    let mut told = Told::default();
    for pair in 0..pairs {
        eprintln!("A/B, work: pair {} of {pairs}", pair + 1);
        bench.measure(&store, &metrics, &[])?;
        bench.measure(&store, &metrics, &[("FATHOM_SPIN", &imposed)])?;
        let comparison = bench.compared(&store)?;
        let is_named = is_named_worse(&comparison, metric);
        told.named += usize::from(is_named);
        told.spoiled += usize::from(!is_named && is_spoiled(&comparison, metric));
        told.count_others(&comparison, |row| row["metric"] == metric);
    }
    Ok(told)
}

/// Whether most cases of the metric are flagged, as slower.
fn is_named_worse(comparison: &Value, metric: &str) -> bool {
    let cases: Vec<&Value> = rows(comparison).filter(|row| row["metric"] == metric).collect();
    let worse = cases.iter().filter(|row| {
        matches!(row["word"].as_str(), Some("slower" | "worse" | "looks_slower" | "looks_worse"))
    });
    2 * worse.count() > cases.len()
}

/// Whether of most cases of the metric too few processes met a core at full speed to tell anything.
fn is_spoiled(comparison: &Value, metric: &str) -> bool {
    let cases: Vec<&Value> = rows(comparison).filter(|row| row["metric"] == metric).collect();
    let spoiled = cases.iter().filter(|row| row["slow_core"]["left_out"] == false);
    2 * spoiled.count() > cases.len()
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
        // Writing what it is changes nothing, and tells whether it may be written.
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

fn huge_pages(bench: &Bench, pairs: usize) -> Result<Option<Told>> {
    let Some(_setting) = Setting::taken() else { return Ok(None) };
    let store = bench.store("huge");
    let mut told = Told::default();
    for pair in 0..pairs {
        eprintln!("A/B, huge pages: pair {} of {pairs}", pair + 1);
        for value in ["never", "always"] {
            std::fs::write(HUGE, value).with_context(|| format!("write {HUGE}"))?;
            bench.measure(&store, &[FAULTS], &[])?;
        }
        let comparison = bench.compared(&store)?;
        told.named += usize::from(names_huge_pages(&comparison));
        told.count_others(&comparison, |row| row["params"]["kind"] == "huge");
    }
    Ok(Some(told))
}

/// Whether the setting is said, and the faults that it makes possible.
fn names_huge_pages(comparison: &Value) -> bool {
    let list = |name: &str| comparison[name].as_array().into_iter().flatten();
    let is_said = list("differences").any(|one| {
        one["what"] == "transparent huge pages" && one["a"] == "never" && one["b"] == "always"
    });
    let is_named = list("not_comparable").any(|one| {
        one["metric"] == FAULTS
            && one["params"]["kind"] == "huge"
            && one["reason"] == "unavailable in A"
    });
    is_said && is_named
}

impl Bench {
    fn store(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.db"))
    }

    fn measure(&self, store: &Path, metrics: &[&str], imposed: &[(&str, &str)]) -> Result<()> {
        let mut words = vec!["run", "--quick"];
        if !metrics.is_empty() {
            words.push("--only");
        }
        self.said(store, &[&words, metrics].concat(), imposed).map(drop)
    }

    fn compared(&self, store: &Path) -> Result<Value> {
        let text = self.said(store, &["compare", "--json", "latest~1", "latest"], &[])?;
        serde_json::from_str(&text).context("read a comparison's JSON")
    }

    fn said(&self, store: &Path, words: &[&str], imposed: &[(&str, &str)]) -> Result<String> {
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

    #[test]
    fn what_was_spun_is_named_by_most_of_its_cases_and_others_are_counted_apart() {
        let row = |metric: &str, word: &str| json!({"metric": metric, "params": {}, "word": word});
        let comparison = json!({"rows": [
            row("cpu.call", "looks_slower"),
            row("cpu.call", "slower"),
            row("cpu.call", "inconclusive"),
            row("os.syscall", "looks_faster"),
            row("os.syscall", "no_change"),
        ]});
        assert!(is_named_worse(&comparison, "cpu.call"));
        assert!(!is_named_worse(&comparison, "os.syscall"));
        let mut told = Told::default();
        told.count_others(&comparison, |row| row["metric"] == "cpu.call");
        assert_eq!((told.pairs, told.untouched), (1, 2));
        assert_eq!(told.flagged, ["os.syscall{}"]);
        assert!((told.flagged_share() - 0.5).abs() < 1e-12);
    }

    #[test]
    fn pairs_that_say_that_the_core_was_slow_are_told_apart() {
        let row = |word: &str, left_out: bool| {
            let slow_core = json!({"left_out": left_out});
            json!({"metric": "cpu.call", "word": word, "slow_core": slow_core})
        };
        let quiet = json!({"metric": "cpu.call", "word": "inconclusive", "slow_core": null});
        let of = |rows: &[Value]| is_spoiled(&json!({"rows": rows}), "cpu.call");
        assert!(of(&[row("inconclusive", false), row("inconclusive", false), quiet.clone()]));
        assert!(!of(&[row("looks_slower", true), row("inconclusive", false), quiet]));
        let told = |pairs, named, spoiled| Told { pairs, named, spoiled, ..Told::default() };
        assert!(told(10, 9, 0).is_named() && !told(10, 8, 0).is_named());
        assert!(told(10, 8, 2).is_named() && !told(10, 7, 2).is_named());
        assert!(!told(10, 5, 5).is_named(), "half of the pairs say nothing");
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
