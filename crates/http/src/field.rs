//! Values of fields.

use std::ops::Range;
use std::time::{Duration, SystemTime};

use subtle::ConstantTimeEq as _;

use crate::Malformed;

/// The elements of a list; empty ones do not count (RFC 9110 5.6.1).
pub fn list(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).filter(|one| !one.is_empty())
}

/// Digits only: a sign or blanks are an error.
pub fn number(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// Equal lengths may be merged to a list (RFC 9110 8.6).
pub(crate) fn content_length(value: &[u8]) -> Option<u64> {
    let mut lengths = list(value).map(number);
    let first = lengths.next()??;
    lengths.all(|other| other == Some(first)).then_some(first)
}

/// Whether a browser asks for a page of another site, by the fields of a request to this host: each
/// Origin counts.
pub fn is_of_other_site<'f>(
    host: &[u8],
    fields: impl IntoIterator<Item = (&'f str, &'f [u8])>,
) -> bool {
    fields.into_iter().any(|(name, value)| match name.to_ascii_lowercase().as_str() {
        "origin" => value.strip_prefix(b"http://") != Some(host),
        "sec-fetch-site" => value.eq_ignore_ascii_case(b"cross-site"),
        _ => false,
    })
}

/// Of which bytes a part is, and of how many; a status 416 has no range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContentRange {
    pub range: Option<Range<u64>>,
    pub length: Option<u64>,
}

/// # Errors
/// If the range is empty, reversed or beyond the length, or neither is known.
pub fn content_range(value: &[u8]) -> Result<ContentRange, Malformed> {
    parse_range(value).ok_or_else(|| Malformed::new("Content-Range", value))
}

fn parse_range(value: &[u8]) -> Option<ContentRange> {
    let (unit, rest) = value.trim_ascii().split_at_checked(b"bytes ".len())?;
    let mut parts = rest.splitn(2, |&byte| byte == b'/');
    let (range, length) = (parts.next()?, parts.next()?);
    let known = |text: &[u8]| if text == b"*" { Some(None) } else { number(text).map(Some) };
    let length = known(length)?;
    let range = match range {
        b"*" => None,
        range => {
            let mut ends = range.splitn(2, |&byte| byte == b'-').map(number);
            let (from, to) = (ends.next()??, ends.next()??.checked_add(1)?);
            (from < to && length.is_none_or(|length| to <= length)).then_some(())?;
            Some(from..to)
        }
    };
    let is_right = unit.eq_ignore_ascii_case(b"bytes ") && (range.is_some() || length.is_some());
    is_right.then_some(ContentRange { range, length })
}

/// A pause in seconds, or until a date; `now_ns` since 1970.
pub fn retry_after(value: &str, now_ns: u64) -> Option<Duration> {
    let now = SystemTime::UNIX_EPOCH + Duration::from_nanos(now_ns);
    let date = || httpdate::parse_http_date(value).ok();
    let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    match is_number.then(|| number(value.as_bytes()).unwrap_or(u64::MAX)) {
        Some(seconds) => Some(Duration::from_secs(seconds)),
        None => Some(date()?.duration_since(now).unwrap_or_default()),
    }
}

/// Whether a Content-Encoding is another one than `identity`.
pub fn coded(value: &[u8]) -> bool {
    list(value).any(|coding| !coding.eq_ignore_ascii_case(b"identity"))
}

/// Whether an Authorization field has this token, in a time that depends on lengths only.
pub fn bears(authorization: Option<&[u8]>, token: &[u8]) -> bool {
    let Some((scheme, found)) = authorization.and_then(|value| value.split_at_checked(7)) else {
        return false;
    };
    let spaces = found.iter().take_while(|&&b| b == b' ').count();
    scheme.eq_ignore_ascii_case(b"bearer ") && bool::from(found[spaces..].ct_eq(token))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_ranges_are_exact() {
        let found = |value: &str| content_range(value.as_bytes());
        for (value, range, length) in [
            ("bytes 5-9/20", Some(5..10), Some(20)),
            ("Bytes 5-9/*", Some(5..10), None),
            ("bytes */20", None, Some(20)),
        ] {
            assert_eq!(found(value), Ok(ContentRange { range, length }), "{value}");
        }
        for wrong in ["bytes 9-5/20", "bytes 5-20/20", "bytes */*", "5-9/20", "bytes +5-9/20", ""] {
            let text = found(wrong).unwrap_err().to_string();
            assert!(text.starts_with("malformed response: Content-Range"), "{text}");
        }
    }

    #[test]
    fn lists_of_equal_lengths_are_one_length() {
        for (value, length) in [
            ("7", Some(7)),
            ("7, 7", Some(7)),
            (" 7 ,, 7", Some(7)),
            ("7, 8", None),
            ("7, x", None),
            (",", None),
            ("", None),
            ("9223372036854775808", Some(1 << 63)),
            ("18446744073709551616", None),
        ] {
            assert_eq!(content_length(value.as_bytes()), length, "{value}");
        }
        assert!(coded(b"gzip") && coded(b"identity, br") && !coded(b" Identity") && !coded(b""));
    }

    #[test]
    fn pause_is_in_seconds_or_until_a_date() {
        let now_ns = 784_111_777_000_000_000;
        let pause = |value| retry_after(value, now_ns).map(|pause| pause.as_secs());
        for (value, seconds) in [
            ("120", Some(120)),
            ("Sun, 06 Nov 1994 08:49:47 GMT", Some(10)),
            ("Sun, 06 Nov 1994 08:00:00 GMT", Some(0)),
            ("99999999999999999999", Some(u64::MAX)),
            ("-1", None),
            ("soon", None),
        ] {
            assert_eq!(pause(value), seconds, "{value}");
        }
    }
}
