//! From the results of visits to records.

use fathom_analysis::choice::{Choice, Distances, choose};
use fathom_analysis::core_state::CoreStates;
use fathom_analysis::judge::{self, Expectation, judge};
use fathom_analysis::statistics;
use fathom_analysis::strata::Strata;
use fathom_measure::sampler::SamplerFault;
use fathom_metric::{About, Derived, Inputs, MissingInput, ProbeCase};
use fathom_record::{
    Agreement, Basis, Better, Cause, Counter, Counters, Document, Estimate, Fact, FactValue,
    Interval, MetricId, NoModel, NotSelected, Prediction, Reason, Record, Remedy, Sample, State,
    Stratum, Summary, Unit, Verdict,
};

use crate::visits::ProbeVisits;

/// The records of a run so far.
#[derive(Default)]
pub(crate) struct Results {
    pub(crate) records: Vec<Record>,
    /// The same with unfiltered headlines and without samples, for models of which an input has no
    /// estimate at full speed.
    found: Vec<Record>,
}

impl Results {
    fn push(&mut self, record: Record) {
        self.found.push(Record { samples: None, ..record.clone().as_found() });
        self.records.push(record);
    }
}

/// What is known of the core and of the CPUs over a run.
#[derive(Clone, Copy)]
pub(crate) struct MeasuredCore<'s> {
    pub(crate) states: Option<&'s CoreStates>,
    pub(crate) distances: &'s Distances,
    /// The error of what depends on the core, as a share, because its speed drifts.
    pub(crate) drift: f64,
}

