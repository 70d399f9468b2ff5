//! Counts of switches held against turns.

use std::hint::black_box;

use fathom_record::Check;

use super::*;
use crate::smoke;

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
fn an_end_that_stays_on_its_cpu_does_not_sleep() {
    let share = |voluntary, involuntary| asleep(Switches { voluntary, involuntary }, 1000);
    assert!(share(1003, 0) == 1.0 && share(910, 0) >= ASLEEP_MIN && share(850, 0) < ASLEEP_MIN);
    assert!(share(850, 150) == 1.0, "strangers preempt");
    assert_eq!(asleep(Switches::default(), 0), 0.0);
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

/// The checks of a case whose ends did this.
fn judged(part: Part<'_>, own: Switches, report: &Report) -> Vec<Check> {
    smoke::pinned(|cpu| {
        let mut sampler = smoke::sampler(1, cpu);
        let spin = |iterations| (0..iterations).fold(0, |done, _| black_box(done + 1));
        sampler.run(vec![Work::batched(0, spin)]);
        judge(0, part, own, report, &mut sampler);
        sampler.finish().samples.remove(0).unwrap().checks
    })
}

#[test]
fn each_part_is_held_to_its_own_counts() {
    let end = |voluntary| Switches { voluntary, involuntary: 0 };
    let report = |peer, wrong| Report { trips: 1000, peer_switches: vec![end(peer)], wrong };
    let passed = |part, own, peer| {
        let checks = judged(part, end(own), &report(peer, None));
        assert!(checks[1].passed && checks[2].passed, "{checks:?}");
        checks[0].passed
    };
    let [once, twice] = [1, 2].map(|waits_max| Part::RoundTrip { waits_max });
    assert!(passed(Part::Switch, 1000, 1003) && !passed(Part::Switch, 1000, 500));
    assert!(!passed(Part::Switch, 500, 1000), "the worker is an end like the other");
    assert!(passed(once, 1000, 1000) && !passed(once, 1500, 1500) && passed(twice, 1500, 1500));
    assert!(passed(Part::Turn(""), 910, 1000) && !passed(Part::Turn(""), 1000, 890));
    let wrong = judged(once, end(1000), &report(1000, Some("an end: why".to_owned())));
    assert!(!wrong[2].passed && wrong[2].detail == "an end: why", "{wrong:?}");
    let beside = judged(Part::Turn("beside"), end(1000), &report(1000, None));
    assert!(beside[0].detail.ends_with("beside"), "{}", beside[0].detail);
}
