//! When to stop before the end: a person's Ctrl-C, or a limit of time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;

/// How long a read may go on after it was told to stop.
const GRACE: Duration = Duration::from_secs(5);

/// Told to stop, and by whom.
pub(super) struct Stop {
    /// Looked at by whatever takes long.
    now: Arc<AtomicBool>,
    by_person: Arc<AtomicBool>,
}

impl Stop {
    /// Listens to SIGINT, SIGTERM and SIGHUP from now on. The first is obeyed in order, the second
    /// at once: what has no name yet is gone with the process.
    ///
    /// # Errors
    /// When no signal handler can be had.
    pub(super) fn listen() -> std::io::Result<Self> {
        let (now, by_person) = (Arc::default(), Arc::default());
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            flag::register_conditional_shutdown(signal, 130, Arc::clone(&by_person))?;
            flag::register(signal, Arc::clone(&by_person))?;
            flag::register(signal, Arc::clone(&now))?;
        }
        // Heard and forgotten: the write beyond a limit on files then fails, and can be told.
        flag::register(SIGXFSZ, Arc::default())?;
        Ok(Self { now, by_person })
    }

    /// What is to be looked at.
    pub(super) fn now(&self) -> &AtomicBool {
        &self.now
    }

    /// Whether a person asked to stop.
    pub(super) fn is_by_person(&self) -> bool {
        self.by_person.load(Ordering::Relaxed)
    }

    /// Stops after so much time, unless the value it returns is dropped first. `may_hang`: a read
    /// may wait for what never comes, and then does not look; it is given up.
    pub(super) fn after(&self, limit: Option<Duration>, may_hang: bool) -> Option<Limit> {
        let limit = limit?;
        let (cancel, cancelled) = channel::<()>();
        let now = Arc::clone(&self.now);
        let timer = std::thread::spawn(move || {
            if cancelled.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                now.store(true, Ordering::Relaxed);
                if may_hang && cancelled.recv_timeout(GRACE) == Err(RecvTimeoutError::Timeout) {
                    crate::terminal::warn("a read does not return within the time limit; given up");
                    std::process::exit(1);
                }
            }
        });
        let by_person = Arc::clone(&self.by_person);
        let now = Arc::clone(&self.now);
        Some(Limit { cancel: Some(cancel), timer: Some(timer), now, by_person })
    }
}

/// A limit of time that holds as long as this value.
pub(super) struct Limit {
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
