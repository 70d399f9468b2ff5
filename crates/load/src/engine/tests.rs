//! The engine against a server of its own: real sockets, with every fault that a server can have.

mod open;

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use fathom_analysis::load::SLOTS;
use fathom_http::Trust;
use fathom_measure::clock::monotonic_raw_ns;
use fathom_record::LoadSlot;

use super::*;
use crate::requests::Fields;

mod messages;
mod secured;

/// What the server does with a request.
#[derive(Clone, Copy, PartialEq)]
enum Manner {
    Right,
    Chunked,
    /// Closes after each response, with the field that says so or without.
    Closes {
        says: bool,
    },
    /// Answers the first request of a connection, and closes it after the second one.
    AnswersOnce,
    UntilClose,
    NotFound,
    /// To a request without a range.
    Part,
    Truncates,
    LiesAboutLength,
    ClosesWithoutResponse,
    Stalls,
    /// A chunk extension without an end.
    Endless,
    Garbage,
    /// In pieces of one byte.
    Drips,
    /// Right at first; then a page of another length, with status 200.
    ChangesLength {
        chunked: bool,
    },
    /// Right at first; then two words of the body are swapped.
    Swaps {
        chunked: bool,
    },
}

const BODY: usize = 5_000;

struct EngineServer {
    address: SocketAddr,
    is_secured: bool,
    connections: Arc<AtomicU32>,
    /// Heads that arrived.
    requests: Arc<AtomicU32>,
    over: Arc<AtomicBool>,
}

impl EngineServer {
    fn start(manner: Manner) -> Self {
        Self::with(manner, None)
    }

    /// By TLS, which ends with a close_notify or without.
    fn secured(manner: Manner, is_announced: bool) -> Self {
        let config = fathom_testing::Certificate::of_names(&["test"]).server();
        Self::with(manner, Some((config, is_announced)))
    }

    fn with(manner: Manner, tls: Option<(Arc<rustls::ServerConfig>, bool)>) -> Self {
        let is_secured = tls.is_some();
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let (connections, over) = (Arc::<AtomicU32>::default(), Arc::<AtomicBool>::default());
        let (count, ended) = (Arc::clone(&connections), Arc::clone(&over));
        let requests = Arc::<AtomicU32>::default();
        let heads = Arc::clone(&requests);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if ended.load(Relaxed) {
                    break;
                }
                count.fetch_add(1, Relaxed);
                let heads = Arc::clone(&heads);
                let tls = tls.clone();
                stream.set_nodelay(true).unwrap();
                std::thread::spawn(move || {
                    let Some((config, is_announced)) = tls else {
                        return serve(stream, manner, &heads);
                    };
                    let session = rustls::ServerConnection::new(config).unwrap();
                    let mut stream = rustls::StreamOwned::new(session, stream);
                    serve(&mut stream, manner, &heads);
                    if is_announced {
                        stream.conn.send_close_notify();
                        let _ = stream.flush();
                    }
                });
            }
        });
        Self { address, is_secured, connections, requests, over }
    }

    fn work(&self, clients: u32) -> Workload {
        let tls = self.is_secured.then(|| Tls::new("test", &Trust::All).unwrap());
        Workload { tls, ..work(self.address, clients) }
    }
}

impl Drop for EngineServer {
    fn drop(&mut self) {
        self.over.store(true, Relaxed);
        let _ = TcpStream::connect(self.address);
    }
}

fn work(address: SocketAddr, clients: u32) -> Workload {
    let file = |at: usize| (format!("/f{at}"), Some(BODY as u64));
    let files: Vec<_> = (0..7).map(file).collect();
    let fields = Fields { host: "test".to_owned(), ..Fields::default() };
    Workload {
        address: address.into(),
        tls: None,
        requests: Arc::new(Requests::new(&files, &fields)),
        clients,
        rate: None,
        threads: 2.min(clients),
        first: 0,
        shift_ns: 0,
        choice: EngineChoice::Random,
        pause: Pause::NONE,
        fresh: false,
        body: Body::Copy,
        connect_timeout_ns: LONG_NS,
        timeout_ns: LONG_NS,
        congestion: None,
        seed: 1,
        spin_ns: 0,
        follow: None,
        meter: None,
    }
}

