use std::collections::BTreeSet;

use fathom_record::{FactValue, Sample};

use super::*;
use crate::smoke;

#[test]
fn both_ends_count_the_same_bytes() {
    let mut measured = 0;
    for (case, sample) in smoke::run(&TcpBandwidth) {
        let Ok(sample) = sample else { continue };
        measured += 1;
        let names: BTreeSet<&str> = sample.checks_of_both().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["CPU", "bytes", "tcp congestion", "transferred"].into());
        let Sample { cpu, far, facts, .. } = &sample;
        let far = far.as_ref().unwrap();
        assert_eq!(far.cpu == *cpu, case.params.integer("cpus") == Some(1), "{}", case.params);
        let fact = |name: &str| facts.iter().find(|fact| fact.name == name).map(|it| &it.value);
        for name in ["near end CPU time per GB", "far end CPU share", "MSS", "retransmits"] {
            assert!(matches!(fact(name), Some(FactValue::Quantity { .. })), "{name}: {facts:?}");
        }
        assert!(matches!(fact("limited by"), Some(FactValue::Text { .. })));
    }
    assert!(measured > 0, "a loopback interface");
}

#[test]
fn link_of_a_guest_is_no_ceiling() {
    let link = NetworkLink {
        name: "eth0".to_owned(),
        bits_per_s: Some(1_000_000_000),
        mtu_bytes: Some(1500),
        up: Some(true),
        ..NetworkLink::default()
    };
    let mut host = Host { network: vec![link], ..Host::default() };
    let bound = at_most_of_link("192.0.2.1", 1.0, &host).unwrap().high.unwrap();
    assert!((0.9 * 125e6..125e6).contains(&bound), "{bound}");
    // As e1000 of an emulated machine, which moves more.
    host.virtualization = Some("kvm".to_owned());
    assert!(at_most_of_link("192.0.2.1", 1.0, &host).is_err());
}

#[test]
fn start_and_stragglers_do_not_count() {
    let clock = smoke::clock();
    // A burst of 500 bytes at once, then 10 bytes a tick of 1 ns.
    let track: Track =
        (0..=8).map(|at| (100 * at, if at == 0 { 0 } else { 500 + 1000 * at })).collect();
    assert_eq!(steady_rate(std::slice::from_ref(&track), &clock), Some(10e9));
    // Another connection that began late, and goes on alone for a long time.
    let late: Track = vec![(0, 0), (300, 0), (500, 4000), (100_000, 4100)];
    let found = steady_rate(&[track, late.clone()], &clock).unwrap();
    assert!((found / 1e9 - 18.0).abs() < 0.01, "{found}");
    // Bursts of four counts each 160 ns, of which the interval begins after one.
    let bursts = |at: u64| (160 * (at / 4) + at % 4, 1000 * at);
    let burst = std::iter::once((0, 0)).chain((4..40).map(bursts)).collect();
    let found = steady_rate(&[burst], &clock).unwrap();
    assert!((found / 1e9 - 25.0).abs() < 0.01, "{found}");
    // Many counts at a constant rate are no burst.
    let even: Track = (0..1000).map(|at| (100 * at, 1000 * at)).collect();
    assert_eq!(steady_rate(&[even], &clock), Some(10e9));
    assert_eq!(bytes_at(&late, 400), 2000.0);
    assert_eq!(steady_rate(&[vec![(7, 0)]], &clock), None);
}

#[test]
fn chunk_costs_are_of_cases_at_the_pace_of_the_cpus() {
    let mut host = Host::default();
    host.tcp.congestion = Some("bbr".to_owned());
    host.tcp.congestion_available = vec!["bbr".to_owned(), OTHER.to_owned()];
    for host in [host, Host::default()] {
        let cases = TcpBandwidth.cases(&host, &Sizes::default());
        let has = |params| cases.iter().any(|case| case.params == params);
        assert!(CHUNKS.into_iter().all(|chunk| has(of_chunk(chunk, Some(&host)))));
    }
}
