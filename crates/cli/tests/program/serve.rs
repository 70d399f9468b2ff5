//! `fathom serve`: what it prints, refuses and does on signals.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use fathom_lab::settle;
use rustix::net::sockopt;
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, prlimit, setrlimit};

use crate::children::{next_line, send, signal_and_wait, spawn_piped, wait_until};
use crate::group::{has_ipv6, skipped};
use crate::test_env::{ProgramTestEnv, assert_contains, assert_usage_error, entries, generated};

/// A running service, and its address.
pub(crate) fn start(env: &ProgramTestEnv, options: &str) -> (Child, String) {
    let mut child = spawn_piped(env.command(&format!("serve . --listen 0 {options}")));
    entries(env.path()).iter().filter(|path| path.is_file()).for_each(|it| settle(it));
    let line = next_line(&mut child);
    let address = line.trim().trim_end_matches('/').rsplit('/').next().expect("an address");
    assert!(line.contains("Serving . on http://127.0.0.1:"), "{line}");
    (child, address.to_owned())
}

pub(crate) fn request(address: &str, target: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("it listens");
    let head = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("a request");
    stream
}

#[test]
fn port_is_of_localhost_alone() {
    let env = ProgramTestEnv::new();
    for command in ["serve .", "ui"] {
        let both = env.exec(&format!("{command} --port 39023 --listen 0.0.0.0"));
        assert_usage_error(&both, &["--port", "--listen"]);
        let wrong = env.exec(&format!("{command} --port 99999"));
        assert_usage_error(&wrong, &["'--port <PORT>'", "from 0 to 65535"]);
    }
}

#[test]
fn folder_is_served_until_a_signal() {
    for signal in [Signal::INT, Signal::TERM] {
        let env = ProgramTestEnv::new();
        let (mut child, address) = start(&env, "");
        std::fs::write(env.file("a.txt"), "hello").expect("a file");
        let mut answer = String::new();
        request(&address, "/a.txt").read_to_string(&mut answer).expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("hello"), "{answer}");
        let lines: Vec<String> = (0..4).map(|_| next_line(&mut child)).collect();
        let text = lines.concat();
        assert_contains(&text, &["congestion control", "curl http://127", "fathom load http://"]);
        assert_eq!(signal_and_wait(child, signal).code(), Some(0));
    }
}

#[test]
fn first_process_of_a_namespace_reaps_orphans() {
    let probe = Command::new("unshare").args(["--pid", "--fork", "true"]).status();
    if !probe.is_ok_and(|status| status.success()) {
        return skipped("a PID namespace needs root, and unshare of util-linux");
    }
    let env = ProgramTestEnv::new();
    let serve = env.command("serve . --listen 0");
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--kill-child"]);
    command.arg(serve.get_program()).args(serve.get_args()).current_dir(env.path());
    let mut child = spawn_piped(command);
    next_line(&mut child);
    let first = fathom_measure::process::children(child.id())[0].to_string();
    // The parent ends at once.
    let orphan = ["--pid", "--target", &first, "sh", "-c", "(readlink /proc/self &)"];
    let output = Command::new("nsenter").args(orphan).output().expect("nsenter starts");
    let orphan = Path::new("/proc").join(String::from_utf8_lossy(&output.stdout).trim());
    assert!(orphan != Path::new("/proc/"), "{output:?}");
    wait_until("it is not reaped", || !orphan.exists());
    child.kill().expect("it runs");
    child.wait().expect("it ends");
}

#[test]
fn signal_lets_responses_finish() {
    let env = ProgramTestEnv::new();
    let (child, address) = start(&env, "");
    let bytes = generated(1, 32 << 20);
    std::fs::write(env.file("large"), &bytes).expect("a file");
    let mut stream = request(&address, "/large");
    assert_eq!(stream.peek(&mut [0]).expect("a response"), 1);
    send(&child, Signal::INT);
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer");
    assert!(answer.ends_with(&bytes));
    assert_eq!(signal_and_wait(child, Signal::CONT).code(), Some(0));
}

#[test]
fn second_signal_ends_at_once() {
    let env = ProgramTestEnv::new();
    let (child, address) = start(&env, "");
    std::fs::write(env.file("large"), generated(1, 64 << 20)).expect("a file");
    let stream = request(&address, "/large");
    assert_eq!(stream.peek(&mut [0]).expect("a response"), 1);
    send(&child, Signal::INT);
    wait_until("the port is open", || TcpStream::connect(&address).is_err());
    assert_eq!(signal_and_wait(child, Signal::INT).code(), Some(130), "after the response");
}

/// Changes the limit of descriptors of a running process.
fn limit_descriptors(child: &Child, limit: u64) {
    let maximum = rustix::process::getrlimit(Resource::Nofile).maximum;
    let limit = Rlimit { current: Some(limit), maximum };
    prlimit(Some(Pid::from_child(child)), Resource::Nofile, limit).expect("its own child");
}

