//! The page of all figures, and what of it is not as promised.

use crate::section::Section;
use crate::worlds::WORLDS;
use crate::{
    Trials, comparisons, coverage, derived, machine, many, stopping, strata, trimmed, within,
};

#[derive(Debug, PartialEq, Eq)]
pub struct Findings {
    /// The page, as docs/SIMULATION.md.
    pub page: String,
    /// Each promise that was broken by more than chance.
    pub broken: Vec<String>,
}

/// A part of the page, from what is simulated for it.
type Part = fn(Trials) -> Section;

/// Simulates everything, and names each part before it begins.
pub fn simulate(trials: Trials, begin: &mut dyn FnMut(&str)) -> Findings {
    let parts: [(&str, Part); 9] = [
        ("intervals over processes", coverage::section),
        ("stopping", stopping::section),
        ("full speed and as found", strata::section),
        ("intervals within one run", within::section),
        ("derived metrics", derived::section),
        ("the trimmed protocol", trimmed::section),
        ("comparisons", comparisons::section),
        ("comparisons of many cases", |trials| many::section(trials.divided(10))),
        ("the machine", machine::section),
    ];
    let mut findings = Findings { page: opening(trials), broken: Vec::new() };
    for (name, part) in parts {
        begin(name);
        let Section { text, broken } = part(trials);
        findings.page += &text;
        findings.broken.extend(broken);
    }
    findings.page.truncate(findings.page.trim_end().len());
    findings.page.push('\n');
    findings
}

/// What this page is, and what follows from it. Its claims are promises of the sections below.
const CONCLUSIONS: &str = "\
What follows for a reader:

- The interval of a headline keeps its level wherever processes are independent, whatever their
  distribution: exactly where they are as likely above the truth as below it, and 93 % to 99 % where
  not. The difference is bias: the median of 12 skewed rounds is a little above that of all rounds,
  and the more processes there are, the more that shows.
- Two kinds of processes keep it too; two paths within each do so less the more processes there are,
  for the same reason. One median describes neither, and from 10 processes on they are marked as
  bimodal. With 5 they mostly are not: look at the processes in the wide table.
- **Full speed keeps its level wherever it is claimed**, however rare clean visits are and however
  autocorrelated: where they are too rare, it is not claimed. As found keeps it only where the
  state of the core is independent from visit to visit. Where it is not, the run is flagged as
  autocorrelated, but for a run of one metric, which is too short: measure more than one at a time.
- Rules that stop at values or choose by them are forbidden for a reason: *until five agree* and
  *the five smallest of eleven* miss the truth far more often than they state.
- Autocorrelated rounds do no harm to an interval over processes.
- Within one run, autocorrelated rounds have a valid interval from a hundred on, and mostly none
  below.
- A comparison of two runs alarms less often than 6 % at its 5 %, with 5 processes as with 20, also
  where the two sides have different shapes. What is 2 % slower is called *unchanged within 2 %* in
  fewer than 5 % of comparisons. It **cannot** tell a change from what makes one run as a
  whole slower than the next.
- The trimmed protocol's standard error is about right for ten independent processes. As it is often
  computed, from trials as if they were independent, it would be a sixth of the truth.

The worlds. A value is 100 with 1 % for each deviation of its process and 1 % for each of its round;
*truth* is what the typical process takes in its typical round. A visit has 12 rounds.

";

fn opening(trials: Trials) -> String {
    let Trials { runs, seed } = trials;
    let doubt = 100.0 * 1.96 * (0.95 * 0.05 / f64::from(runs)).sqrt();
    let mut text = format!(
        "\
# Simulation

Made by `make simulate RUNS={runs} SEED={seed}`: how often each interval holds the truth, and each
alarm is false, where the truth is known. Every figure is counted over {runs} seeded runs, so that
95 % is uncertain by ± {doubt:.1}; the same seed makes the same page. `make test` counts the same in
fewer runs, and fails where a promise below is broken by more than chance.

{CONCLUSIONS}\
| world | stands for |
|---|---|
"
    );
    for world in &WORLDS {
        text += &format!("| {} | {} |\n", world.name, world.stands_for);
    }
    text + "\n"
}
