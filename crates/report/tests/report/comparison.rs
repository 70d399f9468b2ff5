//! Comparisons as text.

use crate::fixture::{document, layout, measured, plain};
use crate::{assert_snapshot, assert_titled};
use fathom_analysis::compare::{
    Comparison, ComparisonWord, Noise, NoiseBy, Share, compare, compare_to_all,
};
use fathom_analysis::differences::Difference;
use fathom_record::{Cause, Document, NotSelected, Params, Reason, Record, RunState, State, Unit};
use fathom_report::Layout;
use fathom_report::compare::render;

/// A record of `count` processes around `median`.
fn record_of(metric: &str, unit: Unit, median: f64, count: usize) -> Record {
    let medians = Record::fixture(metric, unit).of_processes(median, 0.003, count).summary;
    measured(metric, Params::none(), unit, median, 0.003)
        .with_summary(|it| it.process_medians = medians.expect("measured").process_medians)
}

fn documents(a: Vec<Record>, b: Vec<Record>) -> (Document, Document) {
    let (mut left, mut right) = (document(), document());
    left.records = a;
    right.records = b;
    right.run.id = "0198c1a2b3c4d5ff".to_owned();
    (left, right)
}

/// A run of one metric with ten processes around `median`.
fn run(number: usize, median: f64) -> Document {
    let mut run = document();
    run.run.id = format!("{number:016x}");
    run.records = vec![record_of("x", Unit::Nanoseconds, median, 10)];
    run
}

/// Sets the word of the case, also net of its class.
fn set(comparison: &mut Comparison, word: ComparisonWord, share: Share) {
    let row = &mut comparison.rows[0];
    (row.word, row.share) = (word, share);
    row.net.iter_mut().for_each(|net| net.word = word);
}

fn noise_by(comparison: &mut Comparison, by: NoiseBy) {
    set(comparison, ComparisonWord::Unchanged, Share::Unchanged);
    let row = &mut comparison.rows[0];
    (row.noise, row.noise_by, row.unchanged_within) = (Some(0.204), Some(by), Some(0.204));
    comparison.noise_runs = if by == NoiseBy::Kept { 12 } else { 0 };
}

fn gate(comparison: &mut Comparison, interval: [f64; 2], word: ComparisonWord) {
    comparison.rows[0].interval = Some(interval);
    set(comparison, word, Share::Differs);
    comparison.gate = Some(comparison.gate(0.05, None));
}

/// Only the words that differ of a long list are printed.
fn differ(comparison: &mut Comparison) {
    let long = |more: &str| format!("console=ttyS0 quiet {more} panic=1 root=/dev/vda ro a=1 b=2");
    for (what, a, b) in [
        ("kernel command line", long("psi=1 nomodule"), long("psi=1")),
        ("kernel", "6.1 x".to_owned(), "6.12 x".to_owned()),
    ] {
        comparison.differences.push(Difference { what: what.to_owned(), a, b });
    }
}

#[test]
fn comparison_has_its_remarks() {
    type Change = fn(&mut Comparison);
    let changes: [(&str, Change); 13] = [
        ("low-quality run", |it| it.b.noisy = Some("machine drift".to_owned())),
        ("core speed beside a certain change", |it| it.rows[0].core = Some(1.9)),
        ("core speed that explains the change", |it| {
            it.rows[0].core = Some(1.9);
            set(it, ComparisonWord::Inconclusive, Share::Inconclusive);
        }),
        ("core slower throughout B", |it| it.core = Some(1.5)),
        ("core slower throughout A", |it| it.core = Some(1.0 / 1.5)),
        ("differences", differ),
        ("looks slower, hours apart", |it| {
            set(it, ComparisonWord::LooksSlower, Share::Differs);
            it.hours_apart = Some(9.2);
        }),
        ("case missing in a run of A", |it| it.more_a.push(it.a.clone())),
        ("noise of stored runs", |it| noise_by(it, NoiseBy::Kept)),
        ("noise of A", |it| noise_by(it, NoiseBy::A)),
        ("gate: fail", |it| gate(it, [1.19, 1.21], ComparisonWord::Slower)),
        ("gate: undecided", |it| gate(it, [1.19, 1.21], ComparisonWord::LooksSlower)),
        ("gate: not gateable", |it| gate(it, [0.8, 1.43], ComparisonWord::LooksSlower)),
    ];
    let layout = Layout { all: true, ..layout(100) };
    let text = changes.map(|(title, change)| {
        let mut comparison = compare(&run(1, 100.0), &run(9, 120.0), &Noise::default(), 7);
        change(&mut comparison);
        (title, plain(&render(&comparison, &layout)))
    });
    assert_titled("comparison_remarks.txt", &text);
}

