//! `fathom load` against servers of the test: records and views, bad input, faults of the server,
//! Ctrl-C, IPv6, another network namespace.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fathom_record::{Document, FactValue, Record, RunState, State};
use rustix::process::Signal;

use crate::children::{next_line, send, spawn_piped, wait_until};
use crate::far::link;
use crate::test_env::{assert_contains, assert_status};
use crate::{TestEnv, assert_failure, assert_usage_error, text};

/// Serves `/f0` to `/f9`, each of 3 000 bytes, until it ends.
struct Server {
    address: SocketAddr,
    over: Arc<AtomicBool>,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Server {
    fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let address = listener.local_addr().expect("an address");
        let (over, open) = (Arc::<AtomicBool>::default(), Arc::<Mutex<Vec<TcpStream>>>::default());
        let (ended, streams) = (Arc::clone(&over), Arc::clone(&open));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if ended.load(Ordering::Relaxed) {
                    break;
                }
                streams.lock().expect("a list").push(stream.try_clone().expect("a descriptor"));
                std::thread::spawn(move || serve(stream));
            }
        });
        Self { address, over, open }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Closes the port and all connections.
    fn kill(&self) {
        self.over.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
        wait_until("the port is open", || TcpStream::connect(self.address).is_err());
        for stream in self.open.lock().expect("a list").drain(..) {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
    }
}

fn serve(mut stream: TcpStream) {
    let mut reader = BufReader::new(stream.try_clone().expect("a descriptor"));
    let body = [b'x'; 3_000];
    loop {
        let (mut path, mut line) = (None, String::new());
        while line != "\r\n" {
            line.clear();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            path = path.or_else(|| line.split(' ').nth(1).map(str::to_owned));
        }
        let is_file = path.as_ref().is_some_and(|path| path.len() == 3 && path.starts_with("/f"));
        let answer = match is_file {
            _ if path.as_deref() == Some("/stalls") => {
                std::thread::sleep(Duration::from_secs(1));
                return;
            }
            _ if path.as_deref() == Some("/truncated") => {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n1234");
                let _ = stream.shutdown(std::net::Shutdown::Both);
                return;
            }
            true => [b"HTTP/1.1 200 OK\r\nContent-Length: 3000\r\n\r\n", &body[..]].concat(),
            false => b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_vec(),
        };
        if stream.write_all(&answer).is_err() {
            return;
        }
    }
}

#[test]
fn load_is_stored_and_shown_like_every_run() {
    let (env, server) = (TestEnv::new(), Server::start());
    let urls = "--urls /f{0..9} --clients 1,3 --time 900ms --think 1ms --mode fixed";
    let printed = env.stdout(&format!("load {} {urls}", server.url("/")));
    assert_contains(
        &printed,
        &["2 × 3 windows", "3 sweeps", "mode=fixed", "requests/s", "highest"],
    );
    assert_contains(&printed, &["not fathom serve", "client memory"]);
    let document = env.latest();
    assert_eq!(document.run.procedure.as_deref(), Some("load"));
    assert_eq!((document.run.state, document.run.seed), (RunState::Complete, 1));
    let of = |metric: &str, clients: i64| {
        let is = |it: &&fathom_record::Record| {
            it.metric.as_str() == metric && it.params.integer("clients") == Some(clients)
        };
        document.records.iter().find(is).unwrap_or_else(|| panic!("{metric}, {clients}"))
    };
    for clients in [1, 3] {
        let throughput = of("load.throughput", clients);
        assert_eq!(throughput.params.text("to"), Some("loopback"));
        let statuses = &throughput.checks["statuses"];
        assert_eq!(*statuses, format!("200: {}", throughput.checks["requests completed"]));
        let errors = throughput.facts.iter().find(|fact| fact.name == "errors");
        let FactValue::Quantity { value, .. } = errors.expect("a count").value else { panic!() };
        assert_eq!(value, 0.0);
        let response = of("load.response_time", clients);
        let timings = response.samples.as_ref().and_then(|it| it[0].histogram.as_ref());
        let count = throughput.checks["requests completed"].parse();
        assert_eq!(Ok(timings.expect("timings").len()), count);
        // Work by time: N = X (R + Z) holds for a closed loop.
        let _ = of("load.bandwidth", clients);
    }
    assert!(document.records.iter().all(fathom_record::Record::is_intact));
    let shown = env.stdout("show");
    assert_contains(&shown, &["mode=fixed", "requests/s", "highest", "client memory"]);
    assert_contains(&env.stdout("export --format csv"), &["load.response_time", "mode=fixed"]);
    assert_contains(
        &env.stdout("explain load.throughput"),
        &["three sweeps", "closed-loop clients"],
    );
    assert_contains(&env.stdout("history load.throughput"), &["load.throughput"]);
}

