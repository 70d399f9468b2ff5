//! A peer of the worker: a thread or process that passes the token on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;

use super::ENDS_MAX;
use crate::os::child::{Child, Switches, close_all_but, creation_fault, fork_beside};
use crate::os::link::Link;
use crate::os::link::sysv::REMOVED;
use crate::os::shared::{Shareable, SharedPage};
use crate::os::working_set::WorkingSet;
use crate::prelude::*;

/// How a peer ended; the exit status of a process. 0 is success, [`REMOVED`] that the worker died
/// first.
pub(super) type PeerExit = i32;
/// A line of its working set was not touched each time.
const UNTOUCHED: PeerExit = 3;
/// It ran on another CPU than `cpu`.
const OTHER_CPU: PeerExit = 4;

/// Times that each peer had the token, by its own count.
pub(super) struct PeerTurns(pub(super) [AtomicU64; ENDS_MAX]);

// SAFETY: atomics.
unsafe impl Shareable for PeerTurns {}

/// What a peer needs to run.
pub(super) struct PeerTask<L> {
    pub(super) link: L,
    pub(super) set: WorkingSet,
    /// The CPU that it must end on.
    pub(super) cpu: u32,
    pub(super) turns: Arc<SharedPage<PeerTurns>>,
    /// Its index in `turns`.
    pub(super) index: usize,
}

impl<L: Link> PeerTask<L> {
    /// Passes the token on until the link is closed, touching the working set each time.
    fn run(&mut self) -> PeerExit {
        let mut turns = 0;
        while let Some(token) = self.link.receive() {
            self.set.touch();
            turns += 1;
            if !self.link.send(token) {
                break;
            }
        }
        // Relaxed: the worker reads it after this peer has ended.
        self.turns.0[self.index].store(turns, Ordering::Relaxed);
        // SAFETY: takes no argument and no lock.
        let cpu = unsafe { libc::sched_getcpu() };
        if u32::try_from(cpu) != Ok(self.cpu) {
            return OTHER_CPU;
        }
        if self.set.was_touched(turns) { 0 } else { UNTOUCHED }
    }

    /// Runs in a thread of the worker's process with its own descriptor table. Threads that share
    /// one make the kernel count a file's users atomically in each read and write, which a switch
    /// between processes does not.
    pub(super) fn spawn_thread(mut self) -> Result<JoinHandle<(PeerExit, Switches)>> {
        let kept = self.link.descriptors();
        let (sender, outcome) = channel();
        let own = kept.clone();
        let run = move || {
            let unshared = close_all_but(&own);
            let is_unshared = unshared.is_ok();
            let _ = sender.send(unshared);
            let exit = if is_unshared { self.run() } else { 0 };
            (exit, Switches::of_this_thread())
        };
        let thread = std::thread::Builder::new().name("switch".to_owned()).spawn(run);
        let thread = thread.map_err(|error| creation_fault("pthread_create", &error))?;
        let panicked = |_| SamplerFault::Failed("peer thread panicked".to_owned());
        let unshared = outcome.recv().map_err(panicked)?;
        unshared.map_err(|error| SamplerFault::system("close_range", error))?;
        for descriptor in kept {
            // SAFETY: its owner moved into the thread, which has it in its own table.
            unsafe { libc::close(descriptor) };
        }
        Ok(thread)
    }

    /// Runs in a child process, which dies with the thread that forked it.
    pub(super) fn fork(mut self) -> Result<Child> {
        let (kept, signal) = (self.link.descriptors(), self.link.parent_death_signal());
        // SAFETY: system calls on existing memory; no lock, no heap.
        let child = unsafe {
            fork_beside(&kept, signal, |has_parent| match has_parent {
                true => self.run(),
                false => {
                    self.link.remove_persistent();
                    REMOVED
                }
            })
        };
        child.map_err(|error| creation_fault("fork", &error))
    }
}

/// Describes an exit status other than success.
pub(super) fn exit_error(status: PeerExit) -> Option<String> {
    let text = match status {
        0 => return None,
        UNTOUCHED => "working set not touched each time",
        OTHER_CPU => "ran on another CPU",
        REMOVED => "worker died first",
        _ => return Some(format!("peer ended with exit status {status}")),
    };
    Some(format!("peer: {text}"))
}
