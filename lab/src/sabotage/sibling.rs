//! A busy SMT sibling. Only the reference loop detects it, no counter of the kernel.

use std::sync::OnceLock;
use std::time::Duration;

use fathom_analysis::core_state;
use fathom_analysis::statistics::median;
use fathom_lab::Unmet;
use fathom_measure::affinity;
use fathom_measure::sampler::{LoopTime, calibration};
use fathom_record::Record;

use super::full_speed::{FullSpeed, OFF_MAX};
use super::processor::start_neighbour;
use super::program::{RunResult, measured_cpu};
use super::scenario::Sabotage;

/// A CPU is a sibling if its load slows the reference loop by this factor, in the fastest of some
/// attempts.
const SLOWED_MIN: f64 = 1.1;
const ATTEMPTS: usize = 3;
/// Shares of busy seconds; with 1.0 the core is never at full speed.
const SHARES: [f64; 3] = [0.5, 0.9, 1.0];
/// From this share on, unfiltered estimates must grow by this much.
const OFTEN: f64 = 0.9;
const MOVED_MIN: f64 = 0.05;

/// A neighbour on the SMT sibling of the measured core, in spells of whole seconds.
pub(super) const SIBLING: Sabotage = Sabotage {
    name: "busy sibling",
    metric: "cpu.call os.syscall",
    needs: || sibling().map(drop),
    dose: |draw| SHARES[(draw * SHARES.len() as f64) as usize],
    dose_text: |dose| format!("{:.0} % of seconds busy", 100.0 * dose),
    start: |dose, _, _| Ok(Box::new(start_neighbour(sibling()?, 0.0, dose, true)?)),
    usable: |undisturbed| {
        let why = "no undisturbed run met a core at full speed; needs a quieter machine";
        if undisturbed.is_empty() { Err(Unmet(why.to_owned())) } else { Ok(()) }
    },
    truth,
    ..Sabotage::BASE
};

/// The fastest time of the loop part that a sibling slows ÷ that of the other part, which has as
/// many cycles; 1 without a busy sibling.
fn contention(cpu: u32) -> Option<f64> {
    let loops = calibration(fathom_lab::clock().specification(), cpu);
    let loops: Vec<core_state::Loop> = loops.iter().map(LoopTime::parts).collect();
    core_state::reference(&loops).map(|reference| reference.sibling_ns / reference.frequency_ns)
}

/// The contention of a CPU while another is idle, and while it is busy.
fn contention_with(other: u32, cpu: u32) -> Option<(f64, f64)> {
    let (mut idle, mut busy) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..ATTEMPTS {
        idle = idle.min(contention(cpu)?);
        let neighbour = start_neighbour(other, 0.0, 1.0, false).ok()?;
        std::thread::sleep(Duration::from_millis(50));
        busy = busy.min(contention(cpu)?);
        drop(neighbour);
    }
    Some((idle, busy))
}

/// The CPU whose load slows the measured one.
fn sibling() -> Result<u32, Unmet> {
    static SIBLING_CPU: OnceLock<Result<u32, Unmet>> = OnceLock::new();
    let find = || {
        let cpu = measured_cpu().ok_or_else(|| Unmet("no CPU to measure on".to_owned()))?;
        let others = affinity::allowed().into_iter().filter(|other| *other != cpu);
        let slowed = others.filter_map(|other| Some((other, contention_with(other, cpu)?)));
        match slowed.max_by(|(_, a), (_, b)| (a.1 / a.0).total_cmp(&(b.1 / b.0))) {
            Some((other, (idle, busy))) if busy >= SLOWED_MIN * idle => Ok(other),
            Some((_, (idle, _))) if idle >= SLOWED_MIN => Err(Unmet(format!(
                "reference loop on CPU {cpu} already {idle:.2}× slower; needs a quieter machine"
            ))),
            Some((other, (idle, busy))) => Err(Unmet(format!(
                "reference loop on CPU {cpu} at most {:.2}× slower (CPU {other} busy); needs an \
                 SMT sibling that slows it 1.1×",
                busy / idle
            ))),
            None => Err(Unmet("needs a second CPU".to_owned())),
        }
    };
    SIBLING_CPU.get_or_init(find).clone()
}

fn truth(
    sabotage: &Sabotage,
    run: &RunResult,
    undisturbed: &FullSpeed,
    dose: f64,
) -> (String, bool) {
    let records: Vec<&Record> = sabotage.affected_records(run).collect();
    let claims: Vec<f64> =
        records.iter().filter_map(|record| undisturbed.off(record, run)).collect();
    let off = claims.iter().copied().fold(0.0, f64::max);
    let as_found = |record: &&Record| {
        undisturbed.above(record, record.summary.as_ref()?.as_found.as_ref()?.median)
    };
    let as_found: Vec<f64> = records.iter().filter_map(as_found).collect();
    let moved = median(&as_found).unwrap_or(f64::NAN);
    let text = format!(
        "{} of {} at full speed, {:.1} % off; unfiltered {:+.0} %",
        claims.len(),
        records.len(),
        100.0 * off,
        100.0 * moved
    );
    let is_plausible = dose < 1.0 || claims.is_empty();
    (text, off <= OFF_MAX && is_plausible && (dose < OFTEN || moved >= MOVED_MIN))
}

#[cfg(test)]
mod tests {
    use fathom_record::ReferenceBasis::{EarlierRuns, ThisRun};

    use super::*;
    use crate::sabotage::full_speed::tests::run;

    #[test]
    fn always_busy_sibling_allows_no_full_speed() {
        let undisturbed = FullSpeed::from_runs(&[run(2.0, true, EarlierRuns)]);
        let is_right = |result: &RunResult, dose| truth(&SIBLING, result, &undisturbed, dose).1;
        let of = |median, claims| run(median, claims, EarlierRuns);
        assert!(is_right(&of(2.03, true), 0.5) && !is_right(&of(2.05, true), 0.5));
        assert!(is_right(&of(2.0, false), 0.5) && !is_right(&of(2.0, false), 0.9));
        assert!(is_right(&of(2.2, false), 0.9) && is_right(&of(2.2, false), 1.0));
        assert!(!is_right(&of(2.0, true), 1.0), "such a run cannot be at full speed");
        assert!(is_right(&run(2.2, true, ThisRun), 1.0), "relative to its own fastest loop");
    }
}
