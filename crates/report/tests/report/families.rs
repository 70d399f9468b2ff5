//! Curves and matrices: a few lines for many cases, with all that speaks against any of them.

use crate::fixture::{Build, FORBIDDEN, document, measured, plain};
use fathom_record::host::Cache;
use fathom_record::{Cause, Document, Params, Prediction, Reason, Record, State, Unit};
use fathom_report::{Layout, Table};

/// Latencies of 1 KiB to 128 MiB as a machine with 32 KiB, 1 MiB and 32 MiB of cache has them.
const PLATEAUS: [f64; 18] = [
    1.08, 1.08, 1.08, 1.08, 1.08, 1.12, 3.3, 3.72, 3.75, 3.81, 4.4, 11.9, 12.8, 13.1, 15.2, 31.0,
    96.0, 112.0,
];
const DEFECT: &str = "pages: 3 of 64 were not of the size asked for";
const SLOW: &str = "the core itself was up to 1.61 times slower in 3 of 5 processes";
const SHARED: &str = "other machines use a part of the last-level cache";

fn size(at: usize) -> i64 {
    1024 << at
}

fn point(page: &str, at: usize, ns: f64) -> Record {
    let params =
        Params::one("set_bytes", size(at)).and("page", page).and("pattern", "random");
    let expected = [1.08, 3.75, 13.0, 100.0][match size(at) >> 10 {
        0..=32 => 0,
        33..=1024 => 1,
        1025..=32768 => 2,
        _ => 3,
    }];
    let prediction = Prediction::sum(expected, 0.0, 0.3, "cycles ÷ frequency", "test")
        .with_input("cycles", expected * 3.7, "data/uarch.toml")
        .if_above(SHARED);
    measured("memory.latency", params, Unit::Nanoseconds, ns, 0.01)
        .titled("Dependent load")
        .claimed(prediction)
}

fn slow() -> Reason {
    Reason::new(Cause::SlowCore, SLOW).with_next("measure on a quieter or dedicated host")
}

/// 4 KiB pages with a noisy point, one that must not be believed and some that differ; huge pages
/// with two noisy points for the cause already told.
fn curves() -> Vec<Record> {
    let small = (0..18).map(|at| match at {
        7 => point("4K", at, PLATEAUS[at] * 1.4)
            .with(|summary| summary.ci95 = Some([3.6, 5.9]))
            .judged(State::Noisy, vec![slow()]),
        9 => point("4K", at, FORBIDDEN)
            .judged(State::Invalid, vec![Reason::new(Cause::NotAsAsked, DEFECT)]),
        14 => point("4K", at, 29.0),
        _ => point("4K", at, PLATEAUS[at]),
    });
    let huge = (0..18).map(|at| {
        let one = point("huge", at, PLATEAUS[at] * if at > 6 { 0.9 } else { 1.0 });
        if at == 11 || at == 12 { one.judged(State::Noisy, vec![slow()]) } else { one }
    });
    small.chain(huge).collect()
}

fn pair(a: i64, b: i64, ns: f64) -> Record {
    measured("memory.core_to_core", Params::one("a", a).and("b", b), Unit::Nanoseconds, ns, 0.01)
        .titled("Cache-line ping-pong")
        .without_model("the interconnect is not documented")
}

/// Pairs of so many CPUs, four to a complex.
fn pairs(cpus: i64) -> Vec<Record> {
    let all = (0..cpus).flat_map(|a| (a + 1..cpus).map(move |b| (a, b)));
    all.map(|(a, b)| {
        let far = if a / 4 == b / 4 { 45.0 } else { 112.0 };
        pair(a, b, far + a as f64 / 2.0 + b as f64 / 4.0)
    })
    .collect()
}

fn with(mut records: Vec<Record>) -> Document {
    let mut document = document();
    let cache = |level, kind: &str, kib: u64| Cache {
        level,
        kind: kind.to_owned(),
        size_bytes: kib << 10,
        ..Cache::default()
    };
    document.host.cpu.caches = vec![
        cache(1, "data", 32),
        cache(1, "instruction", 64),
        cache(2, "unified", 1024),
        cache(3, "unified", 32 << 10),
    ];
    let others = document.records.split_off(3);
    document.records.append(&mut records);
    document.records.extend(others.into_iter().take(2));
    document.records = document.records.into_iter().map(Record::sealed).collect();
    document
}

fn layout(width: usize) -> Layout {
    Layout { width, ..Layout::default() }
}

fn table(document: &Document, layout: Layout) -> String {
    let mut table = Table::new(layout).on(&document.host);
    let mut text = table.header();
    text += &table.rows(&document.records);
    text += &table.foot();
    plain(&text)
}

#[test]
fn curves_at_60_80_100_and_140_columns() {
    let document = with(curves());
    let texts = [60, 80, 100, 140].map(|width| table(&document, layout(width)));
    insta::assert_snapshot!(texts.join("\n"));
}

#[test]
fn matrices_at_60_80_and_140_columns() {
    let mut noisy = pairs(8);
    noisy[3] = pair(0, 4, 131.0).judged(State::Noisy, vec![slow()]);
    noisy[5] = pair(0, 6, FORBIDDEN)
        .judged(State::Invalid, vec![Reason::new(Cause::NotAsAsked, DEFECT)]);
    let mut texts = vec![table(&with(pairs(4)), layout(80))];
    texts.extend([60, 80, 140].map(|width| table(&with(noisy.clone()), layout(width))));
    texts.push(table(&with(pairs(24)), layout(140)));
    insta::assert_snapshot!(texts.join("\n"));
}
