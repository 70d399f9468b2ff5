//! Whether a number says what the machine is, or only what happened while it was measured (METHOD
//! 24b). Every view that praises or blames a machine asks here.

use fathom_record::quantity::percent;
use fathom_record::{Agreement, Cause, NotSelected, Record, Reference, State, Stratum};

/// Why a number says nothing of the machine itself; `None` if it does. `core`: the states of the
/// core over its run, where they are known.
#[must_use]
pub fn not_judged(record: &Record, core: Option<&Reference>) -> Option<String> {
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
    summary.limits().is_none().then(|| "no interval".to_owned())
}

/// The agreement of a record with its prediction as views show it: a number that says nothing of
/// the machine is outside of nothing.
#[must_use]
pub fn shown_agreement(record: &Record) -> Option<Agreement> {
    let agreement = record.agreement?;
    match agreement.fails() && not_judged(record, None).is_some() {
        true => Some(Agreement::Inconclusive),
        false => Some(agreement),
    }
}
