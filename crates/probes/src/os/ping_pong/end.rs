//! An end that is not the worker: a thread or a process that hands the token on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;

use fathom_measure::sampler::Fault;

use super::{ENDS_MAX, switches_of_this_thread};
use crate::os::child::{Child, Switches, close_all_but, fork_beside, refused};
use crate::os::link::Link;
use crate::os::link::sysv::REMOVED;
use crate::os::shared::{Shareable, Shared};
use crate::os::working_set::WorkingSet;

/// How another end found its work when it left. A process tells it by its exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leaving {
    Well = 0,
    /// A line of its set was not touched at each turn.
    Untouched = 3,
    /// It did not run on the CPU it was meant for.
    OtherCpu = 4,
    /// Its parent was gone before it began, or went.
    Orphaned = REMOVED as isize,
}

/// How often each other end had the token, by its own count.
pub(super) struct Turns(pub(super) [AtomicU64; ENDS_MAX]);

// SAFETY: atomics.
unsafe impl Shareable for Turns {}

/// An end that is not the worker, before it lives.
pub(super) struct End<L> {
    pub(super) link: L,
    pub(super) set: WorkingSet,
    /// The CPU it is to run on.
    pub(super) cpu: u32,
    pub(super) turns: Arc<Shared<Turns>>,
    /// Which of the turns are its own.
    pub(super) index: usize,
}

impl<L: Link> End<L> {
    /// Hands the token on until there is no more, touching the set at each turn.
    fn serve(&mut self) -> Leaving {
        let mut turns = 0;
        while let Some(token) = self.link.take() {
            self.set.touch();
            turns += 1;
            if !self.link.pass(token) {
                break;
            }
        }
        self.turns.0[self.index].store(turns, Ordering::Relaxed);
        // SAFETY: takes no argument and no lock.
        let cpu = unsafe { libc::sched_getcpu() };
        if u32::try_from(cpu) != Ok(self.cpu) {
            return Leaving::OtherCpu;
        }
        match self.set.was_touched(turns) {
            true => Leaving::Well,
            false => Leaving::Untouched,
        }
    }

    /// Serves in a thread of the worker's process, with a table of descriptors of its own. Where
    /// threads share one, the kernel counts the users of a file by atomic operations in each read
    /// and write: a switch between processes has none of that, and the self-pipe fewer.
    pub(super) fn into_thread(mut self) -> Result<JoinHandle<(Leaving, Switches)>, Fault> {
        let kept = self.link.descriptors();
        let (sender, outcome) = channel();
        let own = kept.clone();
        let life = move || {
            let unshared = close_all_but(&own);
            let serves = unshared.is_ok();
            let _ = sender.send(unshared);
            let leaving = if serves { self.serve() } else { Leaving::Well };
            (leaving, switches_of_this_thread())
        };
        let thread = std::thread::Builder::new().name("switch".to_owned()).spawn(life);
        let thread = thread.map_err(|error| refused("pthread_create", &error))?;
        let panicked = |_| Fault::Failed("another end panicked".to_owned());
        let unshared = outcome.recv().map_err(panicked)?;
        unshared.map_err(|error| Fault::system("close_range", error))?;
        for descriptor in kept {
            // SAFETY: its owner moved into the thread, which has it in its own table now.
            unsafe { libc::close(descriptor) };
        }
        Ok(thread)
    }

    /// Serves in a process of its own, which dies with the thread that made it.
    pub(super) fn into_process(mut self) -> Result<Child, Fault> {
        let (kept, signal) = (self.link.descriptors(), self.link.signal_of_death());
        // SAFETY: bare system calls on memory that is there already; no lock, no heap.
        let child = unsafe {
            fork_beside(&kept, signal, |has_parent| match has_parent {
                true => self.serve() as i32,
                false => {
                    self.link.remove_remains();
                    Leaving::Orphaned as i32
                }
            })
        };
        child.map_err(|error| refused("fork", &error))
    }
}

/// What is wrong with an end that left with this status; none if nothing is.
pub(super) fn wrong_by(status: i32) -> Option<String> {
    let text = match status {
        status if status == Leaving::Well as i32 => return None,
        status if status == Leaving::Untouched as i32 => "its set was not touched at each turn",
        status if status == Leaving::OtherCpu as i32 => "it ran on another CPU than it should have",
        status if status == Leaving::Orphaned as i32 => "it found the worker gone",
        _ => return Some(format!("another end left with exit status {status}")),
    };
    Some(format!("another end: {text}"))
}
