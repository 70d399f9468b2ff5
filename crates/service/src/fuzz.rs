//! What clients may send, for the fuzzer in `fuzz/` and for tests, which replay its corpus. Each
//! result is compared with a second, naive reading of the same bytes.

use std::time::{Duration, UNIX_EPOCH};

use crate::head::{HeadConditions, HeadFields, HeadRequest, Method, Scan, parse};
use crate::refusal::Refused;
use crate::reply::{Date, Reply, ReplyConnection};
use crate::selection::{ServiceSelection, Version, select};
use crate::target::ServiceTarget;
use crate::token;

const HEAD_BYTES_MAX: usize = 1 << 10;
const FIELDS_MAX: usize = 16;

/// The end of a head, fed in pieces of this size.
fn end(data: &[u8], piece: usize) -> Result<Option<usize>, Refused> {
    let mut scan = Scan::default();
    let mut at = 0;
    while at < data.len() {
        at = (at + piece).min(data.len());
        if let Some(end) = scan.end(&data[..at], HEAD_BYTES_MAX)? {
            return Ok(Some(end));
        }
    }
    Ok(None)
}

/// A request head.
pub fn head(data: &[u8]) {
    let whole = end(data, data.len().max(1));
    let third = 1 + data.len() / 3;
    assert!([1, 2, 7, third].iter().all(|&piece| end(data, piece) == whole), "{whole:?}");
    if let Err(refused) = whole {
        assert!(refused.close);
    }
    let Ok(Some(end)) = whole else { return };
    assert!(end <= HEAD_BYTES_MAX && data[..end].ends_with(b"\r\n\r\n"));
    match parse(&data[..end], FIELDS_MAX) {
        Ok(request) => {
            check_request(&request, &data[..end]);
            check_target(request.target);
        }
        Err(refused) => assert!(refused.close),
    }
}

/// Compares with a reading line by line.
fn check_request(request: &HeadRequest<'_>, head: &[u8]) {
    let text: Vec<char> = head.iter().map(|&byte| char::from(byte)).collect();
    let text: String = text.into_iter().collect();
    let text = text.strip_prefix("\r\n").unwrap_or(&text);
    let mut lines = text.strip_suffix("\r\n\r\n").expect("an end").split("\r\n");
    let first: Vec<&str> = lines.next().expect("a line").split(' ').collect();
    let method = match first[0] {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        "POST" => Method::Post,
        _ => Method::Other,
    };
    let is_http_1_0 = first[2] == "HTTP/1.0";
    assert_eq!((first.len(), request.method, request.target), (3, method, first[1]), "{text}");
    assert_eq!(request.is_http_1_0, is_http_1_0);
    assert!(is_http_1_0 || first[2] == "HTTP/1.1", "{text}");
    let fields: Vec<(String, &str)> = lines.map(field).collect();
    assert!(fields.len() <= FIELDS_MAX);
    let of = |name: &str| -> Vec<&str> {
        fields.iter().filter(|(known, _)| known == name).map(|(_, value)| *value).collect()
    };
    let HeadFields { host, origin, authorization, content_length, expect, .. } = request.fields;
    let HeadFields { upgrade, conditions, .. } = request.fields;
    let HeadConditions { range, if_range, if_match, if_none_match, .. } = conditions;
    let HeadConditions { if_modified_since, if_unmodified_since, .. } = conditions;
    for (name, found) in [
        ("host", host),
        ("origin", origin),
        ("authorization", authorization),
        ("range", range),
        ("if-range", if_range),
        ("if-match", if_match),
        ("if-none-match", if_none_match),
        ("if-modified-since", if_modified_since),
        ("if-unmodified-since", if_unmodified_since),
        ("content-length", content_length),
        ("expect", expect),
        ("upgrade", upgrade),
    ] {
        let found: Vec<String> = found
            .iter()
            .map(|value| value.iter().map(|&byte| char::from(byte)).collect())
            .collect();
        assert_eq!(found, of(name), "{name}");
    }
    assert!(of("transfer-encoding").is_empty() && (is_http_1_0 || of("host").len() == 1));
    let length = of("content-length").first().map(|digits| digits.parse::<u64>().expect("digits"));
    assert_eq!(request.content_length, length);
    let has_word = |word: &str| {
        let words = of("connection").join(",").to_ascii_lowercase();
        words.split(',').any(|one| one.trim_matches([' ', '\t']) == word)
    };
    let keeps = if is_http_1_0 { has_word("keep-alive") } else { true };
    assert_eq!(request.close, has_word("close") || !keeps || method == Method::Other, "{text}");
    assert_eq!(request.upgrades, !is_http_1_0 && has_word("upgrade"));
}

