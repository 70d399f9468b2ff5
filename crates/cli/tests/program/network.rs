//! Known answers of the network metrics: between two namespaces, over a relay of packets.

use std::process::Child;
use std::time::{Duration, Instant};

use fathom_lab::link::{ADDRESSES, Link};
use fathom_lab::relay::Relay;
use fathom_record::{Document, Record, Value};
use rustix::process::Signal;

use crate::children::{next_line, signal_and_wait, spawn_piped};
use crate::far::RTT;
use crate::group::skipped;
use crate::test_env::{TestEnv, assert_contains, document, of_metric, text};

const PORT: u16 = 7000;
const BLOCKING: &str = "{bytes=1,cpus=2,mode=block}";

/// `fathom serve` beyond a relay. Fields are dropped in this order.
struct Beyond {
    relay: Relay,
    server: Option<Child>,
    env: TestEnv,
    link: Link,
}

impl Beyond {
    /// `None` if there can be no relay here.
    fn start(name: &str) -> Option<Self> {
        let (relay, link) = Link::relayed(name).map_err(|why| skipped(&why.to_string())).ok()?;
        let env = TestEnv::new();
        let line = format!("serve . --listen {}:{PORT} --token-file token", ADDRESSES[1]);
        let mut server = spawn_piped(link.at(1, &env.command(&line)));
        assert!(next_line(&mut server).contains("http://"));
        Some(Self { relay, server: Some(server), env, link })
    }

    fn run(&self, what: &str) -> std::process::Output {
        let to = format!("--remote {}:{PORT} --token-file token", ADDRESSES[1]);
        let line = format!("run --quick --only {what} {to} --json --samples");
        self.link.at(0, &self.env.command(&line)).output().expect("it starts")
    }

    fn remote(&self, what: &str) -> Vec<Record> {
        let document: Document = document(&self.run(what));
        let metric = what.split('{').next().expect("a metric");
        let is_remote = |record: &&Record| record.params.text("to") == Some(ADDRESSES[1]);
        of_metric(&document, metric).into_iter().filter(is_remote).cloned().collect()
    }
}

impl Drop for Beyond {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            signal_and_wait(server, Signal::INT);
        }
    }
}

fn number(record: &Record) -> f64 {
    match record.value {
        Some(Value::Number(number)) => number,
        _ => panic!("{}: {:?}", record.params, record.verdict),
    }
}

#[test]
fn round_trip_grows_by_the_delay_of_the_path() {
    let Some(beyond) = Beyond::start("delay") else { return };
    let measured = [0, 5_000_000].map(|delay_ns| {
        beyond.relay.delay(delay_ns);
        beyond.relay.reset();
        let records = beyond.remote(&format!("{RTT}{BLOCKING}"));
        let logged = beyond.relay.log().round_trip_ns().expect("packets");
        (number(&records[0]), logged as f64)
    });
    let [(rtt, logged), (delayed_rtt, delayed_logged)] = measured;
    let (grew, expected) = (delayed_rtt - rtt, delayed_logged - logged);
    println!("{rtt} → {delayed_rtt} ns, the relay {logged} → {delayed_logged} ns");
    assert!((expected - 5e6).abs() < 2e6, "{expected}");
    // Other tests run meanwhile.
    assert!((grew - expected).abs() < 0.3e6, "{grew} ns, {expected} ns by the relay");
}

#[test]
fn path_that_loses_large_packets_is_one_line_in_bounded_time() {
    let Some(beyond) = Beyond::start("hole") else { return };
    beyond.relay.lose_longer(300);
    let begun = Instant::now();
    let output = beyond.run(RTT);
    assert!(begun.elapsed() < Duration::from_secs(60));
    assert!(!output.status.success());
    let errors = text(&output.stderr);
    assert_contains(&errors, &[ADDRESSES[1], "no answer within"]);
    assert!(beyond.relay.log().lost > 0);
}
