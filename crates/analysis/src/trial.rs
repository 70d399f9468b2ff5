//! Whether a tried setting pays, from the ratio of the number with it by the number without.

use fathom_record::{Better, Record};

/// Smaller differences are not called one (METHOD 27).
pub const EFFECT_MIN: f64 = 0.01;
/// A wider interval around 1 does not show that there is no difference.
const SAME_MAX: f64 = 0.05;
/// With fewer passes a difference only looks like one.
const PASSES_MIN: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TrialVerdict {
    Pays,
    Costs,
    /// No difference within this share.
    Same(f64),
    Undecided,
}

impl TrialVerdict {
    pub fn from_record(record: &Record) -> Self {
        let Some(summary) = record.shown_summary() else { return Self::Undecided };
        let is_whole = summary.process_medians.len() >= PASSES_MIN;
        let limits = summary.limits().filter(|_| is_whole && !record.verdict.is_cut_short());
        limits.map_or(Self::Undecided, |limits| Self::new(summary.median, limits, record.better))
    }

    fn new(ratio: f64, [low, high]: [f64; 2], better: Better) -> Self {
        let within = (1.0 - low).max(high - 1.0);
        let excludes_1 = low > 1.0 || high < 1.0;
        if excludes_1 && (ratio - 1.0).abs() > EFFECT_MIN {
            let is_better = (ratio > 1.0) == (better == Better::Higher);
            return if is_better { Self::Pays } else { Self::Costs };
        }
        if within <= SAME_MAX { Self::Same(within) } else { Self::Undecided }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_record::Unit;
    use fathom_record::trial::TRIAL_METRIC;

    fn record(limits: [f64; 3], better: Better, passes: usize) -> Record {
        let record = Record::fixture(TRIAL_METRIC, Unit::Ratio).measured(limits);
        let record = record.with_summary(|it| it.process_medians = vec![limits[1]; passes]);
        Record { better, ..record }
    }

    #[test]
    fn trial_pays_costs_or_changes_nothing() {
        use TrialVerdict as V;
        let of = |limits, better| V::from_record(&record(limits, better, 8));
        assert_eq!(of([1.8, 2.0, 2.2], Better::Higher), V::Pays);
        assert_eq!(of([1.8, 2.0, 2.2], Better::Lower), V::Costs);
        assert_eq!(of([0.4, 0.5, 0.6], Better::Lower), V::Pays);
        assert_eq!(of([0.4, 0.5, 0.6], Better::Higher), V::Costs);
        assert!(
            matches!(of([0.98, 1.0, 1.01], Better::Lower), V::Same(it) if (it - 0.02).abs() < 1e-9)
        );
        assert!(matches!(of([1.002, 1.008, 1.01], Better::Lower), V::Same(_)), "below 1 %");
        assert_eq!(of([0.9, 1.02, 1.1], Better::Lower), V::Undecided);
        let few = record([1.8, 2.0, 2.2], Better::Higher, 7);
        assert_eq!(V::from_record(&few), V::Undecided, "fewer than 8 of each side");
    }

    #[test]
    fn interrupted_or_invalid_trial_is_undecided() {
        use fathom_record::{Cause, State, Verdict};
        let mut cut = record([1.8, 2.0, 2.2], Better::Higher, 8);
        cut.verdict = Verdict::because(State::Noisy, Cause::Interrupted, "stopped");
        assert_eq!(TrialVerdict::from_record(&cut), TrialVerdict::Undecided);
        cut.verdict = Verdict::because(State::Invalid, Cause::Clock, "wrong");
        assert_eq!(TrialVerdict::from_record(&cut), TrialVerdict::Undecided);
    }
}
