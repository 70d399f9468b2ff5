//! The limits of comparisons and their margins.

use fathom_analysis::compare::{ComparisonWord, Noise, NoiseBy, compare};
use fathom_record::{Cause, Document, Outline, State, Unit, Verdict};

use super::runs::{compared, comparison, record, run, summary};

/// A run whose processes have exactly these medians.
fn exact(number: usize, medians: &[f64]) -> Document {
    let mut run = run(number, 100.0, 10);
    summary(&mut run).process_medians = medians.to_vec();
    run
}

fn word(a: &[f64], b: &[f64]) -> (ComparisonWord, Option<f64>) {
    let row = comparison(&[&exact(1, a)], &exact(2, b)).rows.remove(0);
    (row.word, row.unchanged_within)
}

#[test]
fn equal_processes_have_exact_ratios() {
    let at = |ratio: f64| word(&[100.0; 10], &[100.0 * ratio; 10]);
    assert_eq!(at(1.0), (ComparisonWord::Unchanged, Some(0.02)));
    assert_eq!(
        at(1.019),
        (ComparisonWord::Unchanged, Some(0.02)),
        "changed for certain, but by little"
    );
    assert_eq!(at(0.981), (ComparisonWord::Unchanged, Some(0.02)));
    assert_eq!(at(1.021).0, ComparisonWord::Slower);
    assert_eq!(at(0.979).0, ComparisonWord::Faster);
}

#[test]
fn side_has_its_counts_and_its_label() {
    let mut a = run(1, 100.0, 10);
    a.run.label = Some("before".to_owned());
    let mut failed = record("y", Unit::Nanoseconds, 1.0, 5);
    failed.verdict = Verdict::because(State::Invalid, Cause::WrongWork, "");
    let mut cut = record("z", Unit::Nanoseconds, 1.0, 5);
    cut.verdict = Verdict::because(State::Noisy, Cause::Interrupted, "2 of 5");
    a.records.extend([failed, cut]);
    let comparison = comparison(&[&a], &run(2, 100.0, 10));
    let side = &comparison.a;
    assert_eq!((side.records, side.valid, side.in_part, side.planned), (3, 1, 1, 2));
    assert_eq!((side.label.as_deref(), &side.noisy), (Some("before"), &None));
    let only: Vec<&str> = comparison.only_a.iter().map(|case| case.metric.as_str()).collect();
    assert_eq!(only, ["y", "z"]);
    assert!(comparison.only_b.is_empty());
}

#[test]
fn rows_are_sorted_by_word_and_size() {
    let case = |metric: &str, median| record(metric, Unit::Nanoseconds, median, 10);
    let a = ["a", "b", "c", "d"].map(|metric| case(metric, 100.0));
    let b = [("a", 110.0), ("b", 150.0), ("c", 50.0), ("d", 100.0)].map(|(it, to)| case(it, to));
    let rows = compared(a.to_vec(), b.to_vec()).rows;
    let order: Vec<(&str, ComparisonWord)> =
        rows.iter().map(|row| (row.metric.as_str(), row.word)).collect();
    let expected = [
        ("b", ComparisonWord::Slower),
        ("a", ComparisonWord::Slower),
        ("c", ComparisonWord::Faster),
        ("d", ComparisonWord::Unchanged),
    ];
    assert_eq!(order, expected);
}

/// Kept runs with these medians, and the noise of a run against another.
fn noise_of(medians: &[f64]) -> (Option<f64>, usize) {
    let kept: Vec<Outline> = medians
        .iter()
        .zip(10..)
        .map(|(median, number)| Outline::from(&run(number, *median, 5)))
        .collect();
    let (a, b) = (run(1, 100.0, 10), run(2, 100.0, 10));
    let noise = Noise::learn(&kept, std::slice::from_ref(&a), &b);
    let comparison = compare(&a, &b, &noise, 7);
    let row = &comparison.rows[0];
    assert_eq!(row.noise_by, row.noise.map(|_| NoiseBy::Kept));
    (row.noise.map(|share| (1e4 * share).round() / 1e4), comparison.noise_runs)
}

#[test]
fn noise_is_the_widest_step_of_few_runs() {
    assert_eq!(noise_of(&[100.0, 101.0, 100.0, 103.0]), (None, 4), "three pairs");
    assert_eq!(noise_of(&[100.0, 101.0, 100.0, 103.0, 100.0]), (Some(0.03), 5));
    // Of 40 steps, at most one in twenty exceeds the noise.
    let steps = |wide: &[usize]| {
        let median = |at| if wide.contains(&at) { 104.0 } else { 100.0 + (at % 2) as f64 };
        noise_of(&(0..41).map(median).collect::<Vec<f64>>()).0
    };
    assert_eq!(steps(&[]), Some(0.01));
    assert_eq!(steps(&[20]), Some(0.0297), "the steps to it and from it: 104 ÷ 101");
}

#[test]
fn kept_runs_with_a_difference_are_no_noise() {
    let kept: Vec<Outline> = (10..20)
        .map(|number| {
            let mut run = run(number, 100.0 + (number % 2) as f64, 5);
            if number >= 14 {
                run.host.kernel = "other".to_owned();
            }
            Outline::from(&run)
        })
        .collect();
    let (a, b) = (run(1, 100.0, 10), run(2, 100.0, 10));
    let noise = Noise::learn(&kept, std::slice::from_ref(&a), &b);
    assert_eq!(compare(&a, &b, &noise, 7).noise_runs, 4);
    let own = Noise::learn(&kept, &[run(10, 100.0, 10)], &run(11, 100.0, 10));
    let (a, b) = (run(10, 100.0, 10), run(11, 100.0, 10));
    assert_eq!(compare(&a, &b, &own, 7).noise_runs, 2, "without the runs compared");
}
