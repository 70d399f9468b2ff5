//! The answer of a load in sentences: the throughput, what limits it, and what to do next.

use fathom_record::load_facts::SERVER_CPU;
use fathom_record::quantity::{bare, percent};
use fathom_record::{Cause, ParamValue, Params, Record, State, Summary};

use super::super::{ByHandAnswer, cost};
use super::limit::{BOTTLENECK, Conclusion, conclusion};
use super::open::{MAX_RATE, case_of, highest_held, is_of_others, is_open, was_completed};
use super::{
    ERRORS_MAX, SYSTEM, THROUGHPUT, best, by_case, names_of, quantile_of, rate_of, throughput, time,
};
use crate::case::counted;
use crate::findings::sentence;
use crate::wrap::glued;

const FIND_MAX: &str = "`--find-max` finds the highest rate";

/// The answer of a load, for each of its cases.
pub(in crate::by_hand) fn answer(records: &[Record]) -> ByHandAnswer {
    let of = |metric: &'static str| {
        records.iter().filter(move |record| record.metric.as_str() == metric)
    };
    let cases = by_case(&of(THROUGHPUT).collect::<Vec<&Record>>());
    let several = cases.len() > 1;
    let all: Vec<Params> = cases.iter().map(|steps| case_of(steps[0])).collect();
    let mut answer = ByHandAnswer::default();
    for steps in &cases {
        let params = case_of(steps[0]);
        let limit = of(BOTTLENECK).find(|one| case_of(one) == params);
        let limit = limit.map(|one| conclusion(one, records));
        let (rates, clients): (Vec<&Record>, Vec<&Record>) =
            steps.iter().partition(|step| is_open(step));
        let sentences = [sustained(&rates, records), most(&clients)].into_iter().flatten();
        let mut sentences: Vec<String> = sentences.collect();
        if let Some(limit) = limit {
            sentences.extend(limit.sentences);
            answer.next.extend(limit.next.filter(|next| !answer.next.contains(next)));
        }
        answer.doubt = answer.doubt.or_else(|| doubt(&rates));
        if !rates.is_empty() && !answer.next.iter().any(|it| it == FIND_MAX) {
            answer.next.push(FIND_MAX.to_owned());
        }
        let counted = of(SYSTEM).find(|one| case_of(one) == params);
        let counted = counted.and_then(|one| one.cost.as_ref());
        sentences.extend(counted.map(|it| cost::conclusion("", it, false)));
        let name = own_name(&params, &all);
        let name = if several { format!("{name}: ") } else { String::new() };
        answer.sentences.push(name + &sentences.join(" "));
    }
    // Selected records may lack the steps.
    for alone in of(BOTTLENECK).filter(|one| !all.contains(&case_of(one))) {
        let Conclusion { sentences, next } = conclusion(alone, records);
        answer.sentences.push(sentences.join(" "));
        answer.next.extend(next);
    }
    answer.sentences.extend(of(MAX_RATE).map(|found| {
        let why = found.verdict.reasons.first().map_or("", |reason| reason.text.as_str());
        match found.verdict.shows_number() {
            true => {
                let rate = throughput(&found);
                format!("Highest rate within limits: {rate} requests/s{}.", ends(found))
            }
            false => {
                let known = highest_held(found).map_or("not known".to_owned(), |rate| {
                    format!("at least {} requests/s, more is not known", bare(rate))
                });
                sentence(format!("Highest rate within limits: {known}: {why}"))
            }
        }
    }));
    answer
}

/// `mode=random`, by the parameters in which cases differ.
pub(super) fn own_name(params: &Params, all: &[Params]) -> String {
    let differs = |(name, value): &(&String, &ParamValue)| {
        all.iter().any(|other| other.0.get(*name) != Some(*value))
    };
    let own = params.0.iter().filter(differs).map(|(name, value)| format!("{name}={value}"));
    own.collect::<Vec<String>>().join(", ")
}

/// ` (1.2 to 1.4)`.
fn ends(record: &Record) -> String {
    let limits = record.shown_summary().and_then(Summary::limits);
    limits.map_or(String::new(), |[low, high]| format!(" ({} to {})", bare(low), bare(high)))
}

/// The highest throughput of closed loops, and which steps failed too often to count.
fn most(steps: &[&Record]) -> Option<String> {
    let (best, failed) = best(steps);
    let without = match failed.as_slice() {
        [] => String::new(),
        failed => format!(
            "; without {}: more than {} of the requests failed",
            names_of(failed.iter().copied()),
            percent(ERRORS_MAX)
        ),
    };
    let Some(best) = best else {
        return (!without.is_empty()).then(|| format!("Highest throughput: none{without}."));
    };
    let clients = best.params.integer("clients").unwrap_or(0);
    let (rate, at) = (throughput(&best), counted(clients as usize, "client"));
    Some(format!("Highest throughput: {rate} requests/s{} at {at}{without}.", ends(best)))
}

