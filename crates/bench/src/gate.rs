//! The answer to `--fail-on` (METHOD 27a), from the ratios of commands run in turn.

use fathom_analysis::compare::{ComparisonAnswer, gate_answer};
use fathom_analysis::limits::{LimitAnswer, LimitJudged, UserLimit};
use fathom_record::command::RATIO_METRIC;
use fathom_record::{Cause, Record, Unit};

use crate::case;
use crate::request::{CommandLine, UndecidedAs};

/// With fewer pairs a difference only looks like one.
const PAIRS_MIN: usize = 8;

/// The loss of each command to the first one: by at most `limit` (0.03 for 3 %), more, or neither,
/// which the caller may take for one of both.
pub(crate) fn judge(
    records: &[Record],
    limit: f64,
    undecided: Option<UndecidedAs>,
) -> Vec<LimitJudged> {
    let ratios = records.iter().filter(|record| record.metric.as_str() == RATIO_METRIC);
    ratios.map(|record| taken(of_ratio(record, limit), undecided)).collect()
}

fn taken(judged: LimitJudged, undecided: Option<UndecidedAs>) -> LimitJudged {
    let Some(taken) = undecided.filter(|_| judged.answer == LimitAnswer::Undecided) else {
        return judged;
    };
    let answer = match taken {
        UndecidedAs::Pass => LimitAnswer::Kept,
        UndecidedAs::Fail => LimitAnswer::NotKept,
    };
    let why = judged.why.as_deref().unwrap_or_default();
    LimitJudged { answer, why: Some(format!("undecided (--undecided): {why}")), ..judged }
}

/// Whether each command keeps the limit of its time, with all values of its parameters.
pub(crate) fn limits(records: &[Record], commands: &[CommandLine]) -> Vec<LimitJudged> {
    let Ok(names) = case::names(commands) else { return Vec::new() };
    let mut all = Vec::new();
    for (command, name) in commands.iter().zip(names) {
        let limit =
            command.limit.as_ref().and_then(|it| UserLimit::parse(it, Unit::Nanoseconds).ok());
        let (id, Some(limit)) = (case::metric(&name), limit) else { continue };
        let own = records.iter().filter(|record| record.metric.as_str() == id);
        let judged: Vec<LimitJudged> = own.map(|record| limit.judge(record)).collect();
        let none = || limit.not_measured(&id, Unit::Nanoseconds);
        let judged = if judged.is_empty() { vec![none()] } else { judged };
        let written = format!("not within {}", limit.text(Unit::Nanoseconds));
        all.extend(judged.into_iter().map(|one| LimitJudged { written: written.clone(), ..one }));
    }
    all
}

