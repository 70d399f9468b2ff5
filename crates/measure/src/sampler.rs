//! The sampler: times the rounds of a visit, for all probes.
//!
//! A probe provides [`Work`]: a kernel that repeats an operation, or a single operation that cannot
//! be batched. The sampler determines the batch size, interleaves the cases in seeded random order,
//! reads the counters around each round, and reduces each round to a value. It keeps all values,
//! whatever they are.

mod batch;
mod distance;
mod injected;
mod memory;
mod resources;
mod single;
mod spin;
mod watch;

use std::cell::RefCell;

use fathom_record::{
    Activity, Check, Disturbance, Fact, FarEnd, Histogram, Remedy, Sample, SystemCause,
    system_cause,
};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};

use crate::affinity;
use crate::clock::Clock;
pub use injected::InjectedDose;
pub use memory::sensed_memory;
pub use resources::{FarPlace, Files, LOOPBACK, ResourceMissing, Resources};
pub use spin::{LoopTime, REFERENCE_ITERATIONS, calibration, reference_loop};
pub use watch::{KernelCounters, Observer, RoundMark};

/// The shortest batch, unless the clock needs a longer one: long enough to amortize cold caches and
/// branches of the first iteration, short enough that most batches include no timer interrupt.
pub const BATCH_FLOOR_NS: f64 = 100_000.0;
const BATCH_MAX: u64 = 1 << 36;

/// Repeats an operation the given number of times, and returns its own count of them.
pub type Kernel<'k> = Box<dyn FnMut(u64) -> u64 + 'k>;
/// An operation that is timed singly: writes the nanoseconds of each of its cases.
pub type Operation<'k> = Box<dyn FnMut(&Clock, &mut [f64]) -> Result<(), SamplerFault> + 'k>;

pub enum SamplerWork<'k> {
    /// An operation that is repeated in batches.
    Batched {
        case: usize,
        kernel: Kernel<'k>,
        /// A loop of the same shape without the operation, whose time is subtracted.
        twin: Option<Kernel<'k>>,
        /// Whether each call of the kernel has a cost of its own, such as a request to another
        /// process. A value is then the difference of 2N and N iterations, which has more noise.
        has_entry: bool,
        /// Operations in one iteration of the kernel (and of the twin).
        per_iteration: f64,
        /// From nanoseconds per operation to the metric's unit.
        to_unit: fn(f64) -> f64,
        /// Single timings by the kernel, in the metric's unit, reset after the warm-up.
        timings: Option<&'k RefCell<Histogram>>,
    },
    /// An operation that is timed singly.
    Single {
        /// The cases; an operation returns one value for each.
        cases: Vec<usize>,
        /// Operations per value: 1, unless the operation repeats something itself.
        batch: u64,
        operation: Operation<'k>,
        /// Single timings by the operation.
        timings: Option<&'k RefCell<Histogram>>,
    },
}

impl<'k> SamplerWork<'k> {
    /// A batched kernel in nanoseconds, with one operation per iteration and no twin.
    pub fn batched(case: usize, kernel: impl FnMut(u64) -> u64 + 'k) -> Self {
        Self::unrolled(case, 1.0, kernel)
    }

    /// The same with several operations per iteration.
    pub fn unrolled(case: usize, per_iteration: f64, kernel: impl FnMut(u64) -> u64 + 'k) -> Self {
        Self::Batched {
            case,
            kernel: Box::new(kernel),
            twin: None,
            has_entry: false,
            per_iteration,
            to_unit: |ns| ns,
            timings: None,
        }
    }

    pub fn single(
        cases: Vec<usize>,
        operation: impl FnMut(&Clock, &mut [f64]) -> Result<(), SamplerFault> + 'k,
    ) -> Self {
        Self::Single { cases, batch: 1, operation: Box::new(operation), timings: None }
    }

    /// With single timings, which the kernel or the operation adds.
    #[must_use]
    pub fn timed(mut self, by: &'k RefCell<Histogram>) -> Self {
        let (Self::Batched { timings, .. } | Self::Single { timings, .. }) = &mut self;
        *timings = Some(by);
        self
    }

