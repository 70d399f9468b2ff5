//! Processes that met a slow core: left out, or the reason why a case cannot be decided.

use fathom_analysis::compare::{Compared, Word};
use fathom_record::Document;

use crate::runs::{comparison, run, summary};

/// The reference spin of a core at full speed.
const FULL_SPEED: f64 = 8913.0;

/// A run of as many processes as there are medians, with these spins.
fn spun<const N: usize>(number: usize, medians: [f64; N], spins: [f64; N]) -> Document {
    let mut run = run(number, medians[N / 2], N);
    let summary = summary(&mut run);
    (summary.process_medians, summary.process_spins) = (medians.into(), spins.into());
    run
}

/// Ten processes: the first so many with this median and this spin, the others quiet at 100.
fn mixed(number: usize, slow: usize, median: f64, spin: f64) -> Document {
    let mut run = run(number, 100.0, 10);
    let summary = summary(&mut run);
    summary.process_spins = vec![FULL_SPEED; 10];
    for at in 0..slow {
        (summary.process_medians[at], summary.process_spins[at]) = (median, spin);
    }
    run
}

fn quiet() -> Document {
    mixed(1, 0, 0.0, 0.0)
}

fn row(a: &Document, b: &Document) -> Compared {
    comparison(&[a], b).rows.remove(0)
}

/// Processes of A and of B that met a slow core, and whether they were left out.
fn counts(row: &Compared) -> Option<(usize, usize, bool)> {
    row.slow_core.map(|slow| (slow.a, slow.b, slow.left_out))
}

/// What a neighbour did to some processes of one run is no change, and what they hide is found.
#[test]
fn processes_that_met_a_slow_core_are_left_out() {
    const QUICK: [f64; 5] = [8913.0, 8903.0, 8913.0, 8923.0, 8913.0];
    let slow = |share: f64, of: &[usize]| {
        let mut spins = QUICK;
        of.iter().for_each(|at| spins[*at] *= share);
        spins
    };
    let a = spun(1, [100.0, 100.1, 99.9, 100.0, 100.2], QUICK);
    // Five per cent more beneath a process that a neighbour made slower still.
    let few = row(&a, &spun(2, [105.0, 105.1, 160.0, 105.0, 104.9], slow(1.9, &[2])));
    assert_eq!((few.word, few.processes_a, few.processes_b), (Word::LooksSlower, 5, 4), "{few:?}");
    assert_eq!(counts(&few), Some((0, 1, true)));
    assert!((few.ratio.unwrap() - 1.05).abs() < 0.002, "{few:?}");
    // Without the spin the neighbour is a change, and with it nobody can tell.
    let met = [130.0, 160.0, 160.1, 160.2, 160.3];
    assert_eq!(row(&a, &spun(2, met, QUICK)).word, Word::LooksSlower);
    let comparison = comparison(&[&a], &spun(2, met, slow(1.9, &[1, 2, 3, 4])));
    let most = &comparison.rows[0];
    assert_eq!((most.word, most.processes_b), (Word::Inconclusive, 5), "{most:?}");
    assert_eq!(counts(most), Some((0, 4, false)));
    assert_eq!((most.p, most.p_adjusted), (None, None), "a test of what the core did");
    assert_eq!((comparison.core, comparison.undecided()), (None, 1));
    assert_eq!(comparison.suspects(0.05).count(), 1, "it may hide a loss");
    // A process just short of slow is as good as any.
    let near = row(&a, &spun(2, [103.0; 5], slow(1.04, &[0, 1, 2])));
    assert_eq!((near.word, near.slow_core), (Word::LooksSlower, None));
}

#[test]
fn what_most_of_a_side_met_is_not_left_out() {
    let few = row(&quiet(), &mixed(2, 5, 130.0, 14_000.0));
    assert_eq!((counts(&few), few.word), (Some((0, 5, true)), Word::Inconclusive), "{few:?}");
    let most = row(&quiet(), &mixed(2, 6, 130.0, 14_000.0));
    assert_eq!((counts(&most), most.word), (Some((0, 6, false)), Word::Inconclusive), "{most:?}");
    // One quick process among slow ones is luck: the slow are compared with the slow.
    let slow = row(&mixed(1, 10, 150.0, 14_000.0), &mixed(2, 9, 180.0, 14_000.0));
    assert_eq!((slow.slow_core, slow.word), (None, Word::Slower), "{slow:?}");
    // Far more than the core explains is no effect of it, and no more than looks so.
    let far = row(&quiet(), &mixed(2, 8, 300.0, 9450.0));
    assert_eq!((counts(&far), far.word), (Some((0, 8, false)), Word::LooksSlower), "{far:?}");
    let near = row(&quiet(), &mixed(2, 8, 110.0, 9450.0));
    assert_eq!(near.word, Word::Inconclusive, "{near:?}");
}

#[test]
fn nothing_is_left_out_where_one_side_has_no_spins() {
    let with = mixed(2, 4, 150.0, 14_000.0);
    let mut without = mixed(1, 4, 150.0, 14_000.0);
    summary(&mut without).process_spins.clear();
    let one = row(&without, &with);
    assert_eq!((one.slow_core, one.processes_b, one.word), (None, 10, Word::NoChange), "{one:?}");
    // A spin of nothing is none.
    let mut nothing = quiet();
    summary(&mut nothing).process_spins[3] = 0.0;
    assert_eq!(row(&nothing, &mixed(2, 0, 0.0, 0.0)).word, Word::NoChange);
    // Another CPU may be of another kind.
    let mut other = mixed(2, 10, 100.0, 12_000.0);
    assert_eq!(counts(&row(&quiet(), &other)), Some((0, 10, false)));
    other.run.cpu += 1;
    assert_eq!(row(&quiet(), &other).slow_core, None);
}

#[test]
fn slow_core_throughout_a_run_is_no_change_of_cases() {
    let spun = |number, median: f64, spin| spun(number, [median; 5], [spin; 5]);
    let (a, mut b) = (spun(1, 100.0, FULL_SPEED), spun(2, 150.0, 13_370.0));
    let slower = comparison(&[&a], &b);
    assert_eq!(slower.rows[0].word, Word::Inconclusive);
    assert!((slower.core.unwrap() - 1.5).abs() < 0.001, "{:?}", slower.core);
    // Of another machine it is the machine.
    b.host.cpu.governor = Some("powersave".to_owned());
    let other = row(&a, &b);
    assert_eq!((other.word, other.slow_core), (Word::LooksSlower, None));
    assert!((comparison(&[&b], &a).core.unwrap() - 1.0 / 1.5).abs() < 0.001);
    // Several runs of A: one of them met a slow core in every process, and says nothing.
    let quick = [spun(1, 100.0, FULL_SPEED), spun(2, 160.0, 17_000.0), spun(3, 100.1, 8903.0)];
    let row = comparison(&quick.each_ref(), &spun(9, 100.0, FULL_SPEED)).rows.remove(0);
    assert_eq!((row.runs_a, row.processes_a), (2, 10), "{row:?}");
}

/// One run alone is left of A, and does not show how far runs lie apart.
#[test]
fn run_of_a_that_is_left_alone_decides_nothing() {
    let (slow, more) = (mixed(2, 10, 160.0, 17_000.0), mixed(9, 10, 103.0, FULL_SPEED));
    assert_eq!(row(&quiet(), &more).word, Word::Slower);
    let two = comparison(&[&quiet(), &slow], &more);
    assert_eq!((two.rows[0].runs_a, two.rows[0].word), (1, Word::LooksSlower), "{two:?}");
    assert_eq!(two.core, None);
}
