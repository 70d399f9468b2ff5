//! What the runs amount to: kept beside the build, so that a laboratory may be run in parts, and
//! written as docs/SABOTAGE.md when every part is there.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result};
use fathom_record::Document;
use serde::{Deserialize, Serialize};

use super::table::{ACCOUNT, Row, account};

const PAGE: &str = "docs/SABOTAGE.md";
const KEPT: &str = "target/laboratory.json";

/// What is known so far of one seed, on one machine.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Kept {
    runs: u32,
    seed: u64,
    machine: String,
    started: String,
    rows: BTreeMap<String, Vec<Row>>,
    skipped: BTreeMap<String, String>,
    slope: Option<String>,
}

impl Kept {
    /// What was kept of the same seed and machine, if anything.
    pub(super) fn of(root: &Path, runs: u32, seed: u64, document: &Document) -> Self {
        let host = &document.host;
        let (model, logical) = (&host.cpu.model, host.cpu.logical);
        let machine = format!("{model}, {logical} logical CPUs, kernel {}", host.kernel);
        let started = document.run.started.chars().take(10).collect();
        let new = Self { runs, seed, machine, started, ..Self::default() };
        let text = std::fs::read_to_string(root.join(KEPT)).unwrap_or_default();
        match serde_json::from_str::<Self>(&text) {
            Ok(kept) if kept.is_of_the_same(&new) => Self { started: new.started, ..kept },
            _ => new,
        }
    }

    fn is_of_the_same(&self, other: &Self) -> bool {
        (self.runs, self.seed, &self.machine) == (other.runs, other.seed, &other.machine)
    }

    /// The runs of a sabotage, in the place of earlier ones.
    pub(super) fn ran(&mut self, name: &str, rows: Vec<Row>) {
        self.skipped.remove(name);
        self.rows.insert(name.to_owned(), rows);
    }

    /// That a sabotage cannot be imposed here.
    pub(super) fn skipped(&mut self, name: &str, why: &str) {
        self.rows.remove(name);
        self.skipped.insert(name.to_owned(), why.to_owned());
    }

    /// What the known answer was.
    pub(super) fn measured(&mut self, slope: &str) {
        self.slope = Some(slope.to_owned());
    }

    /// Keeps it; writes the page, if every sabotage ran or cannot here.
    pub(super) fn write(&self, root: &Path, names: &[&str]) -> Result<()> {
        let text = serde_json::to_string_pretty(self).context("write what is kept")?;
        std::fs::write(root.join(KEPT), text).with_context(|| format!("write {KEPT}"))?;
        match self.page(names) {
            Some(page) => {
                std::fs::write(root.join(PAGE), page).with_context(|| format!("write {PAGE}"))
            }
            None => Ok(()),
        }
    }

    fn page(&self, names: &[&str]) -> Option<String> {
        let slope = self.slope.as_ref()?;
        let is_done = |name| self.rows.contains_key(name) || self.skipped.contains_key(name);
        if !names.iter().all(|name| is_done(*name)) {
            return None;
        }
        let rows: Vec<Row> =
            names.iter().filter_map(|name| self.rows.get(*name)).flatten().cloned().collect();
        let head = HEAD
            .replace("{runs}", &self.runs.to_string())
            .replace("{seed}", &self.seed.to_string())
            .replace("{day}", &self.started)
            .replace("{machine}", &self.machine);
        let counts = table(&ACCOUNT, account(&rows));
        let all = rows.iter().map(|row| row.cells().map(str::to_owned));
        let all = table(&["sabotage", "dose", "verdict", "first cause", "truth", "is"], all);
        let skipped: String = self
            .skipped
            .iter()
            .map(|(name, why)| format!("- *{name}* was skipped: {why}\n\n"))
            .collect();
        let known = format!("## A known answer\n\n{slope}.\n");
        Some(format!("{head}{counts}\n{skipped}{known}\n## Every run\n\n{all}"))
    }
}

fn table<const N: usize>(head: &[&str; N], lines: impl IntoIterator<Item = [String; N]>) -> String {
    let mut text = format!("| {} |\n|{}\n", head.join(" | "), "---|".repeat(N));
    for line in lines {
        text.push_str(&format!("| {} |\n", line.join(" | ")));
    }
    text
}

const HEAD: &str = "\
# Sabotage

Made by `make lab RUNS={runs} SEED={seed}` on {day}: runs that were spoilt on purpose, each in half
of {runs} runs and with a dose drawn at random, the other half left alone. Machine: {machine}.

- *Right first*: the cause that most of the touched records name first is what was done, and its
  size, where the machine counts it too, is recorded as the machine counts it.
- *Right after a real one*: before it stands another cause whose counter moved as well.
- *False alarm*: a run that was left alone names a cause whose counter did not move. It must be 0.
- *Shape*: a run that was left alone names a shape of its values (a wide interval, drift, groups)
  that no counter explains.
- *With a cause*: noisy cases that name what was done or a cause that something counts, and not only
  a shape. 60 % of them must.

A record that is at full speed beside a neighbour was not harmed: it need name nothing if it is
within 2 % of the runs that were left alone.

A laboratory may be run in parts, on a quiet machine each; a part that is run again takes the place
of its earlier runs. What is drawn is drawn from the seed, the same in whole and in parts.

What the machine counts is read beside the program: ticks of the CPU, preemptions and faults of
the program's processes, the cgroup's own figures. Only the speed of the core itself has no other
counter than the program's reference loop; its raw samples are looked at again.

";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sabotage::table::Right;

    fn row(name: &str) -> Row {
        Row {
            sabotage: name.to_owned(),
            sabotaged: true,
            dose: "7 %".to_owned(),
            verdict: "noisy".to_owned(),
            cause: "throttled".to_owned(),
            truth: "7 %".to_owned(),
            right: Right::Yes,
            noisy: 3,
            named: 2,
        }
    }

    #[test]
    fn a_page_is_made_when_every_sabotage_ran_or_cannot_here() {
        let mut kept = Kept { runs: 10, seed: 3, ..Kept::default() };
        kept.ran("a", vec![row("a")]);
        kept.measured("slope 1.00");
        assert_eq!(kept.page(&["a", "b"]), None, "b is missing");
        kept.skipped("b", "needs root");
        let page = kept.page(&["a", "b"]).unwrap();
        for part in [
            "RUNS=10 SEED=3",
            "| a | 1 | 1 | 1 | 0 | 0 | 0 | 0 | 3 | 2 |\n| all | 1 |",
            "| a | 7 % | noisy | throttled | 7 % | right |",
            "*b* was skipped: needs root",
            "slope 1.00.",
        ] {
            assert!(page.contains(part), "`{part}` is missing: {page}");
        }
        kept.ran("b", vec![row("b")]);
        assert!(kept.page(&["a", "b"]).is_some_and(|page| !page.contains("skipped")));
    }
}
