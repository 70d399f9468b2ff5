//! Early termination of a procedure: Ctrl-C or a time limit.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::ProcedureError;

/// Time for a pending read to notice the stop flag.
const GRACE: Duration = Duration::from_secs(5);

/// Stop flags, set by a signal handler, a time limit or a test.
pub struct Stop {
    now: Arc<AtomicBool>,
    by_person: Arc<AtomicBool>,
    give_up: fn() -> !,
}

impl Stop {
    /// Long operations poll `now`; `by_person` marks an interruption by Ctrl-C. `give_up` ends a
    /// process whose read never returns.
    pub fn new(now: Arc<AtomicBool>, by_person: Arc<AtomicBool>, give_up: fn() -> !) -> Self {
        Self { now, by_person, give_up }
    }

    /// The flag that long operations poll.
    pub fn now(&self) -> &AtomicBool {
        &self.now
    }

    /// The same flag, for what outlives the borrow.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.now)
    }

    /// Whether Ctrl-C was pressed.
    pub fn is_by_person(&self) -> bool {
        self.by_person.load(Ordering::Relaxed)
    }

    /// Sets the stop flag after `limit`, unless the returned value is dropped first. `may_hang`: a
    /// read can block forever without polling the flag; the process then exits.
    ///
    /// # Errors
    /// If no thread can be started for the limit.
    pub fn after(
        &self,
        limit: Option<Duration>,
        may_hang: bool,
    ) -> Result<Option<StopLimit>, ProcedureError> {
        let Some(limit) = limit else { return Ok(None) };
        let (cancel, cancelled) = channel::<()>();
        let flag = Arc::clone(&self.now);
        let give_up = self.give_up;
        let timer = std::thread::Builder::new().spawn(move || {
            if cancelled.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                flag.store(true, Ordering::Relaxed);
                if may_hang && cancelled.recv_timeout(GRACE) == Err(RecvTimeoutError::Timeout) {
                    give_up();
                }
            }
        });
        let failed = |error| ProcedureError::failed(format!("start a thread: {error}"));
        let timer = timer.map_err(failed)?;
        let by_person = Arc::clone(&self.by_person);
        let now = Arc::clone(&self.now);
        Ok(Some(StopLimit { cancel: Some(cancel), timer: Some(timer), now, by_person }))
    }
}

/// A time limit, cancelled on drop.
pub struct StopLimit {
    cancel: Option<Sender<()>>,
    timer: Option<JoinHandle<()>>,
    now: Arc<AtomicBool>,
    by_person: Arc<AtomicBool>,
}

impl Drop for StopLimit {
    fn drop(&mut self) {
        drop(self.cancel.take());
        if let Some(timer) = self.timer.take() {
            let _ = timer.join();
        }
        // The next operation has its own limit; Ctrl-C stays in effect.
        self.now.store(self.by_person.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}
