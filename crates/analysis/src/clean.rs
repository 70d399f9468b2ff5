//! Which visits met a core at full speed (METHOD 23a): decided by the reference loop and by the
//! counters of each round, by types that hold no values.
//!
//! The loop has two parts. A busy sibling thread halves the fetch bandwidth of the core and so the
//! speed of the one, a chain with a taken branch in each cycle; the other, a chain of
//! multiplications, leaves the core idle for two cycles in three, and only its frequency matters.

use fathom_record::{NotSelected, Reference, Sample};
use serde::{Deserialize, Serialize};

/// How much slower than beside an idle sibling a loop may be in a clean round, as a share.
pub const TOLERANCE: f64 = 0.02;
/// How far its frequency may be from that of the reference: wider, since a core's frequency wanders
/// with the load of the others.
const FREQUENCY_TOLERANCE: f64 = 0.05;
/// The share of all loops that the fastest cluster has at least: a few lucky loops are none.
const CLUSTER_MIN: f64 = 0.1;
/// The share of a visit's rounds that are clean where the visit is: 8 of 12.
const ROUNDS_MIN: (usize, usize) = (2, 3);
const LOOPS_MIN: usize = 50;
/// The share of the visits that start at full speed in which the loop is slow afterwards, from
/// which on the work itself slows it.
const OWN_WORK_MIN: f64 = 0.8;
/// That is looked at in no fewer visits.
const OWN_WORK_VISITS_MIN: usize = 3;

/// The times of both parts of one reference loop, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Loop {
    /// The part that a busy sibling thread slows.
    pub sibling_ns: f64,
    /// The part that only the frequency slows.
    pub frequency_ns: f64,
}

impl From<Reference> for Loop {
    fn from(reference: Reference) -> Self {
        Self { sibling_ns: reference.loop_ns, frequency_ns: reference.frequency_ns }
    }
}

impl Loop {
    /// The time of the part that a sibling slows in that of the other, so that the frequency does
    /// not matter.
    fn contention(&self) -> f64 {
        self.sibling_ns / self.frequency_ns
    }

    /// Whether the sibling is as idle as for the reference, and the frequency as high.
    #[must_use]
    pub fn is_at(&self, reference: &Self) -> bool {
        self.is_beside_idle(reference) && self.is_at_frequency_of(reference)
    }

    /// Whether it is no slower than the reference, by the tolerances of a clean round.
    #[must_use]
    pub fn is_as_fast_as(&self, reference: &Self) -> bool {
        self.contention() <= reference.contention() * (1.0 + TOLERANCE)
            && self.frequency_ns <= reference.frequency_ns * (1.0 + FREQUENCY_TOLERANCE)
    }

    /// Whether the sibling is as idle as for the reference.
    #[must_use]
    pub fn is_beside_idle(&self, reference: &Self) -> bool {
        (self.contention() / reference.contention() - 1.0).abs() <= TOLERANCE
    }

    /// Whether the frequency is that of the reference.
    #[must_use]
    pub fn is_at_frequency_of(&self, reference: &Self) -> bool {
        (self.frequency_ns / reference.frequency_ns - 1.0).abs() <= FREQUENCY_TOLERANCE
    }
}

/// The loop at full speed, from many of a CPU: the middle of the fastest cluster that holds a tenth
/// of them or more, of the frequency and of the sibling's part in it. `None` from fewer than 50.
///
/// The middle and not the lower edge: a core's frequency wanders by some per cent with the load of
/// the others, and the edge is its rarest moment.
#[must_use]
pub fn reference(loops: &[Loop]) -> Option<Loop> {
    let frequencies = loops.iter().map(|one| one.frequency_ns).collect();
    let frequency_ns = fastest_cluster(frequencies, FREQUENCY_TOLERANCE)?;
    let contention = fastest_cluster(loops.iter().map(Loop::contention).collect(), TOLERANCE)?;
    Some(Loop { sibling_ns: contention * frequency_ns, frequency_ns })
}

/// The median of the fastest window of ± `tolerance` that holds [`CLUSTER_MIN`] of the times and
/// than which no window beside it holds more.
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
    // Uphill from there, for as long as a window that overlaps this one holds more.
    while let Some(next) = (best + 1..end(best))
        .max_by_key(|from| (end(*from) - from, usize::MAX - from))
        .filter(|from| end(*from) - from > end(best) - best)
    {
        best = next;
    }
    Some(times[(best + end(best) - 1) / 2])
}

/// What is known of one case's rounds in a visit, beside their values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conditions {
    /// Before, between and after the rounds.
    loops: Vec<Loop>,
    /// Of each round, whether a counter moved that the work does not move itself.
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

    /// Of each round that was kept, whether the loops on both sides of it are at full speed and no
    /// counter moved in it.
    fn clean_rounds(&self, reference: &Loop) -> Vec<bool> {
        let is_clean = |round: usize| {
            let beside = self.loops.get(round..round + 2);
            !self.disturbed[round]
                && beside.is_some_and(|loops| loops.iter().all(|one| one.is_at(reference)))
        };
        (self.dropped..self.disturbed.len()).map(is_clean).collect()
    }

    /// Whether the work slowed the loop: fast before it, and slow from
    /// then on. `None` where it was not fast before, or no round was taken.
    fn slows_itself(&self, reference: &Loop) -> Option<bool> {
        let (first, later) = self.loops.split_first()?;
        let is_slow = |one: &Loop| !one.is_at(reference);
        (first.is_at(reference) && !later.is_empty()).then(|| later.iter().all(is_slow))
    }
}

/// A visit that counts, by its index, with the rounds that do.
#[derive(Clone, Debug, PartialEq)]
pub struct Chosen {
    pub visit: usize,
    /// Of each of its rounds, whether it is clean.
    pub rounds: Vec<bool>,
}

/// The visits that were clean, in their order: those with two clean rounds in three.
#[must_use]
pub fn clean_visits(visits: &[Conditions], reference: &Loop) -> Vec<Chosen> {
    let chosen = visits
        .iter()
        .enumerate()
        .map(|(visit, conditions)| Chosen { visit, rounds: conditions.clean_rounds(reference) });
    chosen.filter(|one| is_clean(&one.rounds)).collect()
}

fn is_clean(rounds: &[bool]) -> bool {
    let clean = rounds.iter().filter(|clean| **clean).count();
    clean > 0 && ROUNDS_MIN.1 * clean >= ROUNDS_MIN.0 * rounds.len()
}

/// The first `wanted` clean visits.
///
/// # Errors
/// Why none are selected.
pub fn select(
    visits: &[Conditions],
    reference: Option<&Loop>,
    wanted: usize,
) -> Result<Vec<Chosen>, NotSelected> {
    let reference = reference.ok_or(NotSelected::NoReference)?;
    let mut chosen = clean_visits(visits, reference);
    if chosen.len() < wanted {
        let own: Vec<bool> = visits.iter().filter_map(|it| it.slows_itself(reference)).collect();
        let slowed = own.iter().filter(|slows| **slows).count();
        let often = slowed as f64 >= OWN_WORK_MIN * own.len() as f64;
        return Err(match own.len() >= OWN_WORK_VISITS_MIN && often {
            true => NotSelected::SlowsItself,
            false => NotSelected::TooFewClean,
        });
    }
    chosen.truncate(wanted);
    Ok(chosen)
}
