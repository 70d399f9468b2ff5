//! The answer of a load in sentences: the throughput, what limits it, and what to do next.

use fathom_record::quantity::{bare, percent};
use fathom_record::{ParamValue, Params, Record, Summary};

use super::super::ByHandAnswer;
use super::limit::{BOTTLENECK, Conclusion, conclusion};
use super::open::{MAX_RATE, case_of, highest_held, is_of_others, is_open};
use super::{ERRORS_MAX, THROUGHPUT, best, by_case, names_of, rate_of, throughput};
use crate::case::counted;
use crate::findings::sentence;

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
        let sentences = [sustained(&rates), most(&clients)].into_iter().flatten();
        let mut sentences: Vec<String> = sentences.collect();
        if let Some(limit) = limit {
            sentences.extend(limit.sentences);
            answer.next.extend(limit.next.filter(|next| !answer.next.contains(next)));
        }
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
    let completed = |step: &&Record| format!("{} of {}", throughput(step), bare(rate_of(step)));
    let completed: Vec<String> = steps.iter().map(completed).collect();
    Some(sentence(format!(
        "Completed {} requests/s; whether the server sustains more, or how fast it answers, is \
         not known: {}",
        completed.join(", "),
        why
    )))
}

/// The highest rate of an open loop that was sustained.
fn sustained(steps: &[&Record]) -> Option<String> {
    let shown = steps.iter().filter(|step| step.verdict.shows_number());
    let best = shown.max_by(|a, b| rate_of(a).total_cmp(&rate_of(b)));
    let rates: Vec<f64> = steps.iter().map(|step| rate_of(step)).collect();
    let highest = rates.iter().copied().reduce(f64::max)?;
    Some(match best {
        None => of_others(steps).unwrap_or_else(|| "No rate was sustained.".to_owned()),
        Some(best) if rate_of(best) == highest => {
            format!("Each rate was sustained, up to {} requests/s.", bare(highest))
        }
        Some(best) => format!("Highest rate sustained: {} requests/s.", bare(rate_of(best))),
    })
}

#[cfg(test)]
mod tests {
    use fathom_record::{MetricId, State, Verdict};

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
        let others = step(fathom_record::Cause::Contention);
        let text = "Completed !2002 of 2000 requests/s; whether the server sustains more, or how \
                    fast it answers, is not known: others used 1.3 CPUs.";
        assert_eq!(sustained(&[&others]).as_deref(), Some(text));
        let server = step(fathom_record::Cause::NotAsAsked);
        for of_server in [&[&server][..], &[&others, &server]] {
            assert_eq!(sustained(of_server).as_deref(), Some("No rate was sustained."));
        }
    }
}
