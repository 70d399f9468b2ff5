//! Memory of responses that are made rather than read: slow readers must not hold it without a
//! limit.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Up to this size a body is copied behind its head and leaves in the same call; above it,
/// sendfile costs less.
pub(crate) const SMALL: u64 = 32 << 10;
/// Of all responses together. A single one is smaller.
pub(crate) const HELD_BYTES_MAX: u64 = 64 << 20;

/// Bytes that all responses hold.
#[derive(Clone, Debug, Default)]
pub struct Budget(Arc<AtomicU64>);

/// A share of the budget, until it is dropped.
#[derive(Debug)]
pub struct Held {
    budget: Budget,
    bytes: u64,
}

impl Budget {
    /// `None` if all responses together would hold too much.
    pub fn hold(&self, bytes: u64) -> Option<Held> {
        let add = |held: u64| held.checked_add(bytes).filter(|&held| held <= HELD_BYTES_MAX);
        self.0.fetch_update(Relaxed, Relaxed, add).ok()?;
        Some(Held { budget: self.clone(), bytes })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.budget.0.fetch_sub(self.bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn share_is_free_again_once_it_is_dropped() {
        let budget = Budget::default();
        let half = HELD_BYTES_MAX / 2;
        let first = budget.hold(half).unwrap();
        let second = budget.hold(half).unwrap();
        assert!(budget.hold(1).is_none() && budget.hold(u64::MAX).is_none());
        drop(first);
        assert!(budget.hold(half + 1).is_none());
        let again = budget.hold(half);
        drop((second, again));
        assert!(budget.hold(HELD_BYTES_MAX).is_some());
    }
}
