//! Counts of switches held against turns.

use super::*;

#[test]
fn too_few_and_too_many_switches_are_seen_and_strangers_forgiven() {
    let is = |voluntary, involuntary, trips| {
        switched_each_time(Switches { voluntary, involuntary }, trips, 1)
    };
    assert!(is(10_000, 0, 10_000) && is(10_210, 0, 10_000));
    assert!(is(10, 9_990, 10_000), "an end may be preempted by the other it woke");
    assert!(is(10_000, 700, 10_000), "strangers preempt");
    assert!(!is(9_700, 0, 10_000) && !is(0, 39, 40), "turns without a switch");
    assert!(!is(10_300, 0, 10_000), "waits that were none of the work");
    let twice = |voluntary| switched_each_time(Switches { voluntary, involuntary: 0 }, 10_000, 2);
    assert!(twice(19_000) && !twice(20_600) && !twice(9_700), "where an end may wait twice");
}

#[test]
fn only_waits_are_sleep() {
    let share = |voluntary, involuntary| slept(Switches { voluntary, involuntary }, 1000);
    assert!(share(1003, 0) == 1.0 && share(960, 0) >= SLEPT_MIN);
    assert!(share(900, 100) < SLEPT_MIN, "being preempted is not sleeping");
    assert_eq!(slept(Switches::default(), 0), 0.0);
}

#[test]
fn of_many_ends_the_extremes_are_told() {
    let end = |voluntary| Switches { voluntary, involuntary: 1 };
    let peer_switches = vec![end(30), end(10), end(20)];
    let report = Report { trips: 25, peer_switches, wrong: None };
    let text = told(end(26), &report);
    assert!(
        text.starts_with("the 3 other ends 10 + 1 to 30 + 1, the worker 26 + 1 in 25"),
        "{text}"
    );
}
