//! The request corpus on real sockets: whole, pipelined, and split at every byte.

use std::collections::HashSet;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use fathom_service::token_from_file;
use rustix::net::sockopt::set_socket_linger;

use crate::RunningService;
use crate::client::LabClient;
use crate::corpus::{CorpusCase, THEMES, targets, theme};
use crate::traversal::CANARY;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";
pub(crate) const GOOD: &str = "GET /good HTTP/1.1\r\nHost: localhost\r\n\
    Authorization: Bearer 0123456789abcdef0123456789abcdef\r\n\r\n";
const HIDDEN: &str = "GET /hidden HTTP/1.1\r\nHost: localhost\r\n\r\n";
/// Of the file that most cases ask for: Sun, 06 Nov 1994 08:49:37 GMT.
const MODIFIED_S: u64 = 784_111_777;
const SPLITTERS: usize = 4;
const FAILED_MAX: usize = 8;

/// A service with everything that the corpus asks for.
pub(crate) struct ServiceGate {
    pub(crate) service: RunningService,
    _socket: UnixListener,
    pub(crate) words: Vec<(&'static str, String)>,
}

impl ServiceGate {
    pub(crate) fn new(has_token: bool) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("token");
        fs::write(&path, TOKEN).expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("a mode");
        let token = token_from_file(&path).expect("a token");
        let service = RunningService::with(|options| {
            options.token = has_token.then_some(token);
            // Names of every form that the grammar allows.
            let names = ["files.example", "a-b_c~d!$&'()*+,;=", "%61bc", "my_host."];
            options.names = names.map(str::to_owned).into();
            options.threads = Some(1);
            options.limits.idle_ns = 600_000_000_000;
        });
        furnish(&service);
        let socket = UnixListener::bind(service.path("socket")).expect("a socket");
        let outside = service.outside("").to_str().expect("UTF-8").trim_end_matches('/').to_owned();
        let mut gate = Self { service, _socket: socket, words: Vec::new() };
        let authorization = format!("Authorization: Bearer {TOKEN}");
        fathom_lab::settle(&gate.service.path("a"));
        let reply = gate.connect().request("HEAD", "/a", &[&authorization]);
        let etag = reply.field("ETag").expect("a tag").to_owned();
        gate.words = vec![("etag", etag), ("outside", outside), ("hidden", HIDDEN.to_owned())];
        gate
    }

    fn connect(&self) -> LabClient {
        let client = self.service.connect();
        // Tens of thousands of connections would otherwise wait for minutes.
        set_socket_linger(&client.stream, Some(Duration::ZERO)).expect("an option");
        client
    }

    fn cases(&self, has_token: bool) -> Vec<CorpusCase> {
        let of_token = |theme: &&str| (*theme == "authorization") == has_token;
        THEMES
            .iter()
            .filter(|name| of_token(name))
            .flat_map(|name| theme(name, &self.words))
            .collect()
    }

    /// All that other connections sent before was read: there is one reactor, which accepts and
    /// reads in order.
    fn settle(&self) {
        let mut client = self.connect();
        for _ in 0..2 {
            client.send(GOOD);
            assert_good(&mut client, "settle");
        }
    }
}

impl Drop for ServiceGate {
    fn drop(&mut self) {
        // A lane that waits for the writer of the FIFO, as none should, would never end.
        let _ = fs::File::options().read(true).write(true).open(self.service.path("fifo"));
    }
}

/// The served files, and what lies beside them.
fn furnish(service: &RunningService) {
    for (name, content) in [
        ("a", "0123456789"),
        ("empty", ""),
        ("good", "good"),
        ("hidden", "HIDDEN"),
        ("sub/in", "inside"),
        ("a b", "space"),
        ("é", "utf8"),
        ("...", "dots"),
        ("..a", "two"),
        ("a..", "after"),
        ("%2e%2e", "escapes"),
        ("sub\\in", "backslash"),
        ("a;x", "semicolon"),
        ("c:x", "colon"),
        ("~root", "tilde"),
        ("x\r\nSet-Cookie: y/in", "inside"),
        (".fathom/canary", "canary"),
        ("../canary", "canary"),
        ("../root-canary/canary", "canary"),
    ] {
        let path = service.path(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        fs::write(path, content).expect("a file");
    }
    let high = std::ffi::OsStr::from_bytes(b"\xff");
    fs::write(service.path("").join(high), "high").expect("a file");
    let a = fs::File::options().write(true).open(service.path("a")).expect("a file");
    a.set_modified(UNIX_EPOCH + Duration::from_secs(MODIFIED_S)).expect("a time");
    let mode = rustix::fs::Mode::from_raw_mode(0o644);
    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, service.path("fifo"), fifo, mode, 0).expect("a FIFO");
    links(service);
}

