//! A queue from many threads to some threads that wait for it.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

#[derive(Debug)]
pub(crate) struct Queue<T> {
    items: Mutex<Items<T>>,
    arrived: Condvar,
}

#[derive(Debug)]
struct Items<T> {
    waiting: VecDeque<T>,
    is_closed: bool,
}

impl<T> Queue<T> {
    pub(crate) fn new() -> Self {
        let items = Items { waiting: VecDeque::new(), is_closed: false };
        Self { items: Mutex::new(items), arrived: Condvar::new() }
    }

    /// Adds an item; after [`Queue::close`] it is dropped.
    pub(crate) fn push(&self, item: T) {
        let mut items = self.lock();
        if !items.is_closed {
            items.waiting.push_back(item);
            self.arrived.notify_one();
        }
    }

    /// Waits for an item; `None` after [`Queue::close`].
    pub(crate) fn pop(&self) -> Option<T> {
        let mut items = self.lock();
        loop {
            if items.is_closed {
                return None;
            }
            if let Some(item) = items.waiting.pop_front() {
                return Some(item);
            }
            items = self.arrived.wait(items).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().waiting.len()
    }

    /// Drops what waits, and lets all waiting threads go.
    pub(crate) fn close(&self) {
        let mut items = self.lock();
        items.is_closed = true;
        items.waiting.clear();
        self.arrived.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Items<T>> {
        self.items.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