/// Answers until the client closes, or as the manner requires.
fn serve(stream: impl Read + Write, manner: Manner, heads: &AtomicU32) {
    let mut reader = BufReader::new(stream);
    let mut body: Vec<u8> = (0..BODY).map(|at| at as u8).collect();
    for nth in 0.. {
        if nth == 20 && matches!(manner, Manner::Swaps { .. }) {
            body[16..24].rotate_left(4);
        }
        if nth == 20 && matches!(manner, Manner::ChangesLength { .. }) {
            body.truncate(120);
        }
        let (mut line, mut length) = (String::new(), 0);
        while line != "\r\n" {
            line.clear();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            if let Some(value) = line.strip_prefix("Content-Length: ") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut request_body = vec![0; length];
        reader.read_exact(&mut request_body).unwrap();
        assert!(request_body.iter().all(|&byte| byte == b'd'));
        heads.fetch_add(1, Relaxed);
        if nth == 1 && manner == Manner::AnswersOnce {
            return;
        }
        if answer(reader.get_mut(), manner, &body).is_none() {
            return;
        }
    }
}

/// `None` ends the connection.
fn answer(stream: &mut (impl Read + Write), manner: Manner, body: &[u8]) -> Option<()> {
    let head = |rest: &str| format!("HTTP/1.1 200 OK\r\n{rest}\r\n\r\n");
    let length = format!("Content-Length: {}", body.len());
    let whole = |rest: &str| [head(rest).as_bytes(), body].concat();
    let text = match manner {
        Manner::Right
        | Manner::AnswersOnce
        | Manner::Closes { says: false }
        | Manner::Swaps { chunked: false }
        | Manner::ChangesLength { chunked: false } => whole(&length),
        Manner::Closes { says: true } => whole(&format!("{length}\r\nConnection: close")),
        Manner::UntilClose => whole("Connection: close"),
        Manner::Chunked
        | Manner::Swaps { chunked: true }
        | Manner::ChangesLength { chunked: true } => {
            let mut text = head("Transfer-Encoding: chunked").into_bytes();
            for part in body.chunks(999) {
                text.extend_from_slice(format!("{:x}\r\n", part.len()).as_bytes());
                text.extend_from_slice(part);
                text.extend_from_slice(b"\r\n");
            }
            text.extend_from_slice(b"0\r\n\r\n");
            text
        }
        Manner::NotFound => b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_vec(),
        Manner::Part => [&b"HTTP/1.1 206 x\r\nContent-Length: 5000\r\n\r\n"[..], body].concat(),
        Manner::Truncates => whole(&length)[..BODY].to_vec(),
        Manner::LiesAboutLength => whole(&format!("Content-Length: {}", BODY + 1)),
        Manner::ClosesWithoutResponse => Vec::new(),
        Manner::Garbage => b"what is HTTP?\r\n\r\n".to_vec(),
        Manner::Endless => {
            stream.write_all(head("Transfer-Encoding: chunked").as_bytes()).ok()?;
            stream.write_all(b"5;x=").ok()?;
            while stream.write_all(&[b'y'; 1 << 10]).is_ok() {}
            return None;
        }
        Manner::Stalls => {
            // Until the client closes.
            let _ = stream.read(&mut [0]);
            return None;
        }
        Manner::Drips => {
            for byte in whole(&length).chunks(97) {
                stream.write_all(byte).ok()?;
            }
            return Some(());
        }
    };
    stream.write_all(&text).ok()?;
    let stays = [
        Manner::Right,
        Manner::AnswersOnce,
        Manner::Chunked,
        Manner::NotFound,
        Manner::LiesAboutLength,
    ];
    let changes = matches!(manner, Manner::Swaps { .. } | Manner::ChangesLength { .. });
    (stays.contains(&manner) || changes).then_some(())
}

/// No test takes as long.
const LONG_NS: u64 = 600_000_000_000;
const TIMING: Timing =
    Timing { window_ns: LONG_NS, warm_up_max_ns: 1_000_000, requests: None, begin_ns: None };

/// Runs until this many responses have arrived in the window, or one request has failed.
fn sweep_of(work: &Workload, responses: u64) -> Outcome {
    let mut before = 0;
    let mut watch = |moment, live: &Live| {
        if moment == Moment::Begin {
            before = live.completed;
        }
        // One of each thread may be counted here and not yet in the window.
        let most = before + responses + u64::from(work.threads);
        live.failed == 0 && (moment != Moment::Running || live.completed < most)
    };
    run(work, TIMING, &mut watch).unwrap()
}

fn sweep(work: &Workload) -> Outcome {
    sweep_of(work, 10)
}

fn bytes(outcome: &Outcome) -> u64 {
    outcome.tally.window.slots.iter().map(|slot| slot.body_bytes).sum()
}

/// Whatever was measured before it: all members of a load have the same plan.
#[test]
fn planned_window_begins_when_it_is_planned() {
    let server = EngineServer::start(Manner::Right);
    let begin_ns = monotonic_raw_ns() + 10_000_000;
    let (window_ns, warm_up_max_ns) = (100_000_000, 100_000_000);
    let timing = Timing { window_ns, warm_up_max_ns, requests: None, begin_ns: Some(begin_ns) };
    for rate in [None, Some(ScheduleRate { per_second: 400.0, arrivals: Arrivals::Uniform })] {
        let work = Workload { rate, ..server.work(2) };
        let outcome = run(&work, timing, &mut |_, _| true).unwrap();
        assert_eq!((outcome.end, outcome.tally.window.window_ns), (End::Complete, window_ns));
        let from_ns = outcome.tally.heat.from_ns;
        assert_eq!(from_ns - outcome.tally.window.late_ns, begin_ns + warm_up_max_ns);
    }
    let at_once = run(&server.work(2), Timing { begin_ns: None, ..timing }, &mut |_, _| true);
    assert_eq!(at_once.unwrap().tally.window.late_ns, 0);
}

#[test]
fn every_way_to_end_a_body_is_read() {
    let ways = [
        (Manner::Right, Body::Copy),
        (Manner::Right, Body::Discard),
        (Manner::Chunked, Body::Copy),
        (Manner::Closes { says: true }, Body::Copy),
        (Manner::Closes { says: false }, Body::Copy),
        (Manner::UntilClose, Body::Copy),
        (Manner::Drips, Body::Copy),
    ];
    let both = |(manner, body)| [false, true].map(|is_secured| (manner, body, is_secured));
    for (manner, body, is_secured) in ways.into_iter().flat_map(both) {
        let server = match is_secured {
            true => EngineServer::secured(manner, true),
            false => EngineServer::start(manner),
        };
        let outcome = sweep(&Workload { body, ..server.work(3) });
        let completed = outcome.tally.window.completed();
        assert!(completed >= 10, "{completed}");
        // By their arrival: both ends of the window cut up to one of each client.
        let all = completed * BODY as u64;
        assert!(bytes(&outcome).abs_diff(all) <= 3 * BODY as u64, "{} {all}", bytes(&outcome));
        let arrived: f64 = outcome.tally.window.slots.iter().map(LoadSlot::arrived).sum();
        assert!((arrived - completed as f64).abs() <= 3.0, "{arrived} of {completed}");
        let drips = manner == Manner::Drips && body == Body::Copy;
        let by_bytes = bytes(&outcome) as f64 / BODY as f64;
        assert!(!drips || (arrived - by_bytes).abs() < 0.01, "{arrived}, {by_bytes} by bytes");
        assert_eq!((outcome.tally.failed(), outcome.end), (0, End::Stopped));
        assert_eq!(outcome.tally.window.statuses.get(&200), Some(&completed));
    }
}

#[test]
fn kept_connections_are_reused_and_fresh_ones_are_not() {
    for server in [EngineServer::start(Manner::Right), EngineServer::secured(Manner::Right, true)] {
        let outcome = sweep(&server.work(4));
        assert_eq!((outcome.tally.window.connections, server.connections.load(Relaxed)), (4, 4));
        let fresh = sweep(&Workload { fresh: true, ..server.work(4) });
        assert!(
            fresh.tally.window.connections >= fresh.tally.window.completed(),
            "one for each request"
        );
        assert_eq!(fresh.tally.failed(), 0);
        let count = |tally: &Tally, phase: EnginePhase| {
            Some(tally.window.phases.get(phase as usize)?.len())
        };
        let completed = Some(fresh.tally.window.completed());
        assert_eq!(count(&outcome.tally, EnginePhase::Connect), server.is_secured.then_some(4));
        assert_eq!(count(&fresh.tally, EnginePhase::FirstByte), completed);
        assert_eq!(count(&fresh.tally, EnginePhase::Body), completed);
        assert!(count(&fresh.tally, EnginePhase::Connect) >= completed);
        let secured = count(&fresh.tally, EnginePhase::Tls).unwrap();
        assert_eq!(secured > 0, server.is_secured);
    }
}

#[test]
fn faults_of_the_server_are_named() {
    for (manner, fault) in [
        (Manner::NotFound, Fault::Status(404)),
        (Manner::Part, Fault::Status(206)),
        (Manner::Truncates, Fault::Truncated),
        (Manner::LiesAboutLength, Fault::WrongLength),
        (Manner::ClosesWithoutResponse, Fault::Closed),
        (Manner::Garbage, Fault::BadResponse("status line")),
        (Manner::Endless, Fault::BadResponse("chunk line above 4 KiB")),
        (Manner::Stalls, Fault::Timeout),
    ] {
        let server = EngineServer::start(manner);
        let timeout_ns = if manner == Manner::Stalls { 1_000_000 } else { LONG_NS };
        let outcome = sweep(&Workload { timeout_ns, ..server.work(2) });
        assert_eq!(outcome.tally.window.completed(), 0, "{fault}");
        let faults: Vec<&Fault> = outcome.tally.faults.keys().collect();
        assert_eq!(faults, [&fault]);
    }
}

/// Of files whose length no list states, and of those whose list does.
#[test]
fn other_length_than_that_of_the_first_response_fails() {
    for (chunked, listed) in [(false, None), (true, None), (true, Some(BODY as u64))] {
        let server = EngineServer::start(Manner::ChangesLength { chunked });
        let files = [("/f".to_owned(), listed)];
        let fields = Fields { host: "test".to_owned(), ..Fields::default() };
        let requests = Arc::new(Requests::new(&files, &fields));
        let work = Workload { requests, ..server.work(1) };
        let tally = sweep_of(&work, u64::MAX / 2).tally;
        let faults: Vec<&Fault> = tally.faults.keys().collect();
        assert_eq!(faults, [&Fault::WrongLength], "{chunked} {listed:?}");
        assert_eq!(work.requests.bytes(0), Some(BODY as u64));
    }
}

#[test]
fn verified_bodies_must_not_change() {
    let verify = |manner| {
        let server = EngineServer::start(manner);
        let ends = if matches!(manner, Manner::Swaps { .. }) { u64::MAX / 2 } else { 10 };
        sweep_of(&Workload { body: Body::Verify, ..server.work(2) }, ends).tally
    };
    for manner in [Manner::Right, Manner::Chunked, Manner::UntilClose, Manner::Drips] {
        let tally = verify(manner);
        assert!(tally.window.completed() >= 10 && tally.failed() == 0, "{:?}", tally.faults);
    }
    for chunked in [false, true] {
        let tally = verify(Manner::Swaps { chunked });
        let faults: Vec<&Fault> = tally.faults.keys().collect();
        assert_eq!(faults, [&Fault::WrongContent]);
        assert!(tally.wrong_file.is_some_and(|file| file < 7), "{:?}", tally.wrong_file);
    }
}

#[test]
fn think_time_limits_the_requests_of_a_client() {
    let server = EngineServer::start(Manner::Right);
    let pause = Pause { mean_ns: 10_000_000, distribution: Distribution::Constant };
    let outcome = sweep_of(&Workload { pause, ..server.work(3) }, 12);
    // Of each client, a response may follow the beginning of the window at once.
    let pauses = outcome.tally.window.completed().div_ceil(3) - 1;
    assert!(
        pauses >= 3 && outcome.tally.window.window_ns >= pauses * pause.mean_ns,
        "{}",
        outcome.tally.window.window_ns
    );
}

#[test]
fn server_that_is_gone_ends_the_step() {
    use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket};
    // Of a socket that does not listen: no other program can have its port.
    let silent: OwnedFd = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&silent, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let address = SocketAddr::try_from(getsockname(&silent).unwrap()).unwrap();
    let outcome = run(&work(address, 4), TIMING, &mut |_, _| true).unwrap();
    assert!(matches!(outcome.end, End::Dead(Fault::Connect(_))), "{:?}", outcome.end);
}

