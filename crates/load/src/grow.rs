//! Without a choice of clients, twice as many again and again, until the throughput is level.

use fathom_analysis::load::{SWEEPS, judge_step};
use fathom_metric::{ProcedureError, Recorder};

use crate::limit::Limit;
use crate::options::{LoadOptions, LoadVariant};
use crate::procedure::room_for;
use crate::records;
use crate::run::LoadRun;
use crate::step::Step;

/// Most clients; a choice may have more.
const CLIENTS_MAX: u32 = 1024;

impl LoadOptions {
    fn grows(&self) -> bool {
        let is_chosen = self.clients.is_some() || self.requests.is_some() || self.share.is_some();
        !is_chosen && !self.closed().is_empty()
    }

    /// Further steps, at most.
    pub fn steps_more(&self) -> u32 {
        let last = self.closed().last().copied().filter(|_| self.grows());
        last.map_or(0, |last| (CLIENTS_MAX / last).ilog2())
    }
}

impl LoadRun<'_> {
    /// Adds steps after the last one until more clients do not help: the throughput is level, the
    /// generator is the limit, or the last step is no point of the curve.
    pub fn grow(
        &mut self,
        case: LoadVariant,
        steps: &mut Vec<Step>,
        congestion: &mut Option<String>,
        recorder: &mut dyn Recorder,
    ) -> Result<(), ProcedureError> {
        for _ in 0..self.load.steps_more() {
            let (load, target) = (self.load, &self.target);
            let shared =
                records::RecordContext::from_load(load, target, case, congestion.as_deref());
            let asked = shared.asked();
            let judged = steps.iter().map(|step| judge_step(&step.measured, &asked));
            let judged: Vec<_> = judged.collect();
            let measured: Vec<_> = steps.iter().map(|step| &step.measured).collect();
            let limit =
                Limit::from_steps(&measured, &judged, case.think.as_secs_f64(), &self.capacities);
            let has_more = judged.last().is_some_and(|last| last.is_point());
            let next = 2 * steps.last().map_or(0, |step| step.clients());
            let ends = limit.plateau_to().is_some() || !has_more || room_for(next).is_err();
            if ends || self.is_over(recorder) {
                break;
            }
            let mut step = [Step::new(next)];
            self.all_ns += SWEEPS as u64 * load.window_ns();
            let end = self.sweeps(case, &mut step, congestion, recorder);
            steps.extend(step);
            end?;
        }
        Ok(())
    }
}
