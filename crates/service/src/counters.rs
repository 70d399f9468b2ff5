//! What each reactor counts. Only its own thread writes, so that counting needs no locked
//! instruction.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Statuses that are counted by themselves; every other one is counted as 500.
pub(crate) const STATUSES: [u16; 21] = [
    200, 206, 301, 304, 400, 401, 403, 404, 405, 408, 411, 412, 414, 416, 417, 426, 431, 500, 501,
    503, 505,
];
const OTHER: usize = 17;

// Two cache lines: the adjacent one is prefetched.
#[repr(align(128))]
#[derive(Debug, Default)]
pub(crate) struct ServiceCounters {
    /// Responses for files and folders.
    pub(crate) responses: Count,
    /// Of these, those with a status below 400.
    pub(crate) responses_ok: Count,
    /// Bytes of bodies.
    pub(crate) body_bytes: Count,
    /// All bytes.
    pub(crate) wire_bytes: Count,
    pub(crate) busy_ns: Count,
    /// Responses that ended early: the client left, was too slow, or the file became shorter.
    pub(crate) broken: Count,
    pub(crate) accepted: Count,
    /// Connections refused at a limit.
    pub(crate) refused: Count,
    /// Connections closed because of a time limit.
    pub(crate) timed_out: Count,
    /// Reads by a lane.
    pub(crate) lane_reads: Count,
    pub(crate) by_status: [Count; STATUSES.len()],
    /// Connections of this reactor, counted by the one that accepts them.
    pub(crate) connections: AtomicUsize,
}

#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, more: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(more), Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

impl ServiceCounters {
    pub(crate) fn status(&self, status: u16) {
        let at = STATUSES.iter().position(|&known| known == status).unwrap_or(OTHER);
        self.by_status[at].add(1);
    }
}

/// The sum of a counter over all reactors.
pub(crate) fn sum(all: &[ServiceCounters], of: impl Fn(&ServiceCounters) -> &Count) -> u64 {
    all.iter().map(|one| of(one).get()).sum()
}

pub(crate) fn connections(all: &[ServiceCounters]) -> usize {
    all.iter().map(|one| one.connections.load(Relaxed)).sum()
}