    fn cases(&self) -> &[usize] {
        match self {
            Self::Batched { case, .. } => std::slice::from_ref(case),
            Self::Single { cases, .. } => cases,
        }
    }
}

/// Why a case has no sample.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(tag = "kind", content = "reason", rename_all = "snake_case")]
pub enum SamplerFault {
    /// Not supported or permitted on this machine, with a remedy.
    #[error("{0}")]
    Unavailable(String, Option<Remedy>),
    /// A check of the probe's own work failed: the result is invalid.
    #[error("{0}")]
    WrongWork(String),
    /// The far end on another host could not be reached, or its connection ended.
    #[error("{0}")]
    FarEndLost(String),
    /// A CPU of the work went offline, or is no longer allowed.
    #[error("{1}")]
    CpuOffline(u32, String),
    #[error("{0}")]
    Failed(String),
}

impl SamplerFault {
    /// A failed system call, such as `fork: out of memory`. If it is forbidden or not implemented,
    /// the case is unavailable, not failed.
    pub fn system(call: &str, error: impl Into<std::io::Error>) -> Self {
        let error = error.into();
        match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES | libc::ENOSYS) => {
                Self::unavailable(format!("{call}: {error}"), Remedy::AllowCall)
            }
            _ => Self::of_cause(call, &system_cause(&error, Activity::AnyPort)),
        }
    }

    /// A failed system call with its cause: a limit of this machine makes the case unavailable.
    pub fn of_cause(call: &str, cause: &SystemCause) -> Self {
        match cause.remedy.filter(|_| cause.is_limit) {
            Some(action) => Self::unavailable(
                format!("{call}: {}", cause.text),
                Remedy::Do { action: action.to_owned() },
            ),
            None => Self::Failed(format!("{call}: {}", cause.text)),
        }
    }

    /// A thread or process cannot be pinned to a CPU that was allowed when the run began.
    pub fn of_pin(cpu: u32, error: rustix::io::Errno) -> Self {
        let text = || format!("pin to CPU {cpu}: {error}");
        match error {
            rustix::io::Errno::INVAL => Self::CpuOffline(cpu, affinity::loss(cpu)),
            rustix::io::Errno::PERM => Self::unavailable(text(), Remedy::LeaveSandbox),
            _ => Self::Failed(text()),
        }
    }

    pub fn unavailable(what: impl Into<String>, remedy: Remedy) -> Self {
        Self::Unavailable(what.into(), Some(remedy))
    }
}

/// Settings of a visit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    pub rounds: u32,
    /// Seed of the order of cases within a round.
    pub seed: u64,
    /// Number of this process within its case.
    pub process: u32,
    /// The CPU it is pinned to.
    pub cpu: u32,
    /// The second CPU for work on two.
    pub other_cpu: Option<u32>,
    /// Shortest batch: [`BATCH_FLOOR_NS`], or almost 0 in a smoke test.
    pub batch_floor_ns: f64,
    /// No more rounds after this time, but at least three.
    pub time_limit_ns: f64,
    /// Whether every round is one value and all values are kept, as trials of the trimmed protocol.
    pub trials: bool,
    /// Extra work in every batched kernel, for tests.
    pub injected: InjectedDose,
}

/// The sample of a case under construction.
#[derive(Default)]
struct SamplerSlot {
    sample: Sample,
    /// Number of values of the first round.
    first_round: usize,
    fault: Option<SamplerFault>,
}

pub struct Sampler {
    clock: Clock,
    settings: Settings,
    observer: Box<dyn Observer>,
    random: Xoshiro256PlusPlus,
    slots: Vec<SamplerSlot>,
    loops: Vec<LoopTime>,
    resources: Resources,
}

/// The results of a visit: a sample or a fault for each case, and all reference loops.
#[derive(Debug)]
pub struct Visit {
    pub samples: Vec<Result<Sample, SamplerFault>>,
    pub loops: Vec<LoopTime>,
}

