//! From what visits gave to records.

use fathom_analysis::judge::{Expectation, judge};
use fathom_analysis::statistics;
use fathom_measure::sampler::Fault;
use fathom_metric::{About, Case, Derived, Known};
use fathom_record::{
    Agreement, Better, Cause, Counter, Document, MetricId, NoModel, Prediction, Reason, Record,
    Remedy, Sample, State, Summary, Unit, Verdict,
};

use crate::plan::Plan;
use crate::visits::Visited;

/// Appends the records of a measured metric to what is known.
pub(crate) fn measured(
    visited: Visited<'_>,
    plan: &Plan,
    document: &Document,
    known: &mut Vec<Record>,
) {
    let Visited { unit, probe, samples, faults, failure, visits_wanted, .. } = visited;
    let about = probe.about();
    for ((case, samples), fault) in unit.cases.iter().zip(samples).zip(faults) {
        if samples.is_empty() && fault.is_none() && failure.is_none() {
            // The run was stopped before this metric's first visit: there is nothing to keep.
            continue;
        }
        let mut record = empty(about, case);
        record.visit = match unit.cases.len() {
            1 => format!("{}/{}", document.run.id, record.name()),
            _ => format!("{}/{}", document.run.id, about.id),
        };
        match obstacle(&failure, &fault) {
            Some(verdict) => record.verdict = verdict,
            None => fill(
                &mut record,
                &About { expects: probe.expects(case), ..*about },
                &samples,
                probe.is_difference(),
                document.run.clock.read_ns,
            ),
        }
        note_interruption(&mut record, samples.len() as u32, visits_wanted);
        record.notes.push(why_it_ended(samples.len() as u32, plan));
        let prediction =
            probe.predict(case, &document.host, &Known::new(known).under(&document.run.clock));
        set_prediction(&mut record, prediction);
        record.samples = (!samples.is_empty()).then_some(samples);
        known.push(record);
    }
}

/// Appends the records of a derived metric to what is known.
pub(crate) fn derived(
    derived: &dyn Derived,
    cases: &[Case],
    document: &Document,
    known: &mut Vec<Record>,
) {
    let about = derived.about();
    for case in cases {
        let mut record = empty(about, case);
        record.derived_from = derived.inputs().iter().map(|need| MetricId::new(*need)).collect();
        let so_far = Known::new(known).under(&document.run.clock).on(&document.host);
        match derived.reduce(&case.params, &so_far) {
            Err(missing) => {
                let reason = Reason::new(Cause::MissingInput, missing.to_string());
                let reasons = vec![reason.with_remedy(missing.remedy())];
                record.verdict = Verdict { state: State::Unavailable, reasons };
            }
            Ok(estimate) => {
                record.notes = estimate.notes;
                let rests_on = |one: &&Record| derived.rests_on(&case.params, one, &so_far);
                let inputs: Vec<&Record> = known.iter().filter(rests_on).collect();
                record.summary = match estimate.quotient {
                    Some(quotient) => {
                        statistics::summarise_quotients(&estimate.per_process, quotient)
                    }
                    None => statistics::summarise_estimates(&estimate.per_process),
                };
                if let Some(summary) = &mut record.summary {
                    // Whose doubts it does not take over it is computed from all the same.
                    let of_inputs = |one: &&Record| derived.inputs().contains(&one.metric.as_str());
                    let spun = match inputs.as_slice() {
                        [] => known.iter().filter(of_inputs).collect(),
                        _ => inputs.clone(),
                    };
                    summary.process_spins = slowest_spins(&spun, summary.process_medians.len());
                    if estimate.difference {
                        summary.bound = statistics::difference_bound(summary);
                    }
                }
                record.verdict = match &record.summary {
                    Some(summary) => {
                        of_estimate(about, summary, estimate.doubts, inputs.iter().copied())
                    }
                    None => Verdict::because(
                        State::Unavailable,
                        Cause::MissingInput,
                        "no process gave a value",
                    ),
                };
            }
        }
        let prediction = derived.predict(
            &case.params,
            &document.host,
            &Known::new(known).under(&document.run.clock),
        );
        set_prediction(&mut record, prediction);
        known.push(record);
    }
}

/// The reference spins of a result that was computed process by process: of each process the
/// slowest of those it rests on. None where one of them has no such spin for every process.
fn slowest_spins(inputs: &[&Record], processes: usize) -> Vec<f64> {
    let mut slowest = Vec::new();
    for summary in inputs.iter().filter_map(|input| input.summary.as_ref()) {
        if summary.process_spins.len() != processes {
            return Vec::new();
        }
        slowest.resize(processes, 0.0);
        for (slowest, spin) in slowest.iter_mut().zip(&summary.process_spins) {
            *slowest = spin.max(*slowest);
        }
    }
    slowest
}

