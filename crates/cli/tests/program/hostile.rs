//! Malicious near ends against `fathom serve`, malicious far ends against `fathom run`, and where a
//! token may be seen.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use fathom_far::{Far, ProtocolHello, ProtocolMessage, ProtocolWork, SetUp, Token, UPGRADE};
use fathom_lab::client::LabClient;
use fathom_lab::processes::children;
use fathom_record::{Document, State};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::children::{next_line, signal_and_wait, spawn_piped, wait_until};
use crate::far::{RTT, greeted_service, link, remote, run_remote};
use crate::load::{LoadServing, set};
use crate::serve::start as serve;
use crate::test_env::{
    ProgramTestEnv, assert_contains, assert_failure, assert_status, json, text, words,
};

const SWITCHING: &str = "HTTP/1.1 101 Switching Protocols\r\nServer: fathom\r\n\r\n";
const NONCE: &str = "abababababababababababababababababababababababababababababababab";

/// What a malicious far end does.
#[derive(Clone, Copy, Debug, Default)]
struct HostileScript {
    /// Changes the facts.
    facts: Option<fn(&mut Value)>,
    /// Is sent instead of the facts.
    instead: Option<fn(&mut TcpStream)>,
    ready: Option<fn(u16) -> Value>,
    /// Changes the result.
    result: Option<fn(&mut Value)>,
    /// The result as text.
    text: Option<fn(String) -> String>,
    /// Sends the result before it was asked to work.
    is_early: bool,
}

/// Whether the near end has closed, or that cannot be sent.
type HostileSent = std::io::Result<()>;

fn send(stream: &mut TcpStream, value: &Value) -> HostileSent {
    stream.write_all(format!("{value}\n").as_bytes())
}

fn result() -> Value {
    let counters = serde_json::to_value(fathom_record::Disturbance::default()).expect("JSON");
    json!({
        "message": "result", "count": 1, "congestion": "cubic",
        "far": {
            "cpu": 0, "disturbance": counters, "reference_ns": [1.0],
            "checks": [{"name": "CPU", "passed": true, "detail": "[0]"}],
        },
    })
}

fn facts() -> Value {
    let mut host = serde_json::to_value(fathom_measure::host::read()).expect("JSON");
    host["name"] = json!("hostile");
    host["id"] = json!("0".repeat(32));
    json!({"message": "facts", "host": host, "cpu": 0})
}

/// One conversation.
fn converse(mut stream: TcpStream, script: HostileScript) -> HostileSent {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let mut line = || lines.next().unwrap_or_else(|| Err(std::io::ErrorKind::UnexpectedEof.into()));
    while !line()?.is_empty() {}
    stream.write_all(SWITCHING.as_bytes())?;
    loop {
        let message = line()?;
        let message = serde_json::from_str(&message).expect("a message of the near end");
        match message {
            ProtocolMessage::Hello(_) => {
                let hello = ProtocolMessage::Hello(ProtocolHello::new(None, None));
                send(&mut stream, &serde_json::to_value(hello).expect("JSON"))?;
            }
            ProtocolMessage::Host => {
                if let Some(other) = script.instead {
                    other(&mut stream);
                    return Ok(());
                }
                let mut facts = facts();
                script.facts.into_iter().for_each(|change| change(&mut facts));
                send(&mut stream, &facts)?;
            }
            ProtocolMessage::SetUp(_) => {
                let mut result = result();
                script.result.into_iter().for_each(|change| change(&mut result));
                let whole = script.text.map_or(result.to_string(), |of| of(result.to_string()));
                if script.is_early {
                    stream.write_all(format!("{whole}\n").as_bytes())?;
                }
                let listener = TcpListener::bind("127.0.0.1:0")?;
                let port = listener.local_addr()?.port();
                let ready = json!({"message": "ready", "port": port, "nonce": NONCE});
                send(&mut stream, &script.ready.map_or(ready, |of| of(port)))?;
                echo(&listener)?;
                stream.write_all(format!("{whole}\n").as_bytes())?;
            }
            _ => {}
        }
    }
}

/// Answers all requests of one data connection.
fn echo(listener: &TcpListener) -> HostileSent {
    let (mut data, _) = listener.accept()?;
    data.set_nodelay(true)?;
    data.read_exact(&mut [0; NONCE.len()])?;
    let mut request = [0; 64];
    loop {
        match data.read(&mut request)? {
            0 => return Ok(()),
            count => data.write_all(&request[..count])?,
        }
    }
}

/// A malicious far end, until the tests end. Returns its address.
fn far_end(script: HostileScript) -> String {
    let serve = move |stream| drop(converse(stream, script));
    fathom_testing::listen(serve).to_string()
}

