//! The gate: what counts, and the three answers.

use fathom_analysis::compare::{Comparison, ComparisonAnswer, Gate, Needs, Noise, compare};
use fathom_record::{
    Basis, Better, Cause, Document, Interval, Outline, Record, State, Unit, Verdict,
};

use super::runs::{bare, compared, comparison, record, run, summary};

const NS: Unit = Unit::Nanoseconds;

fn gate(comparison: &Comparison, limit: f64) -> Gate {
    comparison.gate(limit, None)
}

/// A record of five processes this far apart.
fn scattered(median: f64, by: f64) -> Record {
    let medians = (-2..=2).map(|at| median * (1.0 + by * f64::from(at)));
    record("x", NS, median, 5).with_summary(|it| it.process_medians = medians.collect())
}

#[test]
fn loss_beyond_doubt_fails_and_a_possible_one_is_undecided() {
    for (b, processes, answer, needs) in [
        (100.1, 10, ComparisonAnswer::Pass, None),
        (70.0, 10, ComparisonAnswer::Pass, None),
        (110.0, 10, ComparisonAnswer::Fail, None),
        (105.05, 10, ComparisonAnswer::Undecided, Some(Needs::Processes)),
        (105.3, 10, ComparisonAnswer::Undecided, Some(Needs::StoredRuns)),
        (110.0, 5, ComparisonAnswer::Undecided, Some(Needs::Processes)),
        (104.9, 10, ComparisonAnswer::Undecided, Some(Needs::Processes)),
    ] {
        let comparison = comparison(&[&run(1, 100.0, processes)], &run(2, b, processes));
        let gate = gate(&comparison, 0.05);
        assert_eq!((gate.answer, gate.gateable), (answer, 1), "{b} {processes}: {gate:?}");
        assert_eq!(gate.undecided.first().and_then(|one| one.needs), needs, "{b} {processes}");
        assert!((comparison.false_alarms - 0.05).abs() < 1e-9, "one interval of 95 %");
        // What is printed beside the answer is what it rests on.
        let possible = comparison.rows[0].interval.expect("an interval")[1] - 1.0;
        assert_eq!(answer == ComparisonAnswer::Pass, possible <= 0.05, "{b} {processes}");
        for one in gate.lost.iter().chain(&gate.undecided) {
            assert!((one.possible - possible).abs() < 1e-12, "{one:?}");
            assert!((one.loss - (b / 100.0 - 1.0)).abs() < 1e-9, "{one:?}");
        }
    }
}

#[test]
fn low_quality_run_is_undecided() {
    let mut b = run(2, 150.0, 10);
    b.run.verdict = Verdict::because(State::Noisy, Cause::MachineDrift, "autocorrelated");
    let gate = gate(&comparison(&[&run(1, 100.0, 10)], &b), 0.05);
    assert_eq!(
        (gate.answer, gate.undecided[0].needs),
        (ComparisonAnswer::Undecided, Some(Needs::QuietRun))
    );
}

/// Halved is worse by half, whatever the direction of better.
#[test]
fn loss_is_a_share_of_the_rate_and_of_the_time() {
    let rate = |median| record("rate", Unit::BytesPerSecond, median, 10);
    let time = |median| record("time", NS, median, 10);
    let comparison = compared(vec![rate(100.0), time(100.0)], vec![rate(70.0), time(140.0)]);
    let answers = [0.29, 0.31, 0.42, 2.0].map(|limit| {
        let gate = gate(&comparison, limit);
        (gate.answer, gate.lost.len())
    });
    let expected = [
        (ComparisonAnswer::Fail, 2),
        (ComparisonAnswer::Fail, 1),
        (ComparisonAnswer::Pass, 0),
        (ComparisonAnswer::Pass, 0),
    ];
    assert_eq!(answers, expected);
}

#[test]
fn wide_interval_counts_only_where_it_shows_a_loss() {
    let gate = |b: f64, limit: f64| {
        gate(&compared(vec![scattered(100.0, 0.1)], vec![scattered(b, 0.1)]), limit)
    };
    let wide = gate(100.0, 0.05);
    assert_eq!(
        (wide.answer, wide.gateable),
        (ComparisonAnswer::Undecided, 0),
        "nothing can be decided"
    );
    let above = wide.not_gateable[0].above.expect("a limit");
    assert!(!wide.not_gateable[0].worse && above > 0.3, "{wide:?}");
    assert_eq!(gate(100.0, above - 0.001).gateable, 0);
    let [at, half_worse] = [gate(100.0, above + 0.001), gate(150.0, above + 0.001)];
    assert_eq!((at.answer, at.gateable), (ComparisonAnswer::Pass, 1));
    assert_eq!((half_worse.answer, half_worse.gateable), (ComparisonAnswer::Undecided, 1));
    let thrice = gate(300.0, 0.05);
    assert_eq!((thrice.answer, thrice.gateable), (ComparisonAnswer::Undecided, 1), "{thrice:?}");
    assert_eq!(thrice.undecided[0].needs, Some(Needs::Processes));
}

