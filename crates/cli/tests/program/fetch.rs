//! `fathom fetch` from `fathom serve` and from servers of the test: resumption, ETags, broken and
//! hostile servers, kills, a full disk.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::{Arc, Mutex, mpsc};

use fathom_fileio::XorSum;
use fathom_record::{Document, FactValue};
use fathom_testing::{listen, read_head};
use rustix::process::Signal;

use crate::children::{send, signal_and_wait, spawn_piped, wait_until};
use crate::forbidden::in_mount_namespace;
use crate::serve::start as serve;
use crate::test_env::{
    ProgramTestEnv, assert_contains, assert_failure, assert_message, assert_status, document,
    entries, generated, text,
};

mod malformed;

/// A server whose answers the test makes. Each connection has one request.
struct FetchServer {
    address: SocketAddr,
    /// The heads of all requests.
    heads: Arc<Mutex<Vec<String>>>,
}

impl FetchServer {
    /// `answer` gets the number and head of a request.
    fn start(answer: impl Fn(usize, &str, &mut TcpStream) + Send + Sync + 'static) -> Self {
        let heads = Arc::<Mutex<Vec<String>>>::default();
        let log = Arc::clone(&heads);
        let address = listen(move |mut stream| {
            let Some(head) = read_head(&mut stream) else { return };
            let number = {
                let mut log = log.lock().expect("a list");
                log.push(head.clone());
                log.len() - 1
            };
            answer(number, &head, &mut stream);
        });
        Self { address, heads }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    fn heads(&self) -> Vec<String> {
        self.heads.lock().expect("a list").clone()
    }
}

/// The value of a field of a request.
fn field<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

/// The head of an answer with this file, and the part of it that was asked for.
fn part<'b>(head: &str, bytes: &'b [u8], etag: &str) -> (String, &'b [u8]) {
    let fields = format!("ETag: {etag}\r\nAccept-Ranges: bytes\r\nConnection: close\r\n");
    let range = field(head, "Range").filter(|_| field(head, "If-Range") == Some(etag));
    let Some(range) = range.and_then(|range| range.strip_prefix("bytes=")) else {
        let length = bytes.len();
        return (format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n{fields}\r\n"), bytes);
    };
    let (from, to) = range.split_once('-').expect("a range");
    let from: usize = from.parse().expect("a number");
    let to = to.parse().map_or(bytes.len(), |last: usize| last + 1);
    let range = format!("Content-Range: bytes {from}-{}/{}", to - 1, bytes.len());
    let length = to - from;
    let head = format!("HTTP/1.1 206 x\r\nContent-Length: {length}\r\n{range}\r\n{fields}\r\n");
    (head, &bytes[from..to])
}

/// Sends a file, or the asked part of it.
fn send_file(head: &str, stream: &mut TcpStream, bytes: &[u8], etag: &str) {
    let (head, body) = part(head, bytes, etag);
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
}

/// Sends the first `count` bytes of the asked part, and then nothing until the client closes.
fn stall(head: &str, stream: &mut TcpStream, (bytes, count): (&[u8], usize), etag: &str) {
    let (head, body) = part(head, bytes, etag);
    let _ = stream.write_all(head.as_bytes());
    let _ = stream.write_all(&body[..count]);
    let _ = stream.read(&mut [0]);
}

/// The names in the folder of downloads, sorted.
fn names(env: &ProgramTestEnv) -> Vec<String> {
    let name = |path: &Path| Some(path.file_name()?.to_str()?.to_owned());
    let mut names: Vec<_> = entries(&env.file("to")).iter().filter_map(|it| name(it)).collect();
    names.sort();
    names
}

fn new_env() -> ProgramTestEnv {
    let env = ProgramTestEnv::new();
    std::fs::create_dir(env.file("to")).expect("a folder");
    env
}

fn content(env: &ProgramTestEnv, name: &str) -> Vec<u8> {
    std::fs::read(env.file("to").join(name)).expect("a file")
}

/// Starts a download and kills it when its state says that `least` bytes are received.
fn kill_after(env: &ProgramTestEnv, line: &str, least: u64) {
    let child = spawn_piped(env.command(line));
    let state = env.file("to/f.part.state");
    let received = || {
        let text = std::fs::read(&state).ok()?;
        let state: serde_json::Value = serde_json::from_slice(&text).ok()?;
        let missing = state["missing"].as_array()?.iter();
        let missing = missing.map(|range| Some(range[1].as_u64()? - range[0].as_u64()?));
        Some(state["bytes"].as_u64()? - missing.sum::<Option<u64>>()?)
    };
    wait_until("too little is received", || received().is_some_and(|bytes| bytes >= least));
    signal_and_wait(child, Signal::KILL);
}

/// A fact of the only record.
fn fact(document: &Document, name: &str) -> Option<FactValue> {
    let facts = &document.records[0].facts;
    facts.iter().find(|fact| fact.name == name).map(|fact| fact.value.clone())
}

#[test]
fn whole_file_has_its_sums_by_every_path() {
    let env = new_env();
    let bytes = generated(9, 17_000_003);
    std::fs::write(env.file("f"), &bytes).expect("a file");
    std::fs::write(env.file("empty"), "").expect("a file");
    let sum = XorSum::over(&bytes);
    let (child, address) = serve(&env, "");
    for receive in ["copy", "mmap", "splice"] {
        for connections in [1, 2] {
            let options = format!("--receive {receive} --connections {connections} --force");
            let line = format!("fetch http://{address}/f -o to --sum --json {options}");
            let document = document(&env.exec(&line));
            let expected = [format!("{:08x}", sum.xor), format!("{:016x}", sum.position)];
            for (name, text) in ["XOR-32", "position sum"].into_iter().zip(expected) {
                assert_eq!(fact(&document, name), Some(FactValue::Text { text }), "{options}");
            }
            let params = &document.records[0].params;
            assert_eq!(params.integer("connections"), Some(connections), "{options}");
            assert_eq!(params.text("path"), Some(receive));
            assert!(content(&env, "f") == bytes, "{options}");
            assert_eq!(names(&env), ["f"], "{options}");
        }
    }
    env.stdout(&format!("fetch http://{address}/empty -o to/other"));
    assert!(content(&env, "other").is_empty());
    assert_eq!(signal_and_wait(child, Signal::INT).code(), Some(0));
}

#[test]
fn killed_download_resumes() {
    let bytes: &[u8] = generated(3, 24 << 20).leak();
    for (options, least) in [
        ("--connections 1", 5 << 20),
        ("--connections 1 --receive mmap", 5 << 20),
        ("--connections 1 --receive copy", 5 << 20),
        // Two ranges, each of which stalls.
        ("--connections 2", 10 << 20),
    ] {
        let server = FetchServer::start(move |number, head, stream| match number {
            0 | 1 if head.contains("/f ") && field(head, "X-Stall").is_some() => {
                stall(head, stream, (bytes, (5 << 20) + 7), "\"a\"");
            }
            _ => send_file(head, stream, bytes, "\"a\""),
        });
        let env = new_env();
        let line = format!("fetch {} -o to {options}", server.url("/f"));
        kill_after(&env, &format!("{line} -H X-Stall:1"), least);
        assert_eq!(names(&env), ["f.part", "f.part.state"], "{options}");
        let before = server.heads().len();
        let document = document(&env.exec(&format!("{line} --json --sum")));
        assert!(content(&env, "f") == bytes, "{options}");
        assert_eq!(names(&env), ["f"]);
        let heads = server.heads();
        let head = &heads[before];
        assert_eq!(field(head, "If-Range"), Some("\"a\""));
        let from = field(head, "Range").and_then(|it| it.strip_prefix("bytes=")?.split_once('-'));
        let from: u64 = from.expect("a range").0.parse().expect("a number");
        assert!((4 << 20..=(5 << 20) + 7).contains(&from), "{from} {options}");
        let resumed = fact(&document, "resumed after");
        let Some(FactValue::Quantity { value, .. }) = resumed else { panic!("{resumed:?}") };
        assert!(value >= least as f64, "{value}");
        let xor = FactValue::Text { text: format!("{:08x}", XorSum::over(bytes).xor) };
        assert_eq!(fact(&document, "XOR-32"), Some(xor), "{options}");
    }
}

#[test]
fn other_etag_or_none_starts_anew() {
    let (old, new): (&[u8], &[u8]) =
        (generated(1, 8 << 20).leak(), generated(2, (8 << 20) - 5).leak());
    for (before, after, why) in [
        ("\"a\"", "\"b\"", "the file changed on the server"),
        ("\"a\"", "W/\"a\"", "the file changed on the server"),
        ("W/\"a\"", "W/\"a\"", "no strong ETag"),
    ] {
        let server = FetchServer::start(move |number, head, stream| match number {
            0 => stall(head, stream, (old, 3 << 20), before),
            _ => send_file(head, stream, new, after),
        });
        let env = new_env();
        let line = format!("fetch {} -o to", server.url("/f"));
        match before.starts_with('W') {
            true => {
                let child = spawn_piped(env.command(&line));
                let part = env.file("to/f.part");
                wait_until("nothing is received", || {
                    std::fs::metadata(&part).is_ok_and(|file| file.len() >= 3 << 20)
                });
                signal_and_wait(child, Signal::KILL);
            }
            false => kill_after(&env, &line, 3 << 20),
        }
        let output = env.succeed(&line);
        assert_contains(&text(&output.stderr), &[why]);
        assert!(content(&env, "f") == new, "{before} {after}");
        let range = field(&server.heads()[1], "Range").map(str::to_owned);
        assert_eq!(range.is_some(), !before.starts_with('W'), "{range:?}");
    }
}

#[test]
fn server_without_ranges_is_one_connection() {
    let bytes: &[u8] = generated(4, 20 << 20).leak();
    let server = FetchServer::start(move |number, _, stream| {
        let length = bytes.len();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nETag: \"a\"\r\n\r\n");
        // A lost connection, twice.
        let body = if number < 2 { &bytes[..3 << 20] } else { bytes };
        let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
    });
    let env = new_env();
    let output = env.exec(&format!("fetch {} -o to --connections 4 --json", server.url("/f")));
    let document = document(&output);
    assert_contains(&text(&output.stderr), &["body truncated", "retry 2", "ignored the range"]);
    assert_eq!(document.records[0].params.integer("connections"), Some(1));
    assert!(content(&env, "f") == bytes);
    assert_eq!(server.heads().len(), 3);
}

