//! The corpus sent to nginx, Apache httpd, lighttpd and Caddy. Every answer that differs from ours
//! must be explained. `make http-peers` runs it and writes docs/evidence/HTTP-PEERS.md.

mod explain;
mod observe;
mod page;
mod servers;

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use self::explain::{ExplainDifference, explain, stale};
use self::observe::ObserveOutcome;
use self::servers::{PROGRAMS, ServerPeer};
use crate::client::LabClient;
use crate::corpus::{CorpusCase, CorpusWords, THEMES, targets, theme};
use crate::gate::ServiceGate;
use crate::skipped;

/// Cases of one server that are sent at a time.
const LANES: usize = 16;

/// Whether a case has the same meaning elsewhere: without our own resources and tokens.
fn is_comparable(case: &CorpusCase) -> bool {
    let is_own = case.bytes.windows(9).any(|part| part == b"/.fathom/" || part == b"/.fathom%");
    !is_own && !matches!(case.theme, "authorization" | "control")
}

fn id(case: &CorpusCase) -> String {
    format!("{}/{}", case.theme, case.name.replace(' ', ":"))
}

fn all_cases(words: &CorpusWords) -> Vec<CorpusCase> {
    THEMES.iter().flat_map(|name| theme(name, words)).chain(targets(words)).collect()
}

/// The cases of a server, with the ETag that it gives.
fn comparable(address: SocketAddr, words: &CorpusWords) -> Vec<CorpusCase> {
    let reply = LabClient::connect(address).request("HEAD", "/a", &[]);
    let tag = reply.field("ETag").expect("a tag").to_owned();
    let mut words = words.to_vec();
    words
        .iter_mut()
        .filter(|(name, _)| *name == "etag")
        .for_each(|(_, value)| value.clone_from(&tag));
    all_cases(&words).into_iter().filter(is_comparable).collect()
}

/// The outcomes of all cases, in order.
fn observe(address: SocketAddr, cases: &[CorpusCase]) -> Vec<ObserveOutcome> {
    let lane = |lane: usize| {
        let cases = cases.iter().enumerate().skip(lane).step_by(LANES);
        cases.map(|(at, case)| (at, ObserveOutcome::observe(address, case))).collect::<Vec<_>>()
    };
    let lane = &lane;
    let mut outcomes: Vec<_> = std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..LANES).map(|at| scope.spawn(move || lane(at))).collect();
        lanes.into_iter().flat_map(|lane| lane.join().expect("no panic")).collect()
    });
    outcomes.sort_by_key(|(at, _)| *at);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}

fn differences(
    peer: &'static str,
    cases: &[CorpusCase],
    ours: &[ObserveOutcome],
    theirs: &[ObserveOutcome],
) -> Vec<ExplainDifference> {
    let pairs = cases.iter().zip(ours.iter().zip(theirs));
    let difference = |(case, (ours, theirs)): (&CorpusCase, (&ObserveOutcome, &ObserveOutcome))| {
        let (ours, theirs) = ours.difference(theirs)?;
        Some(ExplainDifference { peer, case: id(case), ours, theirs })
    };
    pairs.filter_map(difference).collect()
}

