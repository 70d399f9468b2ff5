//! Far ends: their process, the control protocol, the service that starts them, and runs with one.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Output;

use fathom_far::{
    Channel, Far, FarError, LINE_BYTES_MAX, Orders, ProcessProgram, ProtocolHello, ProtocolMessage,
    ProtocolWork, Remote, SetUp, Side, Token, UPGRADE, WAIT_NS, nonce, proof,
};
use fathom_lab::link::LabLink;
use fathom_lab::processes::{children, descendants};
use fathom_measure::affinity;
use fathom_measure::process::Running;
use fathom_record::{Cause, Document, Record, State};
use rustix::process::Signal;

use crate::children::{
    assert_all_end, next_line, signal, signal_and_wait, spawn_piped, wait_until,
};
use crate::group::skipped;
use crate::limits::{one_cpu, under};
use crate::serve::start as serve;
use crate::test_env::{
    ProgramTestEnv, assert_contains, assert_usage_error, document, of_metric, text,
};

pub(crate) const RTT: &str = "network.tcp.rtt";
const SHORT_NS: u64 = 400_000_000;

/// A far end of this test.
fn start(idle_ns: u64) -> (Running, Channel) {
    let (near, far) = UnixStream::pair().expect("sockets");
    let path = PathBuf::from(env!("CARGO_BIN_EXE_fathom"));
    let program = ProcessProgram { path, arguments: vec!["far".to_owned()] };
    let orders = Orders { idle_ns, ..Orders::new(None) };
    (program.start(far.into(), &orders).expect("it starts"), Channel::new(near.into()))
}

/// One that was greeted.
fn greeted(idle_ns: u64) -> (Running, Channel) {
    let (far, mut channel) = start(idle_ns);
    channel.send(&ProtocolMessage::Hello(ProtocolHello::new(None, None))).expect("sent");
    assert!(matches!(channel.receive(WAIT_NS), Ok(ProtocolMessage::Hello(_))));
    (far, channel)
}

fn set_up(bytes: u32) -> ProtocolMessage {
    let (work, cpu) = (ProtocolWork::Echo { bytes, busy: false }, affinity::allowed()[0]);
    ProtocolMessage::SetUp(SetUp { work, cpu, congestion: None })
}

fn ready(channel: &mut Channel) -> (TcpStream, String) {
    channel.send(&set_up(4)).expect("sent");
    let Ok(ProtocolMessage::Ready { port, nonce, .. }) = channel.receive(WAIT_NS) else {
        panic!("not ready")
    };
    (TcpStream::connect(("127.0.0.1", port)).expect("it listens"), nonce)
}

fn assert_ends(far: &mut Running) {
    wait_until("the far end is left", || far.try_wait().expect("a child").is_some());
}