/// The status of a response.
fn status(mut stream: &TcpStream) -> Option<u16> {
    let mut head = [0; 12];
    stream.read_exact(&mut head).ok()?;
    String::from_utf8_lossy(&head[9..]).parse().ok()
}

/// Waits until all threads sleep. One in a loop without a wait never does.
fn wait_until_asleep(child: &Child) {
    let tasks = format!("/proc/{}/task", child.id());
    wait_until("a thread does not sleep", || {
        let tasks = std::fs::read_dir(&tasks).expect("it runs").flatten();
        let state = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("stat"));
        tasks.filter_map(|task| state(task).ok()).all(|stat| stat.contains(") S "))
    });
}

#[test]
fn panic_in_any_thread_ends_the_service() {
    let get = |target: &str| format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n");
    let post = |target| get(target).replace("GET", "POST") + "Content-Length: 0\r\n";
    let far = "Connection: Upgrade\r\nUpgrade: fathom-far/1\r\n";
    for (thread, asked) in [
        ("reactor 1", get("/.fathom/health")),
        ("lane", get("/a") + "Fathom-Dose: disk_bytes=1\r\n"),
        ("serial", get("/a") + "Fathom-Dose: serial_ns=1\r\n"),
        ("page", get("/")),
        ("control", get("/.fathom/metrics")),
        ("list", get("/.fathom/list")),
        ("bulk", post("/.fathom/evict")),
        ("disk", post("/.fathom/disk/1")),
        ("evict", get("/a")),
        ("far", get("/.fathom/far") + far),
    ] {
        let Some(env) = ProgramTestEnv::on_device() else { return };
        let mut command = env.command("serve . --listen 0 --threads 2 --lanes 1 --cold");
        command.env("FATHOM_PANIC", thread);
        let mut child = spawn_piped(command);
        let line = next_line(&mut child);
        let address = line.trim().trim_end_matches('/').rsplit('/').next().expect("an address");
        std::fs::write(env.file("a"), "hello").expect("a file");
        // Reactors share connections so that each has some.
        let target = "/.fathom/source/16777216";
        let others: Vec<TcpStream> = (0..4).map(|_| request(address, target)).collect();
        others.iter().for_each(|one| _ = one.peek(&mut [0]).expect("a response"));
        // More than reactors may differ by: some are on each.
        let asking = if thread == "reactor 1" { 8 } else { 1 };
        let mut asking: Vec<TcpStream> =
            (0..asking).map(|_| TcpStream::connect(address).expect("it listens")).collect();
        for stream in &mut asking {
            let _ = stream.write_all(format!("{asked}\r\n").as_bytes());
        }
        let is_whole = |mut other: TcpStream| {
            let mut bytes = Vec::new();
            other.read_to_end(&mut bytes).is_ok() && bytes.len() > 16_777_216
        };
        let drained = others.into_iter().map(is_whole).filter(|is_whole| *is_whole).count();
        assert!(drained == 4 || (thread == "reactor 1" && drained > 0), "{thread}: {drained}");
        let output = child.wait_with_output().expect("it ends");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{thread}: {errors}");
        assert_contains(&errors, &[&format!("thread {thread} panicked at crates/service/src/")]);
        assert_eq!(errors.lines().filter(|line| line.contains("panicked")).count(), 1, "{errors}");
    }
}

