//! The counters read around rounds and visits, and which of them a metric's own work moves.

/// A counter that indicates a disturbance, unless the work itself moves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter {
    /// Involuntary context switches: another task took the CPU.
    Preemptions,
    /// Time runnable but waiting for a CPU.
    RunQueue,
    /// Wall time in which neither the worker nor its children ran.
    NotRunning,
    /// Page faults that waited for a device.
    MajorFaults,
    /// Time the pinned CPU spent in interrupts.
    Interrupts,
    /// Speed of the core, by the reference loop.
    CoreSpeed,
}

/// The counters that a metric's own work is expected to move. All others count as disturbances of
/// its samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters(u8);

impl Counters {
    /// Work that only computes: every counter indicates a disturbance.
    pub const NONE: Self = Self(0);
    /// Work that alternates with its own children on one CPU: preemption and queueing are part of
    /// it.
    pub const TURNS: Self = Self::from_counters(&[Counter::Preemptions, Counter::RunQueue]);
    /// Work that sleeps until another CPU has done its part.
    pub const SLEEP: Self = Self::from_counters(&[Counter::NotRunning]);
    /// Work that sleeps until a device answers, so that core speed matters little.
    pub const DEVICE: Self = Self::from_counters(&[
        Counter::NotRunning,
        Counter::MajorFaults,
        Counter::Interrupts,
        Counter::CoreSpeed,
    ]);

    pub const fn from_counters(counters: &[Counter]) -> Self {
        let (mut set, mut at) = (0, 0);
        while at < counters.len() {
            set |= 1 << counters[at] as u8;
            at += 1;
        }
        Self(set)
    }

    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub const fn has(self, counter: Counter) -> bool {
        self.0 & (1 << counter as u8) != 0
    }
}