impl Sampler {
    pub fn new(
        clock: Clock,
        settings: Settings,
        cases: usize,
        observer: Box<dyn Observer>,
    ) -> Self {
        let slot = || SamplerSlot {
            sample: Sample {
                process: settings.process,
                cpu: settings.cpu,
                batch: 1,
                ..Sample::default()
            },
            ..SamplerSlot::default()
        };
        Self {
            clock,
            settings,
            observer,
            random: Xoshiro256PlusPlus::seed_from_u64(settings.seed),
            slots: (0..cases).map(|_| slot()).collect(),
            loops: Vec::new(),
            resources: Resources::none(),
        }
        .with(Resources::none())
    }

    /// The sampler with resources from the coordinator.
    #[must_use]
    pub fn with(mut self, mut resources: Resources) -> Self {
        if resources.cpus.is_empty() {
            let Settings { cpu, other_cpu, .. } = self.settings;
            resources.cpus = [cpu].into_iter().chain(other_cpu).collect();
        }
        self.resources = resources;
        self
    }

    pub fn resources(&self) -> &Resources {
        &self.resources
    }

    /// The CPUs that the visit may use. The affinity of a pinned thread shows only one.
    pub fn cpus(&self) -> &[u32] {
        &self.resources.cpus
    }

    /// The folder for files of the visit.
    ///
    /// # Errors
    /// `Unavailable`, if there is none.
    pub fn files(&self) -> Result<Files, SamplerFault> {
        Ok(self.resources.files.clone()?)
    }

    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    pub fn settings(&self) -> Settings {
        self.settings
    }

    /// Includes the CPU time of a running child in that of the visit.
    pub fn works_with(&mut self, child: u32) {
        self.observer.also_count(child);
    }

    /// Sets the threads of this process, by thread id and CPU, that work in lockstep with the
    /// calling one from now on: a delay of one delays all.
    pub fn works_in_step_with(&mut self, threads: &[(u32, u32)]) {
        self.observer.work_with(threads);
    }

    /// Records that a case has no sample. Other cases continue.
    pub fn fault(&mut self, case: usize, fault: SamplerFault) {
        self.slots[case].fault.get_or_insert(fault);
    }

    /// Records why the kernel of a case did less than requested, in place of the sampler's count.
    pub fn explain(&mut self, case: usize, fault: SamplerFault) {
        self.slots[case].fault = Some(fault);
    }

    /// The single timings of a case after its rounds.
    pub fn timings(&self, case: usize) -> Option<&Histogram> {
        self.slots[case].sample.histogram.as_ref().filter(|timings| !timings.is_empty())
    }

    /// Records a check of a case's work. Of checks with the same name, the first failed one is
    /// kept, else the last.
    pub fn check(&mut self, case: usize, name: &str, passed: bool, detail: impl Into<String>) {
        let check = Check { name: name.to_owned(), passed, detail: detail.into() };
        let checks = &mut self.slots[case].sample.checks;
        match checks.iter_mut().find(|known| known.name == name) {
            Some(known) if known.passed => *known = check,
            Some(_) => {}
            None => checks.push(check),
        }
    }

    /// Records by a count of the work whether its values are of the case: those of a visit that did
    /// not meet it are left out, if most visits did.
    pub fn condition(&mut self, case: usize, name: &str, is_met: bool, detail: impl Into<String>) {
        let detail = detail.into();
        if !is_met {
            self.slots[case].sample.missed = Some(format!("{name}: {detail}"));
        }
        self.check(case, name, is_met, detail);
    }

    /// States a fact beside the values of a case. Of several samples the record has the median of a
    /// quantity, and all different texts.
    pub fn state(&mut self, case: usize, fact: Fact) {
        self.slots[case].sample.facts.push(fact);
    }

    /// Records the far end's counters and checks of a case.
    pub fn keep_far_end(&mut self, case: usize, far: FarEnd) {
        self.slots[case].sample.far = Some(far);
    }

