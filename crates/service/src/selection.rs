//! Which part of a file answers a request: preconditions and ranges (RFC 9110, 13 and 14).

use std::fmt::Write as _;
use std::ops::Range;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::Stat;

use crate::head::HeadConditions;
use crate::refusal::Refusal;

/// A file as validators see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) bytes: u64,
    /// Changes with every write and every replacement of the file, in quotes.
    pub(crate) etag: String,
    /// Whether a later change would have another change time: a strong tag.
    pub(crate) is_strong: bool,
    /// Never after the date of the response.
    pub(crate) modified: SystemTime,
}

/// Stamps of a file advance by the kernel's tick, at most 10 ms, and two of them may be one apart.
const TICK_NS: u64 = 20_000_000;
/// File systems whose stamps have no fraction advance them by one or two seconds.
const COARSE_NS: u64 = 2_000_000_000;

impl Version {
    /// `wall_ns`: the time of the response since 1970.
    pub(crate) fn from_stat(stat: &Stat, wall_ns: u64) -> Self {
        let bytes = stat.st_size as u64;
        let mut etag = String::with_capacity(56);
        let ns = |s: i64, ns: u64| (s as u64).wrapping_mul(1_000_000_000).wrapping_add(ns);
        let modified = ns(stat.st_mtime, stat.st_mtime_nsec);
        let changed = ns(stat.st_ctime, stat.st_ctime_nsec);
        // Writing to a String cannot fail.
        let _ = write!(etag, "\"{:x}-{bytes:x}-{modified:x}-{changed:x}\"", stat.st_ino);
        let step_ns = if stat.st_ctime_nsec == 0 { COARSE_NS } else { TICK_NS };
        // A time of the future wraps to a large one, and says as little as one that has passed.
        let is_strong = wall_ns.wrapping_sub(changed) > step_ns;
        // HTTP dates have no fractions, and none before 1970.
        let seconds = u64::try_from(stat.st_mtime).unwrap_or(0).min(wall_ns / 1_000_000_000);
        Self { bytes, etag, is_strong, modified: UNIX_EPOCH + Duration::from_secs(seconds) }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ServiceSelection {
    Whole,
    Part(Range<u64>),
    NotModified,
    PreconditionFailed,
    Unsatisfiable,
}

impl ServiceSelection {
    /// The status of a response for a file of this length, and the bytes of its body.
    pub(crate) fn answer(self, bytes: u64) -> Result<(u16, Range<u64>), Refusal> {
        match self {
            Self::Whole => Ok((200, 0..bytes)),
            Self::Part(part) => Ok((206, part)),
            Self::NotModified => Ok((304, 0..0)),
            Self::Unsatisfiable => Ok((416, 0..0)),
            Self::PreconditionFailed => Err(Refusal::Precondition),
        }
    }
}

/// In the order of RFC 9110, 13.2.2.
pub(crate) fn select(
    conditions: &HeadConditions<&[u8]>,
    version: &Version,
    is_get: bool,
) -> ServiceSelection {
    if let Some(list) = conditions.if_match {
        if !lists(list, version, false) {
            return ServiceSelection::PreconditionFailed;
        }
    } else if conditions
        .if_unmodified_since
        .and_then(date)
        .is_some_and(|date| version.modified > date)
    {
        return ServiceSelection::PreconditionFailed;
    }
    if let Some(list) = conditions.if_none_match {
        if lists(list, version, true) {
            return ServiceSelection::NotModified;
        }
    } else if conditions
        .if_modified_since
        .and_then(date)
        .is_some_and(|date| version.modified <= date)
    {
        return ServiceSelection::NotModified;
    }
    match conditions.range.filter(|_| is_get && is_range_current(conditions.if_range, version)) {
        Some(range) => part(range, version.bytes),
        None => ServiceSelection::Whole,
    }
}

/// The preconditions of what has no validators: only `*` matches.
pub(crate) fn select_page(conditions: &HeadConditions<&[u8]>) -> ServiceSelection {
    let is_any = |list: &[u8]| list.trim_ascii() == b"*";
    if conditions.if_match.is_some_and(|list| !is_any(list)) {
        ServiceSelection::PreconditionFailed
    } else if conditions.if_none_match.is_some_and(is_any) {
        ServiceSelection::NotModified
    } else {
        ServiceSelection::Whole
    }
}

/// If-Range: a strong tag or the exact date.
fn is_range_current(if_range: Option<&[u8]>, version: &Version) -> bool {
    if_range.is_none_or(|value| {
        let is_same = value == version.etag.as_bytes() || date(value) == Some(version.modified);
        version.is_strong && is_same
    })
}

/// Whether a list of entity tags has this one. A weak tag matches only where `weak` is allowed.
fn lists(list: &[u8], version: &Version, weak: bool) -> bool {
    list.trim_ascii() == b"*"
        || list.split(|&b| b == b',').map(<[u8]>::trim_ascii).any(|one| {
            let strong = one.strip_prefix(b"W/").filter(|_| weak).unwrap_or(one);
            (weak || version.is_strong) && strong == version.etag.as_bytes()
        })
}

fn date(value: &[u8]) -> Option<SystemTime> {
    httpdate::parse_http_date(std::str::from_utf8(value).ok()?).ok()
}

/// One range of bytes. Several, another unit or a malformed range select the whole file.
fn part(range: &[u8], bytes: u64) -> ServiceSelection {
    let parsed = std::str::from_utf8(range).ok().and_then(|text| {
        let (unit, ends) = text.split_once('=')?;
        let (first, last) = ends.split_once('-')?;
        let number = |text: &str| -> Option<Option<u64>> {
            let is_number = text.bytes().all(|b| b.is_ascii_digit());
            // Above 2⁶⁴ is beyond every file.
            is_number.then(|| (!text.is_empty()).then(|| text.parse().unwrap_or(u64::MAX)))
        };
        unit.eq_ignore_ascii_case("bytes").then_some((number(first)?, number(last)?))
    });
    match parsed {
        Some((Some(first), Some(last))) if first > last => ServiceSelection::Whole,
        Some((Some(first), _)) if first >= bytes => ServiceSelection::Unsatisfiable,
        Some((Some(first), last)) => ServiceSelection::Part(
            first..last.map_or(bytes, |last| last.saturating_add(1).min(bytes)),
        ),
        Some((None, Some(0))) => ServiceSelection::Unsatisfiable,
        // It is satisfiable, but no Content-Range can say so.
        Some((None, Some(_))) if bytes == 0 => ServiceSelection::Whole,
        Some((None, Some(count))) => ServiceSelection::Part(bytes.saturating_sub(count)..bytes),
        Some((None, None)) | None => ServiceSelection::Whole,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Conditions = super::HeadConditions<&'static [u8]>;

    #[test]
    fn ranges_select_bytes() {
        use ServiceSelection::{Part, Unsatisfiable, Whole};
        for (range, expected) in [
            ("bytes=0-0", Part(0..1)),
            ("bytes=2-", Part(2..10)),
            ("bytes=2-100", Part(2..10)),
            ("BYTES=-3", Part(7..10)),
            ("bytes=-100", Part(0..10)),
            ("bytes=9-9", Part(9..10)),
            ("bytes=0-99999999999999999999999", Part(0..10)),
            ("bytes=10-", Unsatisfiable),
            ("bytes=99999999999999999999999-", Unsatisfiable),
            ("bytes=-0", Unsatisfiable),
            ("bytes=5-4", Whole),
            ("bytes=-", Whole),
            ("bytes=a-b", Whole),
            ("bytes=+1-2", Whole),
            ("bytes=0-1,3-4", Whole),
            ("lines=0-1", Whole),
            ("bytes 0-1", Whole),
            ("bytes= 0-1", Whole),
        ] {
            assert_eq!(part(range.as_bytes(), 10), expected, "{range}");
        }
        assert_eq!(part(b"bytes=-1", 0), Whole);
        assert_eq!(part(b"bytes=0-", 0), Unsatisfiable);
    }

    fn version() -> Version {
        let modified = UNIX_EPOCH + Duration::from_secs(784_111_777);
        Version { bytes: 10, etag: "\"a\"".to_owned(), is_strong: true, modified }
    }

    #[test]
    fn tag_is_strong_when_the_next_change_has_another_stamp() {
        let mut stat = rustix::fs::stat("/").unwrap();
        (stat.st_mtime, stat.st_ctime) = (1000, 1000);
        let mut of = |fraction: u64, passed_ns: u64| {
            stat.st_ctime_nsec = fraction;
            Version::from_stat(&stat, 1_000_000_000_000 + fraction + passed_ns).is_strong
        };
        for (fraction, step_ns) in [(7, TICK_NS), (0, COARSE_NS)] {
            assert_eq!([0, step_ns, step_ns + 1].map(|it| of(fraction, it)), [false, false, true]);
        }
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        let modified = |wall_ns| Version::from_stat(&stat, wall_ns).modified;
        assert_eq!(modified(1_000_900_000_000), at(1000));
        assert_eq!(modified(999_900_000_000), at(999), "not after the date of the response");
    }

    const DATE: &[u8] = b"Sun, 06 Nov 1994 08:49:37 GMT";
    const EARLIER: &[u8] = b"Sun, 06 Nov 1994 08:49:36 GMT";

    #[test]
    fn preconditions_follow_their_order() {
        use ServiceSelection::{NotModified, PreconditionFailed, Whole};
        let none = Conditions::default();
        let cases = [
            (Conditions { if_none_match: Some(b"\"a\""), ..none }, NotModified),
            (Conditions { if_none_match: Some(b"\"b\", W/\"a\""), ..none }, NotModified),
            (Conditions { if_none_match: Some(b"*"), ..none }, NotModified),
            (Conditions { if_none_match: Some(b"\"b\""), ..none }, Whole),
            (
                Conditions { if_none_match: Some(b"\"b\""), if_modified_since: Some(DATE), ..none },
                Whole,
            ),
            (Conditions { if_modified_since: Some(DATE), ..none }, NotModified),
            (Conditions { if_modified_since: Some(EARLIER), ..none }, Whole),
            (Conditions { if_modified_since: Some(b"yesterday"), ..none }, Whole),
            (Conditions { if_match: Some(b"\"a\""), ..none }, Whole),
            (Conditions { if_match: Some(b"W/\"a\""), ..none }, PreconditionFailed),
            (
                Conditions { if_match: Some(b"\"b\""), if_none_match: Some(b"\"a\""), ..none },
                PreconditionFailed,
            ),
            (Conditions { if_unmodified_since: Some(EARLIER), ..none }, PreconditionFailed),
            (Conditions { if_unmodified_since: Some(DATE), ..none }, Whole),
        ];
        for (fields, expected) in cases {
            assert_eq!(select(&fields, &version(), true), expected, "{fields:?}");
        }
    }

    #[test]
    fn range_needs_the_current_version() {
        let fields =
            |if_range| Conditions { range: Some(b"bytes=1-2"), if_range, ..Conditions::default() };
        let part = ServiceSelection::Part(1..3);
        for (if_range, expected) in [
            (None, part.clone()),
            (Some(&b"\"a\""[..]), part.clone()),
            (Some(DATE), part),
            (Some(&b"W/\"a\""[..]), ServiceSelection::Whole),
            (Some(&b"\"b\""[..]), ServiceSelection::Whole),
            (Some(EARLIER), ServiceSelection::Whole),
        ] {
            assert_eq!(select(&fields(if_range), &version(), true), expected, "{if_range:?}");
        }
        assert_eq!(select(&fields(None), &version(), false), ServiceSelection::Whole, "HEAD");
        // While the tag is weak only what does not need a strong one matches.
        let young = Version { is_strong: false, ..version() };
        for if_range in [&b"\"a\""[..], DATE] {
            assert_eq!(select(&fields(Some(if_range)), &young, true), ServiceSelection::Whole);
        }
        let same = Conditions { if_match: Some(b"\"a\""), ..Conditions::default() };
        assert_eq!(select(&same, &young, true), ServiceSelection::PreconditionFailed);
        let none = Conditions { if_none_match: Some(b"\"a\""), ..Conditions::default() };
        assert_eq!(select(&none, &young, true), ServiceSelection::NotModified);
    }
}
