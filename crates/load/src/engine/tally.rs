//! What a thread counts: completions per slot of the measured window, faults and delays.

use std::collections::BTreeMap;
use std::fmt;

use fathom_http::{Malformed, StreamError, TlsFault};
use fathom_record::{Activity, Cause, Histogram, Remedy, SystemCause, system_cause};

use super::heat::Heat;
use super::phases::Phases;

/// Slots of one sweep's window. Three sweeps have thirty, which form ten batches.
pub const SLOTS: usize = 10;
/// Slices of a heat map in one sweep's window, two of a slot: three sweeps have sixty.
pub const SLICES: usize = 2 * SLOTS;

/// Why a request had no complete response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// The connection was not established.
    Connect(i32),
    ConnectTimeout,
    /// No handshake, or what is encrypted cannot be read.
    Tls(TlsFault),
    /// The connection was closed before the first byte of a response.
    Closed,
    /// A kept connection was closed before the first byte of a response to a request that is not
    /// to be sent twice.
    Stale,
    /// Sending or receiving failed.
    Transfer(i32),
    /// The connection was closed within a body.
    Truncated,
    /// The length is not the listed one of the file, or that of its first response.
    WrongLength,
    /// A complete body with another content than the file.
    WrongContent,
    /// A body with a Content-Encoding that was not asked for: its length is not that of the file.
    Coded,
    /// A malformed head or chunk, or bytes after the end of a body.
    BadResponse(&'static str),
    /// No complete response within the time limit.
    Timeout,
    /// A complete response other than 2xx.
    Status(u16),
    /// A redirect that is not followed, although some are.
    Redirect(&'static str),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Connect(number) => write!(f, "connect: {}", cause(number).text),
            Self::ConnectTimeout => f.write_str("connect: timeout"),
            Self::Tls(fault) => write!(f, "{fault}"),
            Self::Closed => f.write_str("connection closed without a response"),
            Self::Stale => f.write_str(
                "kept connection closed before the response, and the method may not be repeated",
            ),
            Self::Transfer(number) => write!(f, "transfer: {}", cause(number).text),
            Self::Truncated => f.write_str("body truncated"),
            Self::WrongLength => {
                // By design or not: an error page with status 200 looks the same.
                f.write_str(
                    "length is not that of the file or of its first response (no option accepts \
                     pages of varying length: name others by --urls)",
                )
            }
            Self::WrongContent => f.write_str("content is not that of the file"),
            Self::Coded => f.write_str(UNASKED),
            Self::BadResponse(part) => write!(f, "malformed response: {part}"),
            Self::Timeout => f.write_str("response timeout"),
            Self::Status(status) => write!(f, "status {status}"),
            Self::Redirect(why) => write!(f, "redirected {why}"),
        }
    }
}

impl From<Malformed> for Fault {
    fn from(malformed: Malformed) -> Self {
        Self::BadResponse(malformed.part)
    }
}

fn cause(errno: i32) -> SystemCause {
    system_cause(&std::io::Error::from_raw_os_error(errno), Activity::Other)
}

/// Why a body with a Content-Encoding is refused, and what to do.
pub const UNASKED: &str = "Content-Encoding was not asked for (-H 'Accept-Encoding: gzip' asks)";

/// What to do about a response with a status of redirection.
pub const REDIRECTED: &str = "redirects are not followed (--follow: those within the server); load \
                              the address it redirects to";

/// No local port is free, and the remedy.
const NO_PORT: i32 = libc::EADDRNOTAVAIL;
const PORTS: &str = "use fewer clients (--clients), kept connections (no --fresh), or widen \
                     net.ipv4.ip_local_port_range";

impl Fault {
    pub(super) fn of(error: &StreamError) -> Self {
        match error {
            StreamError::System(errno) => Self::Transfer(errno.raw_os_error()),
            StreamError::Tls(error) => Self::Tls(error.fault),
            StreamError::Cut => Self::Closed,
        }
    }

    /// Why a load ended, if the last requests ended so, and what to do. Whether the server or this
    /// end is at fault follows from the fault.
    pub fn end_words(self) -> String {
        match self {
            Self::Status(status @ 300..=399) => {
                format!("the server answers with status {status} only: {REDIRECTED}")
            }
            Self::Status(status) => format!("the server answers with status {status} only"),
            Self::WrongLength | Self::WrongContent | Self::Coded | Self::Redirect(_) => {
                format!("no response is right: {self}")
            }
            fault => match (fault, fault.action()) {
                (Self::Connect(errno), Some(action)) => {
                    format!("{}; {action}", cause(errno).text)
                }
                _ => format!("the server stopped answering: {fault}"),
            },
        }
    }

    /// What to do where a limit of this machine is the cause: the server is not at fault.
    pub fn remedy(self) -> Option<Remedy> {
        self.action().map(|action| Remedy::Do { action: action.to_owned() })
    }