fn refusal(channel: &mut Channel) -> String {
    match channel.receive(WAIT_NS) {
        Err(FarError::Reported(text)) => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn far_end_echoes_and_reports_its_counters() {
    let (mut far, mut channel) = greeted(WAIT_NS);
    let (mut data, nonce) = ready(&mut channel);
    data.write_all(nonce.as_bytes()).expect("sent");
    channel.send(&ProtocolMessage::Go).expect("sent");
    for request in [*b"abcd", *b"efgh"] {
        data.write_all(&request).expect("sent");
        let mut answer = [0; 4];
        data.read_exact(&mut answer).expect("an answer");
        assert_eq!(answer, request);
    }
    drop(data);
    let Ok(ProtocolMessage::Result(outcome)) = channel.receive(WAIT_NS) else {
        panic!("no result")
    };
    assert_eq!((outcome.count, outcome.far.checks[0].passed), (2, true));
    assert!(outcome.far.disturbance.wall_ns > 0 && !outcome.congestion.is_empty());
    assert_ends(&mut far);
}

#[test]
fn data_connection_needs_the_nonce() {
    let (_far, mut channel) = greeted(WAIT_NS);
    let (mut data, nonce) = ready(&mut channel);
    let port = data.peer_addr().expect("an address").port();
    data.write_all("0".repeat(nonce.len()).as_bytes()).expect("sent");
    assert_eq!(data.read(&mut [0]).expect("it is closed"), 0);
    let mut data = TcpStream::connect(("127.0.0.1", port)).expect("it still listens");
    data.write_all(nonce.as_bytes()).expect("sent");
    channel.send(&ProtocolMessage::Go).expect("sent");
    data.write_all(b"abcd").expect("sent");
    data.read_exact(&mut [0; 4]).expect("an answer");
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err(), "one connection only");
}

#[test]
fn long_or_unknown_message_is_refused() {
    for (line, expected) in [
        ("x".repeat(LINE_BYTES_MAX + 1), "a line exceeds 64 KiB"),
        ("{\"message\":\"dance\"}\n".to_owned(), "unknown message: unknown variant `dance`"),
        ("{\"message\":\"go\"}\n".to_owned(), "expected hello"),
        ("{\"message\":\"hello\",\"protocol\":2,\"version\":\"9\"}\n".to_owned(), "protocol 2"),
    ] {
        let (mut far, mut channel) = start(WAIT_NS);
        // It may end before it has read all.
        let _ = rustix::io::write(channel.as_fd(), line.as_bytes());
        let text = refusal(&mut channel);
        assert!(text.contains(expected), "{text}");
        assert_ends(&mut far);
    }
    let (_far, mut channel) = greeted(WAIT_NS);
    channel.send(&set_up(1 << 20)).expect("sent");
    assert!(refusal(&mut channel).contains("65536 bytes"));
}

#[test]
fn silent_near_end_is_not_waited_for() {
    let (mut far, mut channel) = start(SHORT_NS);
    assert_eq!(refusal(&mut channel), "no answer within 0.4 s");
    assert_ends(&mut far);
    // During the work, too, or before it if this test is slow.
    let (mut far, mut channel) = start(SHORT_NS);
    for message in
        [ProtocolMessage::Hello(ProtocolHello::new(None, None)), set_up(4), ProtocolMessage::Go]
    {
        let _ = channel.send(&message);
    }
    let _ = channel.receive(WAIT_NS);
    let data = match channel.receive(WAIT_NS) {
        Ok(ProtocolMessage::Ready { port, nonce, .. }) => {
            let data = TcpStream::connect(("127.0.0.1", port));
            data.and_then(|mut data| data.write_all(nonce.as_bytes()).map(|()| data)).ok()
        }
        _ => None,
    };
    assert_ends(&mut far);
    drop(data);
}

#[test]
fn far_end_ends_with_a_killed_worker() {
    let env = ProgramTestEnv::new();
    let mut run = spawn_piped(env.command(&format!("run -q --only --thorough {RTT}")));
    // At work it has a second thread.
    let is_far = |pid: &u32| {
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
        words.split(|byte| *byte == 0).any(|word| word == b"far") && threads > 1
    };
    let mut found = None;
    wait_until("no far end", || {
        for worker in children(run.id()) {
            // So that the visit does not end meanwhile.
            signal(worker, Signal::STOP);
            found = children(worker).into_iter().find(is_far).map(|far| (worker, far));
            if found.is_some() {
                return true;
            }
            signal(worker, Signal::CONT);
        }
        false
    });
    let (worker, far) = found.expect("a far end");
    signal(worker, Signal::KILL);
    assert_all_end(&[far]);
    let left = descendants(run.id());
    signal(run.id(), Signal::KILL);
    run.wait().expect("a child");
    assert_all_end(&left);
}

pub(crate) fn remote(address: &str, token: Option<Token>) -> Remote {
    Remote { address: address.parse().expect("an address"), token, bind: None }
}

/// A control connection by hand.
fn upgrade(address: &str, field: &str) -> (String, TcpStream) {
    let mut stream = TcpStream::connect(address).expect("it listens");
    let request = format!("GET /.fathom/far HTTP/1.1\r\nHost: localhost\r\n{field}\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("sent");
    (fathom_testing::read_head(&mut stream).expect("a head"), stream)
}

fn switched(address: &str) -> TcpStream {
    let (head, stream) = upgrade(address, &format!("Connection: upgrade\r\nUpgrade: {UPGRADE}"));
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    stream
}

fn control(address: &str) -> Channel {
    Channel::new(switched(address).into())
}

/// A control connection to a service without a token, after both hellos.
pub(crate) fn greeted_service(address: &str) -> TcpStream {
    let stream = switched(address);
    let own = stream.try_clone().expect("a descriptor");
    let mut channel = Channel::new(own.into());
    channel.send(&ProtocolMessage::Hello(ProtocolHello::new(None, None))).expect("sent");
    assert!(matches!(channel.receive(WAIT_NS), Ok(ProtocolMessage::Hello(_))));
    stream
}

#[test]
fn both_ends_prove_the_token() {
    let env = ProgramTestEnv::new();
    let (child, address) = serve(&env, "--token-file token");
    let token = Token::read(&env.file("token")).expect("a token");
    let mut far = Far::connect(&remote(&address, Some(token.clone()))).expect("accepted");
    assert!(!far.host().expect("facts").0.kernel.is_empty());
    let connect = |token| Far::connect(&remote(&address, token)).err();
    assert!(matches!(connect(None), Some(FarError::TokenMissing)));
    // By the proof of the far end, which comes first.
    assert!(matches!(connect(Some(Token::new(&"0".repeat(64)))), Some(FarError::TokenWrong)));

    let near = nonce().expect("a nonce");
    let challenge = |channel: &mut Channel| {
        channel
            .send(&ProtocolMessage::Hello(ProtocolHello::new(Some(near.clone()), None)))
            .expect("sent");
        let Ok(ProtocolMessage::Hello(hello)) = channel.receive(WAIT_NS) else {
            panic!("no hello")
        };
        let far = hello.challenge.expect("a challenge");
        assert_eq!(hello.proof, Some(proof(&token, Side::Far, &near, &far)));
        far
    };
    let mut first = control(&address);
    let far = challenge(&mut first);
    let right = ProtocolMessage::Proof { proof: proof(&token, Side::Near, &near, &far) };
    first.send(&right).expect("sent");
    first.send(&ProtocolMessage::Host).expect("sent");
    assert!(matches!(first.receive(WAIT_NS), Ok(ProtocolMessage::Facts { .. })));
    // The same again, the far end's own proof, and none at all.
    let mut own = control(&address);
    let of_far = challenge(&mut own);
    let reflected = ProtocolMessage::Proof { proof: proof(&token, Side::Far, &near, &of_far) };
    own.send(&reflected).expect("sent");
    assert_eq!(refusal(&mut own), "wrong token");
    for (message, expected) in [(right, "wrong token"), (ProtocolMessage::Host, "expected proof")] {
        let mut other = control(&address);
        challenge(&mut other);
        other.send(&message).expect("sent");
        assert!(refusal(&mut other).contains(expected));
    }
    assert_eq!(signal_and_wait(child, Signal::INT).code(), Some(0));
}

#[test]
fn service_starts_a_bounded_number_of_far_ends() {
    let env = ProgramTestEnv::new();
    let (child, address) = serve(&env, "");
    for field in ["X: y", "Upgrade: fathom-far/1", "Connection: upgrade\r\nUpgrade: fathom-far/2"] {
        assert!(upgrade(&address, field).0.starts_with("HTTP/1.1 426 "), "{field}");
    }
    let behind = format!("Connection: upgrade\r\nUpgrade: {UPGRADE}\r\n\r\nearly");
    let (head, mut stream) = upgrade(&address, &behind);
    let mut body = String::new();
    stream.read_to_string(&mut body).expect("a response");
    assert!(head.starts_with("HTTP/1.1 426 ") && body.contains("before the 101"), "{head}{body}");
    let connect = || Far::connect(&remote(&address, None));
    let mut far: Vec<Far> = (0..8).map(|_| connect().expect("one of eight")).collect();
    for _ in 0..92 {
        assert!(matches!(connect(), Err(FarError::Busy)));
    }
    let pids = children(child.id());
    assert_eq!(pids.len(), 8);
    for pid in &pids {
        let folder = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("descriptors");
        let links = folder.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
        let links: BTreeSet<String> = links.map(|it| it.display().to_string()).collect();
        // Orders, the control connection, and /dev/null.
        assert_eq!(links.len(), 3, "{links:?}");
        assert_eq!(links.iter().filter(|link| link.starts_with("socket:")).count(), 1);
    }
    far.pop();
    // Reaped, too: a zombie is a child.
    wait_until("the ninth far end is left", || children(child.id()).len() == 7);
    wait_until("no place is free", || connect().map(|one| far.push(one)).is_ok());
    let pids = children(child.id());
    assert_eq!(signal_and_wait(child, Signal::INT).code(), Some(0));
    assert_all_end(&pids);
}

pub(crate) fn assert_measured(record: &Record) {
    if record.verdict.state == State::Unavailable {
        return skipped(&format!("{}: {:?}", record.params, record.verdict.reasons));
    }
    let samples = record.samples.as_deref().unwrap_or_default();
    assert!(!samples.is_empty(), "{}: {:?}", record.params, record.verdict);
    for sample in samples {
        let far = sample.far.as_ref().expect("a far end");
        assert!(far.disturbance.cpu_ns > 0 && far.reference_ns.len() == 8);
        assert!(sample.values.iter().all(|ns| *ns > 0.0));
    }
    let names: Vec<&str> = record.checks.keys().map(String::as_str).collect();
    let of_tcp = ["acknowledgements", "tcp congestion"];
    let own = if record.metric.as_str() == RTT { &of_tcp[..] } else { &["losses"] };
    for name in ["CPU", "far end: CPU", "round trips"].iter().chain(own) {
        assert!(names.contains(name), "{names:?}");
    }
}

/// A short run to a remote host. On one CPU: most of the cases on this host need two.
pub(crate) fn run_remote(env: &ProgramTestEnv, words: &str) -> Output {
    let line = format!("run --quick --processes 3 --only --json --samples {words}");
    under(env.command(&line), one_cpu)
}

#[test]
fn run_measures_both_ends_on_this_host() {
    let line = format!("run --quick --processes 3 --only {RTT}{{bytes=1}} --json --samples");
    let document = document(&ProgramTestEnv::new().exec(&line));
    assert_eq!((document.records.len(), document.far.len()), (3, 0));
    document.records.iter().for_each(assert_measured);
}

#[test]
fn run_to_a_remote_host_has_its_facts() {
    let env = ProgramTestEnv::new();
    let (child, address) = serve(&env, "--token-file token");
    let words = format!("{RTT}{{bytes=1,cpus=2}} --remote {address} --token-file token");
    let document = document(&run_remote(&env, &words));
    // This host, so that it has the name that was given.
    assert_eq!(document.far[0].name, "127.0.0.1");
    assert_eq!(document.far[0].host.identity(), document.host.identity());
    let remote: Vec<&Record> = of_metric(&document, RTT)
        .into_iter()
        .filter(|record| record.params.text("to") == Some("127.0.0.1"))
        .collect();
    assert_eq!(remote.len(), 2);
    remote.into_iter().for_each(assert_measured);
    let other = env.exec(&format!("run cpu.frequency --remote {address} --token-file token"));
    assert_usage_error(&other, &["far end on another host", "network"]);
    assert_eq!(signal_and_wait(child, Signal::INT).code(), Some(0));
}

/// A server that gives this answer to every connection.
fn answering(answer: &'static str) -> String {
    let serve = move |mut stream: TcpStream| {
        let _ = stream.read(&mut [0; 4096]);
        let _ = stream.write_all(answer.as_bytes());
        let _ = stream.read(&mut [0; 4096]);
    };
    fathom_testing::listen(serve).to_string()
}

#[test]
fn unusable_remote_host_is_one_line() {
    let env = ProgramTestEnv::new();
    let (child, address) = serve(&env, "--token-file token");
    let (open, at_open) = serve(&env, "");
    std::fs::write(env.file("other"), "0".repeat(64)).expect("a file");
    let web = answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let python = answering("HTTP/1.0 404 File not found\r\nServer: SimpleHTTP/0.6\r\n\r\n");
    let mail = answering("220 mail ready\r\n\r\n");
    let newer = answering(
        "HTTP/1.1 101 Switching Protocols\r\n\r\n\
         {\"message\":\"hello\",\"protocol\":2,\"version\":\"9.0\"}\n",
    );
    let older = answering("HTTP/1.1 404 Not Found\r\nServer: fathom\r\n\r\n");
    env.assert_failures(
        &format!("run {RTT}"),
        &format!(
            "--remote 127.0.0.1:1 | 127.0.0.1:1 | Connection refused | fathom serve
             --remote {address} | token is required | --token-file
             --remote {address} --token-file other | wrong token
             --remote {address} --token-file none | token file none
             --remote {at_open} --token-file token | has no token | omit --token-file
             --remote {web} | not a fathom service | status 200
             --remote {python} | not a fathom service | status 404
             --remote {mail} | not a fathom service
             --remote {newer} | protocol 2 (fathom 9.0) | same version
             --remote {older} | another version of fathom
             --remote no-such-host.invalid | no-such-host.invalid"
        ),
    );
    for child in [child, open] {
        assert_eq!(signal_and_wait(child, Signal::INT).code(), Some(0));
    }
}

/// A server that is lost after its first connection, which it relays.
fn lost_after_one_connection(to: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let (address, to) = (listener.local_addr().expect("an address").to_string(), to.to_owned());
    std::thread::spawn(move || {
        let (near, _) = listener.accept().expect("a connection");
        drop(listener);
        let far = TcpStream::connect(to).expect("it listens");
        let ends = near.try_clone().and_then(|near| Ok((near, far.try_clone()?)));
        let (mut near_too, mut far_too) = ends.expect("descriptors");
        std::thread::spawn(move || std::io::copy(&mut near_too, &mut far_too));
        let _ = std::io::copy(&mut &far, &mut &near);
    });
    address
}

#[test]
fn lost_far_end_is_a_failure_with_its_cause() {
    let env = ProgramTestEnv::new();
    let (child, address) = serve(&env, "");
    let lost = lost_after_one_connection(&address);
    let output = run_remote(&env, &format!("{RTT}{{bytes=1,cpus=2}} --remote {lost}"));
    let document: Document = serde_json::from_slice(&output.stdout).expect("a run");
    let is_remote = |record: &&Record| record.params.text("to") == Some("127.0.0.1");
    let remote: Vec<&Record> = document.records.iter().filter(is_remote).collect();
    assert_eq!(remote.len(), 2);
    for record in remote {
        assert_eq!(record.verdict.state, State::Failed);
        assert_eq!(record.verdict.reasons[0].cause, Cause::FarEndLost, "{:?}", record.verdict);
    }
    assert_eq!(output.status.code(), Some(1));
    assert_contains(&text(&output.stderr), &["far end lost in 2 of 2 remote cases", "refused"]);
    assert_eq!(signal_and_wait(child, Signal::INT).code(), Some(0));
}

/// A link between network namespaces; `None` if it cannot be made.
pub(crate) fn link(name: &str) -> Option<LabLink> {
    LabLink::new(name).map_err(|why| skipped(&why.to_string())).ok()
}

#[test]
fn run_measures_between_network_namespaces() {
    let Some(link) = link("run") else { return };
    let env = ProgramTestEnv::new();
    let line = "serve . --listen 10.213.7.2:7000 --token-file token";
    let mut child = spawn_piped(link.at(1, &env.command(line)));
    assert!(next_line(&mut child).contains("http://10.213.7.2:7000/"));
    let options = "--remote 10.213.7.2:7000 --token-file token --json --samples";
    let line = format!("run --quick --processes 3 --only {RTT}{{bytes=1}} {options}");
    let output = link.at(0, &env.command(&line)).output().expect("ip starts");
    let document = document(&output);
    assert_eq!(document.far[0].name, "10.213.7.2");
    let is_remote = |record: &&Record| record.params.text("to") == Some("10.213.7.2");
    let remote: Vec<&Record> = document.records.iter().filter(is_remote).collect();
    assert_eq!(remote.len(), 2);
    remote.into_iter().for_each(assert_measured);
    // The loopback interface of a new namespace is down.
    let mut local = document.records.iter().filter(|record| !is_remote(record));
    assert!(local.all(|record| record.verdict.state == State::Unavailable));
    assert_eq!(signal_and_wait(child, Signal::INT).code(), Some(0));
}
