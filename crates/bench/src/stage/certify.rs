//! The runs of a certificate: rounds of the command, its double, and it with planted losses.

use fathom_analysis::statistics::median;
use fathom_metric::{Event, Recorder};
use fathom_record::Unit;
use fathom_record::quantity::quantity_within;

use super::{Cut, Stage, StageRun};
use crate::certify::{PLANTED, ROUNDS};
use crate::child::spin;
use crate::hooks::Hook;
use crate::plan::BenchPlan;
use crate::request::BenchOutput;
use crate::turns::Turns;

/// Runs by which the time of the command is known that planted losses are shares of.
const PILOT: usize = 9;
/// Rounds of the spin that its price is measured by, and how often.
const SPINS: u64 = 1_000_000;
const SPIN_RUNS: usize = 9;

impl Stage<'_> {
    /// Makes all runs; returns the number of those of each case in a round.
    pub(crate) fn certify(&mut self, recorder: &mut dyn Recorder, seed: u64) -> Result<usize, Cut> {
        self.once(Hook::Setup)?;
        self.prove_cold()?;
        if self.settings.output == BenchOutput::Pipe {
            self.pipe_ns = self.price_of_pipe();
        }
        let cases = &self.work.cases;
        recorder.event(Event::Progress { done: 0, all: 100, what: "pilot" });
        for _ in 0..self.settings.warmup {
            self.run(&cases[0])?;
        }
        let mut times = Vec::new();
        for _ in 0..PILOT {
            times.push(self.run(&cases[0])?.usage.wall_ns);
        }
        let own_ns = median(&times).unwrap_or_default();
        let spin_ns = self.spin_ns();
        for (case, share) in cases[2..].iter().zip(PLANTED) {
            case.program.plant((share * own_ns / spin_ns) as u64);
        }
        let plan = BenchPlan::new(self.settings, &[own_ns]);
        let all = ROUNDS * plan.runs;
        let time_ns = own_ns * (cases.len() * all) as f64;
        recorder.event(Event::Plan(&format!(
            "{ROUNDS} rounds of {} runs of the command, of its double, and of it with 1, 2, 5 and \
             10 % of {} added, at least {}",
            plan.runs,
            quantity_within(own_ns, Unit::Nanoseconds, 6),
            quantity_within(time_ns, Unit::Nanoseconds, 6)
        )));
        let mut turns = Turns::new(seed, cases.len());
        self.blocks(recorder, &mut turns, 0..all, BenchPlan { runs: all, most: all })?;
        Ok(plan.runs)
    }

    /// By case, the times of its runs in the order of blocks.
    pub(crate) fn times(&self) -> Vec<Vec<f64>> {
        let time = |run: &StageRun| run.usage.wall_ns;
        self.runs.iter().map(|runs| runs.iter().map(time).collect()).collect()
    }

    /// The time of a round of the spin.
    fn spin_ns(&self) -> f64 {
        let one = |_| {
            let begun = self.clock.start();
            spin(SPINS);
            self.clock.ns(begun, self.clock.stop()) / SPINS as f64
        };
        median(&(0..SPIN_RUNS).map(one).collect::<Vec<f64>>()).unwrap_or(1.0).max(1e-3)
    }
}