#[test]
fn stop_ends_the_step_at_once() {
    let server = EngineServer::start(Manner::Right);
    let mut moments = Vec::new();
    let mut watch = |moment, _: &Live| {
        moments.push(moment);
        moment != Moment::Running
    };
    let outcome = run(&server.work(2), TIMING, &mut watch).unwrap();
    assert_eq!(outcome.end, End::Stopped);
    assert!(moments.contains(&Moment::Begin) && moments.last() == Some(&Moment::End));
}

/// How often each thread of this process that makes requests has slept.
fn sleeps_of_threads() -> Vec<u64> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let texts = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("status")).ok());
    let sleeps = |text: &String| {
        let count = text.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        count.map_or(0, |count| count.trim().parse().unwrap())
    };
    texts.filter(|text| text.starts_with("Name:\tload\n")).map(|text| sleeps(&text)).collect()
}

#[test]
fn lone_client_is_never_handled_late() {
    let server = EngineServer::start(Manner::Right);
    let tally = sweep(&server.work(1)).tally;
    // Each event is the first one after its wait.
    assert_eq!(tally.window.lag_ns, 0.0);
    assert!(
        tally.window.lags >= tally.window.completed(),
        "{} of {}",
        tally.window.lags,
        tally.window.completed()
    );
}

#[test]
fn counted_requests_wait_for_the_window() {
    let server = EngineServer::start(Manner::Right);
    let mut stop_before = |moment, _: &Live| {
        let is_waiting = || {
            let sleeps = sleeps_of_threads();
            sleeps.len() >= 2 && !sleeps.contains(&0)
        };
        while moment == Moment::Begin && !is_waiting() {
            std::thread::yield_now();
        }
        moment != Moment::Begin
    };
    let timing = Timing { requests: Some(50), ..TIMING };
    let outcome = run(&server.work(2), timing, &mut stop_before).unwrap();
    assert_eq!((outcome.end, outcome.tally.window.connections), (End::Stopped, 0));
}

