//! Files that change while they are sent, and what cannot be sent: that request fails, and others
//! in flight get the right bytes.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc;

use rustix::fs::{CWD, FileType, Mode, OFlags, makedev, mknodat, open};
use rustix::net::sockopt::set_socket_recv_buffer_size;

use crate::RunningService;
use crate::client::LabClient;
use crate::traversal::TraversalStop;

/// More than the kernel keeps of a response for a client with a small buffer.
const LARGE: usize = 8 << 20;

/// Clients whose responses have begun.
fn begin(service: &RunningService, target: &str, count: usize) -> Vec<LabClient> {
    let one = |_| {
        let mut client = service.connect();
        set_socket_recv_buffer_size(&client.stream, 64 << 10).expect("an option");
        client.send(format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        assert_eq!(client.stream.peek(&mut [0]).expect("a response"), 1);
        client
    };
    (0..count).map(one).collect()
}

#[test]
fn truncation_fails_only_the_responses_of_its_file() {
    for cold in [false, true] {
        let service = RunningService::with(|options| options.cold = cold);
        let lengths = [4097, 0, LARGE as u64 / 2];
        for length in lengths.into_iter().take(if cold { 1 } else { 3 }) {
            let cut = service.file("cut", LARGE);
            let other = service.file("other", LARGE + 1);
            let mut failing = begin(&service, "/cut", 2);
            let mut others = begin(&service, "/other", 2);
            let file = fs::File::options().write(true).open(service.path("cut")).expect("it");
            file.set_len(length).expect("shorter");
            for client in &mut failing {
                let arrived = client.rest();
                let body = arrived.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
                let body = &arrived[body + 4..];
                assert!(body.len() < LARGE, "{} bytes", body.len());
                // The kernel sends the pages of the file: of the last one the rest is zeroed.
                let is_ours = |(sent, was): (&u8, &u8)| sent == was || *sent == 0;
                assert!(body.iter().zip(&cut).all(is_ours), "cut to {length}");
            }
            for client in &mut others {
                assert!(client.reply().body == other, "cut to {length}");
            }
            assert_eq!(service.get("/cut").body.len() as u64, length);
        }
    }
}

#[test]
fn replaced_and_deleted_files_arrive_as_they_were() {
    for cold in [false, true] {
        let service = RunningService::with(|options| options.cold = cold);
        let old = service.file("a", LARGE);
        let mut before = begin(&service, "/a", 2);
        let new = service.file("b", LARGE + 1);
        fs::rename(service.path("b"), service.path("a")).expect("a rename");
        let mut after = begin(&service, "/a", 2);
        fs::remove_file(service.path("a")).expect("a file");
        assert!(before.iter_mut().all(|client| client.reply().body == old));
        assert!(after.iter_mut().all(|client| client.reply().body == new));
        assert_eq!(before[0].get("/a").status, 404);
    }
}

#[test]
fn constantly_changing_file_never_stalls() {
    let service = RunningService::new();
    let good = service.file("good", 100_000);
    for most in [30_000, 200_000] {
        fs::write(service.path("a"), "").expect("a file");
        let file = fs::File::options().write(true).open(service.path("a")).expect("it");
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let _stop = TraversalStop(&is_over);
            scope.spawn(|| {
                while !is_over.load(Relaxed) {
                    for length in [most, 1, most / 2, 0] {
                        file.set_len(length).expect("a length");
                    }
                }
            });
            let mut other = service.connect();
            for _ in 0..100 {
                let mut client = service.connect();
                client.send("GET /a HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
                let arrived = client.rest();
                // Zeroes, as many as promised or fewer; never anything else.
                let text = String::from_utf8(arrived).expect("a head and zeroes");
                let (head, body) = text.split_once("\r\n\r\n").expect("a head");
                let length = head.split_once("Content-Length: ").expect("a length").1;
                let length = length.lines().next().expect("digits").parse().expect("digits");
                // Before its first byte was read it may have become empty.
                let is_refused = head.starts_with("HTTP/1.1 500 ");
                let is_zero = is_refused || body.bytes().all(|byte| byte == 0);
                assert!(body.len() <= length && is_zero, "{head}");
                assert!(other.get("/good").body == good);
            }
        });
    }
}

#[test]
fn unservable_files_fail_alone() {
    let service = RunningService::new();
    let large = service.file("large", LARGE);
    let good = service.file("good", 10);
    let mode = Mode::from_raw_mode(0o666);
    mknodat(CWD, service.path("fifo"), FileType::Fifo, mode, 0).expect("a FIFO");
    mknodat(CWD, service.path("fed"), FileType::Fifo, mode, 0).expect("a FIFO");
    // With a writer: it could be opened and read.
    let mut feed = fs::File::options();
    let feed = feed.read(true).write(true).open(service.path("fed")).expect("a FIFO");
    std::io::Write::write_all(&mut &feed, b"canary").expect("room");
    let _socket = UnixListener::bind(service.path("socket")).expect("a socket");
    symlink("loop", service.path("loop")).expect("a symlink");
    symlink(".", service.path("self")).expect("a symlink");
    let mut targets = vec!["fifo", "fed", "socket", "loop", "loop/a"];
    let device = FileType::CharacterDevice;
    if mknodat(CWD, service.path("zero"), device, mode, makedev(1, 5)).is_ok() {
        targets.push("zero");
    }
    let mut others = begin(&service, "/large", 4);
    let mut client = service.connect();
    for target in &targets {
        let one = |name| format!("GET /{name} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        client.send(one("good") + &one(target) + &one("self/self/good"));
        assert!(client.reply().body == good);
        assert_eq!(client.reply().status, 404, "{target}");
        assert!(client.reply().body == good);
    }
    // A loop of folders has no end, but neither the page nor the list follows it.
    let list = service.json("/.fathom/list")["files"].as_array().expect("files").len();
    assert_eq!(list, 2);
    let page = client.get("/").text();
    assert!(page.contains("self/") && !targets.iter().any(|name| page.contains(name)), "{page}");
    assert!(others.iter_mut().all(|client| client.reply().body == large));
}

/// A writer waits in its open until somebody reads. A mere open would let it go, and its write
/// fail.
#[test]
fn writer_of_fifo_waits_on() {
    let service = RunningService::new();
    let (path, mode) = (service.path("fifo"), Mode::from_raw_mode(0o666));
    mknodat(CWD, &path, FileType::Fifo, mode, 0).expect("a FIFO");
    std::thread::scope(|scope| {
        let (begun, begins) = mpsc::channel();
        let path = &path;
        let writer = scope.spawn(move || {
            begun.send(()).expect("the test waits");
            fs::write(path, "content")
        });
        begins.recv().expect("it begins");
        for _ in 0..100 {
            assert_eq!(service.get("/fifo").status, 404);
        }
        let nonblocking = OFlags::RDONLY | OFlags::NONBLOCK;
        let reader = open(path, nonblocking, Mode::empty()).expect("a FIFO");
        writer.join().expect("no panic").expect("somebody reads");
        assert_eq!(std::io::read_to_string(fs::File::from(reader)).expect("a FIFO"), "content");
    });
}