/// Appends the records of a measured metric, in the order of its cases.
pub(crate) fn measured<'v, 'p>(
    units: &'v [ProbeVisits<'p>],
    document: &Document,
    core: MeasuredCore<'_>,
    results: &mut Results,
) {
    let units = units.iter().filter(|unit| !unit.is_left_out);
    let of_unit =
        |visited: &'v ProbeVisits<'p>| (0..visited.unit.cases.len()).map(move |at| (visited, at));
    let mut cases: Vec<(&ProbeVisits<'p>, usize)> = units.flat_map(of_unit).collect();
    cases.sort_by_key(|(visited, at)| visited.unit.places[*at]);
    for (visited, at) in cases {
        let ProbeVisits { unit, probe, faults, failure, .. } = visited;
        let (about, case, samples) = (probe.about(), &unit.cases[at], &visited.samples[at]);
        if samples.is_empty() && faults[at].is_none() && failure.is_none() {
            // The run was interrupted before the first visit of this metric.
            continue;
        }
        let mut record = empty(about, case);
        record.visit = match unit.cases.len() {
            1 => format!("{}/{}", document.run.id, record.name()),
            _ => format!("{}/{}", document.run.id, about.id),
        };
        let noise_limit = probe.noise_limit(case, &document.host);
        let about = &About { expects: probe.expects(case), noise_limit, ..*about };
        let may = visited.selection[at];
        let Choice { samples: chosen, notes, distance_ns } = match visited.visits.trials {
            // The protocol keeps every trial.
            true => Choice::from_samples(samples, Vec::new()),
            false => choose(samples, core.distances, about.unit),
        };
        let offline = faults[at].as_ref().and_then(offline).filter(|_| !samples.is_empty());
        match failure_verdict(failure, faults[at].as_ref().filter(|_| offline.is_none())) {
            Some(verdict) => record.verdict = verdict,
            None => {
                let strata = Strata::new(&chosen, may, core.states);
                let summary = strata.summarise().map(|it| Summary { distance_ns, ..it });
                let drift = if may == Err(NotSelected::Device) { 0.0 } else { core.drift };
                let summary = summary.map(|summary| summary.with_error(drift));
                let (of_state, states) = (strata.headline(), core.states);
                let headline = HeadlineSamples { summary, samples: of_state, states, drift };
                let read_ns = document.run.clock.read_ns;
                record.notes.extend(notes);
                fill(&mut record, about, &chosen, headline, (about.is_difference, read_ns));
            }
        }
        let doubt = visited.doubt.as_ref().filter(|_| probe.reads_device(case));
        let doubt = doubt.map(|why| Reason::new(Cause::NotAsAsked, why));
        doubted(&mut record.verdict, doubt.map(|it| it.with_remedy(Remedy::OtherFolder)));
        record.facts = stated(&chosen);
        note_early_end(&mut record, samples.len() as u32, visited.least, offline);
        record.notes.push(process_count_note(visited));
        let predict = |records: &[Record]| {
            let known = Inputs::new(records).under(&document.run.clock);
            probe.predict(case, &document.host, &known)
        };
        let prediction = predicted(&record, results, &predict);
        set_prediction(&mut record, prediction, about.expects, core.states);
        record.samples = (!samples.is_empty()).then(|| samples.clone());
        results.push(record);
    }
}

/// Makes a number with doubts noisy: they come first.
pub(crate) fn doubted(verdict: &mut Verdict, doubts: impl IntoIterator<Item = Reason>) {
    let mut doubts = doubts.into_iter().peekable();
    if verdict.shows_number() && doubts.peek().is_some() {
        verdict.state = State::Noisy;
        verdict.reasons.splice(0..0, doubts);
    }
}

/// The facts of all samples, in the order of the first: medians, and texts that differ.
fn stated(samples: &[Sample]) -> Vec<Fact> {
    let mut facts: Vec<Fact> = Vec::new();
    for fact in samples.iter().flat_map(|sample| &sample.facts) {
        if facts.iter().any(|known| known.name == fact.name) {
            continue;
        }
        let of_name = samples.iter().flat_map(|sample| &sample.facts);
        let of_name = of_name.filter(|other| other.name == fact.name).map(|other| &other.value);
        let (mut values, mut texts) = (Vec::new(), Vec::new());
        for value in of_name {
            match value {
                FactValue::Quantity { value, .. } => values.push(*value),
                FactValue::Text { text } | FactValue::Line { line: text } => {
                    if !texts.contains(text) {
                        texts.push(text.clone());
                    }
                }
            }
        }
        facts.push(match (&fact.value, statistics::median(&values)) {
            (FactValue::Quantity { unit, .. }, Some(median)) => {
                Fact::quantity(&fact.name, median, *unit)
            }
            _ => Fact::text(&fact.name, texts.join(" or ")),
        });
    }
    facts
}

/// Appends the records of a derived metric.
pub(crate) fn derived(
    derived: &dyn Derived,
    cases: &[ProbeCase],
    document: &Document,
    core: MeasuredCore<'_>,
    results: &mut Results,
) {
    let about = derived.about();
    for case in cases {
        let mut record = empty(about, case);
        record.derived_from = derived.inputs().iter().map(|need| MetricId::new(*need)).collect();
        // The drift of the core cancels in a ratio, and moves no edge.
        let is_timed = !matches!(about.unit, Unit::Bytes | Unit::Ratio);
        let drift = if is_timed { core.drift } else { 0.0 };
        let of = |records| derive(derived, case, document, records, drift);
        // Of one state of the core if all sources are, else of all processes.
        let selected = of(&results.records);
        let stratum = selected.as_ref().map_or(Stratum::AsFound, |it| it.stratum);
        let chosen = match stratum {
            Stratum::AsFound => of(&results.found),
            _ => selected,
        };
        match chosen {
            Err(missing) => {
                let reason = Reason::new(Cause::MissingInput, missing.to_string());
                let reasons = vec![reason.with_remedy(missing.remedy())];
                record.verdict = Verdict { state: State::Unavailable, reasons };
            }
            Ok(result) => {
                let found = of(&results.found).ok().and_then(|found| found.estimate());
                record.notes.clone_from(&result.notes);
                record.facts.clone_from(&result.facts);
                record.verdict = match &result.summary {
                    Some(summary) => {
                        derived_verdict(about, summary, result.doubts.clone(), &result.inputs)
                    }
                    None => {
                        let (state, cause) = (State::Unavailable, Cause::MissingInput);
                        Verdict::because(state, cause, "no process has a value")
                    }
                };
                let edge = result.edge;
                let in_state = result.estimate().filter(|_| stratum != Stratum::AsFound);
                let not_selected = (stratum == Stratum::AsFound).then_some(NotSelected::Input);
                record.summary = result.summary.map(|summary| Summary {
                    stratum,
                    not_selected,
                    in_state,
                    as_found: found,
                    interval: edge.or(summary.interval),
                    ..summary
                });
            }
        }
        let predict = |records: &[Record]| {
            let known = Inputs::new(records).under(&document.run.clock);
            derived.predict(&case.params, &document.host, &known)
        };
        let prediction = predicted(&record, results, &predict);
        set_prediction(&mut record, prediction, about.expects, core.states);
        results.push(record);
    }
}

/// A derived result with its source records.
struct Derivation<'r> {
    summary: Option<Summary>,
    /// Replaces the interval of a location that was found between two points. The verdict goes by
    /// the interval of what the processes found: a step is no noise.
    edge: Option<Interval>,
    stratum: Stratum,
    notes: Vec<String>,
    facts: Vec<Fact>,
    doubts: Vec<Reason>,
    /// Records whose doubts the result inherits.
    inputs: Vec<&'r Record>,
    /// Records that the result is computed from.
    sources: Vec<&'r Record>,
}

