//! A coordinator in a thread, and members that do not keep to the protocol.

mod rounds;

use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use fathom_far::{Channel, Side, Token, WAIT_NS, connect};
use fathom_measure::clock::monotonic_raw_ns;
use fathom_record::{Effort, Host};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::*;
use crate::protocol::{DOCUMENT_BYTES_MAX, FleetWork, Join, RunOrder, challenge, hello, proof_of};

const TOKEN: &str = "secret";

/// What a coordinator has said.
#[derive(Debug, Default)]
struct CoordinatorHeard {
    events: Vec<String>,
}

impl CoordinatorAudience for CoordinatorHeard {
    fn examine(&mut self, join: &mut Join, _: bool) -> Result<(), String> {
        if join.host.name == "evil" { Err("the id of a".to_owned()) } else { Ok(()) }
    }

    fn joined(&mut self, member: &Joined) {
        self.events.push(format!("joined {}", member.name));
    }

    fn delivered(
        &mut self,
        member: &Joined,
        partner: Option<&Joined>,
        skew: Option<Skew>,
        document: &[u8],
    ) -> Result<(), String> {
        let text = String::from_utf8_lossy(document).into_owned();
        if text == "refuse" {
            return Err("not of this host".to_owned());
        }
        let together = if skew.is_some() { " together" } else { "" };
        let to = partner.map_or(String::new(), |it| format!(" to {}", it.name));
        self.events.push(format!("delivered {}{to}: {text}{together}", member.name));
        Ok(())
    }

    fn lost(&mut self, member: &Joined, reason: &str) {
        self.events.push(format!("lost {}: {reason}", member.name));
    }

    fn refused(&mut self, reason: &str) {
        self.events.push(format!("refused: {reason}"));
    }

    fn tick(&mut self, _: &PlanCounts) -> usize {
        0
    }
}

type CoordinatorEnded = (PlanOutcome, Vec<String>);