/// Beside another that passes, a case that is not gateable does not count.
#[test]
fn not_gateable_case_does_not_count() {
    let sound = || record("sound", NS, 100.0, 10);
    let (a, b) = (vec![sound(), scattered(100.0, 0.1)], vec![sound(), scattered(120.0, 0.1)]);
    let gate = gate(&compared(a, b), 0.05);
    assert_eq!(
        (gate.answer, gate.gateable, gate.not_gateable.len()),
        (ComparisonAnswer::Pass, 1, 1)
    );
}

/// Runs that differ by 4 % if nothing was changed.
#[test]
fn stored_noise_decides_what_counts_also_unfiltered() {
    let level = |number: usize| 100.0 * if number.is_multiple_of(2) { 1.0 } else { 1.04 };
    let stored: Vec<Outline> =
        (10..20).map(|number| Outline::from(&run(number, level(number), 10))).collect();
    let a = run(1, 100.0, 10);
    for (b, limit, answer, gateable) in [
        (100.1, 0.05, ComparisonAnswer::Pass, 1),
        (100.1, 0.04, ComparisonAnswer::Undecided, 0),
        (107.0, 0.05, ComparisonAnswer::Fail, 1),
        (107.0, 0.04, ComparisonAnswer::Undecided, 0),
        (110.0, 0.04, ComparisonAnswer::Fail, 1),
    ] {
        let b = run(2, b, 10);
        let noise = Noise::learn(&stored, std::slice::from_ref(&a), &b);
        let comparison = compare(&a, &b, &noise, 7);
        let row = &comparison.rows[0];
        assert_eq!(row.stratum, fathom_record::Stratum::AsFound);
        assert!((row.noise.expect("stored noise") - 0.04).abs() < 1e-9, "{row:?}");
        let gate = gate(&comparison, limit);
        assert_eq!((gate.answer, gate.gateable), (answer, gateable), "{limit}: {gate:?}");
    }
}

#[test]
fn single_process_and_no_direction_are_not_gateable() {
    let single = |number, median: f64| {
        let mut run = run(number, median, 2);
        let summary = summary(&mut run);
        summary.process_medians.clear();
        let limits = [0.999 * median, 1.001 * median];
        summary.interval = Some(Interval::new(limits, 0.95, Basis::WithinRun));
        run
    };
    let of = |b| gate(&comparison(&[&single(1, 100.0)], &b), 0.05);
    assert_eq!(
        (of(single(2, 100.0)).answer, of(single(2, 100.0)).gateable),
        (ComparisonAnswer::Undecided, 0)
    );
    assert_eq!(of(single(2, 200.0)).gateable, 1, "looks slower, far beyond its interval");
    let hertz = || vec![Record { better: Better::Neither, ..record("f", Unit::Hertz, 4e9, 10) }];
    let gate = gate(&compared(hertz(), hertz()), 0.05);
    assert_eq!((gate.gateable, gate.not_gateable[0].above), (0, None));
    let nothing: Comparison = comparison(&[&bare(1)], &bare(2));
    assert_eq!(
        self::gate(&nothing, 0.05).answer,
        ComparisonAnswer::Undecided,
        "nothing was tested"
    );
}

#[test]
fn caller_decides_what_undecided_is() {
    for answer in [ComparisonAnswer::Pass, ComparisonAnswer::Fail] {
        let taken = |b: f64| {
            comparison(&[&run(1, 100.0, 5)], &run(2, b, 5)).gate(0.05, Some(answer)).taken()
        };
        assert_eq!((taken(110.0), taken(100.0)), (answer, ComparisonAnswer::Pass));
    }
}

#[test]
fn hours_between_both_sides_are_named() {
    let at = |number, started: &str, ended: Option<&str>| {
        let mut run: Document = bare(number);
        run.run.started = format!("2026-11-25T{started}Z");
        run.run.ended = ended.map(|ended| format!("2026-11-25T{ended}Z"));
        run
    };
    let a = at(1, "04:00:00", Some("05:00:00"));
    for (b, expected) in [("05:30:00", None), ("14:00:00", Some(9.0)), ("01:00:00", Some(3.0))] {
        let b = at(2, b, None);
        assert_eq!(comparison(&[&a], &b).hours_apart, expected);
    }
    let mut unknown = at(2, "09:00:00", None);
    unknown.run.started = String::new();
    assert_eq!(comparison(&[&a], &unknown).hours_apart, None);
}
