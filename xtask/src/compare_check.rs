//! `xtask compare-check PROGRAM PAIRS`: does `fathom compare` find what was changed, and nothing
//! else? (How often it finds a change where nothing was changed, `xtask repeatability` counts.)
//!
//! - More work: at standard effort one metric does 5 % more work (`FATHOM_SPIN`). It must be
//!   flagged in nine of ten pairs.
//! - Huge pages: never and always. The faults by huge pages must be named in every pair. Needs
//!   root; the setting is put back.
//!
//! Figures are worth something on a quiet machine only.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::bench::{BenchWords, XtaskBench, rows};

/// The metric that does more work, and how much more.
const SPUN: (&str, &str) = ("cpu.call", "5%");
/// What is run beside it, so that there is something not to flag.
const BESIDE: [&str; 3] = ["cpu.frequency", "cpu.loop.iteration", "os.syscall"];
/// The setting of huge pages, and the metric that it bears on.
const HUGE: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
const FAULTS: &str = "memory.fault";
/// Of ten pairs that do more work.
const NAMED_MIN: f64 = 0.9;

/// Measures all pairs, prints what their comparisons said, and fails where a change was missed.
pub(crate) fn run(program: &str, pairs: usize) -> Result<()> {
    ensure!(pairs > 0, "{pairs} pairs: at least 1 is needed");
    let bench = XtaskBench::new(program)?;
    let (metric, dose) = SPUN;
    let (named, others) = more_work(&bench, pairs)?;
    println!("{metric} does {dose} more work: named in {named} of {pairs} pairs");
    println!("beside it: {}", others.summary());
    let mut missed = Vec::new();
    if (named as f64) < NAMED_MIN * pairs as f64 {
        missed.push("more work is not found often enough");
    }
    match huge_pages(&bench, pairs)? {
        None => println!("skipped: huge pages: {HUGE} cannot be written; run as root"),
        Some((found, beside)) => {
            println!("huge pages never and always: named in {found} of {pairs} pairs");
            println!("beside it: {}", beside.summary());
            if found < pairs {
                missed.push("the setting of huge pages is not found in every pair");
            }
        }
    }
    ensure!(missed.is_empty(), "{}", missed.join("; "));
    Ok(())
}

/// In how many pairs the metric was flagged, and the words of what is beside it.
fn more_work(bench: &XtaskBench, pairs: usize) -> Result<(usize, BenchWords)> {
    let store = bench.path("work.db");
    let (metric, dose) = SPUN;
    let imposed = format!("{metric}={dose}");
    let metrics = [&BESIDE[..], &[metric]].concat();
    let (mut named, mut others) = (0, BenchWords::default());
    for pair in 0..pairs {
        eprintln!("more work: pair {} of {pairs}", pair + 1);
        bench.measure(&store, &[], &metrics, &[])?;
        bench.measure(&store, &[], &metrics, &[("FATHOM_SPIN", &imposed)])?;
        let comparison = bench.compared(&store, "latest~1", "latest")?;
        named += usize::from(is_named_worse(&comparison, metric));
        others.count(&comparison, |row| row["metric"] != metric);
    }
    Ok((named, others))
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
struct CompareCheckSetting {
    before: String,
}

impl CompareCheckSetting {
    /// `None` where it cannot be changed.
    fn taken() -> Option<Self> {
        let text = std::fs::read_to_string(HUGE).ok()?;
        let before = text.split(['[', ']']).nth(1)?.to_owned();
        // Writing what it is changes nothing, and shows whether it may be written.
        std::fs::write(HUGE, &before).ok()?;
        Some(Self { before })
    }
}

impl Drop for CompareCheckSetting {
    fn drop(&mut self) {
        if let Err(error) = std::fs::write(HUGE, &self.before) {
            eprintln!("put {HUGE} back to {}: {error}", self.before);
        }
    }
}

fn huge_pages(bench: &XtaskBench, pairs: usize) -> Result<Option<(usize, BenchWords)>> {
    let Some(_setting) = CompareCheckSetting::taken() else { return Ok(None) };
    let store = bench.path("huge.db");
    let (mut named, mut others) = (0, BenchWords::default());
    for pair in 0..pairs {
        eprintln!("huge pages: pair {} of {pairs}", pair + 1);
        for value in ["never", "always"] {
            std::fs::write(HUGE, value).with_context(|| format!("write {HUGE}"))?;
            bench.measure(&store, &["--quick"], &[FAULTS], &[])?;
        }
        let comparison = bench.compared(&store, "latest~1", "latest")?;
        named += usize::from(names_huge_pages(&comparison));
        others.count(&comparison, |row| row["params"]["kind"] != "huge");
    }
    Ok(Some((named, others)))
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn most_cases_must_look_slower() {
        let row = |metric: &str, word: &str| json!({"metric": metric, "word": word});
        let comparison = json!({"rows": [
            row("cpu.call", "looks_slower"),
            row("cpu.call", "slower"),
            row("cpu.call", "inconclusive"),
            row("os.syscall", "looks_faster"),
        ]});
        assert!(is_named_worse(&comparison, "cpu.call"));
        assert!(!is_named_worse(&comparison, "os.syscall"));
    }

    #[test]
    fn huge_pages_need_the_setting_and_the_faults() {
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