fn derive<'r>(
    derived: &dyn Derived,
    case: &ProbeCase,
    document: &Document,
    records: &'r [Record],
    drift: f64,
) -> Result<Derivation<'r>, MissingInput> {
    let known = Inputs::new(records).under(&document.run.clock).on(&document.host);
    let estimate = derived.reduce(&case.params, &known)?;
    let rests_on = |one: &&Record| derived.depends_on(&case.params, one, &known);
    let inputs: Vec<&Record> = records.iter().filter(rests_on).collect();
    let mut summary = match estimate.quotient {
        Some(quotient) => statistics::summarise_quotients(&estimate.per_process, quotient),
        None => statistics::summarise_estimates(&estimate.per_process),
    };
    summary = summary.map(|summary| summary.with_error(drift));
    if let Some(summary) = summary.as_mut().filter(|_| estimate.difference) {
        summary.bound = statistics::difference_bound(summary);
    }
    // The sources decide the stratum, also where the result depends on no single record.
    let of_inputs = |one: &&Record| derived.inputs().contains(&one.metric.as_str());
    let sources = match inputs.as_slice() {
        [] => records.iter().filter(of_inputs).collect(),
        _ => inputs.clone(),
    };
    let strata = sources.iter().filter_map(|input| Some(input.summary.as_ref()?.stratum));
    let strata: Vec<Stratum> = strata.collect();
    let stratum = match strata.as_slice() {
        [first, others @ ..] if others.iter().all(|other| other == first) => *first,
        _ => Stratum::AsFound,
    };
    let edge = summary.as_ref().and_then(|it| edge_of(&estimate.edges, it.interval?.level));
    let (notes, facts, doubts) = (estimate.notes, estimate.facts, estimate.doubts);
    Ok(Derivation { summary, edge, stratum, notes, facts, doubts, inputs, sources })
}

/// From the lower points on the near sides of an edge to the upper ones on its far sides.
fn edge_of(edges: &[[f64; 2]], level: f64) -> Option<Interval> {
    let of = |side: usize| edges.iter().map(|edge| edge[side]).collect::<Vec<f64>>();
    let (([low, _], _), ([_, high], _)) =
        statistics::median_interval(&of(0)).zip(statistics::median_interval(&of(1)))?;
    Some(Interval::new([low, high], level, Basis::Grid))
}

impl Derivation<'_> {
    /// The estimate, with the reference loop of each process: the median over the sources that have
    /// as many processes.
    fn estimate(&self) -> Option<Estimate> {
        let summary = self.summary.as_ref()?;
        let processes = summary.process_medians.len();
        let estimates = self.sources.iter().filter_map(|input| input.summary.as_ref()?.estimate());
        let estimates: Vec<&Estimate> = estimates.collect();
        // Sources that do not depend on the core's speed have no loops.
        let loops = estimates.iter().map(|one| one.process_loops.as_slice());
        let loops: Vec<&[f64]> = loops.filter(|one| one.len() == processes).collect();
        let of_process = |process: usize| {
            statistics::median(&loops.iter().map(|one| one[process]).collect::<Vec<f64>>())
        };
        let medians: Option<Vec<f64>> = (0..processes).map(of_process).collect();
        Some(Estimate {
            median: summary.median,
            interval: self.edge.or(summary.interval),
            visits: summary.processes,
            of: estimates.iter().map(|one| one.of).max().unwrap_or(0),
            process_medians: summary.process_medians.clone(),
            process_loops: medians.unwrap_or_default(),
        })
    }
}

