//! Time limits, and who is closed when places run out. The clock is scripted, and the reactor runs
//! in the thread of the test.

use std::cell::Cell;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{AddressFamily, SocketType, connect, socket, sockopt};

use super::*;
use crate::connection::{LEFT_NS, LINGER_NS};
use crate::held::HELD_BYTES_MAX;
use crate::job::{CONTROL_MAX, Done, Job, Kind, Work};
use crate::lane::make;
use crate::options::{Options, ServiceLimits};
use crate::page::Made;
use crate::refusal::Refusal;

const SECOND_NS: u64 = 1_000_000_000;
const HEALTH: &str = "GET /.fathom/health HTTP/1.1\r\nHost: localhost\r\n\r\n";
/// More than the kernel keeps of it for a client that does not read.
const LARGE: &str = "GET /.fathom/source/67108864 HTTP/1.1\r\nHost: localhost\r\n\r\n";
/// The kernel takes all of it, and a client with a small buffer gets only a part.
const MEDIUM: &str = "GET /.fathom/source/16384 HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// Opened without a lane.
const OPENED: &str = "/opened";
/// In the counters by status.
const STATUS_503: usize = 19;

thread_local! {
    static NOW_NS: Cell<u64> = const { Cell::new(SECOND_NS) };
}

struct Scripted {
    reactor: ServiceReactor,
    address: SocketAddr,
    limits: ServiceLimits,
    folder: tempfile::TempDir,
}

impl Scripted {
    fn new(places: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut options = Options::new(folder.path());
        options.listen = vec!["127.0.0.1:0".parse().unwrap()];
        options.threads = Some(1);
        options.limits.connections = Some(places);
        let limits = options.limits.clone();
        let (shared, addresses) = crate::server::prepare(options).unwrap();
        let reactor = ServiceReactor::new(shared, 0, || NOW_NS.get()).unwrap();
        Self { reactor, address: addresses[0], limits, folder }
    }

    /// Handles the events that come until something holds.
    fn until(&mut self, is_so: impl Fn(&ServiceCounters) -> bool) {
        while !is_so(self.reactor.own()) {
            self.turn();
        }
    }

    /// Waits for events and handles them.
    fn turn(&mut self) {
        let mut events = Vec::with_capacity(EVENTS);
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let more = !self.reactor.again.is_empty();
        self.reactor.wait(&mut events, more.then_some(now));
        self.reactor.round(&events);
    }

    /// Lets time pass, in which nothing arrives.
    fn pass(&mut self, ns: u64) {
        NOW_NS.set(NOW_NS.get() + ns);
        self.reactor.round(&[]);
    }

    fn connections(&self) -> usize {
        self.reactor.own().connections.load(Relaxed)
    }

    /// Counts of connections that were closed at a limit, and of responses that were cut.
    fn closed(&self) -> (u64, u64) {
        (self.reactor.own().timed_out.get(), self.reactor.own().broken.get())
    }

    fn connect(&mut self) -> TcpStream {
        let accepted = self.reactor.own().accepted.get();
        let client = TcpStream::connect(self.address).unwrap();
        self.until(|own| own.accepted.get() > accepted);
        client
    }

    /// With a buffer so small that most of a response waits in the service's.
    fn connect_small(&mut self) -> TcpStream {
        let client = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        sockopt::set_socket_recv_buffer_size(&client, 4096).unwrap();
        let accepted = self.reactor.own().accepted.get();
        connect(&client, &self.address).unwrap();
        self.until(|own| own.accepted.get() > accepted);
        client.into()
    }

    /// Sends a request and waits until bytes of its response have left.
    fn ask(&mut self, client: &mut TcpStream, request: &str) {
        let sent = self.reactor.own().wire_bytes.get();
        client.write_all(request.as_bytes()).unwrap();
        self.until(|own| own.wire_bytes.get() > sent);
    }

    /// Asks for a response and reads it.
    fn answers(&mut self, client: &mut TcpStream) {
        self.ask(client, HEALTH);
        assert_eq!(status(client), 200);
    }

    /// Hands in what a lane has done for the first connection.
    fn deliver(&mut self, done: Done) {
        let place = TicketPlace::default();
        self.reactor.handler.shared.mailboxes[0].leave(Mail::Done { place, done });
        self.turn();
    }

