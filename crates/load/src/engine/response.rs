//! The head of a response and the framing of its body (RFC 9112).

use std::mem::MaybeUninit;

use super::Fault;

/// Longest head that is accepted.
pub const HEAD_BYTES_MAX: usize = 16 << 10;
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    pub status: u16,
    pub framing: Framing,
    /// Whether the server keeps the connection open.
    pub keeps: bool,
    /// Bytes of the head itself.
    pub bytes: usize,
}

/// Parses the head of a final response, after any interim ones. `None` if it is incomplete.
pub(crate) fn parse(data: &[u8]) -> Result<Option<Head>, Fault> {
    parse_fields(data, |_, _, _| {})
}

/// As [`parse`]; `field` gets the status, name and value of each field, also of interim responses.
pub fn parse_fields(
    data: &[u8],
    mut field: impl FnMut(u16, &str, &[u8]),
) -> Result<Option<Head>, Fault> {
    let mut from = 0;
    loop {
        let Some(head) = parse_one(&data[from..], &mut field)? else { return Ok(None) };
        from += head.bytes;
        // Interim responses without an end.
        if from > INTERIM_BYTES_MAX {
            return Err(Fault::BadResponse);
        }
        if !(100..200).contains(&head.status) {
            return Ok(Some(Head { bytes: from, ..head }));
        }
    }
}

/// Status, and bytes of the head and of the body of a response with a Content-Length. `None` if its
/// head is incomplete.
///
/// # Errors
/// If it is malformed, or its length is unknown.
pub fn lengths(data: &[u8]) -> Result<Option<(u16, usize, u64)>, Fault> {
    match parse(data)? {
        None => Ok(None),
        Some(Head { status, bytes, framing: Framing::Length(body), .. }) => {
            Ok(Some((status, bytes, body)))
        }
        Some(_) => Err(Fault::BadResponse),
    }
}

fn parse_one(data: &[u8], each: &mut impl FnMut(u16, &str, &[u8])) -> Result<Option<Head>, Fault> {
    let mut fields = [const { MaybeUninit::uninit() }; FIELDS_MAX];
    let mut response = httparse::Response::new(&mut []);
    let status = httparse::ParserConfig::default()
        .parse_response_with_uninit_headers(&mut response, data, &mut fields)
        .map_err(|_| Fault::BadResponse)?;
    let httparse::Status::Complete(bytes) = status else {
        return if data.len() > HEAD_BYTES_MAX { Err(Fault::BadResponse) } else { Ok(None) };
    };
    let status = response.code.unwrap_or(0);
    let mut keeps = response.version == Some(1);
    let (mut length, mut chunked) = (None, false);
    for field in response.headers.iter() {
        each(status, field.name, field.value);
        match field.name.len() {
            14 if field.name.eq_ignore_ascii_case("content-length") => {
                let found = number(field.value).ok_or(Fault::BadResponse)?;
                if length.is_some_and(|length| length != found) {
                    return Err(Fault::BadResponse);
                }
                length = Some(found);
            }
            17 if field.name.eq_ignore_ascii_case("transfer-encoding") => {
                if !field.value.eq_ignore_ascii_case(b"chunked") {
                    return Err(Fault::BadResponse);
                }
                chunked = true;
            }
            10 if field.name.eq_ignore_ascii_case("connection") => {
                if field.value.eq_ignore_ascii_case(b"close") {
                    keeps = false;
                } else if field.value.eq_ignore_ascii_case(b"keep-alive") {
                    keeps = true;
                }
            }
            _ => {}
        }
    }
    let framing = match (status, chunked, length) {
        (100..200 | 204 | 304, ..) => Framing::Length(0),
        // Both would allow a second reading of the same bytes.
        (_, true, Some(_)) => return Err(Fault::BadResponse),
        (_, true, None) => Framing::Chunked(Chunks::default()),
        (_, false, Some(length)) => Framing::Length(length),
        (_, false, None) => Framing::UntilClose,
    };
    let keeps = keeps && framing != Framing::UntilClose;
    Ok(Some(Head { status, framing, keeps, bytes }))
}

/// Digits only: a sign or blanks are an error.
fn number(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// Position in a chunked body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chunks {
    /// In the line with the size; `true` after its digits.
    Size(u64, bool),
    /// In the data, with the bytes that are missing.
    Data(u64),
    /// After the data, before the end of the line.
    DataEnd,
    /// In the trailer, with the characters of its present line.
    Trailer(u32),
    Done,
}

