//! Curves and matrices: a few lines for many cases, with every problem of each case.

use crate::fixture::{FORBIDDEN, assert_fits, document, layout, measured, over, plain};
use crate::{assert_snapshot, assert_titled};
use fathom_analysis::compare::{Noise, compare};
use fathom_record::host::Cache;
use fathom_record::{
    Cause, Document, NoModel, NotSelected, Origin, Params, Prediction, Reason, Record, Remedy,
    State, Unit,
};
use fathom_report::compare::render;
use fathom_report::{Layout, Table, accounts, closing, kept, opening, show};

/// Latencies of 1 KiB to 128 MiB on a machine with caches of 32 KiB, 1 MiB and 32 MiB.
const PLATEAUS: [f64; 18] = [
    1.08, 1.08, 1.08, 1.08, 1.08, 1.12, 3.3, 3.72, 3.75, 3.81, 4.4, 11.9, 12.8, 13.1, 15.2, 31.0,
    96.0, 112.0,
];
const DEFECT: &str = "pages: 3 of 64 had another size";
const SLOW: &str = "SMT contention: core up to 1.61× slower in 3 of 5 processes";
const SHARED: &str = "shared last-level cache";

fn size(at: usize) -> i64 {
    1024 << at
}

fn point(page: &str, at: usize, ns: f64) -> Record {
    let params = Params::one("set_bytes", size(at)).and("page", page).and("pattern", "random");
    let expected = [1.08, 3.75, 13.0, 100.0][match size(at) >> 10 {
        0..=32 => 0,
        33..=1024 => 1,
        1025..=32768 => 2,
        _ => 3,
    }];
    let prediction = Prediction::sum(expected, 0.0, 0.3, "cycles ÷ frequency", "test")
        .with_input("cycles", expected * 3.7, Origin::Table { row: "zen4".to_owned() })
        .if_above(SHARED);
    measured("memory.latency", params, Unit::Nanoseconds, ns, 0.01)
        .titled("Dependent load")
        .claimed(prediction)
}

fn slow() -> Reason {
    Reason::new(Cause::SlowCore, SLOW).with_remedy(Remedy::QuieterHost)
}

