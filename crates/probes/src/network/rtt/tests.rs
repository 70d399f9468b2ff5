use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, UdpSocket};
use std::rc::Rc;
use std::time::Duration;

use fathom_measure::clock::FakeClock;
use fathom_record::{FarEnd, Histogram, Sample};

use super::*;
use crate::smoke;

fn all() -> Vec<ProbeCase> {
    TCP_RTT.cases(&Host::default(), &Sizes::default())
}

/// A visit of each case: what both transports have, and the names of checks and facts.
fn measured(probe: &Rtt, checks: &[&str], facts: &[&str]) {
    let mut measured = 0;
    for (case, sample) in smoke::run(probe) {
        let Ok(sample) = sample else { continue };
        measured += 1;
        let names: BTreeSet<&str> = sample.checks_of_both().map(|it| it.name.as_str()).collect();
        let trip = Trip::from_params(&case.params).unwrap();
        let slept = if trip.busy { "awake" } else { "asleep when woken" };
        let expected = checks.iter().copied().chain(["CPU", "round trips", slept]).collect();
        assert_eq!(names, expected);
        let stated: Vec<&str> = sample.facts.iter().map(|fact| fact.name.as_str()).collect();
        assert_eq!(stated, facts);
        let Sample { cpu, far, histogram, .. } = &sample;
        let far = far.as_ref().unwrap();
        assert_eq!(far.cpu == *cpu, trip.cpus == 1, "{}", case.params);
        assert_eq!(far.reference_ns.len(), 8);
        assert!(far.disturbance.wall_ns > 0);
        assert!(!histogram.as_ref().unwrap().is_empty());
    }
    assert!(measured >= 2, "a loopback interface");
}

#[test]
fn both_ends_measure_and_agree_over_tcp() {
    let facts = [
        "congestion control",
        "MSS",
        "initial congestion window, segments",
        "final congestion window, segments",
        "retransmits",
        "TCP_INFO rtt",
        "TCP_INFO min_rtt",
    ];
    measured(&TCP_RTT, &["acknowledgements", "tcp congestion"], &facts);
}

#[test]
fn both_ends_measure_and_agree_over_udp() {
    measured(&UDP_RTT, &["losses"], &["lost round trips"]);
}

/// Whether the checks of 1000 round trips passed, with these voluntary and involuntary switches.
fn passed(mode: &'static str, cpus: i64, own: [u64; 2], far: [u64; 2], count: u64) -> [bool; 2] {
    let params = Params::one("bytes", 1).and("cpus", cpus).and("mode", mode).and("to", LOOPBACK);
    let [voluntary_switches, involuntary_switches] = far;
    let disturbance =
        Disturbance { voluntary_switches, involuntary_switches, ..Disturbance::default() };
    let far = FarEnd { disturbance, ..FarEnd::default() };
    let outcome = ProtocolOutcome { far, count, congestion: String::new(), tcp: Vec::new() };
    let own = Switches { voluntary: own[0], involuntary: own[1] };
    let trip = Trip::from_params(&params).unwrap();
    let checks = smoke::checks(|sampler| check(0, &trip, (1000, 1), own, &outcome, sampler));
    [checks[0].passed, checks[1].passed]
}

#[test]
fn counts_of_both_ends_decide_the_checks() {
    let sleeps = |cpus, own, far| passed("block", cpus, own, far, 1000)[1];
    assert!(sleeps(1, [980, 0], [900, 80]) && !sleeps(1, [979, 0], [1000, 0]));
    assert!(sleeps(2, [900, 0], [900, 0]) && !sleeps(2, [1000, 0], [899, 0]));
    let polls = |own, far| passed("busy", 2, own, far, 1000)[1];
    assert!(polls([36, 500], [0, 500]) && !polls([37, 0], [0, 0]) && !polls([0, 0], [37, 0]));
    let trips = |count| passed("block", 1, [1000, 0], [1000, 0], count)[0];
    assert_eq!([999, 1000, 1001, 1002].map(trips), [false, true, true, false], "one was lost");
}

#[test]
fn one_cpu_or_unknown_host_is_unavailable() {
    let fault = |case: &ProbeCase| {
        let mut sampler = smoke::sampler_on(1, affinity::allowed()[0], None);
        TCP_RTT.visit(std::slice::from_ref(case), &mut sampler).unwrap();
        sampler.finish().samples.remove(0).unwrap_err()
    };
    let cases = all();
    assert!(
        matches!(fault(&cases[0]), SamplerFault::Unavailable(text, _) if text.contains("one CPU"))
    );
    let remote = TCP_RTT.remote(&cases[0], "gone").unwrap();
    assert!(
        matches!(fault(&remote), SamplerFault::Unavailable(text, _) if text.contains("named gone"))
    );
    assert!(smoke::has_no_children());
}

