//! Runs besides the timed ones (`--cost`): their CPU time is sampled, their operations are counted.

use fathom_analysis::statistics::median;
use fathom_cost::{Counted, Counts, Splitter};
use fathom_metric::{Event, Recorder};

use super::{Cut, Stage};
use crate::case::Case;

/// Runs whose CPU time is divided by samples end with the most of them, or after so long.
const SPLIT_RUNS: usize = 40;
const SPLIT_RUNS_MIN: usize = 3;
const SPLIT_NS: f64 = 1e9;
/// A counted run whose output differs by more from that of the others did other work.
const OTHER_SHARE: f64 = 0.1;
const OTHER_BYTES: f64 = 4096.0;
const OTHER_WORK: &str = "a whole run (its output has another length while it is counted: is it \
                          limited by time?)";

impl Stage<'_> {
    /// One more run of each case, in which its operations are counted (`--cost`).
    pub(crate) fn count(&mut self, recorder: &mut dyn Recorder) -> Result<(), Cut> {
        let all = self.work.cases.len() as u64;
        for (at, case) in self.work.cases.iter().enumerate() {
            let done = at as u64;
            recorder.event(Event::Progress { done, all, what: "counting" });
            let besides = |cut| match cut {
                Cut::Failed(text) => Cut::Failed(format!("run besides the timed ones: {text}")),
                Cut::Stopped => Cut::Stopped,
            };
            self.sample(at, case).map_err(besides)?;
            self.counting = Some(Counts::default());
            let ended = self.run(case);
            let counts = self.counting.take();
            let usage = ended.map_err(besides)?.usage;
            let usual = self.runs[at].iter().filter_map(|run| Some(run.usage.piped? as f64));
            let usual = median(&usual.collect::<Vec<f64>>());
            let is_other = usage.piped.zip(usual).is_some_and(|(now, usual)| {
                (now as f64 - usual).abs() > OTHER_SHARE * usual + OTHER_BYTES
            });
            self.counted[at] = counts.map(|mut counts| {
                counts.uncounted.extend(is_other.then_some(OTHER_WORK));
                Counted { counts, wall_ns: usage.wall_ns }
            });
        }
        Ok(())
    }

    /// Runs of a case whose CPU time is divided by samples, where that is permitted.
    fn sample(&mut self, at: usize, case: &Case) -> Result<(), Cut> {
        let walls: Vec<f64> = self.runs[at].iter().map(|run| run.usage.wall_ns).collect();
        let wall_ns = median(&walls).unwrap_or_default();
        let (mut sampled_ns, mut turn) = (0.0, 0);
        let is_permitted = Splitter::open(&self.allowed, wall_ns, turn).is_ok();
        while is_permitted && turn < SPLIT_RUNS && (turn < SPLIT_RUNS_MIN || sampled_ns < SPLIT_NS)
        {
            self.splitting = Some((wall_ns, turn));
            let ended = self.run(case);
            self.splitting = None;
            sampled_ns += ended?.usage.wall_ns;
            self.splits[at].extend(self.split.take());
            turn += 1;
        }
        Ok(())
    }
}