    /// Sends a request that waits for a lane. None runs.
    fn wait_for_lane(&mut self, target: &str) -> TcpStream {
        let client = self.connect();
        self.ask_lane(client, target)
    }

    fn ask_lane(&mut self, mut client: TcpStream, target: &str) -> TcpStream {
        let waiting = self.waiting();
        let method = if target.contains("evict") { "POST" } else { "GET" };
        let head =
            format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n");
        // With it a lane opens the file.
        let dose = if target == OPENED { "" } else { "Fathom-Dose: disk_bytes=1\r\n" };
        let sent = self.reactor.own().wire_bytes.get();
        client.write_all(format!("{head}{dose}\r\n").as_bytes()).unwrap();
        while self.waiting() == waiting && self.reactor.own().wire_bytes.get() == sent {
            self.turn();
        }
        client
    }

    /// Jobs in the queues of lanes.
    fn waiting(&self) -> usize {
        self.reactor.handler.shared.queues.iter().map(|queue| queue.len()).sum()
    }

    /// Connects clients, and answers one request of each, a millisecond after that of the one
    /// before.
    fn answered(&mut self, count: usize) -> Vec<TcpStream> {
        let one = |_| {
            let mut client = self.connect();
            self.answers(&mut client);
            NOW_NS.set(NOW_NS.get() + 1_000_000);
            client
        };
        (0..count).map(one).collect()
    }

    /// Reads `bytes` that the reactor sends meanwhile.
    fn read(&mut self, client: &mut TcpStream, bytes: usize) {
        client.set_nonblocking(true).unwrap();
        let (mut buffer, mut left) = (vec![0; 1 << 16], bytes);
        while left > 0 {
            let most = left.min(buffer.len());
            match client.read(&mut buffer[..most]) {
                Ok(read) => left -= read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    // The reactor may have nothing to do before the client has read.
                    let readable = PollFd::new(client, PollFlags::IN);
                    let mut either = [PollFd::new(&self.reactor.epoll, PollFlags::IN), readable];
                    if self.reactor.again.is_empty() {
                        poll(&mut either, None).unwrap();
                    }
                    if either[1].revents().is_empty() {
                        self.turn();
                    }
                }
                Err(error) => panic!("{error}"),
            }
        }
        client.set_nonblocking(false).unwrap();
    }
}

/// The status of a whole response to [`HEALTH`], or of a refusal.
fn status(client: &mut TcpStream) -> u16 {
    let head = fathom_testing::read_head(client).unwrap();
    let length = head.split("Content-Length: ").nth(1).unwrap().lines().next().unwrap();
    client.read_exact(&mut vec![0; length.parse().unwrap()]).unwrap();
    head[9..12].parse().unwrap()
}

/// What arrives until the connection is closed; an error if it is reset.
fn rest(mut client: TcpStream) -> std::io::Result<usize> {
    let mut bytes = Vec::new();
    client.read_to_end(&mut bytes)
}

#[test]
fn idle_connection_is_closed_at_its_limit() {
    let mut service = Scripted::new(100);
    let new = service.connect();
    let mut answered = service.connect();
    service.pass(SECOND_NS);
    service.answers(&mut answered);
    service.pass(service.limits.idle_ns - SECOND_NS - 1);
    assert_eq!(service.connections(), 2);
    service.pass(TICK_NS);
    assert_eq!((service.connections(), service.closed()), (1, (1, 0)));
    assert_eq!(rest(new).unwrap(), 0);
    service.pass(SECOND_NS);
    assert_eq!((service.connections(), service.closed()), (0, (2, 0)));
    assert_eq!(rest(answered).unwrap(), 0);
}

#[test]
fn slow_head_is_refused_at_its_limit() {
    let mut service = Scripted::new(100);
    let mut client = service.connect();
    let parts = HEALTH.as_bytes().chunks(10).take(4);
    for (number, part) in parts.enumerate() {
        client.write_all(part).unwrap();
        // More of it does not begin the time again.
        while service.reactor.connections[0].as_ref().unwrap().pending.len() < 10 * (number + 1) {
            service.turn();
        }
        service.pass(service.limits.head_ns / 4 - 1);
    }
    assert_eq!(service.closed(), (0, 0));
    service.pass(TICK_NS);
    assert_eq!((status(&mut client), service.closed()), (408, (1, 0)));
    assert_eq!(service.connections(), 1, "what it still sends is read");
    service.pass(LINGER_NS);
    assert_eq!(service.connections(), 0);
    assert_eq!(rest(client).unwrap(), 0);
}