/// The verdict on a derived result: what its computation itself found against it stands first.
fn of_estimate<'r>(
    about: &About,
    summary: &Summary,
    doubts: Vec<Reason>,
    inputs: impl Iterator<Item = &'r Record>,
) -> Verdict {
    let mut own = judge(&[], summary, expectation(about));
    if !doubts.is_empty() && own.shows_number() {
        own.state = State::Noisy;
        own.reasons.splice(0..0, doubts);
    }
    with_doubts_of(inputs, own)
}

/// A result is no better than what it was computed from: it takes over a doubt of each kind, and
/// its own wide interval is then theirs.
fn with_doubts_of<'r>(inputs: impl Iterator<Item = &'r Record>, mut own: Verdict) -> Verdict {
    for record in inputs {
        if record.verdict.state == State::Noisy {
            own.state = State::Noisy;
            own.reasons.retain(|reason| reason.cause != Cause::Spread);
            for reason in &record.verdict.reasons {
                if !own.reasons.iter().any(|known| known.cause == reason.cause) {
                    let text = format!("{}: {}", record.name(), reason.text);
                    own.reasons.push(Reason { text, ..reason.clone() });
                }
            }
        }
    }
    own
}

fn empty(about: &About, case: &Case) -> Record {
    let (metric, params) = (MetricId::new(about.id), case.params.clone());
    Record::new(metric, params, about.title, about.unit, about.better)
}

fn expectation(about: &About) -> Expectation {
    Expectation { expects: about.expects, noise_limit: about.noise_limit }
}

/// What stands in the way of a result: a visit that gave nothing, or a fault of the case.
fn obstacle(failure: &Option<Reason>, fault: &Option<Fault>) -> Option<Verdict> {
    if let Some(reason) = failure {
        return Some(Verdict { state: State::Failed, reasons: vec![reason.clone()] });
    }
    Some(match fault.as_ref()? {
        Fault::Unavailable(what, remedy) => {
            let reason = Reason::new(Cause::Missing, what).with_remedy(remedy.clone());
            Verdict { state: State::Unavailable, reasons: vec![reason] }
        }
        Fault::WrongWork(reason) => Verdict::because(State::Invalid, Cause::WrongWork, reason),
        Fault::Failed(reason) => Verdict::because(State::Failed, Cause::Crashed, reason),
    })
}

/// Before the name of what a far end verified.
const FAR: &str = "far end: ";

/// What the samples of a case amount to, with the verdict on them.
pub fn fill(
    record: &mut Record,
    about: &About,
    samples: &[Sample],
    is_difference: bool,
    read_ns: f64,
) {
    let Some(mut summary) = statistics::summarise(samples) else {
        record.verdict = Verdict::because(State::Failed, Cause::Crashed, "no process gave a value");
        return;
    };
    // The speed of the core is what is measured, or has no part in it.
    if about.unit == Unit::Hertz || about.expects.has(Counter::CoreSpeed) {
        summary.process_spins.clear();
    }
    // The tail of a rate is at its other end.
    if about.unit != Unit::Nanoseconds {
        summary.quantiles.clear();
    }
    if is_difference {
        summary.bound = statistics::difference_bound(&summary);
    }
    set_clock_floor(&mut summary, samples, read_ns);
    record.verdict = judge(samples, &summary, expectation(about));
    let far = samples.iter().filter_map(|sample| sample.far.as_ref());
    let far = far.flat_map(|far| &far.checks).map(|check| (FAR, check));
    let near = samples.iter().flat_map(|sample| &sample.checks).map(|check| ("", check));
    for (end, check) in near.chain(far) {
        let name = format!("{end}{}", check.name);
        let known = record.checks.entry(name).or_insert_with(|| check.detail.clone());
        if !check.passed {
            *known = format!("FAILED: {}", check.detail);
        }
    }
    let disturbances = samples.iter().map(|sample| &sample.disturbance);
    record.disturbance =
        disturbances.skip(1).fold(samples[0].disturbance.clone(), |sum, one| sum.plus(one));
    let overheads: Vec<f64> = samples.iter().map(|sample| sample.overhead_ns).collect();
    if samples.iter().any(|sample| sample.batch > 1) {
        record.notes.extend(
            statistics::median(&overheads).map(|ns| {
                format!("subtracted from each batch: {ns:.0} ns of clock and kernel entry")
            }),
        );
    }
    let twins: Vec<f64> = samples.iter().filter_map(|sample| sample.twin_ns).collect();
    record.notes.extend(statistics::median(&twins).map(|ns| {
        format!("subtracted from each operation: {ns:.1} ns of the same loop without it")
    }));
    record.summary = Some(summary);
}

