//! Two runs held against each other.

use crate::fixture::{Build, document, measured, plain};
use fathom_analysis::compare::{
    Compared, Comparison, Noise, NoiseBy, Word, compare, compare_to_all,
};
use fathom_analysis::differences::differences;
use fathom_record::{
    Better, Cause, Document, Effort, Params, Reason, Record, RunState, State, Unit, Verdict,
};
use fathom_report::Layout;
use fathom_report::compare::render;

/// A record of `count` processes around `median`.
fn of(metric: &str, unit: Unit, median: f64, count: usize) -> Record {
    measured(metric, Params::none(), unit, median, 0.003).with(|summary| {
        let place = |i: usize| (i as f64 / (count - 1) as f64 - 0.5) * 0.006;
        summary.process_medians = (0..count).map(|i| median * (1.0 + place(i))).collect();
    })
}

fn documents(a: Vec<Record>, b: Vec<Record>) -> (Document, Document) {
    let (mut left, mut right) = (document(), document());
    left.records = a;
    right.records = b;
    right.run.id = "0198c1a2b3c4d5ff".to_owned();
    (left, right)
}

fn compared(a: Record, b: Record) -> Compared {
    let (a, b) = documents(vec![a], vec![b]);
    compare(&a, &b, &Noise::default(), 7).rows.remove(0)
}

#[test]
fn a_change_has_a_word_that_its_processes_can_carry() {
    let ns = Unit::Nanoseconds;
    let rate = Unit::BytesPerSecond;
    for (unit, a, b, processes, word) in [
        (ns, 100.0, 110.0, 10, Word::Worse),
        (ns, 110.0, 100.0, 10, Word::Better),
        (rate, 100.0, 110.0, 10, Word::Better),
        (rate, 110.0, 100.0, 10, Word::Worse),
        (Unit::Hertz, 100.0, 110.0, 10, Word::Changed),
        (ns, 100.0, 100.1, 10, Word::NoChange),
        (ns, 100.0, 110.0, 7, Word::LooksSlower),
        (rate, 100.0, 110.0, 7, Word::LooksFaster),
        (Unit::Hertz, 100.0, 110.0, 5, Word::LooksChanged),
        (ns, 100.0, 100.1, 5, Word::CannotTell),
    ] {
        let row = compared(of("x", unit, a, processes), of("x", unit, b, processes));
        assert_eq!(row.word, word, "{a} → {b} {unit:?} of {processes} processes");
    }
}

#[test]
fn a_change_of_less_than_one_per_cent_is_none_however_sure_it_is() {
    let ns = Unit::Nanoseconds;
    let row = compared(of("x", ns, 100.0, 40), of("x", ns, 100.9, 40));
    assert!(row.interval.unwrap()[0] > 1.0, "{row:?}");
    assert_eq!(row.word, Word::NoChange);
}

#[test]
fn eight_against_seven_processes_are_too_few() {
    let ns = Unit::Nanoseconds;
    assert_eq!(compared(of("x", ns, 100.0, 8), of("x", ns, 110.0, 7)).word, Word::LooksSlower);
    assert_eq!(compared(of("x", ns, 100.0, 8), of("x", ns, 110.0, 8)).word, Word::Worse);
}

#[test]
fn sizes_do_not_become_faster() {
    let mut record = of("x", Unit::Bytes, 110.0, 5);
    record.better = Better::Higher;
    assert_eq!(compared(of("x", Unit::Bytes, 100.0, 5), record).word, Word::LooksBetter);
}

#[test]
fn a_run_compared_with_itself_changes_nothing() {
    let document = document();
    let comparison = compare(&document, &document, &Noise::default(), 7);
    assert!(comparison.differences.is_empty());
    assert!(comparison.only_a.is_empty() && comparison.only_b.is_empty());
    assert!(comparison.rows.iter().all(|row| row.word >= Word::NoChange));
    assert_eq!(comparison.regressions(0.0).count(), 0);
}

