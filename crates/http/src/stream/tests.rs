//! Streams against a TLS server of the test, over real sockets.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use fathom_testing::{Certificate, named};
use proptest::collection::vec;
use proptest::prelude::*;
use rcgen::{BasicConstraints, IsCa, date_time_ymd};
use rustix::io::Errno;
use rustls::{ALL_VERSIONS, ServerConfig, ServerConnection};

use super::*;
use crate::{ExchangeError, ExchangeLimits, Framing, TlsFault, Trust};

static GOES_ON: AtomicBool = AtomicBool::new(false);

fn limits() -> ExchangeLimits<'static> {
    ExchangeLimits::new(Duration::from_secs(600), &GOES_ON)
}

/// How a server ends.
#[derive(Clone, Copy, PartialEq)]
enum StreamEnd {
    CloseNotify,
    /// By FIN alone.
    Cut,
}

/// Sends what it received back, in pieces of this size, up to so many bytes.
fn echo(config: ServerConfig, piece: usize, most: usize, end: StreamEnd) -> OwnedFd {
    let (listener, near) = pair();
    std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let mut connection = ServerConnection::new(Arc::new(config)).unwrap();
        let mut seen = 0;
        while seen < most {
            if connection.complete_io(&mut socket).is_err() {
                return;
            }
            let mut plain = Vec::new();
            let _ = connection.reader().read_to_end(&mut plain);
            seen += plain.len();
            for part in plain.chunks(piece) {
                connection.writer().write_all(part).unwrap();
                while connection.wants_write() {
                    connection.write_tls(&mut socket).unwrap();
                }
            }
        }
        if end == StreamEnd::CloseNotify {
            connection.send_close_notify();
            let _ = connection.write_tls(&mut socket);
        }
        let _ = socket.shutdown(Shutdown::Write);
        let _ = socket.read(&mut [0]);
    });
    near
}

fn pair() -> (TcpListener, OwnedFd) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (listener, near.into())
}

fn trust(issued: &Certificate) -> Trust {
    Trust::Pem(issued.issuer_pem.clone())
}

fn stream(socket: OwnedFd, host: &str, trust: &Trust) -> Result<Stream, ExchangeError> {
    let mut stream = Stream::new(socket, Some(&Tls::new(host, trust).unwrap()))?;
    limits().shake_hands(&mut stream)?;
    Ok(stream)
}

#[test]
fn bytes_arrive_in_records_of_any_size() {
    let sent: Vec<u8> = (0..300_000_u32).map(|at| (at >> 3) as u8).collect();
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        for piece in [1_000, 16_384, 100_000] {
            let issued = Certificate::issued(&named(&["localhost"]));
            let its = trust(&issued);
            let config = issued.server_of(&[version]);
            let socket = echo(config, piece, sent.len(), StreamEnd::CloseNotify);
            let mut stream = stream(socket, "localhost", &its).unwrap();
            let (word, _) = stream.tls_words().unwrap();
            let expected =
                if version.version == rustls::ProtocolVersion::TLSv1_2 { "1.2" } else { "1.3" };
            assert_eq!(word, expected);
            limits().send(&mut stream, &sent).unwrap();
            let mut all = Vec::new();
            let mut buffer = vec![0; if piece == 1_000 { 777 } else { 256 << 10 }];
            loop {
                match limits().receive(&mut stream, &mut buffer).unwrap() {
                    0 => break,
                    count => all.extend_from_slice(&buffer[..count]),
                }
            }
            assert!(all == sent, "pieces of {piece}, {} bytes", all.len());
        }
    }
}

#[test]
fn end_without_close_notify_is_no_end() {
    for (end, is_whole) in [(StreamEnd::CloseNotify, true), (StreamEnd::Cut, false)] {
        let socket = echo(Certificate::of_names(&["a"]).server_of(ALL_VERSIONS), 99, 5, end);
        let mut stream = stream(socket, "a", &Trust::All).unwrap();
        limits().send(&mut stream, b"12345").unwrap();
        let mut text = Vec::new();
        let read = stream.read_to_end(&mut text);
        assert_eq!((&text[..], read.is_ok()), (&b"12345"[..], is_whole));
        let error = read.err().map(|error| (error.kind(), error.to_string()));
        let text = "TLS: connection closed without close_notify".to_owned();
        assert_eq!(error, (!is_whole).then_some((ErrorKind::UnexpectedEof, text)));
    }
}