/// An operation that was timed singly and lasts less than 100 clock reads is shown with the
/// clock's floor (METHOD 5).
fn set_clock_floor(summary: &mut Summary, samples: &[Sample], read_ns: f64) {
    let single = samples.iter().all(|sample| sample.batch == 1);
    if single && summary.median < 100.0 * read_ns {
        summary.clock_floor = Some(read_ns);
    }
}

/// How many processes there were, and why not more (METHOD 13).
fn why_it_ended(processes: u32, plan: &Plan) -> String {
    let visits = plan.visits();
    let why = match (visits.processes_max > visits.processes_min, processes >= visits.processes_max)
    {
        (false, _) => "a fixed share",
        (true, false) => "the interval was narrow enough",
        (true, true) => "the most of this effort",
    };
    format!("{processes} processes: {why}")
}

/// A case that was stopped part of the way keeps what it has, and says how much that is.
fn note_interruption(record: &mut Record, processes: u32, wanted: u32) {
    if record.verdict.shows_number() && processes < wanted {
        let text = format!("the run was stopped after {processes} of {wanted} processes");
        let reason = Reason::new(Cause::Interrupted, text).with_remedy(Remedy::RunToEnd);
        record.verdict.state = State::Noisy;
        record.verdict.reasons.insert(0, reason);
    }
}

/// What a case should give, and how what it gave stands to that.
pub fn set_prediction(record: &mut Record, prediction: Result<Prediction, NoModel>) {
    match prediction {
        Err(none) => record.no_model = Some(none),
        Ok(prediction) => {
            let summary = record.summary.as_ref().filter(|_| record.verdict.shows_number());
            let agreement = summary.map(|summary| agreement(&prediction, summary));
            // A disturbance moves a number away from its model: that says nothing of the model.
            record.agreement = agreement.map(|agreement| match agreement {
                it if it.fails() && is_disturbances_doing(record, &prediction) => {
                    Agreement::Inconclusive
                }
                it => it,
            });
            record.prediction = Some(prediction);
        }
    }
}

/// Whether a number lies on the worse side of its prediction, and somebody else had the CPU or the
/// core was slow: no disturbance makes anything better.
fn is_disturbances_doing(record: &Record, prediction: &Prediction) -> bool {
    let Some(summary) = &record.summary else { return false };
    let is_worse = match record.better {
        Better::Lower => prediction.high.is_some_and(|high| summary.median > high),
        Better::Higher => prediction.low.is_some_and(|low| summary.median < low),
        Better::Neither => true,
    };
    let takes_time = |reason: &Reason| {
        matches!(
            reason.cause,
            Cause::Throttled
                | Cause::Capped
                | Cause::Steal
                | Cause::Contention
                | Cause::NotRunning
                | Cause::Interrupts
                | Cause::MajorFaults
                | Cause::Migration
                | Cause::SlowCore
        )
    };
    is_worse && record.verdict.reasons.iter().any(takes_time)
}

/// Compares the interval; of a value that is only known as a bound, from nothing to the bound.
fn agreement(prediction: &Prediction, summary: &Summary) -> Agreement {
    prediction.agreement(match summary.bound {
        Some(bound) => Some([summary.limits().map_or(0.0, |[low, _]| low.min(bound)), bound]),
        None => summary.limits(),
    })
}

#[cfg(test)]
mod tests {
    use fathom_record::Params;

    use super::*;

    #[test]
    fn a_computed_result_met_the_slowest_core_that_its_inputs_met() {
        let with = |spins: &[f64]| {
            let summary = Summary { process_spins: spins.to_vec(), ..Summary::default() };
            let (about, case) =
                (fathom_probes::REGISTRY.entries()[0].about(), Case::usual(Params::none()));
            Record { summary: Some(summary), ..empty(about, &case) }
        };
        let (one, other, none) = (with(&[1.0, 3.0]), with(&[2.0, 2.0]), with(&[]));
        assert_eq!(slowest_spins(&[&one, &other], 2), [2.0, 3.0]);
        assert!(slowest_spins(&[&one, &none], 2).is_empty(), "one of them has none");
        assert!(slowest_spins(&[&one], 3).is_empty(), "of another process");
    }

    #[test]
    fn what_a_computation_says_against_its_number_makes_it_noisy() {
        let about = fathom_probes::REGISTRY.entries()[0].about();
        let summary = statistics::summarise_estimates(&[14.0; 10]).unwrap();
        let verdict =
            |doubts: &[Reason]| of_estimate(about, &summary, doubts.to_vec(), [].into_iter());
        assert_eq!(verdict(&[]), Verdict::default());
        let doubts = [Reason::new(Cause::MissingInput, "only 3 of 5 processes")];
        assert_eq!(verdict(&doubts), Verdict { state: State::Noisy, reasons: doubts.into() });
    }
}