#[test]
fn threads_that_end_first_have_their_cpu_time() {
    let server = EngineServer::start(Manner::Right);
    // The coordinator looks at the threads after they have ended.
    let mut late = |moment, _: &Live| {
        while moment == Moment::Running && !sleeps_of_threads().is_empty() {
            std::thread::yield_now();
        }
        true
    };
    let short = Timing { window_ns: 100_000_000, ..TIMING };
    let outcome = run(&server.work(2), short, &mut late).unwrap();
    assert_eq!((outcome.end, outcome.tally.window.threads.len()), (End::Complete, 2));
    assert!(
        outcome.tally.window.threads.iter().all(|it| it.cpu_ns > 0),
        "{:?}",
        outcome.tally.window.threads
    );
}

#[test]
fn counted_requests_are_exactly_as_many() {
    for (manner, count) in [
        (Manner::Right, 50),
        (Manner::Right, 1),
        (Manner::Closes { says: false }, 7),
        (Manner::NotFound, 3),
        (Manner::Stalls, 2),
    ] {
        let server = EngineServer::start(manner);
        let timeout_ns = if manner == Manner::Stalls { 1_000_000 } else { LONG_NS };
        let timing = Timing { requests: Some(count), ..TIMING };
        let meter = Arc::new(Meter::new(2));
        let work = Workload { timeout_ns, meter: Some(Arc::clone(&meter)), ..server.work(2) };
        let outcome = run(&work, timing, &mut |_, _| true).unwrap();
        let Outcome { tally, end } = outcome;
        let slots_ns: u64 = tally.window.slots.iter().map(|slot| slot.ns).sum();
        assert_eq!((end, tally.window.completed() + tally.failed()), (End::Complete, count));
        assert_eq!(server.requests.load(Relaxed), count as u32);
        assert_eq!(slots_ns.max(1), tally.window.window_ns);
        assert_eq!(tally.window.in_flight, 0);
        let counts = meter.read();
        assert_eq!((counts.completed(), counts.in_flight), (tally.window.completed(), 0));
        assert_eq!(counts.faults, tally.faults);
        assert_eq!(counts.body_bytes, tally.window.completed() * BODY as u64);
        let heat: Vec<u64> = tally.heat.slices().map(|slice| slice.iter().sum()).collect();
        assert_eq!((heat.len(), heat.iter().sum()), (SLICES, tally.window.completed()));
        let sliced: u64 = tally.heat.slices_ns.iter().sum();
        assert_eq!(sliced, slots_ns);
        if count == 50 {
            let slots: Vec<u64> = tally.window.slots.iter().map(|slot| slot.completed).collect();
            assert_eq!(slots, [5; SLOTS]);
        }
    }
}