#[test]
fn the_same_seed_gives_the_same_comparison() {
    let (a, b) = before_and_after();
    assert_eq!(compare(&a, &b, &Noise::default(), 7), compare(&a, &b, &Noise::default(), 7));
}

#[test]
fn chance_among_many_cases_is_no_regression() {
    let ns = Unit::Nanoseconds;
    let many = |last: f64| -> Vec<Record> {
        (0..20)
            .map(|i| {
                let median = if i == 19 { last } else { 100.0 };
                let mut record = of("x", ns, median, 10);
                record.params = Params::one("case", i);
                record
            })
            .collect()
    };
    let (a, b) = documents(many(100.0), many(150.0));
    let comparison = compare(&a, &b, &Noise::default(), 7);
    let row = comparison.regressions(0.0).next().unwrap();
    assert!(row.p_adjusted > row.p && comparison.regressions(0.0).count() == 1, "{row:?}");
}

/// Halved is worse by half, whatever the direction of better.
#[test]
fn a_rate_is_worse_by_what_was_lost_and_a_time_by_what_came_on_top() {
    let mut fallen = of("rate", Unit::BytesPerSecond, 70.0, 10);
    let mut before = of("rate", Unit::BytesPerSecond, 100.0, 10);
    (fallen.better, before.better) = (Better::Higher, Better::Higher);
    let time = |median| of("time", Unit::Nanoseconds, median, 10);
    let (a, b) = documents(vec![before, time(100.0)], vec![fallen, time(140.0)]);
    let comparison = compare(&a, &b, &Noise::default(), 7);
    let worse_by = |above| comparison.regressions(above).count();
    assert_eq!((worse_by(0.29), worse_by(0.31), worse_by(0.41)), (2, 1, 0));
    assert_eq!(comparison.undecided(), 0);
}

#[test]
fn a_run_that_is_noisy_as_a_whole_lets_nothing_be_more_than_looks() {
    let (a, mut b) = (run(1, 100.0, 10), run(2, 150.0, 10));
    b.run.verdict = Verdict::because(State::Noisy, Cause::MachineDrift, "its speed came and went");
    let comparison = compare(&a, &b, &Noise::default(), 7);
    assert_eq!(comparison.rows[0].word, Word::LooksWorse);
    assert_eq!((comparison.regressions(0.0).count(), comparison.undecided()), (0, 1));
    let text = plain(&render(&comparison, &Layout { width: 140, ..Layout::default() }));
    assert!(text.contains("noisy as a whole") && text.contains("came and went"), "{text}");
}

/// Five processes with these medians and these spins.
fn spun(number: usize, medians: [f64; 5], spins: [f64; 5]) -> Document {
    let mut run = run(number, medians[2], 5);
    let summary = run.records[0].summary.as_mut().expect("it was measured");
    (summary.process_medians, summary.process_spins) = (medians.into(), spins.into());
    run
}

/// As it is printed, on one line.
fn said(comparison: &Comparison) -> String {
    let text = plain(&render(comparison, &Layout { width: 140, ..Layout::default() }));
    text.split_whitespace().collect::<Vec<&str>>().join(" ")
}

