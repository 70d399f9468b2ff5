//! States of the core (METHOD 23a, 23b): which visits had it to themselves, which shared it with a
//! busy SMT sibling, and which ran at a slower clock, by the reference loop. The types here hold no
//! measured values, so values cannot affect which visits count.
//!
//! The loop has two parts. A chain with a taken branch in each cycle is limited by fetch bandwidth,
//! which a busy SMT sibling halves. A chain of multiplications leaves the core idle for two cycles
//! in three, so only the frequency limits it.

use fathom_record::{NotSelected, REPORTED_MIN, Reference, Sample, Stratum};
use serde::{Deserialize, Serialize};

use crate::schedule;
use crate::statistics::median;

/// Relative tolerance of SMT contention on a core to itself.
pub const TOLERANCE: f64 = 0.02;
/// Relative tolerance of the frequency of one state. Wider, because the frequency of a core
/// depends on the load of the other cores.
const FREQUENCY_TOLERANCE: f64 = 0.05;
/// The smallest share of all loops that makes a cluster: a few fast loops are outliers.
const CLUSTER_MIN: f64 = 0.1;
/// A visit was in a state if so many of its loops were: 2 of 3. So many of its rounds must be
/// between such loops for only these to count.
const PART_MIN: (usize, usize) = (2, 3);
const LOOPS_MIN: usize = 50;
/// The fewest visits with an interval.
const VISITS_MIN: usize = schedule::VISITS_MIN as usize;
/// Cores to themselves take one cycle a branch. Where the part takes longer, by times that are not
/// of one cluster, a sibling takes the rest.
const CONTENDED_MIN: f64 = 1.15;
const ONE_CLUSTER: f64 = 0.5;
/// Some loops of one cycle a branch show the same.
const CYCLE: f64 = 1.05;
const MET_MIN: usize = 3;
/// States are one if at least half as many visits are just beyond the limit as at the
/// reference, and as many as farther away.
const NEAR: f64 = 0.08;
/// The work itself slows the loop if, of the visits that start on a core to itself, at least this
/// share have slow loops from then on.
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
    #[must_use]
    pub fn contention(&self) -> f64 {
        self.sibling_ns / self.frequency_ns
    }

    /// Whether both parts agree with the reference, within the tolerances of a state.
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

/// The reference loop of a core to itself: the median of the fastest cluster that holds at least
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
pub struct CoreStateConditions {
    /// Before, between and after the rounds.
    loops: Vec<Loop>,
    /// For each round, whether it was disturbed.
    disturbed: Vec<bool>,
    /// Rounds dropped at the start.
    dropped: usize,
}

impl CoreStateConditions {
    #[must_use]
    pub fn from_sample(sample: &Sample) -> Self {
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

    /// Those of a visit without rounds.
    #[must_use]
    pub fn with_loops(loops: Vec<Loop>) -> Self {
        Self { loops, ..Self::default() }
    }

    /// For each kept round, whether it is undisturbed, between loops of a core to itself.
    fn rounds_to_itself(&self, idle: &Loop) -> Vec<bool> {
        let is_so = |round: usize| {
            let adjacent = self.loops.get(round..round + 2);
            !self.disturbed[round]
                && adjacent.is_some_and(|loops| loops.iter().all(|one| one.is_as_fast_as(idle)))
        };
        (self.dropped..self.disturbed.len()).map(is_so).collect()
    }

    /// Whether the work slows the loop: on a core to itself before the first round, slow from then
    /// on. `None` if the loop was slow before, or there is no round.
    fn slows_itself(&self, idle: &Loop) -> Option<bool> {
        let (first, later) = self.loops.split_first()?;
        let is_slow = |one: &Loop| !one.is_as_fast_as(idle);
        (first.is_as_fast_as(idle) && !later.is_empty()).then(|| later.iter().all(is_slow))
    }

    /// The median of the loops, for contention and frequency separately.
    #[must_use]
    pub fn typical(&self) -> Option<Loop> {
        let of = |part: fn(&Loop) -> f64| median(&self.loops.iter().map(part).collect::<Vec<_>>());
        let frequency_ns = of(|one| one.frequency_ns)?;
        Some(Loop { sibling_ns: of(Loop::contention)? * frequency_ns, frequency_ns })
    }
}

/// Whether at least two in three are.
fn are_most(of: &[bool]) -> bool {
    let count = of.iter().filter(|is| **is).count();
    count > 0 && PART_MIN.1 * count >= PART_MIN.0 * of.len()
}

/// The states of the core over a run.
#[derive(Clone, Debug, PartialEq)]
pub struct CoreStates {
    /// The loop of a core to itself.
    pub idle: Loop,
    /// The state that is reported; [`Stratum::AsFound`] if states cannot be distinguished.
    pub reported: Stratum,
    /// The number of visits in each of [`Stratum::STATES`].
    pub visits: [usize; 3],
}

impl CoreStates {
    /// From all loops of a run, those of each visit, and the reference of earlier runs on this CPU.
    /// `None` with too few loops.
    #[must_use]
    pub fn new(
        loops: &[Loop],
        visits: &[CoreStateConditions],
        earlier: Option<Loop>,
    ) -> Option<Self> {
        let idle = idle(loops, earlier)?;
        let mut states = Self { idle, reported: Stratum::AsFound, visits: [0; 3] };
        let of_visits: Vec<Stratum> =
            visits.iter().filter_map(|it| states.stratum_of(it)).collect();
        states.visits = Stratum::STATES
            .map(|state| of_visits.iter().filter(|of_visit| **of_visit == state).count());
        if !states.is_continuum(visits) {
            let all = states.visits.iter().sum::<usize>() as f64;
            let with = |least: f64| states.visits.iter().position(|it| *it as f64 >= least);
            let most = states.visits.iter().max().map_or(0.0, |most| *most as f64);
            states.reported = Stratum::STATES[with(REPORTED_MIN * all).or(with(most))?];
        }
        Some(states)
    }