    /// Times all rounds of some works, interleaved. Called once for each set-up of a visit.
    pub fn run(&mut self, works: Vec<SamplerWork<'_>>) {
        let mut works: Vec<Active<'_>> = works.into_iter().map(Active::new).collect();
        for work in &mut works {
            let cases = work.cases().to_vec();
            if let Err(fault) = self.warm_up(work) {
                cases.iter().for_each(|case| self.fault(*case, fault.clone()));
            }
        }
        // A case that failed its warm-up takes no part in the rounds.
        works.retain(|work| work.cases().iter().all(|case| self.slots[*case].fault.is_none()));
        let distance = self.observer.distance(&self.clock);
        let memory = self.observer.memory(&self.clock);
        // After the warm-up: its page faults and preemptions do not count.
        self.observer.begin_visit();
        let begun = self.clock.start();
        let first_loop = self.loops.len();
        if !works.is_empty() {
            self.reference_loop();
        }
        for round in 0..self.settings.rounds {
            let late = self.clock.ns(begun, self.clock.stop()) > self.settings.time_limit_ns;
            if works.is_empty() || (late && round >= 3) {
                break;
            }
            self.round(round, &mut works);
            self.reference_loop();
        }
        for work in &mut works {
            if let Active::Batched(batched) = work
                && let Err(fault) = batched.twin_rounds(&self.clock)
            {
                let case = batched.cases[0];
                self.fault(case, fault);
            }
        }
        let disturbance = self.observer.end_visit();
        let distances = distance.into_iter().chain(self.observer.distance(&self.clock));
        let rounded = |ns: f64| (10.0 * ns).round() / 10.0;
        let distances: Vec<f64> = distances.map(rounded).collect();
        let memory = memory.into_iter().chain(self.observer.memory(&self.clock));
        let memory: Vec<f64> = memory.map(rounded).collect();
        let loops = &self.loops[first_loop..];
        for work in &works {
            for case in work.cases() {
                let slot = &mut self.slots[*case];
                // Migrations were added up by round; the other counters are those of the visit.
                let migrations = slot.sample.disturbance.migrations;
                slot.sample.disturbance = Disturbance { migrations, ..disturbance.clone() };
                slot.sample.reference_ns = loops.iter().map(|it| it.sibling_ns.round()).collect();
                slot.sample.distance_ns.clone_from(&distances);
                slot.sample.memory_ns.clone_from(&memory);
                slot.sample.frequency_ns = loops.iter().map(|it| it.frequency_ns.round()).collect();
            }
        }
        for work in works {
            match work {
                Active::Batched(batched) => {
                    let case = batched.cases[0];
                    batched.finish(&self.clock, &mut self.slots[case].sample);
                }
                Active::Single(single) => single.finish(&mut self.slots),
            }
        }
    }

    /// Ends the visit. A case without values is a fault of the probe.
    pub fn finish(self) -> Visit {
        let trials = self.settings.trials;
        let result = |slot: SamplerSlot| match slot.fault {
            Some(fault) => Err(fault),
            None if slot.sample.values.is_empty() => {
                Err(SamplerFault::Failed("the probe made no sample".to_owned()))
            }
            None if trials => Ok(slot.sample),
            None => Ok(slot.finish()),
        };
        Visit { samples: self.slots.into_iter().map(result).collect(), loops: self.loops }
    }

    fn warm_up(&mut self, work: &mut Active<'_>) -> Result<(), SamplerFault> {
        let floor = self.clock.shortest_batch_ns().max(self.settings.batch_floor_ns);
        match work {
            Active::Batched(batched) => {
                batched.find_batch(&self.clock, floor)?;
                batched.inject(&self.clock, self.settings.injected, self.settings.rounds)
            }
            Active::Single(single) => single.find_count(&self.clock, floor, self.settings.trials),
        }
    }

