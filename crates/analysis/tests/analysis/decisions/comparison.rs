//! Two runs, and several, side by side.

use fathom_analysis::compare::{ComparisonAnswer, ComparisonWord, Needs, Noise, NoiseBy, compare};
use fathom_analysis::differences::differences;
use fathom_record::command::COMMAND;
use fathom_record::measured_by::NAME;
use fathom_record::{
    Basis, Better, Cause, Document, Fact, Interval, MeasuredBy, Params, Record, State, Unit, Value,
    Verdict,
};

use super::runs::{bare, compared, comparison, record, run, summary};

const NS: Unit = Unit::Nanoseconds;

/// The word of a case of one metric.
fn word(a: Record, b: Record) -> ComparisonWord {
    compared(vec![a], vec![b]).rows[0].word
}

#[test]
fn words_depend_on_direction_unit_and_processes() {
    let rate = Unit::BytesPerSecond;
    for (unit, a, b, processes, expected) in [
        (NS, 100.0, 110.0, 10, ComparisonWord::Slower),
        (NS, 110.0, 100.0, 10, ComparisonWord::Faster),
        (rate, 100.0, 110.0, 10, ComparisonWord::Faster),
        (rate, 110.0, 100.0, 10, ComparisonWord::Slower),
        (Unit::Hertz, 100.0, 110.0, 10, ComparisonWord::Changed),
        (NS, 100.0, 100.1, 10, ComparisonWord::Unchanged),
        (NS, 100.0, 110.0, 7, ComparisonWord::LooksSlower),
        (rate, 100.0, 110.0, 7, ComparisonWord::LooksFaster),
        (Unit::Hertz, 100.0, 110.0, 5, ComparisonWord::LooksChanged),
        (NS, 100.0, 100.1, 5, ComparisonWord::Unchanged),
    ] {
        let word = word(record("x", unit, a, processes), record("x", unit, b, processes));
        assert_eq!(word, expected, "{a} → {b} {unit:?} of {processes} processes");
    }
}

#[test]
fn unchanged_needs_the_interval_within_two_per_cent() {
    let row = |a: Record, b: Record| compared(vec![a], vec![b]).rows.remove(0);
    let near = row(record("x", NS, 100.0, 40), record("x", NS, 101.5, 40));
    assert!(near.interval.unwrap()[0] > 1.0, "{near:?}");
    assert_eq!((near.word, near.unchanged_within), (ComparisonWord::Unchanged, Some(0.02)));
    let wide = row(scattered(), scattered());
    assert_eq!(
        (wide.word, wide.unchanged_within, wide.ratio),
        (ComparisonWord::Inconclusive, None, Some(1.0))
    );
}

#[test]
fn noise_limit_is_the_margin_without_kept_runs() {
    let five = |number| {
        let mut run = run(number, 100.0, 5);
        summary(&mut run).process_medians = vec![97.0, 99.0, 100.0, 101.0, 103.0];
        run
    };
    let word = |limit: f64| {
        let noise = Noise::default().with_limits([("x", limit)]);
        let row = compare(&five(1), &five(2), &noise, 7).rows.remove(0);
        (row.word, row.unchanged_within)
    };
    assert_eq!(word(0.07), (ComparisonWord::Unchanged, Some(0.07)));
    assert_eq!(word(0.01), (ComparisonWord::Inconclusive, None), "2 % at least, and no more");
    assert_eq!(
        word(0.5),
        (ComparisonWord::Inconclusive, None),
        "a margin above 30 % shows nothing"
    );
}

