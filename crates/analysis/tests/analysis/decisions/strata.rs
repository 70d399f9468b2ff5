//! Which visits are compared, and what the core's own speed explains.

use fathom_analysis::compare::{Compared, ComparisonAnswer, ComparisonWord, Needs, Noise, compare};
use fathom_record::{
    Better, Cause, Document, Estimate, NotSelected, Outline, State, Stratum, Summary, Unit, Verdict,
};

use super::runs::{comparison, run, summary};

/// The reference loop of the core at full speed, and its part that only the frequency slows.
const LOOP_NS: f64 = 8913.0;
const FREQUENCY_NS: f64 = 9021.0;

/// A run by ten processes around `found`, while the core was slower by this factor.
fn as_found(number: usize, found: f64, slower: f64) -> Document {
    let mut run = run(number, found, 10);
    set_reference(&mut run, LOOP_NS, FREQUENCY_NS);
    let summary = summary(&mut run);
    summary.as_found = Some(estimate(summary, slower));
    summary.not_selected = Some(NotSelected::TooFewClean);
    run
}

/// The same, with undisturbed visits around `full`.
fn selected(number: usize, full: f64, found: f64, slower: f64) -> Document {
    let mut found = as_found(number, found, slower);
    let mut run = run(number, full, 10);
    run.run = found.run.clone();
    let summary = summary(&mut run);
    summary.in_state = Some(Estimate { of: 21, ..estimate(summary, 1.0) });
    summary.as_found = self::summary(&mut found).as_found.take();
    summary.stratum = Stratum::ToItself;
    run
}

fn estimate(summary: &Summary, slower: f64) -> Estimate {
    let process_medians = summary.process_medians.clone();
    let visits = process_medians.len() as u32;
    let process_loops = vec![LOOP_NS * slower; process_medians.len()];
    let (median, interval) = (summary.median, summary.interval);
    Estimate { median, interval, visits, of: visits, process_medians, process_loops }
}

fn set_reference(run: &mut Document, loop_ns: f64, frequency_ns: f64) {
    let reference = run.run.reference.as_mut().expect("it was calibrated");
    (reference.loop_ns, reference.frequency_ns) = (loop_ns, frequency_ns);
}

fn row(a: &Document, b: &Document) -> Compared {
    comparison(&[a], b).rows.remove(0)
}

/// The stratum of a comparison, and the medians of both sides in it.
fn sides(row: &Compared) -> (Stratum, f64, f64) {
    (row.stratum, row.a.round(), row.b.round())
}

#[test]
fn full_speed_is_compared_where_all_runs_have_it() {
    let (a, b) = (selected(1, 100.0, 150.0, 1.5), selected(2, 110.0, 130.0, 1.3));
    let full = row(&a, &b);
    assert_eq!(sides(&full), (Stratum::ToItself, 100.0, 110.0));
    assert_eq!((full.word, full.visits_a, full.visits_b), (ComparisonWord::Slower, 21, 21));
    let found = as_found(2, 130.0, 1.3);
    assert_eq!(sides(&row(&a, &found)), (Stratum::AsFound, 150.0, 130.0));
    assert_eq!(sides(&row(&found, &a)), (Stratum::AsFound, 130.0, 150.0));
    let three = comparison(&[&a, &found, &selected(3, 100.0, 140.0, 1.4)], &b).rows.remove(0);
    assert_eq!((three.stratum, three.runs_a), (Stratum::AsFound, 3));
}

#[test]
fn other_full_speed_of_one_core_is_compared_as_found() {
    let (a, mut b) = (selected(1, 100.0, 100.0, 1.0), selected(2, 150.0, 151.0, 1.5));
    set_reference(&mut b, 1.5 * LOOP_NS, FREQUENCY_NS);
    let mut of_other_cpu = b.clone();
    of_other_cpu.run.cpu += 1;
    assert_eq!(comparison(&[&a], &of_other_cpu).core, None, "another core");
    let comparison = comparison(&[&a], &b);
    assert_eq!(sides(&comparison.rows[0]), (Stratum::AsFound, 100.0, 151.0));
    assert_eq!(comparison.rows[0].word, ComparisonWord::Inconclusive, "the core explains it");
    assert!((comparison.core.expect("it was slower") - 1.5).abs() < 1e-9);
    // Another core, or another setting of the machine, has a full speed of its own.
    let mut with_governor = b;
    with_governor.host.cpu.governor = Some("powersave".to_owned());
    for b in [of_other_cpu, with_governor] {
        assert_eq!(sides(&row(&a, &b)), (Stratum::ToItself, 100.0, 150.0));
    }
}

/// The frequency of a core wanders between runs, by less than a undisturbed visit may.
#[test]
fn wandering_frequency_is_one_full_speed() {
    let a = selected(1, 100.0, 120.0, 1.2);
    let at = |full: f64| {
        let mut b = selected(2, full, 130.0, 1.3);
        set_reference(&mut b, 1.028 * LOOP_NS, 1.028 * FREQUENCY_NS);
        let full_speed = summary(&mut b).in_state.as_mut().expect("an estimate");
        full_speed.process_loops = vec![1.028 * LOOP_NS; 10];
        comparison(&[&a], &b)
    };
    let explained = at(103.0);
    assert_eq!((explained.core, explained.rows[0].stratum), (None, Stratum::ToItself));
    assert_eq!(
        (explained.rows[0].word, explained.rows[0].is_spoiled()),
        (ComparisonWord::Inconclusive, true)
    );
    assert_eq!(at(107.0).rows[0].word, ComparisonWord::Slower);
}