#[test]
fn requests_in_flight_at_the_end_are_counted() {
    let server = EngineServer::start(Manner::Stalls);
    let mut watch = |_: Moment, _: &Live| server.requests.load(Relaxed) < 3;
    let meter = Arc::new(Meter::new(2));
    let work = Workload { meter: Some(Arc::clone(&meter)), ..server.work(3) };
    let outcome = run(&work, TIMING, &mut watch).unwrap();
    assert_eq!((outcome.end, outcome.tally.window.in_flight), (End::Stopped, 3));
    assert_eq!(meter.read().in_flight, 3);
    assert!(outcome.tally.window.longest_in_flight_ns > 0);
}

#[test]
fn fixed_clients_ask_for_their_own_file() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let work = Workload { choice: EngineChoice::Fixed, ..work(listener.local_addr().unwrap(), 3) };
    let server = std::thread::spawn(move || {
        // All stay open until the last has asked.
        let streams: Vec<TcpStream> = listener.incoming().take(3).flatten().collect();
        let path = |stream: &TcpStream| {
            let mut line = String::new();
            BufReader::new(stream).read_line(&mut line).unwrap();
            line.split(' ').nth(1).unwrap().to_owned()
        };
        let mut paths: Vec<String> = streams.iter().map(path).collect();
        paths.sort();
        paths
    });
    sweep(&work);
    assert_eq!(server.join().unwrap(), ["/f0", "/f1", "/f2"]);
}
