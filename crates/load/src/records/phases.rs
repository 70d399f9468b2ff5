//! The parts of response times.

use fathom_record::{Fact, Unit};

use crate::engine::Phase;
use crate::step::Step;

/// The fewest times with a 99th percentile.
const TIMES_MIN: u64 = 1_000;

/// Median and 99th percentile of each part, and how long the name took to resolve.
pub(super) fn facts(step: &Step, resolve_ns: Option<u64>) -> Vec<Fact> {
    let Some(phases) = &step.phases else { return Vec::new() };
    let ns = |name: &str, ns: f64| Fact::quantity(name, ns, Unit::Nanoseconds);
    let of = |phase: Phase| {
        let (times, word) = (phases.of(phase), phase.word());
        let p99 = times.quantile(0.99).filter(|_| times.len() >= TIMES_MIN);
        let p99 = p99.map(|time| ns(&format!("{word}, p99"), time));
        times.quantile(0.5).map(|time| ns(word, time)).into_iter().chain(p99)
    };
    let resolve = resolve_ns.map(|time| ns("resolve", time as f64));
    resolve.into_iter().chain(Phase::ALL.into_iter().flat_map(of)).collect()
}
