//! Clients that are slow, many or wrong, and files that change.

use std::io::Read as _;
use std::time::Duration;

use crate::Service;
use crate::client::Client;

const SECOND_NS: u64 = 1_000_000_000;

#[test]
fn slow_head_is_refused_and_closed() {
    let service = Service::with(|options| options.limits.head_ns = SECOND_NS / 5);
    let mut client = service.connect();
    for byte in "GET / HTTP/1.1\r\n".as_bytes().chunks(1) {
        client.send(byte);
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(client.reply().status, 408);
    client.assert_closed();
}

#[test]
fn idle_connections_are_closed() {
    let service = Service::with(|options| options.limits.idle_ns = SECOND_NS / 5);
    service.file("a", 1);
    service.connect().assert_closed();
    let mut client = service.connect();
    client.get("/a");
    client.assert_closed();
}

#[test]
fn refused_requests_close_the_connection() {
    let service = Service::new();
    for request in [
        "GET / HTTP/1.1\nHost: a\n\n",
        "GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 30\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ] {
        let mut client = service.connect();
        client.send(format!("{request}GET /.fathom/health HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        assert!(client.reply().status >= 400, "{request}");
        // What follows is not taken for a request.
        client.finish_sending();
        client.assert_closed();
    }
}

#[test]
fn refusal_is_followed_by_an_end_not_a_reset() {
    let service = Service::new();
    let mut client = service.connect();
    let content = "x".repeat(300_000);
    client.send(format!(
        "PUT /a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 300000\r\n\r\n{content}"
    ));
    assert_eq!(client.reply().status, 405);
    // A reset, because of unread content, could overtake the reply.
    assert_eq!(client.stream.read(&mut [0]).expect("no reset"), 0);
}

#[test]
fn large_head_is_refused() {
    let service = Service::new();
    let mut client = service.connect();
    client.send(format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "x".repeat(1 << 20)));
    assert_eq!(client.reply().status, 431);
}

#[test]
fn connections_above_the_limit_are_refused() {
    let service = Service::with(|options| options.limits.connections = Some(4));
    service.file("large", 16 << 20);
    // Busy, so that they cannot be closed as idle ones can.
    let mut busy: Vec<Client> = (0..4).map(|_| service.connect()).collect();
    for client in &mut busy {
        client.send("GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert_eq!(client.stream.peek(&mut [0]).expect("a response"), 1);
    }
    assert_eq!(service.connect().reply().status, 503);
    assert_eq!(busy[0].reply().body.len(), 16 << 20);
    drop(busy);
    let answered = || {
        let mut client = service.connect();
        client.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
        client.reply().status == 200
    };
    let is_free = (0..100).any(|_| {
        std::thread::sleep(Duration::from_millis(20));
        answered()
    });
    assert!(is_free, "places are not given back");
}

#[test]
fn idle_connections_make_room() {
    let service = Service::with(|options| {
        options.limits.connections = Some(10);
        // Of two reactors each closes its own oldest one.
        options.threads = Some(1);
    });
    service.file("a", 1);
    let mut idle: Vec<Client> = Vec::new();
    for _ in 0..40 {
        let mut client = service.connect();
        assert_eq!(client.get("/a").status, 200);
        idle.push(client);
    }
    idle[0].assert_closed();
    assert_eq!(idle[39].get("/a").status, 200);
}

#[test]
fn answered_connections_make_room() {
    let service = Service::with(|options| {
        options.limits.connections = Some(10);
        options.threads = Some(1);
    });
    service.file("a", 1);
    // They are read for a second after the refusal.
    let refuse = |_| {
        let mut client = service.connect();
        client.send("POST /a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n");
        assert!(client.reply().status >= 400);
        client
    };
    let refused: Vec<Client> = (0..10).map(refuse).collect();
    assert_eq!(service.connect().get("/a").status, 200);
    drop(refused);
}

#[test]
fn client_that_does_not_read_is_closed() {
    let service = Service::with(|options| options.limits.rate_after_ns = SECOND_NS / 2);
    service.file("large", 64 << 20);
    let mut client = service.connect();
    client.send("GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let is_closed = (0..200).any(|_| {
        std::thread::sleep(Duration::from_millis(50));
        service.json("/.fathom/telemetry")["connections"] == 1
    });
    assert!(is_closed, "it is still connected");
    let mut all = Vec::new();
    // Reset: the rest is not kept for it.
    assert!(client.stream.read_to_end(&mut all).is_err() && all.len() < 64 << 20);
}

#[test]
fn truncated_file_ends_its_connection_only() {
    let service = Service::new();
    let bytes = service.file("large", 64 << 20);
    let small = service.file("small", 10);
    let mut client = service.connect();
    client.send("GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(client.stream.peek(&mut [0]).expect("a response"), 1);
    let file = std::fs::OpenOptions::new().write(true).open(service.path("large")).expect("it");
    file.set_len(1 << 20).expect("shorter");
    let arrived = client.rest();
    assert!(arrived.len() < bytes.len(), "{} bytes", arrived.len());
    assert!(service.get("/small").body == small);
    assert_eq!(service.get("/large").body.len(), 1 << 20);
}

#[test]
fn slow_readers_do_not_delay_others() {
    let service = Service::new();
    service.file("large", 16 << 20);
    let small = service.file("small", 100);
    let mut slow: Vec<Client> = (0..200).map(|_| service.connect()).collect();
    for client in &mut slow {
        client.send("GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n");
    }
    for _ in 0..100 {
        assert!(service.get("/small").body == small);
    }
    let resident = service.json("/.fathom/telemetry")["resident_bytes"].as_u64().expect("bytes");
    assert!(resident < 200 << 20, "{resident} bytes for 200 slow readers");
    assert_eq!(slow[199].reply().body.len(), 16 << 20);
}