#[test]
fn bad_load_arguments_are_usage_errors() {
    let env = TestEnv::new();
    env.assert_usage_errors(
        "load",
        "https://localhost/ | https is not supported | http://
         localhost:80 | `localhost:80` | http://HOST[:PORT][/PATH]
         http://localhost/ --clients 0 | `0` | 1 to 100000 clients
         http://localhost/ --clients 9..3 | `9..3`
         http://localhost/ --requests 0 | above 0
         http://localhost/ -H Host:x | does not set itself
         http://localhost/ --cases think2 | think2
         http://localhost/ --cases fixed --think 1s | cannot be used with
         http://localhost/ --make 3x1MB | expected a folder
         --make 3 x | COUNTxSIZE",
    );
    assert_usage_error(&env.run(&["load"]), &["URL|DIR"]);
}

#[test]
fn unusable_servers_are_one_clear_line() {
    let (env, server) = (TestEnv::new(), Server::start());
    let free = TcpListener::bind(("127.0.0.1", 0)).and_then(|it| it.local_addr()).expect("a port");
    let refused = env.run(&["load", &format!("http://{free}/")]);
    assert_failure(&refused, &[&free.port().to_string(), "refused", "is the server running"]);
    let missing = env.run(&["load", &server.url("/none")]);
    assert_failure(&missing, &["/none", "status 404", "check the path"]);
    let cold = env.run(&["load", &server.url("/f1"), "--server-cache", "cold"]);
    assert_failure(&cold, &["--server-cache", "only `fathom serve`"]);
    let list = env.run(&["load", &server.url("/"), "--urls", "no-such-file"]);
    assert_failure(&list, &["--urls no-such-file", "No such file"]);
    let words = ["load", &server.url("/f1"), "--clients", "90000", "--time", "1s"];
    let many = env.run(&words);
    assert_failure(&many, &["--clients 90000"]);
    let congestion = env.run(&["load", &server.url("/f1"), "--congestion", "none"]);
    assert_failure(&congestion, &["--congestion none", "available are"]);
    assert!(!env.store().exists() || env.run(&["show"]).status.code() != Some(0));
}

#[test]
fn failed_requests_are_counted_and_mark_the_step() {
    let (env, server) = (TestEnv::new(), Server::start());
    for (path, fault) in
        [("/none", "status 404"), ("/truncated", "body truncated"), ("/stalls", "response timeout")]
    {
        std::fs::write(env.file("paths"), format!("/f1\n# a comment\n{path}\n")).expect("a file");
        let url = server.url("/");
        let words = "--urls paths --clients 2 --time 900ms --timeout 50ms --think 5ms";
        let output = env.exec(&format!("load {url} {words}"));
        assert_status(&output, 1);
        assert_contains(&text(&output.stderr), &["no step has a valid result"]);
        let printed = text(&output.stdout);
        let document = env.latest();
        let record = &document.records[0];
        assert_eq!(record.verdict.state, State::Invalid);
        assert!(record.verdict.reasons[0].text.contains(fault), "{:?}", record.verdict);
        assert_contains(&record.checks["failed requests"], &[fault]);
        assert!(number(record, "errors") > 1.0);
        assert_contains(&printed, &["errors", "invalid", fault]);
    }
}

#[test]
fn ctrl_c_keeps_finished_steps_of_a_load() {
    let (env, server) = (TestEnv::new(), Server::start());
    let url = server.url("/f1");
    // The second case never ends; the first takes a second.
    let words = ["load", &url, "--cases", "think0,think1", "--clients", "1", "--time", "900ms"];
    let mut command = env.fathom(&words);
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    while !lines.next().expect("the first table").expect("text").starts_with("highest") {}
    send(&child, Signal::INT);
    assert_status(&child.wait_with_output().expect("it ends"), 130);
    let document = env.latest();
    assert_eq!(document.run.state, RunState::Interrupted);
    let first = &document.records[0];
    assert_eq!(
        (first.metric.as_str(), first.params.integer("think_s")),
        ("load.throughput", Some(0))
    );
    assert!(!first.verdict.is_cut_short(), "{:?}", first.verdict);
}