    /// The state of the core in a visit. `None` without loops.
    #[must_use]
    pub fn stratum_of(&self, visit: &CoreStateConditions) -> Option<Stratum> {
        let fast: Vec<bool> = visit.loops.iter().map(|one| one.is_as_fast_as(&self.idle)).collect();
        let typical = visit.typical()?;
        let is_shared = typical.contention() > self.idle.contention() * (1.0 + TOLERANCE);
        Some(match are_most(&fast) {
            true => Stratum::ToItself,
            false if is_shared => Stratum::Shared,
            false if typical.is_as_fast_as(&self.idle) => Stratum::Shared,
            false => Stratum::SlowerClock,
        })
    }

    /// The share of visits in the reported state.
    #[must_use]
    pub fn share(&self) -> f64 {
        let all = self.visits.iter().sum::<usize>();
        let at = Stratum::STATES.iter().position(|one| *one == self.reported);
        at.map_or(1.0, |at| self.visits[at] as f64 / all.max(1) as f64)
    }

    /// Whether many visits are just beyond a limit, or faster than the reference, which is then of
    /// no cluster.
    fn is_continuum(&self, visits: &[CoreStateConditions]) -> bool {
        let typical: Vec<Loop> = visits.iter().filter_map(CoreStateConditions::typical).collect();
        let beyond = |one: &Loop| {
            let contention = one.contention() / self.idle.contention() - 1.0 - TOLERANCE;
            let clock = one.frequency_ns / self.idle.frequency_ns - 1.0 - FREQUENCY_TOLERANCE;
            contention.max(clock)
        };
        let all: Vec<f64> = typical.iter().map(beyond).collect();
        let count = |is: &dyn Fn(f64) -> bool| all.iter().filter(|it| is(**it)).count();
        let (near, far) = (count(&|it| it > 0.0 && it <= NEAR), count(&|it| it > NEAR));
        let at_reference = typical.iter().filter(|it| it.is_at(&self.idle)).count();
        let faster = all.len() - near - far - at_reference;
        let is_many = |of: usize| of > 0 && 2 * of >= at_reference;
        is_many(faster) || (is_many(near) && near >= far)
    }

    /// The visits in the reported state, by their indices, each with the rounds that count.
    ///
    /// # Errors
    /// The reason, if there are too few.
    pub fn select(
        &self,
        visits: &[CoreStateConditions],
    ) -> Result<Vec<(usize, Vec<bool>)>, NotSelected> {
        if self.reported == Stratum::AsFound {
            return Err(NotSelected::Continuum);
        }
        let is_in = |at: &usize| self.stratum_of(&visits[*at]) == Some(self.reported);
        let chosen: Vec<usize> = (0..visits.len()).filter(is_in).collect();
        if chosen.len() < VISITS_MIN.min(visits.len()) {
            let own: Vec<bool> =
                visits.iter().filter_map(|it| it.slows_itself(&self.idle)).collect();
            let slowed = own.iter().filter(|slows| **slows).count();
            let often = slowed as f64 >= OWN_WORK_MIN * own.len() as f64;
            return Err(match own.len() >= OWN_WORK_VISITS_MIN && often {
                true => NotSelected::SlowsItself,
                false => NotSelected::TooFewClean,
            });
        }
        let rounds = |at: usize| {
            let rounds = visits[at].rounds_to_itself(&self.idle);
            let some = self.reported == Stratum::ToItself && are_most(&rounds);
            (at, if some { rounds } else { vec![true; rounds.len()] })
        };
        Ok(chosen.into_iter().map(rounds).collect())
    }
}

/// The loop of a core to itself: the fastest cluster of this run. Where that is of a shared core,
/// with the contention of earlier runs, or of the known cycles.
fn idle(loops: &[Loop], earlier: Option<Loop>) -> Option<Loop> {
    let own = reference(loops)?;
    let with = |contention: f64| Loop { sibling_ns: contention * own.frequency_ns, ..own };
    let is_idler = |known: &Loop| {
        own.is_at_frequency_of(known) && own.contention() > known.contention() * (1.0 + TOLERANCE)
    };
    if let Some(known) = earlier.filter(is_idler) {
        return Some(with(known.contention()));
    }
    let count = |is: &dyn Fn(&&Loop) -> bool| loops.iter().filter(is).count();
    let is_spread =
        (count(&|one| one.has_idle_sibling(&own)) as f64) < ONE_CLUSTER * loops.len() as f64;
    // No interrupt makes a loop shorter.
    let is_met = count(&|one| one.sibling_ns <= CYCLE * own.frequency_ns) >= MET_MIN;
    let is_shared = own.contention() > CONTENDED_MIN && (is_spread || is_met);
    Some(if is_shared { with(1.0) } else { own })
}
