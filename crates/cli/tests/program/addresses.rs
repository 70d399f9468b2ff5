//! Runs to far ends over IPv6, and from an address of choice.

use std::io::copy;
use std::net::{IpAddr, TcpStream};
use std::sync::{Arc, Mutex};

use fathom_record::{Document, Record, State};
use rustix::process::Signal;

use crate::children::{next_line, signal_and_wait, spawn_piped};
use crate::far::{RTT, assert_measured, run_remote};
use crate::group::{has_ipv6, skipped};
use crate::serve::start as serve;
use crate::test_env::{ProgramTestEnv, assert_contains, document, text};

/// The second has a TCP connection, too.
const CASES: &str = "network.icmp.rtt network.udp.rtt{bytes=1,cpus=2,mode=block}";

/// A short run of round trips to a remote host.
fn run(env: &ProgramTestEnv, options: &str) -> Document {
    document(&run_remote(env, &format!("{CASES} {options}")))
}

/// The records to this far end: by ICMP, which may be forbidden, and by UDP.
fn assert_all_measured(document: &Document, to: &str) {
    let is_remote = |record: &&Record| record.params.text("to") == Some(to);
    let (echo, remote): (Vec<&Record>, Vec<&Record>) = (document.records.iter())
        .filter(is_remote)
        .partition(|record| record.metric.as_str() == "network.icmp.rtt");
    assert_eq!((echo.len(), remote.len()), (1, 1));
    remote.into_iter().for_each(assert_measured);
    match echo[0].verdict.state {
        State::Unavailable => skipped(&format!("{:?}", echo[0].verdict.reasons)),
        _ => assert!(echo[0].facts.iter().any(|fact| fact.name == "minimum"), "{:?}", echo[0]),
    }
}

#[test]
fn run_measures_over_ipv6() {
    if !has_ipv6() {
        return;
    }
    let env = ProgramTestEnv::new();
    let mut child = spawn_piped(env.command("serve . --listen [::1]:0"));
    let line = next_line(&mut child);
    let address = line.trim().trim_end_matches('/').rsplit('/').next().expect("an address");
    assert!(address.starts_with("[::1]:"), "{line}");
    let document = run(&env, &format!("--remote {address}"));
    assert_eq!(document.far[0].name, "::1");
    assert_all_measured(&document, "::1");
    assert_eq!(signal_and_wait(child, Signal::INT).code(), Some(0));
}

/// A relay of control connections, and where they came from.
fn relay(to: &str) -> (String, Arc<Mutex<Vec<IpAddr>>>) {
    let (to, peers) = (to.to_owned(), Arc::new(Mutex::new(Vec::new())));
    let seen = Arc::clone(&peers);
    let address = fathom_testing::listen(move |near| {
        seen.lock().expect("a list").push(near.peer_addr().expect("an address").ip());
        let far = TcpStream::connect(&to).expect("it listens");
        let ends = near.try_clone().and_then(|near| Ok((near, far.try_clone()?)));
        let (mut near_too, mut far_too) = ends.expect("descriptors");
        std::thread::spawn(move || {
            let _ = copy(&mut near_too, &mut far_too);
            far_too.shutdown(std::net::Shutdown::Write)
        });
        let _ = copy(&mut &far, &mut &near);
        let _ = near.shutdown(std::net::Shutdown::Both);
    });
    (address.to_string(), peers)
}

#[test]
fn run_connects_from_the_address_to_bind_to() {
    let env = ProgramTestEnv::new();
    let (child, address) = serve(&env, "");
    let (relayed, peers) = relay(&address);
    let document = run(&env, &format!("--remote {relayed} --bind 127.0.0.2"));
    // UDP too: the far end accepts datagrams from the address of the data connection only.
    assert_all_measured(&document, "127.0.0.1");
    // Its telemetry has a connection of its own.
    let words = format!("network.http.get --remote {relayed} --bind 127.0.0.2");
    let output = run_remote(&env, &words);
    assert_contains(&text(&output.stderr), &["--remote 127.0.0.1 is this machine"]);
    assert_eq!(self::document(&output).records.len(), 2);
    let peers = peers.lock().expect("a list");
    // One before the run, and one for each visit.
    assert!(peers.len() > 5 && peers.iter().all(|ip| ip.to_string() == "127.0.0.2"), "{peers:?}");
    assert_eq!(signal_and_wait(child, Signal::INT).code(), Some(0));
}

#[test]
fn unusable_address_to_bind_to_is_one_line() {
    let env = ProgramTestEnv::new();
    let (child, address) = serve(&env, "");
    env.assert_failures(
        &format!("run {RTT} --remote {address}"),
        "--bind 192.0.2.7 | --bind 192.0.2.7: not an address of this host | ip address
         --bind ::1 | has no IPv6 address",
    );
    assert_eq!(signal_and_wait(child, Signal::INT).code(), Some(0));
}
