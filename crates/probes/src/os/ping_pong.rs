//! Two ends on one CPU that pass a byte to and fro: one is the worker, the other a thread or a
//! process of its own.
//!
//! An end may run only while it holds the byte, so each turn is a switch. Beside the pipes between
//! the ends the worker has one to itself: passing the byte through that costs the same calls and
//! no switch.

use std::cell::{Cell, RefCell};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::thread::JoinHandle;

use fathom_measure::sampler::Fault;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};

use super::child::{Child, Switches, fork, refused};
use super::working_set::WorkingSet;

/// What the other end is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Thread,
    Process,
}

/// How the other end found its work when it left. A process tells it by its exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaving {
    Well = 0,
    /// A line of its set was not touched at each turn.
    Untouched = 3,
    /// It did not run on the CPU it was meant for.
    OtherCpu = 4,
    /// Its parent was gone before it began.
    Orphaned = 5,
}

/// The worker's end, and what it needs to end the other.
pub(super) struct Pair {
    to_peer: Option<OwnedFd>,
    from_peer: OwnedFd,
    to_self: OwnedFd,
    from_self: OwnedFd,
    set: RefCell<WorkingSet>,
    touches: Cell<u64>,
    trips: Cell<u64>,
    peer: Option<Peer>,
}

enum Peer {
    Thread(JoinHandle<(Leaving, Switches)>),
    Process(Child),
}

/// What the two ends did, told when they are done.
#[derive(Debug)]
pub(super) struct Report {
    /// Round trips, by the worker's count.
    pub(super) trips: u64,
    /// Times the other end was switched out over its whole life.
    pub(super) peer_switches: Switches,
    /// What either end found wrong with its work.
    pub(super) wrong: Option<String>,
}

impl Pair {
    /// Makes the other end, which waits for the byte on the CPU of this thread.
    pub(super) fn start(kind: Kind, set_bytes: usize, cpu: u32) -> Result<Self, Fault> {
        let (theirs_in, to_peer) = pipe()?;
        let (from_peer, theirs_out) = pipe()?;
        let (from_self, to_self) = pipe()?;
        let mut end =
            End { input: theirs_in, output: theirs_out, set: WorkingSet::new(set_bytes), cpu };
        let peer = match kind {
            Kind::Thread => {
                let life = move || (end.serve(), switches_of_this_thread());
                let thread = std::thread::Builder::new().name("switch".to_owned()).spawn(life);
                Peer::Thread(thread.map_err(|error| refused("pthread_create", &error))?)
            }
            Kind::Process => Peer::Process(end.into_process()?),
        };
        Ok(Self {
            to_peer: Some(to_peer),
            from_peer,
            to_self,
            from_self,
            set: RefCell::new(WorkingSet::new(set_bytes)),
            touches: Cell::new(0),
            trips: Cell::new(0),
            peer: Some(peer),
        })
    }

    /// The other end, where it is a process of its own.
    pub(super) fn process(&self) -> Option<u32> {
        match &self.peer {
            Some(Peer::Process(child)) => Some(child.id()),
            _ => None,
        }
    }

    /// Makes round trips: two switches each, two writes, two reads, a touch of each end's set.
    /// Returns how many the byte came back from.
    pub(super) fn round_trips(&self, trips: u64) -> u64 {
        let Some(to_peer) = &self.to_peer else { return 0 };
        let mut set = self.set.borrow_mut();
        let mut done = 0;
        while done < trips && passes(to_peer, &self.from_peer, done as u8) {
            set.touch();
            done += 1;
        }
        self.trips.set(self.trips.get() + done);
        self.touches.set(self.touches.get() + done);
        done
    }

    /// The same calls and touches as so many round trips, without a switch.
    pub(super) fn alone(&self, trips: u64) -> u64 {
        let mut set = self.set.borrow_mut();
        let mut passed = 0;
        while passed < 2 * trips && passes(&self.to_self, &self.from_self, passed as u8) {
            set.touch();
            passed += 1;
        }
        self.touches.set(self.touches.get() + passed);
        passed / 2
    }

    /// Ends the other end, and tells what the two did.
    pub(super) fn finish(mut self) -> Result<Report, Fault> {
        let (mut wrong, peer_switches) = self.end_peer()?;
        if !self.set.borrow().was_touched(self.touches.get()) {
            wrong = Some("the worker's set was not touched at each turn".to_owned());
        }
        Ok(Report { trips: self.trips.get(), peer_switches, wrong })
    }