#[test]
fn retries_from_the_first_byte_are_bounded() {
    let bytes: &[u8] = generated(4, 3 << 20).leak();
    let server = FetchServer::start(move |_, _, stream| {
        let length = bytes.len() + 1;
        let _ = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
        let _ = stream.write_all(bytes);
    });
    let env = new_env();
    let output = env.exec(&format!("fetch {} -o to --retries 2", server.url("/f")));
    assert_status(&output, 1);
    assert_eq!(server.heads().len(), 3, "{}", text(&output.stderr));
    assert_eq!(names(&env), ["f.part", "f.part.state"]);
}

#[test]
fn shorter_part_than_its_state_starts_anew() {
    let bytes: &[u8] = generated(3, 8 << 20).leak();
    let server = FetchServer::start(move |number, head, stream| match number {
        0 => stall(head, stream, (bytes, 5 << 20), "\"a\""),
        _ => send_file(head, stream, bytes, "\"a\""),
    });
    let env = new_env();
    let line = format!("fetch {} -o to", server.url("/f"));
    kill_after(&env, &line, 5 << 20);
    let part = std::fs::File::options().write(true).open(env.file("to/f.part"));
    part.expect("a file").set_len(1 << 20).expect("a length");
    let output = env.succeed(&line);
    assert_contains(&text(&output.stderr), &["not resumed", "shorter than its state"]);
    assert!(content(&env, "f") == bytes);
}