fn of_ratio(record: &Record, limit: f64) -> LimitJudged {
    let summary = record.shown_summary();
    let loss = summary.map(|summary| summary.median - 1.0);
    let interval = summary.and_then(|summary| summary.limits()).map(|it| it.map(|end| end - 1.0));
    let pairs = summary.map_or(0, |summary| summary.process_medians.len());
    let (answer, why) = match (loss, interval) {
        _ if record.verdict.is_cut_short() => (LimitAnswer::Undecided, Some("interrupted")),
        _ if record.verdict.reasons.iter().any(|reason| reason.cause == Cause::WrongWork) => {
            (LimitAnswer::Undecided, Some("less work with /dev/null; --output pipe"))
        }
        (Some(_), Some(interval)) => match gate_answer(interval, limit) {
            ComparisonAnswer::Pass | ComparisonAnswer::Fail if pairs < PAIRS_MIN => {
                (LimitAnswer::Undecided, Some("fewer than 8 pairs (--runs)"))
            }
            ComparisonAnswer::Pass => (LimitAnswer::Kept, None),
            ComparisonAnswer::Fail => (LimitAnswer::NotKept, None),
            ComparisonAnswer::Undecided => {
                (LimitAnswer::Undecided, Some("more runs may decide it (--time)"))
            }
        },
        _ => (LimitAnswer::Undecided, Some("no interval: fewer than 5 pairs (--runs)")),
    };
    let name = |param: &str| record.params.text(param).unwrap_or_default().to_owned();
    let mut others = record.params.clone();
    others.0.retain(|name, _| name != "of" && name != "to");
    let percent = fathom_record::quantity::percent(limit);
    LimitJudged {
        name: others.to_string(),
        unit: Unit::Ratio,
        limit: UserLimit { low: None, high: Some(limit) },
        written: format!("{} slower than {} by more than {percent}", name("of"), name("to")),
        value: loss,
        interval,
        answer,
        why: why.map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_record::{MetricId, Params, Reason, State, Verdict};

    fn ratio(middle: f64, limits: Option<[f64; 2]>, pairs: usize) -> Record {
        let [low, high] = limits.unwrap_or([middle; 2]);
        let record = Record::fixture(RATIO_METRIC, Unit::Ratio).measured([low, middle, high]);
        record.of_case(&Params::one("of", "b").and("to", "a")).with_summary(|summary| {
            summary.interval = summary.interval.filter(|_| limits.is_some());
            summary.process_medians = vec![middle; pairs];
        })
    }

    #[test]
    fn gate_passes_fails_or_is_undecided() {
        let answer =
            |middle, limits, pairs| judge(&[ratio(middle, limits, pairs)], 0.03, None)[0].answer;
        assert_eq!(answer(1.01, Some([1.0, 1.02]), 9), LimitAnswer::Kept);
        assert_eq!(answer(0.8, Some([0.7, 0.9]), 9), LimitAnswer::Kept, "faster");
        assert_eq!(answer(1.05, Some([1.04, 1.08]), 9), LimitAnswer::NotKept);
        assert_eq!(answer(1.05, Some([1.04, 1.08]), 7), LimitAnswer::Undecided, "few pairs");
        assert_eq!(answer(1.01, Some([1.0, 1.02]), 7), LimitAnswer::Undecided, "few pairs");
        assert_eq!(answer(1.05, Some([1.02, 1.08]), 9), LimitAnswer::Undecided, "3 % is within");
        assert_eq!(answer(1.02, Some([1.01, 1.04]), 9), LimitAnswer::Undecided);
        assert_eq!(answer(1.05, Some([0.99, 1.1]), 9), LimitAnswer::Undecided);
        assert_eq!(answer(1.5, None, 4), LimitAnswer::Undecided);
    }

    #[test]
    fn caller_decides_what_undecided_is() {
        let taken = |limits, undecided| {
            let judged = judge(&[ratio(1.02, Some(limits), 9)], 0.03, Some(undecided)).remove(0);
            (judged.answer, judged.why.unwrap_or_default())
        };
        for (undecided, answer) in
            [(UndecidedAs::Pass, LimitAnswer::Kept), (UndecidedAs::Fail, LimitAnswer::NotKept)]
        {
            let (got, why) = taken([1.01, 1.04], undecided);
            assert!(
                got == answer && why.starts_with("undecided (--undecided): more runs"),
                "{why}"
            );
            assert_eq!(taken([1.0, 1.02], undecided), (LimitAnswer::Kept, String::new()));
            assert_eq!(taken([1.04, 1.06], undecided), (LimitAnswer::NotKept, String::new()));
        }
    }

    #[test]
    fn interrupted_or_invalid_ratio_is_undecided() {
        let mut record = ratio(1.0, Some([1.0, 1.0]), 9);
        record.verdict = Verdict::because(State::Noisy, Cause::Interrupted, "stopped");
        assert_eq!(judge(&[record.clone()], 0.03, None)[0].answer, LimitAnswer::Undecided);
        record.verdict = Verdict::because(State::Invalid, Cause::Clock, "wrong");
        assert_eq!(judge(&[record.clone()], 0.03, None)[0].answer, LimitAnswer::Undecided);
        record.metric = MetricId::new("bench.a");
        assert!(judge(&[record], 0.03, None).is_empty());
        let mut less = ratio(1.0, Some([1.0, 1.0]), 9);
        less.verdict.reasons = vec![Reason::new(Cause::WrongWork, "reads less")];
        assert_eq!(judge(&[less], 0.03, None)[0].answer, LimitAnswer::Undecided, "less work");
    }
}