/// 4 KiB pages with a noisy point, an invalid one and some outside; huge pages with two points that
/// are noisy for the same cause.
fn curves() -> Vec<Record> {
    let small = (0..18).map(|at| match at {
        7 => point("4K", at, PLATEAUS[at] * 1.4)
            .with_summary(|summary| summary.interval = over([3.6, 5.9]))
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
        .without_model(NoModel::SchedulersChoice)
}

/// Pairs of CPUs, four CPUs to a complex.
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
    assert_snapshot("curves_at_60_80_100_and_140_columns.txt", &texts.join("\n"));
}

#[test]
fn matrices_at_60_80_and_140_columns() {
    let mut noisy = pairs(8);
    noisy[3] = pair(0, 4, 131.0).judged(State::Noisy, vec![slow()]);
    noisy[5] =
        pair(0, 6, FORBIDDEN).judged(State::Invalid, vec![Reason::new(Cause::NotAsAsked, DEFECT)]);
    let mut texts = vec![table(&with(pairs(4)), layout(80))];
    texts.extend([60, 80, 140].map(|width| table(&with(noisy.clone()), layout(width))));
    texts.push(table(&with(pairs(24)), layout(140)));
    assert_snapshot("matrices_at_60_80_and_140_columns.txt", &texts.join("\n"));
}

/// The remedies in [`troubled`], and their texts.
const REMEDIES: [(Remedy, &str); 4] = [
    (Remedy::QuieterHost, "measure on a quieter or dedicated host"),
    (Remedy::MeasureLonger, "measure longer: --time, or --thorough"),
    (Remedy::MountProc, "mount /proc"),
    (Remedy::RunToEnd, "let the run finish"),
];

/// Both kinds of family with every problem that a point can have.
fn troubled() -> Vec<Record> {
    let states = [State::Noisy, State::Invalid, State::Unavailable, State::Failed];
    let causes = [Cause::Steal, Cause::WrongWork, Cause::Missing, Cause::Crashed];
    let mut records = curves();
    records.extend(pairs(8));
    for (nth, record) in records.iter_mut().enumerate() {
        if nth % 3 == 0 {
            let which = nth / 3 % 4;
            let text = format!("cause{}.", if which == 0 { 0 } else { nth });
            let reason = Reason::new(causes[which], text).with_remedy(REMEDIES[which].0.clone());
            record.verdict = fathom_record::Verdict { state: states[which], reasons: vec![reason] };
        }
    }
    records
}

#[test]
fn every_cause_and_remedy_is_printed_within_the_width() {
    let document = with(troubled());
    for width in [0, 60, 61, 79, 80, 99, 100, 101, 110, 123, 136, 160, 300] {
        for cycles in [false, true] {
            let text = table(&document, Layout { cycles, ..layout(width) });
            assert_fits(&text, width);
            let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
            let missing = document.records.iter().filter(|it| !it.verdict.shows_number());
            for reason in missing.flat_map(|record| &record.verdict.reasons) {
                assert!(words.contains(&reason.text), "{width}: {} is lost", reason.text);
            }
            // Of noisy points, a line has the causes with their counts.
            assert!(words.contains("CPU steal"), "{width}: {words}");
            for (_, remedy) in REMEDIES {
                assert!(words.contains(remedy), "{width}: {remedy} is lost");
            }
            assert!(!text.replace(['.', ' '], "").contains("7654"), "{width}: {text}");
        }
    }
}

#[test]
fn chart_is_ascii_of_14_lines_with_cache_marks() {
    for curves_drawn in [1, 2, 11, 30] {
        let name = |nth: usize| format!("page{nth}");
        let records = (0..curves_drawn).flat_map(|nth| {
            (0..18).map(move |at| point(&name(nth), at, PLATEAUS[at] * (1.0 + nth as f64 / 9.0)))
        });
        let document = with(records.collect());
        for width in [100, 140] {
            let text = table(&document, layout(width));
            let lines: Vec<&str> = text.lines().collect();
            let axis = lines.iter().rposition(|line| line.contains("-+---")).expect("an axis");
            let drawn = lines[..axis].iter().rposition(|line| !line.contains(" |")).unwrap();
            let legend = lines[axis + 2..].iter().take_while(|line| line.starts_with("    "));
            let count = axis + 2 - drawn + legend.count();
            // With 26 curves the legend alone takes more lines than the chart.
            assert!(count <= if curves_drawn > 11 { 30 } else { 14 }, "{count} lines: {text}");
            assert!(lines[drawn..axis + 2].iter().all(|line| line.is_ascii()), "{text}");
            assert!(lines[drawn].ends_with("L3") && lines[drawn].contains(" L1 "), "{text}");
        }
        assert!(!table(&document, layout(99)).contains("-+---"));
    }
}

#[test]
fn stored_run_is_printed_as_its_blocks_were() {
    let mut document = with([curves(), pairs(8)].concat());
    document.run.asked = document.records.iter().map(|it| it.metric.group().to_owned()).collect();
    for (size, cycles) in [(1, false), (3, true), (7, false), (10, true)] {
        let layout = Layout { cycles, ..layout(100) };
        let mut table = Table::new(layout).on(&document.host);
        let mut text = table.header();
        document.records.chunks(size).for_each(|block| text += &table.rows(block));
        text += &table.foot();
        text += &format!("\n{}", opening(&document, 100).trim_end_matches('\n'));
        text += &format!("\n{}", closing(&document, 100));
        text += &kept(&document, 100);
        let whole = show(&document, &layout);
        assert!(whole.ends_with(&text), "blocks of {size}: {whole}");
    }
    assert!(plain(&show(&document, &layout(80))).contains("\n69 cases: 65 valid, 3 noisy"));
}

#[test]
fn what_predictions_need_is_not_what_was_asked() {
    let mut document = with([curves(), pairs(8)].concat());
    document.run.asked = vec!["memory.core_to_core{a=0}".to_owned()];
    let text = plain(&show(&document, &layout(100)));
    let is_input = |it: &&Record| it.metric.as_str() != "memory.core_to_core";
    let inputs = document.records.iter().filter(is_input).count();
    assert!(!text.contains("memory.latency"), "{text}");
    let others = format!("\n{inputs} other results, which the predictions need: `fathom show");
    assert!(text.contains(&others), "{text}");
    let all = Layout { all: true, ..layout(100) };
    assert!(plain(&show(&document, &all)).contains("memory.latency"), "all of them");
}

#[test]
fn account_of_a_curve_explains_the_worst_kinds_of_cases() {
    let document = with(curves());
    let text = plain(&accounts(&curves(), &document, &layout(100)));
    assert_eq!(text.matches("formula: ").count(), 3, "{text}");
    assert!(text.contains("-+---") && text.contains(DEFECT) && text.contains("33 more cases"));
    let all = Layout { all: true, ..layout(100) };
    let text = plain(&accounts(&curves(), &document, &all));
    assert_eq!(text.matches("formula: ").count(), 36, "{text}");
    let few = plain(&accounts(&curves()[..3], &document, &layout(100)));
    assert_eq!(few.matches("formula: ").count(), 3, "{few}");
}

#[test]
fn unchanged_cases_are_counted() {
    let valid = || (0..18).map(|at| point("4K", at, PLATEAUS[at])).chain(pairs(8));
    let a = with(valid().collect());
    let mut records: Vec<Record> = valid().collect();
    records[4] = point("4K", 4, 2.0);
    let mut b = with(records);
    for width in [60, 80, 120] {
        let text = plain(&render(&compare(&a, &b, &Noise::default(), 1), &layout(width)));
        assert!(text.contains("set_bytes=16384}") && text.contains(" slower"), "{text}");
        assert!(text.replace("\n  ", " ").contains("The others: 50 unchanged."), "{text}");
        assert!(!text.contains("set_bytes=32768}"), "{text}");
        assert_fits(&text, width);
    }
    let all = Layout { all: true, ..layout(120) };
    let text = plain(&render(&compare(&a, &b, &Noise::default(), 1), &all));
    assert!(text.contains("set_bytes=32768}") && text.contains("unchanged ±2 %"), "{text}");
    b.records.retain(|record| record.metric.as_str() != "memory.latency");
    let text = plain(&render(&compare(&a, &b, &Noise::default(), 1), &layout(140)));
    assert!(text.contains("set 1 KiB…128 MiB (18 cases)"), "{text}");
}

#[test]
fn span_in_two_units_extends_to_the_left() {
    let records = (0..18).map(|at| {
        let record = point("4K", at, 1.23 * f64::from(1u32 << at));
        record.judged(State::Noisy, vec![slow()])
    });
    let document = with(records.collect());
    for width in [60, 80, 140] {
        let text = table(&document, layout(width));
        assert!(text.contains("~1.2 ns…160 µs") || text.contains("~1.2 ns…161 µs"), "{text}");
        assert_fits(&text, width);
    }
}

#[test]
fn grid_is_printed_whole_or_not_at_all() {
    let document = with(pairs(16));
    for (width, drawn) in [(60, false), (80, false), (120, true)] {
        let text = table(&document, layout(width));
        assert_eq!(text.contains("a\\b"), drawn, "{width}: {text}");
        assert!(text.contains("120 pairs, all valid; lowest 45.25 ns (0–1)"), "{text}");
        assert_fits(&text, width);
    }
}

/// Bandwidths by number of threads, close together.
fn close_together() -> Vec<Record> {
    let bandwidth = |threads: i64| {
        let params = Params::one("threads", threads).and("op", "read");
        let value = 1_073_741_824.0 * (20.0 + threads as f64 / 4.0);
        measured("memory.bandwidth", params, Unit::BytesPerSecond, value, 0.01)
    };
    (1..=16).map(bandwidth).collect()
}

/// A curve of which these points are unfiltered.
fn unfiltered(found: std::ops::Range<usize>) -> Vec<Record> {
    let point = |at: usize| {
        let record = point("4K", at, 2.0);
        match found.contains(&at) {
            true => record.found(NotSelected::TooFewClean),
            false => record.selected(9, 2.0),
        }
    };
    (0..10).map(point).collect()
}

#[test]
fn curves_have_their_axis_and_unfiltered_points() {
    let of = |records| table(&with(records), layout(100));
    let slower =
        |factor: f64| with((0..18).map(|at| point("4K", at, PLATEAUS[at] * factor)).collect());
    let comparison = compare(&slower(1.0), &slower(1.5), &Noise::default(), 1);
    let text = [
        ("a linear axis", of(close_together())),
        ("some points are unfiltered", of(unfiltered(2..5))),
        ("all points are unfiltered", of(unfiltered(0..10))),
        ("no point is unfiltered", of(unfiltered(0..0))),
        ("a slower curve", plain(&render(&comparison, &layout(100)))),
        ("every point of it", plain(&render(&comparison, &Layout { all: true, ..layout(100) }))),
    ];
    assert_titled("curves_in_part.txt", &text);
}