    /// One round: each work once, in random order.
    fn round(&mut self, round: u32, works: &mut [Active<'_>]) {
        // In a fixed order each case would always find the caches and predictors of the same other.
        for index in shuffled(works.len(), &mut self.random) {
            let work = &mut works[index];
            self.observer.begin_round();
            // After the system calls that read the counters, and before the first stamp.
            refill_return_stack(RETURN_STACK_DEPTH);
            let outcome = work.round(&self.clock, &mut self.slots);
            let mark = self.observer.end_round();
            for case in work.cases() {
                let slot = &mut self.slots[*case];
                slot.sample.disturbance.migrations += u64::from(mark.migrated);
                match &outcome {
                    Ok(values) => slot.note_round(round, *values, mark.disturbed),
                    Err(fault) => {
                        slot.fault.get_or_insert(fault.clone());
                    }
                }
            }
        }
    }

    /// The reference loop before, between and after rounds (METHOD 23).
    fn reference_loop(&mut self) {
        self.loops.push(self.observer.reference_loop(&self.clock));
    }
}

impl SamplerSlot {
    /// Marks the last `values` values as those of one round.
    fn note_round(&mut self, round: u32, values: usize, disturbed: bool) {
        let end = self.sample.values.len();
        if round == 0 {
            self.first_round = end;
        }
        self.sample.values_per_round = values as u32;
        if disturbed {
            self.sample.disturbed.extend((end - values) as u32..end as u32);
        }
    }

    /// Drops the first round, whatever its values (METHOD 9), unless the visit has few rounds.
    fn finish(mut self) -> Sample {
        let sample = &mut self.sample;
        if sample.values.len() >= self.first_round + ROUNDS_KEPT_MIN * self.first_round.max(1) {
            let dropped = self.first_round as u32;
            sample.warmup_dropped = dropped;
            sample.values.drain(..self.first_round);
            sample.disturbed.retain(|index| *index >= dropped);
            sample.disturbed.iter_mut().for_each(|index| *index -= dropped);
        }
        self.sample
    }
}

/// No return stack of a CPU is deeper.
const RETURN_STACK_DEPTH: u32 = 32;

/// Nested calls and returns. After a system call, such as those that read the counters of a round,
/// calls of the timed kernel can be slower for a whole batch, at random. Probably the kernel's
/// protection against speculation (RSB filling, Safe RET) leaves the return stack out of step, so
/// that returns are mispredicted.
#[inline(never)]
fn refill_return_stack(depth: u32) -> u32 {
    // black_box: otherwise the compiler could turn the recursion into a loop without calls.
    match std::hint::black_box(depth) {
        0 => 0,
        // Used after it returns, so that it is no tail call.
        depth => std::hint::black_box(refill_return_stack(depth - 1)) + 1,
    }
}

/// With fewer rounds beside it the first is kept.
const ROUNDS_KEPT_MIN: usize = 3;

/// A work with its batch size.
enum Active<'k> {
    Batched(batch::Batched<'k>),
    Single(single::Single<'k>),
}

impl<'k> Active<'k> {
    fn new(work: SamplerWork<'k>) -> Self {
        let cases = work.cases().to_vec();
        match work {
            SamplerWork::Batched {
                kernel,
                twin,
                has_entry,
                per_iteration,
                to_unit,
                timings,
                ..
            } => {
                let scale = (per_iteration, to_unit);
                let batched = batch::Batched::new(cases, (kernel, has_entry), twin, scale, timings);
                Self::Batched(batched)
            }
            SamplerWork::Single { operation, batch, timings, .. } => {
                Self::Single(single::Single::new(cases, batch, operation, timings))
            }
        }
    }

    fn cases(&self) -> &[usize] {
        match self {
            Self::Batched(batched) => &batched.cases,
            Self::Single(single) => &single.cases,
        }
    }

    /// Times a round and returns the number of values added to each case.
    fn round(&mut self, clock: &Clock, slots: &mut [SamplerSlot]) -> Result<usize, SamplerFault> {
        match self {
            Self::Batched(batched) => batched.round(clock, &mut slots[batched.cases[0]].sample),
            Self::Single(single) => single.round(clock, slots),
        }
    }
}

/// The indices below `count` in random order (Fisher–Yates).
fn shuffled(count: usize, random: &mut Xoshiro256PlusPlus) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        // The bias of the remainder is below 2^-58.
        order.swap(last, (random.next_u64() % (last as u64 + 1)) as usize);
    }
    order
}

#[cfg(test)]
mod tests;
