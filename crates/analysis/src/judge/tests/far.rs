//! Verdicts from the far end.

use fathom_record::{Fact, FarEnd};

use super::*;

/// The same processes with a far end that has these counters.
fn with_far(samples: &[Sample], far: &Disturbance) -> Vec<Sample> {
    let far = || Some(FarEnd { disturbance: far.clone(), ..FarEnd::default() });
    samples.iter().map(|sample| Sample { far: far(), ..sample.clone() }).collect()
}

#[test]
fn disturbance_of_the_far_end_names_the_far_end() {
    let contended = Disturbance { run_queue_ns: HALF, ..quiet() };
    let near = narrow(&quiet());
    let found = verdict(&with_far(&near, &contended), QUIET);
    assert_eq!(cause(&found), (Cause::Contention, "far end: CPU contention 50 %"));
    // It sleeps until something arrives.
    let asleep = Disturbance { cpu_ns: 100_000_000, interrupt_ns: HALF, ..quiet() };
    assert_eq!(verdict(&with_far(&near, &asleep), QUIET).state, State::Valid);
}

#[test]
fn rate_that_was_not_sent_is_invalid() {
    let sent = |shares: [f64; 5], disturbance: &Disturbance| {
        let mut samples = narrow(disturbance);
        for (sample, share) in samples.iter_mut().zip(shares) {
            sample.facts = vec![Fact::quantity(RATE_REACHED, share, Unit::Ratio)];
        }
        verdict(&samples, QUIET)
    };
    let slow = sent([0.2, 0.44, 0.46, 0.99, 1.0], &stolen());
    assert_eq!(
        (slow.state, causes(&slow)),
        (State::Invalid, vec![Cause::LoadGenerator, Cause::Steal])
    );
    assert_eq!(slow.reasons[0].text, "the sender reached 46 % of the rate");
    assert_eq!(sent([0.2, 0.44, 0.95, 0.99, 1.0], &quiet()), Verdict::default());
}

#[test]
fn answer_that_took_far_longer_is_a_stall() {
    let stalled = |longest: f64| {
        let mut timings = Histogram::new();
        [20e3, 20e3, 20e3, longest].into_iter().for_each(|ns| timings.add(ns));
        let mut samples = with_far(&narrow(&quiet()), &quiet());
        samples[1].histogram = Some(timings);
        samples
    };
    let found = verdict(&stalled(2e9), QUIET);
    assert_eq!((found.state, causes(&found)), (State::Noisy, vec![Cause::Stalled]));
    assert!(found.reasons[0].text.starts_with("an answer took 2.0 s"), "{found:?}");
    assert_eq!(verdict(&stalled(100e6), QUIET).state, State::Valid);
    // Without a far end it is work of this host.
    let alone: Vec<Sample> =
        stalled(2e9).into_iter().map(|sample| Sample { far: None, ..sample }).collect();
    assert_eq!(verdict(&alone, QUIET).state, State::Valid);
}