fn coordinator(
    expected: usize,
    together: bool,
    clock: fn() -> u64,
) -> (SocketAddr, JoinHandle<CoordinatorEnded>) {
    let work = |_: usize, _: usize, _: &[Option<Present<'_>>]| Some(FleetWork::Run(run()));
    coordinator_of((expected, together, clock), |_| 1, work)
}

fn run() -> RunOrder {
    RunOrder { metrics: vec!["cpu".to_owned()], effort: Effort::Quick, only: false }
}

fn coordinator_of(
    (expected, together, clock): (usize, bool, fn() -> u64),
    rounds: fn(usize) -> usize,
    work: fn(usize, usize, &[Option<Present<'_>>]) -> Option<FleetWork>,
) -> (SocketAddr, JoinHandle<CoordinatorEnded>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let thread = std::thread::spawn(move || {
        let plan = CoordinatorPlan {
            token: Token::new(TOKEN),
            expected,
            join_ns: u64::MAX,
            same_host: rounds(expected) > 1,
            together,
            at_once: usize::MAX,
            rounds: &rounds,
            work: &work,
            clock,
        };
        let (stop, _other) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
                .unwrap();
        let mut heard = CoordinatorHeard::default();
        let outcome = coordinate(vec![listener], &plan, stop.as_fd(), &mut heard).unwrap();
        (outcome, heard.events)
    });
    (address, thread)
}

struct CoordinatorScripted(Channel);

impl CoordinatorScripted {
    fn connected(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        Self(Channel::new(stream.into()))
    }

    fn joined(address: SocketAddr, name: &str) -> Self {
        Self::joined_as(address, &join(name))
    }

    /// With the proof sent.
    fn greeted(address: SocketAddr) -> Self {
        let mut this = Self::connected(address);
        let own = challenge().unwrap();
        this.0.send(&hello(&own)).unwrap();
        let ToMember::Hello { challenge, proof, .. } = this.hears() else { panic!("no hello") };
        let token = Token::new(TOKEN);
        assert_eq!(proof, proof_of(&token, Side::Far, &own, &challenge));
        let proof = proof_of(&token, Side::Near, &own, &challenge);
        this.0.send(&ToCoordinator::Proof { proof }).unwrap();
        this
    }

    fn joined_as(address: SocketAddr, join: &ToCoordinator) -> Self {
        let mut this = Self::greeted(address);
        this.says(join);
        assert_eq!(this.hears(), ToMember::Joined);
        this
    }

    fn says(&mut self, message: &ToCoordinator) {
        self.0.send(message).unwrap();
    }

    fn hears(&mut self) -> ToMember {
        self.0.json(WAIT_NS).unwrap()
    }

    /// The reason for which it is sent away.
    fn refused(&mut self) -> String {
        match self.hears() {
            ToMember::End { reason } => reason.unwrap_or_default(),
            other => panic!("{other:?}"),
        }
    }

    fn ordered(&mut self) -> &mut Self {
        assert!(matches!(self.hears(), ToMember::Order(_)));
        self
    }

    fn delivers(&mut self, document: &[u8]) {
        self.says(&ToCoordinator::Finished);
        assert_eq!(self.hears(), ToMember::Deliver);
        self.says(&ToCoordinator::Document { bytes: document.len() as u64 });
        self.0.send_bytes(document).unwrap();
    }
}

fn join(name: &str) -> ToCoordinator {
    join_on(name, format!("boot of {name}"))
}

fn join_on(name: &str, boot_id: String) -> ToCoordinator {
    let mut host =
        Host { name: name.to_owned(), id: Some(format!("id of {name}")), ..Host::default() };
    host.cpu.logical = 1;
    let (rank, node, named_id) = (None, None, None);
    let join = Join { rank, node, boot_id, host, named_id };
    ToCoordinator::Join(Box::new(join))
}

#[test]
fn members_deliver_when_asked() {
    let (address, coordinator) = coordinator(2, false, monotonic_raw_ns);
    let mut members = ["a", "b"].map(|name| CoordinatorScripted::joined(address, name));
    for (member, text) in members.iter_mut().zip(["of a", "of b"]) {
        member.ordered().says(&ToCoordinator::Alive { progress: None });
        assert_eq!(member.hears(), ToMember::Alive);
        member.delivers(text.as_bytes());
        assert_eq!(member.refused(), "");
    }
    drop(members);
    let (outcome, events) = coordinator.join().unwrap();
    let expected = ["joined a", "joined b", "delivered a: of a", "delivered b: of b"];
    assert_eq!(events, expected);
    assert!(!outcome.is_stopped && outcome.members.iter().all(|it| it.lost.is_none()));
}

#[test]
fn host_that_the_audience_refuses_does_not_join() {
    let (address, coordinator) = coordinator(1, false, monotonic_raw_ns);
    let mut evil = CoordinatorScripted::greeted(address);
    evil.says(&join("evil"));
    assert_eq!(evil.refused(), "the id of a");
    let mut member = CoordinatorScripted::joined(address, "a");
    member.ordered().delivers(b"x");
    assert_eq!(member.refused(), "");
    drop((evil, member));
    let (_, events) = coordinator.join().unwrap();
    assert_eq!(events, ["refused: the id of a", "joined a", "delivered a: x"]);
}

#[test]
fn common_start_comes_after_clocks_are_compared() {
    let (address, coordinator) = coordinator(2, true, monotonic_raw_ns);
    let mut members = ["a", "b"].map(|name| CoordinatorScripted::joined(address, name));
    members.iter_mut().for_each(|it| it.ordered().says(&ToCoordinator::Ready));
    // The clock of a member is an hour ahead.
    const AHEAD_NS: u64 = 3_600_000_000_000;
    let mut starts = Vec::new();
    for member in &mut members {
        let mut exchanges = 0;
        let at_ns = loop {
            match member.hears() {
                ToMember::Clock { sent_ns } => {
                    exchanges += 1;
                    let now_ns = monotonic_raw_ns() + AHEAD_NS;
                    let (received_ns, answered_ns) = (now_ns, now_ns);
                    member.says(&ToCoordinator::Stamps { sent_ns, received_ns, answered_ns });
                }
                ToMember::Start { at_ns } => break at_ns,
                other => panic!("{other:?}"),
            }
            // The start is announced once both have answered: the other one waits until then.
            if exchanges == 64 {
                break 0;
            }
        };
        starts.push(at_ns);
    }
    assert_eq!(starts, [0, 0]);
    for member in &mut members {
        let ToMember::Start { at_ns } = member.hears() else { panic!("no start") };
        member.says(&ToCoordinator::Started { at_ns: at_ns + 250_000 });
        member.delivers(b"x");
        assert_eq!(member.refused(), "");
    }
    drop(members);
    let (outcome, events) = coordinator.join().unwrap();
    assert_eq!(events.last().unwrap(), "delivered b: x together");
    for ended in outcome.members {
        let Skew { ns, error_ns } = ended.skew.unwrap();
        // Within a nanosecond of rounding, whatever the offset: it started so long after its time.
        assert!((ns - 250_000.0).abs() <= 1.0 && error_ns > 0.0, "{ns} {error_ns}");
    }
}

#[test]
fn what_a_member_may_not_say_loses_it() {
    type Case = (&'static str, fn(&mut CoordinatorScripted));
    const BYTES: u64 = DOCUMENT_BYTES_MAX + 1;
    let cases: [Case; 9] = [
        ("an unknown message: ", |it| it.0.send_bytes(b"rubbish\n").unwrap()),
        ("an unknown message: ", |it| it.0.send_bytes(b"{\"message\":\"go\"}\n").unwrap()),
        ("a line exceeds 64 KiB", |it| it.0.send_bytes(&[b'x'; 70_000]).unwrap()),
        ("a message out of turn: document", |it| it.says(&ToCoordinator::Document { bytes: 1 })),
        ("a message out of turn: join", |it| it.says(&join("z"))),
        ("a message out of turn: ready", |it| it.says(&ToCoordinator::Ready)),
        ("its run has 16777217 bytes, at most 16 MiB are taken", |it| {
            it.says(&ToCoordinator::Finished);
            assert_eq!(it.hears(), ToMember::Deliver);
            it.says(&ToCoordinator::Document { bytes: BYTES });
        }),
        ("not of this host", |it| it.delivers(b"refuse")),
        ("no such CPU", |it| it.says(&ToCoordinator::Failed { text: "no such\u{1b} CPU".into() })),
    ];
    let (address, coordinator) = coordinator(cases.len(), false, monotonic_raw_ns);
    let names: Vec<String> = (0..cases.len()).map(|at| format!("m{at}")).collect();
    let mut members: Vec<CoordinatorScripted> =
        names.iter().map(|name| CoordinatorScripted::joined(address, name)).collect();
    for ((member, name), (why, wrong)) in members.iter_mut().zip(&names).zip(cases) {
        wrong(member.ordered());
        let refused = member.refused();
        assert!(refused.starts_with(why), "{name}: {refused}");
    }
    drop(members);
    let (outcome, events) = coordinator.join().unwrap();
    assert!(outcome.members.iter().all(|it| it.lost.is_some()));
    assert!(!events.iter().any(|event| event.starts_with("delivered")), "{events:?}");
    assert_eq!(events.iter().filter(|event| event.starts_with("lost m")).count(), names.len());
}

#[test]
fn second_document_is_not_read() {
    let (address, coordinator) = coordinator(1, false, monotonic_raw_ns);
    let mut member = CoordinatorScripted::joined(address, "a");
    member.ordered().says(&ToCoordinator::Finished);
    assert_eq!(member.hears(), ToMember::Deliver);
    let line = "{\"message\":\"document\",\"bytes\":5}\n";
    member.0.send_bytes(format!("{line}first{line}other").as_bytes()).unwrap();
    assert_eq!(member.refused(), "");
    drop(member);
    assert_eq!(coordinator.join().unwrap().1, ["joined a", "delivered a: first"]);
}

#[test]
fn strangers_learn_nothing_and_change_nothing() {
    let (address, coordinator) = coordinator(1, false, monotonic_raw_ns);
    let mut early = CoordinatorScripted::connected(address);
    early.says(&join("a"));
    assert_eq!(early.refused(), "unexpected message: expected hello");
    let mut other = CoordinatorScripted::connected(address);
    let version = ToCoordinator::Hello {
        protocol: 99,
        version: "9\u{1b}".to_owned(),
        challenge: challenge().unwrap(),
    };
    other.says(&version);
    assert!(other.refused().starts_with("protocol 99 (fathom 9), this fathom has protocol"));
    // A proof of another token, and the coordinator's own, sent back.
    for reflects in [false, true] {
        let mut wrong = CoordinatorScripted::connected(address);
        let own = challenge().unwrap();
        wrong.says(&hello(&own));
        let ToMember::Hello { challenge, proof, .. } = wrong.hears() else { panic!("no hello") };
        let token = Token::new("other");
        let other = proof_of(&token, Side::Near, &own, &challenge);
        let proof = if reflects { proof } else { other };
        wrong.says(&ToCoordinator::Proof { proof });
        assert_eq!(wrong.refused(), "wrong token");
    }
    let mut member = CoordinatorScripted::joined(address, "a");
    member.ordered().delivers(b"x");
    assert_eq!(member.refused(), "");
    drop((early, other, member));
    let (_, events) = coordinator.join().unwrap();
    assert_eq!(events.iter().filter(|event| event.starts_with("refused")).count(), 4);
    assert_eq!(events.last().unwrap(), "delivered a: x");
}

/// Added to the clock of the coordinators of the test below.
static LATER_NS: AtomicU64 = AtomicU64::new(0);

fn later() -> u64 {
    monotonic_raw_ns() + LATER_NS.load(Ordering::Relaxed)
}

#[test]
fn silent_member_is_lost_and_silent_stranger_closed() {
    let (address, coordinator) = coordinator(2, false, later);
    let mut silent = CoordinatorScripted::joined(address, "a");
    let mut alive = CoordinatorScripted::joined(address, "b");
    silent.ordered();
    alive.ordered();
    let mut stranger = CoordinatorScripted::connected(address);
    stranger.says(&hello(&challenge().unwrap()));
    assert!(matches!(stranger.hears(), ToMember::Hello { .. }));
    // A sign of life in each of two times that are too short to be lost.
    for _ in 0..2 {
        LATER_NS.fetch_add(20_000_000_000, Ordering::Relaxed);
        alive.says(&ToCoordinator::Alive { progress: None });
        assert_eq!(alive.hears(), ToMember::Alive);
    }
    assert_eq!(silent.refused(), "no sign of life for 30 s");
    assert!(matches!(stranger.0.json::<ToMember>(WAIT_NS), Err(fathom_far::FarError::Closed)));
    alive.delivers(b"x");
    assert_eq!(alive.refused(), "");
    drop((silent, alive));
    let (outcome, mut events) = coordinator.join().unwrap();
    let silent = "refused: 127.0.0.1: no proof of the token in 2 s";
    events.remove(events.iter().position(|event| event == silent).unwrap());
    let expected = ["joined a", "joined b", "lost a: no sign of life for 30 s", "delivered b: x"];
    assert_eq!(events, expected);
    assert_eq!(outcome.members[0].lost.as_deref(), Some("no sign of life for 30 s"));
}

/// The clock of the coordinator of the test below, which goes on from one connection to the next.
static STEPS_NS: AtomicU64 = AtomicU64::new(0);

#[test]
fn silent_strangers_keep_no_member_away() {
    let (address, coordinator) = coordinator(2, false, || STEPS_NS.load(Ordering::Relaxed));
    // The first one of all, but the only one of its address.
    let from = Some(IpAddr::from([127, 0, 0, 9]));
    let mut slow =
        CoordinatorScripted(Channel::new(connect(address, from, None, "connect").unwrap().into()));
    let mut strangers: Vec<CoordinatorScripted> = Vec::new();
    let own = challenge().unwrap();
    slow.says(&hello(&own));
    let ToMember::Hello { challenge: its, .. } = slow.hears() else { panic!("no hello") };
    for _ in 1..STRANGERS_MAX {
        STEPS_NS.fetch_add(1, Ordering::Relaxed);
        strangers.push(CoordinatorScripted::connected(address));
        strangers.last_mut().unwrap().says(&hello(&own));
        assert!(matches!(strangers.last_mut().unwrap().hears(), ToMember::Hello { .. }));
    }
    // Less than the time for a proof.
    STEPS_NS.fetch_add(PLACE_NS, Ordering::Relaxed);
    let mut member = CoordinatorScripted::joined(address, "a");
    assert!(matches!(strangers[0].0.json::<ToMember>(WAIT_NS), Err(fathom_far::FarError::Closed)));
    let unheard = strangers[1].0.json::<ToMember>(0);
    assert!(matches!(unheard, Err(fathom_far::FarError::TimedOut(_))), "{unheard:?}");
    let proof = proof_of(&Token::new(TOKEN), Side::Near, &own, &its);
    slow.says(&ToCoordinator::Proof { proof });
    slow.says(&join("b"));
    assert_eq!(slow.hears(), ToMember::Joined);
    for each in [&mut member, &mut slow] {
        each.ordered().delivers(b"x");
        assert_eq!(each.refused(), "");
    }
    drop((strangers, member, slow));
    let (_, events) = coordinator.join().unwrap();
    let given_up = "refused: 127.0.0.1 gives up its place: 64 connections, at most 64, have not \
                    proved the token";
    assert_eq!(events, [given_up, "joined a", "joined b", "delivered a: x", "delivered b: x"]);
}
