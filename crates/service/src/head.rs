//! The head of a request: its end is found incrementally, then it is checked and parsed once.
//!
//! Whatever another server or proxy could read differently is refused, and the connection closed:
//! bare CR or LF, NUL, folded lines, duplicate fields, a body where none is expected.

use std::net::Ipv6Addr;

use fathom_http::{list, number};

use crate::refusal::{Refusal, Refused};
use crate::target::are_escapes_valid;

/// Room on the stack.
const FIELDS_HARD_MAX: usize = 256;

/// How far a head has been scanned, so that bytes are looked at once however they arrive.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Scan {
    at: usize,
    line: usize,
}

impl Scan {
    /// The length of the head at the beginning of `bytes`, which has what arrived so far.
    pub(crate) fn end(&mut self, bytes: &[u8], max: usize) -> Result<Option<usize>, Refused> {
        let mut before = self.at.checked_sub(1).map_or(0, |at| bytes[at]);
        for (at, &byte) in bytes.iter().enumerate().skip(self.at) {
            if at >= max {
                let is_first = self.line == 0 || (self.line == 2 && bytes[0] == b'\r');
                return Err(if is_first { Refusal::LongTarget } else { Refusal::LargeHead }.close());
            }
            match byte {
                b'\n' if before != b'\r' => return Err(Refusal::BareLineFeed.close()),
                b'\n' => {
                    let is_blank = at - self.line == 1;
                    if is_blank && self.line > 0 {
                        let is_second = self.line == 2 && bytes[0] == b'\r';
                        let end = at + 1;
                        return if is_second {
                            Err(Refusal::BlankLines.close())
                        } else {
                            Ok(Some(end))
                        };
                    }
                    self.line = at + 1;
                }
                0 => return Err(Refusal::Nul.close()),
                _ if before == b'\r' => return Err(Refusal::BareCarriageReturn.close()),
                _ => {}
            }
            before = byte;
        }
        self.at = bytes.len();
        Ok(None)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Get,
    Head,
    Post,
    /// Known, and allowed for no resource.
    Other,
}

/// A request that passed the gate. Its fields are not interpreted yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeadRequest<'h> {
    pub(crate) method: Method,
    pub(crate) target: &'h str,
    pub(crate) is_http_1_0: bool,
    /// Whether the connection ends after the response.
    pub(crate) close: bool,
    /// Whether Connection names Upgrade.
    pub(crate) upgrades: bool,
    pub(crate) content_length: Option<u64>,
    pub(crate) fields: HeadFields<'h>,
}

/// Fields that may occur once.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HeadFields<'h> {
    pub(crate) host: Option<&'h [u8]>,
    pub(crate) origin: Option<&'h [u8]>,
    pub(crate) authorization: Option<&'h [u8]>,
    pub(crate) conditions: HeadConditions<&'h [u8]>,
    pub(crate) content_length: Option<&'h [u8]>,
    pub(crate) expect: Option<&'h [u8]>,
    pub(crate) upgrade: Option<&'h [u8]>,
    pub(crate) dose: Option<&'h [u8]>,
}

/// Fields that decide which part of a file answers the request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HeadConditions<B> {
    pub(crate) range: Option<B>,
    pub(crate) if_range: Option<B>,
    pub(crate) if_match: Option<B>,
    pub(crate) if_none_match: Option<B>,
    pub(crate) if_modified_since: Option<B>,
    pub(crate) if_unmodified_since: Option<B>,
}

impl<B: AsRef<[u8]>> HeadConditions<B> {
    /// Borrows them, or copies them out of their head.
    pub(crate) fn map<'s, T>(&'s self, to: impl Fn(&'s [u8]) -> T) -> HeadConditions<T> {
        let to = |field: &'s Option<B>| field.as_ref().map(|value| to(value.as_ref()));
        HeadConditions {
            range: to(&self.range),
            if_range: to(&self.if_range),
            if_match: to(&self.if_match),
            if_none_match: to(&self.if_none_match),
            if_modified_since: to(&self.if_modified_since),
            if_unmodified_since: to(&self.if_unmodified_since),
        }
    }
}

impl<'h> HeadFields<'h> {
    /// The slot of a field that is read, by its name.
    fn slot(&mut self, name: &str) -> Option<&mut Option<&'h [u8]>> {
        let slots: [(&str, &mut Option<&'h [u8]>); 13] = [
            ("host", &mut self.host),
            ("origin", &mut self.origin),
            ("authorization", &mut self.authorization),
            ("range", &mut self.conditions.range),
            ("if-range", &mut self.conditions.if_range),
            ("if-match", &mut self.conditions.if_match),
            ("if-none-match", &mut self.conditions.if_none_match),
            ("if-modified-since", &mut self.conditions.if_modified_since),
            ("if-unmodified-since", &mut self.conditions.if_unmodified_since),
            ("content-length", &mut self.content_length),
            ("expect", &mut self.expect),
            ("upgrade", &mut self.upgrade),
            ("fathom-dose", &mut self.dose),
        ];
        let found = slots.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, slot)| slot)
    }
}