/// Runs to a far end.
fn run_to(env: &ProgramTestEnv, address: &str) -> std::process::Output {
    run_remote(env, &format!("{RTT}{{bytes=56,cpus=2,mode=block}} --remote {address}"))
}

/// Of the records of the malicious far end, none of which has a number.
fn states(output: &std::process::Output) -> Vec<State> {
    let document: Document = json(output);
    let records = document.records.iter().filter(|it| it.params.text("to") == Some("hostile"));
    let of = |record: &fathom_record::Record| {
        let is_shown = record.verdict.state != State::Invalid && record.summary.is_some();
        assert!(!is_shown, "{:?}", record.verdict);
        record.verdict.state
    };
    records.map(of).collect()
}

#[test]
fn malicious_facts_end_a_run_in_one_line() {
    let change = |facts| HostileScript { facts: Some(facts), ..HostileScript::default() };
    let instead = |instead| HostileScript { instead: Some(instead), ..HostileScript::default() };
    let env = ProgramTestEnv::new();
    for (script, expected) in [
        (change(|facts| facts["host"]["name"] = json!("a\u{1b}[2Jb")), "expected facts"),
        (change(|facts| facts["host"]["name"] = json!("a".repeat(300))), "expected facts"),
        (change(|facts| facts["host"]["kernel"] = json!("6\n7")), "expected facts"),
        (change(|facts| facts["host"] = json!({})), "expected facts"),
        (change(|facts| facts["host"]["memory"]["total_bytes"] = json!(1_u64 << 50)), "le: memory"),
        (change(|facts| facts["host"]["cpu"]["logical"] = json!(8193)), "implausible: CPUs"),
        (change(|facts| facts["cpu"] = json!(8193)), "implausible: CPU number"),
        (change(|facts| facts["cpu"] = json!(-1)), "unknown message"),
        (instead(|to| _ = to.write_all(&vec![b'x'; 1 << 20])), "exceeds 64 KiB"),
        (instead(|to| _ = to.write_all("[".repeat(60_000).as_bytes())), "closed"),
        (
            instead(|to| _ = to.write_all(format!("{}\n", "[".repeat(60_000)).as_bytes())),
            "unknown message",
        ),
        (instead(|to| _ = send(to, &result())), "expected facts"),
        (instead(|to| _ = send(to, &json!({"message": "error", "text": "\u{7}no"}))), "no"),
    ] {
        let output = run_to(&env, &far_end(script));
        assert_failure(&output, &["--remote", expected]);
    }
    assert!(!text(&env.exec("list").stdout).contains("hostile"));
}

#[test]
fn malicious_results_are_refused() {
    let result = |result| HostileScript { result: Some(result), ..HostileScript::default() };
    let texts = |text| HostileScript { text: Some(text), ..HostileScript::default() };
    let ready = |ready| HostileScript { ready: Some(ready), ..HostileScript::default() };
    let outcome = |script| {
        let mut far = Far::connect(&remote(&far_end(script), None))?;
        let work = ProtocolWork::Echo { bytes: 4, busy: false };
        drop(far.begin(SetUp { work, cpu: 0, congestion: None })?);
        far.finish()
    };
    outcome(HostileScript::default()).expect("a result that can be");
    let scripts = [
        result(|it| it["far"]["cpu"] = json!(9)),
        result(|it| it["far"]["reference_ns"] = json!([-1.0])),
        result(|it| it["far"]["reference_ns"] = json!(vec![1e308; 9])),
        result(|it| it["far"]["disturbance"]["wall_ns"] = json!(u64::MAX)),
        result(|it| it["count"] = json!(u64::MAX)),
        result(|it| it["far"]["checks"][0]["name"] = json!("\u{1b}[2J")),
        result(|it| it["far"] = json!({"cpu": 0})),
        result(|it| it["congestion"] = json!("c".repeat(10_000))),
        texts(|whole| whole.replace("[1.0]", "[1e999]")),
        texts(|whole| whole.replace("[1.0]", "[NaN]")),
        texts(|whole| whole.replace("[1.0]", &format!("[{}1]", "1,".repeat(1 << 20)))),
        ready(|_| json!({"message": "ready", "port": 22, "nonce": NONCE})),
        ready(|port| json!({"message": "ready", "port": port, "nonce": "GET / HTTP/1.1\r\n\r\n"})),
    ];
    for (at, script) in scripts.into_iter().enumerate() {
        assert!(outcome(script).is_err(), "script {at}");
    }
}