/// A handshake with a server that has such a certificate.
fn refused(issued: &Certificate, host: &str, trust: &Trust) -> String {
    let socket = echo(issued.server_of(ALL_VERSIONS), 99, 1, StreamEnd::Cut);
    stream(socket, host, trust).map(drop).expect_err("no trust").to_string()
}

#[test]
fn certificates_are_refused_by_word() {
    let known = Certificate::issued(&named(&["localhost", "127.0.0.1"]));
    let its = trust(&known);
    let mut params = named(&["localhost"]);
    params.distinguished_name.push(rcgen::DnType::CommonName, "its own issuer");
    let unknown = "TLS: certificate of an unknown issuer";
    assert_eq!(refused(&Certificate::self_signed(&params), "localhost", &its), unknown);
    // Of another CA with the same name.
    let text = refused(&Certificate::issued(&params), "localhost", &its);
    assert_eq!(text, format!("{unknown}: the trusted one of that name did not sign it"));
    let text = refused(&known, "example.org", &its);
    assert_eq!(
        text,
        "TLS: certificate of another name: localhost, 127.0.0.1, expected example.org"
    );
    for (from, to, text) in [
        (2001, 2002, "TLS: certificate expired on Tue, 01 Jan 2002 00:00:00 GMT"),
        (2900, 2901, "TLS: certificate not valid yet, from Fri, 01 Jan 2900 00:00:00 GMT"),
    ] {
        let mut params = named(&["localhost"]);
        params.not_before = date_time_ymd(from, 1, 1);
        params.not_after = date_time_ymd(to, 1, 1);
        let issued = Certificate::issued(&params);
        let its = trust(&issued);
        assert_eq!(refused(&issued, "localhost", &its), text);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let own = Certificate::self_signed(&params);
        let its = trust(&own);
        assert_eq!(refused(&own, "localhost", &its), text, "named itself");
    }
}

#[test]
fn named_certificate_is_accepted_for_its_names() {
    for is_ca in [IsCa::NoCa, IsCa::Ca(BasicConstraints::Unconstrained)] {
        let mut params = named(&["localhost"]);
        params.is_ca = is_ca;
        let own = Certificate::self_signed(&params);
        let its = trust(&own);
        let socket =
            echo(Certificate::self_signed(&params).server_of(ALL_VERSIONS), 99, 1, StreamEnd::Cut);
        let unknown = stream(socket, "localhost", &its).map(drop).unwrap_err().to_string();
        assert!(unknown.starts_with("TLS: certificate of an unknown issuer"), "{unknown}");
        let text = refused(&own, "other", &its);
        assert!(text.starts_with("TLS: certificate of another name: localhost"), "{text}");
        let socket = echo(own.server_of(ALL_VERSIONS), 99, 1, StreamEnd::Cut);
        assert!(stream(socket, "localhost", &its).is_ok());
    }
}

#[test]
fn certificate_for_an_address_is_accepted() {
    let issued = Certificate::issued(&named(&["::1"]));
    let its = trust(&issued);
    let socket = echo(issued.server_of(ALL_VERSIONS), 99, 1, StreamEnd::Cut);
    assert!(stream(socket, "::1", &its).is_ok());
}

#[test]
fn servers_of_another_protocol_are_named() {
    let answer = |text: &'static [u8]| {
        let (listener, near) = pair();
        std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            let _ = socket.read(&mut [0; 1024]);
            let _ = socket.write_all(text);
            let _ = socket.shutdown(Shutdown::Write);
            let _ = socket.read_to_end(&mut Vec::new());
        });
        match stream(near, "localhost", &Trust::All).map(drop).unwrap_err() {
            ExchangeError::Tls(error) => error.fault,
            other => panic!("{other}"),
        }
    };
    assert_eq!(answer(b"HTTP/1.1 400 Bad Request\r\n\r\n"), TlsFault::NoTls);
    assert_eq!(answer(b"SSH-2.0-OpenSSH\r\n"), TlsFault::NoTls);
    assert_eq!(answer(b""), TlsFault::Closed);
    // Alerts of an unencrypted handshake.
    assert_eq!(answer(b"\x15\x03\x03\x00\x02\x02\x78"), TlsFault::NoHttp1);
    assert_eq!(answer(b"\x15\x03\x03\x00\x02\x02\x46"), TlsFault::Version);
    assert_eq!(answer(b"\x15\x03\x03\x00\x02\x02\x28"), TlsFault::Version);
    assert_eq!(answer(b"\x15\x03\x03\x00\x02\x02\x70"), TlsFault::UnknownName);
    assert_eq!(answer(b"\x15\x03\x03\x00\x02\x02\x30"), TlsFault::ClientCertificate);
    assert_eq!(answer(b"\x15\x03\x03\x00\x02\x02\x50"), TlsFault::Protocol);
}

