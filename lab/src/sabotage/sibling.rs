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

use super::full_speed::{FullSpeed, OFF_MAX, claimed};
use super::imposed::Imposed;
use super::processor::start_neighbour;
use super::program::{Launch, Seen, measured_cpu};
use super::scenario::Sabotage;

/// A CPU whose load slows the loop by less is no sibling, by the faster of so many looks.
const SLOWED_MIN: f64 = 1.1;
const LOOKS: usize = 3;
/// The shares of seconds in which it is busy; always is a core that never was at full speed.
const SHARES: [f64; 3] = [0.5, 0.9, 1.0];
/// From this share on, what the cases take as found grows by so much at least.
const OFTEN: f64 = 0.9;
const MOVED_MIN: f64 = 0.05;

/// A neighbour on the other thread of the measured core, in spells of a second and more.
pub(super) struct Sibling;

/// The loop on a CPU, at its fastest.
fn loop_ns(cpu: u32) -> Option<f64> {
    let loops = calibration(fathom_lab::clock().specification(), cpu);
    let loops: Vec<clean::Loop> = loops.iter().map(LoopTime::parts).collect();
    clean::reference(&loops).map(|reference| reference.sibling_ns)
}

/// How many times longer the loop takes while another CPU is busy.
fn slowed_by(other: u32, cpu: u32) -> Option<f64> {
    let (mut alone, mut beside) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..LOOKS {
        alone = alone.min(loop_ns(cpu)?);
        let neighbour = start_neighbour(other, 0.0, 1.0, false).ok()?;
        std::thread::sleep(Duration::from_millis(50));
        beside = beside.min(loop_ns(cpu)?);
        drop(neighbour);
    }
    Some(beside / alone)
}

/// The CPU whose load slows the measured one.
fn sibling() -> Result<u32, Unmet> {
    static FOUND: OnceLock<Result<u32, Unmet>> = OnceLock::new();
    let find = || {
        let cpu = measured_cpu().ok_or_else(|| Unmet("no CPU to measure on".to_owned()))?;
        let others = affinity::allowed().into_iter().filter(|other| *other != cpu);
        let slowed = others.filter_map(|other| Some((other, slowed_by(other, cpu)?)));
        match slowed.max_by(|a, b| a.1.total_cmp(&b.1)) {
            Some((other, times)) if times >= SLOWED_MIN => Ok(other),
            Some((other, times)) => Err(Unmet(format!(
                "the reference loop on CPU {cpu} takes {times:.2} times as long beside a busy CPU \
                 {other}, the one that slows it most; a sibling slows it 1.1 times or more"
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
        let of_each = |number: &dyn Fn(&Record) -> Option<f64>| -> Vec<f64> {
            records.iter().filter_map(|record| alone.above(record, number(record)?)).collect()
        };
        let claims = of_each(&|record| claimed(record, seen));
        let off = claims.iter().fold(0.0_f64, |most, off| most.max(off.abs()));
        let found = of_each(&|record| Some(record.summary.as_ref()?.as_found.as_ref()?.median));
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
