//! Connections, requests and the heads of responses.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use fathom_http::{
    ContentRange, Framing, HEAD_BYTES_MAX, Head, Malformed, coded, content_range, parse_fields,
    retry_after,
};
use fathom_load::address::Url;
use fathom_measure::clock::{monotonic_raw_ns as now_ns, wall_ns};
use fathom_record::{Activity, system_cause};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::{set_socket_timeout, set_tcp_congestion, set_tcp_nodelay, socket_error};
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};

/// A blocked receive looks so often whether it is to stop.
const LOOK: Duration = Duration::from_millis(100);
/// The kernel's own: it has no answer from the other end. SO_RCVTIMEO gives EAGAIN.
const TIMED_OUT: i32 = Errno::TIMEDOUT.raw_os_error();
const ETAG_BYTES_MAX: usize = 256;

/// Why an attempt failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    Stopped,
    /// The connection, or a status that may pass; with the pause that the server asks for.
    Passing(String, Option<Duration>),
    /// The file is another one than before.
    Changed(String),
    /// The server has ranges, but not as they are asked for.
    Ranges(String),
    Final(String),
}

impl Fault {
    pub fn passing(what: impl std::fmt::Display) -> Self {
        Self::Passing(what.to_string(), None)
    }
}

impl From<Malformed> for Fault {
    fn from(malformed: Malformed) -> Self {
        Self::Final(format!("{malformed}; `curl -v` shows all that the server sends"))
    }
}

/// What all connections share.
pub struct Client<'c> {
    /// Of the host; the first one that accepts a connection counts.
    pub addresses: Vec<SocketAddr>,
    /// Further fields, each `Name: value`.
    pub fields: Vec<String>,
    pub congestion: Option<&'c str>,
    pub connect_timeout: Duration,
    pub timeout: Duration,
    pub stop: AtomicBool,
    /// Whether the file system refused the receive path.
    pub copies: AtomicBool,
    /// Bytes of bodies that were written.
    pub received: AtomicU64,
}

/// A part of a file with a strong ETag.
#[derive(Clone, Copy, Debug)]
pub struct Range<'r> {
    pub from: u64,
    pub to: u64,
    pub etag: &'r str,
}

pub struct Response {
    pub stream: TcpStream,
    pub head: Head,
    pub fields: ResponseFields,
    /// What came of the body with the head.
    pub body: Vec<u8>,
    /// Bytes at the beginning of the body that were not asked for.
    pub skipped: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResponseFields {
    /// If it is a strong one.
    pub etag: Option<String>,
    pub has_etag: bool,
    pub has_ranges: bool,
    pub range: Option<Result<ContentRange, Malformed>>,
    /// A Content-Encoding, which is never asked for.
    pub coding: Option<String>,
    pub location: Option<String>,
    pub retry_after: Option<Duration>,
}

impl Client<'_> {
    fn connect(&self) -> Result<TcpStream, Fault> {
        let mut last = Fault::Final("the host has no address".to_owned());
        for address in &self.addresses {
            match self.connect_to(address) {
                Err(fault @ Fault::Passing(..)) => last = fault,
                other => return other,
            }
        }
        Err(last)
    }

