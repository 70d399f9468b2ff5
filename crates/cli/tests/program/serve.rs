//! `fathom serve`: what it prints, refuses and does on signals.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Child;
use std::time::Duration;

use fathom_lab::processes::ended_within;
use rustix::process::Signal;

use crate::children::{next_line, send, signal_and_wait, spawn_piped};
use crate::test_env::{TestEnv, assert_contains, assert_failure, assert_usage_error, generated};

/// A running service, and its address.
pub(crate) fn start(env: &TestEnv, options: &str) -> (Child, String) {
    let mut child = spawn_piped(env.command(&format!("serve . --listen 0 {options}")));
    let line = next_line(&mut child);
    let address = line.trim().trim_end_matches('/').rsplit('/').next().expect("an address");
    assert!(line.contains("Serving . on http://127.0.0.1:"), "{line}");
    (child, address.to_owned())
}

fn request(address: &str, target: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    let head = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("a request");
    stream
}

#[test]
fn folder_is_served_until_a_signal() {
    for signal in [Signal::INT, Signal::TERM] {
        let env = TestEnv::new();
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
fn signal_lets_responses_finish() {
    let env = TestEnv::new();
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
    let env = TestEnv::new();
    let (mut child, address) = start(&env, "");
    std::fs::write(env.file("large"), generated(1, 64 << 20)).expect("a file");
    let stream = request(&address, "/large");
    assert_eq!(stream.peek(&mut [0]).expect("a response"), 1);
    send(&child, Signal::INT);
    std::thread::sleep(Duration::from_millis(200));
    send(&child, Signal::INT);
    let status = ended_within(&mut child, 3).expect("it does not wait for the response");
    assert_eq!(status.code(), Some(130));
}

#[test]
fn impossible_services_are_refused_in_one_line() {
    let env = TestEnv::new();
    let (child, address) = start(&env, "");
    env.assert_failures(
        "serve",
        &format!(
            ". --listen {address} | {address} | already in use | --listen
             none | open folder none | name an existing directory
             . --listen 0 --congestion none | congestion control none | available: | --congestion
             . --listen 192.0.2.1:1 --token-file t | listen on 192.0.2.1:1 | --listen
             . --listen 0 --token-file none/t | token file none/t | --token-file"
        ),
    );
    assert_eq!(signal_and_wait(child, Signal::INT).code(), Some(0));
    env.assert_usage_errors(
        "serve",
        ". --listen 0.0.0.0 | 0.0.0.0:3284 | needs a token | --token-file
         . --listen host:80 | host:80 | 127.0.0.1:8080
         . --threads 0 | --threads
         . --idle soon | --idle",
    );
    assert_usage_error(&env.run(&["serve"]), &["DIR"]);
    std::fs::write(env.file("exposed"), "0".repeat(64)).expect("a file");
    let mode = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o644);
    std::fs::set_permissions(env.file("exposed"), mode).expect("a mode");
    let exposed = env.exec("serve . --listen 0 --token-file exposed");
    assert_failure(&exposed, &["exposed", "mode 0644", "chmod 600"]);
}

#[test]
fn token_is_made_and_never_printed() {
    let env = TestEnv::new();
    let (mut child, address) = start(&env, "--token-file token");
    let token = std::fs::read_to_string(env.file("token")).expect("a token file");
    let mut answer = String::new();
    request(&address, "/").read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
    send(&child, Signal::TERM);
    ended_within(&mut child, 20).expect("it ends");
    let output = child.wait_with_output().expect("output");
    let text = [output.stdout, output.stderr].concat();
    assert_contains(&String::from_utf8_lossy(&text), &["$(cat token)", "ssh -L"]);
    assert!(!String::from_utf8_lossy(&text).contains(token.trim()));
}
