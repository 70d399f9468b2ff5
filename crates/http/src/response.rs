//! The head of a response and the framing of its body (RFC 9112).

use std::mem::MaybeUninit;

use crate::field::{content_length, list};
use crate::{Chunks, EXCESS, HEAD_BYTES_MAX, Malformed, UNASKED};

/// Of a final response, together with the interim ones before it.
const INTERIM_BYTES_MAX: usize = 64 << 10;
const FIELDS_MAX: usize = 64;

/// How the end of a body is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// With the bytes that are missing.
    Length(u64),
    Chunked(Chunks),
    UntilClose,
}

impl Framing {
    /// Takes received bytes, and passes on what belongs to the body. Whether that is complete.
    ///
    /// # Errors
    /// If a chunk is malformed, or more bytes follow, after the body was passed on.
    pub fn feed_to(&mut self, data: &[u8], mut to: impl FnMut(&[u8])) -> Result<bool, Malformed> {
        match self {
            Self::Length(missing) => {
                let taken = data.len().min(usize::try_from(*missing).unwrap_or(usize::MAX));
                to(&data[..taken]);
                *missing -= taken as u64;
                let has_excess = taken < data.len();
                if has_excess { Err(Malformed::new(EXCESS, b"")) } else { Ok(*missing == 0) }
            }
            Self::Chunked(chunks) => {
                chunks.feed_to(data, to)?;
                Ok(*chunks == Chunks::Done)
            }
            Self::UntilClose => {
                to(data);
                Ok(false)
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    pub status: u16,
    pub framing: Framing,
    /// Whether the server keeps the connection open.
    pub keeps: bool,
    /// Bytes of the head itself.
    pub bytes: usize,
}

/// A head that may arrive in pieces. Bytes are kept only if it does.
#[derive(Debug, Default)]
pub struct PartialHead(Vec<u8>);

impl PartialHead {
    /// The head, and what of `data` follows it; `None` if more is needed. `field`: as of
    /// [`parse_fields`].
    ///
    /// # Errors
    /// If it is malformed or too long.
    pub fn add<'d>(
        &mut self,
        data: &'d [u8],
        field: impl FnMut(u16, &str, &[u8]),
    ) -> Result<Option<(Head, &'d [u8])>, Malformed> {
        let before = self.0.len();
        if before > 0 {
            self.0.extend_from_slice(data);
        }
        let parsed = parse_fields(if before > 0 { &self.0 } else { data }, field)?;
        match parsed {
            Some(_) => self.clear(),
            None if before == 0 => self.0.extend_from_slice(data),
            None => {}
        }
        Ok(parsed.map(|head| (head, &data[head.bytes - before..])))
    }

    /// Whether no byte of it has arrived.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }
}

/// Parses the head of a final response, after any interim ones. `None` if it is incomplete.
pub fn parse(data: &[u8]) -> Result<Option<Head>, Malformed> {
    parse_fields(data, |_, _, _| {})
}

/// As [`parse`]; `field` gets the status, name and value of each field, also of interim responses.
pub fn parse_fields(
    data: &[u8],
    mut field: impl FnMut(u16, &str, &[u8]),
) -> Result<Option<Head>, Malformed> {
    let mut from = 0;
    loop {
        let Some(head) = parse_one(&data[from..], &mut field)? else { return Ok(None) };
        from += head.bytes;
        // Interim responses without an end.
        if from > INTERIM_BYTES_MAX {
            return Err(Malformed::new("interim responses above 64 KiB", b""));
        }
        // After 101 follows another protocol.
        if head.status == 101 || !(100..200).contains(&head.status) {
            return Ok(Some(Head { bytes: from, ..head }));
        }
    }
}

fn parse_one(
    data: &[u8],
    each: &mut impl FnMut(u16, &str, &[u8]),
) -> Result<Option<Head>, Malformed> {
    let mut fields = [const { MaybeUninit::uninit() }; FIELDS_MAX];
    let mut response = httparse::Response::new(&mut []);
    let parsed = httparse::ParserConfig::default()
        .parse_response_with_uninit_headers(&mut response, data, &mut fields)
        .map_err(|error| malformed_line(data, error))?;
    let httparse::Status::Complete(bytes) = parsed else {
        let is_short = data.len() <= HEAD_BYTES_MAX;
        return if is_short { Ok(None) } else { Err(Malformed::new("head above 16 KiB", b"")) };
    };
    let status = response.code.unwrap_or(0);
    let (mut closes, mut keeps) = (false, response.version == Some(1));
    let (mut length, mut chunked) = (None, false);
    for field in response.headers.iter() {
        each(status, field.name, field.value);
        match field.name.len() {
            14 if field.name.eq_ignore_ascii_case("content-length") => {
                let found = content_length(field.value)
                    .filter(|found| length.is_none_or(|length| length == *found));
                let wrong = || Malformed::new("Content-Length", field.value);
                length = Some(found.ok_or_else(wrong)?);
            }
            17 if field.name.eq_ignore_ascii_case("transfer-encoding") => {
                for coding in list(field.value) {
                    let is_chunked = coding.eq_ignore_ascii_case(b"chunked");
                    if chunked || !is_chunked {
                        let part = if is_chunked { "Transfer-Encoding" } else { UNASKED };
                        return Err(Malformed::new(part, field.value));
                    }
                    chunked = true;
                }
            }
            10 if field.name.eq_ignore_ascii_case("connection") => {
                for option in list(field.value) {
                    closes |= option.eq_ignore_ascii_case(b"close");
                    keeps |= option.eq_ignore_ascii_case(b"keep-alive");
                }
            }
            _ => {}
        }
    }
    let framing = match (status, chunked, length) {
        (100..200 | 204 | 304, ..) => Framing::Length(0),
        // It overrides a length, and a second reader may have gone by that: no further response is
        // read from the connection (RFC 9112 6.3).
        (_, true, length) => {
            closes |= length.is_some();
            Framing::Chunked(Chunks::default())
        }
        (_, false, Some(length)) => Framing::Length(length),
        (_, false, None) => Framing::UntilClose,
    };
    let keeps = keeps && !closes && framing != Framing::UntilClose;
    Ok(Some(Head { status, framing, keeps, bytes }))
}

/// The first line that cannot be parsed.
fn malformed_line(data: &[u8], error: httparse::Error) -> Malformed {
    if error == httparse::Error::TooManyHeaders {
        return Malformed::new("more than 64 fields", b"");
    }
    // An alert of TLS 1.0 to 1.3, or the first frame of HTTP/2.
    if let [0x15, 0x03, ..=0x04, ..] = data {
        return Malformed::new("a TLS alert: the server expects https://", b"");
    }
    if let [0, 0, _, 0x04, ..] = data {
        return Malformed::new("a frame of HTTP/2, which is not supported", b"");
    }
    let mut from = 0;
    for line in data.split_inclusive(|&byte| byte == b'\n') {
        let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let to = from + line.len();
        if httparse::Response::new(&mut fields).parse(&data[..to]).is_err() {
            let part = if from == 0 { "status line" } else { "field line" };
            return Malformed::new(part, line);
        }
        from = to;
    }
    Malformed::new("status line", data)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framing(head: &str) -> Result<Option<Framing>, Malformed> {
        Ok(parse(head.as_bytes())?.map(|head| head.framing))
    }

    #[test]
    fn framing_follows_the_fields() {
        for (head, expected) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n", Framing::Length(12)),
            ("HTTP/1.1 204 No\r\n\r\n", Framing::Length(0)),
            ("HTTP/1.1 200 OK\r\n\r\n", Framing::UntilClose),
            (
                "HTTP/1.1 200 OK\r\ntransfer-ENCODING: chunked\r\n\r\n",
                Framing::Chunked(Chunks::default()),
            ),
            ("HTTP/1.1 200 OK\r\nContent-Length: 7, 7\r\n\r\n", Framing::Length(7)),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 7\r\nTransfer-Encoding: chunked\r\n\r\n",
                Framing::Chunked(Chunks::default()),
            ),
            ("HTTP/1.1 101 x\r\nUpgrade: y\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", Framing::Length(0)),
            (
                "HTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\n",
                Framing::Length(7),
            ),
        ] {
            assert_eq!(framing(head), Ok(Some(expected)), "{head}");
        }
        assert_eq!(framing("HTTP/1.1 200 OK\r\nContent-Le"), Ok(None));
    }

