//! When to stop before the end: a person's Ctrl-C, or a limit of time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long a read may go on after it was told to stop.
const GRACE: Duration = Duration::from_secs(5);

/// Whether to stop, and at whose word. Whoever makes it sets the flags, by signals or in a test.
pub struct Stop {
    now: Arc<AtomicBool>,
    by_person: Arc<AtomicBool>,
    give_up: fn() -> !,
}

impl Stop {
    /// `now` is looked at by whatever takes long; `by_person` is set where a person asked for it.
    /// `give_up` ends the process whose read never returns.
    pub fn new(now: Arc<AtomicBool>, by_person: Arc<AtomicBool>, give_up: fn() -> !) -> Self {
        Self { now, by_person, give_up }
    }

    /// What is to be looked at.
    pub fn now(&self) -> &AtomicBool {
        &self.now
    }

    /// Whether a person asked to stop.
    pub fn is_by_person(&self) -> bool {
        self.by_person.load(Ordering::Relaxed)
    }

    /// Stops after so much time, unless the value it returns is dropped first. `may_hang`: a read
    /// may wait for what never comes, and then does not look; it is given up.
    pub fn after(&self, limit: Option<Duration>, may_hang: bool) -> Option<Limit> {
        let limit = limit?;
        let (cancel, cancelled) = channel::<()>();
        let now = Arc::clone(&self.now);
        let give_up = self.give_up;
        let timer = std::thread::spawn(move || {
            if cancelled.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                now.store(true, Ordering::Relaxed);
                if may_hang && cancelled.recv_timeout(GRACE) == Err(RecvTimeoutError::Timeout) {
                    give_up();
                }
            }
        });
        let by_person = Arc::clone(&self.by_person);
        let now = Arc::clone(&self.now);
        Some(Limit { cancel: Some(cancel), timer: Some(timer), now, by_person })
    }
}

/// A limit of time that holds as long as this value.
pub struct Limit {
    cancel: Option<Sender<()>>,
    timer: Option<JoinHandle<()>>,
    now: Arc<AtomicBool>,
    by_person: Arc<AtomicBool>,
}

impl Drop for Limit {
    fn drop(&mut self) {
        drop(self.cancel.take());
        if let Some(timer) = self.timer.take() {
            let _ = timer.join();
        }
        // What comes next has its own limit, if any; a person's word stands.
        self.now.store(self.by_person.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}
