//! Connections, requests and the heads of responses.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use fathom_http::{
    ConnectError, Connector, ContentRange, ExchangeError, ExchangeLimits, Framing, HEAD_BYTES_MAX,
    Head, Malformed, Stream, Tls, Url, coded, content_range, request, retry_after,
};
use fathom_load::https::remedy;
use fathom_measure::clock::{monotonic_raw_ns as now_ns, wall_ns};
use fathom_record::{Activity, system_cause};

const ETAG_BYTES_MAX: usize = 256;

/// Why an attempt failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectionFault {
    Stopped,
    /// The connection, or a status that may pass; with the pause that the server asks for.
    Passing(String, Option<Duration>),
    /// The file is another one than before.
    Changed(String),
    /// The server has ranges, but not as they are asked for.
    Ranges(String),
    Final(String),
}

impl ConnectionFault {
    pub fn passing(what: impl std::fmt::Display) -> Self {
        Self::Passing(what.to_string(), None)
    }

    /// A failed system call. A limit of this machine does not pass by itself.
    pub fn of_system(what: &str, error: &std::io::Error) -> Self {
        let cause = system_cause(error, Activity::AnyPort);
        let text = format!("{what}{cause}");
        if cause.is_limit { Self::Final(text) } else { Self::passing(text) }
    }

    /// `what` was waited for.
    pub fn from_error(what: &str, error: ExchangeError) -> Self {
        match error {
            ExchangeError::Stopped => Self::Stopped,
            ExchangeError::TimedOut(limit) => {
                let limit = limit.as_secs_f64();
                Self::passing(format!("no {what} in {limit} s (--timeout)"))
            }
            ExchangeError::Malformed(malformed) => malformed.into(),
            ExchangeError::ClosedInHead => Self::passing("connection closed without a response"),
            ExchangeError::Io(error) => Self::of_system("", &error),
            error @ ExchangeError::Tls(_) => Self::Final(format!("{error}{}", remedy(&error))),
        }
    }
}

impl From<Malformed> for ConnectionFault {
    fn from(malformed: Malformed) -> Self {
        Self::Final(format!("{malformed}; `curl -v` shows all that the server sends"))
    }
}

/// What all connections share.
pub struct ConnectionClient<'c> {
    /// Of the host; the first one that accepts a connection counts.
    pub addresses: Vec<SocketAddr>,
    pub tls: Option<&'c Tls>,
    /// Further fields, each `Name: value`.
    pub fields: Vec<String>,
    pub congestion: Option<&'c str>,
    pub connect_timeout: Duration,
    pub timeout: Duration,
    pub stop: AtomicBool,
    /// Of the first connection.
    pub first: OnceLock<First>,
    /// Whether the file system refused the receive path.
    pub copies: AtomicBool,
    /// Bytes of bodies that were written.
    pub received: AtomicU64,
}

/// How long the parts of the first response took, and what encrypts it.
#[derive(Clone, Debug, Default)]
pub struct First {
    pub connect_ns: u64,
    pub tls_ns: u64,
    /// From the request to the head of the response.
    pub head_ns: u64,
    pub tls: Option<(&'static str, String)>,
}

/// A part of a file with a strong ETag.
#[derive(Clone, Copy, Debug)]
pub struct Range<'r> {
    pub from: u64,
    pub to: u64,
    pub etag: &'r str,
}

pub struct Response {
    pub stream: Stream,
    pub head: Head,
    pub fields: ResponseFields,
    /// What came of the body with the head.
    pub body: Vec<u8>,
    /// Bytes of the file that the body has; all of them, unless it is a part.
    pub range: std::ops::Range<u64>,
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

impl ConnectionClient<'_> {
    fn connect(&self) -> Result<OwnedFd, ConnectionFault> {
        let connector = Connector { congestion: self.congestion, ..Connector::default() };
        let mut last = ConnectionFault::Final("the host has no address".to_owned());
        for to in &self.addresses {
            last = match connector.open(*to, self.connect_timeout, Some(&self.stop)) {
                Ok(socket) => return Ok(socket),
                Err(ConnectError::Stopped) => return Err(ConnectionFault::Stopped),
                Err(ConnectError::Congestion(error)) => {
                    let name = connector.congestion.unwrap_or_default();
                    return Err(ConnectionFault::Final(format!("--congestion {name}: {error}")));
                }
                Err(ConnectError::TimedOut) => {
                    let limit = self.connect_timeout.as_secs_f64();
                    ConnectionFault::passing(format!("connect to {to}: no answer in {limit} s"))
                }
                Err(error) => {
                    ConnectionFault::of_system(&format!("connect to {to}: "), &error.into())
                }
            };
        }
        Err(last)
    }

