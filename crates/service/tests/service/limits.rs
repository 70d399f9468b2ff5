//! Clients that are slow, many or wrong, and files that change. Whose place is taken, and when, is
//! tested with a scripted clock beside the reactor.

use std::io::Read as _;

use crate::RunningService;
use crate::client::LabClient;

#[test]
fn idle_connections_are_closed() {
    let service = RunningService::with(|options| options.limits.idle_ns = 1);
    service.connect().assert_closed();
}

#[test]
fn refused_requests_close_the_connection() {
    let service = RunningService::new();
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
    let service = RunningService::new();
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
    let service = RunningService::new();
    let mut client = service.connect();
    client.send(format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "x".repeat(1 << 20)));
    assert_eq!(client.reply().status, 431);
}

#[test]
fn truncated_file_ends_its_connection_only() {
    let service = RunningService::new();
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
    let service = RunningService::new();
    service.file("large", 16 << 20);
    let small = service.file("small", 100);
    let mut slow: Vec<LabClient> = (0..200).map(|_| service.connect()).collect();
    for client in &mut slow {
        client.send("GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n");
    }
    for _ in 0..100 {
        assert!(service.get("/small").body == small);
    }
    assert_eq!(slow[199].reply().body.len(), 16 << 20);
}
