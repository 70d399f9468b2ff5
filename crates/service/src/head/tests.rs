//! The gate as a table: each head with the status it must get, whole and split at every byte.

use super::*;

/// A head, and its status; 0 if it passes.
const CASES: &[(&str, u16)] = &[
    ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", 0),
    ("HEAD /a?b HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", 0),
    ("\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", 0),
    ("GET / HTTP/1.0\r\n\r\n", 0),
    ("GET / HTTP/1.1\r\nhOsT:a\r\nX: \t v \t\r\n\r\n", 0),
    ("GET / HTTP/1.1\r\nHost: a\r\nX:\r\n\r\n", 0),
    ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", 0),
    ("POST /.fathom/evict HTTP/1.1\r\nHost: a\r\nContent-Length: 000\r\n\r\n", 0),
    ("GET / HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\n\r\n", 0),
    ("GET / HTTP/1.1\r\nHost: a\r\nX: \u{e9}\r\n\r\n", 0),
    // Line endings.
    ("GET / HTTP/1.1\nHost: a\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\n\n", 400),
    ("GET / HTTP/1.1\n\n", 400),
    ("GET / HTTP/1.1\rHost: a\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\n\rX: b\r\n\r\n", 400),
    ("\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\0\r\n\r\n", 400),
    ("GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\n Host: a\r\n\r\n", 400),
    // Request line.
    ("GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("GET / HTTP/1.1 \r\nHost: a\r\n\r\n", 400),
    (" GET / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("GET /\r\n\r\n", 400),
    ("GET\r\n\r\n", 400),
    ("G@T / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("GET a HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("GET * HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("GET /\u{e9} HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("GET /\u{7f} HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505),
    ("GET / HTTP/1.2\r\nHost: a\r\n\r\n", 505),
    ("GET / http/1.1\r\nHost: a\r\n\r\n", 400),
    ("PUT / HTTP/1.1\r\nHost: a\r\n\r\n", 0),
    ("get / HTTP/1.1\r\nHost: a\r\n\r\n", 501),
    ("BREW / HTTP/1.1\r\nHost: a\r\n\r\n", 501),
    // Fields.
    ("GET / HTTP/1.1\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost:\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a@b\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a:b\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: [::1\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400),
    ("GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\nX y: b\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\nX: \u{1}\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\nRange: bytes=0-\r\nRange: bytes=1-\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\nExpect: tea\r\n\r\n", 417),
    // Bodies.
    ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n", 400),
    ("HEAD / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n", 400),
    ("POST /.fathom/evict HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 0, 0\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: +0\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: -0\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x0\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 0 0\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", 501),
    ("GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\ntransfer-encoding:\tchunked\r\n\r\n", 501),
    ("GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n", 501),
];

const HEAD_MAX: usize = 256;
const FIELDS_MAX: usize = 4;

/// The outcome of a head that arrives in pieces: its length, or its refusal.
fn gate<'p>(pieces: impl IntoIterator<Item = &'p [u8]>) -> Result<Option<usize>, Refused> {
    let (mut scan, mut arrived) = (Scan::default(), Vec::new());
    for piece in pieces {
        arrived.extend_from_slice(piece);
        if let Some(end) = scan.end(&arrived, HEAD_MAX)? {
            return parse(&arrived[..end], FIELDS_MAX).map(|_| Some(end));
        }
    }
    Ok(None)
}

#[test]
fn gate_answers_each_head_with_its_status() {
    for (head, status) in CASES {
        let bytes = head.as_bytes();
        match gate([bytes]) {
            Ok(end) => assert_eq!((*status, end), (0, Some(bytes.len())), "{head:?}"),
            Err(refused) => {
                assert_eq!(refused.why.status(), *status, "{head:?}: {refused:?}");
                assert!(refused.close, "{head:?}");
            }
        }
    }
}

#[test]
fn splits_do_not_change_the_outcome() {
    for (head, _) in CASES {
        let bytes = head.as_bytes();
        let whole = gate([bytes]);
        assert_eq!(gate(bytes.chunks(1)), whole, "{head:?} byte by byte");
        for at in 0..bytes.len() {
            assert_eq!(gate([&bytes[..at], &bytes[at..]]), whole, "{head:?} at {at}");
        }
    }
}

#[test]
fn bytes_after_the_head_do_not_matter() {
    for (head, _) in CASES {
        let whole = gate([head.as_bytes()]);
        let followed = format!("{head}GET /next HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(gate([followed.as_bytes()]), whole, "{head:?}");
    }
}

#[test]
fn large_heads_are_refused() {
    let status = |head: String| {
        let outcome = gate([head.as_bytes()]);
        assert_eq!(gate(head.as_bytes().chunks(1)), outcome);
        outcome.map_err(|refused| refused.why.status())
    };
    let head = |bytes: usize| {
        let rest = bytes - "GET / HTTP/1.1\r\nHost: a\r\nX: \r\n\r\n".len();
        format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(rest))
    };
    assert_eq!(status(head(HEAD_MAX)), Ok(Some(HEAD_MAX)));
    assert_eq!(status(head(HEAD_MAX + 1)), Err(431));
    assert_eq!(status("x".repeat(HEAD_MAX)), Ok(None));
    assert_eq!(status("x".repeat(HEAD_MAX + 1)), Err(414));
    assert_eq!(status(format!("\r\n{}", "x".repeat(HEAD_MAX))), Err(414));
    let fields = |count: usize| format!("GET / HTTP/1.0\r\n{}\r\n", "X: y\r\n".repeat(count));
    assert_eq!(status(fields(FIELDS_MAX)), Ok(Some(fields(FIELDS_MAX).len())));
    assert_eq!(status(fields(FIELDS_MAX + 1)), Err(431));
}

#[test]
fn connection_field_and_version_decide_persistence() {
    for (line, closes) in [
        ("HTTP/1.1\r\nHost: a\r\n", false),
        ("HTTP/1.1\r\nHost: a\r\nConnection: close\r\n", true),
        ("HTTP/1.1\r\nHost: a\r\nConnection: x, CLOSE\r\n", true),
        ("HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\n", false),
        ("HTTP/1.0\r\n", true),
        ("HTTP/1.0\r\nConnection: Keep-Alive\r\n", false),
        ("HTTP/1.0\r\nConnection: keep-alive, close\r\n", true),
    ] {
        let head = format!("GET / {line}\r\n");
        assert_eq!(parse(head.as_bytes(), 8).unwrap().close, closes, "{line}");
    }
    let upgrades = |version: &str| {
        let head = format!("GET / HTTP/{version}\r\nHost: a\r\nConnection: Upgrade\r\n\r\n");
        parse(head.as_bytes(), 8).unwrap().upgrades
    };
    assert_eq!(["1.0", "1.1"].map(upgrades), [false, true]);
}

proptest::proptest! {
    #[test]
    fn arbitrary_bytes_are_refused_or_parsed(bytes: Vec<u8>, at in 0_usize..64) {
        let whole = gate([&bytes[..]]);
        let at = at.min(bytes.len());
        proptest::prop_assert_eq!(gate([&bytes[..at], &bytes[at..]]), whole);
    }

    #[test]
    fn mutated_heads_do_not_depend_on_splits(
        case in 0..CASES.len(), at in 0_usize..200, byte: u8, split in 0_usize..200,
    ) {
        let mut bytes = CASES[case].0.as_bytes().to_vec();
        let at = at % bytes.len();
        bytes[at] = byte;
        let split = split % bytes.len();
        proptest::prop_assert_eq!(gate([&bytes[..split], &bytes[split..]]), gate([&bytes[..]]));
    }
}
