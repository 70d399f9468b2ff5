//! What moved together (METHOD 27b): a factor for each class of cases that share a resource, and
//! each case net of the factor of its class.
//!
//! A factor is a mean of log ratios, weighted by their precision, of the cases near the weighted
//! median: less than half of the cases do not move it. Its error is that of a bootstrap over
//! processes, with the visits of one process kept together, times how much visits disagree beyond
//! that (Birge, Physical Review 40, 1932), of which few visits are weak evidence; but no less than
//! what kept runs of the host show to differ from run to run.

use std::collections::BTreeMap;

use fathom_record::Better;

use super::comparison::{Compared, ComparisonCase, EFFECT_MIN, Factor};
use super::core_speed::explains;
use super::noise::{Noise, Spread};
use super::sides::{RESAMPLES, RowSides};
use crate::classes::{CASES_MIN, slowness};
use crate::statistics::{Z_95, median, standard_deviation, student_limit, student_tails};

/// With fewer visits a class has no factor.
const VISITS_MIN: usize = 2;
/// A class is *unchanged* if the 90 % interval of its factor is within this of 1.
const UNCHANGED: f64 = 0.02;
/// The share of comparisons in which a class that did not move is named.
const FALSE_ALARMS: f64 = 0.05;
/// Cases further from the weighted median, in deviations, are beside the factor.
const BESIDE: f64 = 3.0;
/// So many visits would be as good evidence of their disagreement as processes are.
const PRIOR: f64 = 1.0;

/// Cases that differ more are changed, each in its own way: runs of one machine seldom differ by
/// more than this many times their processes.
const SCATTER_MAX: f64 = 3.0;
/// Student's t is normal.
const FREEDOM_MAX: f64 = 1e3;

/// A case that says how much slower its class is.
struct Vote<'a> {
    row: usize,
    visit: &'a str,
    /// Logarithm of how many times slower, and its error by resamples and by deviations.
    slower: f64,
    error: f64,
    deviation: f64,
    drawn: Vec<f64>,
    drift: f64,
}

/// The factors of all classes with enough cases: first those that moved, by size, of these first
/// the ones that the core's speed does not explain.
pub(super) fn factors(
    rows: &[Compared],
    sides: &[RowSides],
    noise: &Noise,
    seed: u64,
) -> Vec<Factor> {
    let mut classes: BTreeMap<&'static str, Vec<Vote<'_>>> = BTreeMap::new();
    for (at, (row, sides)) in rows.iter().zip(sides).enumerate() {
        let sign = slowness(row.better, row.unit).filter(|_| sides.votes);
        let (Some(class), Some(sign), Some(ratio)) = (row.class, sign, row.ratio) else { continue };
        let drawn: Vec<f64> = sides.drawn(seed).into_iter().map(|it| sign * it).collect();
        let error = standard_deviation(&drawn).zip(sides.deviation());
        let Some((error, (deviation, _))) = error else { continue };
        let (visit, slower) = (sides.visit.as_str(), sign * ratio.ln());
        let drift = sides.drift / Z_95;
        let vote = Vote { row: at, visit, slower, error, deviation, drawn, drift };
        classes.entry(class).or_default().push(vote);
    }
    let of_class = |(class, votes): (_, Vec<Vote<'_>>)| factor(class, &votes, rows, noise);
    let mut factors: Vec<Factor> = classes.into_iter().filter_map(of_class).collect();
    name_moved(&mut factors);
    let size = |it: &Factor| it.slower.ln().abs();
    let rank = |it: &Factor| (!it.moved, it.with_core);
    factors.sort_by(|a, b| rank(a).cmp(&rank(b)).then(size(b).total_cmp(&size(a))));
    factors
}

fn factor(
    class: &'static str,
    votes: &[Vote<'_>],
    rows: &[Compared],
    noise: &Noise,
) -> Option<Factor> {
    let least = median(&votes.iter().map(|it| it.error).collect::<Vec<f64>>())?;
    let least = least.max(f64::MIN_POSITIVE.sqrt());
    // One case that hardly differs from process to process does not decide for all others.
    let weight = |it: &Vote<'_>| (it.error.max(least) / least).powi(-2);
    let middle = weighted_median(votes.iter().map(|it| (it.slower, weight(it))).collect())?;
    let off: Vec<f64> = votes.iter().map(|it| (it.slower - middle).abs()).collect();
    let spread = 1.4826 * median(&off)?;
    let is_near =
        |it: &&Vote<'_>| (it.slower - middle).abs() <= BESIDE * spread.hypot(it.error.max(least));
    let near: Vec<&Vote<'_>> = votes.iter().filter(is_near).collect();
    let estimate = estimate(&near, &weight)?;
    if near.len() < CASES_MIN || estimate.visits < VISITS_MIN {
        return None;
    }
    let Estimated { slower, error: of_processes, visits, .. } = estimate;
    let between = noise.of_class(class);
    let drift = median(&votes.iter().map(|it| it.drift).collect::<Vec<f64>>())?;
    let (error, freedom) = Spread::at_least(between, (of_processes.hypot(drift), estimate.freedom));
    let limits = |beyond: f64| {
        let half = student_limit(beyond, freedom)? * error;
        Some([slower - half, slower + half].map(f64::exp))
    };
    let is_unchanged = limits(0.05)?.iter().all(|end| (end - 1.0).abs() <= UNCHANGED);
    let agrees = |it: &&Vote<'_>| {
        (it.slower - slower).abs() <= (1.96 * it.error.hypot(error)).max(EFFECT_MIN)
    };
    let of = |it: &Vote<'_>| {
        let Compared { metric, params, .. } = &rows[it.row];
        ComparisonCase { metric: metric.clone(), params: params.clone() }
    };
    let of_members = |what: &dyn Fn(&Compared) -> Option<f64>| {
        let all: Vec<f64> = votes.iter().filter_map(|it| what(&rows[it.row])).collect();
        median(&all).filter(|_| 2 * all.len() > votes.len())
    };
    let distance = |side: usize| of_members(&|row| row.distances.map(|it| it[side]));
    Some(Factor {
        class,
        slower: slower.exp(),
        interval: limits(0.025)?,
        p_adjusted: student_tails(slower / error, freedom)?,
        moved: false,
        error: of_processes,
        between_runs: between.map(|kept| kept.deviation.exp_m1()),
        unchanged_within: is_unchanged.then_some(UNCHANGED),
        scatter: scatter(&near, slower),
        agree: votes.iter().filter(agrees).count(),
        members: votes.iter().map(of).collect(),
        visits,
        core: of_members(&|row| row.core),
        with_core: false,
        distances: distance(0).zip(distance(1)).map(<[f64; 2]>::from),
        suspects: Vec::new(),
    })
}