impl Default for Chunks {
    fn default() -> Self {
        Self::Size(0, false)
    }
}

impl Chunks {
    /// Reads from `data`; returns how many bytes of it belong to the body.
    pub(crate) fn feed(&mut self, data: &[u8]) -> Result<u64, Fault> {
        let mut body = 0;
        self.feed_to(data, |part| body += part.len() as u64)?;
        Ok(body)
    }

    /// Reads from `data`, and passes on what belongs to the body.
    pub fn feed_to(&mut self, data: &[u8], mut to: impl FnMut(&[u8])) -> Result<(), Fault> {
        let mut at = 0;
        while at < data.len() {
            if let Self::Data(missing) = *self {
                let taken = missing.min((data.len() - at) as u64);
                to(&data[at..at + taken as usize]);
                at += taken as usize;
                *self = if taken == missing { Self::DataEnd } else { Self::Data(missing - taken) };
                continue;
            }
            *self = self.after(data[at])?;
            at += 1;
        }
        Ok(())
    }

    /// The position after a byte that is not data.
    fn after(self, byte: u8) -> Result<Self, Fault> {
        Ok(match (self, byte) {
            (Self::Size(0, _), b'\n') => Self::Trailer(0),
            (Self::Size(size, _), b'\n') => Self::Data(size),
            (Self::Size(size, false), byte) => match char::from(byte).to_digit(16) {
                Some(digit) if size < 1 << 56 => Self::Size(16 * size + u64::from(digit), false),
                None if b"\r; \t".contains(&byte) => Self::Size(size, true),
                _ => return Err(Fault::BadResponse),
            },
            (Self::Size(size, true), _) => Self::Size(size, true),
            (Self::DataEnd, b'\r') => Self::DataEnd,
            (Self::DataEnd, b'\n') => Self::default(),
            (Self::Trailer(0), b'\n') => Self::Done,
            (Self::Trailer(_), b'\n') => Self::Trailer(0),
            (Self::Trailer(count), b'\r') => Self::Trailer(count),
            (Self::Trailer(count), _) => Self::Trailer(count.saturating_add(1)),
            // Bytes after the end, or data where none may be.
            (Self::Done | Self::DataEnd | Self::Data(_), _) => return Err(Fault::BadResponse),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framing(head: &str) -> Result<Option<Framing>, Fault> {
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
    fn ambiguous_or_malformed_heads_are_refused() {
        for fields in [
            "Content-Length: 1\r\nContent-Length: 2",
            "Content-Length: +1",
            "Content-Length: 1\r\nTransfer-Encoding: chunked",
            "Transfer-Encoding: gzip, chunked",
        ] {
            let head = format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n");
            assert_eq!(framing(&head), Err(Fault::BadResponse), "{fields}");
        }
        assert_eq!(framing("no response at all\r\n\r\n"), Err(Fault::BadResponse));
        let endless = format!("HTTP/1.1 200 OK\r\nX: {}", "x".repeat(HEAD_BYTES_MAX));
        assert_eq!(framing(&endless), Err(Fault::BadResponse));
    }

    #[test]
    fn connection_is_kept_by_version_and_field() {
        let keeps = |head: &str| parse(head.as_bytes()).unwrap().unwrap().keeps;
        assert!(keeps("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n"));
        assert!(!keeps("HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\n"));
        assert!(!keeps("HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 1\r\n\r\n"));
        assert!(keeps("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\n"));
        assert!(!keeps("HTTP/1.1 200 OK\r\n\r\n"), "ends with the connection");
    }

    #[test]
    fn chunks_are_read_in_pieces_of_any_size() {
        let body = b"4\r\nabcd\r\nA;name=x\r\n0123456789\r\n0\r\nTrailer: 1\r\n\r\n";
        for piece in 1..=body.len() {
            let mut chunks = Chunks::default();
            let bytes: u64 = body.chunks(piece).map(|part| chunks.feed(part).unwrap()).sum();
            assert_eq!((bytes, chunks), (14, Chunks::Done), "pieces of {piece}");
            assert_eq!(chunks.feed(b"x"), Err(Fault::BadResponse), "after the end");
        }
        assert_eq!(Chunks::default().feed(b"g\r\n"), Err(Fault::BadResponse));
        assert_eq!(Chunks::default().feed(b"1\r\nab"), Err(Fault::BadResponse));
    }
}
