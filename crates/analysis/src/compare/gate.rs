//! The gate (METHOD 27a): whether cases lost more than a share, for a caller that must go on or
//! stop.
//!
//! Only cases that can be decided count. Were all others counted too, a gate over hundreds of
//! cases would never pass on an unchanged machine.

use fathom_record::Better;

use super::comparison::{
    Compared, Comparison, ComparisonAnswer, ComparisonWord, Gate, Loss, Needs, NotGateable,
};
use crate::classes::CORE_SPEED;

/// The answer of every gate for a loss with this interval: *pass* if all of it is at most the
/// limit, *fail* if all of it is above.
pub fn gate_answer([low, high]: [f64; 2], limit: f64) -> ComparisonAnswer {
    match () {
        () if high <= limit => ComparisonAnswer::Pass,
        () if low > limit => ComparisonAnswer::Fail,
        () => ComparisonAnswer::Undecided,
    }
}

impl Comparison {
    /// Judges the comparison by a limit (0.05 for 5 %).
    #[must_use]
    pub fn gate(&self, limit: f64, undecided_as: Option<ComparisonAnswer>) -> Gate {
        self.gate_except(&[], limit, undecided_as)
    }

    /// The same, with the cases of these classes net of what moved their class; without the core
    /// speed, also those of classes that moved with the core.
    #[must_use]
    pub fn gate_except(
        &self,
        except: &[String],
        limit: f64,
        undecided_as: Option<ComparisonAnswer>,
    ) -> Gate {
        let is_low =
            [&self.a, &self.b].into_iter().chain(&self.more_a).any(|it| it.noisy.is_some());
        let (mut lost, mut undecided, mut not_gateable) = (Vec::new(), Vec::new(), Vec::new());
        let mut except = except.to_vec();
        if except.iter().any(|it| it == CORE_SPEED) {
            let with_core = self.factors.iter().filter(|it| it.with_core);
            let with_core = with_core.map(|it| it.class).filter(|it| *it != CORE_SPEED);
            except.extend(with_core.map(str::to_owned));
        }
        let is_net =
            |row: &Compared| row.class.is_some_and(|it| except.iter().any(|one| one == it));
        let as_judged = |row: &Compared| if is_net(row) { row.as_net() } else { row.clone() };
        for row in &self.rows.iter().map(as_judged).collect::<Vec<Compared>>() {
            let Compared { metric, params, .. } = row;
            let (metric, params) = (metric.clone(), params.clone());
            let Some(loss) = row.loss_interval().filter(|_| row.is_gateable(limit)) else {
                let above = row.gateable_above();
                not_gateable.push(NotGateable { metric, params, above, worse: row.is_worse() });
                continue;
            };
            let interval = loss.map(|end| share(end, row.better));
            let answer = gate_answer(interval, limit);
            let [loss, possible] = [row.loss(), interval[1]];
            let is_noise_known = row.noise.is_some() || row.is_far_beyond(limit);
            let is_above = row.word.is_certainly_worse() && answer == ComparisonAnswer::Fail;
            let is_lost = is_above && is_noise_known;
            let needs = match () {
                () if is_lost => None,
                () if row.is_spoiled() => Some(Needs::EqualCore),
                () if row.distances.is_some() => Some(Needs::EqualDistance),
                () if is_low => Some(Needs::QuietRun),
                () if is_above => Some(Needs::StoredRuns),
                () => Some(Needs::Processes),
            };
            if is_lost || answer != ComparisonAnswer::Pass {
                let list = if is_lost { &mut lost } else { &mut undecided };
                list.push(Loss { metric, params, loss, possible, needs });
            }
        }
        undecided.sort_by(|a: &Loss, b| b.possible.total_cmp(&a.possible));
        lost.sort_by(|a: &Loss, b| b.loss.total_cmp(&a.loss));
        let gateable = self.rows.len() - not_gateable.len();
        let answer = match (lost.is_empty(), undecided.is_empty() && gateable > 0) {
            (false, _) => ComparisonAnswer::Fail,
            (true, true) => ComparisonAnswer::Pass,
            (true, false) => ComparisonAnswer::Undecided,
        };
        Gate { limit, except, answer, undecided_as, gateable, lost, undecided, not_gateable }
    }
}

impl Compared {
    /// Whether it can be decided at this limit: unchanged it would pass, or its whole interval is a
    /// loss beyond the limit and the noise.
    fn is_gateable(&self, limit: f64) -> bool {
        let lost = |[least, _]: [f64; 2]| {
            least > logarithm(limit, self.better) + self.noise.unwrap_or(0.0).ln_1p()
        };
        self.would_pass_unchanged(limit) || self.loss_interval().is_some_and(lost)
    }

    /// Whether the whole interval is a loss beyond the limit and its width, which stands for the
    /// noise between runs where that is not known.
    fn is_far_beyond(&self, limit: f64) -> bool {
        self.loss_interval()
            .is_some_and(|[least, most]| least > logarithm(limit, self.better) + most - least)
    }

    fn would_pass_unchanged(&self, limit: f64) -> bool {
        self.gateable_above().is_some_and(|above| above < limit)
    }

    /// Noise between runs and the width of the interval: an unchanged case differs by the noise,
    /// and its interval reaches further by half its width. The other half is a margin, for the
    /// noise is an estimate, or not known at all. An interval of one process knows nothing of other
    /// runs.
    fn gateable_above(&self) -> Option<f64> {
        let [least, most] = self.loss_interval()?;
        let is_known = self.noise.is_some() || self.processes_a.min(self.processes_b) > 1;
        let width = self.noise.unwrap_or(0.0).ln_1p() + most - least;
        is_known.then(|| share(width, self.better))
    }

    /// The interval of the loss, in logarithms of the ratio.
    fn loss_interval(&self) -> Option<[f64; 2]> {
        let [low, high] = self.interval?.map(f64::ln);
        let loss = match self.better {
            Better::Lower => [low, high],
            Better::Higher => [-high, -low],
            Better::Neither => return None,
        };
        loss.iter().all(|end| end.is_finite()).then_some(loss)
    }

    /// The share by which B is worse: the increase of a time or the loss of a rate. A rate that is
    /// halved is worse by 50 %, as in `history`.
    fn loss(&self) -> f64 {
        self.ratio.map_or(0.0, |ratio| match self.better {
            Better::Higher => 1.0 - ratio,
            Better::Lower => ratio - 1.0,
            Better::Neither => 0.0,
        })
    }

    fn is_worse(&self) -> bool {
        self.word.is_certainly_worse()
            || matches!(self.word, ComparisonWord::LooksSlower | ComparisonWord::LooksWorse)
    }
}

/// A loss in logarithms as a share of the time, or of the rate.
fn share(logarithm: f64, better: Better) -> f64 {
    match better {
        Better::Higher => -(-logarithm).exp_m1(),
        Better::Lower | Better::Neither => logarithm.exp_m1(),
    }
}

/// The same the other way round; infinite for a rate that may be lost as a whole.
fn logarithm(share: f64, better: Better) -> f64 {
    match better {
        Better::Higher if share >= 1.0 => f64::INFINITY,
        Better::Higher => -(-share).ln_1p(),
        Better::Lower | Better::Neither => share.ln_1p(),
    }
}