#[test]
fn part_with_another_etag_starts_anew() {
    let (old, new): (&[u8], &[u8]) = (generated(1, 24 << 20).leak(), generated(2, 24 << 20).leak());
    // The file changes after the first response began. Another server ignores If-Range.
    for ignores in [false, true] {
        let server = FetchServer::start(move |number, head, stream| match number {
            0 => send_file(head, stream, old, "\"a\""),
            _ if ignores => send_file(&head.replace("\"a\"", "\"b\""), stream, new, "\"b\""),
            _ => send_file(head, stream, new, "\"b\""),
        });
        let env = new_env();
        let output = env.succeed(&format!("fetch {} -o to --connections 2", server.url("/f")));
        let why = ["the file changed on the server", "a part has another ETag"];
        assert_contains(&text(&output.stderr), &[why[usize::from(ignores)]]);
        assert!(content(&env, "f") == new);
    }
}

#[test]
fn redirects_stay_on_the_host() {
    let other =
        FetchServer::start(move |_, head, stream| send_file(head, stream, b"other", "\"a\""));
    let target = other.url("/stolen");
    let server = FetchServer::start(move |_, head, stream| {
        let path = head.split(' ').nth(1).unwrap_or_default();
        let to = match path {
            "/away" => target.as_str(),
            "/secure" => "https://127.0.0.1/x",
            "/loop" => "loop",
            "/f" => "/g?h#i",
            _ => return send_file(head, stream, b"content", "\"a\""),
        };
        let _ = write!(stream, "HTTP/1.1 302 x\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n");
    });
    let env = new_env();
    std::fs::write(env.file("token"), "0".repeat(64)).expect("a file");
    let fetch = |path: &str| {
        env.exec(&format!("fetch {} -o to -H A:b --token-file token", server.url(path)))
    };
    assert_failure(
        &fetch("/away"),
        &["redirected to", &other.url("/stolen"), "another host, port or scheme"],
    );
    assert!(other.heads().is_empty(), "the token went to another port");
    let secure = &["redirected to https://", "another host, port or scheme"];
    assert_failure(&fetch("/secure"), secure);
    assert_failure(&fetch("/loop"), &["more than 5 redirects, the last to http://127.0.0.1:"]);
    assert_eq!(server.heads().iter().filter(|head| head.contains("/loop")).count(), 6);
    assert_status(&fetch("/f"), 0);
    assert_eq!(content(&env, "f"), b"content");
    let heads = server.heads();
    let last = heads.last().expect("a request");
    assert!(last.starts_with("GET /g?h HTTP/1.1\r\n"), "{last}");
    assert_eq!(field(last, "A"), Some("b"));
    assert_eq!(field(last, "Authorization"), Some(&*format!("Bearer {}", "0".repeat(64))));
}

