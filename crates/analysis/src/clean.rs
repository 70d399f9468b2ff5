//! Selection of visits on a core at full speed (METHOD 23a), by the reference loop and the counters
//! of each round. The types here hold no measured values, so values cannot affect the selection.
//!
//! The loop has two parts. A chain with a taken branch in each cycle is limited by fetch bandwidth,
//! which a busy SMT sibling halves. A chain of multiplications leaves the core idle for two cycles
//! in three, so only the frequency limits it.

use fathom_record::{NotSelected, Reference, Sample};
use serde::{Deserialize, Serialize};

/// Relative tolerance of SMT contention in a clean round.
pub const TOLERANCE: f64 = 0.02;
/// Relative tolerance of the frequency in a clean round. Wider, because the frequency of a core
/// depends on the load of the other cores.
const FREQUENCY_TOLERANCE: f64 = 0.05;
/// The smallest share of all loops that makes a cluster: a few fast loops are outliers.
const CLUSTER_MIN: f64 = 0.1;
/// The smallest share of clean rounds in a undisturbed visit: 2 of 3.
const ROUNDS_MIN: (usize, usize) = (2, 3);
const LOOPS_MIN: usize = 50;
/// The work itself slows the loop if, of the visits that start at full speed, at least this share
/// have slow loops from then on.
const OWN_WORK_MIN: f64 = 0.8;
const OWN_WORK_VISITS_MIN: usize = 3;

/// The times of both parts of one reference loop, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Loop {
    /// The part that a busy SMT sibling slows.
    pub sibling_ns: f64,
    /// The part that depends on the frequency only.
    pub frequency_ns: f64,
}

impl From<Reference> for Loop {
    fn from(reference: Reference) -> Self {
        Self { sibling_ns: reference.loop_ns, frequency_ns: reference.frequency_ns }
    }
}

impl Loop {
    /// SMT contention, independent of the frequency.
    fn contention(&self) -> f64 {
        self.sibling_ns / self.frequency_ns
    }

    /// Whether both parts agree with the reference, within the tolerances of a clean round.
    #[must_use]
    pub fn is_at(&self, reference: &Self) -> bool {
        self.has_idle_sibling(reference) && self.is_at_frequency_of(reference)
    }

    /// Whether neither part is slower than the reference, within the same tolerances.
    #[must_use]
    pub fn is_as_fast_as(&self, reference: &Self) -> bool {
        self.contention() <= reference.contention() * (1.0 + TOLERANCE)
            && self.frequency_ns <= reference.frequency_ns * (1.0 + FREQUENCY_TOLERANCE)
    }

    /// Whether the sibling is as idle as for the reference.
    #[must_use]
    pub fn has_idle_sibling(&self, reference: &Self) -> bool {
        (self.contention() / reference.contention() - 1.0).abs() <= TOLERANCE
    }

    #[must_use]
    pub fn is_at_frequency_of(&self, reference: &Self) -> bool {
        (self.frequency_ns / reference.frequency_ns - 1.0).abs() <= FREQUENCY_TOLERANCE
    }
}

/// The reference loop of a CPU at full speed: the median of the fastest cluster that holds at least
/// 10 % of the loops, for frequency and contention separately. `None` with fewer than 50 loops.
///
/// The median and not the minimum: the frequency of a core varies by some per cent with the load of
/// the other cores, and the minimum is an outlier.
#[must_use]
pub fn reference(loops: &[Loop]) -> Option<Loop> {
    let frequencies = loops.iter().map(|one| one.frequency_ns).collect();
    let frequency_ns = fastest_cluster(frequencies, FREQUENCY_TOLERANCE)?;
    let contention = fastest_cluster(loops.iter().map(Loop::contention).collect(), TOLERANCE)?;
    Some(Loop { sibling_ns: contention * frequency_ns, frequency_ns })
}

/// The median of the fastest window of ± `tolerance` that holds at least [`CLUSTER_MIN`] of the
/// times and more times than the windows that overlap it.
fn fastest_cluster(mut times: Vec<f64>, tolerance: f64) -> Option<f64> {
    times.retain(|ns| ns.is_finite() && *ns > 0.0);
    times.sort_unstable_by(f64::total_cmp);
    if times.len() < LOOPS_MIN {
        return None;
    }
    let width = (1.0 + tolerance) / (1.0 - tolerance);
    let end = |from: usize| times.partition_point(|ns| *ns <= times[from] * width);
    let least = (CLUSTER_MIN * times.len() as f64).ceil() as usize;
    let mut best = (0..times.len()).find(|from| end(*from) - from >= least)?;
    // Hill climbing: move on while an overlapping window holds more times.
    while let Some(next) = (best + 1..end(best))
        .max_by_key(|from| (end(*from) - from, usize::MAX - from))
        .filter(|from| end(*from) - from > end(best) - best)
    {
        best = next;
    }
    Some(times[(best + end(best) - 1) / 2])
}

