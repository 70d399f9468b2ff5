//! A busy sibling: a neighbour on the other thread of the measured core. No counter of the kernel
//! sees it; only the reference loop does.

use std::sync::OnceLock;
use std::time::Duration;

use anyhow::Result;
use fathom_analysis::clean;
use fathom_analysis::statistics::median;
use fathom_lab::Unmet;
use fathom_measure::affinity;
use fathom_measure::sampler::{LoopTime, calibration};
use fathom_record::{Cause, Record};

use super::full_speed::{FullSpeed, OFF_MAX};
use super::imposed::Imposed;
use super::processor::start_neighbour;
use super::program::{Launch, Seen, measured_cpu};
use super::scenario::Sabotage;

/// A CPU whose load slows the loop by less is no sibling, by the fastest of so many looks.
const SLOWED_MIN: f64 = 1.1;
const LOOKS: usize = 3;
/// The shares of seconds in which it is busy; always is a core that never was at full speed.
const SHARES: [f64; 3] = [0.5, 0.9, 1.0];
/// From this share on, what the cases take as found grows by so much at least.
const OFTEN: f64 = 0.9;
const MOVED_MIN: f64 = 0.05;

/// A neighbour on the other thread of the measured core, in spells of a second and more.
pub(super) struct Sibling;

/// How many times longer the part of the loop that a sibling slows takes than the other, which has
/// as many cycles, at its fastest. Without any neighbour it is 1.
fn contention(cpu: u32) -> Option<f64> {
    let loops = calibration(fathom_lab::clock().specification(), cpu);
    let loops: Vec<clean::Loop> = loops.iter().map(LoopTime::parts).collect();
    clean::reference(&loops).map(|reference| reference.sibling_ns / reference.frequency_ns)
}

/// The contention of a CPU alone, and while another is busy.
fn contention_beside(other: u32, cpu: u32) -> Option<(f64, f64)> {
    let (mut alone, mut beside) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..LOOKS {
        alone = alone.min(contention(cpu)?);
        let neighbour = start_neighbour(other, 0.0, 1.0, false).ok()?;
        std::thread::sleep(Duration::from_millis(50));
        beside = beside.min(contention(cpu)?);
        drop(neighbour);
    }
    Some((alone, beside))
}

/// The CPU whose load slows the measured one.
fn sibling() -> Result<u32, Unmet> {
    static FOUND: OnceLock<Result<u32, Unmet>> = OnceLock::new();
    let find = || {
        let cpu = measured_cpu().ok_or_else(|| Unmet("no CPU to measure on".to_owned()))?;
        let others = affinity::allowed().into_iter().filter(|other| *other != cpu);
        let slowed = others.filter_map(|other| Some((other, contention_beside(other, cpu)?)));
        match slowed.max_by(|(_, a), (_, b)| (a.1 / a.0).total_cmp(&(b.1 / b.0))) {
            Some((other, (alone, beside))) if beside >= SLOWED_MIN * alone => Ok(other),
            Some((_, (alone, _))) if alone >= SLOWED_MIN => Err(Unmet(format!(
                "the reference loop on CPU {cpu} is {alone:.2}× slower already, before any \
                 neighbour; needs a quieter machine"
            ))),
            Some((other, (alone, beside))) => Err(Unmet(format!(
                "the reference loop on CPU {cpu} is {:.2}× slower beside a busy CPU {other}, the \
                 one that slows it most; needs a sibling that slows it 1.1×",
                beside / alone
            ))),
            None => Err(Unmet("needs a second CPU".to_owned())),
        }
    };
    FOUND.get_or_init(find).clone()
}

impl Sabotage for Sibling {
    fn name(&self) -> &'static str {
        "busy sibling"
    }
    fn needs(&self) -> Result<(), Unmet> {
        sibling().map(drop)
    }
    fn dose(&self, draw: f64) -> f64 {
        SHARES[(draw * SHARES.len() as f64) as usize]
    }
    fn in_words(&self, dose: f64) -> String {
        format!("{:.0} % of seconds busy", 100.0 * dose)
    }
    fn metric(&self) -> &'static str {
        "cpu.call os.syscall"
    }
    fn impose(&self, dose: f64, _: u32, _: &mut Launch) -> Result<Box<dyn Imposed>> {
        Ok(Box::new(start_neighbour(sibling()?, 0.0, dose, true)?))
    }
    fn causes(&self) -> &'static [Cause] {
        &[]
    }
    fn shows(&self, alone: &FullSpeed) -> Result<(), Unmet> {
        let why = "no run that was left alone met a core at full speed; needs a quieter machine";
        if alone.is_empty() { Err(Unmet(why.to_owned())) } else { Ok(()) }
    }
    fn truth(&self, seen: &Seen, alone: &FullSpeed, dose: f64) -> (String, bool) {
        let records: Vec<&Record> = seen.of_metric(self.metric()).collect();
        let claims: Vec<f64> =
            records.iter().filter_map(|record| alone.off(record, seen)).collect();
        let off = claims.iter().copied().fold(0.0, f64::max);
        let found = |record: &Record| {
            alone.above(record, record.summary.as_ref()?.as_found.as_ref()?.median)
        };
        let found: Vec<f64> = records.iter().filter_map(|record| found(record)).collect();
        let moved = median(&found).unwrap_or(f64::NAN);
        let text = format!(
            "full speed {} of {}, {:.1} % off; found {:+.0} %",
            claims.len(),
            records.len(),
            100.0 * off,
            100.0 * moved
        );
        let is_refused = dose < 1.0 || claims.is_empty();
        (text, off <= OFF_MAX && is_refused && (dose < OFTEN || moved >= MOVED_MIN))
    }
}

#[cfg(test)]
mod tests {
    use fathom_record::ReferenceBasis::{EarlierRuns, ThisRun};

    use super::*;
    use crate::sabotage::full_speed::tests::run;

    #[test]
    fn a_sibling_that_never_rests_leaves_no_full_speed() {
        let alone = FullSpeed::of(&[run(2.0, true, EarlierRuns)]);
        let is_right = |seen: &Seen, dose| Sibling.truth(seen, &alone, dose).1;
        let of = |median, claims| run(median, claims, EarlierRuns);
        assert!(is_right(&of(2.03, true), 0.5) && !is_right(&of(2.05, true), 0.5));
        assert!(is_right(&of(2.0, false), 0.5) && !is_right(&of(2.0, false), 0.9));
        assert!(is_right(&of(2.2, false), 0.9) && is_right(&of(2.2, false), 1.0));
        assert!(!is_right(&of(2.0, true), 1.0), "no such run is at full speed");
        assert!(is_right(&run(2.2, true, ThisRun), 1.0), "but the fastest in this run");
    }
}