/// What a neighbour did to some processes of one run is no change, and what they hide is found.
#[test]
fn processes_that_met_a_slow_core_are_held_against_none() {
    const QUICK: [f64; 5] = [8913.0, 8903.0, 8913.0, 8923.0, 8913.0];
    let slow = |share: f64, of: &[usize]| {
        let mut spins = QUICK;
        of.iter().for_each(|at| spins[*at] *= share);
        spins
    };
    let told = |a: &Document, b: &Document| {
        let comparison = compare(a, b, &Noise::default(), 7);
        (comparison.rows[0].clone(), comparison)
    };
    let a = spun(1, [100.0, 100.1, 99.9, 100.0, 100.2], QUICK);
    // Five per cent more beneath a process that a neighbour made slower still.
    let (row, comparison) =
        told(&a, &spun(2, [105.0, 105.1, 160.0, 105.0, 104.9], slow(1.9, &[2])));
    assert_eq!((row.word, row.processes_a, row.processes_b), (Word::LooksSlower, 5, 4), "{row:?}");
    assert_eq!(counts(&row), Some((0, 1, true)));
    assert!((row.ratio.unwrap() - 1.05).abs() < 0.002, "{row:?}");
    let text = said(&comparison);
    assert!(text.contains("1 case without the processes that met a slow core"), "{text}");
    // Without the spin the neighbour is a change, and with it nobody can tell.
    let met = [130.0, 160.0, 160.1, 160.2, 160.3];
    assert_eq!(told(&a, &spun(2, met, QUICK)).0.word, Word::LooksSlower);
    let (row, comparison) = told(&a, &spun(2, met, slow(1.9, &[1, 2, 3, 4])));
    assert_eq!((row.word, row.processes_b), (Word::CannotTell, 5), "{row:?}");
    assert_eq!(counts(&row), Some((0, 4, false)));
    assert_eq!((row.p, row.p_adjusted), (None, None), "a test of what the core did");
    assert_eq!((comparison.core, comparison.undecided()), (None, 1));
    let text = said(&comparison);
    assert!(text.contains("slow core: 1 case cannot be judged"), "{text}");
    assert_eq!(comparison.suspects(0.05).count(), 1, "it may hide a loss");
    assert!(!text.contains("8 on either side"), "more processes are no help: {text}");
    // A process just short of slow is as good as any.
    let (row, _) = told(&a, &spun(2, [103.0; 5], slow(1.04, &[0, 1, 2])));
    assert_eq!((row.word, row.slow_core), (Word::LooksSlower, None));
}

/// Processes of A and of B that met a slow core, and whether they were left out.
fn counts(row: &Compared) -> Option<(usize, usize, bool)> {
    row.slow_core.map(|slow| (slow.a, slow.b, slow.left_out))
}

/// Ten processes: the first so many with this median and this spin, the others quiet at 100.
fn mixed_run(number: usize, slow: usize, median: f64, spin: f64) -> Document {
    let mut run = run(number, 100.0, 10);
    let summary = run.records[0].summary.as_mut().expect("it was measured");
    summary.process_spins = vec![8913.0; 10];
    for at in 0..slow {
        (summary.process_medians[at], summary.process_spins[at]) = (median, spin);
    }
    run
}

#[test]
fn what_most_of_a_side_met_is_how_it_was() {
    let row = |a: &Document, b: &Document| compare(a, b, &Noise::default(), 7).rows.remove(0);
    let quiet = mixed_run(1, 0, 0.0, 0.0);
    let few = row(&quiet, &mixed_run(2, 5, 130.0, 14_000.0));
    assert_eq!((counts(&few), few.word), (Some((0, 5, true)), Word::CannotTell), "{few:?}");
    let most = row(&quiet, &mixed_run(2, 6, 130.0, 14_000.0));
    assert_eq!((counts(&most), most.word), (Some((0, 6, false)), Word::CannotTell), "{most:?}");
    // One quick process among slow ones is luck: the slow are held against the slow.
    let (a, b) = (mixed_run(1, 10, 150.0, 14_000.0), mixed_run(2, 9, 180.0, 14_000.0));
    let slow = row(&a, &b);
    assert_eq!((slow.slow_core, slow.word), (None, Word::Worse), "{slow:?}");
    // Far more than the core explains is no effect of it, and no more than looks so.
    let far = row(&quiet, &mixed_run(2, 8, 300.0, 9450.0));
    assert_eq!((counts(&far), far.word), (Some((0, 8, false)), Word::LooksSlower), "{far:?}");
    let near = row(&quiet, &mixed_run(2, 8, 110.0, 9450.0));
    assert_eq!(near.word, Word::CannotTell, "{near:?}");
}