fn links(service: &RunningService) {
    fs::create_dir(service.path("links")).expect("a folder");
    fs::hard_link(service.path("a"), service.path("links/hard")).expect("a link");
    let link = |target: &str, name: &str| {
        symlink(target, service.path("links").join(name)).expect("a symlink");
    };
    let outside = service.outside("");
    let outside = outside.to_str().expect("UTF-8");
    for (name, target) in [
        ("inside", "../sub/in"),
        ("dots", "../sub/../sub/in"),
        ("folder", "../sub"),
        ("second", "inside"),
        ("relative", "../../canary"),
        ("absolute", &format!("{outside}/canary")),
        ("up", "../.."),
        ("deep", "../sub/../../"),
        ("around", "../../root/a"),
        ("home", &format!("{outside}/root/a")),
        ("slash", "/"),
        ("sibling", "../../root-canary"),
        ("third", "relative"),
        ("dangling", "nowhere"),
        ("loop", "loop"),
        ("circle", "circle2"),
        ("circle2", "circle"),
        ("chain40", "../a"),
        ("proc-root", "/proc/self/root"),
        ("proc-cwd", "/proc/self/cwd"),
        ("proc-fd", "/proc/self/fd"),
        ("proc-exe", "/proc/self/exe"),
        ("proc-environ", "/proc/self/environ"),
        ("stdin", "/dev/stdin"),
        ("dev-fd", "/dev/fd"),
        ("zero", "/dev/zero"),
    ] {
        link(target, name);
    }
    for at in 0..40 {
        link(&format!("chain{}", at + 1), &format!("chain{at}"));
    }
}

fn assert_good(client: &mut LabClient, name: &str) {
    let reply = client.reply();
    assert_eq!((reply.status, &*reply.text()), (200, "good"), "the good request of {name}");
}

/// Reads the replies of a case and checks them.
fn assert_answered(client: &mut LabClient, case: &CorpusCase) {
    let name = &case.name;
    for (at, expected) in case.replies.iter().enumerate() {
        let method = if expected.is_head { "HEAD" } else { "GET" };
        let reply = client.reply_to(method).expect("a response");
        assert_eq!(reply.status, expected.status, "{name}: reply {at}: {}", reply.text());
        let is_last = at + 1 == case.replies.len();
        let says_close = reply.field("Connection") == Some("close");
        assert_eq!(says_close, is_last && case.close, "{name}: {}", reply.head);
        assert!(reply.field("Date").is_some(), "{name}: {}", reply.head);
        assert_eq!(reply.field("WWW-Authenticate").is_some(), reply.status == 401, "{name}");
        assert_eq!(reply.field("Allow").is_some(), reply.status == 405, "{name}");
        assert!(!reply.body.windows(CANARY.len()).any(|part| part == CANARY), "{name}");
        if is_last {
            if let Some(body) = &case.body {
                assert_eq!(&reply.body, body, "{name}");
            }
            for (field, part) in &case.has {
                let is_there = reply.field(field).is_some_and(|value| value.contains(part));
                assert!(is_there, "{name}: {field}: {}", reply.head);
            }
            for field in &case.lacks {
                assert_eq!(reply.field(field), None, "{name}");
            }
        }
    }
}

/// Checks that a good request is answered, or that nothing more is.
fn assert_continued(client: &mut LabClient, case: &CorpusCase) {
    match case.close {
        true => {
            let rest = client.rest();
            assert!(rest.is_empty(), "{}: {:?}", case.name, String::from_utf8_lossy(&rest));
        }
        false => assert_good(client, &case.name),
    }
}

/// Runs all cases and names those that fail, up to `FAILED_MAX`: a case may wait for a time-out.
fn run_all(cases: &[CorpusCase], run: impl Fn(&CorpusCase)) -> Vec<String> {
    let failed = cases.iter().filter(|case| catch_unwind(AssertUnwindSafe(|| run(case))).is_err());
    failed.map(|case| format!("{}: {}", case.theme, case.name)).take(FAILED_MAX).collect()
}

