//! The endpoint over real sockets.

use std::net::Ipv4Addr;

use super::*;

const GET: &[u8] = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
/// Nobody waits so long.
const LONG: Duration = Duration::from_secs(60);

fn monitor(token: Option<String>) -> (Monitor, Arc<Watched>) {
    let watched = Watched::new(1);
    let any = (Ipv4Addr::LOCALHOST, 0).into();
    (Monitor::start(any, token, Arc::clone(&watched)).unwrap(), watched)
}

fn connected(monitor: &Monitor) -> TcpStream {
    let stream = TcpStream::connect(monitor.address).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream
}

fn answer_to(mut stream: TcpStream, request: &[u8]) -> String {
    stream.write_all(request).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn scrapes_are_of_the_present_counts() {
    let (monitor, watched) = monitor(None);
    for count in 1..=3 {
        watched.meter.dial(0).unwrap().complete(1_000_000, 5);
        let text = answer_to(connected(&monitor), GET);
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
        assert!(text.contains(&format!("_count {count}\n")) && text.ends_with("# EOF\n"), "{text}");
    }
}

#[test]
fn clients_that_send_nothing_are_given_up_for_others() {
    let (monitor, _) = monitor(None);
    // More than there is room for.
    let idle: Vec<TcpStream> = (0..2 * CONNECTIONS_MAX).map(|_| connected(&monitor)).collect();
    let text = answer_to(connected(&monitor), GET);
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
    for mut stream in idle {
        assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0, "dropped");
    }
}

#[test]
fn long_requests_are_answered_and_no_more_is_kept() {
    let (monitor, _) = monitor(None);
    let mut request = b"GET /metrics HTTP/1.1\r\n".to_vec();
    request.resize(3 * HEAD_BYTES_MAX, b'a');
    let text = answer_to(connected(&monitor), &request);
    assert!(text.starts_with("HTTP/1.1 431 "), "{text}");
}

#[test]
fn beyond_loopback_a_request_has_the_token() {
    let (monitor, _) = monitor(Some("secret".to_owned()));
    assert!(answer_to(connected(&monitor), GET).starts_with("HTTP/1.1 401 "));
    let with = b"GET /metrics HTTP/1.1\r\nAuthorization: Bearer secret\r\n\r\n";
    assert!(answer_to(connected(&monitor), with).starts_with("HTTP/1.1 200 "));
}

#[test]
fn end_closes_the_port() {
    let (monitor, _) = monitor(None);
    let address = monitor.address;
    let mut waiting = connected(&monitor);
    drop(monitor);
    assert_eq!(waiting.read(&mut [0]).unwrap_or(0), 0);
    assert!(TcpStream::connect(address).is_err());
}
