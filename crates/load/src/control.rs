//! The connection beside the load: file list, telemetry, page-cache state and facts of the server.
//! A server that is not `fathom serve` answers 404, and these are unknown.

use std::io::{ErrorKind, Read, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use fathom_measure::clock::monotonic_raw_ns;
use fathom_record::Host;
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::engine::{Framing, parse};

/// Longest answers: a list of a million files, and anything else.
const LIST_BYTES_MAX: usize = 256 << 20;
const BODY_BYTES_MAX: usize = 1 << 20;
/// How many times its time-out an answer may take as a whole: a byte now and then does not prolong
/// it.
const TIMEOUTS_MAX: u32 = 6;
/// Warming or evicting a large set takes long.
const WORK_TIMEOUT: Duration = Duration::from_secs(600);

#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("status {0}")]
    Status(u16),
    #[error("{0}")]
    Answer(&'static str),
    /// It must not reach a record.
    #[error("the far end's figure is implausible: {0}")]
    Implausible(&'static str),
    #[error("unexpected JSON: {0}")]
    Json(#[from] serde_json::Error),
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Listing {
    pub files: Vec<ListedFile>,
    pub truncated: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ListedFile {
    pub path: String,
    pub bytes: u64,
}

/// Counters of the server at one time.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Telemetry {
    /// By the server's monotonic clock.
    pub at_ns: u64,
    pub cpu_ns: u64,
    pub resident_bytes: u64,
    pub responses: u64,
    pub bytes_sent: u64,
    pub bytes_on_wire: Option<u64>,
    /// Time in which its threads handled connections.
    pub busy_ns: u64,
    /// CPU time of its reactors, and the time that they were ready and had no CPU.
    pub reactor_cpu_ns: u64,
    pub reactor_wait_ns: u64,
    /// Of all its threads.
    pub run_queue_wait_ns: u64,
    /// Its reactors.
    pub threads: u64,
    /// CPUs that it may use, by its affinity and its quota.
    pub cpus: f64,
    pub throttled_ns: Option<u64>,
    /// Fetched from devices by its process.
    pub read_bytes: Option<u64>,
    /// A serial section that it adds to each request, as a known answer.
    pub serial_ns: u64,
    /// The device below the served folder.
    pub device: Option<Device>,
    pub tcp_retransmits: Option<u64>,
    pub congestion: Option<String>,
    /// Whether it evicts each file after its response.
    pub cold: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Device {
    pub reads: u64,
    pub read_bytes: u64,
    pub busy_ns: Option<u64>,
}

/// The result of an eviction or of warming.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct CacheChange {
    pub files: u64,
    pub bytes: u64,
    /// Absent if the kernel does not say.
    pub resident_bytes_after: Option<u64>,
}

/// What the server's process read from its device past the page cache.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct DiskRate {
    /// Bytes in each equal part of the time.
    pub slots: Vec<u64>,
    pub slot_ns: u64,
    pub unavailable: Option<String>,
}

/// Beyond every counter: about 36 years in nanoseconds, and small enough that sums do not overflow.
const COUNTER_MAX: u64 = 1 << 60;
/// A pebibyte, far above the memory of any host.
const MEMORY_MAX: u64 = 1 << 50;
const CPUS_MAX: u64 = 1 << 16;
const SLOTS_MAX: usize = 100_000;

/// The first figure that cannot be.
fn implausible(figures: &[(&'static str, u64, u64)]) -> Result<(), ControlError> {
    let found = figures.iter().find(|(_, value, most)| value > most);
    found.map_or(Ok(()), |(name, ..)| Err(ControlError::Implausible(name)))
}

impl Telemetry {
    fn checked(self) -> Result<Self, ControlError> {
        let device = self.device.clone().unwrap_or_default();
        let counters = [
            ("time", self.at_ns),
            ("CPU time", self.cpu_ns),
            ("responses", self.responses),
            ("bytes sent", self.bytes_sent),
            ("bytes on the wire", self.bytes_on_wire.unwrap_or(0)),
            ("busy time", self.busy_ns),
            ("CPU time of reactors", self.reactor_cpu_ns),
            ("waiting time of reactors", self.reactor_wait_ns),
            ("waiting time", self.run_queue_wait_ns),
            ("throttled time", self.throttled_ns.unwrap_or(0)),
            ("bytes read", self.read_bytes.unwrap_or(0)),
            ("serial section", self.serial_ns),
            ("reads of the device", device.reads.max(device.read_bytes)),
            ("busy time of the device", device.busy_ns.unwrap_or(0)),
            ("retransmits", self.tcp_retransmits.unwrap_or(0)),
        ];
        implausible(&counters.map(|(name, value)| (name, value, COUNTER_MAX)))?;
        // A float above 2⁶⁴ is the largest integer.
        let cpus = if self.cpus >= 0.0 { self.cpus.ceil() as u64 } else { u64::MAX };
        implausible(&[
            ("memory", self.resident_bytes, MEMORY_MAX),
            ("CPUs", cpus, CPUS_MAX),
            ("threads", self.threads, CPUS_MAX),
        ])?;
        Ok(self)
    }
}

impl DiskRate {
    fn checked(self) -> Result<Self, ControlError> {
        let bytes = self.slots.iter().copied().max().unwrap_or(0);
        let slots = if self.slots.len() > SLOTS_MAX { u64::MAX } else { 0 };
        let figures = [("slots", slots), ("bytes read", bytes), ("time", self.slot_ns)];
        implausible(&figures.map(|(name, value)| (name, value, COUNTER_MAX)))?;
        match self.slot_ns {
            0 if self.unavailable.is_none() => Err(ControlError::Implausible("no time")),
            _ => Ok(self),
        }
    }
}

/// A blocking client of one request at a time.
pub struct Control {
    address: SocketAddr,
    host: String,
    /// Further fields, each `Name: value`.
    fields: Vec<String>,
    timeout: Duration,
    /// The source address of connections, if not the kernel's choice.
    source: Option<IpAddr>,
    stream: Option<TcpStream>,
}

/// An answer whose body was read.
pub struct Answer {
    pub status: u16,
    pub body: Vec<u8>,
    /// Length of the body, of which less may be kept.
    pub body_bytes: u64,
}

impl Control {
    pub fn new(address: SocketAddr, host: &str, fields: &[String], timeout: Duration) -> Self {
        let (host, fields) = (host.to_owned(), fields.to_vec());
        Self { address, host, fields, timeout, source: None, stream: None }
    }

    /// Connects from this address of this host.
    #[must_use]
    pub fn bound_to(self, source: Option<IpAddr>) -> Self {
        Self { source, ..self }
    }

    pub fn list(&mut self) -> Result<Listing, ControlError> {
        self.json("GET", "/.fathom/list", LIST_BYTES_MAX)
    }

    pub fn telemetry(&mut self) -> Result<Telemetry, ControlError> {
        self.json::<Telemetry>("GET", "/.fathom/telemetry", BODY_BYTES_MAX)?.checked()
    }

    pub fn host(&mut self) -> Result<Host, ControlError> {
        let host: Host = self.json("GET", "/.fathom/host", BODY_BYTES_MAX)?;
        let (cpus, memory) = (u64::from(host.cpu.logical), host.memory.total_bytes.unwrap_or(0));
        implausible(&[("memory", memory, MEMORY_MAX), ("CPUs", cpus, CPUS_MAX)])?;
        let is_printable = host.is_printable();
        is_printable.then_some(host).ok_or(ControlError::Answer("control characters in the facts"))
    }

    /// `evict` or `warm`.
    pub fn change_cache(&mut self, what: &str) -> Result<CacheChange, ControlError> {
        let change: CacheChange = self.order(what)?;
        let bytes = change.bytes.max(change.resident_bytes_after.unwrap_or(0));
        implausible(&[("files", change.files, COUNTER_MAX), ("bytes", bytes, COUNTER_MAX)])?;
        Ok(change)
    }

    pub fn read_disk(&mut self, time_ms: u64) -> Result<DiskRate, ControlError> {
        self.order::<DiskRate>(&format!("disk/{time_ms}"))?.checked()
    }

    /// Lets the next request open a new connection.
    pub fn reconnect(&mut self) {
        self.stream = None;
    }

    /// Asks for work that takes long.
    fn order<T: DeserializeOwned>(&mut self, what: &str) -> Result<T, ControlError> {
        let usual = std::mem::replace(&mut self.timeout, WORK_TIMEOUT);
        self.stream = None;
        let done = self.json("POST", &format!("/.fathom/{what}"), BODY_BYTES_MAX);
        self.timeout = usual;
        self.stream = None;
        done
    }

    fn json<T: DeserializeOwned>(
        &mut self,
        method: &str,
        path: &str,
        body_max: usize,
    ) -> Result<T, ControlError> {
        let answer = self.ask(method, path, body_max)?;
        match answer.status {
            200 => Ok(serde_json::from_slice(&answer.body)?),
            status => Err(ControlError::Status(status)),
        }
    }

    /// Asks once more over a new connection if a kept one was closed.
    pub fn ask(
        &mut self,
        method: &str,
        path: &str,
        body_max: usize,
    ) -> Result<Answer, ControlError> {
        let was_kept = self.stream.is_some();
        match self.ask_once(method, path, body_max) {
            Err(ControlError::Io(_)) if was_kept => {
                self.stream = None;
                self.ask_once(method, path, body_max)
            }
            answer => answer,
        }
    }

    fn ask_once(
        &mut self,
        method: &str,
        path: &str,
        body_max: usize,
    ) -> Result<Answer, ControlError> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => self.connect()?,
        };
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(self.timeout))?;
        stream.set_write_timeout(Some(self.timeout))?;
        let mut request = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\n", self.host);
        if method == "POST" {
            request += "Content-Length: 0\r\n";
        }
        for field in &self.fields {
            request += &format!("{field}\r\n");
        }
        stream.write_all(format!("{request}\r\n").as_bytes())?;
        let until_ns = deadline_ns(self.timeout, body_max);
        let (answer, keeps) = read_answer(&mut stream, body_max, until_ns)?;
        self.stream = keeps.then_some(stream);
        Ok(answer)
    }

    fn connect(&self) -> std::io::Result<TcpStream> {
        let Some(source) = self.source else {
            return TcpStream::connect_timeout(&self.address, self.timeout);
        };
        let is_v4 = self.address.is_ipv4();
        let family = if is_v4 { AddressFamily::INET } else { AddressFamily::INET6 };
        let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        // It limits connect(2), which then says EINPROGRESS.
        set_socket_timeout(&socket, Timeout::Send, Some(self.timeout))?;
        bind(&socket, &SocketAddr::new(source, 0))?;
        match connect(&socket, &self.address) {
            Ok(()) => Ok(socket.into()),
            Err(Errno::INPROGRESS | Errno::AGAIN) => Err(ErrorKind::TimedOut.into()),
            Err(error) => Err(error.into()),
        }
    }
}

/// When an answer must be complete; of a file, whose body is dropped, there is no limit.
fn deadline_ns(timeout: Duration, body_max: usize) -> u64 {
    let limit_ns = u64::try_from((timeout * TIMEOUTS_MAX).as_nanos()).unwrap_or(u64::MAX);
    if body_max == 0 { u64::MAX } else { monotonic_raw_ns().saturating_add(limit_ns) }
}

/// Reads one answer. At most `body_max` bytes of its body are kept; if that is not 0, more are an
/// error.
pub(crate) fn read_answer(
    stream: &mut impl Read,
    body_max: usize,
    until_ns: u64,
) -> Result<(Answer, bool), ControlError> {
    let mut read = |piece: &mut [u8]| match monotonic_raw_ns() < until_ns {
        true => stream.read(piece),
        false => Err(ErrorKind::TimedOut.into()),
    };
    let malformed = |_| ControlError::Answer("malformed response");
    let mut data = Vec::new();
    let mut piece = vec![0; 64 << 10];
    let head = loop {
        if let Some(head) = parse(&data).map_err(malformed)? {
            break head;
        }
        match read(&mut piece)? {
            0 if data.is_empty() => return Err(closed()),
            0 => return Err(ControlError::Answer("connection closed within the head")),
            count => data.extend_from_slice(&piece[..count]),
        }
    };
    let mut framing = head.framing;
    let mut rest = data.split_off(head.bytes);
    let mut body = Vec::new();
    let mut body_bytes = 0;
    let is_plain = !matches!(framing, Framing::Chunked(_));
    loop {
        body_bytes += if is_plain { rest.len() as u64 } else { 0 };
        let is_complete = match &mut framing {
            Framing::Length(missing) => {
                let extra = ControlError::Answer("more bytes than Content-Length");
                *missing = missing.checked_sub(rest.len() as u64).ok_or(extra)?;
                *missing == 0
            }
            Framing::Chunked(chunks) => {
                body_bytes += chunks.feed(&rest).map_err(malformed)?;
                *chunks == crate::engine::Chunks::Done
            }
            Framing::UntilClose => false,
        };
        if body_max > 0 && body_bytes > body_max as u64 {
            return Err(ControlError::Answer("body too long"));
        }
        let room = body_max.saturating_sub(body.len());
        body.extend_from_slice(&rest[..rest.len().min(room)]);
        if is_complete {
            break;
        }
        match read(&mut piece)? {
            0 if framing == Framing::UntilClose => break,
            0 => return Err(ControlError::Answer("body truncated")),
            count => rest = piece[..count].to_vec(),
        }
    }
    if !is_plain && head.status == 200 && body_max > 0 {
        body = unchunked(&body);
    }
    Ok((Answer { status: head.status, body, body_bytes }, head.keeps))
}

fn closed() -> ControlError {
    ControlError::Io(std::io::Error::new(
        std::io::ErrorKind::UnexpectedEof,
        "connection closed without a response",
    ))
}

/// The data of complete chunks.
fn unchunked(text: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    let mut rest = text;
    while let Ok(httparse::Status::Complete((at, size))) = httparse::parse_chunk_size(rest) {
        let Some(data) = rest.get(at..at + size as usize).filter(|data| !data.is_empty()) else {
            break;
        };
        body.extend_from_slice(data);
        rest = rest.get(at + size as usize + 2..).unwrap_or_default();
    }
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_that_cannot_be_reach_no_record() {
        fn of<T: DeserializeOwned>(
            text: &str,
            checked: fn(T) -> Result<T, ControlError>,
        ) -> String {
            let figures = serde_json::from_str(text).unwrap();
            checked(figures).map_or_else(|error| error.to_string(), |_| "plausible".to_owned())
        }
        let lead = "the far end's figure is implausible: ";
        for (text, what) in [
            (r#"{"cpu_ns": 18446744073709551615}"#, "CPU time"),
            (r#"{"resident_bytes": 1125899906842625}"#, "memory"),
            (r#"{"cpus": -1}"#, "CPUs"),
            (r#"{"cpus": 1e300}"#, "CPUs"),
            (
                r#"{"device": {"reads": 0, "read_bytes": 18446744073709551615}}"#,
                "reads of the device",
            ),
        ] {
            assert_eq!(of(text, Telemetry::checked), format!("{lead}{what}"), "{text}");
        }
        let largest = r#"{"cpu_ns": 1152921504606846976, "resident_bytes": 1125899906842624}"#;
        assert_eq!(of(largest, Telemetry::checked), "plausible");
        let no_time = r#"{"slots": [1], "slot_ns": 0}"#;
        assert_eq!(of(no_time, DiskRate::checked), format!("{lead}no time"));
        let refused = r#"{"slots": [], "slot_ns": 0, "unavailable": "no files"}"#;
        assert_eq!(of(refused, DiskRate::checked), "plausible");
    }

    #[test]
    fn endless_answers_end() {
        let head = "HTTP/1.1 200 OK\r\n\r\n";
        let whole = format!("{head}0123456789");
        let body = |body_max, until_ns| {
            let answer = read_answer(&mut whole.as_bytes(), body_max, until_ns);
            answer.map(|(answer, _)| (answer.body.len(), answer.body_bytes))
        };
        assert_eq!(body(10, u64::MAX).unwrap(), (10, 10));
        assert!(matches!(body(9, u64::MAX), Err(ControlError::Answer("body too long"))));
        // Of a file only the length is of interest.
        assert_eq!(body(0, u64::MAX).unwrap(), (0, 10));
        assert!(matches!(body(10, 0), Err(ControlError::Io(_))));
        let interim = "HTTP/1.1 100 Continue\r\n\r\n".repeat(10_000);
        let outcome = read_answer(&mut interim.as_bytes(), 10, u64::MAX);
        assert!(matches!(outcome, Err(ControlError::Answer("malformed response"))));
    }
}