/// The name in small letters, and the value.
fn field(line: &str) -> (String, &str) {
    let (name, value) = line.split_once(':').expect("a colon");
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    assert!(!name.is_empty() && name.chars().all(is_token), "{line}");
    assert!(value.chars().all(|c| c == '\t' || (c >= ' ' && c != '\x7f')), "{line:?}");
    (name.to_ascii_lowercase(), value.trim_matches([' ', '\t']))
}

/// No target leads out of the folder.
fn check_target(target: &str) {
    match ServiceTarget::parse(target) {
        Ok(ServiceTarget::File(path)) => {
            assert!(!path.starts_with(b"/") && !path.contains(&0), "{target}");
            let mut parts = path.split(|&byte| byte == b'/');
            assert!(parts.clone().all(|part| part != b"." && part != b".."), "{target}");
            assert!(parts.next() != Some(b".fathom"), "{target}");
        }
        Ok(ServiceTarget::Control(_)) => {}
        Err(refused) => assert!(refused.close),
    }
}

/// Preconditions and a range. Eight bytes: the length of the file; one: the method; then fields.
pub fn range(data: &[u8]) {
    let Some((length, rest)) = data.split_first_chunk() else { return };
    let Some((first, fields)) = rest.split_first() else { return };
    let (bytes, is_get) = (u64::from_le_bytes(*length), first % 2 == 0);
    let head = [b"GET / HTTP/1.1\r\nHost: a\r\n", fields, b"\r\n\r\n"].concat();
    let Ok(request) = parse(&head, FIELDS_MAX) else { return };
    let fields = &request.fields.conditions;
    let modified = UNIX_EPOCH + Duration::from_secs(784_111_777);
    let version = Version { bytes, etag: "\"a\"".to_owned(), is_strong: true, modified };
    let selection = select(fields, &version, is_get);
    if fields.if_match.or(fields.if_unmodified_since).is_none() {
        assert_ne!(selection, ServiceSelection::PreconditionFailed);
    }
    if fields.if_none_match.or(fields.if_modified_since).is_none() {
        assert_ne!(selection, ServiceSelection::NotModified);
    }
    let is_free = fields.if_match.or(fields.if_unmodified_since).is_none()
        && fields.if_none_match.or(fields.if_modified_since).or(fields.if_range).is_none();
    if is_free {
        let expected = fields.range.filter(|_| is_get).map_or(ServiceSelection::Whole, |range| {
            naive_range(std::str::from_utf8(range).unwrap_or_default(), bytes)
        });
        assert_eq!(selection, expected);
    }
    check_reply(selection, &version);
}

/// One range of bytes, in numbers that do not overflow.
fn naive_range(range: &str, bytes: u64) -> ServiceSelection {
    let Some((unit, range)) = range.split_once('=') else { return ServiceSelection::Whole };
    let Some((first, last)) = range.split_once('-') else { return ServiceSelection::Whole };
    let is_number = |text: &str| text.chars().all(|c| c.is_ascii_digit());
    let is_valid = unit.eq_ignore_ascii_case("bytes") && is_number(first) && is_number(last);
    if !is_valid || (first.is_empty() && last.is_empty()) {
        return ServiceSelection::Whole;
    }
    let number = |text: &str| text.parse::<u128>().unwrap_or(u128::MAX / 2);
    let all = u128::from(bytes);
    let (begin, end) = match (first, last) {
        ("", count) if number(count) > 0 && bytes == 0 => return ServiceSelection::Whole,
        ("", count) => (all.saturating_sub(number(count)), all),
        (first, "") => (number(first), all),
        (first, last) => {
            // Both count as 2⁶⁴ - 1 above it, as they are beyond every file.
            let most = u128::from(u64::MAX);
            if number(first).min(most) > number(last).min(most) {
                return ServiceSelection::Whole;
            }
            (number(first), all.min(number(last) + 1))
        }
    };
    if begin < end {
        ServiceSelection::Part(begin as u64..end as u64)
    } else {
        ServiceSelection::Unsatisfiable
    }
}

