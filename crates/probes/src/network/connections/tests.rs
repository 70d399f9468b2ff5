use std::collections::BTreeSet;
use std::io::Read as _;
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use fathom_record::Sample;
use rustix::net::listen;

use super::super::tcp_close::{CLOSE_FIN, CLOSE_RST};
use super::super::tcp_connect::CONNECT;
use super::super::tcp_teardown::TEARDOWN;
use super::*;
use crate::smoke;

fn count(sample: &Sample, name: &str) -> f64 {
    let fact = sample.facts.iter().find(|fact| fact.name == name);
    match fact.map(|fact| &fact.value) {
        Some(fathom_record::FactValue::Quantity { value, .. }) => *value,
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn every_connection_is_made_and_closed() {
    let probes: [&dyn Probe; 4] = [&CONNECT, &CLOSE_FIN, &CLOSE_RST, &TEARDOWN];
    for probe in probes {
        let id = probe.about().id;
        for (_, sample) in smoke::run(probe) {
            let Ok(sample) = sample else { continue };
            let names: BTreeSet<&str> =
                sample.checks_of_both().map(|check| check.name.as_str()).collect();
            let mut expected = BTreeSet::from(["CPU", "connections"]);
            expected.extend((id == "network.tcp.connect").then_some("awake"));
            assert_eq!(names, expected, "{id}");
            assert!(sample.batch == BATCH && !sample.histogram.as_ref().unwrap().is_empty());
            assert!(sample.far.is_some() && count(&sample, "MSS") >= 536.0);
            count(&sample, "retransmits");
        }
    }
}

/// The near end of a case, outside a visit.
fn near(timed: Timed) -> Option<ConnectionNear> {
    let cpu = affinity::allowed()[0];
    match ConnectionNear::open(timed, LOOPBACK, &mut smoke::sampler(1, cpu)) {
        Ok(near) => Some(near),
        Err(fault @ SamplerFault::Unavailable(..)) => {
            smoke::skipped(&fault.to_string());
            None
        }
        Err(fault) => panic!("{fault}"),
    }
}

/// Connections of a port of 127.0.0.1 that are in TIME_WAIT.
fn time_waits_of(port: u16) -> usize {
    let text = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let end = format!("0100007F:{port:04X}");
    let is_left = |line: &&str| {
        let fields: Vec<&str> = line.split_whitespace().take(4).collect();
        fields[3] == "06" && fields[1..3].contains(&end.as_str())
    };
    text.lines().skip(1).filter(is_left).count()
}

#[test]
fn only_a_teardown_leaves_time_wait() {
    for (timed, leaves_some) in [
        (Timed::Connect, false),
        (Timed::CloseFin, false),
        (Timed::CloseReset, false),
        (Timed::Teardown, true),
    ] {
        let Some(mut near) = near(timed) else { return };
        // Others may have left some of this port.
        let before = time_waits_of(near.target.port());
        (0..50).for_each(|_| _ = near.once(&smoke::clock()).unwrap());
        assert_eq!(time_waits_of(near.target.port()) > before, leaves_some, "{timed:?}");
        let made = near.made;
        drop(near.data);
        assert_eq!(near.far.finish().unwrap().count, made);
    }
}

#[test]
fn connect_that_slept_fails_its_check() {
    for slept in [0, 1] {
        let Some(mut near) = near(Timed::Connect) else { return };
        near.once(&smoke::clock()).unwrap();
        near.slept = slept;
        let checks = smoke::checks(|sampler| near.report(0, None, sampler).unwrap());
        let awake = checks.iter().find(|check| check.name == "awake").unwrap();
        assert_eq!(awake.passed, slept == 0);
    }
}

#[test]
#[ignore = "lab: 50,000 connections take a minute"]
fn fifty_thousand_connects_do_not_exhaust_the_ports() {
    let (before, mut made) = (ports::time_waits().unwrap(), 0);
    while made < 50_000 {
        let Some(mut near) = near(Timed::Connect) else { return };
        let guard = (0..50_000).find_map(|_| near.once(&smoke::clock()).err()).unwrap();
        assert!(guard.to_string().contains("a fifth of the"), "{guard}");
        made += near.made;
        drop(near.data);
        assert_eq!(near.far.finish().unwrap().count, near.made);
    }
    let after = ports::time_waits().unwrap();
    assert!(after < before + 200, "{before} before, {after} after {made} connections");
}

#[test]
fn guard_ends_a_visit_before_the_ports_do() {
    let Some(mut near) = near(Timed::CloseReset) else { return };
    near.ports = Ports::from_total(50);
    let fault = (0..50).find_map(|_| near.once(&smoke::clock()).err()).unwrap();
    assert!(
        matches!(fault, SamplerFault::Unavailable(text, Some(_)) if text.contains("50 local ports"))
    );
    assert_eq!(near.made, 10);
}

#[test]
fn far_end_that_closes_first_is_no_teardown() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let near = socket(address, None, true, WAIT).unwrap();
    connect(&near, &address).unwrap();
    let (far, _) = listener.accept().unwrap();
    drop(far);
    let fault = tear_down(&near, &smoke::clock()).unwrap_err();
    assert!(matches!(fault, SamplerFault::WrongWork(text) if text.contains("closed first")));
    // Otherwise it ends once the far end closes, too.
    let near = socket(address, None, false, WAIT).unwrap();
    connect(&near, &address).unwrap();
    let (mut far, _) = listener.accept().unwrap();
    let is_closing = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            assert_eq!(far.read(&mut [0]).unwrap(), 0, "the near end's FIN");
            is_closing.store(true, Ordering::Relaxed);
            far.shutdown(std::net::Shutdown::Both).unwrap();
        });
        tear_down(&near, &smoke::clock()).unwrap();
        assert!(is_closing.load(Ordering::Relaxed));
    });
}

#[test]
fn full_queue_is_not_waited_for_without_a_limit() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    // Room for one.
    listen(&listener, 0).unwrap();
    let address = listener.local_addr().unwrap();
    let connecting = [WAIT, Duration::from_millis(50)].map(|wait| {
        let socket = socket(address, None, true, wait).unwrap();
        let connected = connect(&socket, &address).map_err(timed_out);
        (socket, connected)
    });
    assert!(connecting[0].1.is_ok());
    let last = connecting[1].1.as_ref().unwrap_err();
    assert_eq!(last.kind(), std::io::ErrorKind::TimedOut);
    let fault = failed(LOOPBACK, "connect", Errno::TIMEDOUT.into()).to_string();
    assert!(fault.starts_with("far end loopback: connect: "), "{fault}");
}
