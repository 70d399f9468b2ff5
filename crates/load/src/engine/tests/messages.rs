//! Requests with other methods, with bodies, and to a socket file.

use super::*;
use crate::message::Message;

fn with_message(server: &Server, method: &str, body: &[u8], clients: u32) -> Workload {
    let message = Message { method: method.to_owned(), body: body.to_vec() };
    let fields = Fields { host: "test".to_owned(), message, ..Fields::default() };
    let requests = Arc::new(Requests::new(&[("/f".to_owned(), None)], &fields));
    Workload { requests, ..server.work(clients) }
}

#[test]
fn requests_with_bodies_are_sent_whole() {
    let body = vec![b'd'; 3 << 20];
    for server in [Server::start(Manner::Right), Server::secured(Manner::Right, true)] {
        let outcome = sweep(&with_message(&server, "POST", &body, 2));
        assert!(outcome.tally.completed() >= 10 && outcome.tally.failed() == 0);
    }
}

#[test]
fn responses_to_posts_may_differ_in_length() {
    let server = Server::start(Manner::ChangesLength { chunked: false });
    let tally = sweep_of(&with_message(&server, "POST", b"dd", 1), 40).tally;
    assert!(tally.completed() >= 40 && tally.failed() == 0, "{:?}", tally.faults);
}

#[test]
fn servers_at_a_socket_file_are_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten().take(2) {
            std::thread::spawn(move || serve(stream, Manner::Right, &AtomicU32::new(0)));
        }
    });
    let address = Address::Unix(path);
    let unused = SocketAddr::from(([127, 0, 0, 1], 0));
    let tally = sweep(&Workload { address, ..work(unused, 2) }).tally;
    assert!(tally.completed() >= 10 && tally.failed() == 0, "{:?}", tally.faults);
    assert_eq!((tally.connections, tally.congestion), (2, None));
}

#[test]
fn only_idempotent_requests_are_sent_twice() {
    for (method, faults) in [("GET", vec![]), ("PUT", vec![]), ("POST", vec![Fault::Stale])] {
        let server = Server::start(Manner::AnswersOnce);
        let tally = sweep(&with_message(&server, method, b"", 1)).tally;
        assert_eq!(tally.faults.keys().copied().collect::<Vec<_>>(), faults, "{method}");
    }
}
