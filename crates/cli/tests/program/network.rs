//! Known answers of the network metrics: between two namespaces, over a relay of packets.

use std::fs::File;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fathom_lab::link::{ADDRESSES, LabLink};
use fathom_lab::processes::children;
use fathom_lab::relay::Relay;
use fathom_record::{Document, FactValue, Record, Value};
use rustix::process::Signal;

use crate::children::{next_line, signal, signal_and_wait, spawn_piped};
use crate::far::RTT;
use crate::forbidden::in_mount_namespace;
use crate::group::skipped;
use crate::test_env::{
    ProgramTestEnv, assert_contains, document, of_metric, text, unwrapped_stdout,
};

const PORT: u16 = 7000;
const BLOCKING: &str = "{bytes=1,cpus=2,mode=block}";

/// `fathom serve` beyond a relay. Fields are dropped in this order.
struct Beyond {
    relay: Relay,
    server: Option<Child>,
    env: ProgramTestEnv,
    link: LabLink,
}

impl Beyond {
    /// `None` if there can be no relay here.
    fn start(name: &str) -> Option<Self> {
        let (relay, link) = LabLink::relayed(name).map_err(|why| skipped(&why.to_string())).ok()?;
        let env = ProgramTestEnv::new();
        std::fs::create_dir(env.file("served")).expect("a folder");
        let line = format!("serve served --listen {}:{PORT} --token-file token", ADDRESSES[1]);
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

/// The round trip with this delay, and the time of both packets in the relay.
fn delayed(beyond: &Beyond, delay_ns: u64) -> [f64; 2] {
    beyond.relay.delay(delay_ns);
    beyond.relay.reset();
    let records = beyond.remote(&format!("{RTT}{BLOCKING}"));
    let logged = beyond.relay.log().round_trip_ns().expect("packets");
    [number(&records[0]), logged as f64]
}

#[test]
#[ignore = "lab: a delayed link"]
fn delay_of_the_path_is_found_within_50_us() {
    let Some(beyond) = Beyond::start("exact") else { return };
    beyond.relay.spin();
    let [rtt, logged] = delayed(&beyond, 0);
    let errors = [1_000_000, 5_000_000, 20_000_000].map(|delay_ns| {
        let [delayed_rtt, delayed_logged] = delayed(&beyond, delay_ns);
        (delayed_rtt - rtt) - (delayed_logged - logged)
    });
    assert!(errors.iter().all(|error| error.abs() < 50e3), "{errors:?} ns; {rtt} ns at 0");
}

#[test]
#[ignore = "lab: a delayed link"]
fn connect_to_another_host_takes_one_round_trip() {
    let Some(beyond) = Beyond::start("connect") else { return };
    beyond.relay.delay(5_000_000);
    let records = beyond.remote("network.tcp.connect");
    let trips = number(&records[0]) / 5e6;
    assert!((1.0..1.5).contains(&trips), "{trips} round trips");
}

#[test]
#[ignore = "lab: a delayed link"]
fn small_initial_window_costs_a_round_trip() {
    let Some(beyond) = Beyond::start("window") else { return };
    std::fs::write(beyond.env.file("served").join("file"), vec![7; 512 << 10]).expect("a file");
    // Long beside the wake-ups of both ends and of the relay on a busy machine.
    let delay_ns = 10_000_000;
    beyond.relay.delay(delay_ns);
    let block = "file.read.remote{connection=fresh,file_bytes=524288,server=warm}";
    let to = format!("--remote {}:{PORT} --token-file token", ADDRESSES[1]);
    let line = format!("run --processes 5 --only {block} {to} --json");
    // The block has three segments, and its head is before it.
    let measured = [10, 2].map(|segments| {
        beyond.link.initial_window(1, segments).unwrap_or_else(|why| panic!("{why}"));
        let output = beyond.link.at(0, &beyond.env.command(&line)).output().expect("it starts");
        let document: Document = document(&output);
        let is_remote = |record: &&Record| record.params.text("to") == Some(ADDRESSES[1]);
        let records = of_metric(&document, "file.read.remote");
        number(records.into_iter().find(is_remote).expect("a remote case"))
    });
    // A handshake and a request; then the acknowledgement of the first two segments.
    for (measured_ns, trips) in measured.into_iter().zip([2.0, 3.0]) {
        let found = measured_ns / delay_ns as f64;
        assert!((trips..trips + 0.5).contains(&found), "{found} round trips, not {trips}");
    }
}

#[test]
#[ignore = "lab: a lossy link"]
fn lost_packets_are_retransmissions_of_the_record() {
    let Some(beyond) = Beyond::start("loss") else { return };
    beyond.relay.lose(50);
    let case = "network.tcp.bandwidth{chunk_bytes=65536,cpus=2,direction=send,streams=1}";
    let records = beyond.remote(case);
    let fact = records[0].facts.iter().find(|fact| fact.name == "retransmits").expect("a fact");
    assert!(matches!(fact.value, FactValue::Quantity { value, .. } if value > 0.0), "{fact:?}");
    assert!(beyond.relay.log().lost > 0);
}

#[test]
#[ignore = "lab: a lossy link; waits ten seconds"]
fn path_that_loses_large_packets_is_one_line() {
    let Some(beyond) = Beyond::start("hole") else { return };
    beyond.relay.lose_longer(300);
    let output = beyond.run(RTT);
    assert!(!output.status.success());
    let errors = text(&output.stderr);
    assert_contains(&errors, &[ADDRESSES[1], "no answer within", "long packets"]);
    assert!(beyond.relay.log().lost > 0);
}

/// The far ends of the server.
fn far_ends(beyond: &Beyond) -> Vec<u32> {
    beyond.server.as_ref().map_or_else(Vec::new, |server| children(server.id()))
}

/// Runs busy round trips while `disturb` gets each new far end; the remote record.
fn disturbed(beyond: &Beyond, mut disturb: impl FnMut(u32)) -> Record {
    let (mut seen, to) = (Vec::new(), ADDRESSES[1]);
    let words = format!("--remote {to}:{PORT} --token-file token --json --samples");
    let line = format!("run --quick --only {RTT}{{bytes=1,cpus=2,mode=busy}} {words}");
    let output = beyond.env.file("run.json");
    let mut command = beyond.link.at(0, &beyond.env.command(&line));
    command.stdout(File::create(&output).expect("a file")).stderr(Stdio::null());
    let mut run = command.spawn().expect("it starts");
    while run.try_wait().expect("a child").is_none() {
        for far in far_ends(beyond) {
            // At work it has a second thread.
            let threads = std::fs::read_dir(format!("/proc/{far}/task")).map_or(0, Iterator::count);
            if threads > 1 && !seen.contains(&far) {
                seen.push(far);
                disturb(far);
            }
        }
        // mood: tests of the lab only: looks for new far ends until the run ends
        std::thread::sleep(Duration::from_millis(2));
    }
    let json = std::fs::read(&output).expect("the output");
    let document: Document = serde_json::from_slice(&json).expect("a run");
    let is_remote = |record: &&Record| record.params.text("to") == Some(to);
    of_metric(&document, RTT).into_iter().find(is_remote).expect("a remote case").clone()
}

fn reasons(record: &Record) -> String {
    let texts = record.verdict.reasons.iter().map(|reason| reason.text.as_str());
    texts.collect::<Vec<_>>().join("; ")
}

#[test]
#[ignore = "lab: a stall"]
fn stopped_far_end_is_a_stall() {
    let Some(beyond) = Beyond::start("stall") else { return };
    let mut is_first = true;
    let record = disturbed(&beyond, |far| {
        if std::mem::take(&mut is_first) {
            // Rounds have begun.
            std::thread::sleep(Duration::from_millis(50));
            signal(far, Signal::STOP);
            std::thread::sleep(Duration::from_secs(1));
            signal(far, Signal::CONT);
        }
    });
    assert!(!is_first, "no far end was seen");
    assert_contains(&reasons(&record), &["an answer took", "the far end was stopped"]);
}

#[test]
#[ignore = "lab: a neighbour"]
fn busy_neighbour_of_the_far_end_is_named_there() {
    let Some(beyond) = Beyond::start("neighbour") else { return };
    let mut spinner: Option<Child> = None;
    let record = disturbed(&beyond, |far| {
        if spinner.is_none() {
            let status = std::fs::read_to_string(format!("/proc/{far}/status")).expect("it runs");
            let cpus = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
            let mut command = Command::new("taskset");
            command.args(["-c", cpus.expect("a list").trim(), "sh", "-c", "while :; do :; done"]);
            spinner = Some(command.spawn().expect("taskset starts"));
        }
    });
    let mut spinner = spinner.expect("a far end was seen");
    spinner.kill().expect("it runs");
    spinner.wait().expect("a child");
    assert_contains(&reasons(&record), &["far end: CPU contention"]);
}

/// In a network namespace all of whose local ports are reserved, as if they were used up.
#[test]
fn used_up_ports_are_no_crash() {
    let env = ProgramTestEnv::new();
    let set = "cd /proc/sys/net/ipv4 && echo 40000 40001 >ip_local_port_range && \
               echo 40000-40001 >ip_local_reserved_ports && ip link set lo up && exec \"$@\"";
    let ports = format!("exec unshare --net sh -c '{set}' sh \"$@\"");
    let Some(output) = in_mount_namespace(&env, &ports, "run --only --quick network.tcp.connect")
    else {
        return;
    };
    let shown = unwrapped_stdout(&output);
    assert_contains(&shown, &["1 unavailable", "widen net.ipv4.ip_local_port_range"]);
}