/// The prediction of a case, in the stratum of its headline: of one state of the core if the case
/// and all inputs of the model are, else of all processes (METHOD 23b).
fn predicted(
    record: &Record,
    results: &mut Results,
    predict: &dyn Fn(&[Record]) -> Result<Prediction, NoModel>,
) -> Result<Prediction, NoModel> {
    let stratum = record.summary.as_ref().map_or(Stratum::AsFound, |summary| summary.stratum);
    if stratum != Stratum::AsFound {
        let prediction = predict(&results.records)?;
        let is_selected = |name: &str| {
            let input = results.records.iter().rev().find(|one| one.name() == name);
            let summary = input.and_then(|input| input.summary.as_ref());
            summary.is_some_and(|summary| summary.stratum != Stratum::AsFound)
        };
        if prediction.results().all(is_selected) {
            let prediction = from_undisturbed(prediction, &results.records)?;
            return Ok(with_uncertainty(prediction, stratum, &mut results.records, predict));
        }
    }
    let prediction = from_undisturbed(predict(&results.found)?, &results.found)?;
    Ok(with_uncertainty(prediction, Stratum::AsFound, &mut results.found, predict))
}

/// The prediction, unless it has two limits and a result among its inputs is noisy. A bound stays:
/// it is far from what a disturbance adds.
pub(crate) fn from_undisturbed(
    prediction: Prediction,
    records: &[Record],
) -> Result<Prediction, NoModel> {
    let is_noisy = |name: &&str| {
        let has_number = |one: &&Record| one.name() == *name && one.verdict.shows_number();
        let input = records.iter().rev().find(has_number);
        input.is_some_and(|input| input.verdict.state == State::Noisy)
    };
    let has_two = prediction.low.and(prediction.high).is_some();
    let noisy = has_two.then(|| prediction.results().find(is_noisy)).flatten();
    match noisy.map(str::to_owned) {
        Some(metric) => Err(NoModel::NoisyInput { metric }),
        None => Ok(prediction),
    }
}

/// Sets the uncertainty of a prediction from the intervals of its inputs: each input is moved to
/// both ends of its interval, and the changes of the limit are added in quadrature.
pub(crate) fn with_uncertainty(
    mut prediction: Prediction,
    stratum: Stratum,
    records: &mut [Record],
    predict: &dyn Fn(&[Record]) -> Result<Prediction, NoModel>,
) -> Prediction {
    let limit = |prediction: &Prediction| prediction.low.or(prediction.high).filter(|it| *it > 0.0);
    let Some(middle) = limit(&prediction) else { return prediction };
    let mut names: Vec<String> = prediction.results().map(str::to_owned).collect();
    names.sort_unstable();
    names.dedup();
    let mut squares = 0.0;
    for name in names {
        let is_input = |one: &Record| one.name() == name && one.verdict.shows_number();
        let Some(at) = records.iter().rposition(is_input) else { continue };
        let Some(summary) = records[at].summary.clone() else { continue };
        let ends = summary.limits().unwrap_or([summary.median; 2]).map(|end| {
            let moved = Summary { median: end, ..summary.clone() };
            records[at].summary = Some(moved);
            predict(records).ok().and_then(|it| limit(&it)).unwrap_or(middle)
        });
        records[at].summary = Some(summary);
        squares += ((ends[1] - ends[0]) / 2.0 / middle).powi(2);
    }
    // More than 100 % makes any measurement inconclusive.
    prediction.uncertainty = squares.sqrt().min(1.0);
    prediction.stratum = stratum;
    prediction
}

/// The verdict on a derived result: doubts of the computation first, then those of its inputs.
fn derived_verdict(
    about: &About,
    summary: &Summary,
    doubts: Vec<Reason>,
    inputs: &[&Record],
) -> Verdict {
    let mut own = judge(&[], summary, expectation(about), None);
    doubted(&mut own, doubts);
    for record in inputs.iter().filter(|record| record.verdict.state == State::Noisy) {
        own.state = State::Noisy;
        // Noisy inputs explain a wide interval.
        own.reasons.retain(|it| !it.cause.is_of_spread());
        for reason in &record.verdict.reasons {
            if !own.reasons.iter().any(|known| known.cause == reason.cause) {
                let text = format!("{}: {}", record.name(), reason.text);
                own.reasons.push(Reason { text, ..reason.clone() });
            }
        }
    }
    own
}

fn empty(about: &About, case: &ProbeCase) -> Record {
    let (metric, params) = (MetricId::new(about.id), case.params.clone());
    Record::new(metric, params, about.title, about.unit, about.better)
}

fn expectation(about: &About) -> Expectation {
    Expectation { expects: about.expects, noise_limit: about.noise_limit, better: about.better }
}