#[test]
fn where_one_side_has_no_spins_nothing_is_left_out_of_the_other() {
    let row = |a: &Document, b: &Document| compare(a, b, &Noise::default(), 7).rows.remove(0);
    let with = mixed_run(2, 4, 150.0, 14_000.0);
    let mut without = mixed_run(1, 4, 150.0, 14_000.0);
    without.records[0].summary.as_mut().expect("it was measured").process_spins.clear();
    let one = row(&without, &with);
    assert_eq!((one.slow_core, one.processes_b, one.word), (None, 10, Word::NoChange), "{one:?}");
    // A spin of nothing is none.
    let mut nothing = mixed_run(1, 0, 0.0, 0.0);
    nothing.records[0].summary.as_mut().expect("it was measured").process_spins[3] = 0.0;
    assert_eq!(row(&nothing, &mixed_run(2, 0, 0.0, 0.0)).word, Word::NoChange);
    // Another CPU may be of another kind.
    let mut other = mixed_run(2, 10, 100.0, 12_000.0);
    assert_eq!(counts(&row(&mixed_run(1, 0, 0.0, 0.0), &other)), Some((0, 10, false)));
    other.run.cpu += 1;
    assert_eq!(row(&mixed_run(1, 0, 0.0, 0.0), &other).slow_core, None);
}

/// A core that is slower throughout is said; of another machine it is the machine.
#[test]
fn a_core_that_was_slow_throughout_is_said_and_another_machine_has_a_scale_of_its_own() {
    let spun = |number, median: f64, spin| spun(number, [median; 5], [spin; 5]);
    let (a, mut b) = (spun(1, 100.0, 8913.0), spun(2, 150.0, 13_370.0));
    let comparison = compare(&a, &b, &Noise::default(), 7);
    assert_eq!(comparison.rows[0].word, Word::CannotTell);
    assert!((comparison.core.unwrap() - 1.5).abs() < 0.001, "{:?}", comparison.core);
    let text = said(&comparison);
    assert!(
        text.contains("throughout B the core itself was 1.500 times slower than in A"),
        "{text}"
    );
    b.host.cpu.governor = Some("powersave".to_owned());
    let comparison = compare(&a, &b, &Noise::default(), 7);
    assert_eq!((comparison.rows[0].word, comparison.rows[0].slow_core), (Word::LooksSlower, None));
    let text = said(&compare(&b, &a, &Noise::default(), 7));
    assert!(text.contains("throughout A the core itself was 1.500 times slower"), "{text}");
    // Several runs of A: one of them met a slow core in every process, and says nothing.
    let quick = [spun(1, 100.0, 8913.0), spun(2, 160.0, 17_000.0), spun(3, 100.1, 8903.0)];
    let row = compare_to_all(&quick.each_ref(), &spun(9, 100.0, 8913.0), &Noise::default(), 7);
    assert_eq!((row.rows[0].runs_a, row.rows[0].processes_a), (2, 10), "{:?}", row.rows[0]);
    // One run alone is left, and does not tell how far runs lie apart.
    let slow = mixed_run(2, 10, 160.0, 17_000.0);
    let (quiet, more) = (mixed_run(1, 0, 0.0, 0.0), mixed_run(9, 10, 103.0, 8913.0));
    let alone = compare(&quiet, &more, &Noise::default(), 7).rows.remove(0);
    assert_eq!(alone.word, Word::Worse);
    let two = compare_to_all(&[&quiet, &slow], &more, &Noise::default(), 7).rows.remove(0);
    assert_eq!((two.runs_a, two.word), (1, Word::LooksSlower), "{two:?}");
    assert_eq!(compare_to_all(&[&quiet, &slow], &more, &Noise::default(), 7).core, None);
}

/// A run of its own id, of one metric on `count` processes around `median`.
fn run(number: usize, median: f64, count: usize) -> Document {
    let mut run = document();
    run.run.id = format!("{number:016x}");
    run.records = vec![of("x", Unit::Nanoseconds, median, count)];
    run
}