#[test]
fn single_processes_are_compared_within_their_runs() {
    let single = |number, median: f64, [low, high]: [f64; 2]| {
        let mut run = run(number, median, 2);
        let summary = summary(&mut run);
        summary.process_medians.clear();
        summary.interval = Some(Interval::new([low, high], 0.95, Basis::WithinRun));
        run
    };
    let noise = Noise::default().with_limits([("x", 0.1)]);
    let row = |b| compare(&single(1, 100.0, [80.0, 125.0]), &b, &noise, 7).rows.remove(0);
    let twice = row(single(2, 200.0, [160.0, 250.0]));
    // Both intervals are × and ÷ 1.25, and the ratio's is × and ÷ 1.25 to the power of √2.
    let factor = 1.25_f64.powf(2_f64.sqrt());
    let [low, high] = twice.interval.unwrap();
    assert!((low - 2.0 / factor).abs() < 1e-9 && (high - 2.0 * factor).abs() < 1e-9, "{twice:?}");
    assert_eq!((twice.word, twice.ratio), (ComparisonWord::LooksSlower, Some(2.0)));
    assert_eq!(row(run(2, 200.0, 10)).ratio, None, "of one process to ten");
    // Runs may differ by as much as the noise limit, and equality of one pair shows nothing.
    let word =
        |b, noise: &Noise| compare(&single(1, 100.0, [99.9, 100.1]), &b, noise, 7).rows[0].word;
    assert_eq!(word(single(2, 109.0, [108.9, 109.1]), &noise), ComparisonWord::Inconclusive);
    assert_eq!(word(single(2, 111.0, [110.9, 111.1]), &noise), ComparisonWord::LooksSlower);
    assert_eq!(word(single(2, 100.0, [99.9, 100.1]), &noise), ComparisonWord::Inconclusive);
}

/// A record of five processes far apart.
fn scattered() -> Record {
    let medians = vec![80.0, 90.0, 100.0, 110.0, 120.0];
    record("few", NS, 100.0, 5).with_summary(|it| it.process_medians = medians)
}

#[test]
fn word_of_change_needs_eight_processes_on_each_side() {
    let b = |count| record("x", NS, 110.0, count);
    assert_eq!(word(record("x", NS, 100.0, 8), b(7)), ComparisonWord::LooksSlower);
    assert_eq!(word(record("x", NS, 100.0, 8), b(8)), ComparisonWord::Slower);
}

#[test]
fn sizes_do_not_become_faster() {
    let of = |bytes| Record { better: Better::Higher, ..record("x", Unit::Bytes, bytes, 5) };
    assert_eq!(word(of(100.0), of(110.0)), ComparisonWord::LooksBetter);
}

#[test]
fn run_compared_with_itself_does_not_change() {
    let mut run = run(1, 100.0, 10);
    run.records.extend([record("y", NS, 5.0, 5), record("z", Unit::Hertz, 4e9, 10)]);
    let same = comparison(&[&run], &run);
    assert!(same.differences.is_empty() && same.only_a.is_empty() && same.only_b.is_empty());
    assert!(
        same.rows.len() == 3 && same.rows.iter().all(|row| row.word == ComparisonWord::Unchanged)
    );
}

#[test]
fn same_seed_gives_the_same_comparison() {
    let (a, b) = (run(1, 100.0, 7), run(2, 103.0, 9));
    assert_eq!(comparison(&[&a], &b), comparison(&[&a], &b));
}

#[test]
fn chance_among_many_cases_is_no_regression() {
    let many = |last: f64| -> Vec<Record> {
        let case = |i: i64| Record {
            params: Params::one("case", i),
            ..record("x", NS, if i == 19 { last } else { 100.0 }, 10)
        };
        (0..20).map(case).collect()
    };
    let comparison = compared(many(100.0), many(150.0));
    let worse: Vec<_> =
        comparison.rows.iter().filter(|row| row.word.is_certainly_worse()).collect();
    assert!(worse.len() == 1 && worse[0].p_adjusted > worse[0].p, "{worse:?}");
}