    #[test]
    fn body_is_passed_on_up_to_its_end() {
        let chunked = Framing::Chunked(Chunks::default());
        for (mut framing, data, body, end) in [
            (Framing::Length(5), "01234", "01234", Ok(true)),
            (Framing::Length(6), "01234", "01234", Ok(false)),
            (Framing::Length(4), "01234", "0123", Err(EXCESS)),
            (chunked, "3\r\nabc\r\n0\r\n\r\n", "abc", Ok(true)),
            (chunked, "3\r\nabc\r\n0\r\n\r\nx", "abc", Err(EXCESS)),
            (Framing::UntilClose, "01234", "01234", Ok(false)),
        ] {
            let (what, mut passed) = (format!("{framing:?} {data}"), Vec::new());
            let fed = framing.feed_to(data.as_bytes(), |part| passed.extend_from_slice(part));
            assert_eq!((&passed[..], fed.map_err(|it| it.part)), (body.as_bytes(), end), "{what}");
        }
    }

    #[test]
    fn malformed_heads_name_the_field() {
        let names = |head: &str| parse(head.as_bytes()).unwrap_err().to_string();
        for (fields, name) in [
            ("Content-Length: 1\r\nContent-Length: 2", "Content-Length: 2"),
            ("Content-Length: 1, 2", "Content-Length: 1, 2"),
            ("Content-Length: +1", "Content-Length: +1"),
            ("Content-Length: 12abc", "Content-Length: 12abc"),
            (
                "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
                "Transfer-Encoding: chunked",
            ),
            ("X: y\r\nno colon\x1b", "field line: no colon\\x1b"),
            (&"X: y\r\n".repeat(65), "more than 64 fields"),
        ] {
            let head = format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n");
            assert_eq!(names(&head), format!("malformed response: {name}"), "{fields}");
        }
        let coded = "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n";
        let why = "the server sends Transfer-Encoding: gzip, chunked, which was not asked for";
        assert_eq!(names(coded), why);
        let line = "malformed response: status line: no response at all";
        assert_eq!(names("no response at all\r\n\r\n"), line);
        for (data, name) in [
            (&b"\x15\x03\x01\x00\x02\x02\x46"[..], "a TLS alert: the server expects https://"),
            (b"\0\0\x12\x04\0\0\0\0\0", "a frame of HTTP/2, which is not supported"),
        ] {
            let text = parse(data).unwrap_err().to_string();
            assert_eq!(text, format!("malformed response: {name}"));
        }
        let line = "malformed response: status line: HTTP/2 200";
        assert_eq!(names("HTTP/2 200\r\n\r\n"), line);
        for (endless, name) in [
            (format!("HTTP/1.1 200 OK\r\nX: {}", "x".repeat(HEAD_BYTES_MAX)), "head above 16 KiB"),
            ("HTTP/1.1 100 x\r\n\r\n".repeat(4000), "interim responses above 64 KiB"),
        ] {
            assert_eq!(names(&endless), format!("malformed response: {name}"));
        }
    }

    #[test]
    fn connection_is_kept_by_version_and_fields() {
        for (head, keeps) in [
            ("1.1 200 OK\r\nContent-Length: 1", true),
            ("1.0 200 OK\r\nContent-Length: 1", false),
            ("1.1 200 OK\r\nConnection: Close\r\nContent-Length: 1", false),
            ("1.1 200 OK\r\nConnection: close, TE\r\nContent-Length: 1", false),
            ("1.1 200 OK\r\nConnection: TE,\tclose\r\nContent-Length: 1", false),
            ("1.1 200 OK\r\nConnection: closed\r\nContent-Length: 1", true),
            ("1.0 200 OK\r\nConnection: TE, keep-alive\r\nContent-Length: 1", true),
            (
                "1.1 200 OK\r\nConnection: close\r\nConnection: keep-alive\r\nContent-Length: 1",
                false,
            ),
            ("1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 1", false),
            ("1.1 200 OK\r\nTransfer-Encoding: chunked", true),
            // Ends with the connection.
            ("1.1 200 OK", false),
        ] {
            let found = parse(format!("HTTP/{head}\r\n\r\n").as_bytes()).unwrap().unwrap();
            assert_eq!(found.keeps, keeps, "{head}");
        }
    }
}
