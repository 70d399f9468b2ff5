//! A service from its options to its end.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};

use fathom_measure::affinity;
use fathom_measure::clock::monotonic_raw_ns;
use rustix::event::{EventfdFlags, eventfd};
use rustix::net::{Shutdown, shutdown, sockopt};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::counters::{ServiceCounters, connections};
use crate::error::ServiceError;
use crate::far::FarEnds;
use crate::held::Budget;
use crate::job::Kind;
use crate::lane::{self, EVICTIONS_WAITING_MAX};
use crate::listener;
use crate::mailbox::Mailbox;
use crate::names::Names;
use crate::options::{CONNECTIONS_MAX, DESCRIPTORS_KEPT, Options};
use crate::queue::Queue;
use crate::reactor::ServiceReactor;
use crate::root::Root;
use crate::shared::{Handle, REACTOR, ServiceShared};

/// How often the end is checked while it stops.
const POLL: std::time::Duration = std::time::Duration::from_millis(10);
/// For reactors to end after the grace.
const END_NS: u64 = 500_000_000;
/// For what lanes compute on busy CPUs. Those that wait in the kernel do not end.
const LANES_END_NS: u64 = 2_000_000_000;

/// A running service. It serves until [`Server::stop`], or until the process ends.
#[derive(Debug)]
pub struct ServiceServer {
    shared: Arc<ServiceShared>,
    addresses: Vec<SocketAddr>,
    reactors: Vec<Handle>,
    lanes: Vec<Handle>,
}

/// How a service ended.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ServerEnding {
    /// Connections that were cut.
    pub cut: usize,
    /// Names of the threads that did not end: they wait for a disk that does not respond, or for a
    /// CPU.
    pub waiting: Vec<String>,
    pub has_panicked: bool,
}

impl ServiceServer {
    /// Checks everything, listens, and starts the threads.
    ///
    /// # Errors
    /// If the folder cannot be opened, an address cannot be listened on, or a token is missing.
    pub fn start(options: Options) -> Result<Self, ServiceError> {
        let lanes = options.lanes.max(1);
        let (shared, addresses) = prepare(options)?;
        let mut server = Self { shared, addresses, reactors: Vec::new(), lanes: Vec::new() };
        server.spawn(lanes).map_err(ServiceError::Start)?;
        Ok(server)
    }

    fn spawn(&mut self, lanes: usize) -> std::io::Result<()> {
        self.lanes = lane::start(&self.shared, lanes)?;
        for number in 0..self.threads() {
            let reactor = ServiceReactor::new(Arc::clone(&self.shared), number, monotonic_raw_ns)?;
            let name = format!("{REACTOR} {number}");
            self.reactors.push(self.shared.spawn(name, || reactor.run())?);
        }
        Ok(())
    }

    /// Where it listens, with the ports that the kernel chose.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    pub fn threads(&self) -> usize {
        self.shared.counters.len()
    }

    pub fn connections_max(&self) -> usize {
        self.shared.connections_max
    }

    /// Of the first listener.
    pub fn congestion(&self) -> &str {
        &self.shared.congestion
    }

    /// Readable once a thread has panicked: the service must be stopped.
    pub fn panicked(&self) -> BorrowedFd<'_> {
        self.shared.panicked.as_fd()
    }

    /// Accepts nothing more, and lets responses finish for at most `grace_ns`.
    pub fn stop(mut self, grace_ns: u64) -> ServerEnding {
        self.end(grace_ns)
    }

    fn end(&mut self, grace_ns: u64) -> ServerEnding {
        self.shared.is_stopping.store(true, Relaxed);
        for listener in &self.shared.listeners {
            // It listens no longer, although its descriptor is shared.
            let _ = shutdown(listener, Shutdown::Both);
        }
        self.ring();
        running(&self.reactors, grace_ns);
        self.shared.is_ended.store(true, Relaxed);
        self.shared.far.stop();
        self.ring();
        running(&self.reactors, END_NS);
        self.shared.close_queues();
        let threads: Vec<Handle> = self.reactors.drain(..).chain(self.lanes.drain(..)).collect();
        let waiting = running(&threads, LANES_END_NS);
        let cut = connections(&self.shared.counters);
        ServerEnding { cut, waiting, has_panicked: self.shared.has_panicked.load(Relaxed) }
    }

    fn ring(&self) {
        self.shared.mailboxes.iter().for_each(Mailbox::ring);
    }
}

