//! The connection beside the load: file list, telemetry, page-cache state and facts of the server.
//! A server that is not `fathom serve` answers 404, and these are unknown.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use fathom_record::Host;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::engine::{Framing, parse};

/// Longest answer: a list of a million files.
const BODY_BYTES_MAX: usize = 256 << 20;
/// Warming or evicting a large set takes long.
const CACHE_TIMEOUT: Duration = Duration::from_secs(600);

#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("status {0}")]
    Status(u16),
    #[error("{0}")]
    Answer(&'static str),
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

/// A blocking client of one request at a time.
pub struct Control {
    address: SocketAddr,
    host: String,
    /// Further fields, each `Name: value`.
    fields: Vec<String>,
    timeout: Duration,
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
        Self { address, host, fields, timeout, stream: None }
    }

    pub fn list(&mut self) -> Result<Listing, ControlError> {
        self.json("GET", "/.fathom/list")
    }

    pub fn telemetry(&mut self) -> Result<Telemetry, ControlError> {
        self.json("GET", "/.fathom/telemetry")
    }

    pub fn host(&mut self) -> Result<Host, ControlError> {
        self.json("GET", "/.fathom/host")
    }

    /// `evict` or `warm`.
    pub fn change_cache(&mut self, what: &str) -> Result<CacheChange, ControlError> {
        let usual = std::mem::replace(&mut self.timeout, CACHE_TIMEOUT);
        self.stream = None;
        let change = self.json("POST", &format!("/.fathom/{what}"));
        self.timeout = usual;
        self.stream = None;
        change
    }

    fn json<T: DeserializeOwned>(&mut self, method: &str, path: &str) -> Result<T, ControlError> {
        let answer = self.ask(method, path, BODY_BYTES_MAX)?;
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
            None => TcpStream::connect_timeout(&self.address, self.timeout)?,
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
        let (answer, keeps) = read_answer(&mut stream, body_max)?;
        self.stream = keeps.then_some(stream);
        Ok(answer)
    }
}

/// Reads one answer, of whose body at most `body_max` bytes are kept.
fn read_answer(stream: &mut TcpStream, body_max: usize) -> Result<(Answer, bool), ControlError> {
    let malformed = |_| ControlError::Answer("malformed response");
    let mut data = Vec::new();
    let mut piece = vec![0; 64 << 10];
    let head = loop {
        if let Some(head) = parse(&data).map_err(malformed)? {
            break head;
        }
        match stream.read(&mut piece)? {
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
        let room = body_max.saturating_sub(body.len());
        body.extend_from_slice(&rest[..rest.len().min(room)]);
        if is_complete {
            break;
        }
        match stream.read(&mut piece)? {
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