    fn action(self) -> Option<&'static str> {
        match self {
            Self::Connect(NO_PORT) => Some(PORTS),
            Self::Connect(errno) => cause(errno).remedy.filter(|_| cause(errno).is_limit),
            _ => None,
        }
    }

    /// The cause for a verdict where the last requests ended so.
    pub fn end_cause(self) -> Cause {
        match self {
            Self::Status(_)
            | Self::Redirect(_)
            | Self::WrongLength
            | Self::WrongContent
            | Self::Coded => Cause::WrongWork,
            fault if fault.action().is_some() => Cause::LoadGenerator,
            _ => Cause::Crashed,
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
    /// Of an open loop, whose response times are from when the request was due: from when it was
    /// sent.
    pub times_from_send: Option<Histogram>,
}

impl Slot {
    pub fn merge(&mut self, other: &Self) {
        self.completed += other.completed;
        self.body_bytes += other.body_bytes;
        self.sum_ns += other.sum_ns;
        self.times.merge(&other.times);
        merge(&mut self.times_from_send, other.times_from_send.as_ref());
    }
}

/// Adds a histogram to one that may be none yet.
pub fn merge(own: &mut Option<Histogram>, more: Option<&Histogram>) {
    match (own, more) {
        (Some(own), Some(more)) => own.merge(more),
        (own @ None, Some(more)) => *own = Some(more.clone()),
        (_, None) => {}
    }
}

/// Adds the counts of each key.
pub fn add_counts<K: Copy + Ord>(own: &mut BTreeMap<K, u64>, more: &BTreeMap<K, u64>) {
    for (key, count) in more {
        *own.entry(*key).or_default() += count;
    }
}

#[derive(Clone, Debug, Default)]
pub struct Tally {
    pub slots: Vec<Slot>,
    pub heat: Heat,
    /// Complete responses in the window by status.
    pub statuses: BTreeMap<u16, u64>,
    /// Faults, in the warm-up too.
    pub faults: BTreeMap<Fault, u64>,
    pub window_faults: BTreeMap<Fault, u64>,
    /// A file of which a body had another content.
    pub wrong_file: Option<u32>,
    /// Connections made.
    pub connections: u64,
    /// Those of them that were made within the window.
    pub window_connections: u64,
    /// Connections that the server closed between two requests.
    pub closed_idle: u64,
    /// Requests without a complete response at the end of the window, and the longest of them.
    pub in_flight: u64,
    pub longest_in_flight_ns: u64,
    /// For how long each of them had been in flight.
    pub in_flight_ns: Vec<u64>,
    /// Sum of the delays between the readiness of a connection and its handling.
    pub lag_ns: f64,
    pub lags: u64,
    /// How late requests of the window were sent by an open loop that had a connection for them.
    pub late: Option<Histogram>,
    /// Congestion control of the sockets.
    pub congestion: Option<String>,
    pub phases: Option<Phases>,
}

impl Tally {
    /// For responses within a time.
    pub fn new(timeout_ns: u64, is_open_loop: bool) -> Self {
        let times = || Histogram::with_room(timeout_ns);
        let times_from_send = || is_open_loop.then(times);
        let slot =
            || Slot { times: times(), times_from_send: times_from_send(), ..Slot::default() };
        Self {
            slots: (0..SLOTS).map(|_| slot()).collect(),
            heat: Heat::new(SLICES),
            ..Self::default()
        }
    }

    pub fn merge(&mut self, other: &Self) {
        self.slots.resize_with(SLOTS, Slot::default);
        self.slots.iter_mut().zip(&other.slots).for_each(|(own, more)| own.merge(more));
        self.heat.merge(&other.heat);
        add_counts(&mut self.statuses, &other.statuses);
        add_counts(&mut self.faults, &other.faults);
        add_counts(&mut self.window_faults, &other.window_faults);
        self.wrong_file = self.wrong_file.or(other.wrong_file);
        self.connections += other.connections;
        self.window_connections += other.window_connections;
        self.closed_idle += other.closed_idle;
        self.in_flight += other.in_flight;
        self.longest_in_flight_ns = self.longest_in_flight_ns.max(other.longest_in_flight_ns);
        self.in_flight_ns.extend(&other.in_flight_ns);
        self.lag_ns += other.lag_ns;
        self.lags += other.lags;
        merge(&mut self.late, other.late.as_ref());
        self.congestion = self.congestion.take().or_else(|| other.congestion.clone());
        Phases::merge(&mut self.phases, other.phases.as_ref());
    }

    pub fn completed(&self) -> u64 {
        self.slots.iter().map(|slot| slot.completed).sum()
    }

    pub fn failed(&self) -> u64 {
        self.faults.values().sum()
    }
}

/// The most frequent faults with their counts; `more`: those of members, by their words.
pub fn fault_words(faults: &BTreeMap<Fault, u64>, more: &BTreeMap<String, u64>) -> String {
    let own = faults.iter().map(|(fault, count)| (fault.to_string(), *count));
    let more = more.iter().map(|(words, count)| (words.clone(), *count));
    let mut faults: Vec<(String, u64)> = own.chain(more).collect();
    faults.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let words = faults.iter().take(3).map(|(fault, count)| format!("{fault} ({count}×)"));
    words.collect::<Vec<String>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn end_of_a_load_names_the_side_at_fault() {
        let (refused, no_port) = (Fault::Connect(111), Fault::Connect(99));
        let redirect = Fault::Status(301);
        assert!(redirect.end_words().contains("status 301 only: redirects are not followed"));
        assert!(no_port.end_words().starts_with("no free local port; use fewer clients"));
        assert_eq!([redirect, refused].map(Fault::remedy), [None, None]);
        assert!(refused.end_words().starts_with("the server stopped answering: connect: "));
        let causes = [redirect, no_port, refused].map(Fault::end_cause);
        assert_eq!(causes, [Cause::WrongWork, Cause::LoadGenerator, Cause::Crashed]);
    }
}
