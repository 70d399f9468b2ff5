//! Chunked bodies (RFC 9112 7.1).

use crate::{EXCESS, HEAD_BYTES_MAX, Malformed};

/// Longest line with a size: its extensions are ignored.
const LINE_BYTES_MAX: u16 = 4 << 10;
const LONG_LINE: &str = "chunk line above 4 KiB";
const BARE: &str = "chunk line without CRLF";
const LONG_TRAILER: &str = "trailer above 16 KiB";

/// Position in a chunked body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chunks {
    /// In the digits of a size, with its value and their number.
    Size(u64, u16),
    /// After the digits, with the value and the characters of the line.
    Extension(u64, u16),
    /// After the carriage return of a line with a size.
    SizeLineFeed(u64),
    /// In the data, with the bytes that are missing.
    Data(u64),
    /// After the data, before the end of the line.
    DataEnd,
    DataLineFeed,
    /// In the trailer, with the characters of its present line, and of all.
    Trailer(u16, u16),
    /// After a carriage return in the trailer.
    TrailerLineFeed(u16, u16),
    Done,
}

impl Default for Chunks {
    fn default() -> Self {
        Self::Size(0, 0)
    }
}

impl Chunks {
    /// Reads from `data`, and passes on what belongs to the body.
    pub fn feed_to(&mut self, data: &[u8], mut to: impl FnMut(&[u8])) -> Result<(), Malformed> {
        let mut at = 0;
        while at < data.len() {
            if let Self::Data(missing) = *self {
                let taken = missing.min((data.len() - at) as u64);
                to(&data[at..at + taken as usize]);
                at += taken as usize;
                *self = if taken == missing { Self::DataEnd } else { Self::Data(missing - taken) };
                continue;
            }
            *self = self.after(data[at]).map_err(|part| {
                let begin =
                    data[..at].iter().rposition(|&byte| byte == b'\n').map_or(0, |it| it + 1);
                let is_length = matches!(part, LONG_LINE | LONG_TRAILER);
                let line = data[begin..].split(|&byte| byte == b'\n').next().unwrap_or_default();
                Malformed::new(part, if is_length { b"" } else { line })
            })?;
            at += 1;
        }
        Ok(())
    }

    /// The position after a byte that is not data.
    fn after(self, byte: u8) -> Result<Self, &'static str> {
        Ok(match (self, byte) {
            // Where one parser sees the end of a line and another does not, bytes of one response
            // become those of the next: only CRLF ends a line.
            (Self::SizeLineFeed(0), b'\n') => Self::Trailer(0, 0),
            (Self::SizeLineFeed(size), b'\n') => Self::Data(size),
            (Self::TrailerLineFeed(0, _), b'\n') => Self::Done,
            (Self::TrailerLineFeed(_, all), b'\n') => Self::Trailer(0, all + 2),
            // Without a digit it is no size, and not the last chunk.
            (Self::Size(_, 1..) | Self::Extension(..), b'\n')
            | (Self::SizeLineFeed(_) | Self::TrailerLineFeed(..), _)
            | (Self::Trailer(..), b'\n') => return Err(BARE),
            (Self::Size(_, LINE_BYTES_MAX) | Self::Extension(_, LINE_BYTES_MAX), _) => {
                return Err(LONG_LINE);
            }
            (Self::Size(size, 1..) | Self::Extension(size, _), b'\r') => Self::SizeLineFeed(size),
            (Self::Size(size, count), byte) => match char::from(byte).to_digit(16) {
                Some(digit) if size < 1 << 56 => {
                    Self::Size(16 * size + u64::from(digit), count + 1)
                }
                None if count > 0 && b"; \t".contains(&byte) => Self::Extension(size, count + 1),
                _ => return Err("chunk size"),
            },
            (Self::Extension(size, count), _) => Self::Extension(size, count + 1),
            (Self::DataEnd, b'\r') => Self::DataLineFeed,
            (Self::DataLineFeed, b'\n') => Self::default(),
            (Self::Trailer(_, all), _) if usize::from(all) >= HEAD_BYTES_MAX => {
                return Err(LONG_TRAILER);
            }
            (Self::Trailer(line, all), b'\r') => Self::TrailerLineFeed(line, all),
            (Self::Trailer(line, all), _) => Self::Trailer(line + 1, all + 1),
            (Self::DataEnd | Self::DataLineFeed, _) => return Err("no line end after a chunk"),
            (Self::Done | Self::Data(_), _) => return Err(EXCESS),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(chunks: &mut Chunks, data: &[u8]) -> Result<u64, &'static str> {
        let mut body = 0;
        let fed = chunks.feed_to(data, |part| body += part.len() as u64);
        fed.map(|()| body).map_err(|malformed| malformed.part)
    }

    #[test]
    fn chunks_are_read_in_pieces_of_any_size() {
        let body = b"4\r\nabcd\r\nA;name=x\r\n0123456789\r\n0\r\nTrailer: 1\r\n\r\n";
        for piece in 1..=body.len() {
            let mut chunks = Chunks::default();
            let bytes: u64 = body.chunks(piece).map(|part| feed(&mut chunks, part).unwrap()).sum();
            assert_eq!((bytes, chunks), (14, Chunks::Done), "pieces of {piece}");
            assert_eq!(feed(&mut chunks, b"x"), Err(EXCESS), "after the end");
        }
    }

    #[test]
    fn malformed_and_endless_lines_are_named() {
        for (body, part) in [
            (&b"g\r\n"[..], "chunk size"),
            // Each looks like the last chunk to a parser that needs no digit.
            (b"\r\n\r\n", "chunk size"),
            (b"\n\n", "chunk size"),
            (b";x\r\n\r\n", "chunk size"),
            (b" 0\r\n\r\n", "chunk size"),
            (b"1\r\na\r\n\r\n", "chunk size"),
            (b"100000000000000000\r\n", "chunk size"),
            (b"1\r\nab", "no line end after a chunk"),
            (b"1\r\na\r\r\n", "no line end after a chunk"),
            (b"1\na\r\n0\r\n\r\n", BARE),
            (b"1;x\na", BARE),
            (b"1\rx\na", BARE),
            (b"1\r\na\n0\r\n\r\n", "no line end after a chunk"),
            (b"0\r\n\n", BARE),
            (b"0\r\nX: y\n\r\n", BARE),
        ] {
            assert_eq!(feed(&mut Chunks::default(), body), Err(part), "{}", body.escape_ascii());
        }
        for (begin, part) in [
            (&b"5;x="[..], LONG_LINE),
            (b"5 ", LONG_LINE),
            (b"0", LONG_LINE),
            (b"0\r\nX: y\r\n", LONG_TRAILER),
        ] {
            let mut chunks = Chunks::default();
            feed(&mut chunks, begin).unwrap();
            let piece = [b'0'; 1000];
            let end = (0..20).find_map(|_| feed(&mut chunks, &piece).err());
            assert_eq!(end, Some(part), "{}", begin.escape_ascii());
        }
        let line = Chunks::default().feed_to(b"4\r\nabcd\r\nhello\x1b\r\n", |_| {}).unwrap_err();
        assert_eq!(line.to_string(), "malformed response: chunk size: hello\\x1b");
    }
}
