use super::*;
use crate::smoke;

#[test]
fn missing_and_extra_switches_are_found() {
    let is = |voluntary, involuntary, trips| {
        switched_each_trip(Switches { voluntary, involuntary }, trips, 1)
    };
    assert!(is(10_000, 0, 10_000) && is(10_210, 0, 10_000));
    assert!(is(10, 9_990, 10_000), "preempted by the peer it woke");
    assert!(is(10_000, 700, 10_000), "preempted by other processes");
    assert!(!is(9_700, 0, 10_000) && !is(0, 39, 40), "turns without a switch");
    assert!(!is(10_300, 0, 10_000), "waits that are not part of the work");
    let twice = |voluntary| switched_each_trip(Switches { voluntary, involuntary: 0 }, 10_000, 2);
    assert!(twice(19_000) && !twice(20_600) && !twice(9_700), "two waits allowed");
}

#[test]
fn member_that_is_not_switched_out_is_awake() {
    let share = |voluntary, involuntary| asleep(Switches { voluntary, involuntary }, 1000);
    assert!(share(1003, 0) == 1.0 && share(910, 0) >= ASLEEP_MIN && share(850, 0) < ASLEEP_MIN);
    assert!(share(850, 150) == 1.0, "preempted by other processes");
    assert_eq!(asleep(Switches::default(), 0), 0.0);
}

#[test]
fn extremes_of_many_peers_are_reported() {
    let peer = |voluntary| Switches { voluntary, involuntary: 1 };
    let peer_switches = vec![peer(30), peer(10), peer(20)];
    let report = Report { trips: 25, peer_switches, error: None };
    let text = switch_counts(peer(26), &report);
    assert!(text.starts_with("3 peers 10 + 1 to 30 + 1, worker 26 + 1 in 25"), "{text}");
}

#[test]
fn each_quantity_has_its_own_limits() {
    let member = |voluntary| Switches { voluntary, involuntary: 0 };
    let report = |peer, error| Report { trips: 1000, peer_switches: vec![member(peer)], error };
    let checks = |quantity, own, report: Report| {
        smoke::checks(|sampler| check(0, quantity, own, &report, sampler))
    };
    let passed = |quantity, own, peer| {
        let checks = checks(quantity, member(own), report(peer, None));
        assert!(checks[1].passed && checks[2].passed, "{checks:?}");
        checks[0].passed
    };
    let [once, twice] = [1, 2].map(|waits_max| Quantity::RoundTrip { waits_max });
    let (switch, wake_up) = (Quantity::Switch, Quantity::WakeUp("suffix"));
    assert!(passed(switch, 1000, 1003) && !passed(switch, 1000, 500));
    assert!(!passed(switch, 500, 1000), "the worker is checked like a peer");
    assert!(passed(once, 1000, 1000) && !passed(once, 1500, 1500) && passed(twice, 1500, 1500));
    assert!(passed(wake_up, 910, 1000) && !passed(wake_up, 1000, 890));
    let failed = checks(once, member(1000), report(1000, Some("peer: why".to_owned())));
    assert!(!failed[2].passed && failed[2].detail == "peer: why", "{failed:?}");
    let suffixed = checks(wake_up, member(1000), report(1000, None));
    assert!(suffixed[0].detail.ends_with("suffix"), "{}", suffixed[0].detail);
}

#[test]
fn unpinned_worker_fails_the_check() {
    let allowed = affinity::allowed();
    if allowed.len() < 2 {
        return smoke::skipped("one CPU only");
    }
    let checks = smoke::checks(|sampler| {
        affinity::pin_to(&allowed).unwrap();
        check_pinned("one CPU", 0, sampler);
    });
    assert!(!checks[0].passed, "{checks:?}");
}
