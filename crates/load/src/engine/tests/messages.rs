//! Requests with other methods, with bodies, and to a socket file.

use std::collections::BTreeMap;

use super::*;
use crate::message::Message;

fn with_message(server: &EngineServer, method: &str, body: &[u8], clients: u32) -> Workload {
    let message = Message { method: method.to_owned(), body: body.to_vec() };
    let fields = Fields { host: "test".to_owned(), message, ..Fields::default() };
    let requests = Arc::new(Requests::new(&[("/f".to_owned(), None)], &fields));
    Workload { requests, ..server.work(clients) }
}

#[test]
fn requests_with_bodies_are_sent_whole() {
    let body = vec![b'd'; 3 << 20];
    for server in [EngineServer::start(Manner::Right), EngineServer::secured(Manner::Right, true)] {
        let outcome = sweep(&with_message(&server, "POST", &body, 2));
        assert!(outcome.tally.window.completed() >= 10 && outcome.tally.failed() == 0);
    }
}

#[test]
fn responses_to_posts_may_differ_in_length() {
    let server = EngineServer::start(Manner::ChangesLength { chunked: false });
    let tally = sweep_of(&with_message(&server, "POST", b"dd", 1), 40).tally;
    assert!(tally.window.completed() >= 40 && tally.failed() == 0, "{:?}", tally.faults);
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
    let address = ServerAddress::Unix(path);
    let unused = SocketAddr::from(([127, 0, 0, 1], 0));
    let tally = sweep(&Workload { address, ..work(unused, 2) }).tally;
    assert!(tally.window.completed() >= 10 && tally.failed() == 0, "{:?}", tally.faults);
    assert_eq!((tally.window.connections, tally.congestion), (2, None));
}

#[test]
fn only_idempotent_requests_are_sent_twice() {
    for (method, faults) in [("GET", vec![]), ("PUT", vec![]), ("POST", vec![Fault::Stale])] {
        let server = EngineServer::start(Manner::AnswersOnce);
        let tally = sweep(&with_message(&server, method, b"", 1)).tally;
        assert_eq!(tally.faults.keys().copied().collect::<Vec<_>>(), faults, "{method}");
    }
}

/// Redirects `/f` to `/g`, which it has, and `/away` to another server.
fn redirecting(stream: TcpStream) -> Option<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            (reader.read_line(&mut head).ok()? > 0).then_some(())?;
        }
        let answer = match head.split(' ').nth(1)? {
            "/f" => "302 x\r\nLocation: /g\r\nContent-Length: 0\r\n\r\n",
            "/away" => "301 x\r\nLocation: http://a/\r\nContent-Length: 0\r\n\r\n",
            _ => "200 x\r\nContent-Length: 2\r\n\r\nab",
        };
        reader.get_mut().write_all(format!("HTTP/1.1 {answer}").as_bytes()).ok()?;
    }
}

#[test]
fn redirects_are_part_of_their_request() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || redirecting(stream));
        }
    });
    let fields = Fields { host: "test".to_owned(), ..Fields::default() };
    let follow = Some(Url::parse(&format!("http://{address}/f")).unwrap());
    let timing = Timing { requests: Some(50), ..TIMING };
    for (path, follow, completed, statuses, faults) in [
        ("/f", follow.clone(), 50, vec![(200, 50), (302, 50)], vec![]),
        ("/f", None, 0, vec![(302, 50)], vec![(Fault::Status(302), 50)]),
        (
            "/away",
            follow,
            0,
            vec![(301, 50)],
            vec![(Fault::Redirect("to another scheme, host or port"), 50)],
        ),
    ] {
        let requests = Arc::new(Requests::new(&[(path.to_owned(), None)], &fields));
        let work = Workload { requests, follow, ..work(address, 2) };
        let tally = run(&work, timing, &mut |_, _| true).unwrap().tally;
        assert_eq!(tally.window.completed(), completed, "{path}");
        assert_eq!(tally.window.statuses, BTreeMap::from_iter(statuses), "{path}");
        assert_eq!(tally.faults, BTreeMap::from_iter(faults), "{path}");
    }
}
