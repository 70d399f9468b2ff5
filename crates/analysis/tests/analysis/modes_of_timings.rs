//! Modes of single timings, which averages over rounds hide, and the verdict on them.

use fathom_analysis::judge::{Expectation, judge};
use fathom_analysis::statistics::summarise;
use fathom_record::{Better, Cause, Counters, Sample, State, Summary};

/// Five processes with equal rounds and these single timings.
fn five_processes(timing: impl Fn(u32, u32) -> f64) -> Summary {
    let samples = [0, 1, 2, 3, 4].map(|process| Sample {
        process,
        values: (0..12).map(|i| 3e9 + 1e7 * f64::from(i)).collect(),
        histogram: Some((0..2_000).map(|i| timing(process, i)).collect()),
        ..Sample::default()
    });
    summarise(&samples).expect("values")
}

/// Rates distributed evenly within ± 10 %.
fn around(rate: f64, i: u32) -> f64 {
    rate * (0.9 + f64::from(i * 7 % 400) / 2_000.0)
}

/// Two peaks: 30 % slow, in bursts.
fn two_peaks(_: u32, i: u32) -> f64 {
    around(if i % 500 < 150 { 1.6e9 } else { 5.7e9 }, i)
}

fn causes_of(summary: &Summary) -> (State, Vec<Cause>, String) {
    let expectation =
        Expectation { expects: Counters::SLEEP, noise_limit: 0.1, better: Better::Higher };
    let verdict = judge(&[], summary, expectation, None);
    let causes = verdict.reasons.iter().map(|it| it.cause).collect();
    let text = verdict.reasons.first().map_or(String::new(), |it| it.text.clone());
    (verdict.state, causes, text)
}

#[test]
fn two_peaks_of_timings_are_two_modes_with_shares() {
    let summary = five_processes(two_peaks);
    let [slow, fast] = summary.modes.as_slice() else { panic!("{:?}", summary.modes) };
    assert!((slow.at / 1.6e9 - 1.0).abs() < 0.02 && (fast.at / 5.7e9 - 1.0).abs() < 0.02);
    assert!((slow.share - 0.3).abs() < 0.01 && (slow.share + fast.share - 1.0).abs() < 1e-9);
    assert!((summary.median / 3.055e9 - 1.0).abs() < 1e-3, "the headline is that of rounds");
}

#[test]
fn one_wide_peak_of_timings_has_no_modes() {
    assert!(five_processes(|_, i| around(5.7e9, i)).modes.is_empty());
    let processes_differ = five_processes(|process, i| around(1e9 * f64::from(1 + process % 2), i));
    assert!(processes_differ.modes.is_empty(), "each process has one mode");
    let few = five_processes(|_, i| around(if i % 500 < 25 { 1.6e9 } else { 5.7e9 }, i));
    assert!(few.modes.is_empty(), "5 % are no mode: {:?}", few.modes);
}

#[test]
fn modes_far_apart_are_a_remark() {
    let (state, causes, text) = causes_of(&five_processes(two_peaks));
    assert_eq!((state, causes), (State::Valid, vec![Cause::SeveralModes]));
    assert_eq!(text, "bimodal within processes (30 % / 70 %, 3.6 × apart)");
    let near = five_processes(|_, i| {
        let slower = if i % 500 < 150 { 0.95 } else { 1.0 };
        3e9 * slower * (1.0 + f64::from(i * 7 % 100) / 1e4)
    });
    assert_eq!(near.modes.len(), 2);
    assert_eq!(causes_of(&near), (State::Valid, Vec::new(), String::new()));
}
