//! Ends that pass a token round: one is the worker, the others threads or processes of their own.
//! Two of them play ping-pong, more make a ring.
//!
//! An end may run only while it holds the token, so on one CPU each turn is a switch. Beside the
//! links between the ends the worker may have one to itself: passing the token through that costs
//! the same calls and no switch.

mod end;

use fathom_record::Remedy;
use std::cell::{Cell, RefCell};
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use fathom_measure::sampler::Fault;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::thread::{CpuSet, sched_setaffinity};

use self::end::{End, Leaving, Turns, wrong_by};
use super::child::{Child, Switches, refused};
use super::link::pipe::{Piped, pipes};
use super::link::{Alarm, Link};
use super::shared::Shared;
use super::working_set::WorkingSet;

/// Ends in a ring at most, the worker included.
pub(super) const ENDS_MAX: usize = 16;

/// What the other ends are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Thread,
    Process,
}

/// What all ends but the worker's have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Others {
    pub(super) kind: Kind,
    /// Memory that every end touches at each turn, the worker's included.
    pub(super) set_bytes: usize,
    /// The CPU they are to run on. Each says at its end whether it did.
    pub(super) cpu: u32,
}

/// The worker's end, and what it needs to end the others.
pub(super) struct Ring<L: Link> {
    /// To the next end and from the last; none once it has hung up.
    link: Option<L>,
    /// To itself, where that is to be timed too.
    own: Option<L>,
    set: RefCell<WorkingSet>,
    touches: Cell<u64>,
    trips: Cell<u64>,
    turns: Arc<Shared<Turns>>,
    ends: u64,
    others: Vec<Other>,
}

/// Two ends joined by pipes, and a pipe of the worker's to itself.
pub(super) type Pair = Ring<Piped>;

/// An end that is not the worker.
struct Other {
    life: Life,
    /// Sounds the alarm when it dies, where the kernel tells the worker nothing.
    watch: Option<JoinHandle<()>>,
}

enum Life {
    Thread(JoinHandle<(Leaving, Switches)>),
    Process(Child),
}

/// What the ends did, told when they are done.
#[derive(Debug)]
pub(super) struct Report {
    /// Times that the token went round, by the worker's count.
    pub(super) trips: u64,
    /// Times each other end was switched out over its whole life.
    pub(super) peer_switches: Vec<Switches>,
    /// What an end found wrong with its work.
    pub(super) wrong: Option<String>,
}

impl Pair {
    /// Makes the other end, which waits for the token on the CPU of this thread.
    pub(super) fn start(kind: Kind, set_bytes: usize, cpu: u32) -> Result<Self, Fault> {
        Self::piped(2, Others { kind, set_bytes, cpu })
    }

    /// The same with more ends than one.
    pub(super) fn piped(ends: usize, others: Others) -> Result<Self, Fault> {
        let own = pipes(1)?.pop();
        let mut ring = Self::join(pipes(ends)?, others)?;
        ring.own = own;
        Ok(ring)
    }
}

impl<L: Link> Ring<L> {
    /// Takes the first of some links and makes an end for each of the others, which waits for the
    /// token.
    pub(super) fn join(links: Vec<L>, others: Others) -> Result<Self, Fault> {
        let ends = links.len();
        if !(2..=ENDS_MAX).contains(&ends) {
            return Err(Fault::Failed(format!("{ends} ends make no ring; 2 to {ENDS_MAX} do")));
        }
        let mut links = links.into_iter();
        let mut ring = Self {
            link: links.next(),
            own: None,
            set: RefCell::new(WorkingSet::new(others.set_bytes)),
            touches: Cell::new(0),
            trips: Cell::new(0),
            turns: Arc::new(Shared::zeroed()?),
            ends: ends as u64,
            others: Vec::new(),
        };
        for (index, link) in links.enumerate() {
            let set = WorkingSet::new(others.set_bytes);
            let turns = Arc::clone(&ring.turns);
            let end = End { link, set, cpu: others.cpu, turns, index };
            let life = match others.kind {
                Kind::Thread => Life::Thread(end.into_thread()?),
                Kind::Process => Life::Process(end.into_process()?),
            };
            let alarm = ring.link.as_ref().and_then(Link::alarm);
            let watch = alarm.map(|alarm| watched(&life, alarm)).transpose()?.flatten();
            ring.others.push(Other { life, watch });
        }
        Ok(ring)
    }

    /// Ends in all, the worker's included.
    pub(super) fn ends(&self) -> u64 {
        self.ends
    }

    /// The other ends that are processes.
    pub(super) fn processes(&self) -> impl Iterator<Item = u32> {
        self.others.iter().filter_map(|other| match &other.life {
            Life::Process(child) => Some(child.id()),
            Life::Thread(_) => None,
        })
    }

