//! Two runs held against each other.

use crate::fixture::{Build, document, measured, plain};
use fathom_record::{Better, Cause, Document, Params, Reason, Record, State, Unit};
use fathom_report::Layout;
use fathom_report::compare::{Compared, Noise, Word, compare, render};

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
