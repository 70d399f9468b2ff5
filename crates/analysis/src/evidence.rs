//! Whether a number says what the machine is, or only what happened while it was measured (METHOD
//! 24b). Every view that praises or blames a machine asks here.

use fathom_record::quantity::percent;
use fathom_record::{
    Agreement, Cause, Document, NotSelected, Prediction, Reason, Record, Reference, State, Stratum,
};

/// With more noisy numbers than this share nothing is concluded from the others.
pub const NOISY_MAX: f64 = 0.5;
/// What others did to the CPU of a valid number.
const DISTURBANCES: [Cause; 3] = [Cause::Throttled, Cause::Steal, Cause::Contention];

/// Why a number says nothing of the machine itself; `None` if it does. What the states of the core
/// over its run say is known after [`crate::typical::fill`].
#[must_use]
pub fn not_judged(record: &Record) -> Option<String> {
    record.not_judged.clone().or_else(|| reason(record, None))
}

pub(crate) fn reason(record: &Record, core: Option<&Reference>) -> Option<String> {
    let Some(summary) = record.shown_summary() else { return Some("no number".to_owned()) };
    let is_shared = match summary.stratum {
        Stratum::ToItself | Stratum::CoreAtFullSpeed => false,
        Stratum::Shared | Stratum::SlowerClock => true,
        // Over all visits: in the state that most of them had.
        Stratum::AsFound => {
            core.is_some_and(Reference::is_shared)
                || summary.not_selected == Some(NotSelected::TooFewClean)
        }
    };
    if is_shared || record.verdict.reasons.iter().any(|it| it.cause == Cause::CoreShared) {
        let is_capped = summary.stratum == Stratum::SlowerClock;
        let state = if is_capped { "frequency capped" } else { "core shared" };
        return Some(core.map_or(state.to_owned(), |core| {
            format!("{state}, {} undisturbed", percent(core.clean_share()))
        }));
    }
    if record.verdict.state == State::Noisy {
        return Some("noisy".to_owned());
    }
    // The judge knows which of them the work itself causes, and names the others.
    let disturbed = record.verdict.reasons.iter().find(|it| DISTURBANCES.contains(&it.cause));
    let disturbed = disturbed.map(|it| it.text.clone());
    disturbed.or_else(|| summary.limits().is_none().then(|| "no interval".to_owned()))
}

/// What others did to the CPU, if that made a number noisy.
#[must_use]
pub fn disturbance(record: &Record) -> Option<&Reason> {
    let noisy = Some(&record.verdict).filter(|verdict| verdict.state == State::Noisy)?;
    noisy.reasons.iter().find(|reason| DISTURBANCES.contains(&reason.cause))
}

/// Whether others took the CPU, or anything else made the number noisy, while it was measured.
#[must_use]
pub fn is_disturbed(record: &Record) -> bool {
    let is_disturbance = |reason: &Reason| DISTURBANCES.contains(&reason.cause);
    record.verdict.state == State::Noisy || record.verdict.reasons.iter().any(is_disturbance)
}

/// The verdict on a run as views show it: of one whose numbers are mostly noisy, noisy.
#[must_use]
pub fn shown_state(document: &Document) -> State {
    let count = |is: fn(State) -> bool| {
        document.records.iter().filter(|it| is(it.verdict.state)).count() as f64
    };
    let is_noisy = count(|it| it == State::Noisy) > NOISY_MAX * count(State::shows_number);
    match document.run.verdict.state {
        State::Valid if is_noisy => State::Noisy,
        state => state,
    }
}

/// What the prediction of a record says of its ratio to another one, if it rests on that: the
/// limits of the ratio, and whether the interval of the measured one agrees.
#[must_use]
pub fn ratio_agreement(
    of: &Record,
    to: &Record,
    interval: Option<[f64; 2]>,
) -> Option<(Prediction, Agreement)> {
    let by = to.shown_summary()?.median;
    let own = of.prediction.as_ref().filter(|it| it.results().any(|one| one == to.name()))?;
    let [low, high] = [own.low, own.high].map(|limit| limit.map(|it| it / by));
    let limits = Prediction { low, high, ..own.clone() };
    let agreement = limits.agreement(interval);
    let is_judged = [of, to].into_iter().all(|it| not_judged(it).is_none());
    let shown = if agreement.fails() && !is_judged { Agreement::Inconclusive } else { agreement };
    Some((limits, shown))
}

/// The agreement of a record with its prediction as views show it: a number that says nothing of
/// the machine is outside of nothing.
#[must_use]
pub fn shown_agreement(record: &Record) -> Option<Agreement> {
    let agreement = record.agreement?;
    match agreement.fails() && not_judged(record).is_some() {
        true => Some(Agreement::Inconclusive),
        false => Some(agreement),
    }
}