/// How many times more cases differ from their factor than processes explain.
fn scatter(near: &[&Vote<'_>], slower: f64) -> f64 {
    // Half of normal values are within 0.67 deviations; a little more of those of few processes.
    let all = near.iter().map(|it| (it.slower - slower).abs() / it.deviation);
    median(&all.collect::<Vec<f64>>()).map_or(1.0, |it| (it / 0.71).clamp(1.0, SCATTER_MAX))
}

struct Estimated {
    slower: f64,
    error: f64,
    freedom: f64,
    visits: usize,
}

/// The weighted mean of votes, and its error.
fn estimate(votes: &[&Vote<'_>], weight: &dyn Fn(&Vote<'_>) -> f64) -> Option<Estimated> {
    let whole: f64 = votes.iter().map(|it| weight(it)).sum();
    let slower = votes.iter().map(|it| weight(it) * it.slower).sum::<f64>() / whole;
    let mut visits: BTreeMap<&str, Vec<&Vote<'_>>> = BTreeMap::new();
    votes.iter().for_each(|it| visits.entry(it.visit).or_default().push(it));
    let drawn = |of: &[&Vote<'_>]| -> f64 {
        let at = |draw: usize| of.iter().map(|it| weight(it) * it.drawn[draw]).sum::<f64>() / whole;
        standard_deviation(&(0..RESAMPLES).map(at).collect::<Vec<f64>>()).unwrap_or(0.0).powi(2)
    };
    // Of each visit its part of the weight, its variance and how far it is off.
    let parts: Vec<[f64; 3]> = visits
        .values()
        .map(|of| {
            let part = of.iter().map(|it| weight(it)).sum::<f64>() / whole;
            let off = of.iter().map(|it| weight(it) * (it.slower - slower)).sum::<f64>() / whole;
            [part, drawn(of), off]
        })
        .collect();
    let by_processes: f64 = parts.iter().map(|it| it[1]).sum();
    let expected = parts.iter().map(|[part, variance, _]| {
        (1.0 - part).powi(2) * variance + part.powi(2) * (by_processes - variance)
    });
    let expected: Vec<f64> = expected.collect();
    let disagree = parts.iter().map(|it| it[2].powi(2)).sum::<f64>() / expected.iter().sum::<f64>();
    // Visits of little weight are little evidence.
    let square = expected.iter().sum::<f64>().powi(2);
    let freedom = square / expected.iter().map(|it| it * it).sum::<f64>() - 1.0;
    let freedom = if freedom.is_finite() { freedom.max(0.0) } else { 0.0 };
    let disagree = if disagree.is_finite() { disagree } else { 1.0 };
    let times = (PRIOR + freedom * disagree) / (PRIOR + freedom);
    // Of a sum of what is known and an estimate (Satterthwaite).
    let freedom = (PRIOR + freedom * disagree).powi(2) / (freedom * disagree.powi(2));
    // What runs of A differ in is common to all visits.
    let of_runs = (drawn(votes) - by_processes).max(0.0);
    let error = (by_processes * times + of_runs).sqrt();
    slower.is_finite().then_some(Estimated {
        slower,
        error,
        freedom: if freedom.is_finite() { freedom.min(FREEDOM_MAX) } else { FREEDOM_MAX },
        visits: visits.len(),
    })
}

/// Adjusts p (Holm, Scandinavian Journal of Statistics 6, 1979) and says which classes moved, and
/// which of these with the core.
fn name_moved(factors: &mut [Factor]) {
    factors.sort_by(|a, b| a.p_adjusted.total_cmp(&b.p_adjusted));
    let (count, mut least) = (factors.len(), 0.0_f64);
    for (rank, factor) in factors.iter_mut().enumerate() {
        least = least.max((factor.p_adjusted * (count - rank) as f64).min(1.0));
        factor.p_adjusted = least;
        // Cases that mostly disagree did not move together.
        let is_common = 2 * factor.agree > factor.members.len();
        let is_large = factor.slower.ln().abs() > EFFECT_MIN.ln_1p();
        factor.moved = least < FALSE_ALARMS && is_large && is_common;
        // Noise between runs does not make it more likely.
        let half = Z_95 * factor.error;
        let interval = [-half, half].map(|it| factor.slower * it.exp());
        let is_core = |core| explains(core, interval, Better::Lower, EFFECT_MIN);
        factor.with_core = factor.moved && factor.core.is_some_and(is_core);
    }
}

fn weighted_median(mut all: Vec<(f64, f64)>) -> Option<f64> {
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let half = all.iter().map(|it| it.1).sum::<f64>() / 2.0;
    let mut below = 0.0;
    let found = all.iter().find(|(_, weight)| {
        below += weight;
        below >= half
    });
    found.map(|(value, _)| *value)
}