#[test]
fn change_that_the_core_explains_is_inconclusive() {
    let (a, b) = (as_found(1, 100.0, 1.0), as_found(2, 150.0, 1.5));
    for (a, b, core) in [(&a, &b, 1.5), (&b, &a, 1.0 / 1.5)] {
        let row = row(a, b);
        assert!((row.core.expect("a change of speed") - core).abs() < 1e-9, "{row:?}");
        assert_eq!((row.word, row.is_spoiled()), (ComparisonWord::Inconclusive, true), "{row:?}");
    }
    // Where nothing changed for certain, it explains nothing.
    let mut wide = as_found(2, 101.0, 1.5);
    let estimate = summary(&mut wide).as_found.as_mut().expect("an estimate");
    estimate.process_medians = (0..10).map(|at| 80.0 + 4.5 * f64::from(at)).collect();
    let wide = row(&a, &wide);
    assert_eq!((wide.word, wide.is_spoiled()), (ComparisonWord::Inconclusive, false), "{wide:?}");
    let gate = comparison(&[&a], &b).gate(0.05, None);
    assert_eq!(
        (gate.answer, gate.undecided[0].needs),
        (ComparisonAnswer::Undecided, Some(Needs::EqualCore))
    );
    // The same change on a core that was as fast is a change.
    let same = row(&a, &as_found(2, 150.0, 1.004));
    assert_eq!((same.word, same.core), (ComparisonWord::Slower, None));
}

#[test]
fn change_beyond_the_core_is_not_hidden() {
    let two_cpus = |number, found, slower| {
        let mut run = as_found(number, found, slower);
        summary(&mut run).not_selected = Some(NotSelected::SecondCpu);
        run
    };
    let row = row(&two_cpus(1, 100.0, 1.0), &two_cpus(2, 300.0, 1.9));
    assert_eq!((row.word, row.is_spoiled()), (ComparisonWord::Slower, false), "{row:?}");
    // Faster, though the core was slower: nothing of that is the core.
    let faster = self::row(&two_cpus(1, 100.0, 1.0), &two_cpus(2, 80.0, 1.9));
    assert_eq!(faster.word, ComparisonWord::Faster, "{faster:?}");
    for (of_b, word) in [
        (70.0, ComparisonWord::Inconclusive),
        (40.0, ComparisonWord::Slower),
        (130.0, ComparisonWord::Faster),
    ] {
        let [a, b] = [(1, 100.0, 1.0), (2, of_b, 1.5)].map(|(number, rate, slower)| {
            let mut run = as_found(number, rate, slower);
            (run.records[0].unit, run.records[0].better) = (Unit::PerSecond, Better::Higher);
            run
        });
        assert_eq!(self::row(&a, &b).word, word, "a rate of {of_b}");
    }
}

#[test]
fn noisy_run_leaves_full_speed_its_words() {
    let noisy = |mut run: Document| {
        run.run.verdict = Verdict::because(State::Noisy, Cause::MachineDrift, "autocorrelated");
        run
    };
    let (a, b) = (selected(1, 100.0, 100.0, 1.0), selected(2, 120.0, 120.0, 1.0));
    assert_eq!(row(&a, &noisy(b)).word, ComparisonWord::Slower);
    let found = as_found(2, 120.0, 1.0);
    assert_eq!(row(&a, &noisy(found)).word, ComparisonWord::LooksSlower);
}

/// Kept runs of an unchanged machine that differ by 3 % at full speed and by 8 % unfiltered.
fn kept() -> Vec<Outline> {
    let apart = |number: usize, share: f64| 100.0 * (1.0 + share * (number % 2) as f64);
    let one = |number| selected(number, apart(number, 0.03), apart(number, 0.08), 1.0);
    (10..20).map(|number| Outline::from(&one(number))).collect()
}

#[test]
fn noise_is_learnt_for_each_stratum() {
    let word = |a: Document, b: Document| {
        let noise = Noise::learn(&kept(), std::slice::from_ref(&a), &b);
        let row = compare(&a, &b, &noise, 7).rows.remove(0);
        (row.word, row.unchanged_within.map(|share| (1000.0 * share).round()))
    };
    let full = |number, median| selected(number, median, median, 1.0);
    assert_eq!(word(full(1, 100.0), full(2, 102.5)), (ComparisonWord::Unchanged, Some(30.0)));
    assert_eq!(word(full(1, 100.0), full(2, 105.0)), (ComparisonWord::Slower, None));
    let found = |number, median| as_found(number, median, 1.0);
    assert_eq!(word(found(1, 100.0), found(2, 105.0)), (ComparisonWord::Unchanged, Some(80.0)));
    assert_eq!(word(found(1, 100.0), found(2, 112.0)), (ComparisonWord::Slower, None));
    let between = word(found(1, 100.0), found(2, 107.9));
    assert_eq!(
        between,
        (ComparisonWord::Unchanged, Some(136.0)),
        "its interval reaches beyond the noise"
    );
}
