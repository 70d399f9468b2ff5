//! Batches: parts of the measured time of a step, whose means are nearly independent.

use fathom_record::{Basis, Histogram, Interval, LoadSlot};

use crate::statistics;

/// Consecutive slots of a step, maybe of two sweeps.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepBatch {
    pub completed: u64,
    /// Responses by the arrival of their bodies.
    pub arrived: f64,
    pub body_bytes: u64,
    pub seconds: f64,
    pub mean_ns: f64,
    pub median_ns: f64,
    /// Of an open loop.
    pub median_from_send_ns: f64,
    /// All response times, ascending, with the number of each.
    pub times: Vec<(f64, u64)>,
}

impl StepBatch {
    pub fn from_slot(slot: &LoadSlot) -> Self {
        let median = |times: &Histogram| times.quantile(0.5).unwrap_or(0.0);
        Self {
            completed: slot.completed,
            arrived: slot.arrived(),
            body_bytes: slot.body_bytes,
            seconds: slot.ns as f64 / 1e9,
            mean_ns: slot.mean_ns(),
            median_ns: median(&slot.times),
            median_from_send_ns: slot.times_from_send.as_ref().map_or(0.0, median),
            times: slot.times.timings(),
        }
    }

    /// The batch of both.
    pub fn and(&self, next: &Self) -> Self {
        let completed = self.completed + next.completed;
        let mean = |a: f64, b: f64| {
            let sum = a * self.completed as f64 + b * next.completed as f64;
            sum / completed.max(1) as f64
        };
        let mut times = [self.times.as_slice(), &next.times].concat();
        times.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        let mut below = 0;
        let middle = times.iter().find(|(_, count)| {
            below += count;
            2 * below >= completed
        });
        Self {
            completed,
            arrived: self.arrived + next.arrived,
            body_bytes: self.body_bytes + next.body_bytes,
            seconds: self.seconds + next.seconds,
            mean_ns: mean(self.mean_ns, next.mean_ns),
            median_ns: middle.map_or(0.0, |(ns, _)| *ns),
            median_from_send_ns: mean(self.median_from_send_ns, next.median_from_send_ns),
            times,
        }
    }
}

/// Order statistics over batches (METHOD 15), which always include the headline: it is computed
/// over all work, and may differ a little from the median of the batches.
pub fn batch_interval(headline: f64, batches: &[f64]) -> Option<Interval> {
    let ([low, high], level) = statistics::median_interval(batches)?;
    let limits = [low.min(headline), high.max(headline)];
    Some(Interval::new(limits, level, Basis::WithinRun))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_is_of_the_response_times_of_both() {
        let slot = |times: &[f64]| LoadSlot {
            completed: times.len() as u64,
            sum_ns: times.iter().sum(),
            times: times.iter().copied().collect(),
            ..LoadSlot::default()
        };
        let [few, more] = [slot(&[900.0]), slot(&[100.0, 200.0, 300.0, 300.0])]
            .map(|it| StepBatch::from_slot(&it));
        let both = few.and(&more);
        assert_eq!((both.completed, both.mean_ns, both.median_ns), (5, 360.0, 300.0));
        assert_eq!(both.times, [(100.0, 1), (200.0, 1), (300.0, 2), (900.0, 1)]);
    }
}
