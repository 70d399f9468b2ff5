//! A service from its options to its end.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use fathom_measure::affinity;
use fathom_measure::clock::monotonic_raw_ns;
use rustix::net::{Shutdown, shutdown, sockopt};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::counters::Counters;
use crate::error::ServiceError;
use crate::far::FarEnds;
use crate::lane;
use crate::listener;
use crate::mailbox::Mailbox;
use crate::options::{CONNECTIONS_MAX, DESCRIPTORS_KEPT, Options};
use crate::queue::Queue;
use crate::reactor::Reactor;
use crate::root::Root;
use crate::shared::Shared;

/// Name of the threads of reactors, before their numbers.
pub(crate) const REACTOR: &str = "reactor";
/// How often the end is checked while it stops.
const POLL: std::time::Duration = std::time::Duration::from_millis(10);

/// A running service. It serves until [`Server::stop`], or until the process ends.
#[derive(Debug)]
pub struct Server {
    shared: Arc<Shared>,
    addresses: Vec<SocketAddr>,
    reactors: Vec<JoinHandle<usize>>,
    lanes: Vec<lane::Handle>,
}

impl Server {
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
            let reactor = Reactor::new(Arc::clone(&self.shared), number, monotonic_raw_ns)?;
            let builder = std::thread::Builder::new().name(format!("{REACTOR} {number}"));
            self.reactors.push(builder.stack_size(512 << 10).spawn(|| reactor.run())?);
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

    /// Accepts nothing more, and lets responses finish for at most `grace_ns`. Returns how many
    /// connections were cut.
    pub fn stop(mut self, grace_ns: u64) -> usize {
        self.end(grace_ns)
    }

    fn end(&mut self, grace_ns: u64) -> usize {
        self.shared.is_stopping.store(true, Relaxed);
        for listener in &self.shared.listeners {
            // It listens no longer, although its descriptor is shared.
            let _ = shutdown(listener, Shutdown::Both);
        }
        self.ring();
        let until_ns = monotonic_raw_ns().saturating_add(grace_ns);
        let all_ended =
            |reactors: &[JoinHandle<usize>]| reactors.iter().all(|one| one.is_finished());
        while !all_ended(&self.reactors) && monotonic_raw_ns() < until_ns {
            std::thread::sleep(POLL);
        }
        self.shared.is_ended.store(true, Relaxed);
        self.shared.far.stop();
        self.ring();
        let cut = self.reactors.drain(..).map(|reactor| reactor.join().unwrap_or(0)).sum();
        self.shared.close_queues();
        for lane in self.lanes.drain(..) {
            let _ = lane.join();
        }
        cut
    }

    fn ring(&self) {
        self.shared.mailboxes.iter().for_each(Mailbox::ring);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end(0);
    }
}

/// Opens the folder and listens; the addresses, with the ports that the kernel chose.
pub(crate) fn prepare(options: Options) -> Result<(Arc<Shared>, Vec<SocketAddr>), ServiceError> {
    let root = Root::open(&options.folder)?;
    let connections_max = raise_descriptors(options.limits.connections)?;
    let listeners = listener::open(&options)?;
    let addresses = listeners.iter().map(|listener| listener.address).collect();
    let listeners: Vec<_> = listeners.into_iter().map(|listener| listener.socket).collect();
    let first = listeners.first().map(sockopt::tcp_congestion);
    let threads = options.threads.unwrap_or_else(|| affinity::allowed().len()).max(1);
    let mailboxes: std::io::Result<Box<[Mailbox]>> = (0..threads).map(|_| Mailbox::new()).collect();
    let mut names = options.names;
    let own = rustix::system::uname();
    names.push(own.nodename().to_string_lossy().into_owned());
    let shared = Arc::new(Shared {
        root,
        limits: options.limits,
        connections_max,
        far: FarEnds::new(options.far, options.receive).map_err(ServiceError::Start)?,
        token: options.token,
        names,
        cold: options.cold,
        congestion: first.and_then(Result::ok).unwrap_or_default(),
        lanes: options.lanes.max(1),
        serial_ns: options.serial_ns,
        listeners,
        counters: (0..threads).map(|_| Counters::default()).collect(),
        mailboxes: mailboxes.map_err(ServiceError::Start)?,
        reads: Queue::new(),
        pages: Queue::new(),
        bulk: Queue::new(),
        serial: Queue::new(),
        evictions: Queue::new(),
        evicted: AtomicU64::new(0),
        evictions_missed: AtomicU64::new(0),
        peers: Mutex::new(HashMap::new()),
        is_stopping: AtomicBool::new(false),
        is_ended: AtomicBool::new(false),
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