/// Three cases of one metric share a line.
#[test]
fn line_of_several_cases_has_values_and_a_ratio() {
    let case = |at: i64, median| Record {
        params: Params::one("case", at),
        ..record_of("x", Unit::Nanoseconds, median, 10)
    };
    let (a, b) = documents(
        (0..3).map(|at| case(at, 100.0)).collect(),
        (0..3).map(|at| case(at, 110.0 + 10.0 * at as f64)).collect(),
    );
    let comparison = compare(&a, &b, &Noise::default(), 7);
    let text = plain(&render(&comparison, &layout(120)));
    let line = text.lines().find(|line| line.starts_with("x (3 cases)")).expect("a line");
    assert!(line.contains("100.0 → 130.0 ns") && line.contains("≤ 30 % slower"), "{text}");
}

#[test]
fn differences_within_a_and_interruption_are_printed() {
    let (mut first, mut second) = (run(1, 100.0), run(2, 100.0));
    first.host.memory.thp = Some("madvise".to_owned());
    second.host.memory.thp = Some("always".to_owned());
    let mut b = run(9, 120.0);
    (b.run.state, b.run.planned) = (RunState::Interrupted, 24);
    b.host.memory.thp = Some("always".to_owned());
    let comparison = compare_to_all(&[&first, &second], &b, &Noise::default(), 7);
    let text = plain(&render(&comparison, &Layout { all: true, ..layout(140) }));
    for expected in [
        "in A     transparent huge pages: madvise → always",
        "state: complete → interrupted",
        "interrupted after 1 of 24 cases",
    ] {
        assert!(text.contains(expected), "`{expected}` is missing:\n{text}");
    }
}

/// Every kind of row, and of incomparable cases.
fn before_and_after() -> (Document, Document) {
    let ns = Unit::Nanoseconds;
    let invalid = |record: Record| {
        record.judged(State::Invalid, vec![Reason::new(Cause::WrongWork, "wrong")])
    };
    let noisy =
        |record: Record| record.judged(State::Noisy, vec![Reason::new(Cause::Steal, "steal")]);
    let long = |median| {
        let mut record = record_of("file.read.throughput", Unit::BytesPerSecond, median, 10);
        record.params = Params::one("block_bytes", 131_072).and("state", "cold").and("threads", 4);
        record
    };
    let mut hertz = record_of("unit.changed", Unit::Hertz, 10.0, 10);
    let (mut a, mut b) = documents(
        vec![
            record_of("os.syscall", ns, 165.2, 10).selected(11, 214.8),
            record_of("os.switch", ns, 1_204.0, 10).found(NotSelected::TooFewClean),
            record_of("os.slower_yet", ns, 1.0, 10),
            long(3.1e9),
            record_of("cpu.frequency", Unit::Hertz, 4.498e9, 10),
            noisy(record_of("os.signal", ns, 874.0, 5)),
            record_of("os.fork", ns, 98_430.0, 5),
            record_of("cpu.call", ns, 1.334, 10),
            record_of("memory.latency", ns, 92.0, 10),
            record_of("gone", ns, 1.0, 10),
            hertz.clone(),
            record_of("bound", ns, 1.0, 10).with_summary(|summary| summary.bound = Some(0.2)),
        ],
        vec![
            record_of("os.syscall", ns, 181.3, 10).selected(16, 190.0),
            record_of("os.switch", ns, 990.0, 10).selected(10, 990.0),
            record_of("os.slower_yet", ns, 2.5e9, 10),
            long(1.9e9),
            record_of("cpu.frequency", Unit::Hertz, 3.9e9, 10),
            record_of("os.signal", ns, 1_000.0, 5),
            record_of("os.fork", ns, 98_400.0, 5),
            record_of("cpu.call", ns, 1.335, 10),
            invalid(record_of("memory.latency", ns, 7_654_321.0, 10)),
            record_of("new.one", ns, 1.0, 10),
            record_of("bound", ns, 1.0, 10),
        ],
    );
    hertz.unit = ns;
    b.records.push(hertz);
    a.host.kernel = "6.1.0-18".to_owned();
    b.host.cpu.governor = Some("powersave".to_owned());
    b.host.mitigations.insert("spectre_v2".to_owned(), "Vulnerable".to_owned());
    b.host.mitigations.insert("retbleed".to_owned(), "Mitigation: IBRS".to_owned());
    a.host.cgroup.version = Some(2);
    (b.host.cgroup.version, b.host.cgroup.cpu_quota) = (Some(2), Some(0.5));
    b.tool.version = "0.2.0".to_owned();
    (a, b)
}

#[test]
fn comparison_at_60_80_and_120_columns() {
    let (a, b) = before_and_after();
    let comparison = compare(&a, &b, &Noise::default(), 7);
    let text: Vec<String> = [60, 80, 120]
        .into_iter()
        .map(|width| plain(&render(&comparison, &layout(width))))
        .collect();
    assert_snapshot("comparison_at_60_80_and_120_columns.txt", &text.join("\n=====\n"));
}

