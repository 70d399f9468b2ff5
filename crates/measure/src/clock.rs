//! The clock: the only place in Fathom where time is read.
//!
//! The time stamp counter on x86-64 and the virtual counter on aarch64, if they can be trusted,
//! otherwise CLOCK_MONOTONIC_RAW. A stamp is a count of ticks; [`Clock::ns`] converts a difference
//! of stamps to nanoseconds. The rate is calibrated once per run and passed to the workers.

mod calibration;
mod code;
mod fake;
mod order;
mod refusal;
mod steps;
#[cfg(target_arch = "x86_64")]
mod tsc;

use std::rc::Rc;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

pub use calibration::{CalibrationError, CalibrationWatch, STEP_STAMPS, WholeRun, step_ticks};
pub use fake::FakeClock;
use order::{OrderCheck, check_order};
pub use refusal::ClockRefusal;

/// A stamp: ticks since an arbitrary origin.
pub type ClockStamp = u64;

/// Which counter a clock reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClockSource {
    /// The x86-64 time stamp counter.
    Tsc,
    /// The aarch64 virtual counter.
    Cntvct,
    /// CLOCK_MONOTONIC_RAW; a tick is a nanosecond.
    MonotonicRaw,
    /// [`FakeClock`].
    Fake,
}

// The name in records.
fathom_record::words!(
    ClockSource.word,
    Tsc = "tsc",
    Cntvct = "cntvct",
    MonotonicRaw = "monotonic_raw",
    Fake = "fake"
);

/// A calibrated clock as data, so that workers need no calibration.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Specification {
    pub source: ClockSource,
    /// Ticks per second.
    pub hz: f64,
    pub resolution_ns: f64,
    /// The cost of a start/stop pair.
    pub read_ns: f64,
    /// The time between the stamps around an empty batch: the overhead of every batch.
    pub empty_ns: f64,
}

impl Specification {
    /// A clock with a tick of a nanosecond that nobody has calibrated.
    pub fn uncalibrated(source: ClockSource) -> Self {
        Self { source, hz: 1e9, resolution_ns: 1.0, read_ns: 50.0, empty_ns: 25.0 }
    }
}

/// A calibrated clock. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Clock {
    specification: Specification,
    ns_per_tick: f64,
    fake: Option<Rc<FakeClock>>,
}

impl Clock {
    /// The coordinator's clock: a worker on the same machine reads the same counter.
    pub fn from_specification(specification: Specification) -> Self {
        Self { specification, ns_per_tick: 1e9 / specification.hz, fake: None }
    }

    /// A clock that reads `fake`; a tick is a nanosecond.
    pub fn fake(fake: Rc<FakeClock>) -> Self {
        let read_ns = fake.read_ns() as f64;
        let specification = Specification {
            read_ns,
            empty_ns: read_ns,
            ..Specification::uncalibrated(ClockSource::Fake)
        };
        Self { specification, ns_per_tick: 1.0, fake: Some(fake) }
    }

    pub fn specification(&self) -> Specification {
        self.specification
    }

    /// The stamp before the measured work: earlier instructions have completed, later ones have not
    /// started.
    #[inline(always)]
    pub fn start(&self) -> ClockStamp {
        match self.specification.source {
            #[cfg(target_arch = "x86_64")]
            ClockSource::Tsc => tsc::start(),
            #[cfg(target_arch = "aarch64")]
            ClockSource::Cntvct => cntvct(),
            ClockSource::Fake => self.fake.as_ref().map_or(0, |fake| fake.read()),
            _ => monotonic_raw_ns(),
        }
    }

    /// The stamp after the measured work, which has completed.
    #[inline(always)]
    pub fn stop(&self) -> ClockStamp {
        match self.specification.source {
            #[cfg(target_arch = "x86_64")]
            ClockSource::Tsc => tsc::stop(),
            #[cfg(target_arch = "aarch64")]
            ClockSource::Cntvct => cntvct(),
            ClockSource::Fake => self.fake.as_ref().map_or(0, |fake| fake.read()),
            _ => monotonic_raw_ns(),
        }
    }

    /// Nanoseconds between two stamps. 0 if the clock went backwards, which [`check_order`] detects
    /// and which invalidates the run.
    #[inline]
    pub fn ns(&self, from: ClockStamp, to: ClockStamp) -> f64 {
        to.saturating_sub(from) as f64 * self.ns_per_tick
    }

    /// The shortest batch with an error of 0.1 % by the clock's resolution and 1 % by its cost.
    pub fn shortest_batch_ns(&self) -> f64 {
        (1000.0 * self.specification.resolution_ns).max(100.0 * self.specification.read_ns)
    }
}

/// CLOCK_MONOTONIC_RAW in nanoseconds: not slewed, not stepped.
#[inline]
pub fn monotonic_raw_ns() -> u64 {
    kernel_ns(ClockId::MonotonicRaw)
}

/// CLOCK_MONOTONIC in nanoseconds: slewed by time synchronisation, not stepped.
pub fn monotonic_ns() -> u64 {
    kernel_ns(ClockId::Monotonic)
}

/// The wall clock in nanoseconds since 1970. For dates and to detect steps, never for durations.
pub fn wall_ns() -> u64 {
    kernel_ns(ClockId::Realtime)
}

/// CPU time of all threads of this process, in nanoseconds.
pub fn process_cpu_ns() -> u64 {
    kernel_ns(ClockId::ProcessCPUTime)
}

/// CPU time of the calling thread, in nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    kernel_ns(ClockId::ThreadCPUTime)
}

fn kernel_ns(id: ClockId) -> u64 {
    let time = clock_gettime(id);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The virtual counter, with ISB on both sides so that the read is not reordered.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
fn cntvct() -> ClockStamp {
    let ticks: u64;
    // SAFETY: reads a counter that is accessible in user space; accesses no memory.
    unsafe {
        core::arch::asm!("isb", "mrs {ticks}, cntvct_el0", "isb", ticks = out(reg) ticks,
            options(nostack, preserves_flags));
    }
    ticks
}