/// The verdict on a case without a result: a failed visit or a fault of the case.
fn failure_verdict(failure: &Option<Reason>, fault: Option<&SamplerFault>) -> Option<Verdict> {
    if let Some(reason) = failure {
        return Some(Verdict { state: State::Failed, reasons: vec![reason.clone()] });
    }
    Some(match fault? {
        SamplerFault::Unavailable(what, remedy) => {
            let reason = Reason::new(Cause::Missing, what).with_remedy(remedy.clone());
            Verdict { state: State::Unavailable, reasons: vec![reason] }
        }
        SamplerFault::WrongWork(reason) => {
            Verdict::because(State::Invalid, Cause::WrongWork, reason)
        }
        SamplerFault::FarEndLost(text) => Verdict::because(State::Failed, Cause::FarEndLost, text),
        SamplerFault::CpuOffline(cpu, text) => {
            let reason = Reason::new(Cause::CpuOffline, text);
            let reasons = vec![reason.with_remedy(Remedy::AllowCpu { cpu: *cpu })];
            Verdict { state: State::Failed, reasons }
        }
        SamplerFault::Failed(reason) => Verdict::because(State::Failed, Cause::Crashed, reason),
    })
}

/// Prefix of checks by a far end.
const FAR: &str = "far end: ";

/// The samples behind a headline, their summary, and the states of the core.
pub(crate) struct HeadlineSamples<'s> {
    pub(crate) summary: Option<Summary>,
    pub(crate) samples: &'s [Sample],
    pub(crate) states: Option<&'s CoreStates>,
    /// The error of every interval because the speed of the core drifted, as a share.
    pub(crate) drift: f64,
}

/// Sets summary, verdict, checks and notes of a record.
pub(crate) fn fill(
    record: &mut Record,
    about: &About,
    samples: &[Sample],
    headline: HeadlineSamples<'_>,
    (is_difference, read_ns): (bool, f64),
) {
    let Some(mut summary) = headline.summary else {
        record.verdict = Verdict::because(State::Failed, Cause::Crashed, "no process has a value");
        return;
    };
    // No loops if the core's speed is the result or does not affect it, or if threads of the probe
    // may slow the loop.
    let is_own = summary.not_selected == Some(NotSelected::SecondCpu);
    if is_own || about.unit == Unit::Hertz || about.expects.has(Counter::CoreSpeed) {
        let estimates = summary.in_state.iter_mut().chain(&mut summary.as_found);
        estimates.for_each(|estimate| estimate.process_loops.clear());
    }
    // The tail of a rate is at its lower end.
    if about.unit != Unit::Nanoseconds {
        summary.quantiles.clear();
    }
    if is_difference {
        summary.bound = statistics::difference_bound(&summary);
    }
    // METHOD 5: single operations shorter than 100 clock reads are shown with the clock's cost.
    let is_single = headline.samples.iter().all(|sample| sample.batch == 1);
    if is_single && summary.median < 100.0 * read_ns {
        summary.clock_floor = Some(read_ns);
    }
    // A failed check in any visit makes the case invalid.
    let is_wrong = samples.iter().flat_map(Sample::checks_of_both).any(|check| !check.passed);
    let judged = if is_wrong { samples } else { headline.samples };
    record.verdict = judge(judged, &summary, expectation(about), headline.states);
    name_drift(&mut record.verdict, &summary, about.noise_limit, headline.drift);
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
    let disturbances = headline.samples.iter().map(|sample| sample.disturbance.clone());
    record.disturbance = disturbances.reduce(|sum, one| sum.plus(&one)).unwrap_or_default();
    let overheads: Vec<f64> = samples.iter().map(|sample| sample.overhead_ns).collect();
    if samples.iter().any(|sample| sample.batch > 1) {
        // Less than 0.5 ns is not significant.
        let overhead = statistics::median(&overheads).filter(|ns| *ns >= 0.5);
        record.notes.extend(
            overhead.map(|ns| format!("overhead of {ns:.0} ns per batch subtracted (clock, call)")),
        );
    }
    let twins: Vec<f64> = samples.iter().filter_map(|sample| sample.twin_ns).collect();
    record.notes.extend(
        statistics::median(&twins)
            .map(|ns| format!("twin loop of {ns:.1} ns per operation subtracted")),
    );
    record.summary = Some(summary);
}

