//! What `fathom load` gives while it runs: a line of JSON each second, and metrics.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use fathom_record::Record;
use rustix::process::Signal;
use serde_json::{Value, from_value};

use crate::children::{assert_interrupted, next_line, spawn_piped};
use crate::load::LoadServer;
use crate::test_env::{assert_contains, text};
use crate::{ProgramTestEnv, assert_usage_error};

#[test]
fn seconds_of_a_load_are_lines_and_its_records_follow() {
    let (env, server) = (ProgramTestEnv::new(), LoadServer::start());
    let line = format!("load {} --clients 2 --rate 50 --time 900ms", server.url("/f1"));
    let printed = text(&env.exec(&format!("{line} --jsonl")).stdout);
    let lines = printed.lines().map(|line| serde_json::from_str(line).expect("JSON"));
    let (records, seconds): (Vec<Value>, Vec<Value>) =
        lines.partition(|line: &Value| line.get("metric").is_some());
    let of = |step: &str, phase: &str| {
        let is_own = |one: &&Value| one["step"] == step && one["phase"] == phase;
        seconds.iter().filter(is_own).count()
    };
    // Each window of 300 ms has a line of its own.
    assert!(of("2 clients", "window") >= 3 && of("50 requests/s", "window") >= 3, "{printed}");
    for second in &seconds {
        let is_open = second["step"] == "50 requests/s";
        assert_eq!(
            [second.get("rate"), second.get("backlog")].map(|it| it.is_some()),
            [is_open; 2]
        );
        assert!(second["failed"].as_object().is_some_and(serde_json::Map::is_empty), "{second}");
        let has_any = second["responses"].as_u64() > Some(0);
        assert_eq!(second["p99_ns"].is_number(), has_any, "{second}");
    }
    let records: Vec<Record> = records.into_iter().map(|one| from_value(one).unwrap()).collect();
    let names = |all: &[Record]| all.iter().map(Record::name).collect::<Vec<_>>();
    let stored = env.latest().records;
    assert_eq!(names(&records), names(&stored));
    assert!(records.iter().all(|one| one.samples.is_none() && one.is_intact()));
    for times in stored.iter().filter(|one| one.metric.as_str() == "load.response_time") {
        let map = times.heat_map.as_ref();
        let samples = times.samples.as_ref().expect("samples");
        let all = samples[0].histogram.as_ref().expect("times").len();
        let counted = map.map(|map| map.counts.iter().flatten().sum::<u64>());
        let is_from_send = times.params.text("from").is_some();
        assert_eq!(counted, (!is_from_send).then_some(all), "{}", times.name());
    }
    for other in ["--json", "--brief"] {
        assert_usage_error(&env.exec(&format!("{line} --jsonl {other}")), &["cannot be used with"]);
    }
}

#[test]
fn metrics_of_a_load_are_served_until_it_ends() {
    let (env, server) = (ProgramTestEnv::new(), LoadServer::start());
    let line = format!("load {} --clients 1 --time 10min --metrics 0", server.url("/f1"));
    let mut command = env.command(&line);
    command.env("COLUMNS", "300");
    let mut child = spawn_piped(command);
    let plan = next_line(&mut child);
    let url = plan.trim_end().rsplit_once("metrics: http://").expect("an address").1;
    let address = url.strip_suffix("/metrics").expect("a path");
    let scraped = || {
        let mut stream = TcpStream::connect(address).expect("a connection");
        let request = format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("a request");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    };
    let answer = scraped();
    assert_contains(&answer, &["HTTP/1.1 200 OK", "fathom_load_response_seconds_count", "# EOF"]);
    assert_interrupted(child, Signal::INT);
    assert!(TcpStream::connect(address).is_err(), "{address} is open");
    let refused = env.exec(&format!("load {} --metrics 0.0.0.0:1", server.url("/f1")));
    assert_usage_error(&refused, &["--metrics 0.0.0.0:1", "--token-file FILE"]);
}