    /// Sends a request, and reads the head of its response.
    pub fn get(&self, url: &Url, range: Option<Range<'_>>) -> Result<Response, ConnectionFault> {
        let begun_ns = now_ns();
        let socket = self.connect()?;
        let connected_ns = now_ns();
        let agent = concat!("User-Agent: fathom/", env!("CARGO_PKG_VERSION"));
        let own = [agent, "Connection: close", "Accept-Encoding: identity"];
        let range = range.map(|Range { from, to, etag }| {
            format!("Range: bytes={from}-{}\r\nIf-Range: {etag}", to - 1)
        });
        let more = range.iter().chain(&self.fields).map(String::as_str);
        let request = request("GET", &url.path, &url.authority(), own.into_iter().chain(more));
        let limits = self.limits();
        let mut fields = ResponseFields::default();
        let of_head = |error| ConnectionFault::from_error("complete head", error);
        let stream = Stream::new(socket, self.tls).map_err(ExchangeError::from);
        let mut stream = stream.map_err(of_head)?;
        let ready = limits.shake_hands(&mut stream);
        let ready_ns = now_ns();
        let sent = ready.and_then(|()| limits.send(&mut stream, request.as_bytes()));
        let received = sent.and_then(|()| {
            limits.head(&mut stream, &mut [0; HEAD_BYTES_MAX], |status, name, value| {
                if status >= 200 {
                    fields.add(name, value);
                }
            })
        });
        let (head, body) = received.map_err(of_head)?;
        self.first.get_or_init(|| First {
            connect_ns: connected_ns - begun_ns,
            tls_ns: ready_ns - connected_ns,
            head_ns: now_ns() - ready_ns,
            tls: stream.tls_words(),
        });
        Ok(Response { stream, head, fields, body, range: 0..u64::MAX })
    }

    /// Of a head, or of the next byte of a body.
    pub fn limits(&self) -> ExchangeLimits<'_> {
        ExchangeLimits::new(self.timeout, &self.stop)
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
pub fn unsatisfied(response: &Response, asked: Range<'_>) -> ConnectionFault {
    match response.fields.range {
        Some(Ok(ContentRange { length: Some(length), .. })) if length < asked.to => {
            ConnectionFault::Changed(format!("status 416: the file has {length} bytes now"))
        }
        _ => ConnectionFault::Ranges(format!(
            "status 416 (range not satisfiable) for bytes {}-{}",
            asked.from,
            asked.to - 1
        )),
    }
}

/// A status 206 must be of the same file, and begin with the range that was asked for. It may end
/// before it (RFC 9110, 15.3.7).
pub fn check_part(
    response: &mut Response,
    asked: Range<'_>,
    length: Option<u64>,
) -> Result<(), ConnectionFault> {
    let fields = &response.fields;
    match &fields.etag {
        Some(etag) if etag == asked.etag => {}
        Some(_) => return Err(ConnectionFault::Changed("a part has another ETag".to_owned())),
        None => {
            return Err(ConnectionFault::Ranges("a status 206 without its strong ETag".to_owned()));
        }
    }
    let found = match &fields.range {
        Some(Ok(found)) => found,
        Some(Err(malformed)) => return Err(ConnectionFault::Ranges(malformed.to_string())),
        None => {
            return Err(ConnectionFault::Ranges("a status 206 without Content-Range".to_owned()));
        }
    };
    if found.length.is_some() && found.length != length {
        return Err(ConnectionFault::Changed("the file has another length now".to_owned()));
    }
    let range = found.range.clone().unwrap_or_default();
    let has_length = response.head.framing == Framing::Length(range.end - range.start);
    if range.start > asked.from || range.end <= asked.from {
        return Err(ConnectionFault::Ranges(format!(
            "the server sent bytes {}-{} instead of {}-{}",
            range.start,
            range.end.saturating_sub(1),
            asked.from,
            asked.to - 1
        )));
    }
    if !has_length {
        let text = "a status 206 without a Content-Length of its range".to_owned();
        return Err(ConnectionFault::Ranges(text));
    }
    response.range = range.start..range.end.min(asked.to);
    Ok(())
}

/// The target of a redirect, if it is on the same host and port.
pub fn redirected(url: &Url, location: &str) -> Result<Url, String> {
    if location.is_empty() {
        return Err("redirected to nowhere".to_owned());
    }
    let target = url.joined(location);
    let shown = target.as_ref().map(|target| target.origin() + &target.path);
    // Without a password.
    let shown = shown.as_deref().or(location.rsplit('@').next()).unwrap_or_default().chars();
    let shown: String = shown.filter(|c| !c.is_control()).take(300).collect();
    let target = target.ok_or_else(|| {
        format!("redirected to {shown}: no URL of http or https that fathom follows")
    })?;
    match target.has_origin_of(url) {
        true => Ok(target),
        false => Err(format!(
            "redirected to {shown}, which is another host, port or scheme; if you trust it, fetch \
             that URL"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_this_machine_are_not_retried() {
        let (emfile, econnrefused) = (24, 111);
        let of = |errno| ConnectionFault::of_system("", &std::io::Error::from_raw_os_error(errno));
        assert!(matches!(of(emfile), ConnectionFault::Final(_)));
        assert!(matches!(of(econnrefused), ConnectionFault::Passing(..)));
    }

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
        let secure = Url::parse("https://a/x/y").expect("a URL");
        let to_secure = |location| redirected(&secure, location).map(|it| it.origin() + &it.path);
        assert_eq!(to_secure("z").as_deref(), Ok("https://a/x/z"));
        assert_eq!(to_secure("//A:443/z").as_deref(), Ok("https://A/z"));
        assert!(to_secure("http://a:443/z").is_err(), "it would not be encrypted");
        for other in ["http://b:81/", "//b/", "http://a/", "https://a:81/", "ftp://a:81/", ""] {
            assert!(to(other).is_err(), "{other}");
        }
        let hidden = to("http://b/\u{1b}[2J").expect_err("another host");
        assert!(!hidden.contains('\u{1b}'), "{hidden}");
    }
}