    /// The other end sees the end of its pipe and leaves.
    fn end_peer(&mut self) -> Result<(Option<String>, Switches), Fault> {
        self.to_peer = None;
        match self.peer.take() {
            None => Err(Fault::Failed("the other end was ended before".to_owned())),
            Some(Peer::Thread(thread)) => {
                let panicked = |_| Fault::Failed("the other end panicked".to_owned());
                let (leaving, switches) = thread.join().map_err(panicked)?;
                Ok((wrong_by(leaving as i32), switches))
            }
            Some(Peer::Process(child)) => {
                let ended = child.wait()?;
                match ended.status.code() {
                    Some(code) => Ok((wrong_by(code), ended.switches)),
                    None => Err(Fault::WrongWork(format!("the other end: {}", ended.status))),
                }
            }
        }
    }

    /// Kills the other end, if it is a process.
    #[cfg(test)]
    pub(super) fn kill_peer(&self) {
        if let Some(Peer::Process(child)) = &self.peer {
            child.kill();
        }
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        if self.peer.is_some() {
            // There is nobody to tell.
            let _ = self.end_peer();
        }
    }
}

/// The other end.
struct End {
    input: OwnedFd,
    output: OwnedFd,
    set: WorkingSet,
    cpu: u32,
}

impl End {
    /// Hands the byte back until there is no more, touching the set at each turn.
    fn serve(&mut self) -> Leaving {
        let mut turns = 0;
        let mut byte = [0];
        while rustix::io::read(&self.input, &mut byte) == Ok(1) {
            self.set.touch();
            turns += 1;
            if rustix::io::write(&self.output, &byte) != Ok(1) {
                break;
            }
        }
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

    /// Serves in a process of its own, which dies with the thread that made it.
    fn into_process(mut self) -> Result<Child, Fault> {
        let parent = getpid();
        // SAFETY: bare system calls on memory that is there already; no lock, no heap.
        let child = unsafe {
            fork(|| {
                let tied = set_parent_process_death_signal(Some(Signal::KILL));
                // A parent that died before that call sends no signal any more.
                if tied.is_err() || getppid() != Some(parent) {
                    return Leaving::Orphaned as i32;
                }
                close_all_but(self.input.as_raw_fd(), self.output.as_raw_fd());
                self.serve() as i32
            })
        };
        child.map_err(|error| refused("fork", &error))
    }
}

/// What is wrong with an end that left with this status; none if nothing is.
fn wrong_by(status: i32) -> Option<String> {
    let text = match status {
        status if status == Leaving::Well as i32 => return None,
        status if status == Leaving::Untouched as i32 => "its set was not touched at each turn",
        status if status == Leaving::OtherCpu as i32 => "it ran on another CPU than the worker's",
        status if status == Leaving::Orphaned as i32 => "the worker was gone before it began",
        _ => return Some(format!("the other end left with exit status {status}")),
    };
    Some(format!("the other end: {text}"))
}

/// Passes a byte and waits for it: whether the same one came back.
#[inline]
fn passes(to: &OwnedFd, from: &OwnedFd, byte: u8) -> bool {
    let mut back = [!byte];
    rustix::io::write(to, &[byte]) == Ok(1)
        && rustix::io::read(from, &mut back) == Ok(1)
        && back == [byte]
}

fn pipe() -> Result<(OwnedFd, OwnedFd), Fault> {
    pipe_with(PipeFlags::CLOEXEC).map_err(|error| Fault::system("pipe", error))
}

/// Closes what a child process inherited, other ends' pipes above all: as long as anybody holds
/// the writing end, nobody sees the end of a pipe.
fn close_all_but(one: RawFd, other: RawFd) {
    let (low, high) = (one.min(other) as u32, one.max(other) as u32);
    for (first, last) in [(0, low), (low + 1, high), (high + 1, u32::MAX)] {
        if first < last {
            let last = if last == u32::MAX { last } else { last - 1 };
            // SAFETY: the child uses no descriptor but the two that are spared.
            unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
        }
    }
}

/// Times the calling thread was switched out since it began.
pub(super) fn switches_of_this_thread() -> Switches {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is to writable memory of the type the call fills, and an all-zero
    // `rusage` is a valid one.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
        usage.assume_init()
    };
    Switches::of(&usage)
}

#[cfg(test)]
mod tests;
