//! What a service is started with.

use std::net::SocketAddr;
use std::path::PathBuf;

use fathom_far::Token;

use fathom_far::ProcessProgram;

pub use fathom_far::PORT;

/// Descriptors that are not for connections.
pub(crate) const DESCRIPTORS_KEPT: u64 = 64;

#[derive(Clone, Debug)]
pub struct Options {
    pub folder: PathBuf,
    /// Empty: the default port of both loopback addresses.
    pub listen: Vec<SocketAddr>,
    pub token: Option<Token>,
    /// Names of this server, besides addresses, `localhost` and the host name.
    pub names: Vec<String>,
    /// Evict each file after its response.
    pub cold: bool,
    /// TCP congestion control; `None` for the system's.
    pub congestion: Option<String>,
    /// Reactors; `None` for one per allowed CPU.
    pub threads: Option<usize>,
    /// Threads that read from devices.
    pub lanes: usize,
    /// A section that every request for a file passes, one at a time: known answer of a load whose
    /// bottleneck is no device.
    pub serial_ns: u64,
    /// A thread that panics at its next work: known fault of tests.
    pub panic_in: Option<String>,
    pub limits: ServiceLimits,
    /// The program of far ends; `None` for a service without.
    pub far: Option<ProcessProgram>,
    /// Where far ends write the files that they receive, without names; `None`: they receive none.
    pub receive: Option<PathBuf>,
}

/// Limits against clients that are slow, many or wrong.
#[derive(Clone, Debug)]
pub struct ServiceLimits {
    pub head_bytes: usize,
    pub fields: usize,
    /// For a whole head.
    pub head_ns: u64,
    /// Without a request.
    pub idle_ns: u64,
    /// That a client must read, once it had `rate_after_ns`.
    pub rate_bytes_per_s: u64,
    pub rate_after_ns: u64,
    /// That a request waits for a lane: for a device, or for others before it.
    pub wait_ns: u64,
    /// Connections; `None` for as many as descriptors allow, at most 10,000.
    pub connections: Option<usize>,
    /// Connections of one address beyond loopback.
    pub connections_per_address: usize,
}

const SECOND_NS: u64 = 1_000_000_000;
pub(crate) const CONNECTIONS_MAX: usize = 10_000;

impl Default for ServiceLimits {
    fn default() -> Self {
        Self {
            head_bytes: 16 << 10,
            fields: 64,
            head_ns: 10 * SECOND_NS,
            idle_ns: 15 * SECOND_NS,
            rate_bytes_per_s: 4096,
            rate_after_ns: 10 * SECOND_NS,
            wait_ns: 60 * SECOND_NS,
            connections: None,
            connections_per_address: CONNECTIONS_MAX / 4,
        }
    }
}

impl Options {
    /// A folder with defaults.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
            listen: Vec::new(),
            token: None,
            names: Vec::new(),
            cold: false,
            congestion: None,
            threads: None,
            lanes: 4,
            serial_ns: 0,
            panic_in: None,
            limits: ServiceLimits::default(),
            far: None,
            receive: None,
        }
    }
}