impl Drop for ServiceServer {
    fn drop(&mut self) {
        self.end(0);
    }
}

/// Waits for threads to end, for at most this time. Returns the names of those that run on.
fn running(threads: &[Handle], most_ns: u64) -> Vec<String> {
    let until_ns = monotonic_raw_ns().saturating_add(most_ns);
    loop {
        let left = threads.iter().filter(|thread| !thread.is_finished());
        let names: Vec<_> = left.map(|it| it.thread().name().unwrap_or("?").to_owned()).collect();
        if names.is_empty() || monotonic_raw_ns() >= until_ns {
            return names;
        }
        std::thread::sleep(POLL);
    }
}

/// Opens the folder and listens; the addresses, with the ports that the kernel chose.
pub(crate) fn prepare(
    options: Options,
) -> Result<(Arc<ServiceShared>, Vec<SocketAddr>), ServiceError> {
    let root = Root::open(&options.folder)?;
    let connections_max = raise_descriptors(options.limits.connections)?;
    let listeners = listener::open(&options)?;
    let addresses = listeners.iter().map(|listener| listener.address).collect();
    let listeners: Vec<_> = listeners.into_iter().map(|listener| listener.socket).collect();
    let first = listeners.first().map(sockopt::tcp_congestion);
    let threads = options.threads.unwrap_or_else(|| affinity::allowed().len()).max(1);
    let mailboxes: std::io::Result<Box<[Mailbox]>> = (0..threads).map(|_| Mailbox::new()).collect();
    let shared = Arc::new(ServiceShared {
        root,
        limits: options.limits,
        connections_max,
        far: FarEnds::new(options.far, options.receive).map_err(ServiceError::Start)?,
        token: options.token,
        names: Names::and_host(options.names),
        cold: options.cold,
        congestion: first.and_then(Result::ok).unwrap_or_default(),
        lanes: options.lanes.max(1),
        serial_ns: options.serial_ns,
        panic_in: options.panic_in,
        listeners,
        counters: (0..threads).map(|_| ServiceCounters::default()).collect(),
        mailboxes: mailboxes.map_err(ServiceError::Start)?,
        queues: Kind::ALL.map(|kind| Queue::new(kind.waiting_max(connections_max))),
        evictions: Queue::new(EVICTIONS_WAITING_MAX),
        budget: Budget::default(),
        loads: crate::resident::loads(),
        evicted: AtomicU64::new(0),
        evictions_missed: AtomicU64::new(0),
        peers: Mutex::new(HashMap::new()),
        is_stopping: AtomicBool::new(false),
        is_ended: AtomicBool::new(false),
        has_panicked: AtomicBool::new(false),
        panicked: eventfd(0, EventfdFlags::CLOEXEC)
            .map_err(|error| ServiceError::Start(error.into()))?,
    });
    Ok((shared, addresses))
}

/// Raises the soft limit of descriptors to the hard one, and returns how many connections that
/// allows.
fn raise_descriptors(wanted: Option<usize>) -> Result<usize, ServiceError> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    let limit = if raised.is_ok() { maximum } else { current };
    let limit = limit.unwrap_or(1 << 20);
    let allowed = limit.saturating_sub(DESCRIPTORS_KEPT) as usize;
    match allowed.min(wanted.unwrap_or(CONNECTIONS_MAX)) {
        0 => Err(ServiceError::Descriptors { limit }),
        connections => Ok(connections),
    }
}
