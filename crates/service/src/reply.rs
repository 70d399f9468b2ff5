//! The head of a response.

use std::fmt::Display;
use std::io::Write as _;
use std::ops::Range;
use std::time::{Duration, UNIX_EPOCH};

use httpdate::HttpDate;

use crate::selection::Version;

/// The status line and the fields of a response.
#[derive(Clone, Debug)]
pub(crate) struct Reply<'r> {
    pub(crate) status: u16,
    /// Of the body; 304 has none.
    pub(crate) length: u64,
    pub(crate) media: &'static str,
    pub(crate) version: Option<&'r Version>,
    pub(crate) part: Option<Range<u64>>,
    pub(crate) location: Option<&'r str>,
    pub(crate) allow: Option<&'static str>,
    pub(crate) connection: ReplyConnection,
}

/// What is said about the connection: nothing where the version's default holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplyConnection {
    Default,
    Close,
    KeepAlive,
}

impl Reply<'_> {
    pub(crate) fn write(&self, out: &mut Vec<u8>, date: &Date) {
        out.clear();
        out.extend_from_slice(b"HTTP/1.1 ");
        out.extend_from_slice(line(self.status).as_bytes());
        out.extend_from_slice(b"\r\nServer: fathom\r\nDate: ");
        out.extend_from_slice(&date.text);
        if self.status != 304 {
            field(out, "Content-Length", self.length);
            out.extend_from_slice(b"\r\nContent-Type: ");
            out.extend_from_slice(self.media.as_bytes());
        }
        if let Some(version) = self.version {
            self.validators(out, version);
        } else {
            out.extend_from_slice(b"\r\nCache-Control: no-store");
        }
        if self.status == 401 {
            out.extend_from_slice(b"\r\nWWW-Authenticate: Bearer");
        }
        if self.status == 503 {
            out.extend_from_slice(b"\r\nRetry-After: 1");
        }
        if let Some(methods) = self.allow {
            field(out, "Allow", methods);
        }
        if let Some(location) = self.location {
            field(out, "Location", location);
        }
        if self.status == 426 {
            field(out, "Upgrade", fathom_far::UPGRADE);
        }
        match (self.connection, self.status) {
            // Upgrade is a field of this connection only (RFC 9110, 7.8).
            (ReplyConnection::Close, 426) => field(out, "Connection", "Upgrade, close"),
            (_, 426) => field(out, "Connection", "Upgrade"),
            (ReplyConnection::Default, _) => {}
            (ReplyConnection::Close, _) => field(out, "Connection", "close"),
            (ReplyConnection::KeepAlive, _) => field(out, "Connection", "keep-alive"),
        }
        out.extend_from_slice(b"\r\n\r\n");
    }

    fn validators(&self, out: &mut Vec<u8>, version: &Version) {
        out.extend_from_slice(if version.is_strong { b"\r\nETag: " } else { b"\r\nETag: W/" });
        out.extend_from_slice(version.etag.as_bytes());
        field(out, "Last-Modified", HttpDate::from(version.modified));
        out.extend_from_slice(b"\r\nAccept-Ranges: bytes");
        let all = version.bytes;
        match &self.part {
            Some(part) => {
                let (first, last) = (part.start, part.end.saturating_sub(1));
                field(out, "Content-Range", format_args!("bytes {first}-{last}/{all}"));
            }
            None if self.status == 416 => {
                field(out, "Content-Range", format_args!("bytes */{all}"));
            }
            None => {}
        }
    }
}

fn field(out: &mut Vec<u8>, name: &str, value: impl Display) {
    // Writing to a Vec cannot fail.
    let _ = write!(out, "\r\n{name}: {value}");
}

/// The status with its reason phrase.
fn line(status: u16) -> &'static str {
    match status {
        200 => "200 OK",
        206 => "206 Partial Content",
        301 => "301 Moved Permanently",
        304 => "304 Not Modified",
        400 => "400 Bad Request",
        401 => "401 Unauthorized",
        403 => "403 Forbidden",
        404 => "404 Not Found",
        405 => "405 Method Not Allowed",
        408 => "408 Request Timeout",
        411 => "411 Length Required",
        412 => "412 Precondition Failed",
        414 => "414 URI Too Long",
        416 => "416 Range Not Satisfiable",
        417 => "417 Expectation Failed",
        426 => "426 Upgrade Required",
        431 => "431 Request Header Fields Too Large",
        501 => "501 Not Implemented",
        503 => "503 Service Unavailable",
        505 => "505 HTTP Version Not Supported",
        _ => "500 Internal Server Error",
    }
}

/// The current date, formatted once a second.
#[derive(Clone, Debug, Default)]
pub(crate) struct Date {
    pub(crate) wall_ns: u64,
    second: u64,
    text: Vec<u8>,
}

impl Date {
    pub(crate) fn set(&mut self, wall_ns: u64) {
        self.wall_ns = wall_ns;
        let second = wall_ns / 1_000_000_000;
        if second != self.second || self.text.is_empty() {
            self.second = second;
            let time = UNIX_EPOCH + Duration::from_secs(second);
            self.text = httpdate::fmt_http_date(time).into_bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_has_the_fields_of_its_status() {
        let mut date = Date::default();
        date.set(784_111_777_000_000_000);
        let modified = UNIX_EPOCH + Duration::from_secs(1);
        let version = Version { bytes: 10, etag: "\"e\"".to_owned(), is_strong: true, modified };
        let mut out = b"old".to_vec();
        let reply = Reply {
            status: 206,
            length: 2,
            media: "text/css",
            version: Some(&version),
            part: Some(3..5),
            location: None,
            allow: None,
            connection: ReplyConnection::Close,
        };
        reply.write(&mut out, &date);
        let expected = "HTTP/1.1 206 Partial Content\r\nServer: fathom\r\n\
            Date: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Length: 2\r\nContent-Type: text/css\r\n\
            ETag: \"e\"\r\nLast-Modified: Thu, 01 Jan 1970 00:00:01 GMT\r\n\
            Accept-Ranges: bytes\r\nContent-Range: bytes 3-4/10\r\nConnection: close\r\n\r\n";
        assert_eq!(String::from_utf8(out.clone()).unwrap(), expected);
        Reply { status: 416, part: None, ..reply.clone() }.write(&mut out, &date);
        let head = String::from_utf8(out.clone()).unwrap();
        assert!(head.contains("\r\nContent-Range: bytes */10\r\n"), "{head}");
        let upgrade = Reply { status: 426, version: None, part: None, ..reply.clone() };
        upgrade.write(&mut out, &date);
        let head = String::from_utf8_lossy(&out);
        let fields = "\r\nUpgrade: fathom-far/1\r\nConnection: Upgrade, close\r\n\r\n";
        assert!(head.ends_with(fields), "{head}");
        let young = Version { is_strong: false, ..version.clone() };
        Reply { version: Some(&young), ..reply.clone() }.write(&mut out, &date);
        assert!(String::from_utf8_lossy(&out).contains("\r\nETag: W/\"e\"\r\n"));
        Reply { status: 304, part: None, ..reply }.write(&mut out, &date);
        let head = String::from_utf8(out).unwrap();
        assert!(!head.contains("Content-Length") && head.contains("ETag"), "{head}");
    }
}