/// Every case of a service without and of one with a token.
fn run_everywhere(run: impl Fn(&ServiceGate, &CorpusCase)) {
    let mut failed = Vec::new();
    for has_token in [false, true] {
        let gate = ServiceGate::new(has_token);
        let mut cases = gate.cases(has_token);
        if !has_token {
            cases.extend(targets(&gate.words));
        }
        failed.extend(run_all(&cases, |case| run(&gate, case)));
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

#[test]
fn whole_requests_are_answered_as_specified() {
    run_everywhere(|gate, case| {
        let mut client = gate.connect();
        client.send(&case.bytes);
        assert_answered(&mut client, case);
        client.send(GOOD);
        assert_continued(&mut client, case);
    });
}

#[test]
fn pipelined_requests_stay_in_step() {
    run_everywhere(|gate, case| {
        let mut client = gate.connect();
        for _ in 0..if case.close { 1 } else { 2 } {
            client.send([GOOD.as_bytes(), &case.bytes, GOOD.as_bytes()].concat());
            assert_good(&mut client, &case.name);
            assert_answered(&mut client, case);
            assert_continued(&mut client, case);
        }
    });
}

/// Where a case is split: everywhere, or, where it is long, near its ends and in 64 places.
fn places(length: usize) -> Vec<usize> {
    match length {
        0..=512 => (1..length).collect(),
        _ => {
            let between = (64..length - 64).step_by(length / 64);
            (1..64).chain(between).chain(length - 64..length).collect()
        }
    }
}

/// Sends a case on as many connections as it has places to be split.
fn split(gate: &ServiceGate, case: &CorpusCase, places: &[usize], open: &mut Vec<LabClient>) {
    while open.len() < places.len() {
        open.push(gate.connect());
    }
    let mut used: Vec<LabClient> = open.drain(..places.len()).collect();
    for (client, &at) in used.iter_mut().zip(places) {
        client.send(&case.bytes[..at]);
    }
    gate.settle();
    for (client, &at) in used.iter_mut().zip(places) {
        client.send([&case.bytes[at..], GOOD.as_bytes()].concat());
    }
    for client in &mut used {
        assert_answered(client, case);
        assert_continued(client, case);
    }
    if !case.close {
        open.extend(used);
    }
}

/// Splits every case in some of its places, in others than cases of other lengths.
fn split_all(step: usize) {
    let gates = [ServiceGate::new(false), ServiceGate::new(true)];
    let failed = std::thread::scope(|scope| {
        let gates = &gates;
        let splitter = |part: usize| {
            let of_gate = |(gate, has_token): (&ServiceGate, bool)| {
                let cases = gate.cases(has_token).into_iter().skip(part).step_by(SPLITTERS);
                let open = std::cell::RefCell::new(Vec::new());
                run_all(&cases.collect::<Vec<_>>(), |case| {
                    let mut mine = open.take();
                    let length = case.bytes.len();
                    let places = places(length).into_iter().skip(length % step).step_by(step);
                    split(gate, case, &places.collect::<Vec<_>>(), &mut mine);
                    open.replace(mine);
                })
            };
            gates.iter().zip([false, true]).flat_map(of_gate).collect::<Vec<_>>()
        };
        let threads: Vec<_> =
            (0..SPLITTERS).map(|part| scope.spawn(move || splitter(part))).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect::<Vec<_>>()
    });
    assert!(failed.is_empty(), "{failed:#?}");
}

#[test]
fn splits_do_not_change_the_answers() {
    split_all(16);
}

#[test]
#[ignore = "lab: tens of thousands of connections"]
fn splits_at_every_byte_do_not_change_the_answers() {
    split_all(1);
}

#[test]
fn corpus_is_as_large_as_promised() {
    let words = ["etag", "outside", "hidden"].map(|word| (word, word.to_owned()));
    let themes: Vec<_> = THEMES.iter().map(|name| theme(name, &words)).collect();
    let targets = targets(&words).len() / 4;
    let cases: usize = themes.iter().map(Vec::len).sum();
    let smuggling = themes.iter().flatten().filter(|case| case.theme == "smuggling").count();
    assert!(cases >= 400, "{cases} cases");
    assert!(smuggling >= 90, "{smuggling} smuggling cases");
    assert!(targets >= 120, "{targets} targets");
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/HTTP.md");
    let counts = format!("{cases} requests, {smuggling} of them");
    let page = fs::read_to_string(page).expect("a page");
    assert!(page.contains(&counts) && page.contains(&format!("{targets} targets")), "{counts}");
    let mut names = HashSet::new();
    let mut contents = HashSet::new();
    for case in themes.iter().flatten() {
        assert!(names.insert((case.theme, &case.name)), "{}: {} twice", case.theme, case.name);
        let is_new = contents.insert((case.theme == "authorization", &case.bytes));
        assert!(is_new, "{}: {} is another case's request", case.theme, case.name);
    }
    let mut names = HashSet::new();
    for case in crate::corpus::targets(&words) {
        assert!(names.insert(case.name.clone()), "{} twice", case.name);
    }
}
