//! The page of all figures, and the violated guarantees.

use crate::section::Section;
use crate::worlds::WORLDS;
use crate::{
    Trials, bisect, comparisons, coverage, derived, effects, episodes, factors, fleet, gate,
    highest, load, machine, many, stopping, strata, tails, trimmed, within,
};

#[derive(Debug, PartialEq, Eq)]
pub struct Findings {
    /// The text of docs/evidence/SIMULATION.md, without its head.
    pub page: String,
    /// Guarantees violated by more than chance.
    pub violations: Vec<String>,
}

type Simulation = fn(Trials) -> Section;

/// The parts of the page, in order.
const PARTS: [(&str, Simulation); 18] = [
    ("intervals over processes", coverage::section),
    ("episodes", episodes::section),
    ("a plan after a pilot", stopping::section),
    ("states of the core", strata::section),
    ("intervals within one run", within::section),
    ("derived metrics", derived::section),
    ("the trimmed protocol", trimmed::section),
    ("comparisons", comparisons::section),
    ("comparisons of many cases", |trials| many::section(trials.divided(10))),
    ("common factors", |trials| factors::section(trials.divided(40))),
    ("the gate", gate::section),
    ("the first bad commit", |trials| bisect::section(trials.divided(10))),
    ("the machine", machine::section),
    ("saturation of a load", load::section),
    ("quantiles of a load", |trials| tails::section(trials.divided(5))),
    ("the highest rate", |trials| highest::section(trials.divided(20))),
    ("effects of factors", effects::section),
    ("many hosts", |trials| fleet::section(trials.divided(50))),
];

/// Simulates all parts. `progress` gets the name of each before it starts.
pub fn simulate(trials: Trials, progress: &mut dyn FnMut(&str)) -> Findings {
    let parts = PARTS.iter().map(|(name, part)| {
        progress(name);
        part(trials)
    });
    found(trials, parts)
}

/// Simulates one part; `None` if no part has this name.
pub fn simulate_part(name: &str, trials: Trials) -> Option<Findings> {
    let (_, part) = PARTS.iter().find(|(one, _)| *one == name)?;
    Some(found(trials, std::iter::once(part(trials))))
}

fn found(trials: Trials, sections: impl Iterator<Item = Section>) -> Findings {
    let mut findings = Findings { page: opening(trials), violations: Vec::new() };
    for Section { text, violations } in sections {
        findings.page += &text;
        findings.violations.extend(violations);
    }
    findings.page.truncate(findings.page.trim_end().len());
    findings.page.push('\n');
    findings
}

/// Each conclusion is a guarantee of a section below.
const CONCLUSIONS: &str = "\
Conclusions:

- The interval of a headline keeps its level if processes are independent, for all distributions:
  exactly if a process is above the true value as often as below it, otherwise 93 % to 99 %. The
  cause of the difference is bias: the median of 12 skewed rounds is a little above the median of
  all rounds, which shows more with more processes.
- The level is also kept with two kinds of processes. With two paths within each process it falls
  with the number of processes, for the same reason. One median describes neither. From 10
  processes on both are marked as bimodal, with 5 mostly not: see the processes in the wide table.
- Planned once, after a pilot visit of each unit that counts too, the interval keeps 93 % to 97 %
  for all distributions, and more on a coarse clock: the plan knows cost and spread only. Rules that
  stop at values have intervals that are too narrow: *until five agree* keeps fewer than 6 of 10.
- **The interval of a state of the core keeps its level wherever it is reported**, whatever share of
  the visits it holds, also with autocorrelated visits. A continuum is reported as one state.
- Two runs agree on a machine with episodes of up to 4 s if visits are spread over the run: of pairs
  of intervals at most 3 % do not overlap. In blocks, a sixth does not.
- Autocorrelated rounds do not affect an interval over processes.
- Within one run, autocorrelated rounds have a valid interval from 100 rounds on, and mostly no
  interval below.
- A comparison of two runs of the same thing has fewer than 6 % false alarms (nominal 5 %), with 5
  processes as with 20, also for two different distributions. A slowdown of 2 % is called *unchanged
  within 2 %* in fewer than 5 % of comparisons. A comparison **cannot** separate a change from an
  effect that makes one run as a whole slower than the next.
- The interval of a factor that a class of cases has in common keeps 93 % to 97 %, and in at most
  5 % of comparisons a class is named that did not move, also if classes differ by 1 % from run to
  run and 6 runs were kept before. Of cases that are 10 % slower than their class, 9 of 10 are found
  where their interval is within 3 %; not so if classes differ from run to run and few were kept.
- With stored noise the gate of an unchanged machine passes in at least 16 of 20 comparisons and
  fails in at most one, and at most 5 % of the cases look changed. Runs that differ as a whole, with
  noise that is not known, leave most gates undecided.
- The commits that a bisection names hold the one that made a command slower in at least 94 % of
  histories, and 5 % are found with at most twice the tests of a bisection without noise.
- The standard error of the trimmed protocol is about right for ten independent processes. Computed
  as if all trials were independent, as is common, it is a sixth of the true error.
- The interval of an effect of a factor keeps its level within 2 points, also for interactions and
  skewed noise.
- Saturation of a load is not claimed for a sweep that ends near the knee or below. Where it is
  mostly claimed, the intervals of the saturation throughput and of the knee keep their level.
- The interval of a quantile of a load keeps 90 % up to half of the capacity, from 10,000 responses
  on. Near saturation those of short steps are too narrow.
- The interval of the highest rate within limits keeps its level less 2 points wherever there is
  one: windows with fewer than twenty responses beyond the limit have none.
- Of 50 hosts one that is 5 % slower in all cases is found in at least 9 of 10 fleets, and in 95 %
  of fleets no healthy host is named. Checked alone against its group, it is found in at least 9 of
  10 checks, and a healthy host is named in at most 5 %. A fleet of two generations is not judged.
  Of 1,225 links a bad one is named, and none of its hosts.
- On shared cores, where intervals are ± 6 %, of 8, 20 or 50 hosts one that is 5 % slower in all
  cases, or 10 % in those of a resource, is found in at least 9 of 10 fleets.

The worlds. A value is 100, plus 1 % per deviation of its process and of its round. *Truth* is the
typical round of the typical process. A visit has 12 rounds.

";

fn opening(trials: Trials) -> String {
    let Trials { runs, seed } = trials;
    let uncertainty = 100.0 * 1.96 * (0.95 * 0.05 / f64::from(runs)).sqrt();
    let mut text = format!(
        "\
How often each interval contains the true value, and how often each alarm is false, for data of
known distribution. Each figure is counted over {runs} runs with the seed {seed}, so that 95 % is
uncertain by ± {uncertainty:.1}. The same seed makes the same figures. `make test` counts the same
with fewer runs, and fails if a guarantee below is violated by more than chance.

{CONCLUSIONS}\
| world | models |
|---|---|
"
    );
    for world in &WORLDS {
        text += &format!("| {} | {} |\n", world.name, world.models);
    }
    text + "\n"
}