#[test]
fn several_runs_are_one_side_with_all_their_processes() {
    let runs = [run(1, 100.0, 5), run(3, 100.2, 5), run(2, 99.9, 5)];
    let comparison = compare_to_all(&runs.each_ref(), &run(9, 120.0, 10), &Noise::default(), 7);
    let row = &comparison.rows[0];
    assert_eq!((row.runs_a, row.processes_a, row.word), (3, 15, Word::Worse), "{row:?}");
    assert!((row.a - 100.0).abs() < 0.2, "the median of all processes: {row:?}");
    assert_eq!(comparison.a.id, format!("{:016x}", 3), "the newest");
    let more: Vec<&str> = comparison.more_a.iter().map(|side| side.id.as_str()).collect();
    assert_eq!(more, [format!("{:016x}", 2), format!("{:016x}", 1)]);
}

#[test]
fn what_runs_of_a_differ_by_among_themselves_is_no_change_of_b() {
    let apart = [run(1, 95.0, 10), run(2, 100.0, 10), run(3, 105.0, 10)];
    let b = run(9, 108.0, 10);
    let row = compare_to_all(&apart.each_ref(), &b, &Noise::default(), 7).rows.remove(0);
    assert_eq!((row.word, row.noise_by), (Word::WithinNoise, Some(NoiseBy::A)), "{row:?}");
    // ln 95, ln 100 and ln 105 scatter by 0.050; t of 2 degrees is 4.30, and √(4/3) for one more.
    assert!((row.noise.unwrap() - 0.282).abs() < 0.005, "{row:?}");
    let alike = [run(1, 100.1, 10), run(2, 100.0, 10), run(3, 99.9, 10)];
    let row = compare_to_all(&alike.each_ref(), &b, &Noise::default(), 7).rows.remove(0);
    assert_eq!(row.word, Word::Worse, "{row:?}");
}

/// Runs that differ as whole runs, and in nothing else: a pool of their processes would take what
/// makes a run slower for a change, again and again.
#[test]
fn runs_of_an_unchanged_machine_are_hardly_ever_called_changed() {
    let worlds = 200;
    let flagged = |runs: usize| {
        let changed = (0..worlds).filter(|world| {
            // Eight sums of uniform values scatter nearly normally: here by 2 %.
            let off = |run: usize| {
                let draw = |at: usize| mixed(((world * 64 + run) * 8 + at) as u64);
                let sum: f64 = (0..8).map(|at| draw(at) - 0.5).sum();
                100.0 * (1.0 + 0.0245 * sum)
            };
            let a: Vec<Document> = (0..runs).map(|at| run(at, off(at), 10)).collect();
            let a: Vec<&Document> = a.iter().collect();
            let row =
                compare_to_all(&a, &run(99, off(50), 10), &Noise::default(), 7).rows.remove(0);
            row.word < Word::WithinNoise
        });
        changed.count() as f64 / worlds as f64
    };
    let (one, three, five) = (flagged(1), flagged(3), flagged(5));
    assert!(one > 0.5, "one run against one cannot know: {one}");
    assert!(three < 0.1 && five < 0.1, "{three} {five}");
}

/// Uniform between 0 and 1, by SplitMix64.
fn mixed(number: u64) -> f64 {
    let mut z = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
}

#[test]
fn runs_of_a_that_differ_among_themselves_and_runs_that_were_cut_off_say_so() {
    let (mut first, mut second) = (run(1, 100.0, 10), run(2, 100.0, 10));
    first.host.memory.thp = Some("madvise".to_owned());
    second.host.memory.thp = Some("always".to_owned());
    let mut b = run(9, 120.0, 10);
    b.run.state = RunState::Interrupted;
    b.host.memory.thp = Some("always".to_owned());
    let comparison = compare_to_all(&[&first, &second], &b, &Noise::default(), 7);
    let text = plain(&render(&comparison, &Layout { width: 140, ..Layout::default() }));
    for said in [
        "in A     transparent huge pages: madvise → always",
        "state: complete → interrupted",
        "interrupted after 1 of 24 cases: compared as far",
    ] {
        assert!(text.contains(said), "`{said}` is missing:\n{text}");
    }
}

