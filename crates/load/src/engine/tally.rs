//! What a thread counts: completions per slot of the measured window, faults and delays.

use std::collections::BTreeMap;
use std::fmt;

use fathom_record::Histogram;
use rustix::io::Errno;

/// Slots of one sweep's window. Three sweeps have thirty, which form ten batches.
pub const SLOTS: usize = 10;

/// Why a request had no complete response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// The connection was not established.
    Connect(i32),
    ConnectTimeout,
    /// The connection was closed before the first byte of a response.
    Closed,
    /// Sending or receiving failed.
    Transfer(i32),
    /// The connection was closed within a body.
    Truncated,
    /// The length is not the listed one of the file, or that of its first response.
    WrongLength,
    /// A complete body with another content than the file.
    WrongContent,
    /// A malformed head or chunk, or bytes after the end of a body.
    BadResponse,
    /// No complete response within the time limit.
    Timeout,
    /// A complete response other than 2xx.
    Status(u16),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let error = |number: i32| std::io::Error::from_raw_os_error(number);
        match *self {
            Self::Connect(number) if number == Errno::ADDRNOTAVAIL.raw_os_error() => {
                f.write_str("connect: no free local port")
            }
            Self::Connect(number) => write!(f, "connect: {}", error(number)),
            Self::ConnectTimeout => f.write_str("connect: timeout"),
            Self::Closed => f.write_str("connection closed without a response"),
            Self::Transfer(number) => write!(f, "transfer: {}", error(number)),
            Self::Truncated => f.write_str("body truncated"),
            Self::WrongLength => {
                f.write_str("length is not that of the file or of its first response")
            }
            Self::WrongContent => f.write_str("content is not that of the file"),
            Self::BadResponse => f.write_str("malformed response"),
            Self::Timeout => f.write_str("response timeout"),
            Self::Status(status) => write!(f, "status {status}"),
        }
    }
}

/// Completions within a tenth of a sweep's window.
#[derive(Clone, Debug, Default)]
pub struct Slot {
    pub completed: u64,
    pub body_bytes: u64,
    /// Sum of the response times.
    pub sum_ns: f64,
    pub times: Histogram,
}

impl Slot {
    pub fn merge(&mut self, other: &Self) {
        self.completed += other.completed;
        self.body_bytes += other.body_bytes;
        self.sum_ns += other.sum_ns;
        self.times.merge(&other.times);
    }
}

#[derive(Clone, Debug, Default)]
pub struct Tally {
    pub slots: Vec<Slot>,
    /// Complete responses in the window by status.
    pub statuses: BTreeMap<u16, u64>,
    /// Faults, in the warm-up too.
    pub faults: BTreeMap<Fault, u64>,
    pub window_faults: BTreeMap<Fault, u64>,
    /// A file of which a body had another content.
    pub wrong_file: Option<u32>,
    /// Connections made.
    pub connections: u64,
    /// Connections that the server closed between two requests.
    pub closed_idle: u64,
    /// Sum of the delays between the readiness of a connection and its handling.
    pub lag_ns: f64,
    pub lags: u64,
    /// Congestion control of the sockets.
    pub congestion: Option<String>,
}

impl Tally {
    /// For responses within a time.
    pub fn new(timeout_ns: u64) -> Self {
        let slot = || Slot { times: Histogram::with_room(timeout_ns), ..Slot::default() };
        Self { slots: (0..SLOTS).map(|_| slot()).collect(), ..Self::default() }
    }

    pub fn merge(&mut self, other: &Self) {
        self.slots.resize_with(SLOTS, Slot::default);
        self.slots.iter_mut().zip(&other.slots).for_each(|(own, more)| own.merge(more));
        for (status, count) in &other.statuses {
            *self.statuses.entry(*status).or_default() += count;
        }
        for (fault, count) in &other.faults {
            *self.faults.entry(*fault).or_default() += count;
        }
        for (fault, count) in &other.window_faults {
            *self.window_faults.entry(*fault).or_default() += count;
        }
        self.wrong_file = self.wrong_file.or(other.wrong_file);
        self.connections += other.connections;
        self.closed_idle += other.closed_idle;
        self.lag_ns += other.lag_ns;
        self.lags += other.lags;
        self.congestion = self.congestion.take().or_else(|| other.congestion.clone());
    }

    pub fn completed(&self) -> u64 {
        self.slots.iter().map(|slot| slot.completed).sum()
    }

    pub fn failed(&self) -> u64 {
        self.faults.values().sum()
    }
}

/// The most frequent faults with their counts.
pub fn fault_words(faults: &BTreeMap<Fault, u64>) -> String {
    let mut faults: Vec<(&Fault, &u64)> = faults.iter().collect();
    faults.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let words = faults.iter().take(3).map(|(fault, count)| format!("{fault} ({count}×)"));
    words.collect::<Vec<String>>().join(", ")
}