#[test]
fn noisy_run_lets_changes_only_look_so() {
    let (a, mut b) = (run(1, 100.0, 10), run(2, 150.0, 10));
    // Of a result, each side is marked by its own verdict.
    let mut noisy = run(3, 150.0, 10);
    noisy.records[0].verdict = Verdict::because(State::Noisy, Cause::Spread, "wide");
    let marks = |a: &Document, b: &Document| {
        let row = comparison(&[a], b).rows.remove(0);
        [row.noisy_a, row.noisy_b]
    };
    assert_eq!([marks(&a, &noisy), marks(&noisy, &a)], [[false, true], [true, false]]);
    let word = |b: &Document| comparison(&[&a], b).rows.remove(0).word;
    assert_eq!((word(&b), word(&noisy)), (ComparisonWord::Slower, ComparisonWord::LooksSlower));
    // Also of a valid number, if others took its CPU.
    noisy.records[0].verdict = Verdict::because(State::Valid, Cause::Contention, "others");
    assert_eq!(word(&noisy), ComparisonWord::LooksSlower);
    b.run.verdict = Verdict::because(State::Noisy, Cause::MachineDrift, "autocorrelated");
    let comparison = comparison(&[&a], &b);
    assert_eq!(comparison.rows[0].word, ComparisonWord::LooksSlower);
    assert_eq!(comparison.b.noisy.as_deref(), Some("autocorrelated"));
}

#[test]
fn several_runs_are_one_side_with_all_their_processes() {
    let runs = [run(1, 100.0, 5), run(3, 100.2, 5), run(2, 99.9, 5)];
    let comparison = comparison(&runs.each_ref(), &run(9, 120.0, 10));
    let row = &comparison.rows[0];
    assert_eq!((row.runs_a, row.processes_a, row.word), (3, 15, ComparisonWord::Slower), "{row:?}");
    assert!((row.a - 100.0).abs() < 0.2, "the median of all processes: {row:?}");
    assert_eq!(comparison.a.id, format!("{:016x}", 3), "the newest");
    let more: Vec<&str> = comparison.more_a.iter().map(|side| side.id.as_str()).collect();
    assert_eq!(more, [format!("{:016x}", 2), format!("{:016x}", 1)]);
}

#[test]
fn spread_between_runs_of_a_is_noise() {
    let apart = [run(1, 95.0, 10), run(2, 100.0, 10), run(3, 105.0, 10)];
    let b = run(9, 108.0, 10);
    let row = comparison(&apart.each_ref(), &b).rows.remove(0);
    assert_eq!((row.word, row.noise_by), (ComparisonWord::Unchanged, Some(NoiseBy::A)), "{row:?}");
    // ln 95, ln 100 and ln 105 scatter by 0.050; t of 2 degrees is 4.30, and √(4/3) for one more.
    assert!((row.noise.unwrap() - 0.282).abs() < 0.005, "{row:?}");
    let alike = [run(1, 100.1, 10), run(2, 100.0, 10), run(3, 99.9, 10)];
    let row = comparison(&alike.each_ref(), &b).rows.remove(0);
    assert_eq!(row.word, ComparisonWord::Slower, "{row:?}");
}