#[test]
fn response_that_is_not_read_is_cut() {
    let mut service = Scripted::new(100);
    let mut client = service.connect_small();
    service.ask(&mut client, LARGE);
    service.pass(service.limits.rate_after_ns - 1);
    assert_eq!(service.connections(), 1);
    service.pass(TICK_NS);
    assert_eq!((service.connections(), service.closed()), (0, (1, 1)));
    // Reset: the rest is not kept for it.
    assert!(rest(client).is_err());
}

#[test]
fn response_that_is_read_at_the_rate_goes_on() {
    let mut service = Scripted::new(100);
    let mut client = service.connect_small();
    service.ask(&mut client, LARGE);
    for _ in 0..3 {
        service.read(&mut client, 4 << 20);
        service.pass(service.limits.rate_after_ns);
        assert_eq!(service.connections(), 1);
    }
    service.pass(service.limits.rate_after_ns);
    assert_eq!((service.connections(), service.closed()), (0, (1, 1)));
}

#[test]
fn response_in_the_kernel_has_time_to_be_read() {
    let mut service = Scripted::new(100);
    let mut clients = [service.connect_small(), service.connect_small()];
    clients.iter_mut().for_each(|client| service.ask(client, MEDIUM));
    service.until(|own| own.by_status[0].get() == 2);
    service.pass(service.limits.idle_ns);
    assert_eq!(service.connections(), 2, "not read yet");
    let [mut reader, other] = clients;
    service.read(&mut reader, 16384);
    let slots = 0..2_u32;
    let unsent = |service: &Scripted, slot: u32| {
        service.reactor.connections[slot as usize].as_ref().unwrap().count_unsent()
    };
    while slots.clone().all(|slot| unsent(&service, slot) > 0) {
        std::thread::yield_now();
    }
    service.pass(service.limits.idle_ns);
    assert_eq!((service.connections(), service.closed()), (0, (2, 0)));
    assert!(rest(reader).is_ok() && rest(other).is_err());
}

#[test]
fn wait_for_a_lane_has_a_limit() {
    // Opening, making a page of each kind; the last has the time of ten.
    for (target, waits) in
        [("/a", 1), ("/", 1), ("/.fathom/metrics", 1), ("/.fathom/list", 1), ("/.fathom/evict", 10)]
    {
        let mut service = Scripted::new(100);
        let mut client = service.wait_for_lane(target);
        service.pass(waits * service.limits.wait_ns - 1);
        assert_eq!((service.waiting(), service.closed()), (1, (0, 0)), "{target}");
        service.pass(TICK_NS);
        assert_eq!((status(&mut client), service.closed()), (503, (1, 0)), "{target}");
        assert_eq!(service.waiting(), 0, "its job is dropped");
        // What a lane has done meanwhile is ignored.
        let done = Done::Made(Made::refusal(Refusal::Late));
        service.deliver(done);
        assert_eq!(service.reactor.own().by_status[STATUS_503].get(), 1, "{target}");
    }
}

#[test]
fn load_of_a_file_has_a_limit() {
    // Before its first byte, and behind it.
    for sent in [0, 4 << 20] {
        let mut service = Scripted::new(100);
        // Nothing of it is in memory.
        let file = std::fs::File::create(service.folder.path().join("opened")).unwrap();
        file.set_len(64 << 20).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &vec![1; sent], 0).unwrap();
        let mut client = service.wait_for_lane(OPENED);
        if sent > 0 {
            service.read(&mut client, sent);
        }
        while service.waiting() == 0 {
            service.turn();
        }
        service.pass(service.limits.wait_ns);
        match sent {
            0 => assert_eq!(status(&mut client), 503),
            _ => assert!(rest(client).is_err(), "reset"),
        }
        assert_eq!((service.waiting(), service.closed().0), (0, 1), "{sent}");
    }
}

