//! A server that is a process of this machine, and what is known of it without its help.
//!
//! CPU, waits, disk and memory are those of its processes by /proc. Where responses wait is seen by
//! looks, of which each costs something: a thread that the disk blocks sleeps uninterruptibly
//! (state D), and data on their way to a client are unacknowledged in the socket of the server.

mod find;
mod sockets;
mod stat;
mod tree;

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use fathom_http::{Connector, ServerAddress};
use fathom_measure::clock::{monotonic_raw_ns, thread_cpu_ns};
use fathom_measure::disturbance::throttled_ns_of;
use fathom_measure::host::HostReader;
use fathom_record::Looks;

pub use find::{FindError, Which};

use crate::figures::{LoadTelemetry, OfTree};
use find::FindSearch;
use sockets::Connections;
use tree::Tree;

/// Looks at threads, and looks at sockets, take one part in so many of a CPU each,
const PARTS: u64 = 100;
/// but come at least so often.
const PAUSE_MAX_NS: u64 = 300_000_000;
/// Time for a server to accept a connection, and between two looks whether it has.
const ACCEPT_NS: u64 = 2_000_000_000;
const LOOK_AGAIN: Duration = Duration::from_millis(10);

pub struct LocalServer {
    reader: HostReader,
    tree: Tree,
    /// The connections of this program, if its ends are known.
    connections: Option<Connections>,
    looks: Looks,
    /// When threads and sockets are next looked at.
    due_ns: [u64; 2],
}

impl LocalServer {
    /// The server that accepted a connection to an address, with warnings.
    ///
    /// # Errors
    /// If it is not here, or not the process that was named.
    pub fn find(
        which: Which,
        (to, is_own_address): (SocketAddr, bool),
        from: SocketAddr,
    ) -> Result<(Self, Vec<String>), FindError> {
        let reader = HostReader::live();
        let own = std::process::id();
        let search = FindSearch { reader: &reader, to, from, is_own_address, own };
        // A busy server accepts a connection when it has a CPU.
        let until_ns = monotonic_raw_ns() + ACCEPT_NS;
        let found = loop {
            match search.find(which) {
                Err(FindError::Forwarded(_)) if monotonic_raw_ns() < until_ns => {
                    std::thread::sleep(LOOK_AGAIN);
                }
                found => break found?,
            }
        };
        let server = Self {
            tree: Tree::at(reader.clone(), &found.roots, own),
            connections: found.connections,
            reader,
            looks: Looks::default(),
            due_ns: [0; 2],
        };
        Ok((server, found.warnings))
    }

    pub fn words(&self) -> String {
        self.tree.words()
    }

    /// As they were when they were last looked at.
    pub fn processes(&self) -> Vec<u32> {
        self.tree.processes().collect()
    }

    /// Looks at threads and sockets, if it is time to.
    pub fn look(&mut self) {
        let begun_ns = thread_cpu_ns();
        if monotonic_raw_ns() >= self.due_ns[0] {
            self.looks.threads += 1;
            self.looks.blocked += u64::from(self.tree.is_blocked());
            self.due_ns[0] = due_ns(begun_ns);
        }
        let sockets_ns = thread_cpu_ns();
        if let Some(connections) = &self.connections
            && monotonic_raw_ns() >= self.due_ns[1]
        {
            self.looks.sockets += 1;
            self.looks.sending += connections.sending(&self.reader);
            self.due_ns[1] = due_ns(sockets_ns);
        }
    }

    /// `None` if its processes have ended.
    pub fn telemetry(&mut self) -> Option<LoadTelemetry> {
        let used = self.tree.read()?;
        let at_ns = monotonic_raw_ns();
        let group = self.tree.first()?.to_string();
        let allowed = Some(self.tree.cpus() as f64).filter(|cpus| *cpus > 0.0);
        let quota = self.reader.cpu_quota_of(&group);
        Some(LoadTelemetry {
            at_ns,
            cpu_ns: used.cpu_ns,
            resident_bytes: used.resident_bytes,
            run_queue_wait_ns: used.wait_ns,
            cpus: quota.into_iter().chain(allowed).reduce(f64::min),
            throttled_ns: throttled_ns_of(&self.reader, &group),
            read_bytes: used.read_bytes,
            tree: Some(OfTree {
                tasks: self.tree.tasks(),
                looks: Looks { device_bytes: used.device_bytes, ..self.looks },
            }),
            ..LoadTelemetry::default()
        })
    }
}

/// A connection to an own address comes from that address.
pub fn is_own_address(address: &ServerAddress) -> bool {
    let Some(address) = address.tcp() else { return true };
    let any: SocketAddr = match address {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let local = UdpSocket::bind(any).and_then(|socket| {
        socket.connect(address)?;
        socket.local_addr()
    });
    address.ip().is_loopback() || local.is_ok_and(|local| local.ip() == address.ip())
}

const UNKNOWN: &str = "not fathom serve: its CPU, disk, memory and page cache are unknown";

/// `fathom serve` in words.
pub fn ours(has_pid: bool, is_secured: bool, warnings: &mut Vec<String>) -> String {
    let text = "--pid: not needed, `fathom serve` reports its own figures";
    warnings.extend(has_pid.then(|| text.to_owned()));
    let words = match is_secured {
        true => "fathom serve behind a TLS proxy, whose CPU is unknown",
        false => "fathom serve",
    };
    words.to_owned()
}

/// The processes of a server that is not ours, and what is known of it in words.
pub fn find_server(
    pid: Option<Which>,
    address: &ServerAddress,
    timeout: Duration,
    warnings: &mut Vec<String>,
) -> Result<(Option<LocalServer>, String), String> {
    let is_own = is_own_address(address);
    let Some(address) = address.tcp() else {
        return match pid {
            Some(_) => Err("--pid: finds the owner of a TCP port only".to_owned()),
            None => Ok((None, UNKNOWN.to_owned())),
        };
    };
    if pid.is_none() && !is_own {
        return Ok((None, UNKNOWN.to_owned()));
    }
    let find = || -> Result<_, String> {
        // The server has to have it open meanwhile.
        let connection = Connector::default().open(address, timeout, None);
        let connection = connection.map_err(|error| std::io::Error::from(error).to_string())?;
        let connection = TcpStream::from(connection);
        let from = connection.local_addr().map_err(|error| error.to_string())?;
        let which = pid.unwrap_or(Which::Auto);
        LocalServer::find(which, (address, is_own), from).map_err(|error| error.to_string())
    };
    match find() {
        Ok((server, more)) => {
            warnings.extend(more);
            let words = server.words();
            Ok((Some(server), words))
        }
        Err(error) if pid.is_some() => Err(error),
        Err(error) => Ok((None, format!("{UNKNOWN}: {error}"))),
    }
}

/// When the next look is due, after one that began at this CPU time.
fn due_ns(begun_ns: u64) -> u64 {
    let cost_ns = thread_cpu_ns().saturating_sub(begun_ns);
    monotonic_raw_ns() + cost_ns.saturating_mul(PARTS).min(PAUSE_MAX_NS)
}