/// Names the drift of the core in place of an unknown cause, where the interval is wide because of
/// it. The run says how large it is.
fn name_drift(verdict: &mut Verdict, summary: &Summary, noise_limit: f64, drift: f64) {
    let half_width = summary.relative_half_width().unwrap_or_default();
    let own = (half_width.powi(2) - drift.powi(2)).max(0.0).sqrt();
    let is_unknown = |it: &Reason| it.cause.is_of_spread();
    if own <= noise_limit && verdict.reasons.iter().any(is_unknown) {
        verdict.reasons.retain(|reason| !is_unknown(reason));
        let text = "the speed of the core drifted over the run";
        verdict.reasons.insert(0, Reason::new(Cause::MachineDrift, text));
    }
}

/// The number of processes, and the reason for it (METHOD 13).
fn process_count_note(visited: &ProbeVisits<'_>) -> String {
    let why = match visited.visits.processes {
        Some(_) => "fixed",
        None => "planned after one visit, by its cost and spread",
    };
    format!("{} processes ({why})", visited.made)
}

/// The CPU that ended the visits of a case. Those before it stay.
fn offline(fault: &SamplerFault) -> Option<(u32, &str)> {
    if let SamplerFault::CpuOffline(cpu, text) = fault { Some((*cpu, text)) } else { None }
}

/// Marks a case as noisy that was interrupted, or whose CPU went offline.
fn note_early_end(record: &mut Record, processes: u32, wanted: u32, offline: Option<(u32, &str)>) {
    if record.verdict.shows_number() && processes < wanted {
        let (cause, why, remedy) = match offline {
            Some((cpu, why)) => (Cause::CpuOffline, why, Remedy::AllowCpu { cpu }),
            None => (Cause::Interrupted, "run stopped", Remedy::RunToEnd),
        };
        let text = format!("{why} after {processes} of {wanted} processes");
        record.verdict.state = State::Noisy;
        record.verdict.reasons.insert(0, Reason::new(cause, text).with_remedy(remedy));
    }
}

/// Marks a number of an emulated CPU as noisy. A prediction is of the machine: not compared.
pub(crate) fn note_emulation(record: &mut Record, document: &Document) {
    let is_timed = record.summary.is_some() && record.unit != Unit::Bytes;
    if is_timed && record.verdict.shows_number() && document.is_emulated(&record.params) {
        let text = "the CPU is emulated: valid within this run only";
        record.verdict.reasons.insert(0, Reason::new(Cause::Emulated, text));
        (record.verdict.state, record.agreement) = (State::Noisy, None);
    }
}

/// Sets the prediction of a record and its agreement with the measurement.
pub(crate) fn set_prediction(
    record: &mut Record,
    prediction: Result<Prediction, NoModel>,
    expects: Counters,
    states: Option<&CoreStates>,
) {
    match prediction {
        Err(none) => record.no_model = Some(none),
        Ok(prediction) => {
            record.agreement = record.shown_summary().map(|summary| {
                let found = (prediction.stratum == Stratum::AsFound).then(|| summary.as_found());
                let summary = found.as_ref().unwrap_or(summary);
                let agreement = agreement(&prediction, summary);
                // A prediction is of a core to itself.
                let slowdown = judge::worst_case_slowdown(record, expects, states);
                let is_explained = agreement.fails()
                    && is_explained(summary, &prediction, record.better, slowdown);
                if is_explained { Agreement::Inconclusive } else { agreement }
            });
            record.prediction = Some(prediction);
        }
    }
}

/// Whether disturbances explain that a number is outside its prediction: it is on the worse side,
/// and off by at most this slowdown.
fn is_explained(summary: &Summary, prediction: &Prediction, better: Better, slowdown: f64) -> bool {
    let Some([low, high]) = summary.limits() else { return false };
    let above = prediction.high.is_some_and(|limit| low > limit && low <= limit * slowdown);
    let below = prediction.low.is_some_and(|limit| high < limit && high * slowdown >= limit);
    match better {
        Better::Lower => above,
        Better::Higher => below,
        Better::Neither => above || below,
    }
}

/// Compares the interval with the prediction. For a bound, the interval from 0 to the bound: its
/// own interval is not shown, so that no reader could follow.
fn agreement(prediction: &Prediction, summary: &Summary) -> Agreement {
    let of_bound = summary.bound.map(|bound| [0.0, bound]);
    prediction.agreement(of_bound.or_else(|| summary.limits()))
}

#[cfg(test)]
mod tests;