#[test]
fn malicious_results_do_not_reach_the_store() {
    let result = |result| HostileScript { result: Some(result), ..HostileScript::default() };
    let env = ProgramTestEnv::new();
    for (script, expected) in [
        (result(|it| it["far"]["cpu"] = json!(9)), State::Unavailable),
        (HostileScript { is_early: true, ..HostileScript::default() }, State::Failed),
        (result(|it| it["count"] = json!(1_000_000_000)), State::Invalid),
    ] {
        assert_eq!(states(&run_to(&env, &far_end(script))), [expected]);
    }
    let document = env.latest();
    let is_far = |it: &&fathom_record::Record| it.params.text("to") == Some("hostile");
    let record = document.records.iter().find(is_far).expect("a record");
    assert!(record.checks["round trips"].starts_with("FAILED"), "{:?}", record.checks);
    assert_readable(&env, 3);
}

/// Asserts that every run is shown and listed.
fn assert_readable(env: &ProgramTestEnv, runs: usize) {
    let shown = env.succeed("show");
    assert!(!text(&shown.stdout).contains('\u{1b}'));
    let listed = text(&env.exec("list").stdout);
    assert!(listed.lines().count() >= runs, "{listed}");
}

/// A request for a far end whose answer is not read.
fn upgrade(address: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("it listens");
    let head = format!(
        "GET /.fathom/far HTTP/1.1\r\nHost: localhost\r\nConnection: upgrade\r\n\
         Upgrade: {UPGRADE}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).expect("sent");
    stream
}

fn status(stream: &mut TcpStream) -> String {
    let mut head = [0; 12];
    stream.read_exact(&mut head).expect("an answer");
    String::from_utf8_lossy(&head[9..]).into_owned()
}

#[test]
fn silent_near_ends_keep_no_far_end() {
    let env = ProgramTestEnv::new();
    let (child, address) = serve(&env, "");
    for mut silent in [(); 8].map(|()| upgrade(&address)) {
        assert_eq!(status(&mut silent), "101");
        let mut rest = String::new();
        silent.read_to_string(&mut rest).expect("an answer");
        // Less than of a near end that was greeted.
        assert!(rest.contains("no answer within 3 s"), "{rest}");
    }
    wait_until("a far end waits for its hello", || children(child.id()).is_empty());
    assert_eq!(status(&mut upgrade(&address)), "101");
    assert_eq!(signal_and_wait(child, Signal::INT).code(), Some(0));
}

#[test]
fn malicious_messages_end_a_far_end() {
    let env = ProgramTestEnv::new();
    let (child, address) = serve(&env, "");
    let set_up = |cpu: u64, congestion: &str| {
        let work = json!({"work": "echo", "bytes": 4, "busy": false});
        json!({"message": "set_up", "work": work, "cpu": cpu, "congestion": congestion})
    };
    let host = json!({"message": "host"}).to_string();
    let deep = format!("{}1{}", "{\"a\":".repeat(9_000), "}".repeat(9_000));
    for (lines, expected) in [
        (set_up(0, &"c".repeat(10_000)).to_string(), "1 to 15 characters"),
        (set_up(4_000_000_000, "cubic").to_string(), "pin to the CPU"),
        (set_up(100_000_000_000, "cubic").to_string(), "unknown message"),
        (format!("{host}\n{host}"), "expected host once"),
        (deep, "unknown message"),
        ("1".repeat(60_000), "unknown message"),
        ("x".repeat(70_000), "exceeds 64 KiB"),
        (json!({"message": "ready", "port": 1, "nonce": ""}).to_string(), "then set_up"),
    ] {
        let mut stream = greeted_service(&address);
        // It may end before it has read all.
        let _ = stream.write_all(format!("{lines}\n").as_bytes());
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = text(&answer);
        let last = answer.lines().last().unwrap_or_default();
        assert!(last.contains("\"error\"") && last.contains(expected), "{expected}: {answer}");
        assert!(answer.lines().count() <= 3 && answer.len() < 128 << 10);
    }
    wait_until("a far end is left", || children(child.id()).is_empty());
    assert_eq!(signal_and_wait(child, Signal::INT).code(), Some(0));
}

/// Whether command line or environment of a process have a text.
fn shows(pid: u32, secret: &str) -> bool {
    ["cmdline", "environ"].iter().any(|name| {
        let bytes = std::fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
        bytes.windows(secret.len()).any(|part| part == secret.as_bytes())
    })
}

#[test]
fn token_is_in_no_process_file_or_output() {
    let env = ProgramTestEnv::new();
    let (_folder, set) = set(&env, "1x1KB");
    let line = format!("serve {set} --listen 0 --token-file token");
    let (serving, url) = LoadServing::spawn(env.command(&line));
    let address = url.trim_start_matches("http://").trim_end_matches('/');
    let token = std::fs::read_to_string(env.file("token")).expect("a file").trim().to_owned();
    let to = remote(address, Some(Token::new(&token)));
    let far_end = Far::connect(&to).expect("accepted");
    let case = format!("{RTT}{{bytes=1,cpus=2,mode=block}}");
    let line = format!("run --quick --processes 3 --only {case} --remote {address}");
    let mut run = spawn_piped(env.command(&format!("{line} --token-file token")));
    let mut far_ends = 0;
    while run.try_wait().expect("a child").is_none() {
        let far = children(serving.0.id());
        far_ends += far.len();
        let own = [serving.0.id(), run.id()];
        for pid in own.into_iter().chain(far).chain(children(run.id())) {
            assert!(!shows(pid, &token), "process {pid}");
        }
        // mood: the run ends by itself; its processes are looked at meanwhile
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(far_ends > 0);
    drop(far_end);
    let output = run.wait_with_output().expect("output");
    assert_status(&output, 0);
    std::fs::write(env.file("wrong"), "0".repeat(64)).expect("a file");
    let wrong = env.exec(&format!("run {RTT} --remote {address} --token-file wrong"));
    let load = env.exec(&format!("load {url} --token-file token --clients 1 --time 60ms"));
    let mut texts = vec![output.stdout, output.stderr, wrong.stdout, wrong.stderr];
    texts.extend([load.stdout, load.stderr]);
    for line in ["export latest", "show --json --samples", "show", "list", "doctor"] {
        let output = env.exec(line);
        texts.extend([output.stdout, output.stderr]);
    }
    for target in ["host", "telemetry", "list", "metrics", "health", "none"] {
        let mut client = LabClient::connect(address.parse().expect("an address"));
        let field = format!("Authorization: Bearer {token}");
        let reply = client.request("GET", &format!("/.fathom/{target}"), &[&field]);
        texts.extend([reply.head.into_bytes(), reply.body]);
    }
    let stores = std::fs::read_dir(env.path()).expect("a folder").flatten();
    let stores = stores.filter(|it| it.file_name().to_string_lossy().starts_with("fathom.db"));
    texts.extend(stores.map(|it| std::fs::read(it.path()).expect("a file")));
    assert!(texts.iter().any(|it| it.starts_with(b"SQLite format 3")));
    for text in &texts {
        let has = text.windows(token.len()).any(|part| part == token.as_bytes());
        assert!(!has, "{}", String::from_utf8_lossy(text));
    }
}

#[test]
fn journal_beside_a_store_in_a_shared_folder_is_not_obeyed() {
    let env = ProgramTestEnv::new();
    let shared = env.file("shared");
    std::fs::create_dir(&shared).expect("a folder");
    std::fs::set_permissions(&shared, PermissionsExt::from_mode(0o1777)).expect("own folder");
    let victim = env.file("victim");
    std::fs::write(&victim, "before").expect("a file");
    let journal = json!({"pid": u32::MAX, "files": [[&victim, "after"]]}).to_string();
    std::fs::write(shared.join("tune.json"), journal).expect("a file");
    let mut run = env.command("run no.metric --store shared/s.db");
    let output = run.env_remove("XDG_DATA_HOME").env_remove("HOME").output().expect("it starts");
    let said = words(&text(&output.stderr)).join(" ");
    assert_contains(&said, &["shared/tune.json is not obeyed", "mode 1777", "remove it"]);
    assert_eq!(std::fs::read_to_string(&victim).expect("a file"), "before");
}

#[test]
fn token_sent_beyond_loopback_is_warned_of() {
    let Some(link) = link("warn") else { return };
    let env = ProgramTestEnv::new();
    let (_folder, set) = set(&env, "1x1KB");
    let line = format!("serve {set} --listen 10.213.7.2:7000 --token-file token");
    let mut child = spawn_piped(link.at(1, &env.command(&line)));
    let mut opening = String::new();
    while !opening.contains("Stop ") {
        opening += &next_line(&mut child);
    }
    assert_contains(&opening, &["ssh -L 7000:10.213.7.2:7000"]);
    let load = "load http://10.213.7.2:7000/ --token-file token --clients 1 --time 60ms";
    let output = link.at(0, &env.command(load)).output().expect("ip starts");
    let warned = words(&text(&output.stderr)).join(" ");
    assert_contains(&warned, &["unencrypted to 10.213.7.2:7000", "ssh -L 7000:127.0.0.1:7000"]);
    assert_eq!(signal_and_wait(child, Signal::TERM).code(), Some(0));
}