    fn connect_to(&self, address: &SocketAddr) -> Result<TcpStream, Fault> {
        let failed = |error: Errno| {
            let cause = system_cause(&error.into(), Activity::Other);
            Fault::passing(format!("connect to {address}: {cause}"))
        };
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(family, SocketType::STREAM, flags, None).map_err(failed)?;
        // Before the handshake, in which ECN is negotiated.
        if let Some(name) = self.congestion {
            set_tcp_congestion(&socket, name)
                .map_err(|error| Fault::Final(format!("--congestion {name}: {error}")))?;
        }
        match connect(&socket, address) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(error) => return Err(failed(error)),
        }
        let begun_ns = now_ns();
        let look = Timespec::try_from(LOOK).expect("a short time");
        loop {
            let mut wait = [PollFd::new(&socket, PollFlags::OUT)];
            match poll(&mut wait, Some(&look)) {
                Ok(0) | Err(Errno::INTR) => self.look()?,
                Ok(_) => break,
                Err(error) => return Err(failed(error)),
            }
            if u128::from(now_ns() - begun_ns) > self.connect_timeout.as_nanos() {
                let limit = self.connect_timeout.as_secs_f64();
                let text = format!("connect to {address}: no answer in {limit} s");
                return Err(Fault::passing(text));
            }
        }
        socket_error(&socket).map_err(failed)?.map_err(failed)?;
        let stream = TcpStream::from(socket);
        let set = || -> std::io::Result<()> {
            stream.set_nonblocking(false)?;
            set_tcp_nodelay(&stream, true)?;
            let receive = rustix::net::sockopt::Timeout::Recv;
            set_socket_timeout(&stream, receive, Some(LOOK))?;
            stream.set_write_timeout(Some(self.timeout))
        };
        set().map_err(Fault::passing)?;
        Ok(stream)
    }

    /// Sends a request, and reads the head of its response.
    pub fn get(&self, url: &Url, range: Option<Range<'_>>) -> Result<Response, Fault> {
        let mut stream = self.connect()?;
        let mut request = format!(
            "GET {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: fathom/{}\r\nConnection: close\r\n\
             Accept-Encoding: identity\r\n",
            url.path,
            url.authority(),
            env!("CARGO_PKG_VERSION")
        );
        if let Some(Range { from, to, etag }) = range {
            let last = to - 1;
            request += &format!("Range: bytes={from}-{last}\r\nIf-Range: {etag}\r\n");
        }
        for field in &self.fields {
            request += &format!("{field}\r\n");
        }
        request += "\r\n";
        stream.write_all(request.as_bytes()).map_err(Fault::passing)?;
        self.head(stream)
    }

    fn head(&self, mut stream: TcpStream) -> Result<Response, Fault> {
        let (mut data, mut filled) = (vec![0; HEAD_BYTES_MAX], 0);
        let begun_ns = now_ns();
        loop {
            match stream.read(&mut data[filled..]) {
                Ok(0) => return Err(Fault::passing("connection closed without a response")),
                Ok(count) => filled += count,
                Err(error) => {
                    self.wait_for("complete head", &error, begun_ns)?;
                    continue;
                }
            }
            let mut fields = ResponseFields::default();
            let parsed = parse_fields(&data[..filled], |status, name, value| {
                if status >= 200 {
                    fields.add(name, value);
                }
            });
            match parsed? {
                Some(head) => {
                    let body = data[head.bytes..filled].to_vec();
                    return Ok(Response { stream, head, fields, body, skipped: 0 });
                }
                // A byte now and then does not prolong it.
                None if filled < data.len() => {
                    self.wait_for("complete head", &ErrorKind::WouldBlock.into(), begun_ns)?;
                }
                None => {
                    let text = format!("a response head above {HEAD_BYTES_MAX} bytes");
                    return Err(Fault::Final(text));
                }
            }
        }
    }

    /// # Errors
    /// If the download is to stop.
    pub fn look(&self) -> Result<(), Fault> {
        if self.stop.load(Ordering::Relaxed) { Err(Fault::Stopped) } else { Ok(()) }
    }

    /// What an error of a receive means: nothing, if its time-out only lets it look around.
    ///
    /// # Errors
    /// If the connection failed, or had no byte of the body since `last_ns` for too long.
    pub fn wait(&self, error: &std::io::Error, last_ns: u64) -> Result<(), Fault> {
        self.wait_for("byte of the body", error, last_ns)
    }

    fn wait_for(&self, what: &str, error: &std::io::Error, since_ns: u64) -> Result<(), Fault> {
        let kinds = [ErrorKind::WouldBlock, ErrorKind::TimedOut, ErrorKind::Interrupted];
        if !kinds.contains(&error.kind()) || error.raw_os_error() == Some(TIMED_OUT) {
            return Err(Fault::passing(error));
        }
        self.look()?;
        if u128::from(now_ns() - since_ns) > self.timeout.as_nanos() {
            let limit = self.timeout.as_secs_f64();
            return Err(Fault::passing(format!("no {what} in {limit} s (--timeout)")));
        }
        Ok(())
    }
}

impl ResponseFields {
    fn add(&mut self, name: &str, value: &[u8]) {
        let value = String::from_utf8_lossy(value);
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "etag" => (self.etag, self.has_etag) = (strong(value), true),
            "accept-ranges" => self.has_ranges = value.eq_ignore_ascii_case("bytes"),
            "content-range" => self.range = Some(content_range(value.as_bytes())),
            "content-encoding" if coded(value.as_bytes()) => self.coding = Some(value.to_owned()),
            "location" => self.location = Some(value.to_owned()),
            "retry-after" => self.retry_after = retry_after(value, wall_ns()),
            _ => {}
        }
    }
}

/// An ETag that guarantees equal bytes; `W/"…"` does not.
fn strong(value: &str) -> Option<String> {
    let inner = value.strip_prefix('"')?.strip_suffix('"')?;
    let is_tag = inner.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"');
    (is_tag && value.len() <= ETAG_BYTES_MAX).then(|| value.to_owned())
}

