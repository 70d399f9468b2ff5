//! The two ends: one switch a turn, and an end on every way out.

use super::*;
use crate::os::smoke;

#[test]
fn each_end_is_switched_out_once_a_round_trip() {
    let _alone = smoke::alone();
    let all = |switches: Switches| switches.voluntary + switches.involuntary;
    smoke::pinned(|cpu| {
        for kind in [Kind::Thread, Kind::Process] {
            let pair = Pair::start(kind, 256, cpu).unwrap();
            let before = switches_of_this_thread();
            assert_eq!(pair.round_trips(1000), 1000);
            let own = switches_of_this_thread().since(&before);
            assert!(all(own) >= 1000, "{own:?} in 1000 round trips");
            assert_eq!(pair.alone(1000), 1000);
            let report = pair.finish().unwrap();
            assert_eq!((report.trips, report.wrong), (1000, None));
            let theirs = report.peer_switches;
            assert!(all(theirs) >= 1000, "{theirs:?} in 1000 round trips");
        }
    });
    assert!(smoke::has_no_children());
}

#[test]
fn a_dead_end_gives_fewer_round_trips_and_no_report() {
    let _alone = smoke::alone();
    smoke::pinned(|cpu| {
        let pair = Pair::start(Kind::Process, 0, cpu).unwrap();
        assert_eq!(pair.round_trips(3), 3);
        pair.kill_peer();
        assert!(pair.round_trips(5) < 5);
        assert!(matches!(pair.finish(), Err(Fault::WrongWork(_))));
    });
    assert!(smoke::has_no_children());
}

#[test]
fn an_end_on_another_cpu_than_it_was_meant_for_is_found() {
    let _alone = smoke::alone();
    smoke::pinned(|cpu| {
        for kind in [Kind::Thread, Kind::Process] {
            let pair = Pair::start(kind, 0, cpu + 1).unwrap();
            assert_eq!(pair.round_trips(2), 2);
            let wrong = pair.finish().unwrap().wrong.unwrap_or_default();
            assert!(wrong.contains("another CPU"), "{wrong}");
        }
    });
}

#[test]
fn several_ends_can_be_dropped_in_any_order() {
    let _alone = smoke::alone();
    smoke::pinned(|cpu| {
        let start = |kind| Pair::start(kind, 64, cpu).unwrap();
        let kinds = [Kind::Process, Kind::Thread, Kind::Process, Kind::Process];
        let pairs: Vec<Pair> = kinds.into_iter().map(start).collect();
        drop(pairs);
    });
    assert!(smoke::has_no_children());
}
