//! `fathom fleet pairs`: members as processes of this machine, which measure to each other.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use fathom_measure::process::Running;
use rustix::process::Signal;
use serde_json::Value;

use crate::children::{signal_and_wait, wait_until};
use crate::fleet_run::{FleetRunCoordinator, ended, started};
use crate::test_env::{
    ProgramTestEnv, assert_contains, assert_status, assert_usage_error, document, json, text,
};

const PAIRS: &str = "fleet pairs --same-host --quick --label mesh --members";
const TRIP: &str = "network.tcp.rtt{bytes=1,cpus=2,mode=block}";

fn members<const N: usize>(env: &ProgramTestEnv, join: &str, names: [&str; N]) -> [Child; N] {
    names.map(|name| started(env, join, name))
}

#[test]
fn each_two_members_measure_to_each_other() {
    let env = ProgramTestEnv::new();
    let coordinator = FleetRunCoordinator::begin(&env, &format!("{PAIRS} 3 --at-once 1 {TRIP}"));
    let members = members(&env, &coordinator.join, ["m1", "m2", "m3"]);
    let output = coordinator.end();
    for (status, errors) in members.map(ended) {
        assert!(status.success(), "{status} {errors} {}", text(&output.stderr));
    }
    // Three hosts are too few to be judged.
    assert_status(&output, 5);
    let screen = text(&output.stdout);
    assert_contains(
        &screen,
        &[
            "3 members joined, 3 delivered\n",
            "6 of 6 pairs measured, each way counted, in 3 rounds",
            "Between hosts: network.tcp.rtt{bytes=1,cpus=2,mode=block}\n",
        ],
    );
    // Each run is of one host to another, without local cases and without samples.
    let store = fathom_store::Store::open_existing(&env.store()).expect("a store");
    let mut met = BTreeSet::new();
    for id in store.labelled("mesh").expect("runs") {
        let run = document(&env.exec(&format!("show {id} --json --samples")));
        let [far] = &run.far[..] else { panic!("{} far hosts", run.far.len()) };
        let [record] = &run.records[..] else { panic!("{} records", run.records.len()) };
        assert_eq!(record.params.text("to"), Some(far.name.as_str()));
        assert!(record.samples.is_none(), "no samples");
        assert_ne!(run.host.id, far.host.id, "they are two hosts, by their names");
        met.insert((run.host.name, far.host.name.clone()));
    }
    assert_eq!(met.len(), 6, "{met:?}");
    // The runs of the label are judged alike.
    let again = env.exec("fleet judge mesh");
    assert_status(&again, 5);
    let between = |screen: &str| screen.split_once("Between hosts").map(|it| it.1.to_owned());
    let [first, again] = [&screen, &text(&again.stdout)].map(|it| between(it).expect("numbers"));
    assert!(first.starts_with(again.trim_end()), "{first}\n{again}");
}

#[test]
fn lost_member_is_left_out_of_its_pairs() {
    let env = ProgramTestEnv::new();
    let coordinator = FleetRunCoordinator::begin(&env, &format!("{PAIRS} 3 --json {TRIP}"));
    let [m1, m2, m3] = members(&env, &coordinator.join, ["m1", "m2", "m3"]);
    // It serves, or measures.
    wait_until("m3 has no order", || fathom_lab::processes::descendants(m3.id()).len() > 1);
    signal_and_wait(m3, Signal::KILL);
    let output = coordinator.end();
    for (status, errors) in [m1, m2].map(ended) {
        assert!(status.success(), "{status} {errors} {}", text(&output.stderr));
    }
    assert_status(&output, 3);
    let found: Value = json(&output);
    assert_eq!(found["members"]["lost"][0]["host"], "m3");
    assert_eq!(found["pairs"]["planned"], 6);
    let missing = found["pairs"]["not_measured"].as_array().expect("pairs");
    let of_lost = |it: &Value| it["from"] == "m3" || it["to"] == "m3";
    assert!(!missing.is_empty() && missing.iter().all(of_lost), "{missing:#?}");
}

const SECRET: &str = "a-secret-of-this-far-end";

/// A far end as a member starts one, with its port. It ends with the test.
fn far_end(env: &ProgramTestEnv) -> (Running, u16) {
    std::fs::write(env.file("token"), format!("{SECRET}\n")).expect("a file");
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(env.file("token"), private).expect("its mode");
    let mut command = env.command("fleet far-end --listen 127.0.0.1 --token-file token");
    let mut child = Running::start(command.stdout(Stdio::piped())).expect("it starts");
    let mut line = String::new();
    BufReader::new(child.stdout().expect("a pipe")).read_line(&mut line).expect("a line");
    let line: Value = serde_json::from_str(&line).expect("JSON");
    (child, line["serving_port"].as_u64().expect("a port") as u16)
}

#[test]
fn far_end_serves_no_file_and_nobody_without_the_token() {
    let env = ProgramTestEnv::new();
    let (mut child, port) = far_end(&env);
    let ask = |path: &str, token: &str| {
        let mut socket = TcpStream::connect(("127.0.0.1", port)).expect("connected");
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n\
             Connection: close\r\n\r\n"
        );
        socket.write_all(request.as_bytes()).expect("sent");
        let mut answer = String::new();
        socket.read_to_string(&mut answer).expect("an answer");
        answer.split(' ').nth(1).unwrap_or_default().to_owned()
    };
    for path in ["/etc/passwd", "/token", "/x"] {
        assert_eq!(ask(path, SECRET), "404", "{path}");
        assert_eq!(ask(path, "other"), "401", "{path}");
    }
    std::fs::write(env.file("wrong"), "other\n").expect("a file");
    let run = |token: &str| {
        let remote = format!("--remote 127.0.0.1:{port} --token-file {token}");
        env.exec(&format!("run --quick --only --json {remote} {TRIP}"))
    };
    let wrong = run("wrong");
    assert_contains(&text(&wrong.stderr), &["wrong token"]);
    assert_eq!(wrong.status.code(), Some(1));
    child.terminate(10_000_000_000);
    assert_eq!(child.try_wait().expect("it has ended").and_then(|it| it.code()), Some(130));
}

#[test]
fn only_numbers_between_hosts_are_asked_for() {
    let env = ProgramTestEnv::new();
    for (line, part) in [
        ("fleet pairs cpu.call --members 2", "cpu.call is not measured between two hosts"),
        ("fleet pairs network.http.get --members 2", "sends the token unencrypted"),
        ("fleet pairs no.such.metric --members 2", "no.such.metric"),
        ("fleet pairs --members 2 --rounds 0", "--rounds"),
        ("fleet pairs --push --members 2", "--push"),
    ] {
        assert_usage_error(&env.exec(line), &[part]);
    }
}