/// What a status 416 says.
pub fn unsatisfied(response: &Response, asked: Range<'_>) -> Fault {
    match response.fields.range {
        Some(Ok(ContentRange { length: Some(length), .. })) if length < asked.to => {
            Fault::Changed(format!("status 416: the file has {length} bytes now"))
        }
        _ => Fault::Ranges(format!(
            "status 416 (range not satisfiable) for bytes {}-{}",
            asked.from,
            asked.to - 1
        )),
    }
}

/// A status 206 must be of the same file and include the range that was asked for.
pub fn check_part(
    response: &mut Response,
    asked: Range<'_>,
    length: Option<u64>,
) -> Result<(), Fault> {
    let fields = &response.fields;
    match &fields.etag {
        Some(etag) if etag == asked.etag => {}
        Some(_) => return Err(Fault::Changed("a part has another ETag".to_owned())),
        None => return Err(Fault::Ranges("a status 206 without its strong ETag".to_owned())),
    }
    let found = match &fields.range {
        Some(Ok(found)) => found,
        Some(Err(malformed)) => return Err(Fault::Ranges(malformed.to_string())),
        None => return Err(Fault::Ranges("a status 206 without Content-Range".to_owned())),
    };
    if found.length.is_some() && found.length != length {
        return Err(Fault::Changed("the file has another length now".to_owned()));
    }
    let range = found.range.clone().unwrap_or_default();
    let has_length = response.head.framing == Framing::Length(range.end - range.start);
    let has_all = range.start <= asked.from && range.end >= asked.to;
    if has_all && !has_length {
        let text = "a status 206 without a Content-Length of its range".to_owned();
        return Err(Fault::Ranges(text));
    }
    if !has_all {
        return Err(Fault::Ranges(format!(
            "the server sent bytes {}-{} instead of {}-{}",
            range.start,
            range.end.saturating_sub(1),
            asked.from,
            asked.to - 1
        )));
    }
    response.skipped = asked.from - range.start;
    Ok(())
}

/// The target of a redirect, if it is on the same host and port.
pub fn redirected(url: &Url, location: &str) -> Result<Url, String> {
    let location = location.split('#').next().unwrap_or_default();
    let scheme = location.split(['/', '?']).next().is_some_and(|first| first.ends_with(':'));
    let absolute = match location {
        "" => return Err("redirected to nowhere".to_owned()),
        text if scheme => text.to_owned(),
        text if text.starts_with("//") => format!("http:{text}"),
        text => {
            let path = url.path.split('?').next().unwrap_or_default();
            let folder = &path[..=path.rfind('/').unwrap_or(0)];
            let path = match text.chars().next() {
                Some('/') => text.to_owned(),
                Some('?') => format!("{path}{text}"),
                _ => format!("{folder}{text}"),
            };
            format!("http://{}{path}", url.authority())
        }
    };
    let shown: String = absolute.chars().filter(|c| !c.is_control()).take(300).collect();
    let target = Url::parse(&absolute).map_err(|_| {
        format!("redirected to {shown}: not an http:// URL; fathom follows no others")
    })?;
    match target.host.eq_ignore_ascii_case(&url.host) && target.port == url.port {
        true => Ok(target),
        false => Err(format!(
            "redirected to {shown}, which is another host or port; if you trust it, fetch that URL"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_strong_etags_count() {
        assert_eq!(strong("\"a-1\"").as_deref(), Some("\"a-1\""));
        for weak in ["W/\"a\"", "a", "\"a", "\"a\"b\"", "\"a b\"", "\""] {
            assert_eq!(strong(weak), None, "{weak}");
        }
    }

    #[test]
    fn redirects_stay_within_host_and_port() {
        let url = Url::parse("http://a:81/x/y?q").expect("a URL");
        let to = |location| redirected(&url, location).map(|it| it.path);
        for (location, path) in [
            ("/z", "/z"),
            ("z?a#b", "/x/z?a"),
            ("?r", "/x/y?r"),
            ("http://A:81/w", "/w"),
            ("//a:81/v", "/v"),
        ] {
            assert_eq!(to(location).as_deref(), Ok(path), "{location}");
        }
        for other in ["http://b:81/", "//b/", "http://a/", "https://a:81/", "ftp://a:81/", ""] {
            assert!(to(other).is_err(), "{other}");
        }
        let hidden = to("http://b/\u{1b}[2J").expect_err("another host");
        assert!(!hidden.contains('\u{1b}'), "{hidden}");
    }
}