#[test]
fn wait_for_a_lane_is_not_charged_to_the_client() {
    let mut service = Scripted::new(100);
    let file = std::fs::File::create(service.folder.path().join("opened")).unwrap();
    file.set_len(64 << 20).unwrap();
    let client = service.connect_small();
    let client = service.ask_lane(client, OPENED);
    service.pass(service.limits.rate_after_ns);
    let job = service.reactor.handler.shared.queue(Kind::Read).pop().unwrap();
    let Work::Load(mut response) = job.work else { panic!("{job:?}") };
    response.set_loaded(2 << 20, NOW_NS.get());
    let done = Done::Loaded(response, Ok(()));
    service.deliver(done);
    service.pass(TICK_NS);
    assert_eq!((service.connections(), service.closed()), (1, (0, 0)));
    service.pass(service.limits.rate_after_ns);
    assert_eq!((service.connections(), service.closed()), (0, (1, 1)));
    drop(client);
}

#[test]
fn client_that_left_frees_its_place_and_its_job() {
    for is_reset in [true, false] {
        let mut service = Scripted::new(4);
        let clients: Vec<TcpStream> = (0..4).map(|_| service.wait_for_lane("/")).collect();
        let waiting = service.waiting();
        let linger = is_reset.then_some(std::time::Duration::ZERO);
        clients.iter().for_each(|one| sockopt::set_socket_linger(one, linger).unwrap());
        drop(clients);
        let has_left = |c: &Connection| c.is_ended;
        while service.reactor.present().any(|c| !has_left(c)) {
            service.turn();
        }
        assert_eq!((waiting, service.connections()), (4, if is_reset { 0 } else { 4 }));
        // Those that have only closed their side make room at once where it is needed.
        let mut new = service.connect();
        service.answers(&mut new);
        service.pass(LEFT_NS);
        assert_eq!((service.connections(), service.waiting()), (1, 0), "{is_reset}");
    }
}

#[test]
fn full_queue_refuses() {
    let mut service = Scripted::new(100);
    let waiting: Vec<TcpStream> =
        (0..CONTROL_MAX).map(|_| service.wait_for_lane("/.fathom/evict")).collect();
    let mut refused = service.wait_for_lane("/.fathom/evict");
    assert_eq!((status(&mut refused), service.waiting()), (503, CONTROL_MAX));
    // Other kinds have room, and do not wait for long jobs of the disk.
    let others = [(Kind::Control, "/.fathom/metrics"), (Kind::List, "/.fathom/list")];
    let _others = others.map(|(kind, target)| {
        let other = service.wait_for_lane(target);
        assert_eq!(service.reactor.handler.shared.queue(kind).len(), 1, "{target}");
        other
    });
    drop(waiting);
}

#[test]
fn longest_idle_connection_makes_room() {
    let mut service = Scripted::new(10);
    let mut clients = service.answered(10);
    assert_eq!(service.closed(), (0, 0), "all are fresh");
    clients.push(service.connect());
    assert_eq!((service.connections(), service.closed()), (10, (1, 0)));
    assert_eq!(rest(clients.remove(0)).unwrap(), 0);
    service.answers(&mut clients[0]);
}

#[test]
fn room_is_made_early_of_what_is_not_fresh() {
    let mut service = Scripted::new(10);
    let mut clients = service.answered(9);
    NOW_NS.set(NOW_NS.get() + FRESH_NS);
    clients.push(service.connect());
    assert_eq!((service.connections(), service.closed()), (9, (1, 0)));
    assert_eq!(rest(clients.remove(0)).unwrap(), 0);
}

#[test]
fn place_of_waiting_request_is_not_taken() {
    let mut service = Scripted::new(10);
    let mut clients = service.answered(10);
    clients[0].write_all(HEALTH.as_bytes()).unwrap();
    let mut new = TcpStream::connect(service.address).unwrap();
    // Both have arrived after the reactor looked for events.
    let reactor = &mut service.reactor;
    let waiting = reactor.connections[0].as_ref().unwrap();
    for socket in [&waiting.socket, &reactor.handler.shared.listeners[0]] {
        poll(&mut [PollFd::new(socket, PollFlags::IN)], None).unwrap();
    }
    reactor.accept(0);
    assert_eq!((service.connections(), service.closed()), (10, (1, 0)));
    assert_eq!(status(&mut clients[0]), 200);
    assert_eq!(rest(clients.remove(1)).unwrap(), 0, "the place of one that waits for nothing");
    service.answers(&mut new);
}