#[test]
fn what_a_run_of_a_lacks_is_taken_from_the_others_and_counted() {
    let invalid = run(1, 7_654_321.0, 10).records.remove(0);
    let invalid = invalid.judged(State::Invalid, vec![Reason::new(Cause::WrongWork, "wrong")]);
    let mut spoilt = run(1, 1.0, 10);
    spoilt.records = vec![invalid];
    let sound = run(2, 100.0, 10);
    let b = run(9, 120.0, 10);
    let comparison = compare_to_all(&[&spoilt, &sound], &b, &Noise::default(), 7);
    assert_eq!((comparison.rows[0].runs_a, comparison.rows[0].a), (1, 100.0));
    let text = plain(&render(&comparison, &Layout { width: 140, ..Layout::default() }));
    let text = text.split_whitespace().collect::<Vec<&str>>().join(" ");
    assert!(text.contains("1 case rests on fewer than the 2"), "{text}");
    let comparison = compare_to_all(&[&spoilt], &b, &Noise::default(), 7);
    assert!(comparison.rows.is_empty());
    assert_eq!(comparison.not_comparable[0].reason, "invalid in A");
}

#[test]
fn parameters_of_other_names_are_never_compared_and_it_is_said() {
    let case = |name: &str| {
        let mut record = of("x", Unit::Nanoseconds, 100.0, 10);
        record.params = Params::one(name, 4096);
        record
    };
    let (a, b) = documents(vec![case("set_bytes")], vec![case("bytes")]);
    let comparison = compare(&a, &b, &Noise::default(), 7);
    assert!(comparison.rows.is_empty());
    let [one] = comparison.not_comparable.as_slice() else { panic!("{comparison:?}") };
    assert_eq!(one.reason, "its parameters are {set_bytes} in A, {bytes} in B");
    // Another value of the same parameter is another case, and no more.
    let (a, mut b) = documents(vec![case("bytes")], vec![case("bytes")]);
    b.records[0].params = Params::one("bytes", 8192);
    let comparison = compare(&a, &b, &Noise::default(), 7);
    assert!(comparison.rows.is_empty() && comparison.not_comparable.is_empty());
    assert_eq!((comparison.only_a.len(), comparison.only_b.len()), (1, 1));
}

/// Every fact that bears on a measurement, changed alone, is said.
#[test]
fn whatever_differs_is_said() {
    let a = document();
    type Change = fn(&mut Document);
    let changes: [(&str, Change); 14] = [
        ("host: falcon → other", |b| b.host.name = "other".to_owned()),
        ("kernel: 6.18.44 → 7.0.1", |b| b.host.kernel = "7.0.1".to_owned()),
        ("tool: fathom 0.1.0 → fathom 0.2.0", |b| b.tool.version = "0.2.0".to_owned()),
        ("transparent huge pages: unknown → never", |b| {
            b.host.memory.thp = Some("never".to_owned());
        }),
        ("governor: performance → powersave", |b| {
            b.host.cpu.governor = Some("powersave".to_owned());
        }),
        ("CPU quota: none → 0.50 CPUs", |b| b.host.cgroup.cpu_quota = Some(0.5)),
        ("CPUs allowed: 0 1 → 0", |b| b.host.cpu.allowed = vec![0]),
        ("cores: unknown → 2", |b| b.host.cpu.cores = Some(2)),
        ("huge pages reserved: none → 2 MiB: 64", |b| {
            b.host.memory.huge_pages = [(2 << 20, 64)].into();
        }),
        ("spectre_v2: Mitigation: IBRS → unknown", |b| b.host.mitigations.clear()),
        ("effort: quick → thorough", |b| b.run.effort = Effort::Thorough),
        ("CPU measured on: 1 → 0", |b| b.run.cpu = 0),
        ("tuned: none → governor", |b| b.run.tuned = vec!["governor".to_owned()]),
        ("imposed: none → FATHOM_SPIN=cpu.call=5%", |b| {
            b.run.notes = vec!["FATHOM_SPIN=cpu.call=5% was imposed".to_owned()];
        }),
    ];
    for (said, change) in changes {
        let mut b = a.clone();
        change(&mut b);
        let found = differences(&a, &b);
        let [one] = found.as_slice() else { panic!("{said}: {found:?}") };
        assert_eq!(format!("{}: {} → {}", one.what, one.a, one.b), said);
    }
}