/// The head says what the body has.
fn check_reply(selection: ServiceSelection, version: &Version) {
    let all = version.bytes;
    let Ok((status, body)) = selection.clone().answer(all) else { return };
    assert!(body.start <= body.end && body.end <= all);
    let reply = Reply {
        status,
        length: body.end - body.start,
        media: "text/plain",
        version: Some(version),
        part: (status == 206).then(|| body.clone()),
        location: None,
        allow: None,
        connection: ReplyConnection::Default,
    };
    let mut out = Vec::new();
    reply.write(&mut out, &Date::default());
    let text = String::from_utf8(out).expect("ASCII");
    let value = |name: &str| text.split("\r\n").find_map(|line| line.strip_prefix(name));
    let length = value("Content-Length: ").map(|digits| digits.parse::<u64>().expect("digits"));
    let range = value("Content-Range: ");
    match selection {
        ServiceSelection::Whole => assert_eq!((length, range), (Some(all), None)),
        ServiceSelection::Part(part) => {
            let (first, last) = (part.start, part.end - 1);
            assert_eq!(length, Some(last - first + 1));
            assert_eq!(range, Some(&*format!("bytes {first}-{last}/{all}")));
        }
        ServiceSelection::Unsatisfiable => {
            assert_eq!((length, range), (Some(0), Some(&*format!("bytes */{all}"))));
        }
        ServiceSelection::NotModified | ServiceSelection::PreconditionFailed => {
            assert_eq!((status, length, range), (304, None, None));
        }
    }
}

/// A token file and an Authorization field, separated by a NUL.
pub fn token(data: &[u8]) {
    let mut parts = data.splitn(2, |&byte| byte == 0);
    let (file, field) = (parts.next().unwrap_or_default(), parts.next());
    let Some(token) = std::str::from_utf8(file).ok().and_then(token::parse) else { return };
    let own = token.bytes();
    assert!((22..=4096).contains(&own.len()) && own.iter().all(u8::is_ascii_graphic));
    assert!(token::is_in(&token, Some(&[b"Bearer ", own].concat())));
    // All but one byte, one more, and one that differs.
    let mut other = own.to_vec();
    other[own.len() / 2] ^= 1;
    for wrong in [&own[1..], &own[..own.len() - 1], &[own, b"0"].concat(), &other, b""] {
        assert!(!token::is_in(&token, Some(&[b"Bearer ", wrong].concat())));
    }
    let is_right = field.is_some_and(|field| {
        let (scheme, rest) = field.split_at(field.len().min(6));
        let found = rest.iter().position(|&byte| byte != b' ').unwrap_or(rest.len());
        scheme.eq_ignore_ascii_case(b"bearer") && found > 0 && &rest[found..] == own
    });
    assert_eq!(token::is_in(&token, field), is_right);
}

/// Files of the kernel.
pub fn kernel_files(data: &[u8]) {
    crate::telemetry::check_kernel_files(&String::from_utf8_lossy(data));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corpus_of_the_fuzzer_is_handled() {
        for (target, run) in [
            ("head", head as fn(&[u8])),
            ("range", range),
            ("token", token),
            ("telemetry", kernel_files),
        ] {
            let folder = format!("{}/../../fuzz/corpus/{target}", env!("CARGO_MANIFEST_DIR"));
            let entries: Vec<_> = std::fs::read_dir(folder).expect("a corpus").collect();
            assert!(entries.len() >= 10, "{target}: {} inputs", entries.len());
            for entry in entries {
                run(&std::fs::read(entry.expect("an entry").path()).expect("a file"));
            }
        }
    }
}