#[test]
fn certificate_is_shown_to_a_server_that_wants_one() {
    let own = Certificate::of_names(&["a"]);
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let exchanged = |tls: &Tls| {
            let socket = echo(own.server_wanting(version), 99, 1, StreamEnd::CloseNotify);
            let mut stream = Stream::new(socket, Some(tls))?;
            limits().shake_hands(&mut stream)?;
            limits().send(&mut stream, b"a")?;
            limits().receive(&mut stream, &mut [0; 1 << 17])
        };
        let without = Tls::new("a", &Trust::All).unwrap();
        let text = exchanged(&without).unwrap_err().to_string();
        assert!(text.contains("requires a client certificate"), "{text}");
        let with = without.with_own(&own.issuer_pem, &own.key_pem).unwrap();
        assert_eq!(exchanged(&with).unwrap(), 1);
    }
    let [tls, other] = [Tls::new("a", &Trust::All).unwrap(), Tls::new("a", &Trust::All).unwrap()];
    let key = Certificate::of_names(&["a"]).key_pem;
    let text = tls.with_own(&own.issuer_pem, &key).unwrap_err().to_string();
    assert_eq!(text, "the key is not that of the certificate");
    assert!(other.with_own(&own.issuer_pem, &own.issuer_pem).is_err(), "no key");
}

#[test]
fn server_of_http2_only_is_named() {
    let mut config = Certificate::of_names(&["a"]).server_of(ALL_VERSIONS);
    config.alpn_protocols = vec![b"h2".to_vec()];
    let error =
        stream(echo(config, 99, 1, StreamEnd::Cut), "a", &Trust::All).map(drop).unwrap_err();
    assert!(matches!(error, ExchangeError::Tls(error) if error.fault == TlsFault::NoHttp1));
}

#[test]
fn altered_record_is_refused() {
    let (listener, near) = pair();
    std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let config = Certificate::of_names(&["a"]).server();
        let mut connection = ServerConnection::new(config).unwrap();
        while connection.is_handshaking() {
            connection.complete_io(&mut socket).unwrap();
        }
        connection.writer().write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
        let mut records = Vec::new();
        while connection.wants_write() {
            connection.write_tls(&mut records).unwrap();
        }
        *records.last_mut().unwrap() ^= 1;
        socket.write_all(&records).unwrap();
        let _ = socket.read_to_end(&mut Vec::new());
    });
    let mut stream = stream(near, "a", &Trust::All).unwrap();
    limits().send(&mut stream, b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let error = loop {
        match stream.receive(&mut vec![0; 64 << 10], false).unwrap_err() {
            StreamError::System(Errno::INTR) => {}
            error => break error,
        }
    };
    assert!(matches!(error, StreamError::Tls(error) if error.fault == TlsFault::Protocol));
}

/// Answers a handshake, or the request after it, a byte at a time.
fn dripping(is_handshake: bool) -> OwnedFd {
    let (listener, near) = pair();
    std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        socket.set_nodelay(true).unwrap();
        let config = Certificate::of_names(&["a"]).server();
        let mut connection = ServerConnection::new(config).unwrap();
        while connection.is_handshaking() && !is_handshake {
            connection.complete_io(&mut socket).unwrap();
        }
        if is_handshake {
            connection.read_tls(&mut socket).unwrap();
            connection.process_new_packets().unwrap();
        } else {
            let head = format!("HTTP/1.1 204 No Content\r\nX: {}\r\n\r\n", "x".repeat(4000));
            connection.writer().write_all(head.as_bytes()).unwrap();
        }
        let mut records = Vec::new();
        while connection.wants_write() {
            connection.write_tls(&mut records).unwrap();
        }
        for byte in records {
            if socket.write_all(&[byte]).is_err() {
                return;
            }
            // mood: the drip itself
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = socket.read_to_end(&mut Vec::new());
    });
    near
}

