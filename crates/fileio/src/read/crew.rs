//! The threads of a read. They are made first and begin together, so that making them is not
//! timed; the calling thread is one of them.

use std::sync::{Condvar, Mutex, PoisonError};

use fathom_measure::Clock;
use fathom_measure::clock::Stamp;
use rustix::io::Errno;

use super::job::Tally;
use super::{ReadError, failed};

/// What the threads that are ready wait for.
#[derive(Default)]
struct Gate {
    state: Mutex<(usize, Option<bool>)>,
    changed: Condvar,
}

impl Gate {
    /// Says that a thread is ready, and waits; false: nothing is to be done.
    fn pass(&self) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.0 += 1;
        self.changed.notify_all();
        loop {
            match state.1 {
                Some(go) => return go,
                None => state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    /// Opens when so many threads wait, or sends them home at once. The stamp is from before: whom
    /// the opening wakes may take the CPU of the caller, and be done before it looks at a clock.
    fn open(&self, go: bool, threads: usize, clock: &Clock) -> Stamp {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while go && state.0 < threads {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let begin = clock.start();
        state.1 = Some(go);
        self.changed.notify_all();
        begin
    }
}

/// Lets each worker work on a thread of its own; what all have done, and how long it took.
pub(super) fn work<W: Send>(
    mut workers: Vec<W>,
    clock: &Clock,
    work: impl Fn(W) -> Tally + Sync,
) -> Result<(Tally, f64), ReadError> {
    let Some(own) = workers.pop() else { return Ok((Tally::default(), 0.0)) };
    let (gate, work, others) = (Gate::default(), &work, workers.len());
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for worker in workers {
            let gate = &gate;
            let begun = std::thread::Builder::new().spawn_scoped(scope, move || {
                if gate.pass() { work(worker) } else { Tally::default() }
            });
            match begun {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    gate.open(false, others, clock);
                    let error = Errno::from_io_error(&error).unwrap_or(Errno::AGAIN);
                    return Err(failed("make a thread", error));
                }
            }
        }
        let begin = gate.open(true, others, clock);
        let mut all = work(own);
        for thread in threads {
            match thread.join() {
                Ok(tally) => all.merge(tally),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok((all, clock.ns(begin, clock.stop())))
    })
}
