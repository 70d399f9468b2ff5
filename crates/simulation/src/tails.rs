//! The intervals of quantiles of a load's step: how often they contain those of a queue.

use fathom_analysis::load::quantile_limits;

use crate::chance::ChanceRate;
use crate::experiment::Experiment;
use crate::section::{Section, marked_below};
use crate::{Source, Trials};

/// Sweeps of a step, and the parts of their windows; a batch has as many parts as there are sweeps.
const SWEEPS: usize = 3;
const PARTS: usize = 10;
/// The time of service, exponential.
const SERVICE_S: f64 = 0.005;
/// The level that is kept, up to this utilisation and from so many responses on. Figures below the
/// second level are bold.
const KEPT: (f64, f64, f64) = (0.90, 0.5, 10_000.0);
const LEVEL: f64 = 0.93;

/// Utilisations of a server with random arrivals and one queue.
const LOADS: [f64; 3] = [0.1, 0.5, 0.8];
const QUANTILES: [(f64, &str); 2] = [(0.9, "p90"), (0.99, "p99")];
/// Responses of a step.
const RESPONSES: [f64; 3] = [3_000.0, 10_000.0, 30_000.0];

#[derive(Clone)]
struct TailCase {
    load: f64,
    q: f64,
    name: &'static str,
}

impl TailCase {
    /// The response times of a sweep by parts of its window, after a warm-up of a quarter.
    fn sweep(&self, responses: f64, source: &mut Source) -> Vec<Vec<f64>> {
        let rate = self.load / SERVICE_S;
        let window_s = responses / rate;
        let (mut at_s, mut wait_s) = (-window_s / 4.0, 0.0_f64);
        let mut parts = vec![Vec::new(); PARTS];
        loop {
            let apart_s = -source.uniform().ln() / rate;
            at_s += apart_s;
            wait_s = (wait_s - apart_s).max(0.0) - source.uniform().ln() * SERVICE_S;
            if at_s >= window_s {
                return parts;
            }
            if at_s >= 0.0 {
                parts[(at_s / window_s * PARTS as f64) as usize].push(wait_s);
            }
        }
    }

    /// Whether the interval contains the quantile; `None` without an interval.
    fn is_kept(&self, responses: f64, source: &mut Source) -> Option<bool> {
        let parts: Vec<Vec<f64>> =
            (0..SWEEPS).flat_map(|_| self.sweep(responses / SWEEPS as f64, source)).collect();
        let batches: Vec<Vec<f64>> = parts.chunks(SWEEPS).map(<[_]>::concat).collect();
        let mut all = batches.concat();
        all.sort_by(f64::total_cmp);
        let at = |q: f64| all[((q * all.len() as f64) as usize).min(all.len() - 1)];
        let value = at(self.q);
        let beyond = |batch: &Vec<f64>| {
            (batch.iter().filter(|it| **it >= value).count() as u64, batch.len() as u64)
        };
        let counts: Vec<(u64, u64)> = batches.iter().map(beyond).collect();
        let (low, high) = quantile_limits(self.q, &counts)?;
        let truth = -(1.0 - self.q).ln() * SERVICE_S / (1.0 - self.load);
        Some(at(low) <= truth && high.is_none_or(|high| truth <= at(high)))
    }
}

const WORDS: &str = "\
How often the 95 % interval of a quantile of the response times contains the true one, in per cent,
by the responses of a step. The server has one queue, random arrivals and random service times; the
rows are its utilisation. Responses of a queue depend on each other: the interval is by how the
share beyond the quantile differs between ten batches. **Bold**: below 93 % by more than chance.";

const AFTERWARDS: &str = "\
Up to half of the capacity the level is kept from 10,000 responses on. Near saturation slow
responses come in few long bursts, of which a short step may have none: its intervals are too
narrow. Measure longer there, or find the rate of a limit by `--find-max`, whose interval keeps its
level.";

pub(crate) fn section(trials: Trials) -> Section {
    let of_load = |load| QUANTILES.map(|(q, name)| TailCase { load, q, name });
    let mut section = Section::new("Quantiles of a load", WORDS);
    Experiment {
        rows: &LOADS.map(of_load).concat(),
        columns: &RESPONSES,
        name: |case: &TailCase, responses| format!("tails {} {} {responses}", case.load, case.name),
        trial: |case, responses, source, rate: &mut ChanceRate| {
            case.is_kept(*responses, source).into_iter().for_each(|kept| rate.count(kept));
        },
        check: |section, case, responses, rate| {
            let what = format!("{} at {}, {responses} responses", case.name, case.load);
            let (level, load, least) = KEPT;
            if case.load <= load && *responses >= least {
                section.at_least(*rate, level, &what);
            }
        },
        head: "utilisation and quantile",
        title: |case| format!("{:.0} %, {}", 100.0 * case.load, case.name),
        heads: f64::to_string,
        cells: |_, _, rate| marked_below(*rate, LEVEL),
    }
    .run(&mut section, trials);
    section.paragraph(AFTERWARDS);
    section
}