/// The conditions under which a visit took the rounds of a case, without their values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conditions {
    /// Before, between and after the rounds.
    loops: Vec<Loop>,
    /// For each round, whether it was disturbed.
    disturbed: Vec<bool>,
    /// Rounds dropped at the start.
    dropped: usize,
}

impl Conditions {
    #[must_use]
    pub fn of(sample: &Sample) -> Self {
        let per_round = (sample.values_per_round as usize).max(1);
        let dropped = sample.warmup_dropped as usize / per_round;
        let mut disturbed = vec![false; dropped + sample.values.len().div_ceil(per_round)];
        for index in &sample.disturbed {
            if let Some(round) = disturbed.get_mut(dropped + *index as usize / per_round) {
                *round = true;
            }
        }
        let parts = sample.reference_ns.iter().zip(&sample.frequency_ns);
        let loops = parts
            .map(|(sibling, frequency)| Loop { sibling_ns: *sibling, frequency_ns: *frequency });
        Self { loops: loops.collect(), disturbed, dropped }
    }

    /// For each kept round, whether it is undisturbed and the loops before and after it are at full
    /// speed.
    fn clean_rounds(&self, reference: &Loop) -> Vec<bool> {
        let is_clean = |round: usize| {
            let adjacent = self.loops.get(round..round + 2);
            !self.disturbed[round]
                && adjacent.is_some_and(|loops| loops.iter().all(|one| one.is_at(reference)))
        };
        (self.dropped..self.disturbed.len()).map(is_clean).collect()
    }

    /// Whether the work slows the loop: at full speed before the first round, slow from then on.
    /// `None` if the loop was not at full speed before, or there is no round.
    fn slows_itself(&self, reference: &Loop) -> Option<bool> {
        let (first, later) = self.loops.split_first()?;
        let is_slow = |one: &Loop| !one.is_at(reference);
        (first.is_at(reference) && !later.is_empty()).then(|| later.iter().all(is_slow))
    }
}

/// A undisturbed visit, by its index.
#[derive(Clone, Debug, PartialEq)]
pub struct CleanVisit {
    pub visit: usize,
    /// For each round, whether it is clean.
    pub rounds: Vec<bool>,
}

/// Visits in which at least two rounds of three are clean, in order.
#[must_use]
pub fn clean_visits(visits: &[Conditions], reference: &Loop) -> Vec<CleanVisit> {
    let rounds = visits.iter().map(|conditions| conditions.clean_rounds(reference));
    let visits = rounds.enumerate().map(|(visit, rounds)| CleanVisit { visit, rounds });
    visits.filter(|one| is_clean(&one.rounds)).collect()
}

fn is_clean(rounds: &[bool]) -> bool {
    let clean = rounds.iter().filter(|clean| **clean).count();
    clean > 0 && ROUNDS_MIN.1 * clean >= ROUNDS_MIN.0 * rounds.len()
}

/// The first `wanted` undisturbed visits.
///
/// # Errors
/// The reason, if there is no reference or too few visits are undisturbed.
pub fn select(
    visits: &[Conditions],
    reference: Option<&Loop>,
    wanted: usize,
) -> Result<Vec<CleanVisit>, NotSelected> {
    let reference = reference.ok_or(NotSelected::NoReference)?;
    let mut clean = clean_visits(visits, reference);
    if clean.len() < wanted {
        let own: Vec<bool> = visits.iter().filter_map(|it| it.slows_itself(reference)).collect();
        let slowed = own.iter().filter(|slows| **slows).count();
        let often = slowed as f64 >= OWN_WORK_MIN * own.len() as f64;
        return Err(match own.len() >= OWN_WORK_VISITS_MIN && often {
            true => NotSelected::SlowsItself,
            false => NotSelected::TooFewClean,
        });
    }
    clean.truncate(wanted);
    Ok(clean)
}