    /// Moves the other ends, processes, to another CPU than the worker's.
    pub(super) fn move_others_to(&self, cpu: u32) -> Result<(), Fault> {
        let mut set = CpuSet::new();
        set.set(cpu as usize);
        for process in self.processes() {
            let process = Pid::from_raw(process as i32);
            sched_setaffinity(process, &set).map_err(|error| {
                let what = format!("moving a process to CPU {cpu}: {error}");
                Fault::unavailable(what, Remedy::AllowCpu { cpu })
            })?;
        }
        Ok(())
    }

    /// Passes the token round: a turn of each end, and a touch of each end's set. Returns how often
    /// it came back.
    pub(super) fn round_trips(&self, trips: u64) -> u64 {
        let Some(link) = &self.link else { return 0 };
        let mut set = self.set.borrow_mut();
        let mut done = 0;
        while done < trips && passes(link, done as u8) {
            set.touch();
            done += 1;
        }
        self.trips.set(self.trips.get() + done);
        self.touches.set(self.touches.get() + done);
        done
    }

    /// The same calls and touches as so many round trips, without a switch.
    pub(super) fn alone(&self, trips: u64) -> u64 {
        let Some(own) = &self.own else { return 0 };
        let mut set = self.set.borrow_mut();
        let mut passed = 0;
        while passed < self.ends * trips && passes(own, passed as u8) {
            set.touch();
            passed += 1;
        }
        self.touches.set(self.touches.get() + passed);
        passed / self.ends
    }

    /// Ends the other ends, and tells what all did.
    pub(super) fn finish(mut self) -> Result<Report, Fault> {
        let (mut wrong, peer_switches) = self.end_others()?;
        let trips = self.trips.get();
        let turns = self.turns.0.iter().take(peer_switches.len());
        let others = turns.map(|turns| turns.load(Ordering::Relaxed)).find(|turns| *turns != trips);
        if let Some(turns) = others.filter(|_| wrong.is_none()) {
            wrong = Some(format!("another end had {turns} turns in {trips} round trips"));
        }
        if !self.set.borrow().was_touched(self.touches.get()) {
            wrong = Some("the worker's set was not touched at each turn".to_owned());
        }
        Ok(Report { trips, peer_switches, wrong })
    }

    /// The other ends see that there are no more tokens, one after the other, and leave.
    fn end_others(&mut self) -> Result<(Option<String>, Vec<Switches>), Fault> {
        let Some(link) = self.link.take() else {
            return Err(Fault::Failed("the other ends were ended before".to_owned()));
        };
        link.hang_up();
        let (mut wrong, mut switches) = (None, Vec::new());
        for Other { life, watch } in self.others.drain(..) {
            let (status, own) = match life {
                Life::Thread(thread) => {
                    let panicked = |_| Fault::Failed("another end panicked".to_owned());
                    let (leaving, own) = thread.join().map_err(panicked)?;
                    (leaving as i32, own)
                }
                Life::Process(child) => {
                    let ended = child.wait()?;
                    let killed = || Fault::WrongWork(format!("another end: {}", ended.status));
                    (ended.status.code().ok_or_else(killed)?, ended.switches)
                }
            };
            // It ends with the process it watches, and cannot have panicked.
            watch.map(JoinHandle::join);
            wrong = wrong.or_else(|| wrong_by(status));
            switches.push(own);
        }
        Ok((wrong, switches))
    }

    /// Kills the first other end, if it is a process.
    #[cfg(test)]
    pub(super) fn kill_peer(&self) {
        if let Some(Other { life: Life::Process(child), .. }) = self.others.first() {
            child.kill();
        }
    }
}

impl<L: Link> Drop for Ring<L> {
    fn drop(&mut self) {
        if self.link.is_some() {
            // There is nobody to tell.
            let _ = self.end_others();
        }
    }
}

/// Passes the token and waits for it: whether the same one came back.
#[inline(always)]
fn passes(link: &impl Link, token: u8) -> bool {
    link.pass(token) && link.take() == Some(token)
}

/// Sounds an alarm when a process has ended. The thread that waits for it sleeps until then. An end
/// that is a thread cannot die alone.
fn watched(life: &Life, alarm: Alarm) -> Result<Option<JoinHandle<()>>, Fault> {
    let Life::Process(child) = life else { return Ok(None) };
    let process = Pid::from_raw(child.id() as i32);
    let process = process.ok_or_else(|| Fault::Failed("a child without a number".to_owned()))?;
    let process = pidfd_open(process, PidfdFlags::empty()).map_err(|error| {
        Fault::unavailable(format!("pidfd_open: {error}"), Remedy::kernel("5.3"))
    })?;
    let wait = move || {
        let mut process = [PollFd::new(&process, PollFlags::IN)];
        while poll(&mut process, None) == Err(rustix::io::Errno::INTR) {}
        alarm();
    };
    let thread = std::thread::Builder::new().name("watch".to_owned()).spawn(wait);
    thread.map(Some).map_err(|error| refused("pthread_create", &error))
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