#[test]
fn lost_and_late_answers_are_counted() {
    let far = UdpSocket::bind("127.0.0.1:0").unwrap();
    let near = UdpSocket::bind("127.0.0.1:0").unwrap();
    near.connect(far.local_addr().unwrap()).unwrap();
    far.connect(near.local_addr().unwrap()).unwrap();
    let fake = Rc::new(FakeClock::new(0));
    let mut number = 0;
    let mut earlier = [0; 1];
    let mut answer = [0; 2];
    // The far end answers within the trip, or not at all.
    let trip = |request: &[u8]| {
        // The first is not answered, the second too late.
        let is_lost = [3, 8].contains(&number);
        let wait = if is_lost { Duration::from_millis(1) } else { Duration::from_secs(60) };
        fake.advance(if is_lost { 1_000_000_000 } else { 500 });
        near.set_read_timeout(Some(wait)).unwrap();
        match number {
            _ if is_lost => {}
            9 => _ = [far.send(&earlier).unwrap(), far.send(request).unwrap()],
            _ => _ = far.send(request).unwrap(),
        }
        number += 1;
        earlier[0] = request[0];
        datagram_trip(&near, request, &mut answer, false)
    };
    let mut end = Near::new(1, trip);
    let timings = RefCell::new(Histogram::new());
    assert_eq!(end.repeat(18, &Clock::fake(Rc::clone(&fake)), &timings), 18);
    assert_eq!((end.trips, end.lost, timings.borrow().len()), (18, 2, 18));
    assert!(timings.borrow().max() < 1_000.0, "the wait for a lost one is in no timing");
    assert!(end.fault("loopback").is_none());
    assert_eq!((end.has_few_losses(), end.losses().as_str()), (false, "2 of 20 round trips lost"));
    end.lost = 1;
    assert!(end.has_few_losses());
}

#[test]
fn closed_far_end_loses_all() {
    let closed = UdpSocket::bind("127.0.0.1:0").unwrap();
    // It receives from itself only, so that its port is closed for others.
    closed.connect(closed.local_addr().unwrap()).unwrap();
    let near = UdpSocket::bind("127.0.0.1:0").unwrap();
    near.connect(closed.local_addr().unwrap()).unwrap();
    near.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    let mut answer = [0; 2];
    let mut end = Near::new(1, |request| datagram_trip(&near, request, &mut answer, false));
    let mut sampler = smoke::sampler(1, affinity::allowed()[0]);
    end.run(0, &mut sampler);
    let fault = end.fault("loopback").unwrap();
    assert_eq!(fault, SamplerFault::WrongWork("9 of 9 round trips lost".to_owned()));
}

/// Timings of an end that receives answers in two writes, with Nagle's algorithm: the second write
/// waits for the acknowledgement of the first.
#[test]
#[ignore = "lab: the kernel's timer of 40 ms"]
fn real_delayed_acknowledgement_is_recognised() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut far, _) = listener.accept().unwrap();
    let answering = std::thread::spawn(move || {
        let mut request = [0; 56];
        while far.read_exact(&mut request).is_ok() {
            far.write_all(&request[..1]).unwrap();
            far.write_all(&request[1..]).unwrap();
        }
    });
    let timings = RefCell::new(Histogram::new());
    assert_eq!(over(&near, 56, false).repeat(40, &smoke::clock(), &timings), 40);
    let min_rtt_ns = TcpInfo::from_socket(&near).unwrap().min_rtt_ns;
    let share = delayed_acknowledgements(&timings.borrow(), min_rtt_ns);
    assert!(share.is_some_and(|share| share > 0.3), "{share:?} of {timings:?}");
    drop(near);
    answering.join().unwrap();
}

#[test]
fn delayed_acknowledgement_is_recognised() {
    // All of them, by the minimum of the handshake; a queue of 10 to 90 ms; a distance of 40 ms;
    // a stall.
    let all = |times: &[f64]| times.iter().map(|ms| ms * 1e6).collect::<Histogram>();
    assert_eq!(delayed_acknowledgements(&all(&[40.1, 41.0, 44.0, 40.0, 42.0]), 20e3), Some(1.0));
    let queue: Vec<f64> = (10..90).map(f64::from).collect();
    assert_eq!(delayed_acknowledgements(&all(&queue), 10e6), None);
    assert_eq!(delayed_acknowledgements(&all(&[40.0, 40.1, 41.0, 40.2, 42.0]), 40e6), None);
    let stall: Vec<f64> = (0..33).map(|at| if at == 9 { 40.5 } else { 0.1 }).collect();
    assert_eq!(delayed_acknowledgements(&all(&stall), 20e3), None);
}
