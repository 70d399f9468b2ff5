//! Places of connections: whoever connects takes one, and gives it up when others need it.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use fathom_service::Held;
use tokio::task::AbortHandle;

/// Connections at once.
pub(crate) const CONNECTIONS_MAX: usize = 256;
/// Unread data are kept for so long, although others need their memory or their place.
const UNREAD_NS: u64 = 10_000_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SeatState {
    /// It has made no request that it may make.
    Stranger,
    Idle,
    /// Its client has not read all data since then, in nanoseconds.
    Unread(u64),
    Working,
}

/// The place of a connection.
#[derive(Debug)]
pub(crate) struct Seat {
    address: IpAddr,
    since_ns: u64,
    state: Mutex<SeatState>,
    pub(crate) task: OnceLock<AbortHandle>,
}

impl Seat {
    pub(crate) fn state(&self) -> MutexGuard<'_, SeatState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set(&self, state: SeatState) {
        *self.state() = state;
    }
}

/// Data on their way to a client.
pub(crate) struct Unread {
    pub(crate) data: String,
    #[expect(dead_code, reason = "held only")]
    pub(crate) held: Held,
    pub(crate) seat: Arc<Seat>,
}

impl AsRef<[u8]> for Unread {
    fn as_ref(&self) -> &[u8] {
        self.data.as_bytes()
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        self.seat.set(SeatState::Idle);
    }
}

#[derive(Debug)]
pub(crate) struct Seats {
    pub(crate) clock: fn() -> u64,
    taken: Mutex<Vec<Arc<Seat>>>,
    pub(crate) given_up: AtomicU64,
}

impl Seats {
    pub(crate) fn new(clock: fn() -> u64) -> Self {
        Self { clock, taken: Mutex::default(), given_up: AtomicU64::new(0) }
    }

    /// Takes a place. If there is none, the oldest stranger gives up its own, else the oldest
    /// connection that is idle, each of the address that has most of them. `None` if all work.
    pub(crate) fn take(&self, address: IpAddr) -> Option<Arc<Seat>> {
        if self.lock().len() >= CONNECTIONS_MAX && !self.free(|_| true) {
            return None;
        }
        let (since_ns, state) = ((self.clock)(), Mutex::new(SeatState::Stranger));
        let seat = Arc::new(Seat { address, since_ns, state, task: OnceLock::new() });
        self.lock().push(Arc::clone(&seat));
        Some(seat)
    }

    /// Ends the connection that has not read its data for longest; whether there was one.
    pub(crate) fn free_memory(&self) -> bool {
        self.free(|state| matches!(state, SeatState::Unread(_)))
    }

    fn free(&self, may: impl Fn(SeatState) -> bool) -> bool {
        let mut taken = self.lock();
        let now_ns = (self.clock)();
        let candidate = |seat: &Seat| match *seat.state() {
            state if !may(state) => None,
            SeatState::Working => None,
            SeatState::Unread(since) if now_ns.saturating_sub(since) < UNREAD_NS => None,
            SeatState::Unread(since) => Some((2, since)),
            state => Some((u8::from(state == SeatState::Idle), seat.since_ns)),
        };
        let mut of_address: HashMap<(IpAddr, u8), usize> = HashMap::new();
        let mut all = Vec::new();
        for (at, seat) in taken.iter().enumerate() {
            let Some((rank, since)) = candidate(seat) else { continue };
            *of_address.entry((seat.address, rank)).or_default() += 1;
            all.push((at, rank, since, seat.address));
        }
        let first = all.into_iter().min_by_key(|&(_, rank, since, address)| {
            (rank, Reverse(of_address[&(address, rank)]), since)
        });
        let Some((at, ..)) = first else { return false };
        taken.remove(at).task.get().inspect(|task| task.abort());
        self.given_up.fetch_add(1, Relaxed);
        true
    }

    pub(crate) fn leave(&self, seat: &Arc<Seat>) {
        self.lock().retain(|other| !Arc::ptr_eq(other, seat));
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Seat>>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn place_is_of_the_oldest_stranger_of_the_address_with_most() {
        let seats = Seats::new(|| UNREAD_NS);
        let [few, many] = [IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2])];
        let first = seats.take(few).unwrap();
        let known = seats.take(many).unwrap();
        known.set(SeatState::Idle);
        let all: Vec<_> = (2..CONNECTIONS_MAX).map(|_| seats.take(many).unwrap()).collect();
        let is_in = |seat| seats.lock().iter().any(|other| Arc::ptr_eq(other, seat));
        let last = seats.take(many).unwrap();
        assert!(!is_in(&all[0]) && is_in(&all[1]) && is_in(&first) && is_in(&known));
        all.iter().chain([&first, &last]).for_each(|seat| seat.set(SeatState::Working));
        seats.take(few).unwrap().set(SeatState::Unread(1));
        assert!(!is_in(&known) && seats.take(few).is_none() && !seats.free_memory());
        all[9].set(SeatState::Unread(0));
        assert!(seats.free_memory() && !is_in(&all[9]));
        assert_eq!(seats.given_up.load(Relaxed), 3);
    }
}
