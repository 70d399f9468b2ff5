//! Connections, HTTP and file reads to a service that requires a token.

use fathom_record::{Document, Record, Remedy, State};
use rustix::process::Signal;

use crate::children::signal_and_wait;
use crate::far::run_remote;
use crate::group::skipped;
use crate::serve::start as serve;
use crate::test_env::{ProgramTestEnv, assert_contains, document, json, text};

const METRICS: &str = "network.tcp.connect network.tcp.close_fin network.tcp.close_rst \
                       network.tcp.teardown network.http.get file.read.remote";
const BYTES: u64 = 512 << 10;

fn remote(document: &Document) -> Vec<&Record> {
    let is_remote = |record: &&Record| record.params.text("to") == Some("127.0.0.1");
    document.records.iter().filter(is_remote).collect()
}

#[test]
fn remote_service_is_measured() {
    let env = ProgramTestEnv::new();
    let (child, address) = serve(&env, "--token-file token");
    let options = format!("--remote {address} --token-file token");
    let without = run_remote(&env, &format!("file.read.remote {options}"));
    let document_without: Document = json(&without);
    for record in remote(&document_without) {
        assert_eq!(record.verdict.state, State::Unavailable, "{:?}", record.verdict);
        let remedy = record.verdict.reasons[0].remedy.clone();
        assert_eq!(remedy, Some(Remedy::ServeFile { bytes: BYTES }));
    }
    assert!(remote(&document_without).len() == 2);
    env.stdout(&format!("load --make 1x{BYTES} set"));
    let output = run_remote(&env, &format!("{METRICS} {options}"));
    let document = document(&output);
    let records = remote(&document);
    assert_eq!(records.len(), 7);
    for record in records {
        if record.verdict.state == State::Unavailable {
            skipped(&format!("{}: {:?}", record.metric, record.verdict.reasons));
            continue;
        }
        assert_ne!(record.verdict.state, State::Failed, "{}: {:?}", record.metric, record.verdict);
        let names: Vec<&str> = record.facts.iter().map(|fact| fact.name.as_str()).collect();
        assert!(names.contains(&"congestion control") && names.contains(&"MSS"), "{names:?}");
        let of_metric = match record.metric.as_str() {
            "file.read.remote" => "in round trips",
            "network.http.get" => "server CPU per request",
            _ => "TIME_WAIT sockets after",
        };
        assert!(names.contains(&of_metric), "{}: {names:?}", record.metric);
    }
    let shown = env.stdout("show");
    assert_contains(&shown, &["TCP connect", "HTTP GET", "remote read of one block"]);
    // Nobody else reads loopback.
    assert!(!text(&output.stderr).contains("unencrypted"), "{}", text(&output.stderr));
    assert_eq!(signal_and_wait(child, Signal::INT).code(), Some(0));
}