#[test]
fn byte_now_and_then_does_not_prolong_tls() {
    let soon = || ExchangeLimits::new(Duration::from_millis(300), &GOES_ON);
    let tls = Tls::new("a", &Trust::All).unwrap();
    let mut slow = Stream::new(dripping(true), Some(&tls)).unwrap();
    let handshake = soon().shake_hands(&mut slow);
    assert!(matches!(handshake, Err(ExchangeError::TimedOut(_))), "{handshake:?}");
    let mut slow = stream(dripping(false), "a", &Trust::All).unwrap();
    limits().send(&mut slow, b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let head = soon().head(&mut slow, &mut [0; 16 << 10], |_, _, _| {});
    assert!(matches!(head, Err(ExchangeError::TimedOut(_))), "{head:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// No call waits for the rest of a record, and pieces change nothing.
    #[test]
    fn records_in_pieces_are_the_same_text(
        text in vec(any::<u8>(), 1..9_000),
        record in 200..5_000_usize,
        pieces in vec(1..3_000_usize, 1..9),
    ) {
        let (near, mut far) = UnixStream::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        far.set_nonblocking(true).unwrap();
        let tls = Tls::new("a", &Trust::All).unwrap();
        let mut stream = Stream::new(near.into(), Some(&tls)).unwrap();
        let mut config = Certificate::of_names(&["a"]).server_of(ALL_VERSIONS);
        config.max_fragment_size = Some(record);
        let mut server = ServerConnection::new(Arc::new(config)).unwrap();
        server.set_buffer_limit(None);
        server.writer().write_all(&text).unwrap();
        let (mut unsent, mut found, mut is_ready) = (Vec::new(), Vec::new(), false);
        let mut buffer = vec![0; 128 << 10];
        for piece in pieces.iter().cycle().take(100_000) {
            let call = match is_ready {
                false => stream.shake_hands(&mut buffer).map(|is_over| is_ready = is_over),
                true => stream.receive(&mut buffer, false).map(|(count, _)| {
                    found.extend_from_slice(&buffer[..count]);
                }),
            };
            let waits = |error| matches!(error, StreamError::System(Errno::INTR | Errno::AGAIN));
            prop_assert!(call.is_ok() || call.is_err_and(waits));
            if found.len() >= text.len() {
                break;
            }
            // What the client sends last of its handshake goes with its request.
            if is_ready && server.is_handshaking() {
                let _ = stream.send(b"x", &mut 0).unwrap();
            }
            if server.read_tls(&mut far).is_ok() {
                server.process_new_packets().unwrap();
            }
            while server.wants_write() {
                server.write_tls(&mut unsent).unwrap();
            }
            let sent = far.write(&unsent[..unsent.len().min(*piece)]).unwrap();
            unsent.drain(..sent);
        }
        prop_assert!(found == text);
    }
}

#[test]
fn text_without_certificates_is_refused() {
    let text = |trust: &Trust| Tls::new("a", trust).map(drop).unwrap_err().to_string();
    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    for pem in ["", "no certificate\n", broken] {
        assert_eq!(text(&Trust::Pem(pem.to_owned())), "no certificate in PEM", "{pem}");
    }
    assert_eq!(
        Tls::new("a b", &Trust::All).unwrap_err().to_string(),
        "`a b` can be no name of a certificate"
    );
}

#[test]
fn request_larger_than_the_buffers_is_sent_whole() {
    let body = vec![b'x'; 5 << 20];
    let (listener, near) = pair();
    let length = body.len();
    let server = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let config = Certificate::of_names(&["a"]).server();
        let mut connection = ServerConnection::new(config).unwrap();
        let mut seen = 0;
        while seen < length {
            connection.complete_io(&mut socket).unwrap();
            let mut plain = Vec::new();
            let _ = connection.reader().read_to_end(&mut plain);
            seen += plain.len();
        }
        connection.writer().write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
        connection.send_close_notify();
        connection.complete_io(&mut socket).unwrap();
        seen
    });
    let mut stream = stream(near, "a", &Trust::All).unwrap();
    limits().send(&mut stream, &body).unwrap();
    assert_eq!(server.join().unwrap(), length);
    let mut buffer = vec![0; 16 << 10];
    let (head, _) = limits().head(&mut stream, &mut buffer, |_, _, _| {}).unwrap();
    assert_eq!((head.status, head.framing), (200, Framing::UntilClose));
}