#[test]
fn exhausted_descriptors_refuse_and_recover() {
    let env = ProgramTestEnv::new();
    let (child, address) = start(&env, "");
    std::fs::write(env.file("a.txt"), "hello").expect("a file");
    let open = |count: usize| -> Vec<TcpStream> {
        let connect = |_| {
            let mut stream = TcpStream::connect(&address).expect("it listens");
            stream.write_all(b"GET /a.txt HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("sent");
            stream
        };
        (0..count).map(connect).collect()
    };
    let is_served = || status(&request(&address, "/a.txt")) == Some(200);
    assert!(is_served());
    let files = std::fs::read_dir(format!("/proc/{}/fd", child.id())).expect("it runs");
    let number = |file: std::fs::DirEntry| file.file_name().to_str()?.parse::<u64>().ok();
    let used: Vec<u64> = files.flatten().filter_map(number).collect();
    let mut free = (0..).filter(|number| !used.contains(number));
    let limit = free.nth(4).expect("a number");
    limit_descriptors(&child, limit);
    let all = open(16);
    let statuses: Vec<Option<u16>> = all.iter().map(status).collect();
    assert!(statuses.contains(&Some(200)) && statuses.contains(&Some(503)), "{statuses:?}");
    // Also those for which no descriptor was left are refused in words.
    assert!(statuses.iter().all(|it| matches!(it, Some(200 | 503))), "{statuses:?}");
    wait_until_asleep(&child);
    drop(all);
    wait_until("it does not serve again", is_served);
    // Not even the descriptor in reserve can be used: connections wait.
    limit_descriptors(&child, 3);
    let waiting = open(4);
    wait_until_asleep(&child);
    waiting[0].set_nonblocking(true).expect("an option");
    let answer = (&waiting[0]).read(&mut [0]).expect_err("no answer");
    assert_eq!(answer.kind(), std::io::ErrorKind::WouldBlock);
    waiting[0].set_nonblocking(false).expect("an option");
    // Also for the files.
    limit_descriptors(&child, limit + 16);
    assert!(waiting.iter().all(|stream| status(stream) == Some(200)));
    assert_eq!(signal_and_wait(child, Signal::INT).code(), Some(0));
}

#[test]
fn impossible_services_are_refused_in_one_line() {
    let env = ProgramTestEnv::new();
    let (child, address) = start(&env, "");
    env.assert_failures(
        "serve",
        &format!(
            ". --listen {address} | {address} | already in use | --listen
             . --listen 0 --congestion none | congestion control none | available: | --congestion"
        ),
    );
    let twice = env.exec("serve . --listen 8080 --listen 127.0.0.1:8080");
    assert_usage_error(&twice, &["--listen 127.0.0.1:8080 is given twice"]);
    assert_eq!(signal_and_wait(child, Signal::INT).code(), Some(0));
}

#[test]
fn token_is_made_and_never_printed() {
    let env = ProgramTestEnv::new();
    let (child, address) = start(&env, "--token-file token");
    let token = std::fs::read_to_string(env.file("token")).expect("a token file");
    let mut answer = String::new();
    request(&address, "/").read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
    send(&child, Signal::TERM);
    let output = child.wait_with_output().expect("output");
    let text = [output.stdout, output.stderr].concat();
    assert_contains(&String::from_utf8_lossy(&text), &["$(cat token)", "ssh -L"]);
    assert!(!String::from_utf8_lossy(&text).contains(token.trim()));
}

#[test]
fn printed_commands_can_be_used() {
    if !has_ipv6() {
        return;
    }
    let env = ProgramTestEnv::new();
    let folder = env.file("it's a folder");
    std::fs::create_dir(&folder).expect("a folder");
    let mut command = env.command("serve . --listen [::]:0 --token-file");
    command.arg(folder.join("token"));
    let mut child = spawn_piped(command);
    let lines: Vec<String> = (0..6).map(|_| next_line(&mut child)).collect();
    let port = lines[0].trim().trim_end_matches('/').rsplit(':').next().expect("a port");
    let printed = lines[2].split_once("curl ").expect("a command").1;
    let script = format!("curl -sSf {}", printed.replace("HOST", "127.0.0.1"));
    assert_contains(&lines[4], &[&format!("ssh -L {port}:127.0.0.1:{port} HOST")]);
    assert_contains(&lines[5], &[&format!("--remote HOST:{port} --token-file '")]);
    if std::process::Command::new("curl").arg("--version").output().is_err() {
        skipped("needs curl");
    } else {
        let listed = std::process::Command::new("sh").args(["-c", &script]).output();
        let listed = listed.expect("a shell");
        let errors = String::from_utf8_lossy(&listed.stderr);
        assert_contains(&String::from_utf8_lossy(&listed.stdout), &["\"files\":"]);
        assert!(listed.status.success(), "{script}: {errors}");
    }
    assert_eq!(signal_and_wait(child, Signal::INT).code(), Some(0));
}

#[test]
fn connections_above_the_limit_are_a_warning() {
    let env = ProgramTestEnv::new();
    let mut child =
        spawn_piped(env.command("serve . --listen localhost:0 --connections 4294967295"));
    let line = next_line(&mut child);
    assert!(line.contains("http://127.0.0.1:"), "{line}");
    send(&child, Signal::TERM);
    let output = child.wait_with_output().expect("it ends");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_contains(&text, &["--connections 4294967295: at most", "ulimit -n"]);
}

#[test]
fn ten_thousand_idle_connections_are_small() {
    const CONNECTIONS: usize = 10_000;
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, ..limit };
    if limit.maximum.is_some_and(|most| most < CONNECTIONS as u64 + 500)
        || setrlimit(Resource::Nofile, raised).is_err()
    {
        return skipped("needs a limit of 10,500 open files");
    }
    let env = ProgramTestEnv::new();
    let (child, address) = start(&env, "--connections 12000 --idle 1h");
    let connect = |_| {
        let stream = TcpStream::connect(&address).expect("it listens");
        // By a reset: no port stays in TIME_WAIT.
        sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).expect("an option");
        stream
    };
    let held: Vec<TcpStream> = (0..CONNECTIONS).map(connect).collect();
    let metric = |name: &str| -> f64 {
        let mut answer = String::new();
        request(&address, "/.fathom/metrics").read_to_string(&mut answer).expect("an answer");
        let line = answer.lines().find_map(|line| line.strip_prefix(name)).expect(name);
        line.trim().parse().expect(name)
    };
    // Its threads accept them after the kernel.
    wait_until("some are not accepted", || {
        metric("fathom_connections ") >= CONNECTIONS as f64 + 1.0
    });
    assert!(metric("fathom_resident_bytes ") < 60.0 * f64::from(1 << 20));
    drop(held);
    assert_eq!(signal_and_wait(child, Signal::INT).code(), Some(0));
}
