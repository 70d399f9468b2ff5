//! `fathom load --cost`: what is counted of a request, that the server runs on, whatever happens,
//! and what is refused.

use std::fs;
use std::io::Read as _;
use std::process::{Child, Command, Stdio};

use fathom_record::{CostTerm, Document};
use rustix::process::Signal;

use crate::children::{signal_and_wait, spawn_piped, wait_until};
use crate::serve::{request, start};
use crate::test_env::{
    ProgramTestEnv, assert_contains, assert_message, assert_usage_error, json, of_metric, text,
    unwrapped_stdout,
};

const CLIENTS: u64 = 2;

/// A server of one file.
fn served() -> (ProgramTestEnv, Child, String) {
    let env = ProgramTestEnv::new();
    fs::write(env.file("a"), vec![b'x'; 4096]).expect("a file");
    let (server, address) = start(&env, "");
    (env, server, address)
}

fn is_traced(server: &Child) -> bool {
    let path = format!("/proc/{}/status", server.id());
    let status = fs::read_to_string(path).unwrap_or_default();
    status.contains("TracerPid:\t") && !status.contains("TracerPid:\t0\n")
}

/// It is not traced, and answers.
fn assert_free(server: Child, address: &str) {
    wait_until("the server is traced still", || !is_traced(&server));
    let mut answer = String::new();
    request(address, "/a").read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert_eq!(signal_and_wait(server, Signal::TERM).code(), Some(0));
}

#[test]
fn operations_of_a_request_are_counted_exactly() {
    let (env, server, address) = served();
    let line = format!("load http://{address}/a --clients {CLIENTS} --time 300ms --cost --json");
    let document: Document = json(&env.exec(&line));
    let [record] = of_metric(&document, "load.server.system_per_request")[..] else {
        panic!("{document:?}")
    };
    assert_eq!(record.params.integer("clients"), Some(CLIENTS as i64));
    let cost = record.cost.as_ref().expect("counts");
    let service = cost.service.as_ref().expect("a service");
    assert!(service.requests > 0 && service.server.contains("PID"), "{service:?}");
    assert!(cost.ceiling().is_some() && cost.slowdown > 0.0, "{cost:?}");
    // One of each for a request over a kept connection, besides reads of a connection that has no
    // request yet, which have no bytes. At both ends of the counting each client has a request of
    // which the one is counted, and the other is not yet.
    for operation in ["read, socket", "write, socket"] {
        let is = |term: &&CostTerm| term.operation == operation && term.size.is_some();
        let count: u64 = cost.terms.iter().filter(is).map(|term| term.count).sum();
        let off = count.abs_diff(service.requests);
        assert!(off <= 2 * CLIENTS, "{operation}: {count} of {}", service.requests);
    }
    let shown = unwrapped_stdout(&env.run(&["show", "latest:load"]));
    let parts = ["A request takes", "kernel time of a request, 2 clients", "measured system time"];
    assert_contains(&shown, &parts);
    assert_contains(&shown, &["price metrics missing: add --measure", "counting: "]);
    assert_free(server, &address);
}

#[test]
fn server_runs_on_after_the_end_of_its_tracer() {
    for signal in [Signal::KILL, Signal::INT] {
        let (env, server, address) = served();
        // An open loop needs no capacities.
        let line = format!("load http://{address}/a --rate 200 --time 300ms --cost");
        let load = spawn_piped(env.command(&line));
        wait_until("the server is not traced", || is_traced(&server));
        let status = signal_and_wait(load, signal);
        assert_eq!(status.code(), (signal == Signal::INT).then_some(130), "{signal:?}");
        assert_free(server, &address);
    }
}

#[test]
fn server_that_ends_while_it_is_counted_is_one_line() {
    let (env, server, address) = served();
    let line = format!("load http://{address}/a --rate 200 --time 300ms --cost");
    let load = spawn_piped(env.command(&line));
    wait_until("the server is not traced", || is_traced(&server));
    signal_and_wait(server, Signal::KILL);
    let output = load.wait_with_output().expect("its end");
    assert_message(&output, 1, &["--cost: ", "its steps are kept"]);
    let lines = text(&output.stderr);
    let errors = lines.lines().filter(|line| line.contains("--cost: "));
    assert_eq!(errors.count(), 1, "{lines}");
}

#[test]
fn server_that_cannot_be_counted_is_refused_before_the_load() {
    let (env, server, address) = served();
    let mut other = Command::new("cat").stdin(Stdio::piped()).spawn().expect("it starts");
    let output = env.exec(&format!("load http://{address}/a --pid {} --cost", other.id()));
    assert_message(&output, 1, &["--cost: neither cat", "listens on port"]);
    assert!(output.stdout.is_empty(), "{}", text(&output.stdout));
    other.kill().and_then(|()| other.wait()).expect("a child");
    let line = format!("load http://{address}/a --cost --find-max --slo p99<1s");
    assert_usage_error(&env.exec(&line), &["--cost", "--find-max"]);
    let line = format!("load http://{address}/a --measure");
    assert_usage_error(&env.exec(&line), &["--cost"]);
    assert_free(server, &address);
}