#[test]
fn busy_connections_keep_their_places() {
    let mut service = Scripted::new(4);
    let mut busy: Vec<TcpStream> = (0..4).map(|_| service.connect()).collect();
    busy.iter_mut().for_each(|client| service.ask(client, LARGE));
    let mut refused = TcpStream::connect(service.address).unwrap();
    service.until(|own| own.refused.get() == 1);
    assert_eq!(status(&mut refused), 503);
    assert_eq!((service.connections(), service.closed()), (4, (0, 0)));
    drop(busy.pop());
    service.until(|own| own.connections.load(Relaxed) == 3);
    let mut next = service.connect();
    service.answers(&mut next);
}

#[test]
fn refused_connections_make_room() {
    let mut service = Scripted::new(4);
    let mut refused: Vec<TcpStream> = (0..4).map(|_| service.connect()).collect();
    for client in &mut refused {
        service.ask(client, "nonsense\r\n\r\n");
        assert_eq!(status(client), 400);
    }
    assert_eq!(service.connections(), 4, "what they still send is read");
    let mut new = service.connect();
    assert_eq!((service.connections(), service.closed()), (4, (1, 0)));
    service.answers(&mut new);
}

#[test]
fn half_heads_make_room() {
    let mut service = Scripted::new(4);
    let mut half: Vec<TcpStream> = (0..4).map(|_| service.connect()).collect();
    half.iter_mut().for_each(|client| client.write_all(&HEALTH.as_bytes()[..20]).unwrap());
    while service.reactor.present().any(Connection::is_idle) {
        service.turn();
    }
    let mut new = TcpStream::connect(service.address).unwrap();
    service.until(|own| own.accepted.get() + own.refused.get() == 5);
    assert_eq!((service.connections(), service.closed()), (4, (1, 0)));
    service.answers(&mut new);
}

#[test]
fn last_part_of_a_file_that_changed_is_not_sent() {
    const BYTES: u64 = 64 << 10;
    for change in ["none", "replaced", "appended", "overwritten"] {
        let mut service = Scripted::new(100);
        let path = service.folder.path().join("opened");
        // Nothing of it is in memory: a lane reads it before its first byte is sent.
        let file = std::fs::File::create(&path).unwrap();
        file.set_len(BYTES).unwrap();
        let mut client = service.connect();
        client = service.ask_lane(client, OPENED);
        let job = service.reactor.handler.shared.queue(Kind::Read).pop().unwrap();
        let Work::Load(mut response) = job.work else { panic!("{job:?}") };
        response.set_loaded(BYTES, NOW_NS.get());
        match change {
            "appended" => file.set_len(BYTES + 1).unwrap(),
            "overwritten" => file.set_modified(std::time::UNIX_EPOCH).unwrap(),
            "replaced" => {
                let other = service.folder.path().join("other");
                std::fs::write(&other, "other").unwrap();
                std::fs::rename(other, path).unwrap();
            }
            _ => {}
        }
        let done = Done::Loaded(response, Ok(()));
        service.deliver(done);
        if ["none", "replaced"].contains(&change) {
            assert_eq!((status(&mut client), service.closed()), (200, (0, 0)));
        } else {
            assert_eq!((service.connections(), service.closed()), (0, (0, 1)), "{change}");
            assert!(rest(client).unwrap() < BYTES as usize, "{change}");
        }
    }
}

#[test]
fn large_pages_of_slow_readers_hold_bounded_memory() {
    let mut service = Scripted::new(100);
    for number in 0..400 {
        std::fs::write(service.folder.path().join(format!("{number:0>100}")), "").unwrap();
    }
    let shared = Arc::clone(&service.reactor.handler.shared);
    // What others hold leaves no room for the page.
    let mut others = shared.budget.hold(HELD_BYTES_MAX);
    for expected in ["503", "200"] {
        let mut client = service.wait_for_lane("/.fathom/list");
        let Job { ticket, work } = shared.queue(Kind::List).pop().unwrap();
        let Work::Page(page) = work else { panic!("{work:?}") };
        let done = Done::Made(make(page, &shared, &ticket));
        shared.mailboxes[0].leave(Mail::Done { place: ticket.place, done });
        service.turn();
        let mut begin = [0; 12];
        client.read_exact(&mut begin).unwrap();
        assert!(begin.ends_with(expected.as_bytes()), "{begin:?}");
        drop(client);
        while service.connections() > 0 {
            service.turn();
        }
        drop(others.take());
        assert!(shared.budget.hold(HELD_BYTES_MAX).is_some(), "{expected}: free again");
    }
}