/// Every kind of row, and of what cannot be one.
fn before_and_after() -> (Document, Document) {
    let ns = Unit::Nanoseconds;
    let invalid = |record: Record| {
        record.judged(State::Invalid, vec![Reason::new(Cause::WrongWork, "wrong")])
    };
    let noisy =
        |record: Record| record.judged(State::Noisy, vec![Reason::new(Cause::Steal, "steal")]);
    let long = |median| {
        let mut record = of("file.read.throughput", Unit::BytesPerSecond, median, 10);
        record.params = Params::one("block_bytes", 131_072).and("state", "cold").and("threads", 4);
        record
    };
    let mut hertz = of("unit.changed", Unit::Hertz, 10.0, 10);
    let (mut a, mut b) = documents(
        vec![
            of("os.syscall", ns, 165.2, 10),
            of("os.switch", ns, 1_204.0, 10),
            of("os.slower_yet", ns, 1.0, 10),
            long(3.1e9),
            of("cpu.frequency", Unit::Hertz, 4.498e9, 10),
            noisy(of("os.signal", ns, 874.0, 5)),
            of("os.fork", ns, 98_430.0, 5),
            of("cpu.call", ns, 1.334, 10),
            of("memory.latency", ns, 92.0, 10),
            of("gone", ns, 1.0, 10),
            hertz.clone(),
            of("bound", ns, 1.0, 10).with(|summary| summary.bound = Some(0.2)),
        ],
        vec![
            of("os.syscall", ns, 181.3, 10),
            of("os.switch", ns, 990.0, 10),
            of("os.slower_yet", ns, 2.5e9, 10),
            long(1.9e9),
            of("cpu.frequency", Unit::Hertz, 3.9e9, 10),
            of("os.signal", ns, 1_000.0, 5),
            of("os.fork", ns, 98_400.0, 5),
            of("cpu.call", ns, 1.335, 10),
            invalid(of("memory.latency", ns, 7_654_321.0, 10)),
            of("new.one", ns, 1.0, 10),
            of("bound", ns, 1.0, 10),
        ],
    );
    hertz.unit = ns;
    b.records.push(hertz);
    a.host.kernel = "6.1.0-18".to_owned();
    b.host.cpu.governor = Some("powersave".to_owned());
    b.host.mitigations.insert("spectre_v2".to_owned(), "Vulnerable".to_owned());
    b.host.mitigations.insert("retbleed".to_owned(), "Mitigation: IBRS".to_owned());
    b.host.cgroup.cpu_quota = Some(0.5);
    b.tool.version = "0.2.0".to_owned();
    (a, b)
}

#[test]
fn a_comparison_at_60_80_and_120_columns() {
    let (a, b) = before_and_after();
    let comparison = compare(&a, &b, &Noise::default(), 7);
    let text: Vec<String> = [60, 80, 120]
        .into_iter()
        .map(|width| {
            let layout = Layout { width, ..Layout::default() };
            plain(&render(&comparison, &layout))
        })
        .collect();
    insta::assert_snapshot!(text.join("\n=====\n"));
}