/// What is known of rates of which other programs, or the generator, kept it from being judged.
fn of_others(steps: &[&Record]) -> Option<String> {
    let first = steps.first().filter(|_| steps.iter().all(|step| is_of_others(step)))?;
    let why = &first.verdict.reasons.first()?.text;
    let number = |step: &&Record| format!("{} of {}", throughput(step), bare(rate_of(step)));
    let completed: Vec<String> = steps.iter().map(number).collect();
    let known = match steps.iter().all(|step| was_completed(step)) {
        true => format!("the server serves that rate{}; ", server_share(steps[steps.len() - 1])),
        false => "whether the server sustains more, or how fast it answers, is not known: ".into(),
    };
    Some(sentence(format!("Completed {} requests/s; {known}{why}", completed.join(", "))))
}

/// `, server CPU 4.4 % busy`.
fn server_share(step: &Record) -> String {
    let share = step.quantity_of(SERVER_CPU).map(|share| glued(&percent(share)));
    share.map_or(String::new(), |it| format!(", server CPU {it} busy"))
}

/// The highest rate of an open loop that was sustained, how fast it was answered, and what of the
/// server that took.
fn sustained(steps: &[&Record], records: &[Record]) -> Option<String> {
    let shown = steps.iter().filter(|step| step.verdict.shows_number());
    let best = shown.max_by(|a, b| rate_of(a).total_cmp(&rate_of(b)));
    let rates: Vec<f64> = steps.iter().map(|step| rate_of(step)).collect();
    let highest = rates.iter().copied().reduce(f64::max)?;
    let Some(best) = best else {
        return of_others(steps).or_else(|| Some("No rate was sustained.".to_owned()));
    };
    let mut text = match rate_of(best) {
        rate if rate == highest => {
            format!("Each rate was sustained, up to {} requests/s", bare(highest))
        }
        rate => format!("Highest rate sustained: {} requests/s", bare(rate)),
    };
    let p99 = quantile_of(records, &best.params, Some(0.99));
    text += &p99.map_or(String::new(), |ns| format!(": p99 {}", glued(&time(Some(ns)))));
    Some(text + &server_share(best) + ".")
}

/// What a late generator leaves in doubt of rates that were sustained.
fn doubt(steps: &[&Record]) -> Option<String> {
    let is_late = |step: &&Record| {
        let reasons = &step.verdict.reasons;
        step.verdict.state == State::Noisy
            && reasons.iter().all(|it| it.cause == Cause::LoadGenerator)
    };
    let late = steps.iter().find(|step| is_late(step))?;
    let is_known = |step: &&Record| step.verdict.state == State::Valid || is_late(step);
    let why = &late.verdict.reasons.first()?.text;
    steps
        .iter()
        .all(is_known)
        .then(|| format!("The rates stand; response times are in part the generator's: {why}."))
}

#[cfg(test)]
mod tests {
    use fathom_record::{MetricId, Verdict};

    use super::*;

    #[test]
    fn rate_that_others_kept_from_being_judged_is_not_said_to_fail() {
        let step = |cause| Record {
            params: Params::one("rate", 2000),
            summary: Some(Summary { median: 2002.0, ..Summary::default() }),
            verdict: Verdict::because(State::Invalid, cause, "others used 1.3 CPUs"),
            metric: MetricId::new(THROUGHPUT),
            ..Record::default()
        };
        let others = step(Cause::Contention);
        let text = "Completed !2002 of 2000 requests/s; the server serves that rate; others used \
                    1.3 CPUs.";
        assert_eq!(sustained(&[&others], &[]).as_deref(), Some(text));
        let mut slow = others.clone();
        slow.summary = Some(Summary { median: 1500.0, ..Summary::default() });
        let text = "Completed !1500 of 2000 requests/s; whether the server sustains more, or how \
                    fast it answers, is not known: others used 1.3 CPUs.";
        assert_eq!(sustained(&[&slow], &[]).as_deref(), Some(text));
        let mut left = others.clone();
        left.verdict.reasons[0].text = "not sustained: others used 1.3 CPUs; 35 waiting".to_owned();
        let text = sustained(&[&left], &[]).unwrap();
        assert!(text.contains("whether the server sustains more"), "{text}");
        let server = step(Cause::NotAsAsked);
        for of_server in [&[&server][..], &[&others, &server]] {
            assert_eq!(sustained(of_server, &[]).as_deref(), Some("No rate was sustained."));
        }
    }

    #[test]
    fn late_generator_leaves_the_rate_and_doubts_the_longest_times() {
        let verdict = |state, cause| Verdict::because(state, cause, "sent late: p99.9 3 ms");
        let step = |verdict| Record { verdict, ..Record::default() };
        let late = step(verdict(State::Noisy, Cause::LoadGenerator));
        let text = "The rates stand; response times are in part the generator's: sent late: p99.9 \
                    3 ms.";
        assert_eq!(doubt(&[&late, &step(Verdict::default())]).as_deref(), Some(text));
        let other = step(verdict(State::Noisy, Cause::Contention));
        let invalid = step(verdict(State::Invalid, Cause::LoadGenerator));
        for one in [other, invalid] {
            assert_eq!(doubt(&[&late, &one]), None);
        }
        assert_eq!(doubt(&[&step(Verdict::default())]), None);
    }
}