/// Parses a complete head with at most `fields_max` fields.
pub(crate) fn parse(head: &[u8], fields_max: usize) -> Result<HeadRequest<'_>, Refused> {
    let mut room = [const { std::mem::MaybeUninit::uninit() }; FIELDS_HARD_MAX];
    let mut parsed = httparse::Request::new(&mut []);
    let room = &mut room[..fields_max.min(FIELDS_HARD_MAX)];
    match parsed.parse_with_uninit_headers(head, room) {
        Ok(httparse::Status::Complete(_)) => {}
        // The end was found before, so that the parser and this gate read it differently.
        Ok(httparse::Status::Partial) => return Err(Refusal::Syntax.close()),
        Err(httparse::Error::TooManyHeaders) => return Err(Refusal::ManyFields.close()),
        Err(httparse::Error::Version) => return Err(version(head).close()),
        Err(_) => return Err(Refusal::Syntax.close()),
    }
    let target = parsed.path.unwrap_or_default();
    if !target.starts_with('/') || target.bytes().any(|b| !b.is_ascii_graphic() || b == b'#') {
        return Err(Refusal::Target.close());
    }
    let is_http_1_0 = parsed.version == Some(0);
    let mut fields = HeadFields::default();
    let (mut close, mut keep_alive, mut upgrades) = (false, false, false);
    let mut codings = None;
    for field in parsed.headers.iter() {
        if field.name.eq_ignore_ascii_case("connection") {
            let has = |word: &[u8]| list(field.value).any(|one| one.eq_ignore_ascii_case(word));
            keep_alive |= has(b"keep-alive");
            // HTTP/1.0 has no Upgrade.
            upgrades |= !is_http_1_0 && has(b"upgrade");
            close |= has(b"close");
        } else if field.name.eq_ignore_ascii_case("transfer-encoding") {
            codings = Some(field.value);
        } else if let Some(slot) = fields.slot(field.name)
            && slot.replace(field.value).is_some()
        {
            return Err(Refusal::Duplicate.close());
        }
    }
    check_host(fields.host, is_http_1_0)?;
    // Before the length, which it overrides.
    if let Some(codings) = codings {
        let last = codings.rsplit(|&b| b == b',').next().unwrap_or_default().trim_ascii();
        let is_chunked = last.eq_ignore_ascii_case(b"chunked");
        let refusal = if is_chunked { Refusal::TransferEncoding } else { Refusal::Coding };
        return Err(refusal.close());
    }
    let length = |value| number(value).ok_or(Refusal::ContentLength.close());
    let content_length = fields.content_length.map(length).transpose()?;
    if fields.expect.is_some_and(|value| !value.eq_ignore_ascii_case(b"100-continue")) {
        return Err(Refusal::Expectation.close());
    }
    let method = method(parsed.method.unwrap_or_default(), content_length)?;
    // The bodies of other methods are not read.
    let close = close || (is_http_1_0 && !keep_alive) || method == Method::Other;
    Ok(HeadRequest { method, target, is_http_1_0, close, upgrades, content_length, fields })
}

fn check_host(host: Option<&[u8]>, is_http_1_0: bool) -> Result<(), Refused> {
    match host {
        None if is_http_1_0 => Ok(()),
        Some(host) if std::str::from_utf8(host).is_ok_and(is_host) => Ok(()),
        _ => Err(Refusal::Host.close()),
    }
}

/// `uri-host [ ":" port ]` (RFC 9110, 7.2), and not empty.
fn is_host(host: &str) -> bool {
    let (name, port) = split_port(host);
    let is_allowed = |b: u8| b.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=".contains(&b);
    let is_name = match name.strip_prefix('[').map(|rest| rest.strip_suffix(']')) {
        Some(address) => address.is_some_and(|address| address.parse::<Ipv6Addr>().is_ok()),
        None => !name.is_empty() && name.bytes().all(is_allowed) && are_escapes_valid(name),
    };
    is_name && port.bytes().all(|b| b.is_ascii_digit())
}

/// Name and port of a host; the port is empty if there is none.
pub(crate) fn split_port(host: &str) -> (&str, &str) {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name, port),
        _ => (host, ""),
    }
}

/// Another version of HTTP, or no version at all.
fn version(head: &[u8]) -> Refusal {
    let head = head.strip_prefix(b"\r\n").unwrap_or(head);
    let line = head.split(|&b| b == b'\r').next().unwrap_or_default();
    let third = line.splitn(3, |&b| b == b' ').nth(2).unwrap_or_default();
    match third.strip_prefix(b"HTTP/") {
        Some([major, b'.', minor]) if major.is_ascii_digit() && minor.is_ascii_digit() => {
            Refusal::Version
        }
        _ => Refusal::Syntax,
    }
}

fn method(name: &str, content_length: Option<u64>) -> Result<Method, Refused> {
    let has_body = content_length.is_some_and(|length| length > 0);
    let method = match name {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        "POST" => Method::Post,
        "PUT" | "DELETE" | "OPTIONS" | "PATCH" | "TRACE" | "CONNECT" => return Ok(Method::Other),
        _ => return Err(Refusal::UnknownMethod.close()),
    };
    if has_body { Err(Refusal::Body.close()) } else { Ok(method) }
}

#[cfg(test)]
mod tests;
