//! What the threads of a service share.

use std::collections::HashMap;
use std::fs::File;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use fathom_far::Token;

use crate::counters::ServiceCounters;
use crate::far::FarEnds;
use crate::held::Budget;
use crate::job::{Eviction, Job, Kind};
use crate::mailbox::Mailbox;
use crate::names::Names;
use crate::options::ServiceLimits;
use crate::queue::Queue;
use crate::resident::Loads;
use crate::root::Root;
use crate::ticket::Ticket;

/// Name of the threads of reactors, before their numbers.
pub(crate) const REACTOR: &str = "reactor";

pub(crate) type Handle = std::thread::JoinHandle<()>;

#[derive(Debug)]
pub(crate) struct ServiceShared {
    pub(crate) root: Root,
    pub(crate) limits: ServiceLimits,
    /// At most this many connections.
    pub(crate) connections_max: usize,
    pub(crate) token: Option<Token>,
    pub(crate) names: Names,
    pub(crate) far: FarEnds,
    pub(crate) cold: bool,
    pub(crate) congestion: String,
    pub(crate) lanes: usize,
    /// Of every request for a file.
    pub(crate) serial_ns: u64,
    pub(crate) panic_in: Option<String>,
    pub(crate) listeners: Vec<OwnedFd>,
    pub(crate) counters: Box<[ServiceCounters]>,
    pub(crate) mailboxes: Box<[Mailbox]>,
    /// Those of the lanes, by kind.
    pub(crate) queues: [Queue<Job>; Kind::ALL.len()],
    pub(crate) evictions: Queue<Eviction>,
    pub(crate) loads: Loads,
    pub(crate) budget: Budget,
    /// Files that were evicted on request.
    pub(crate) evicted: AtomicU64,
    /// Files that could not be evicted after a response.
    pub(crate) evictions_missed: AtomicU64,
    /// Connections of each address beyond loopback.
    pub(crate) peers: Mutex<HashMap<IpAddr, usize>>,
    pub(crate) is_stopping: AtomicBool,
    /// Whether responses are cut off.
    pub(crate) is_ended: AtomicBool,
    pub(crate) has_panicked: AtomicBool,
    /// Readable once a thread has panicked.
    pub(crate) panicked: OwnedFd,
}

impl ServiceShared {
    pub(crate) fn queue(&self, kind: Kind) -> &Queue<Job> {
        &self.queues[kind as usize]
    }

    pub(crate) fn close_queues(&self) {
        self.queues.iter().for_each(Queue::close);
        self.evictions.close();
    }

    /// Starts a thread. If it panics, the service ends: what the thread did would never be done.
    pub(crate) fn spawn(
        self: &Arc<Self>,
        name: String,
        run: impl FnOnce() + Send + 'static,
    ) -> std::io::Result<Handle> {
        let shared = Arc::clone(self);
        let guarded = move || {
            // The program prints the panic by its hook.
            if catch_unwind(AssertUnwindSafe(run)).is_err() {
                shared.has_panicked.store(true, Relaxed);
                // It fails only where the counter is full, which is readable as well.
                let _ = rustix::io::write(&shared.panicked, &1_u64.to_ne_bytes());
            }
        };
        let builder = std::thread::Builder::new().name(name).stack_size(512 << 10);
        let failed = |error| std::io::Error::new(std::io::ErrorKind::OutOfMemory, error);
        builder.spawn(guarded).map_err(failed)
    }

    /// Panics where the options ask for it.
    pub(crate) fn trip(&self) {
        if let Some(name) = &self.panic_in {
            let own = std::thread::current();
            assert!(own.name() != Some(name), "asked for by FATHOM_PANIC");
        }
    }

    /// Evicts a file after its response.
    pub(crate) fn evict_later(&self, file: File) {
        self.push_eviction(Eviction { file, attempts: 0 });
    }

    pub(crate) fn push_eviction(&self, eviction: Eviction) {
        if !self.evictions.push(eviction) {
            self.evictions_missed.fetch_add(1, Relaxed);
        }
    }

    /// Whether the connection is gone, or the service stops: long work ends.
    pub(crate) fn is_over(&self, ticket: &Ticket) -> bool {
        ticket.is_left() || self.stops()
    }

    pub(crate) fn stops(&self) -> bool {
        self.is_stopping.load(Relaxed)
    }

    /// Takes a place for a connection of an address; false if it has its share already.
    pub(crate) fn enter(&self, peer: Option<IpAddr>) -> bool {
        let Some(peer) = peer else { return true };
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        let count = peers.entry(peer).or_default();
        let has_room = *count < self.limits.connections_per_address.min(self.connections_max);
        *count += usize::from(has_room);
        has_room
    }

    pub(crate) fn leave(&self, peer: Option<IpAddr>) {
        let Some(peer) = peer else { return };
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = peers.get_mut(&peer) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                peers.remove(&peer);
            }
        }
    }
}
