//! The connection beside the load: file list, telemetry, page-cache state and facts of the server.
//! A server that is not `fathom serve` answers 404, and these are unknown.

use std::collections::VecDeque;
use std::fmt;
use std::io::{BufReader, ErrorKind, Read};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use fathom_http::{
    Connector, ExchangeError, ExchangeLimits, Framing, ServerAddress, Stream, Tls, coded, request,
};
use fathom_record::Host;
use serde::de::{DeserializeOwned, Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::control_error::ControlError;
use crate::figures::{CacheChange, DiskRate, LoadTelemetry};
use crate::message::Message;
use crate::paths::PATHS_MAX;

/// Longest answers: a list of a million files, and anything else.
const LIST_BYTES_MAX: u64 = 256 << 20;
const BODY_BYTES_MAX: u64 = 1 << 20;
/// What is kept of a list.
const PATH_BYTES_MAX: usize = 128 << 20;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Where the service answers itself.
const OWN: &str = "/.fathom/";
/// Warming or evicting a large set takes long.
const WORK_TIMEOUT: Duration = Duration::from_secs(600);

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ControlListing {
    #[serde(deserialize_with = "listed_files")]
    pub files: Vec<ListedFile>,
    pub truncated: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub struct ListedFile {
    pub path: String,
    pub bytes: u64,
}

const PATH_MAX: usize = 4096;

/// A list that is too long ends where it becomes so: a short text can be a large list.
fn listed_files<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<ListedFile>, D::Error> {
    struct ControlFiles;
    impl<'de> Visitor<'de> for ControlFiles {
        type Value = Vec<ListedFile>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of files")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            let (mut files, mut path_bytes) = (Vec::new(), 0);
            while let Some(file) = list.next_element::<ListedFile>()? {
                path_bytes += file.path.len();
                // Its request's head would be refused.
                if file.path.len() > PATH_MAX {
                    return Err(A::Error::custom("a path above 4 KiB"));
                }
                files.push(file);
                if files.len() > PATHS_MAX as usize || path_bytes > PATH_BYTES_MAX {
                    let text = format!("above {PATHS_MAX} files or 128 MiB of paths; use --urls");
                    return Err(A::Error::custom(text));
                }
            }
            Ok(files)
        }
    }
    from.deserialize_seq(ControlFiles)
}

/// A blocking client of one request at a time.
pub struct Control {
    address: ServerAddress,
    host: String,
    /// Further fields, each `Name: value`.
    fields: Vec<String>,
    /// Of a whole answer: a byte now and then does not prolong it.
    timeout: Duration,
    stop: Arc<AtomicBool>,
    /// The source address of connections, if not the kernel's choice.
    source: Option<IpAddr>,
    tls: Option<Tls>,
    stream: Option<Stream>,
    /// Version and ciphers of the last connection.
    tls_words: Option<(&'static str, String)>,
}

/// An answer whose body was read.
pub struct ControlAnswer {
    pub status: u16,
    pub body: Vec<u8>,
    /// Length of the body, of which less may be kept.
    pub body_bytes: u64,
    /// Whether the body has a Content-Encoding.
    pub is_coded: bool,
    /// Where a redirect leads, as it was sent.
    pub location: Option<String>,
}

impl Control {
    pub fn new(
        address: impl Into<ServerAddress>,
        host: &str,
        fields: &[String],
        timeout: Duration,
    ) -> Self {
        let address = address.into();
        let (host, fields) = (host.to_owned(), fields.to_vec());
        let stop = Arc::default();
        let (source, tls, stream, tls_words) = (None, None, None, None);
        Self { address, host, fields, timeout, stop, source, tls, stream, tls_words }
    }

    /// Speaks TLS, if it is given.
    #[must_use]
    pub fn over(self, tls: Option<Tls>) -> Self {
        Self { tls, ..self }
    }

    /// The version of TLS, and the ciphers, of the last connection.
    pub fn tls_words(&self) -> Option<(&'static str, String)> {
        self.tls_words.clone()
    }

    /// Waits end when the flag is set.
    #[must_use]
    pub fn stopped_by(self, stop: Arc<AtomicBool>) -> Self {
        Self { stop, ..self }
    }

    pub fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout;
    }

    /// Connects from this address of this host.
    #[must_use]
    pub fn bound_to(self, source: Option<IpAddr>) -> Self {
        Self { source, ..self }
    }

    pub fn list(&mut self) -> Result<ControlListing, ControlError> {
        self.json("GET", "/.fathom/list", LIST_BYTES_MAX)
    }

    pub fn telemetry(&mut self) -> Result<LoadTelemetry, ControlError> {
        self.json::<LoadTelemetry>("GET", "/.fathom/telemetry", BODY_BYTES_MAX)?.checked()
    }

    pub fn host(&mut self) -> Result<Host, ControlError> {
        let host: Host = self.json("GET", "/.fathom/host", BODY_BYTES_MAX)?;
        let is_printable = host.is_printable();
        match host.implausible().or((!is_printable).then_some("control characters")) {
            Some(name) => Err(ControlError::Implausible(name)),
            None => Ok(host),
        }
    }

    /// `evict` or `warm`.
    pub fn change_cache(&mut self, what: &str) -> Result<CacheChange, ControlError> {
        self.order::<CacheChange>(what)?.checked()
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
        body_max: u64,
    ) -> Result<T, ControlError> {
        let message = Message { method: method.to_owned(), body: Vec::new() };
        self.repeated(&message, path, body_max, |status, body| match status {
            200 => body.json(),
            status => {
                body.drain()?;
                Err(ControlError::Status(status))
            }
        })
    }

    /// Keeps at most `body_max` bytes of the body; if that is not 0, more are an error.
    pub fn ask(
        &mut self,
        method: &str,
        path: &str,
        body_max: u64,
    ) -> Result<ControlAnswer, ControlError> {
        self.exchange(&Message { method: method.to_owned(), body: Vec::new() }, path, body_max)
    }

    /// As [`Self::ask`], with any method and body.
    pub(crate) fn exchange(
        &mut self,
        message: &Message,
        path: &str,
        body_max: u64,
    ) -> Result<ControlAnswer, ControlError> {
        self.repeated(message, path, body_max, |status, body| body.answer(status))
    }

    /// Asks once more over a new connection if a kept one was closed. What may not be repeated goes
    /// over a new one at once.
    fn repeated<T>(
        &mut self,
        message: &Message,
        path: &str,
        body_max: u64,
        read: impl Fn(u16, &mut ControlBody<'_>) -> Result<T, ControlError>,
    ) -> Result<T, ControlError> {
        if !message.is_idempotent() {
            self.stream = None;
        }
        let was_kept = self.stream.is_some();
        match self.ask_once(message, path, body_max, &read) {
            Err(ControlError::Exchange(ExchangeError::Io(_))) if was_kept => {
                self.stream = None;
                self.ask_once(message, path, body_max, &read)
            }
            answer => answer,
        }
    }

    fn ask_once<T>(
        &mut self,
        message: &Message,
        path: &str,
        body_max: u64,
        read: impl Fn(u16, &mut ControlBody<'_>) -> Result<T, ControlError>,
    ) -> Result<T, ControlError> {
        let stop = Arc::clone(&self.stop);
        let limits = ExchangeLimits::new(self.timeout, &stop);
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => self.connect(&limits)?,
        };
        let length = message.length();
        // What the user says of bodies is of the requests of the load.
        let is_own = path.starts_with(OWN);
        let is_of_body = |field: &str| field.to_ascii_lowercase().starts_with("content-");
        let more = self.fields.iter().filter(|field| !(is_own && is_of_body(field)));
        let fields = length.iter().chain(more);
        let head = request(&message.method, path, &self.host, fields);
        limits.send(&mut stream, &[head.as_bytes(), &message.body].concat())?;
        let mut body = ControlBody::begin(&mut stream, limits, body_max)?;
        if message.method == "HEAD" {
            body.is_complete = true;
        }
        let outcome = read(body.status, &mut body);
        let is_kept = body.keeps && body.is_complete;
        self.stream = is_kept.then_some(stream);
        outcome
    }

    fn connect(&mut self, limits: &ExchangeLimits<'_>) -> Result<Stream, ExchangeError> {
        let connector = Connector { from: self.source, ..Connector::default() };
        let timeout = self.timeout.min(CONNECT_TIMEOUT);
        let socket = connector.open(&self.address, timeout, Some(&self.stop))?;
        let mut stream = Stream::new(socket, self.tls.as_ref())?;
        limits.shake_hands(&mut stream)?;
        self.tls_words = stream.tls_words();
        Ok(stream)
    }
}

/// The body of an answer, as it arrives.
pub(crate) struct ControlBody<'s> {
    stream: &'s mut dyn Read,
    limits: ExchangeLimits<'s>,
    /// 0 if it is dropped.
    bytes_max: u64,
    pub status: u16,
    is_coded: bool,
    location: Option<String>,
    keeps: bool,
    framing: Framing,
    is_complete: bool,
    /// Bytes of the body so far.
    bytes: u64,
    /// What was received and not read yet; of a chunked body only its data.
    piece: VecDeque<u8>,
    buffer: Vec<u8>,
    /// Why it is incomplete, if a reader has failed.
    error: Option<ControlError>,
}

impl<'s> ControlBody<'s> {
    /// Reads the head.
    pub(crate) fn begin(
        stream: &'s mut dyn Read,
        limits: ExchangeLimits<'s>,
        bytes_max: u64,
    ) -> Result<Self, ControlError> {
        let mut buffer = vec![0; 64 << 10];
        let (mut is_coded, mut location) = (false, None);
        let (head, begun) = limits.head(stream, &mut buffer, |_, name, value| {
            is_coded |= name.eq_ignore_ascii_case("content-encoding") && coded(value);
            if name.eq_ignore_ascii_case("location") {
                location = Some(String::from_utf8_lossy(value).into_owned());
            }
        })?;
        let mut body = Self {
            stream,
            limits,
            bytes_max,
            status: head.status,
            is_coded,
            location,
            keeps: head.keeps,
            framing: head.framing,
            is_complete: false,
            bytes: 0,
            piece: VecDeque::new(),
            buffer,
            error: None,
        };
        body.accept(&begun)?;
        Ok(body)
    }

    fn accept(&mut self, data: &[u8]) -> Result<(), ControlError> {
        self.piece.clear();
        let fed = self.framing.feed_to(data, |part| self.piece.extend(part));
        self.is_complete = fed.map_err(ExchangeError::from)?;
        self.bytes += self.piece.len() as u64;
        match self.bytes_max {
            1.. if self.bytes > self.bytes_max => Err(ControlError::TooLong(self.bytes_max >> 20)),
            _ => Ok(()),
        }
    }

    /// Waits for the next piece, after the one before was read.
    fn next(&mut self) -> Result<(), ControlError> {
        self.limits.check()?;
        let count = self.limits.receive(self.stream, &mut self.buffer)?;
        let buffer = std::mem::take(&mut self.buffer);
        let taken = match (count, self.framing) {
            (0, Framing::UntilClose) => {
                self.is_complete = true;
                self.piece.clear();
                Ok(())
            }
            (0, Framing::Length(missing)) => Err(ControlError::Truncated(self.bytes, missing)),
            (0, _) => Err(ControlError::Answer("body truncated: no last chunk")),
            _ => self.accept(&buffer[..count]),
        };
        self.buffer = buffer;
        taken
    }

    fn drain(&mut self) -> Result<(), ControlError> {
        while !self.is_complete {
            self.next()?;
        }
        Ok(())
    }

    pub(crate) fn answer(&mut self, status: u16) -> Result<ControlAnswer, ControlError> {
        let mut body = Vec::new();
        loop {
            if self.bytes_max > 0 {
                body.extend(&self.piece);
            }
            if self.is_complete {
                let (body_bytes, is_coded) = (self.bytes, self.is_coded);
                let location = self.location.take();
                return Ok(ControlAnswer { status, body, body_bytes, is_coded, location });
            }
            self.next()?;
        }
    }

    /// Parses it as it arrives: what is kept is bounded by its type, and not by its text.
    pub(crate) fn json<T: DeserializeOwned>(&mut self) -> Result<T, ControlError> {
        let parsed = serde_json::from_reader(BufReader::with_capacity(64 << 10, &mut *self));
        parsed.map_err(|error| self.error.take().unwrap_or(ControlError::Json(error)))
    }
}

impl Read for ControlBody<'_> {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        while self.piece.is_empty() && !self.is_complete {
            if let Err(error) = self.next() {
                self.error = Some(error);
                return Err(ErrorKind::Other.into());
            }
        }
        self.piece.read(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "HTTP/1.1 200 OK\r\n\r\n";
    const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    static GOES_ON: AtomicBool = AtomicBool::new(false);

    fn limits() -> ExchangeLimits<'static> {
        ExchangeLimits::new(Duration::from_secs(600), &GOES_ON)
    }

    /// A text again and again.
    struct Endless(&'static [u8], usize);

    impl Read for Endless {
        fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
            let Self(text, at) = self;
            to.fill_with(|| {
                *at += 1;
                text[(*at - 1) % text.len()]
            });
            Ok(to.len())
        }
    }

    #[test]
    fn endless_answers_end() {
        let whole = format!("{HEAD}0123456789");
        let body = |bytes_max, limits: ExchangeLimits<'_>| {
            let mut text = whole.as_bytes();
            let answer = ControlBody::begin(&mut text, limits, bytes_max)?.answer(200)?;
            Ok::<_, ControlError>((answer.body.len(), answer.body_bytes))
        };
        assert_eq!(body(10, limits()).unwrap(), (10, 10));
        assert!(matches!(body(9, limits()), Err(ControlError::TooLong(_))));
        // Of a file only the length is of interest.
        assert_eq!(body(0, limits()).unwrap(), (0, 10));
        let late = body(10, ExchangeLimits::new(Duration::ZERO, &GOES_ON)).unwrap_err().to_string();
        assert_eq!(late, "no complete response in 0 s");
        let stop = AtomicBool::new(true);
        let stopped = body(10, ExchangeLimits::new(Duration::MAX, &stop));
        assert_eq!(stopped.unwrap_err().to_string(), "stopped");
        let mut text = b"HTTP/1.1 200 OK\r\nX: ".chain(Endless(b"y", 0));
        let end = ControlBody::begin(&mut text, limits(), 10).map(drop).unwrap_err().to_string();
        assert_eq!(end, "malformed response: head above 16 KiB");
    }

    #[test]
    fn lists_are_bounded_as_they_are_read() {
        let list = |begin: &str, endless: &'static [u8]| {
            let mut text = begin.as_bytes().chain(Endless(endless, 0));
            let body = ControlBody::begin(&mut text, limits(), 32 << 20);
            body.and_then(|mut body| body.json::<ControlListing>()).unwrap_err().to_string()
        };
        let begin = format!("{HEAD}{{\"files\": [");
        let text = list(&begin, b"{},");
        assert!(text.contains("missing field `path` at line 1"), "{text}");
        let text = list(&begin, b"{\"path\":\"\",\"bytes\":1},");
        assert!(text.contains("above 1048576 files"), "{text}");
        let body = "{\"files\":[{\"path\":\"a\",\"bytes\":7}],\"more\":1}";
        let size = body.len();
        let whole = format!("{CHUNKED}{size:x}\r\n{body}\r\n0\r\n\r\n");
        let mut text = whole.as_bytes();
        let mut body = ControlBody::begin(&mut text, limits(), 99).unwrap();
        let files = body.json::<ControlListing>().unwrap().files;
        assert_eq!((files.len(), files[0].bytes, body.is_complete), (1, 7, true));
    }
}