/// The core is 3 % slower, the kernel entry 12 %, and much besides.
fn moved() -> Comparison {
    let ns = Unit::Nanoseconds;
    let run = |core: f64, kernel: f64| {
        let mut records: Vec<Record> =
            (0..6).map(|at| record_of(&format!("cpu.m{at}"), ns, core, 10)).collect();
        records.extend((0..9).map(|at| record_of(&format!("os.m{at}"), ns, kernel, 10)));
        records.extend((0..14).map(|at| record_of(&format!("bench.m{at}"), ns, core, 10)));
        records
    };
    let (mut a, mut b) = documents(run(10.0, 100.0), run(10.3, 112.0));
    // In the order of the records.
    b.records[8] = record_of("os.m2", ns, 140.0, 10);
    for (at, it) in b.records[15..].iter_mut().enumerate() {
        *it = record_of(&format!("bench.m{at}"), ns, 10.0 * (1.0 + at as f64 / 50.0), 10);
    }
    (a.host.kernel, b.host.kernel) = ("6.1.0-18".to_owned(), "6.12.3-1".to_owned());
    a.host.cpu.governor = Some("performance".to_owned());
    b.host.cpu.governor = Some("powersave".to_owned());
    a.host.tcp.congestion = Some("bbr".to_owned());
    b.host.tcp.congestion = Some("cubic".to_owned());
    a.host.mitigations.insert("retbleed".to_owned(), "Vulnerable".to_owned());
    b.host.mitigations.insert("retbleed".to_owned(), "Mitigation: IBRS".to_owned());
    compare(&a, &b, &Noise::default(), 7)
}

#[test]
fn what_moved_together_comes_first() {
    let comparison = moved();
    let text: Vec<String> =
        [60, 80, 120].map(|width| plain(&render(&comparison, &layout(width)))).to_vec();
    assert_snapshot("comparison_of_factors.txt", &text.join("\n=====\n"));
    let of = |start: &str, end: &str| {
        let lines: Vec<&str> = text[1].lines().collect();
        let from = lines.iter().position(|line| line.starts_with(start)).expect("a line");
        lines[from..].iter().take_while(|line| !line.starts_with(end)).count()
    };
    assert_eq!(of("B is", "\n").min(of("B is", "A  ")), 3, "two lines, and an empty one");
    assert!(of("moved together", "beside") <= 1 + 8 + 1, "{}", text[1]);
    assert!(of("beside", "\n") <= 1 + 10 + 1 + 2, "{}", text[1]);
}

#[test]
fn gate_says_of_what_it_is_net() {
    let mut comparison = moved();
    let except = ["core speed".to_owned(), "device".to_owned()];
    comparison.gate = Some(comparison.gate_except(&except, 0.05, None));
    let text = plain(&render(&comparison, &layout(120)));
    let net = "fail at 5.0 % net of core speed (3.0 % slower), device (no factor):";
    assert!(text.starts_with(net), "{text}");
}

/// The core is 2 % slower, and the CPUs are farther apart.
#[test]
fn what_core_and_distance_explain_is_one_part_each() {
    let run = |times: f64, two: f64, distance: f64| {
        let of = |name: &str, at: usize, median: f64| {
            record_of(&format!("{name}.m{at}"), Unit::Nanoseconds, median, 10)
        };
        let slowed = |it: Record| {
            it.found(NotSelected::Device).with_summary(|summary| {
                let found = summary.as_found.as_mut().expect("it was set");
                found.process_loops.iter_mut().for_each(|ns| *ns *= times);
            })
        };
        let apart = |it: Record| {
            Record { params: Params::one("cpus", 2), ..it }
                .with_summary(|summary| summary.distance_ns = Some(distance))
        };
        let mut all: Vec<Record> = (0..6).map(|at| slowed(of("cpu", at, 10.0 * times))).collect();
        all.extend((0..6).map(|at| slowed(of("os", at, 100.0 * times))));
        all.extend((0..6).map(|at| apart(of("network", at, 100.0 * two))));
        all
    };
    let (a, b) = documents(run(1.0, 1.0, 23.0), run(1.02, 1.3, 124.0));
    let comparison = compare(&a, &b, &Noise::default(), 7);
    assert_snapshot("comparison_explained.txt", &plain(&render(&comparison, &layout(80))));
    let (a, b) = (b, a);
    let text = plain(&render(&compare(&a, &b, &Noise::default(), 7), &layout(100)));
    let nearer = "B is faster by 23 % (two CPUs, nearer), 2.0 % (with the core: 2 classes).";
    assert!(text.starts_with(nearer), "{text}");
    assert!(text.contains("6 with CPUs nearer"), "{text}");
}