#[test]
fn only_passing_statuses_are_retried() {
    let server = FetchServer::start(move |number, head, stream| {
        let path = head.split(' ').nth(1).unwrap_or_default();
        let status = match path {
            "/busy" if number == 0 => "503 x\r\nRetry-After: 0",
            "/missing" => "404 x",
            "/secret" => "401 x",
            "/slow" if number == 2 => "408 x\r\nRetry-After: 0",
            "/often" if number == 4 => "429 x\r\nRetry-After: Sun, 06 Nov 1994 08:49:37 GMT",
            "/many" => "429 x",
            "/hour" => "503 x\r\nRetry-After: 3600",
            "/ages" => "429 x\r\nRetry-After: 99999999999999999999",
            "/coded" => {
                let head = b"HTTP/1.1 200 x\r\nContent-Encoding: gzip\xe9\r\n\r\n";
                let _ = stream.write_all(head);
                return;
            }
            _ => return send_file(head, stream, b"content", "\"a\""),
        };
        let _ = write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
    });
    let env = new_env();
    let output = env.succeed(&format!("fetch {} -o to", server.url("/busy")));
    assert_contains(&text(&output.stderr), &["status 503; retry 1 in 0.2 s"]);
    for (path, status) in [("/slow", "status 408"), ("/often", "status 429 (too many requests)")] {
        let output = env.succeed(&format!("fetch {} -o to", server.url(path)));
        assert_contains(&text(&output.stderr), &[status, "; retry 1 in 0.2 s"]);
    }
    for (path, why) in [
        ("/missing", "status 404: the server has no such file; nothing is kept"),
        ("/secret", "--token-file"),
        ("/many", "status 429 (too many requests) without Retry-After"),
        ("/hour", "status 503; the server asks for a pause of 3600 s: try again then"),
        ("/ages", "the server asks for a longer pause than 60 s"),
        ("/coded", "the server sends Content-Encoding: gzip"),
    ] {
        let before = server.heads().len();
        assert_failure(&env.exec(&format!("fetch {} -o to", server.url(path))), &[why]);
        assert_eq!(server.heads().len(), before + 1, "{path}");
    }
    assert_eq!(names(&env), ["busy", "often", "slow"]);
}

