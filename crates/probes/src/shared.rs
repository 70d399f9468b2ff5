//! Parts that several probes share: simple models, and visits case by case.

use std::mem::MaybeUninit;

use fathom_measure::sampler::SamplerFault;
use fathom_measure::{Clock, Sampler, SamplerWork};
use fathom_metric::order::Order;
use fathom_metric::sum::{Sum, Term};
use fathom_metric::{Inputs, ProbeCase, earlier};
use fathom_record::{NoModel, Params, Prediction, Unit};
/// A prediction, or why there is none.
pub(crate) type Model = Result<Prediction, NoModel>;
pub(crate) type Result<T, E = SamplerFault> = std::result::Result<T, E>;

/// The bound `≥` an earlier result. `source`: why the case cannot cost less.
pub(crate) fn at_least(metric: &str, params: &Params, source: &str, known: &Inputs<'_>) -> Model {
    Order { factor: 1.0, metric, source }.claim(params, known)
}

/// The bound `≤` an earlier result. `meaning`: why a case may exceed it.
pub(crate) fn at_most(
    (name, limit): (&str, f64),
    unit: Unit,
    (source, meaning): (&str, &str),
) -> Prediction {
    let bound = Prediction::at_most(limit, &format!("≤ {name}"), source);
    bound.with_result(name, limit, unit).if_above(meaning)
}

/// The bound `≤` an earlier result of this run in nanoseconds.
pub(crate) fn at_most_earlier(
    metric: &str,
    params: &Params,
    texts: (&str, &str),
    known: &Inputs<'_>,
) -> Model {
    let limit = earlier(metric, params, known)?;
    Ok(at_most((&format!("{metric}{params}"), limit), Unit::Nanoseconds, texts))
}

pub(crate) fn getppid() -> Params {
    Params::one("call", "getppid")
}

/// The bound `≥ factor × os.syscall{call=getppid}`: the operation makes that many system calls at
/// least, each of which does no less than getppid.
pub(crate) fn at_least_getppid(factor: f64, source: &str, known: &Inputs<'_>) -> Model {
    Order { factor, metric: "os.syscall", source }.claim(&getppid(), known)
}

/// The result of a sibling as the value, within a tolerance: a self-consistency. `otherwise`: what
/// another value means.
pub(crate) fn same_as(
    (metric, params): (&str, Params),
    tolerance: f64,
    (source, otherwise): (&str, &str),
    known: &Inputs<'_>,
) -> Model {
    let terms = [Term::once(metric, params)];
    Ok(Sum { terms: &terms, tolerance, source, otherwise }.predict(known)?.self_consistent())
}

/// The parsed parameters of a case.
pub(crate) fn parsed<T>(params: &Params, parse: fn(&Params) -> Option<T>) -> Result<T, NoModel> {
    parse(params).ok_or_else(|| NoModel::no_such_case(params))
}

/// The parsed parameters of all cases, with their indices.
pub(crate) fn all_parsed<T>(
    cases: &[ProbeCase],
    parse: fn(&Params) -> Option<T>,
) -> Result<Vec<(T, usize)>> {
    let of_case = |(index, case): (usize, &ProbeCase)| {
        let parsed = parse(&case.params).ok_or_else(|| crate::unknown_case(&case.params))?;
        Ok((parsed, index))
    };
    cases.iter().enumerate().map(of_case).collect()
}

/// Measures one case after the other; the fault of one does not end the visit.
pub(crate) fn each(
    cases: &[ProbeCase],
    sampler: &mut Sampler,
    mut measure: impl FnMut(usize, &ProbeCase, &mut Sampler) -> Result<()>,
) -> Result<()> {
    for (index, case) in cases.iter().enumerate() {
        if let Err(fault) = measure(index, case, sampler) {
            sampler.fault(index, fault);
        }
    }
    Ok(())
}

/// The same with the parsed parameters of each case.
pub(crate) fn each_parsed<T>(
    cases: &[ProbeCase],
    sampler: &mut Sampler,
    parse: impl Fn(&Params) -> Option<T>,
    mut measure: impl FnMut(usize, T, &mut Sampler) -> Result<()>,
) -> Result<()> {
    each(cases, sampler, |index, case, sampler| {
        let parsed = parse(&case.params).ok_or_else(|| crate::unknown_case(&case.params))?;
        measure(index, parsed, sampler)
    })
}

/// An operation of one case that times itself and returns one value. `batch`: operations per value.
pub(crate) fn single<'k>(
    case: usize,
    batch: u64,
    mut operation: impl FnMut(&Clock) -> Result<f64> + 'k,
) -> SamplerWork<'k> {
    let operation = Box::new(move |clock: &Clock, values: &mut [f64]| {
        values[0] = operation(clock)?;
        Ok(())
    });
    SamplerWork::Single { cases: vec![case], batch, operation, timings: None }
}

/// Resource usage of the calling thread.
pub(crate) fn thread_usage() -> libc::rusage {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is to writable memory of the type that the call writes, and a zeroed
    // `rusage` is valid.
    unsafe {
        libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
        usage.assume_init()
    }
}
