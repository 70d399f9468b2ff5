//! How many records are in which state, and the words for the causes.

use std::collections::BTreeMap;

use fathom_record::{Agreement, Cause, Counts, Record, State};

/// Records by state.
pub(crate) fn counts_of<'a>(records: impl IntoIterator<Item = &'a Record>) -> Counts {
    Counts::of(records.into_iter().map(|record| record.verdict.state))
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

/// Agreements among records whose number stands and whose prediction is a value, or a bound: how
/// many hold, fail, are inconclusive.
pub(crate) fn agreements<'a>(
    records: impl IntoIterator<Item = &'a Record> + Clone,
    ordinal: bool,
) -> [usize; 3] {
    let count = |wanted: fn(Agreement) -> bool| {
        let of_kind = |record: &&Record| {
            record.verdict.shows_number()
                && record.agreement.is_some_and(wanted)
                && record.prediction.as_ref().is_some_and(|it| it.is_ordinal() == ordinal)
        };
        records.clone().into_iter().filter(of_kind).count()
    };
    [Agreement::holds, Agreement::fails, |it| it == Agreement::Inconclusive].map(count)
}

/// Records whose number stands and has no prediction.
pub(crate) fn without_model<'a>(records: impl IntoIterator<Item = &'a Record>) -> usize {
    let without = |record: &&Record| record.verdict.shows_number() && record.prediction.is_none();
    records.into_iter().filter(without).count()
}

/// The first causes of the records in `state`, the most frequent first.
pub(crate) fn causes(records: &[Record], state: State) -> Vec<(Cause, usize)> {
    let mut causes = BTreeMap::new();
    for record in records.iter().filter(|record| record.verdict.state == state) {
        if let Some(reason) = record.verdict.reasons.first() {
            *causes.entry(reason.cause).or_insert(0) += 1;
        }
    }
    let mut causes: Vec<(Cause, usize)> = causes.into_iter().collect();
    causes.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    causes
}

/// A cause in a word or two.
pub(crate) fn cause_words(cause: Cause) -> &'static str {
    match cause {
        Cause::Throttled => "the CPU quota",
        Cause::Capped => "the cap on the device",
        Cause::Steal => "CPU steal",
        Cause::Contention => "contention for the CPU",
        Cause::NotRunning => "descheduled",
        Cause::MajorFaults => "major page faults",
        Cause::Migration => "migration between CPUs",
        Cause::Interrupts => "interrupts",
        Cause::SlowCore => "slow core",
        Cause::TooShort => "too short a time",
        Cause::Drift => "drift within a visit",
        Cause::MachineDrift => "drift of the machine",
        Cause::Spread => "cause unknown",
        Cause::TwoClusters => "bimodal across processes",
        Cause::SeveralModes => "several modes",
        Cause::Clock => "the clock",
        Cause::WrongWork => "wrong work",
        Cause::NotAsAsked => "conditions not as asked",
        Cause::Missing => "a missing part or permission",
        Cause::MissingInput => "a missing input",
        Cause::Crashed => "a crash",
        Cause::TimedOut => "a time-out",
        Cause::Interrupted => "the interruption",
    }
}
