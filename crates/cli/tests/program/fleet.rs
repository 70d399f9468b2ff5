//! `fathom fleet`: hosts that judge each other, by copies of a recorded run.

use std::path::Path;
use std::process::Command;

use fathom_record::{Better, Document, Record, Stratum};
use serde_json::Value;

use crate::ProgramTestEnv;
use crate::test_env::{
    assert_contains, assert_error, assert_failure, assert_status, assert_usage_error, json, text,
};

pub(crate) fn recorded() -> Document {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/quick-1.json.gz");
    let output = Command::new("gunzip").arg("-c").arg(file).output().expect("gunzip");
    serde_json::from_slice(&output.stdout).expect("a run")
}

/// The record as a host measures it that is so many times slower.
pub(crate) fn slower(record: &mut Record, times: f64) {
    let Some(summary) = &mut record.summary else { return };
    let factor = if record.better == Better::Higher { 1.0 / times } else { times };
    (summary.stratum, summary.in_state, summary.as_found) = (Stratum::AsFound, None, None);
    summary.median *= factor;
    summary.process_medians.iter_mut().for_each(|median| *median *= factor);
    if let Some(interval) = &mut summary.interval {
        (interval.low, interval.high) = (interval.low * factor, interval.high * factor);
    }
}

/// Hosts `PREFIX1` to `PREFIXn` that differ by up to 1 % in each case, without chance.
pub(crate) fn fleet(prefix: &str, hosts: usize) -> Vec<Document> {
    let recorded = recorded();
    let host = |at: usize| {
        let mut run = recorded.clone();
        run.host.name = format!("{prefix}{}", at + 1);
        run.host.id = None;
        run.run.id = format!("{}{at:015}", &prefix[..1]);
        for (case, record) in run.records.iter_mut().enumerate() {
            let place = ((3 * at + case) % hosts) as f64 / hosts as f64;
            slower(record, 0.99 + 0.02 * place);
        }
        run
    };
    (0..hosts).map(host).collect()
}

/// Writes each run to a file with the name of its host.
pub(crate) fn write(env: &ProgramTestEnv, runs: &[Document]) -> String {
    let name = |run: &Document| env.write_document(&format!("{}.json", run.host.name), run);
    runs.iter().map(name).collect::<Vec<String>>().join(" ")
}

/// Eight hosts of which one has slow memory and another governor, and three of another kind.
pub(crate) fn env_with_odd_host() -> ProgramTestEnv {
    let env = ProgramTestEnv::new();
    let mut hosts = fleet("node", 8);
    hosts.iter_mut().for_each(|run| run.host.cpu.governor = Some("performance".to_owned()));
    let odd = &mut hosts[4];
    odd.host.cpu.governor = Some("powersave".to_owned());
    let memory = odd.records.iter_mut().filter(|it| it.metric.as_str().starts_with("memory."));
    memory.for_each(|record| slower(record, 1.3));
    write(&env, &hosts);
    let mut others = fleet("web", 3);
    others.iter_mut().for_each(|run| run.host.cpu.model = "Another CPU".to_owned());
    write(&env, &others);
    env
}

fn files(hosts: usize) -> String {
    (1..=hosts).map(|host| format!("node{host}.json ")).collect()
}

#[test]
fn odd_host_is_named_and_the_status_is_3() {
    let env = env_with_odd_host();
    let output = env.exec(&format!("fleet judge {} --json", files(8)));
    assert_status(&output, 3);
    let judgement: Value = json(&output);
    let group = &judgement["groups"][0];
    assert_eq!((&judgement["hosts"], &group["hosts"][7]), (&8.into(), &"node8".into()));
    let odd = group["odd"].as_array().expect("hosts");
    assert_eq!((odd.len(), &odd[0]["host"]), (1, &"node5".into()));
    assert_eq!(odd[0]["facts"][0]["fact"], "governor");
    // Cases, and the resources that they share.
    let is_memory = |it: &Value| {
        let metric = it["metric"].as_str().expect("a name");
        metric.starts_with("memory")
            || ["cache and memory", "memory of two CPUs", "page faults"].contains(&metric)
    };
    let numbers = odd[0]["numbers"].as_array().expect("numbers");
    assert!(numbers.len() > 10 && numbers.iter().all(is_memory), "{numbers:#?}");
    // From the store, by the names of the hosts.
    env.stdout(&format!("import {}", files(8)));
    let names = files(8).replace(".json", "");
    let output = env.exec(&format!("fleet judge {names}"));
    assert_status(&output, 3);
    let screen = text(&output.stdout);
    assert_contains(
        &screen,
        &["1 of 8 hosts is odd: node5\n", "likely cause: governor: powersave"],
    );
}

