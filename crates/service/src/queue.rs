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
    most: usize,
}

impl<T> Queue<T> {
    /// For at most so many items.
    pub(crate) fn new(most: usize) -> Self {
        let items = Items { waiting: VecDeque::new(), is_closed: false, most };
        Self { items: Mutex::new(items), arrived: Condvar::new() }
    }

    /// Adds an item; after [`Queue::close`] it is dropped. False if there is no room.
    pub(crate) fn push(&self, item: T) -> bool {
        let mut items = self.lock();
        if items.waiting.len() >= items.most {
            return false;
        }
        if !items.is_closed {
            items.waiting.push_back(item);
            self.arrived.notify_one();
        }
        true
    }

    /// Drops items that are not wanted any more.
    pub(crate) fn retain(&self, is_wanted: impl FnMut(&T) -> bool) {
        self.lock().waiting.retain(is_wanted);
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
