//! Who waits for a lane, and whether still.

use std::sync::{Arc, Weak};

/// Whether nobody waits for a piece of work any more.
pub(crate) type IsOver<'o> = &'o (dyn Fn() -> bool + Sync);

/// A connection's place in its reactor. The next connection in the slot has another generation, so
/// that late events and lanes miss it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TicketPlace {
    pub(crate) slot: u32,
    generation: u32,
}

impl TicketPlace {
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

/// Who waits for a lane, as long as the claim on it lives: a connection drops that at its end or at
/// its limit.
#[derive(Debug)]
pub(crate) struct Ticket {
    pub(crate) reactor: usize,
    pub(crate) place: TicketPlace,
    claim: Weak<()>,
}

impl Ticket {
    pub(crate) fn new(reactor: usize, place: TicketPlace) -> (Self, Arc<()>) {
        let claim = Arc::new(());
        (Self { reactor, place, claim: Arc::downgrade(&claim) }, claim)
    }

    pub(crate) fn is_left(&self) -> bool {
        self.claim.strong_count() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_claim_cancels_its_ticket() {
        let (ticket, claim) = Ticket::new(0, TicketPlace::new(3));
        assert!(!ticket.is_left());
        drop(claim);
        assert!(ticket.is_left());
    }

    #[test]
    fn next_connection_of_a_slot_has_another_place() {
        let last = TicketPlace { slot: 7, generation: u32::MAX };
        for place in [TicketPlace::new(7), last] {
            let next = place.next();
            assert_eq!((next.slot, next == place), (7, false));
            assert_eq!(TicketPlace::from_bits(next.to_bits()), next);
        }
    }
}