/// Runs that differ as whole runs, and in nothing else: a pool of their processes would take what
/// makes a run slower for a change, again and again.
#[test]
fn unchanged_machine_is_hardly_ever_called_changed() {
    let worlds = 40;
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
            comparison(&a, &run(99, off(50), 10)).rows[0].word < ComparisonWord::Unchanged
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
fn missing_case_of_one_run_of_a_uses_the_others() {
    let mut spoilt = run(1, 7_654_321.0, 10);
    spoilt.records[0].verdict = Verdict::because(State::Invalid, Cause::WrongWork, "wrong");
    let (sound, b) = (run(2, 100.0, 10), run(9, 120.0, 10));
    let row = comparison(&[&spoilt, &sound], &b).rows.remove(0);
    assert_eq!((row.runs_a, row.a), (1, 100.0));
    let comparison = comparison(&[&spoilt], &b);
    assert!(comparison.rows.is_empty());
    assert_eq!(comparison.not_comparable[0].reason, "invalid in A");
}

#[test]
fn bounds_texts_and_other_units_are_not_comparable() {
    let sound = || run(1, 100.0, 10);
    let reason = |change: fn(&mut Document), of_both: bool| {
        let (mut a, mut b) = (sound(), sound());
        change(&mut b);
        if of_both {
            change(&mut a);
        }
        let comparison = comparison(&[&a], &b);
        assert!(comparison.rows.is_empty(), "{comparison:?}");
        comparison.not_comparable[0].reason.clone()
    };
    assert_eq!(reason(|run| summary(run).bound = Some(0.183), true), "only ≤ 0.19 ns in both");
    let text = |run: &mut Document| run.records[0].value = Some(Value::Text("7f3a".to_owned()));
    assert_eq!(reason(text, false), "no quantity, 7f3a, in B");
    assert_eq!(reason(|run| summary(run).median = -1.0, false), "no value in B");
    assert_eq!(reason(|run| run.records[0].unit = Unit::Bytes, false), "ns in A, bytes in B");
    let higher = |run: &mut Document| run.records[0].better = Better::Higher;
    assert_eq!(reason(higher, false), "lower is better in A, higher is better in B");
    let emulate = |run: &mut Document| {
        run.records[0].verdict = Verdict::because(State::Noisy, Cause::Emulated, "");
    };
    assert_eq!(reason(emulate, false), "CPU emulated in B");
    assert_eq!(reason(emulate, true), "CPU emulated in both");
}

#[test]
fn change_with_cpus_elsewhere_only_looks_like_one() {
    let with_distances = |of_a: f64, of_b: f64, change: fn(&mut Document)| {
        let (mut a, mut b) = (run(1, 100.0, 10), run(2, 200.0, 10));
        summary(&mut a).distance_ns = Some(of_a);
        summary(&mut b).distance_ns = Some(of_b);
        change(&mut b);
        let comparison = comparison(&[&a], &b);
        let gate = comparison.gate(0.05, None);
        let needs = gate.undecided.first().and_then(|loss| loss.needs);
        (comparison.rows[0].word, comparison.rows[0].distances, gate.answer, needs)
    };
    let (word, distances, answer, needs) = with_distances(7.0, 60.0, |_| {});
    assert_eq!((word, distances), (ComparisonWord::LooksSlower, Some([7.0, 60.0])));
    assert_eq!((answer, needs), (ComparisonAnswer::Undecided, Some(Needs::EqualDistance)));
    let (word, distances, answer, _) = with_distances(50.0, 70.0, |_| {});
    assert_eq!((word, distances, answer), (ComparisonWord::Slower, None, ComparisonAnswer::Fail));
    // Another host has other distances.
    let (word, distances, ..) = with_distances(7.0, 60.0, |run| run.host.id = Some("other".into()));
    assert_eq!((word, distances), (ComparisonWord::Slower, None));
}

#[test]
fn parameters_of_other_names_are_never_compared() {
    let case = |name: &str, value: i64| {
        vec![Record { params: Params::one(name, value), ..record("x", NS, 100.0, 10) }]
    };
    let comparison = compared(case("set_bytes", 4096), case("bytes", 4096));
    assert!(comparison.rows.is_empty());
    let [one] = comparison.not_comparable.as_slice() else { panic!("{comparison:?}") };
    assert_eq!(one.reason, "its parameters are {set_bytes} in A, {bytes} in B");
    // Another value of the same parameter is another case, and no more.
    let comparison = compared(case("bytes", 4096), case("bytes", 8192));
    assert!(comparison.rows.is_empty() && comparison.not_comparable.is_empty());
    assert_eq!((comparison.only_a.len(), comparison.only_b.len()), (1, 1));
}

/// Names are for people: a host is known by its id.
#[test]
fn host_is_known_by_its_id_and_not_its_name() {
    let with = |number, id: &str, name: &str| {
        let mut run = bare(number);
        (run.host.id, run.host.name) = (Some(id.to_owned()), name.to_owned());
        run
    };
    let (a, renamed) = (with(1, "aaaaaaaa00", "old"), with(2, "aaaaaaaa00", "new"));
    let said = |a: &Document, b: &Document| {
        let found = differences(a, b);
        found.iter().map(|one| format!("{}: {} → {}", one.what, one.a, one.b)).collect::<Vec<_>>()
    };
    assert_eq!(said(&a, &renamed), ["host name: old → new"]);
    let namesake = with(3, "bbbbbbbb00", "old");
    assert_eq!(said(&a, &namesake), ["host: old (aaaaaaaa) → old (bbbbbbbb)"]);
    let comparison = comparison(&[&a], &namesake);
    assert_eq!(comparison.a.host, "old (aaaaaaaa)");
    assert_eq!(comparison.b.host, "old (bbbbbbbb)");
}

fn of_command(id: &str, command: &str, ns: f64) -> Record {
    let facts = vec![Fact::text(COMMAND, command)];
    Record { facts, ..record(id, Unit::Nanoseconds, ns, 9) }
}

fn of_tool(id: &str, title: &str, name: Option<&str>) -> Record {
    let facts = name.iter().map(|name| Fact::text(NAME, *name)).collect();
    let measured_by = Some(MeasuredBy { tool: "go".to_owned(), ..MeasuredBy::default() });
    let title = title.to_owned();
    Record { facts, measured_by, title, ..record(id, Unit::Nanoseconds, 1.0, 9) }
}

#[test]
fn another_command_of_one_name_is_said() {
    let of_a = || of_command("bench.enc", "enc small", 1e6);
    let one = compared(vec![of_a()], vec![of_command("bench.enc", "enc large", 2e6)]);
    let [difference] = one.differences.as_slice() else { panic!("{:?}", one.differences) };
    assert_eq!(difference.what, "bench.enc, another command");
    assert_eq!((&*difference.a, &*difference.b), ("enc small", "enc large"));
    assert_eq!(compared(vec![of_a()], vec![of_a()]).differences, []);
    // By names of their own nothing is compared.
    let other = compared(vec![of_a()], vec![of_command("bench.enc-1", "enc large", 2e6)]);
    let [reason] = other.not_comparable.as_slice() else { panic!("{other:?}") };
    assert_eq!(reason.reason, "another command, `enc small` in A, `enc large` in B");
    assert!(other.rows.is_empty());
}

#[test]
fn one_command_is_compared_under_the_ids_of_two_versions() {
    let of = |id: &str| of_command(id, "enc data/small", 1e6);
    let one = compared(vec![of("bench.enc-data")], vec![of("bench.enc-da-01234567")]);
    assert_eq!(one.rows.len(), 1);
    assert!(one.only_a.is_empty() && one.only_b.is_empty() && one.not_comparable.is_empty());
    // Two of it are no pair.
    let two = vec![of("bench.enc-da-01234567"), of("bench.enc-2")];
    assert!(compared(vec![of("bench.enc-data")], two).rows.is_empty());
}

#[test]
fn benchmarks_of_tools_are_compared_by_their_whole_names() {
    let id = "import.go.cart.Add";
    for (a, b, is_compared) in [
        (of_tool(id, "Add-4", Some("shop/cart.Add-4")), of_tool(id, "Add-4", None), true),
        (
            of_tool(id, "Add-4", Some("shop/cart.Add-4")),
            of_tool(id, "Add-4", Some("other/cart.Add-4")),
            false,
        ),
        (of_tool(id, "a+b", None), of_tool(id, "a*b", None), false),
        (of_tool(id, "a+b", None), of_tool("import.go.a_b-01234567", "a+b", None), true),
    ] {
        let found = compared(vec![a], vec![b]);
        assert_eq!(found.rows.len(), usize::from(is_compared), "{found:?}");
        let reasons = found.not_comparable.iter().map(|one| one.reason.as_str());
        assert!(reasons.clone().all(|it| it.starts_with("another benchmark, `")));
        assert_eq!(reasons.count(), usize::from(!is_compared));
    }
}
