//! Rates of false and of detected modes and clusters, in seeded simulations of single samples.

use fathom_analysis::statistics::{clusters, modes};
use fathom_simulation::{OUTLIERS, SHAPES, Source};

fn draw(one: fn(&mut Source) -> f64, count: usize, source: &mut Source) -> Vec<f64> {
    (0..count).map(|_| one(source)).collect()
}

fn share(runs: u32, mut trial: impl FnMut() -> bool) -> f64 {
    f64::from((0..runs).map(|_| u32::from(trial())).sum::<u32>()) / f64::from(runs)
}

#[test]
fn processes_of_one_kind_rarely_form_clusters() {
    for (number, shape) in SHAPES.iter().enumerate() {
        for processes in [8, 10, 12, 20, 40] {
            let mut source = Source::new(77 * processes as u64 + number as u64);
            let seen =
                share(4_000, || !clusters(&draw(shape.one, processes, &mut source)).is_empty());
            // With one outlier in ten, two of ten are often on the same side, which is the same
            // as two clusters.
            let limit = if shape.name == OUTLIERS { 0.035 } else { 0.02 };
            assert!(seen < limit, "{processes} processes, {}: {seen}", shape.name);
        }
    }
}

#[test]
fn clusters_far_apart_are_found_with_their_shares() {
    for (processes, high) in [(10, 5), (10, 2), (20, 6), (20, 10)] {
        let mut source = Source::new(5);
        let found = share(500, || {
            let medians: Vec<f64> = (0..processes)
                .map(|i| if i < high { 130.0 } else { 100.0 } + source.normal())
                .collect();
            let found = clusters(&medians);
            let share = f64::from(high) / f64::from(processes);
            found.len() == 2 && (found[1].share - share).abs() < 1e-12 && found[1].at > 125.0
        });
        assert!(found > 0.95, "{high} of {processes} processes 30 deviations off: {found}");
    }
}

#[test]
fn unimodal_samples_rarely_have_modes() {
    for (number, shape) in SHAPES.iter().enumerate() {
        for (count, runs) in [(100, 400), (1_000, 40)] {
            let mut source = Source::new(9_000 + count as u64 + number as u64);
            let seen = share(runs, || !modes(&draw(shape.one, count, &mut source)).is_empty());
            assert!(seen <= 0.005, "{count} values, {}: {seen}", shape.name);
        }
    }
    let mut source = Source::new(3);
    let seen = share(400, || !modes(&draw(Source::uniform, 100, &mut source)).is_empty());
    assert!(seen <= 0.005, "uniform, the hardest case: {seen}");
}

#[test]
fn long_right_tail_is_no_mode() {
    let mut source = Source::new(31);
    for sigma in [0.1, 1.0, 2.0, 4.0] {
        let seen = share(40, || {
            let values: Vec<f64> =
                (0..500).map(|_| 40.0 + (sigma * source.normal()).exp()).collect();
            !modes(&values).is_empty()
        });
        assert_eq!(seen, 0.0, "tail of {sigma}");
    }
    // 5 % interrupts of similar length: outliers, too few for a mode.
    let seen = share(40, || {
        let values: Vec<f64> =
            (0..500).map(|i| if i % 20 == 0 { 5_000.0 } else { 40.0 } + source.normal()).collect();
        !modes(&values).is_empty()
    });
    assert_eq!(seen, 0.0);
}

#[test]
fn clock_steps_are_no_modes() {
    let mut source = Source::new(13);
    for step in [0.5, 1.0, 2.0, 3.0] {
        for count in [100, 300, 2_000] {
            let seen = share(30, || {
                let rounded = |v: f64| (v / step).round() * step * 25.0;
                let values: Vec<f64> =
                    (0..count).map(|_| rounded(20.0 + source.normal())).collect();
                !modes(&values).is_empty()
            });
            assert_eq!(seen, 0.0, "{count} values in steps of {step} deviations");
        }
    }
    // A clock with alternating steps of 22 and 23 ticks, and reads between two steps.
    let seen = share(30, || {
        let values: Vec<f64> = (0..500)
            .map(|_| {
                let step = (3.0 + source.normal()).round().max(0.0);
                (step * 22.5 + source.uniform() - 0.5).round()
            })
            .collect();
        !modes(&values).is_empty()
    });
    assert_eq!(seen, 0.0);
}

#[test]
fn two_paths_are_found_with_their_places_and_shares() {
    let mut source = Source::new(21);
    for (count, fast) in [(100, 0.5), (300, 0.7), (1_000, 0.8), (1_000, 0.3), (5_000, 0.85)] {
        let found = share(6, || {
            let values: Vec<f64> = (0..count)
                .map(|_| if source.uniform() < fast { 20.0 } else { 30.0 } + source.normal())
                .collect();
            let found = modes(&values);
            found.len() == 2
                && (found[0].at - 20.0).abs() < 1.0
                && (found[1].at - 30.0).abs() < 1.0
                && (found[0].share - fast).abs() < 0.1
        });
        assert!(found >= 0.95, "{count} values, {fast} of them fast: {found}");
    }
}

#[test]
fn broad_paths_are_one_mode_each() {
    let mut source = Source::new(24);
    let found = share(10, || {
        let values: Vec<f64> = (0..600)
            .map(|i| match i % 100 {
                0..25 => 14.0 * source.uniform(),
                25..50 => 26.0 + 14.0 * source.uniform(),
                _ => 20.0 + 0.02 * source.normal(),
            })
            .collect();
        let shares: Vec<f64> = modes(&values).iter().map(|mode| mode.share).collect();
        shares == [0.25, 0.5, 0.25]
    });
    assert!(found >= 0.9, "{found}");
}

#[test]
fn path_taken_by_under_a_tenth_is_no_mode() {
    let mut source = Source::new(25);
    for (slow, modes_expected) in [(9, 0), (11, 2)] {
        let values: Vec<f64> =
            (0..3_000)
                .map(|i| {
                    if i % 100 < slow {
                        30.0 + 0.1 * source.normal()
                    } else {
                        20.0 + source.normal()
                    }
                })
                .collect();
        assert_eq!(modes(&values).len(), modes_expected, "{slow} per cent");
    }
}

#[test]
fn two_paths_are_found_on_a_coarse_clock_too() {
    let mut source = Source::new(22);
    let found = share(20, || {
        let values: Vec<f64> = (0..400)
            .map(|i| if i % 5 < 3 { 20.0 } else { 32.0 } + source.normal())
            .map(|v: f64| v.round())
            .collect();
        modes(&values).len() == 2
    });
    assert!(found >= 0.95, "{found}");
}

#[test]
fn three_paths_are_three_modes() {
    let mut source = Source::new(23);
    let values: Vec<f64> =
        (0..600).map(|i| [10.0, 40.0, 100.0][i % 3] + 2.0 * source.normal()).collect();
    let found = modes(&values);
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found.iter().all(|mode| (mode.share - 1.0 / 3.0).abs() < 1e-9), "{found:?}");
}