#[test]
fn facts_are_compared_without_numbers() {
    let env = env_with_odd_host();
    for of_members in ["--listen 127.0.0.1", "--push", "--join-time 1s", "--allow-missing 1"] {
        assert_status(&env.exec(&format!("fleet judge a b {of_members}")), 2);
    }
    let output = env.exec(&format!("fleet judge --facts {}", files(8)));
    assert_status(&output, 3);
    let screen = text(&output.stdout);
    let odd = "governor: powersave instead of performance on 7 of 8 hosts";
    assert_contains(&screen, &["1 of 8 hosts is odd: node5\n", odd]);
    assert!(!screen.contains("memory.latency") && !screen.contains("likely cause"), "{screen}");
    // Without the odd fact, slow memory is no matter.
    let mut slow = fleet("node", 6);
    slow[2].records.iter_mut().for_each(|record| slower(record, 2.0));
    let slow = write(&env, &slow);
    assert_contains(
        &env.stdout(&format!("fleet judge --facts {slow}")),
        &["no odd fact: 6 hosts compared"],
    );
    assert_status(&env.exec(&format!("fleet judge {slow}")), 3);
}

#[test]
fn equal_hosts_are_not_odd() {
    let env = ProgramTestEnv::new();
    let files = write(&env, &fleet("node", 8));
    assert_contains(&env.stdout(&format!("fleet judge {files}")), &["no odd host: 8 hosts judged"]);
}

#[test]
fn fewer_than_five_hosts_are_undecided() {
    let env = env_with_odd_host();
    let few = "4 hosts: nothing judged: no group of equal hardware has 5 hosts";
    // Numbers of so few stand side by side.
    let sides = ["of 4", "memory latency, L1", "node1", "node4", few];
    for (command, expected) in
        [("judge", &sides[..]), ("judge --facts", &[few, "node[1-4]: AMD EPYC"])]
    {
        let output = env.exec(&format!("fleet {command} {}", files(4)));
        assert_status(&output, 5);
        assert_contains(&text(&output.stdout), expected);
    }
    let both: Value = json(&env.exec(&format!("fleet judge --json {}", files(4))));
    assert_eq!(both["side_by_side"]["hosts"].as_array().map(Vec::len), Some(4));
    assert_eq!(both["groups"][0]["hosts"].as_array().map(Vec::len), Some(4));
    let all = env.stdout(&format!("compare --all {}", files(3)));
    assert_contains(&all, &["memory.latency{"]);
    assert_usage_error(&env.exec(&format!("compare --seed 2 {}", files(3))), &["--seed"]);
    let mut again = fleet("node", 3);
    again[2].host.name = "node2".to_owned();
    env.write_document("again.json", &again[2]);
    let both =
        "n000000000000001 and n000000000000002 are both of host node2: name one of each host";
    assert_usage_error(&env.exec("compare node1.json node2.json again.json"), &[both]);
    // Enough hosts, but no valid number to judge.
    let mut hosts = fleet("node", 6);
    for record in hosts.iter_mut().flat_map(|run| &mut run.records) {
        record.verdict.state = fathom_record::State::Noisy;
    }
    let output = env.exec(&format!("fleet judge {}", write(&env, &hosts)));
    assert_status(&output, 5);
    assert_contains(&text(&output.stdout), &["no odd fact; numbers not judged"]);
}

#[test]
fn wrong_runs_are_refused_in_one_line() {
    let env = env_with_odd_host();
    std::fs::write(env.file("other.json"), "{\"data\": 1}").expect("a file");
    let whole = std::fs::read_to_string(env.file("node1.json")).expect("a run");
    std::fs::write(env.file("two.json"), whole.repeat(2)).expect("a file");
    std::fs::copy(env.file("node1.json"), env.file("copy.json")).expect("a copy");
    let exec = |runs: &str| env.exec(&format!("fleet judge {runs}"));
    assert_failure(&exec("node1.json gone.json"), &["open gone.json", "No such file"]);
    assert_failure(&exec("node1.json other.json"), &["other.json is not a run of `fathom export`"]);
    let twice = &["run n000000000000000 is named twice: two.json and two.json"];
    assert_usage_error(&exec("two.json"), twice);
    let twice = &["run n000000000000000 is named twice: node1.json and copy.json"];
    assert_usage_error(&exec("node1.json copy.json"), twice);
    assert_usage_error(&exec("node1.json --all --json"), &["--all", "--json"]);
    assert_error(&exec(""), 2, &["<RUN>"]);
}
