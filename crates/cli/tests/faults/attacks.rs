//! The service beside a thousand slow clients: it answers others, its threads and memory are
//! bounded, and their places are free again when they have left.

use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use crate::serving::{Serving, ServingUsage, may_open};
use crate::test_env::wait_for;
use crate::{is_soak, write_section};
use fathom_measure::clock::monotonic_raw_ns;
use rustix::net::{AddressFamily, SocketType, connect, recv, send, socket, sockopt};
use rustix::net::{RecvFlags, SendFlags};

const SECOND_NS: u64 = 1_000_000_000;
/// Of a client beside the attack, connecting included.
const P99_MAX_NS: u64 = SECOND_NS;
const RECOVERY_MAX_NS: u64 = 5 * SECOND_NS;
/// What `--head-bytes` allows a client to leave in memory, which the vector may hold twice, and
/// the state of a connection.
const GROWTH_MAX_BYTES: u64 = (2 * 16 + 4) << 10;
/// What the service may use once, however many connections there are.
const GROWTH_ONCE_BYTES: u64 = 2 << 20;
/// Places per 1000 attackers: above 90 % the service makes room.
const PLACES: usize = 1100;
/// Clients beside the attack.
const GOOD: usize = 4;

enum Attacker {
    /// slowhttptest, with the arguments of a mode.
    Tool(&'static str),
    /// Connections of this process.
    Own(Slow),
}

/// A client that sends something and then is slow.
#[derive(Clone, Copy)]
struct Slow {
    request: fn() -> String,
    /// Bytes that it reads each second.
    reads: usize,
    /// What it sends each second.
    sends: &'static [u8],
}

struct Attack {
    name: &'static str,
    attacker: Attacker,
    /// Whether the connections stay open until a time limit.
    lasts: bool,
}

const LARGE: fn() -> String = || "GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned();
const REQUESTS: fn() -> String = || LARGE().repeat(400);
const HEAD: fn() -> String = || format!("GET / HTTP/1.1\r\nX: {}", "x".repeat(15 << 10));

const TOOL: [Attack; 4] = [
    tool("slow heads (-H)", "-H -i 2 -x 24", true),
    tool("slow bodies (-B)", "-B -i 2 -s 8192 -x 10", false),
    tool("many ranges (-R)", "-R -t GET -a 10 -b 2000", false),
    tool("slow reading (-X)", "-X -w 512 -y 1024 -n 5 -z 32 -k 3", true),
];
const OWN: [Attack; 4] = [
    own("16 bytes read a second", Slow { request: LARGE, reads: 16, sends: b"" }),
    own("nothing read", Slow { request: LARGE, reads: 0, sends: b"" }),
    own("400 requests at once, nothing read", Slow { request: REQUESTS, reads: 0, sends: b"" }),
    own("15 KiB of a head, then a byte a second", Slow { request: HEAD, reads: 0, sends: b"x" }),
];

const fn tool(name: &'static str, mode: &'static str, lasts: bool) -> Attack {
    Attack { name, attacker: Attacker::Tool(mode), lasts }
}

const fn own(name: &'static str, slow: Slow) -> Attack {
    Attack { name, attacker: Attacker::Own(slow), lasts: true }
}

/// What was seen during an attack and after it.
#[derive(Default)]
struct Observed {
    /// Response times of the good client.
    times_ns: Vec<u64>,
    most_connections: usize,
    /// Connections of the attackers.
    accepted: usize,
    timed_out: usize,
    growth_bytes: u64,
    recovery_ns: u64,
}

impl Attack {
    /// Attacks with `count` connections until a time.
    fn run(&self, address: SocketAddr, count: usize, until_ns: u64) {
        match &self.attacker {
            // It ends when the service has closed all of its connections.
            Attacker::Tool(mode) => {
                while let Some(left_ns) = until_ns.checked_sub(monotonic_raw_ns()) {
                    let seconds = left_ns.div_ceil(SECOND_NS).max(1);
                    slowhttptest(address, count, seconds, mode);
                }
            }
            Attacker::Own(slow) => slow.run(address, count, until_ns),
        }
    }
}

fn slowhttptest(address: SocketAddr, count: usize, seconds: u64, mode: &str) {
    let arguments = format!("-c {count} -r 500 -l {seconds} -p 3 {mode} -u http://{address}/large");
    let mut command = Command::new("slowhttptest");
    command.args(arguments.split_whitespace()).stdin(Stdio::null());
    let output = command.output().expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

impl Slow {
    fn run(self, address: SocketAddr, count: usize, until_ns: u64) {
        let mut clients: Vec<TcpStream> = Vec::new();
        // mood: of `make soak` only
        while monotonic_raw_ns() < until_ns {
            // Closed by the service: others take their places.
            clients.retain(|client| matches!(client.take_error(), Ok(None)));
            while clients.len() < count {
                clients.push(self.connect(address));
            }
            for client in &clients {
                let mut bytes = [0; 64];
                // Errors are those of closed connections.
                if self.reads > 0 {
                    let _ = recv(client, &mut bytes[..self.reads], RecvFlags::DONTWAIT);
                }
                let _ = send(client, self.sends, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
            }
            // mood: of `make soak` only, a client that is slow on purpose
            std::thread::sleep(Duration::from_secs(1));
        }
    }

    /// With a small buffer, so that the service waits for it soon.
    fn connect(self, address: SocketAddr) -> TcpStream {
        let client = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
        sockopt::set_socket_recv_buffer_size(&client, 4096).expect("an option");
        sockopt::set_socket_linger(&client, Some(Duration::ZERO)).expect("an option");
        connect(&client, &address).expect("it listens");
        let request = (self.request)();
        let sent = send(&client, request.as_bytes(), SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
        assert!(sent.is_ok_and(|sent| sent > 0), "a new connection takes bytes");
        client.into()
    }
}

/// A value of `/.fathom/metrics`.
fn metrics(service: &Serving, names: [&str; 3]) -> [usize; 3] {
    let reply = service.connect().get("/.fathom/metrics");
    assert_eq!(reply.status, 200);
    let text = String::from_utf8(reply.body).expect("UTF-8");
    names.map(|name| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|value| value.parse().ok()).expect("a count")
    })
}

const NAMES: [&str; 3] = ["fathom_connections", "fathom_accepted_total", "fathom_timed_out_total"];

/// Asks for a small file on a fresh connection, again and again.
fn good_client(service: &Serving, expected: &[u8], is_over: &AtomicBool) -> Vec<u64> {
    let mut times_ns = Vec::new();
    while !is_over.load(Relaxed) {
        let begun_ns = monotonic_raw_ns();
        let reply = service.connect().get("/small");
        // mood: of `make soak` only, a promise of the service
        times_ns.push(monotonic_raw_ns() - begun_ns);
        assert!(reply.status == 200 && reply.body == expected, "{}", reply.head);
        // mood: of `make soak` only, the pace of the requests
        std::thread::sleep(Duration::from_millis(5));
    }
    times_ns
}

/// Stops the good client also when an assertion fails.
struct AttackStop<'s>(&'s AtomicBool);

impl Drop for AttackStop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Two requests of each of `count` new clients, all connected at the same time.
fn serves_all(service: &Serving, count: usize) -> bool {
    let mut clients: Vec<_> = (0..count).map(|_| service.connect()).collect();
    (0..2).all(|_| {
        clients.iter_mut().all(|client| {
            client.try_request("GET", "/small", &[]).is_ok_and(|reply| reply.status == 200)
        })
    })
}

/// The time until `count` new clients are served.
fn recovery_ns(service: &Serving, count: usize) -> u64 {
    let begun_ns = monotonic_raw_ns();
    while !serves_all(service, count) {
        // mood: of `make soak` only, a promise of the service
        assert!(monotonic_raw_ns() - begun_ns < 30 * SECOND_NS, "it does not recover");
        // mood: of `make soak` only, the resolution of the measured time
        std::thread::sleep(Duration::from_millis(50));
    }
    // mood: of `make soak` only, a promise of the service
    monotonic_raw_ns() - begun_ns
}

fn observe(attack: &Attack, count: usize, seconds: u64) -> Observed {
    let service = Serving::start(&format!("--connections {}", PLACES * count / 1000));
    let small = service.file("small", 100);
    service.file("large", 16 << 20);
    assert!(serves_all(&service, 10));
    let [_, accepted_before, _] = metrics(&service, NAMES);
    let before = service.usage();
    let (mut observed, mut samples) = (Observed::default(), 1);
    let is_over = AtomicBool::new(false);
    let until_ns = monotonic_raw_ns() + seconds * SECOND_NS;
    std::thread::scope(|scope| {
        let stop = AttackStop(&is_over);
        let one = |_| scope.spawn(|| good_client(&service, &small, &is_over));
        let good: Vec<_> = (0..GOOD).map(one).collect();
        let attackers = scope.spawn(|| attack.run(service.address, count, until_ns));
        while !attackers.is_finished() {
            let ServingUsage { threads, resident_bytes, .. } = service.usage();
            assert_eq!(threads, before.threads, "{}", attack.name);
            let growth_bytes = resident_bytes.saturating_sub(before.resident_bytes);
            observed.growth_bytes = observed.growth_bytes.max(growth_bytes);
            let [connections, ..] = metrics(&service, NAMES);
            samples += 1;
            observed.most_connections = observed.most_connections.max(connections);
            // mood: of `make soak` only, the pace of the samples
            std::thread::sleep(Duration::from_millis(200));
        }
        attackers.join().expect("an attack");
        drop(stop);
        for client in good {
            observed.times_ns.extend(client.join().expect("every request is answered"));
        }
        let [_, accepted, timed_out] = metrics(&service, NAMES);
        observed.accepted = accepted - accepted_before - observed.times_ns.len() - samples;
        observed.timed_out = timed_out;
        observed.recovery_ns = recovery_ns(&service, count);
    });
    service.stop();
    observed
}

/// Asserts the promises, and returns a row.
fn check(attack: &Attack, count: usize, mut observed: Observed) -> String {
    let name = attack.name;
    observed.times_ns.sort_unstable();
    let Observed { times_ns, accepted, timed_out, growth_bytes, recovery_ns, .. } = &observed;
    let p99_ns = times_ns[(times_ns.len() * 99).div_ceil(100) - 1];
    let most = observed.most_connections;
    assert!(*accepted >= count, "{name}: {accepted} slow connections");
    assert!(!attack.lasts || most >= count / 2, "{name}: {most} connections at a time");
    let limit = GROWTH_ONCE_BYTES + count as u64 * GROWTH_MAX_BYTES;
    assert!(*growth_bytes <= limit, "{name}: {growth_bytes} bytes more");
    assert!(p99_ns <= P99_MAX_NS, "{name}: p99 {p99_ns} ns");
    assert!(*recovery_ns <= RECOVERY_MAX_NS, "{name}: recovered after {recovery_ns} ns");
    assert!(!attack.lasts || *timed_out >= count, "{name}: {timed_out} closed at a limit");
    let ms = |ns: u64| ns as f64 / 1e6;
    format!(
        "| {name} | {accepted} | {most} | {timed_out} | {} | {:.1} | {:.1} | {:+} | {:.2} |\n",
        times_ns.len(),
        ms(p99_ns),
        ms(times_ns[times_ns.len() - 1]),
        growth_bytes >> 10,
        ms(*recovery_ns) / 1e3,
    )
}

fn check_all(attacks: &[Attack], section: &str, by: &str) {
    let (count, seconds) = (1000, 25);
    if !may_open(count as u64 * 3) {
        return crate::skipped("needs a limit of three open files per slow client");
    }
    let rows = attacks.iter().map(|attack| check(attack, count, observe(attack, count, seconds)));
    let rows: String = rows.collect();
    write_section(
        section,
        &format!(
            "## Slow clients of the service: {by}\n\n\
             {count} connections for {seconds} s, replaced when closed, to `fathom serve \
             --connections {}`. Beside them {GOOD} clients ask for 100 bytes, on a new \
             connection each time: every request was answered. The number of threads was \
             constant. Promises: p99 ≤ 1 s; memory ≤ {} KiB per connection and {} KiB once; after \
             the attack {count} new connections are served, at the same time, within 5 s.\n\n\
             | attack | slow connections | at a time, all | closed at a limit | \
             requests beside it | p99, ms | worst, ms | memory, KiB | recovery, s |\n\
             |---|---|---|---|---|---|---|---|---|\n{rows}",
            PLACES * count / 1000,
            GROWTH_MAX_BYTES >> 10,
            GROWTH_ONCE_BYTES >> 10,
        ),
    );
}

/// Clients of each attack in `make test`, where no time counts.
const HELD: usize = 20;

/// Attacks a service that others use; `attack` returns clients that are then still connected.
fn stand(attack: impl FnOnce(&Serving) -> Vec<TcpStream> + Send) {
    let service = Serving::start("--connections 200");
    let small = service.file("small", 100);
    service.file("large", 16 << 20);
    assert!(serves_all(&service, 10));
    let threads = service.usage().threads;
    let [_, accepted_before, _] = metrics(&service, NAMES);
    std::thread::scope(|scope| {
        let attacker = scope.spawn(|| attack(&service));
        let ask = || (0..50).for_each(|_| assert!(service.connect().get("/small").body == small));
        ask();
        let held = attacker.join().expect("an attack");
        ask();
        assert_eq!(service.usage().threads, threads);
        if !held.is_empty() {
            let [_, accepted, _] = metrics(&service, NAMES);
            assert_eq!(accepted - accepted_before, held.len() + 100 + 1);
        }
    });
    let only_this = wait_for(|| (metrics(&service, NAMES)[0] == 1).then_some(()));
    assert!(only_this.is_some(), "places are not given back");
    assert!(serves_all(&service, HELD));
    service.stop();
}

#[test]
fn slow_clients_do_not_stop_the_service() {
    if is_soak() {
        return check_all(&OWN, "9-slow-clients", "own connections");
    }
    stand(|service| {
        let slow = OWN.iter().filter_map(|attack| match attack.attacker {
            Attacker::Own(slow) => Some(slow),
            Attacker::Tool(_) => None,
        });
        slow.flat_map(|slow| (0..HELD).map(move |_| slow.connect(service.address))).collect()
    });
}

#[test]
fn slowhttptest_does_not_stop_the_service() {
    if Command::new("slowhttptest").arg("-h").output().is_err() {
        return crate::skipped("slowhttptest is not installed");
    }
    if is_soak() {
        return check_all(&TOOL, "9-slowhttptest", "slowhttptest");
    }
    stand(|service| {
        std::thread::scope(|scope| {
            for attack in &TOOL {
                if let Attacker::Tool(mode) = attack.attacker {
                    scope.spawn(move || slowhttptest(service.address, HELD, 1, mode));
                }
            }
        });
        Vec::new()
    });
}
