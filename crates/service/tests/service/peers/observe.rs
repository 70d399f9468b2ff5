//! What a server answers to a case, whatever it makes of it.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;

use crate::corpus::CorpusCase;
use crate::gate::GOOD;
use crate::traversal::CANARY;

/// A server that sends nothing for so long waits for more.
const QUIET: Duration = Duration::from_millis(300);
/// Before it is reported that a server waits.
const QUIET_TO_CONFIRM: Duration = Duration::from_secs(2);
/// No answer of the corpus is as long.
const BYTES_MAX: usize = 4 << 20;
const FIELDS_MAX: usize = 64;

/// The answer to a case.
#[derive(Debug)]
pub(super) struct ObserveOutcome {
    replies: Vec<ObserveReply>,
    end: ObserveEnd,
}

#[derive(Debug)]
struct ObserveReply {
    status: u16,
    body: Vec<u8>,
    is_page: bool,
    /// A body after a HEAD, a response without a head, or a head without an end.
    flaw: &'static str,
}

/// What the next request on the connection meets.
#[derive(Clone, Copy, Debug, PartialEq)]
enum ObserveEnd {
    Keep,
    Close,
    /// It is not answered, or not as a request: the server reads it as the rest of the case.
    Wait,
}

impl ObserveOutcome {
    pub(super) fn observe(address: SocketAddr, case: &CorpusCase) -> Self {
        let outcome = Self::within(address, case, QUIET);
        match outcome.end {
            ObserveEnd::Wait => Self::within(address, case, QUIET_TO_CONFIRM),
            _ => outcome,
        }
    }

    fn within(address: SocketAddr, case: &CorpusCase, quiet: Duration) -> Self {
        let mut stream = TcpStream::connect(address).expect("it listens");
        // Thousands of connections would otherwise stay in TIME_WAIT.
        set_socket_linger(&stream, Some(Duration::ZERO)).expect("an option");
        stream.set_nodelay(true).expect("an option");
        stream.set_read_timeout(Some(quiet)).expect("a time-out");
        // A server that refuses early may close before it has read all.
        let _ = stream.write_all(&case.bytes);
        let (arrived, is_closed) = read(&mut stream);
        let is_head = |at: usize| case.replies.get(at).is_some_and(|reply| reply.is_head);
        let replies = parse(&arrived, is_head);
        let end = if is_closed {
            ObserveEnd::Close
        } else {
            let _ = stream.write_all(GOOD.as_bytes());
            let next = parse(&read(&mut stream).0, |_| false);
            match &next[..] {
                [reply] if reply.status == 200 && reply.body == b"good" => ObserveEnd::Keep,
                _ => ObserveEnd::Wait,
            }
        };
        Self { replies, end }
    }

    /// The outcome of an answer after which nothing more comes.
    pub(super) fn read(answer: &[u8]) -> Self {
        Self { replies: parse(answer, |_| false), end: ObserveEnd::Wait }
    }

    /// Whether these are the statuses and the end that the corpus has.
    pub(super) fn is_as_expected(&self, case: &CorpusCase) -> bool {
        let statuses = self.replies.iter().map(|reply| reply.status);
        let end = if case.close { ObserveEnd::Close } else { ObserveEnd::Keep };
        statuses.eq(case.replies.iter().map(|reply| reply.status)) && self.end == end
    }

    /// How often the hidden request was answered.
    pub(super) fn hidden(&self) -> usize {
        self.replies.iter().filter(|reply| reply.body == b"HIDDEN").count()
    }

    /// This outcome and another, as text, if they differ.
    pub(super) fn difference(&self, other: &Self) -> Option<(String, String)> {
        let ours = self.text(None);
        let theirs = other.text(Some(self));
        (ours != theirs).then_some((ours, theirs))
    }

    /// The statuses and the end. Bodies are compared with those of another outcome.
    pub(super) fn text(&self, reference: Option<&Self>) -> String {
        let mut text = String::new();
        let mut references = reference.into_iter().flat_map(|other| &other.replies);
        for reply in &self.replies {
            let reference = if reply.is_interim() { None } else { references.next() };
            text += &reply.text(reference);
            text.push(' ');
        }
        text + match self.end {
            ObserveEnd::Keep => "keep",
            ObserveEnd::Close => "close",
            ObserveEnd::Wait => "wait",
        }
    }
}

