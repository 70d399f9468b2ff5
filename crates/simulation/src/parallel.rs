//! Independent figures, computed on all CPUs. Each has its own random source, so that the order of
//! execution has no effect.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Results are in the order of the items.
pub(crate) fn each<I: Sync, F: Send>(items: &[I], figure: impl Fn(&I) -> F + Sync) -> Vec<F> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, F)>> = Mutex::new(Vec::new());
    let work = || {
        while let Some(item) = {
            let at = next.fetch_add(1, Ordering::Relaxed);
            items.get(at).map(|item| (at, item))
        } {
            let result = (item.0, figure(item.1));
            done.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(result);
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(items.len());
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    let mut done = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, figure)| figure).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order_of_items() {
        let items: Vec<u32> = (0..100).collect();
        assert_eq!(each(&items, |item| item * 2), (0..200).step_by(2).collect::<Vec<u32>>());
        assert!(each(&[] as &[u32], |item| *item).is_empty());
    }
}