#[test]
fn bad_requests_are_one_line() {
    let env = new_env();
    let server =
        FetchServer::start(move |_, head, stream| send_file(head, stream, b"content", "\"a\""));
    let url = server.url("");
    std::fs::write(env.file("to/f"), "mine").expect("a file");
    std::fs::write(env.file("to/g.part"), "mine").expect("a file");
    std::fs::write(env.file("to/i.part.state"), "mine").expect("a file");
    symlink("/dev/null", env.file("to/h.part")).expect("a link");
    symlink("to/f", env.file("link")).expect("a link");
    let table = format!(
        "{url}/..%2f.. | separator | -o FILE
         {url}/%00 | control character
         {url}/.profile | begins with a dot
         {url}/a%ff | not UTF-8
         {url}/ | no file name
         {url}/f -o to | to/f exists (4 bytes) | --force
         {url}/g -o to | to/g.part exists and is not of `fathom fetch` | --force
         {url}/h -o to | to/h.part: a symlink; remove it
         {url}/i -o to | to/i.part.state exists and is not of `fathom fetch` | --force
         {url}/f -o /dev/null --force | /dev/null is a device | -o
         {url}/f -o link --force | link is a symlink
         {url}/f -o to/h.part --force | is a symlink
         {url}/a {url}/a.part -o to | a.part is also the name of an unfinished file
         {url}/a.part.state {url}/a -o to --force | a.part.state is also the name
         {url}/f -o none/f | folder none
         {url}/f -o none/ | none
         {url}/a {url}/b -o none | several URLs need a folder
         {url}/a/f {url}/b/f -o to | another URL is saved as f too
         {url}/f -o to/x --congestion none | available are
         {url}/f -o to/x --token-file none | token file none
         http://127.0.0.1:1/f -o to/x --retries 0 | connect to 127.0.0.1:1 | nothing is kept
         http://host.invalid/f -o to/x | look up host.invalid"
    );
    env.assert_failures("fetch", &table);
    assert_eq!(names(&env), ["f", "g.part", "h.part", "i.part.state"]);
    assert_eq!(content(&env, "g.part"), b"mine");
    assert_eq!(content(&env, "i.part.state"), b"mine");
    assert_message(&env.exec(&format!("fetch {url}/f {url}/k -o to")), 1, &["to/f exists"]);
    assert_eq!(content(&env, "k"), b"content");
    env.stdout(&format!("fetch {url}/f -o to --force"));
    assert_eq!(content(&env, "f"), b"content");
}

#[test]
fn interrupted_download_says_how_to_resume() {
    let bytes: &[u8] = generated(6, 2 << 20).leak();
    let server = FetchServer::start(move |number, head, stream| {
        let count = if number == 0 { 1 << 20 } else { 0 };
        stall(head, stream, (bytes, count), "\"a\"");
    });
    let env = new_env();
    let child = spawn_piped(env.command(&format!("fetch {} -o to", server.url("/f"))));
    let part = env.file("to/f.part");
    wait_until("nothing is received", || {
        std::fs::metadata(&part).is_ok_and(|file| file.len() == 1 << 20)
    });
    send(&child, Signal::INT);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130));
    assert_contains(
        &text(&output.stderr),
        &["stopped: 1048576 of 2097152 bytes are in to/f.part", "again to resume"],
    );
    assert_eq!(names(&env), ["f.part", "f.part.state"]);
    for name in ["f.part", "f.part.state"] {
        let line = format!("fetch {} -o to --force", server.url(&format!("/{name}")));
        assert_failure(&env.exec(&line), &[name, "is an unfinished download"]);
    }
    let second = spawn_piped(env.command(&format!("fetch {} -o to", server.url("/f"))));
    wait_until("it does not resume", || server.heads().len() == 2);
    let third = env.exec(&format!("fetch {} -o to", server.url("/f")));
    assert_failure(&third, &["to/f.part: another process downloads it"]);
    signal_and_wait(second, Signal::KILL);
}

