//! The program under test with a store of its own, and what its comparisons said.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

/// A program and a folder for its stores. Ctrl-C ends it between two commands, so that what was
/// changed on the machine is put back.
pub(crate) struct XtaskBench {
    program: String,
    folder: tempfile::TempDir,
    stop: Arc<AtomicBool>,
}

impl XtaskBench {
    pub(crate) fn new(program: &str) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&stop))?;
        }
        let folder = tempfile::tempdir().context("make a folder for the stores")?;
        Ok(Self { program: program.to_owned(), folder, stop })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Measures some metrics, or all.
    pub(crate) fn measure(
        &self,
        store: &Path,
        effort: &[&str],
        metrics: &[&str],
        imposed: &[(&str, &str)],
    ) -> Result<()> {
        let only: &[&str] = if metrics.is_empty() { &[] } else { &["--only"] };
        self.output(store, &[&["run"], effort, only, metrics].concat(), imposed).map(drop)
    }

    /// Run B compared with run A, each by its name in the store or a file.
    pub(crate) fn compared(&self, store: &Path, a: &str, b: &str) -> Result<Value> {
        let text = self.output(store, &["compare", "--json", a, b], &[])?;
        serde_json::from_str(&text).context("read a comparison's JSON")
    }

    pub(crate) fn output(
        &self,
        store: &Path,
        words: &[&str],
        imposed: &[(&str, &str)],
    ) -> Result<String> {
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

/// Words of cases that nothing was done to.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct BenchWords {
    pub(crate) pairs: usize,
    cases: usize,
    inconclusive: usize,
    /// Cases that were called changed, or looked it.
    flagged: Vec<String>,
}

impl BenchWords {
    /// Counts the rows of a comparison that pass `untouched`.
    pub(crate) fn count(&mut self, comparison: &Value, untouched: impl Fn(&Value) -> bool) {
        self.pairs += 1;
        for row in rows(comparison).filter(|row| untouched(row)) {
            self.cases += 1;
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

    pub(crate) fn flagged_share(&self) -> f64 {
        share(self.flagged.len(), self.cases)
    }

    pub(crate) fn inconclusive_share(&self) -> f64 {
        share(self.inconclusive, self.cases)
    }

    /// The counts, and the names of a few flagged cases.
    pub(crate) fn summary(&self) -> String {
        let mut names = self.flagged.clone();
        names.sort();
        names.dedup();
        let mut text = format!(
            "of {} cases {} flagged ({:.1} %), {} inconclusive ({:.1} %)",
            self.cases,
            self.flagged.len(),
            100.0 * self.flagged_share(),
            self.inconclusive,
            100.0 * self.inconclusive_share()
        );
        if !names.is_empty() {
            text += &format!("; flagged: {}", names[..names.len().min(8)].join(" "));
        }
        text
    }
}

pub(crate) fn share(count: usize, of: usize) -> f64 {
    count as f64 / of.max(1) as f64
}

pub(crate) fn rows(comparison: &Value) -> impl Iterator<Item = &Value> {
    comparison["rows"].as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn words_of_untouched_cases_are_counted() {
        let row = |metric: &str, word: &str| json!({"metric": metric, "params": {}, "word": word});
        let comparison = json!({"rows": [
            row("cpu.call", "slower"),
            row("os.syscall", "looks_faster"),
            row("os.syscall", "unchanged"),
            row("os.syscall", "unchanged"),
            row("os.syscall", "inconclusive"),
        ]});
        let mut words = BenchWords::default();
        words.count(&comparison, |row| row["metric"] != "cpu.call");
        assert_eq!((words.pairs, words.cases, words.inconclusive), (1, 4, 1));
        assert_eq!(words.flagged, ["os.syscall{}"]);
        assert_eq!([words.flagged_share(), words.inconclusive_share()], [0.25, 0.25]);
    }
}
