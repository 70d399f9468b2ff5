//! Who waits for a lane, and whether still.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Whether nobody waits for a piece of work any more.
pub(crate) type IsOver<'o> = &'o (dyn Fn() -> bool + Sync);

/// A connection's place in its reactor. The next connection in the slot has another generation, so
/// that late events and lanes miss it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) slot: u32,
    generation: u32,
}

impl Place {
    pub(crate) fn new(slot: u32) -> Self {
        Self { slot, generation: 0 }
    }

    pub(crate) fn next(self) -> Self {
        Self { generation: self.generation.wrapping_add(1), ..self }
    }

    /// As the data of an event.
    pub(crate) fn to_bits(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.slot)
    }

    pub(crate) fn from_bits(bits: u64) -> Self {
        Self { slot: bits as u32, generation: (bits >> 32) as u32 }
    }
}

/// Who waits for a lane.
#[derive(Debug)]
pub(crate) struct Ticket {
    pub(crate) reactor: usize,
    pub(crate) place: Place,
    is_cancelled: Arc<AtomicBool>,
}

/// The other half of a ticket. Once it is dropped, with its connection or at its limit, the lane
/// drops the job.
#[derive(Debug)]
pub(crate) struct Claim(Arc<AtomicBool>);

impl Ticket {
    pub(crate) fn new(reactor: usize, place: Place) -> (Self, Claim) {
        let is_cancelled = Arc::new(AtomicBool::new(false));
        let claim = Claim(Arc::clone(&is_cancelled));
        (Self { reactor, place, is_cancelled }, claim)
    }

    pub(crate) fn is_left(&self) -> bool {
        self.is_cancelled.load(Relaxed)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_claim_cancels_its_ticket() {
        let (ticket, claim) = Ticket::new(0, Place::new(3));
        assert!(!ticket.is_left());
        drop(claim);
        assert!(ticket.is_left());
    }

    #[test]
    fn next_connection_of_a_slot_has_another_place() {
        let last = Place { slot: 7, generation: u32::MAX };
        for place in [Place::new(7), last] {
            let next = place.next();
            assert_eq!((next.slot, next == place), (7, false));
            assert_eq!(Place::from_bits(next.to_bits()), next);
        }
    }
}