#[test]
#[ignore = "make http-peers: needs nginx, apache2, lighttpd and caddy"]
fn differences_from_peers_are_explained() {
    let Some(folder) = std::env::var_os("FATHOM_PEERS") else {
        return skipped("no folder in FATHOM_PEERS; use `make http-peers`");
    };
    let folder = Path::new(&folder);
    let gate = ServiceGate::new(false);
    for folder in [folder, &gate.service.outside("")] {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).expect("a mode");
    }
    let served = gate.service.path("");
    let peers = PROGRAMS.each_ref().map(|program| ServerPeer::start(program, &served, folder));
    let ours = gate.service.server().addresses()[0];
    let cases = comparable(ours, &gate.words);
    let own = observe(ours, &cases);
    for (case, outcome) in cases.iter().zip(&own) {
        assert!(outcome.is_as_expected(case), "{}: {}", id(case), outcome.text(None));
    }
    let of_peer = |peer: &ServerPeer| observe(peer.address, &comparable(peer.address, &gate.words));
    let of_peer = &of_peer;
    let outcomes: Vec<Vec<ObserveOutcome>> = std::thread::scope(|scope| {
        let threads = peers.each_ref().map(|peer| scope.spawn(move || of_peer(peer)));
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    let of_peers = peers.iter().zip(&outcomes);
    let all: Vec<ExplainDifference> =
        of_peers.flat_map(|(peer, theirs)| differences(peer.name, &cases, &own, theirs)).collect();
    fs::write(
        folder.join("differences"),
        all.iter().map(|one| format!("{one}\n")).collect::<String>(),
    )
    .expect("a file");
    let mut explanations = explain::read();
    let causes: Vec<_> = all.iter().map(|one| explain(&mut explanations, one)).collect();
    let unexplained = all.iter().zip(&causes).filter(|(_, cause)| cause.is_none());
    let unexplained: Vec<String> = unexplained.map(|(one, _)| one.to_string()).collect();
    let stale = stale(&explanations);
    assert!(
        unexplained.is_empty() && stale.is_empty(),
        "{} unexplained:\n{}\n{} stale:\n{}",
        unexplained.len(),
        unexplained.join("\n"),
        stale.len(),
        stale.join("\n")
    );
    let compared = page::PageCompared {
        skipped: all_cases(&gate.words).into_iter().filter(|case| !is_comparable(case)).collect(),
        cases,
        own,
        outcomes,
        differences: all.into_iter().zip(causes.into_iter().flatten()).collect(),
        explanations,
    };
    page::write(&compared);
}

#[test]
#[ignore = "lab: a server that waits is known by its silence"]
fn service_does_not_differ_from_itself() {
    let gates = [ServiceGate::new(false), ServiceGate::new(false), ServiceGate::new(true)];
    let address = |gate: &ServiceGate| gate.service.server().addresses()[0];
    let cases = |gate: &ServiceGate| theme("framing", &gate.words);
    let [ours, same, other] = gates.each_ref().map(|gate| observe(address(gate), &cases(gate)));
    let cases = cases(&gates[0]);
    assert!(cases.iter().zip(&ours).all(|(case, outcome)| outcome.is_as_expected(case)));
    let found = differences("same", &cases, &ours, &same);
    assert!(found.is_empty(), "{found:#?}");
    let found = differences("other", &cases, &ours, &other);
    let found: Vec<_> = found.iter().map(ToString::to_string).collect();
    let of_token = "other | framing/length-zero | 200 keep -> 401 keep".to_owned();
    assert!(found.contains(&of_token), "{found:#?}");
}

#[test]
fn outcomes_of_any_server_are_read() {
    for (answer, expected) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nHIDDEN", "200:hidden wait"),
        ("HTTP/1.1 404 No\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", "404 wait"),
        ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 200 OK\r\n\r\ncanary", "100 200:outside wait"),
        ("HTTP/1.1 304 No\r\nContent-Length: 9\r\n\r\nHTTP/1.1 204 No\r\n\r\n", "304 204 wait"),
        ("0123456789", "headless wait"),
        ("HTTP/1.1 200", "malformed wait"),
        ("", "wait"),
    ] {
        let outcome = ObserveOutcome::read(answer.as_bytes());
        assert_eq!(outcome.text(None), expected);
    }
    let with = |body| ObserveOutcome::read(format!("HTTP/1.1 200 OK\r\n\r\n{body}").as_bytes());
    let expected = ("200 wait".to_owned(), "200:other wait".to_owned());
    assert_eq!(with("one").difference(&with("two")), Some(expected));
    assert_eq!(with("one").difference(&with("one")), None);
}

#[test]
fn unexplained_and_stale_are_found() {
    let difference = |peer, case: &str, theirs: &str| ExplainDifference {
        peer,
        case: case.to_owned(),
        ours: "400 close".to_owned(),
        theirs: theirs.to_owned(),
    };
    let text = "# comment\n@ both | 1-2 | first\na | x/o* x/two | 400 close -> 2?? *\n\
        @ ours | 1-2 | second\na b | x/* | * -> *\n";
    let mut all = explain::parse(text);
    assert_eq!(explain(&mut all, &difference("a", "x/one", "200 keep")), Some(0));
    assert_eq!(explain(&mut all, &difference("a", "x/one", "400 keep")), Some(1));
    assert_eq!(explain(&mut all, &difference("b", "y/one", "200 keep")), None);
    assert_eq!(stale(&all), ["line 3: x/two", "line 5: b"]);
}
