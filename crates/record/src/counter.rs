//! The counters read around rounds and visits, and which of them a metric's own work moves.

/// A counter that tells of a disturbance, unless the work itself moves it.
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
    /// The speed of the core, by the reference loop.
    CoreSpeed,
}

/// A set of counters: those that a metric expects to move because its own work moves them. All
/// others are held against its samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters(u8);

impl Counters {
    /// Work that only computes: whatever moves disturbs it.
    pub const NONE: Self = Self(0);
    /// Work that takes turns with its own children on one CPU: being preempted and queueing are
    /// part of it.
    pub const TURNS: Self = Self::of(&[Counter::Preemptions, Counter::RunQueue]);
    /// Work that sleeps until another CPU has done its part.
    pub const SLEEP: Self = Self::of(&[Counter::NotRunning]);
    /// Work that sleeps until a device answers, so that the core's speed decides little.
    pub const DEVICE: Self = Self::of(&[
        Counter::NotRunning,
        Counter::MajorFaults,
        Counter::Interrupts,
        Counter::CoreSpeed,
    ]);

    /// The set of these.
    pub const fn of(counters: &[Counter]) -> Self {
        let (mut set, mut at) = (0, 0);
        while at < counters.len() {
            set |= 1 << counters[at] as u8;
            at += 1;
        }
        Self(set)
    }

    /// Whether it holds this one.
    pub const fn has(self, counter: Counter) -> bool {
        self.0 & (1 << counter as u8) != 0
    }
}
