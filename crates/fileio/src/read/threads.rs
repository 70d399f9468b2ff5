//! The threads of a read. They are spawned first and start together, so that spawning is not
//! timed. The calling thread is one of them.

use std::sync::{Condvar, Mutex, PoisonError};

use fathom_measure::Clock;
use fathom_measure::clock::{ClockStamp, thread_cpu_ns};
use rustix::io::Errno;

use super::job::ReadTally;
use super::{ReadError, failed};

/// Holds the threads until all are ready.
#[derive(Default)]
struct ThreadGate {
    /// Threads waiting, and whether to go once decided.
    state: Mutex<(usize, Option<bool>)>,
    changed: Condvar,
}

impl ThreadGate {
    /// Reports a thread ready and waits. Returns false if it is to end at once.
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

    /// Waits for `threads` threads and starts them; with `go` false cancels them at once. The
    /// stamp is taken before the wake-up: a woken thread may preempt the caller and finish before
    /// the caller reads the clock.
    fn open(&self, go: bool, threads: usize, clock: &Clock) -> ClockStamp {
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

/// Runs each worker on its own thread. Returns the merged tally and the nanoseconds.
pub(super) fn run<W: Send>(
    mut workers: Vec<W>,
    clock: &Clock,
    work: impl Fn(W) -> ReadTally + Sync,
) -> Result<(ReadTally, f64), ReadError> {
    let Some(own) = workers.pop() else { return Ok((ReadTally::default(), 0.0)) };
    let work = |worker| {
        let begin = thread_cpu_ns();
        let mut tally = work(worker);
        tally.cpu_ns = thread_cpu_ns() - begin;
        tally
    };
    let (gate, work, others) = (ThreadGate::default(), &work, workers.len());
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for worker in workers {
            let gate = &gate;
            let spawned = std::thread::Builder::new().spawn_scoped(scope, move || {
                if gate.pass() { work(worker) } else { ReadTally::default() }
            });
            match spawned {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    gate.open(false, others, clock);
                    let error = Errno::from_io_error(&error).unwrap_or(Errno::AGAIN);
                    return Err(failed("spawn a thread", error));
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
