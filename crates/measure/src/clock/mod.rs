//! The clock: the only place in Fathom where time is read.
//!
//! On x86-64 it is the time stamp counter, on aarch64 the virtual counter, each only where it can
//! be trusted; elsewhere CLOCK_MONOTONIC_RAW. A stamp is a count of ticks; [`Clock::ns`] turns a
//! difference of stamps into nanoseconds by a calibration made once per run and handed to every
//! worker.

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

pub use calibration::{CalibrationError, STEP_STAMPS, Watch, WholeRun, step_ticks};
pub use fake::FakeClock;
use order::{OrderCheck, check_order};
pub use refusal::Refusal;

/// A stamp: ticks since an arbitrary origin.
pub type Stamp = u64;

/// Which counter a clock reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The x86-64 time stamp counter.
    Tsc,
    /// The aarch64 virtual counter.
    Cntvct,
    /// CLOCK_MONOTONIC_RAW; a tick is a nanosecond.
    MonotonicRaw,
    /// A clock that tests advance by hand.
    Fake,
}

impl Source {
    /// The source as one word, as it stands in a record.
    pub fn word(self) -> &'static str {
        match self {
            Self::Tsc => "tsc",
            Self::Cntvct => "cntvct",
            Self::MonotonicRaw => "monotonic_raw",
            Self::Fake => "fake",
        }
    }
}

/// What a worker needs to use the coordinator's clock without calibrating again.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Specification {
    pub source: Source,
    /// Ticks per second.
    pub hz: f64,
    /// The smallest step, in nanoseconds.
    pub resolution_ns: f64,
    /// The cost of one start/stop pair, in nanoseconds.
    pub read_ns: f64,
}

/// A calibrated clock. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Clock {
    specification: Specification,
    ns_per_tick: f64,
    fake: Option<Rc<FakeClock>>,
}

impl Clock {
    /// The clock a coordinator specified. A worker runs on the same machine, so its counter is the
    /// same counter.
    pub fn from_specification(specification: Specification) -> Self {
        Self { specification, ns_per_tick: 1e9 / specification.hz, fake: None }
    }

    /// A clock that reads `fake`, one tick a nanosecond, whose reads cost nothing unless the fake
    /// charges for them.
    pub fn fake(fake: Rc<FakeClock>) -> Self {
        let specification = Specification {
            source: Source::Fake,
            hz: 1e9,
            resolution_ns: 1.0,
            read_ns: fake.read_ns() as f64,
        };
        Self { specification, ns_per_tick: 1.0, fake: Some(fake) }
    }

    /// Counter, rate, resolution and read cost.
    pub fn specification(&self) -> Specification {
        self.specification
    }

    /// The stamp before the work: nothing after it starts early, nothing before it ends late.
    #[inline(always)]
    pub fn start(&self) -> Stamp {
        match self.specification.source {
            #[cfg(target_arch = "x86_64")]
            Source::Tsc => tsc::start(),
            #[cfg(target_arch = "aarch64")]
            Source::Cntvct => cntvct(),
            Source::Fake => self.fake.as_ref().map_or(0, |fake| fake.read()),
            _ => monotonic_raw_ns(),
        }
    }

    /// The stamp after the work.
    #[inline(always)]
    pub fn stop(&self) -> Stamp {
        match self.specification.source {
            #[cfg(target_arch = "x86_64")]
            Source::Tsc => tsc::stop(),
            #[cfg(target_arch = "aarch64")]
            Source::Cntvct => cntvct(),
            Source::Fake => self.fake.as_ref().map_or(0, |fake| fake.read()),
            _ => monotonic_raw_ns(),
        }
    }

    /// Nanoseconds between two stamps. A clock that ran backwards gives 0 here; that it did is
    /// found by [`check_order`] and invalidates the run.
    #[inline]
    pub fn ns(&self, from: Stamp, to: Stamp) -> f64 {
        to.saturating_sub(from) as f64 * self.ns_per_tick
    }

    /// The shortest batch that the clock can time to 0.1 % by its resolution and 1 % by its cost.
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

/// The wall clock in nanoseconds since 1970. For dates, and to notice that it was stepped; never
/// for a duration.
pub fn wall_ns() -> u64 {
    kernel_ns(ClockId::Realtime)
}

fn kernel_ns(id: ClockId) -> u64 {
    let time = clock_gettime(id);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The virtual counter, with `isb` so that the read is not moved.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
fn cntvct() -> Stamp {
    let ticks: u64;
    // SAFETY: reads a counter that the kernel leaves open to user space; touches no memory.
    unsafe {
        core::arch::asm!("isb", "mrs {ticks}, cntvct_el0", "isb", ticks = out(reg) ticks,
            options(nostack, preserves_flags));
    }
    ticks
}
