//! What the values themselves show: modes, drift, levels of processes.

use fathom_record::quantity::percent;
use fathom_record::summary::Mode;
use fathom_record::{Cause, Interval, Reason, Remedy, Sample, Summary};

use super::JudgeCase;
use crate::statistics::{median, quantile, sorted_finite};

/// The fewest rounds of a process that show its level.
const LEVEL_ROUNDS_MIN: usize = 5;
/// Processes have levels of their own if they differ by so many times the middle half of the rounds
/// of one.
const LEVELS_APART: f64 = 4.0;

/// Distributions that a median does not describe: clusters, modes, drift.
pub(super) fn shapes(summary: &Summary, noise_limit: f64) -> Vec<Reason> {
    let mut reasons = Vec::new();
    let modes = |modes: &[Mode], place: &str| {
        let (first, last) = (modes.first()?.at, modes.last()?.at);
        let apart = ((last - first) / summary.median).abs();
        let share = |mode: &Mode| format!("{:.0} %", 100.0 * mode.share);
        let shares = modes.iter().map(share).collect::<Vec<String>>().join(" / ");
        let distance = match last / first {
            times if times >= 2.0 => format!("{times:.1} × apart"),
            _ => format!("{:.0} % apart", 100.0 * apart),
        };
        (apart > noise_limit).then(|| format!("bimodal {place} processes ({shares}, {distance})"))
    };
    if let Some(text) = modes(&summary.clusters, "across") {
        reasons.push(Reason::new(Cause::TwoClusters, text).with_remedy(Remedy::CountGroups));
    }
    if let Some(text) = modes(&summary.modes, "within") {
        reasons.push(Reason::new(Cause::SeveralModes, text));
    }
    if let Some(drift) = summary.drift.filter(|drift| drift.abs() > noise_limit) {
        let percent = format!("{:+.0}", 100.0 * drift).replace('-', "−");
        let text = format!("drifted {percent} % while sampling");
        reasons.push(Reason::new(Cause::Drift, text).with_remedy(Remedy::FollowDrift));
    }
    reasons
}

impl JudgeCase<'_> {
    /// Rounds that agree within each process, while processes do not: more rounds would not help.
    pub(super) fn levels(&self) -> Option<Reason> {
        let reason = |text| {
            let reason = Reason::new(Cause::LevelOfProcess, text);
            Some(reason.with_remedy(Remedy::MeasureLonger))
        };
        if self.summary.interval.and_then(Interval::edge).is_some() {
            return reason("at another place in each process".to_owned());
        }
        let processes = self.processes();
        let middle_half = |(sample, _): &(&Sample, f64)| {
            let values = sorted_finite(&sample.values);
            let quarters = quantile(&values, 0.75).zip(quantile(&values, 0.25));
            quarters.filter(|_| values.len() >= LEVEL_ROUNDS_MIN).map(|(high, low)| high - low)
        };
        let within = median(&processes.iter().map(middle_half).collect::<Option<Vec<f64>>>()?)?;
        let medians = sorted_finite(&processes.iter().map(|it| it.1).collect::<Vec<f64>>());
        let between = medians.last()? - medians.first()?;
        let percent = |of: f64| percent(of / self.summary.median.abs());
        (between > LEVELS_APART * within).then_some(())?;
        let (within, between) = (percent(within), percent(between));
        reason(format!("processes differ by {between}, rounds within one by {within}"))
    }
}
