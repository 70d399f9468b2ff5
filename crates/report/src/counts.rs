//! Counts of records by state, agreement and cause.

use fathom_analysis::evidence::shown_agreement;
use fathom_record::{Agreement, Cause, Class, Counts, NoModel, Record, State, is_own};

pub(crate) fn counts_of<'a>(records: impl IntoIterator<Item = &'a Record>) -> Counts {
    Counts::from_states(records.into_iter().map(|record| record.verdict.state))
}

/// The states that occur and how often, those with a number first.
pub(crate) fn states(counts: &Counts) -> impl Iterator<Item = (u32, State)> {
    let all = [
        (counts.valid, State::Valid),
        (counts.noisy, State::Noisy),
        (counts.invalid, State::Invalid),
        (counts.unavailable, State::Unavailable),
        (counts.failed, State::Failed),
    ];
    all.into_iter().filter(|(count, _)| *count > 0)
}

/// Records with a valid or noisy number and a prediction of this class that says something
/// (METHOD 26a).
fn of_class<'a>(
    records: impl IntoIterator<Item = &'a Record>,
    class: Class,
) -> impl Iterator<Item = &'a Record> {
    records.into_iter().filter(move |record| {
        let is_class = record.prediction.as_ref().is_some_and(|it| it.class() == class);
        is_class && record.verdict.shows_number() && !record.is_loosely_bound()
    })
}

/// How many predictions of a class hold, fail, and are inconclusive.
pub(crate) fn agreements<'a>(
    records: impl IntoIterator<Item = &'a Record> + Clone,
    class: Class,
) -> [usize; 3] {
    let count = |wanted: fn(Agreement) -> bool| {
        let records = of_class(records.clone(), class);
        records.filter(|record| shown_agreement(record).is_some_and(wanted)).count()
    };
    [Agreement::holds, Agreement::fails, |it| it == Agreement::Inconclusive].map(count)
}

/// The median tolerance of predicted values.
pub(crate) fn median_tolerance<'a>(records: impl IntoIterator<Item = &'a Record>) -> Option<f64> {
    let of = |record: &Record| record.prediction.as_ref()?.tolerance();
    let mut all: Vec<f64> = of_class(records, Class::Value).filter_map(of).collect();
    all.sort_by(f64::total_cmp);
    all.get(all.len().checked_sub(1)? / 2).copied()
}

/// Records with a valid or noisy number and no prediction: without a model, and with one of which
/// an input is noisy. Nobody expects a model of a metric outside the registry.
pub(crate) fn without_prediction<'a>(
    records: impl IntoIterator<Item = &'a Record>,
) -> (usize, usize) {
    // Nothing is predicted outside the registry: commands of the user, and other programs.
    let without = |record: &&Record| {
        let is_registered = !is_own(record.metric.as_str());
        is_registered && record.verdict.shows_number() && record.prediction.is_none()
    };
    let is_noisy = |record: &&Record| matches!(record.no_model, Some(NoModel::NoisyInput { .. }));
    let (noisy, others): (Vec<&Record>, Vec<&Record>) =
        records.into_iter().filter(without).partition(is_noisy);
    (others.len(), noisy.len())
}

/// The label of a cause.
pub(crate) fn cause_words(cause: Cause) -> &'static str {
    match cause {
        Cause::Throttled => "CPU quota",
        Cause::Capped => "device limit",
        Cause::Steal => "CPU steal",
        Cause::Contention => "CPU contention",
        Cause::NotRunning => "descheduled",
        Cause::MajorFaults => "major page faults",
        Cause::Migration => "CPU migration",
        Cause::Interrupts => "interrupts",
        Cause::SlowCore => "slow core",
        Cause::CoreShared => "core shared",
        Cause::SlowMemory => "memory used by others",
        Cause::SlowDevice => "device time",
        Cause::TooShort => "too short",
        Cause::Drift => "drift while sampling",
        Cause::MachineDrift => "machine drift",
        Cause::FewProcesses => "few processes",
        Cause::Spread => "no counter or sensor explains it",
        Cause::TwoClusters => "bimodal across processes",
        Cause::LevelOfProcess => "differs by process",
        Cause::SeveralModes => "multimodal",
        Cause::Clock => "clock failure",
        Cause::WrongWork => "wrong work",
        Cause::NotAsAsked => "conditions not met",
        Cause::Missing => "permission, limit or missing feature",
        Cause::LoadGenerator => "load generator",
        Cause::MissingInput => "missing input",
        Cause::Crashed => "crash",
        Cause::FarEndLost => "far end lost",
        Cause::CpuOffline => "CPU offline",
        Cause::Stalled => "stalled",
        Cause::TimedOut => "timeout",
        Cause::Interrupted => "interrupted",
        Cause::SearchLimit => "search limit",
        Cause::Emulated => "emulated",
    }
}