#[test]
fn killed_server_ends_the_load_with_a_message() {
    let (env, server) = (TestEnv::new(), Server::start());
    let url = server.url("/f1");
    let words = ["load", &url, "--clients", "2,4", "--time", "600s", "--think", "1ms"];
    let mut command = env.fathom(&words);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let is_loaded = || server.open.lock().expect("a list").len() >= 4;
    wait_until("no connections", is_loaded);
    server.kill();
    let output = child.wait_with_output().expect("it ends");
    assert_status(&output, 1);
    let message = text(&output.stderr);
    assert_contains(&message, &["the server stopped answering", "refused", "kept"]);
}

/// A running `fathom serve`, which ends with the test, also if that fails.
struct Serving(Child);

impl Serving {
    /// Serves a folder; returns its URL too.
    fn start(env: &TestEnv, folder: &str) -> (Self, String) {
        Self::spawn(env.command(&format!("serve {folder} --listen 0")))
    }

    fn spawn(command: Command) -> (Self, String) {
        let mut serving = Self(spawn_piped(command));
        let line = next_line(&mut serving.0);
        let url = line.split_whitespace().find(|word| word.starts_with("http://"));
        (serving, url.expect("an address").to_owned())
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn load_of_fathom_serve_knows_both_ends() {
    let env = TestEnv::new();
    env.stdout("load --make 8x100KB set");
    let (_serving, url) = Serving::start(&env, "set");
    let words = format!("load {url} --clients 1,2 --time 900ms --server-cache warm");
    let printed = env.stdout(&words);
    assert_contains(&printed, &["files: 8", "fathom serve", "server memory", "server"]);
    let document = env.latest();
    let of = |metric: &str| {
        document.records.iter().filter(|it| it.metric.as_str() == metric).collect::<Vec<_>>()
    };
    for metric in ["load.server.cpu_per_request", "load.server.cpu_per_gb"] {
        assert_eq!(of(metric).len(), 2, "{metric}: one for each step");
    }
    for record in of("load.throughput") {
        assert_eq!(record.params.integer("file_bytes"), Some(100_000));
        assert_eq!(record.params.text("server_cache"), Some("warm"));
        let fact = |name: &str| record.facts.iter().find(|fact| fact.name == name);
        let completed: f64 = record.checks["requests completed"].parse().expect("a number");
        assert!(number(record, "server responses") >= completed);
        for name in ["server CPU", "client CPU", "wire"] {
            assert!(number(record, name) > 0.0, "{name}");
        }
        let cache = format!("{:?}", fact("server cache"));
        assert!(cache.contains("read, 100.0 % resident"), "{cache}");
    }
    let memory = of("load.server.resident")[0];
    assert!(memory.series[0].values.len() > 5 && memory.series[0].name == "server memory");
}

/// The first step.
fn throughput(document: &Document) -> &Record {
    crate::test_env::of_metric(document, "load.throughput")[0]
}

/// A fact that is a number.
fn number(record: &Record, name: &str) -> f64 {
    match record.facts.iter().find(|fact| fact.name == name).map(|fact| &fact.value) {
        Some(FactValue::Quantity { value, .. }) => *value,
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn steps_are_in_the_order_of_clients_in_all_views() {
    let (env, server) = (TestEnv::new(), Server::start());
    let load =
        format!("load {} --clients 5,1,4,2,3 --time 200ms --cases think0,fixed", server.url("/f1"));
    let printed = env.stdout(&load);
    assert_contains(&printed, &["by clients", "1 to 5, log scale"]);
    let document = env.latest();
    let clients: Vec<i64> = crate::test_env::of_metric(&document, "load.throughput")
        .iter()
        .filter_map(|it| it.params.integer("clients"))
        .collect();
    assert_eq!(clients, [1, 2, 3, 4, 5, 1, 2, 3, 4, 5]);
    let history = env.stdout("history load.throughput");
    let at = |text: &str| history.find(text).unwrap_or_else(|| panic!("{text}: {history}"));
    assert!(at("clients=1 ") < at("clients=2 ") && at("clients=2 ") < at("clients=5 "));
    env.stdout(&load);
    let compared = crate::test_env::unwrapped_stdout(&env.exec("compare latest~1 latest"));
    assert!(compared.contains("one process a side") || compared.contains("no ratio"), "{compared}");
    let all = crate::test_env::unwrapped_stdout(&env.exec("compare latest~1 latest --all"));
    let is_memory = |line: &&str| line.contains("load.client.resident");
    let line = all.lines().find(is_memory).unwrap_or_else(|| panic!("{all}"));
    assert!(line.contains("MiB → "), "{line}");
    // One line for a step that is invalid in a run, not one for each metric.
    for clients in 1..=5 {
        let of = |line: &&str| line.contains(&format!("clients={clients} mode=random"));
        let lines = compared.lines().filter(|line| line.contains("not comparable")).filter(of);
        assert!(lines.count() <= 1, "{compared}");
    }
}

#[test]
fn wrong_content_names_its_file() {
    let env = TestEnv::new();
    env.stdout("load --make 8x5KB set");
    let (_serving, url) = Serving::start(&env, "set");
    let words = format!("load {url} --clients 2 --time 600ms --body verify");
    let printed = env.stdout(&words);
    assert_contains(&printed, &["body=verify", "compared with the contents that --make writes"]);
    let document = env.latest();
    assert_ne!(throughput(&document).verdict.state, State::Invalid);
    // Wrong from the first response on: only the known content shows it.
    let mut bytes = std::fs::read(env.file("set/f3")).expect("a file");
    bytes[4_000] ^= 1;
    std::fs::write(env.file("set/f3"), bytes).expect("a file");
    assert_status(&env.exec(&words), 1);
    let document = env.latest();
    let verdict = &throughput(&document).verdict;
    assert_eq!(verdict.state, State::Invalid);
    assert_contains(&verdict.reasons[0].text, &["wrong content", "/f3"]);
}

#[test]
fn load_over_ipv6_is_loopback() {
    let env = TestEnv::new();
    env.stdout("load --make 2x1KB set");
    let (_serving, url) = Serving::spawn(env.command("serve set --listen [::1]:0"));
    assert!(url.starts_with("http://[::1]:"), "{url}");
    env.stdout(&format!("load {url} --clients 2 --time 300ms"));
    let document = env.latest();
    let record = throughput(&document);
    assert_eq!(record.params.text("to"), Some("loopback"));
    assert!(number(record, "server responses") > 0.0 && number(record, "errors") == 0.0);
}

#[test]
fn address_beyond_loopback_needs_the_same_token() {
    let Some(link) = link("token") else { return };
    let env = TestEnv::new();
    env.stdout("load --make 2x1KB set");
    let serve = |options: &str| {
        link.at(0, &env.command(&format!("serve set --listen 10.213.7.1:0 {options}")))
    };
    let refused = serve("").output().expect("it runs");
    assert_usage_error(&refused, &["10.213.7.1", "needs a token", "--token-file"]);
    let (_serving, url) = Serving::spawn(serve("--token-file token"));
    let load = |options: &str| {
        let words = format!("load {url} --clients 2 --time 300ms {options}");
        link.at(1, &env.command(&words)).output().expect("it runs")
    };
    std::fs::write(env.file("other"), "0".repeat(64)).expect("a file");
    for (options, part) in [("", "requires a token"), ("--token-file other", "another token")] {
        let output = load(options);
        assert_failure(&output, &["status 401", part]);
        assert_eq!(text(&output.stderr).lines().count(), 1, "{}", text(&output.stderr));
    }
    assert_status(&load("--token-file token"), 0);
    let document = env.latest();
    assert!(number(throughput(&document), "server responses") > 0.0);
    assert_eq!(number(throughput(&document), "errors"), 0.0);
}

#[test]
fn empty_folder_is_refused() {
    let env = TestEnv::new();
    std::fs::create_dir(env.file("empty")).expect("a folder");
    let (_serving, url) = Serving::start(&env, "empty");
    assert_failure(&env.run(&["load", &url]), &["the folder has no files", "--make"]);
}

#[test]
fn made_set_has_the_sizes_asked_for() {
    let env = TestEnv::new();
    let printed = env.stdout("load --make 5x2MB set");
    assert_contains(&printed, &["5 files of 2000000 bytes"]);
    for number in 0..5 {
        let metadata = std::fs::metadata(env.file(&format!("set/f{number}"))).expect("a file");
        assert_eq!(metadata.len(), 2_000_000);
    }
    std::fs::write(env.file("set/other"), "x").expect("a file");
    assert_failure(&env.exec("load --make 5x2MB set"), &["another file, other", "empty folder"]);
}