#[test]
fn silent_server_is_a_timeout() {
    let server = FetchServer::start(move |_, head, stream| match head.contains("/f") {
        true => stall(head, stream, (&[7; 1000], 10), "\"a\""),
        false => _ = stream.write_all(b"HTTP/1.1 200").and_then(|()| stream.read(&mut [0])),
    });
    let env = new_env();
    for (path, what) in [("/f", "byte of the body"), ("/head", "complete head")] {
        let line = format!("fetch {} -o to --timeout 300ms --retries 1", server.url(path));
        let output = env.exec(&line);
        assert_status(&output, 1);
        let why = format!("no {what} in 0.3 s (--timeout)");
        assert_contains(&text(&output.stderr), &[&why, "(retries: 1)"]);
    }
    assert_eq!(server.heads().len(), 4);
}

#[test]
fn lost_connection_is_resumed_at_once() {
    let bytes: &[u8] = generated(7, 1000).leak();
    let server = FetchServer::start(move |number, head, stream| {
        let (head, body) = part(head, bytes, "\"a\"");
        let body = if number == 0 { &body[..10] } else { body };
        let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
    });
    let env = new_env();
    let output = env.succeed(&format!("fetch {} -o to", server.url("/f")));
    assert_contains(&text(&output.stderr), &["body truncated", "retry 1"]);
    assert!(content(&env, "f") == bytes);
    let ranges = server
        .heads()
        .iter()
        .map(|head| field(head, "Range").map(str::to_owned))
        .collect::<Vec<_>>();
    assert_eq!(ranges, [None, Some("bytes=0-999".to_owned())]);
}

#[test]
fn kills_leave_no_partial_file() {
    let bytes: &[u8] = generated(8, 3 << 20).leak();
    let (sent, answers) = mpsc::channel();
    // Of each answer nothing, a part or all, and then no end of the connection.
    let server = FetchServer::start(move |number, head, stream| {
        let parts = if field(head, "X-All").is_some() { 4 } else { number % 5 };
        let (head, body) = part(head, bytes, "\"a\"");
        let _ = stream.write_all(head.as_bytes());
        let _ = stream.write_all(&body[..body.len() * parts / 4]);
        let _ = sent.send(());
        let _ = stream.read(&mut [0]);
    });
    let env = new_env();
    for round in 0..30 {
        let receive = ["copy", "mmap", "splice"][round % 3];
        let options = format!("--receive {receive} --connections {}", 1 + round % 2);
        let mut child =
            spawn_piped(env.command(&format!("fetch {} -o to {options}", server.url("/f"))));
        // Nothing is asked for if the one before was killed with all bytes, before it named them.
        while answers.try_recv().is_err() && child.try_wait().expect("a child").is_none() {
            std::thread::yield_now();
        }
        let _ = child.kill();
        child.wait().expect("a child");
        if env.file("to/f").exists() {
            assert!(content(&env, "f") == bytes, "a partial file, {options}");
            std::fs::remove_file(env.file("to/f")).expect("a file");
        }
    }
    env.stdout(&format!("fetch {} -o to -H X-All:1", server.url("/f")));
    assert!(content(&env, "f") == bytes);
}

#[test]
fn full_disk_keeps_what_is_received() {
    let bytes: &[u8] = generated(5, 4 << 20).leak();
    let server = FetchServer::start(move |_, head, stream| {
        if head.starts_with("GET /length") {
            return send_file(head, stream, bytes, "\"a\"");
        }
        let size = bytes.len();
        let _ = write!(stream, "HTTP/1.1 200 x\r\nTransfer-Encoding: chunked\r\n\r\n{size:x}\r\n");
        let _ = stream.write_all(bytes).and_then(|()| stream.write_all(b"\r\n0\r\n\r\n"));
    });
    let env = new_env();
    let mount = format!("mount -t tmpfs -o size=1m tmpfs {}", env.path_text("to"));
    for (path, parts) in [
        ("/length", ["needs 4 MiB", "free space, or choose"]),
        ("/chunked", ["no space left on the device", "to/chunked.part; without"]),
    ] {
        let line = format!("fetch {} -o {}", server.url(path), env.path_text("to"));
        let Some(output) = in_mount_namespace(&env, &mount, &line) else { return };
        assert_failure(&output, &parts);
    }
}
