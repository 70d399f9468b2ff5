//! A ring that passes a token: the worker and its peers, which are threads or processes.
//!
//! A member of the ring runs only while it holds the token, so on one CPU each hop is a context
//! switch. The worker may also have a link to itself: passing the token through it makes the same
//! calls without a switch.

mod peer;

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use fathom_measure::affinity::CpuMask;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use self::peer::{PeerExit, PeerTask, PeerTurns, exit_error};
use super::child::{Child, Switches, creation_fault};
use super::link::pipe::{Piped, pipes};
use super::link::{Link, OnPeerDeath};
use super::shared::SharedPage;
use super::working_set::WorkingSet;
use crate::prelude::*;

/// Maximum size of a ring, the worker included.
pub(super) const ENDS_MAX: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PeerKind {
    Thread,
    Process,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct PeerOptions {
    pub(super) kind: PeerKind,
    /// Working set that every member touches at each turn, the worker included.
    pub(super) set_bytes: usize,
    /// The CPU that the peers must end on.
    pub(super) cpu: u32,
}

/// The worker's side of a ring.
pub(super) struct Ring<L: Link> {
    /// Receives from the last peer and sends to the first; `None` once closed.
    link: Option<L>,
    /// The worker's link to itself.
    loopback: Option<L>,
    set: RefCell<WorkingSet>,
    touches: Cell<u64>,
    trips: Cell<u64>,
    turns: Arc<SharedPage<PeerTurns>>,
    /// Members, the worker included.
    pub(super) ends: u64,
    peers: Vec<PingPongPeer>,
}

struct PingPongPeer {
    handle: PeerHandle,
    /// The thread that ends the worker's wait when the peer dies, where the kernel does not.
    watch: Option<JoinHandle<()>>,
}

enum PeerHandle {
    Thread(JoinHandle<(PeerExit, Switches)>),
    Process(Child),
}

#[derive(Debug)]
pub(super) struct Report {
    /// Round trips, as counted by the worker.
    pub(super) trips: u64,
    /// Context switches of each peer over its lifetime.
    pub(super) peer_switches: Vec<Switches>,
    /// A fault in the work of a member.
    pub(super) error: Option<String>,
}

impl Ring<Piped> {
    /// A ring of `ends` members joined by pipes, and a pipe from the worker to itself.
    pub(super) fn piped(ends: usize, options: PeerOptions) -> Result<Self> {
        let loopback = pipes(1)?.pop();
        let mut ring = Self::join(pipes(ends)?, options)?;
        ring.loopback = loopback;
        Ok(ring)
    }
}

impl<L: Link> Ring<L> {
    /// Takes the first link and starts a peer for each of the others.
    pub(super) fn join(links: Vec<L>, options: PeerOptions) -> Result<Self> {
        let ends = links.len();
        if !(2..=ENDS_MAX).contains(&ends) {
            return Err(SamplerFault::Failed(format!(
                "ring of {ends} members; must be 2 to {ENDS_MAX}"
            )));
        }
        let mut links = links.into_iter();
        let mut ring = Self {
            link: links.next(),
            loopback: None,
            set: RefCell::new(WorkingSet::new(options.set_bytes)),
            touches: Cell::new(0),
            trips: Cell::new(0),
            turns: Arc::new(SharedPage::zeroed()?),
            ends: ends as u64,
            peers: Vec::new(),
        };
        for (index, link) in links.enumerate() {
            let set = WorkingSet::new(options.set_bytes);
            let turns = Arc::clone(&ring.turns);
            let task = PeerTask { link, set, cpu: options.cpu, turns, index };
            let handle = match options.kind {
                PeerKind::Thread => PeerHandle::Thread(task.spawn_thread()?),
                PeerKind::Process => PeerHandle::Process(task.fork()?),
            };
            let on_death = ring.link.as_ref().and_then(Link::on_peer_death);
            let watch = on_death.map(|on_death| watch(&handle, on_death)).transpose()?.flatten();
            ring.peers.push(PingPongPeer { handle, watch });
        }
        Ok(ring)
    }

    /// Pids of the peers that are processes.
    pub(super) fn processes(&self) -> impl Iterator<Item = u32> {
        self.peers.iter().filter_map(|peer| match &peer.handle {
            PeerHandle::Process(child) => Some(child.id()),
            PeerHandle::Thread(_) => None,
        })
    }

    /// Moves the peer processes to another CPU than the worker's.
    pub(super) fn move_peers_to(&self, cpu: u32) -> Result<()> {
        let only = CpuMask::from_cpus(&[cpu]);
        for process in self.processes() {
            only.confine(process as i32).map_err(|error| SamplerFault::of_pin(cpu, error))?;
        }
        Ok(())
    }

    /// Passes the token round; every member touches its working set once a trip. Returns the number
    /// of completed trips.
    pub(super) fn round_trips(&self, trips: u64) -> u64 {
        let Some(link) = &self.link else { return 0 };
        let mut set = self.set.borrow_mut();
        let mut done = 0;
        while done < trips && send_and_receive(link, done as u8) {
            set.touch();
            done += 1;
        }
        self.trips.set(self.trips.get() + done);
        self.touches.set(self.touches.get() + done);
        done
    }

    /// The calls and touches of as many round trips, without a switch.
    pub(super) fn loopback_trips(&self, trips: u64) -> u64 {
        let Some(loopback) = &self.loopback else { return 0 };
        let mut set = self.set.borrow_mut();
        let mut hops = 0;
        while hops < self.ends * trips && send_and_receive(loopback, hops as u8) {
            set.touch();
            hops += 1;
        }
        self.touches.set(self.touches.get() + hops);
        hops / self.ends
    }

    /// Ends the peers and checks the work of all members.
    pub(super) fn finish(mut self) -> Result<Report> {
        let (mut error, peer_switches) = self.end_peers()?;
        let trips = self.trips.get();
        let turns = self.turns.0.iter().take(peer_switches.len());
        let turns = turns.map(|turns| turns.load(Ordering::Relaxed)).find(|turns| *turns != trips);
        if let Some(turns) = turns.filter(|_| error.is_none()) {
            error = Some(format!("a peer had {turns} turns in {trips} round trips"));
        }
        if !self.set.borrow().was_touched(self.touches.get()) {
            error = Some("worker: working set not touched each time".to_owned());
        }
        Ok(Report { trips, peer_switches, error })
    }

    /// Closes the link, which ends one peer after the other.
    fn end_peers(&mut self) -> Result<(Option<String>, Vec<Switches>)> {
        let Some(link) = self.link.take() else {
            return Err(SamplerFault::Failed("peers already ended".to_owned()));
        };
        link.close();
        let (mut error, mut switches) = (None, Vec::new());
        for PingPongPeer { handle, watch } in self.peers.drain(..) {
            let (status, own) = match handle {
                PeerHandle::Thread(thread) => {
                    let panicked = |_| SamplerFault::Failed("peer thread panicked".to_owned());
                    thread.join().map_err(panicked)?
                }
                PeerHandle::Process(child) => {
                    let exit = child.wait()?;
                    let killed = || SamplerFault::WrongWork(format!("peer: {}", exit.status));
                    (exit.status.code().ok_or_else(killed)?, exit.switches)
                }
            };
            // The watching thread ends with its process.
            watch.map(JoinHandle::join);
            error = error.or_else(|| exit_error(status));
            switches.push(own);
        }
        Ok((error, switches))
    }

    /// Kills the first peer, if it is a process.
    #[cfg(test)]
    pub(super) fn kill_peer(&self) {
        if let Some(PingPongPeer { handle: PeerHandle::Process(child), .. }) = self.peers.first() {
            child.kill();
        }
    }
}

impl<L: Link> Drop for Ring<L> {
    fn drop(&mut self) {
        if self.link.is_some() {
            let _ = self.end_peers();
        }
    }
}

/// Sends the token and waits for it; true if the same token came back.
#[inline(always)]
fn send_and_receive(link: &impl Link, token: u8) -> bool {
    link.send(token) && link.receive() == Some(token)
}

/// Starts a thread that sleeps until a peer process has ended and then calls `on_death`. A peer
/// thread cannot die alone.
fn watch(handle: &PeerHandle, on_death: OnPeerDeath) -> Result<Option<JoinHandle<()>>> {
    let PeerHandle::Process(child) = handle else { return Ok(None) };
    let process = Pid::from_raw(child.id() as i32);
    let process = process.ok_or_else(|| SamplerFault::Failed("child without pid".to_owned()))?;
    let process = pidfd_open(process, PidfdFlags::empty()).map_err(|error| {
        SamplerFault::unavailable(format!("pidfd_open: {error}"), Remedy::kernel("5.3"))
    })?;
    let wait = move || {
        let mut process = [PollFd::new(&process, PollFlags::IN)];
        // A sleeping thread does not disturb the ring: polling for the death would take CPU time.
        while poll(&mut process, None) == Err(rustix::io::Errno::INTR) {}
        on_death();
    };
    let thread = std::thread::Builder::new().name("watch".to_owned()).spawn(wait);
    thread.map(Some).map_err(|error| creation_fault("pthread_create", &error))
}

#[cfg(test)]
mod tests;
