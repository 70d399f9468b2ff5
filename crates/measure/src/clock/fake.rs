//! A clock for tests, which advance it, so that results are reproducible.

use std::cell::Cell;

use super::ClockStamp;

/// Scripted time. Each read costs a fixed number of nanoseconds.
#[derive(Debug, Default)]
pub struct FakeClock {
    now_ns: Cell<u64>,
    read_ns: u64,
}

impl FakeClock {
    /// A clock at 0 whose reads cost `read_ns` each.
    pub fn new(read_ns: u64) -> Self {
        Self { now_ns: Cell::new(0), read_ns }
    }

    pub fn advance(&self, ns: u64) {
        self.now_ns.set(self.now_ns.get() + ns);
    }

    pub fn read_ns(&self) -> u64 {
        self.read_ns
    }

    pub fn read(&self) -> ClockStamp {
        self.advance(self.read_ns);
        self.now_ns.get()
    }
}
