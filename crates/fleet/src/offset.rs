//! The offset of a member's clock, by exchanges of four stamps.

/// Exchanges of a member.
pub(crate) const EXCHANGES: u32 = 64;

/// The stamps of one exchange: sent and answered by the coordinator's clock, received and answered
/// by the member's, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OffsetExchange {
    pub sent_ns: u64,
    pub received_ns: u64,
    pub answered_ns: u64,
    pub back_ns: u64,
}

/// The clock of a member beside that of the coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offset {
    /// The member's clock minus the coordinator's, in nanoseconds. As wide as the difference of two
    /// clocks that began with their machines.
    pub ns: i128,
    /// The round trip without the time that the member took, in nanoseconds. Half of it is the
    /// error of the offset: both ways together are known, each one alone is not.
    pub round_trip_ns: u64,
}

impl Offset {
    /// `None` for stamps that cannot be: later ones that are smaller.
    pub(crate) fn from_exchange(exchange: OffsetExchange) -> Option<Self> {
        let OffsetExchange { sent_ns, received_ns, answered_ns, back_ns } = exchange;
        let inside_ns = answered_ns.checked_sub(received_ns)?;
        let round_trip_ns = back_ns.checked_sub(sent_ns)?.checked_sub(inside_ns)?;
        let middle = |a: u64, b: u64| (i128::from(a) + i128::from(b)) / 2;
        let ns = middle(received_ns, answered_ns) - middle(sent_ns, back_ns);
        Some(Self { ns, round_trip_ns })
    }

    /// That of the shorter round trip: queues only lengthen one.
    pub(crate) fn better(self, other: Self) -> Self {
        if other.round_trip_ns < self.round_trip_ns { other } else { self }
    }

    pub fn error_ns(&self) -> f64 {
        self.round_trip_ns as f64 / 2.0
    }

    /// A time of the coordinator by the member's clock; 0 if it was before that began.
    pub(crate) fn at_member(&self, coordinator_ns: u64) -> u64 {
        u64::try_from(i128::from(coordinator_ns) + self.ns).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortest_exchange_gives_offset_within_its_error() {
        // The member's clock is 5,000 ns behind; the way there is longer in the first exchange.
        let of = |there, inside, back| {
            let sent_ns = 100_000;
            let received_ns = sent_ns + there - 5_000;
            let answered_ns = received_ns + inside;
            let back_ns = answered_ns + 5_000 + back;
            Offset::from_exchange(OffsetExchange { sent_ns, received_ns, answered_ns, back_ns })
                .unwrap()
        };
        let (queued, quick) = (of(900, 50, 100), of(110, 7_000, 90));
        assert_eq!((queued.round_trip_ns, quick.round_trip_ns), (1_000, 200));
        assert_eq!(queued.better(quick), quick);
        assert_eq!(quick.better(queued), quick);
        for offset in [queued, quick] {
            assert!((offset.ns + 5_000).unsigned_abs() as f64 <= offset.error_ns(), "{offset:?}");
        }
        assert_eq!(quick.at_member(1_000_000), 995_010);
        assert_eq!(quick.at_member(10), 0);
    }

    #[test]
    fn impossible_stamps_are_no_exchange() {
        let of = |sent_ns, received_ns, answered_ns, back_ns| {
            Offset::from_exchange(OffsetExchange { sent_ns, received_ns, answered_ns, back_ns })
        };
        assert!(of(10, 5, 6, 12).is_some());
        // Answered before it was received; back before it was sent; inside longer than the whole.
        assert_eq!(of(10, 6, 5, 12), None);
        assert_eq!(of(12, 5, 6, 10), None);
        assert_eq!(of(10, 0, u64::MAX, 12), None);
    }
}