impl ObserveReply {
    fn is_interim(&self) -> bool {
        (100..200).contains(&self.status)
    }

    fn text(&self, reference: Option<&Self>) -> String {
        let differs = |other: &Self| {
            let is_content = matches!(self.status, 200 | 206) && self.status == other.status;
            is_content && !self.is_page && !other.is_page && self.body != other.body
        };
        let content = if self.body == b"HIDDEN" {
            ":hidden"
        } else if self.body.windows(CANARY.len()).any(|part| part == CANARY) {
            ":outside"
        } else if reference.is_some_and(differs) {
            ":other"
        } else {
            ""
        };
        match self.status {
            0 => self.flaw.to_owned(),
            status => format!("{status}{content}{}", self.flaw),
        }
    }

    fn flawed(flaw: &'static str) -> Self {
        Self { status: 0, body: Vec::new(), is_page: false, flaw }
    }
}

/// Reads until the server closes or is quiet. Returns whether it closed.
fn read(stream: &mut TcpStream) -> (Vec<u8>, bool) {
    let mut arrived = Vec::new();
    let mut bytes = vec![0; 1 << 16];
    while arrived.len() < BYTES_MAX {
        match stream.read(&mut bytes) {
            Ok(0) => return (arrived, true),
            Ok(read) => arrived.extend_from_slice(&bytes[..read]),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
            // Reset.
            Err(_) => return (arrived, true),
        }
    }
    (arrived, false)
}

fn parse(mut rest: &[u8], is_head: impl Fn(usize) -> bool) -> Vec<ObserveReply> {
    let mut replies: Vec<ObserveReply> = Vec::new();
    // Interim responses do not count.
    let mut at = 0;
    while !rest.is_empty() {
        if !rest.starts_with(b"HTTP/1.") {
            replies.push(ObserveReply::flawed("headless"));
            break;
        }
        let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let mut head = httparse::Response::new(&mut fields);
        let Ok(httparse::Status::Complete(length)) = head.parse(rest) else {
            replies.push(ObserveReply::flawed("malformed"));
            break;
        };
        rest = &rest[length..];
        let status = head.code.unwrap_or_default();
        let field = |name: &str| {
            let mut named =
                head.headers.iter().filter(|field| field.name.eq_ignore_ascii_case(name));
            named.next().map(|field| String::from_utf8_lossy(field.value).into_owned())
        };
        let is_page = field("Content-Type").is_some_and(|kind| kind.starts_with("text/html"));
        let mut reply = ObserveReply { status, body: Vec::new(), is_page, flaw: "" };
        let is_interim = reply.is_interim();
        let of_head = !is_interim && is_head(at);
        let without = is_interim
            || matches!(status, 204 | 304)
            || (of_head && (rest.is_empty() || rest.starts_with(b"HTTP/1.")));
        if !without {
            let is_chunked = field("Transfer-Encoding").is_some_and(|coding| coding == "chunked");
            let length = field("Content-Length").and_then(|text| text.parse::<usize>().ok());
            let used = match length {
                _ if is_chunked => unchunk(rest, &mut reply.body),
                length => length.map_or(rest.len(), |length| length.min(rest.len())),
            };
            if !is_chunked {
                reply.body = rest[..used].to_vec();
            }
            rest = &rest[used..];
            reply.flaw = if of_head { "/body" } else { "" };
        }
        at += usize::from(!is_interim);
        replies.push(reply);
    }
    replies
}

/// Decodes a chunked body without trailers. Returns its length as sent.
fn unchunk(bytes: &[u8], body: &mut Vec<u8>) -> usize {
    let mut used = 0;
    while let Ok(httparse::Status::Complete((line, size))) =
        httparse::parse_chunk_size(&bytes[used..])
    {
        let start = used + line;
        let end = (start + size as usize).min(bytes.len());
        body.extend_from_slice(&bytes[start..end]);
        used = (end + 2).min(bytes.len());
        if size == 0 || used == bytes.len() {
            break;
        }
    }
    used
}
