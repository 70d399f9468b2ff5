//! Properties of every view, whatever the records contain.

use crate::fixture::{assert_fits, document, forbidden, layout, measured, plain};
use fathom_analysis::compare::{Noise, compare};
use fathom_record::{Cause, Document, Params, Protocol, Reason, Remedy, State, Unit};
use fathom_report::compare::render;
use fathom_report::{Layout, Table, closing, opening, show};

/// Each width with two of the eight other settings, in turn.
fn layouts() -> Vec<Layout> {
    let widths = [0, 60, 61, 72, 79, 80, 97, 109, 110, 123, 135, 136, 160, 300];
    let layouts = widths.iter().enumerate().flat_map(|(at, width)| {
        let (cycles, trimmed) = (at % 2 == 1, at / 2 % 2 == 1);
        [false, true].map(|all| Layout {
            width: *width,
            cycles: cycles != all,
            protocol: if trimmed != all { Protocol::Trimmed } else { Protocol::Median },
            all,
        })
    });
    layouts.collect()
}

/// The fixture, and records that strain every column.
fn strained() -> Document {
    let mut document = document();
    let long = "a.metric.with.a.name.that.is.much.longer.than.any.line.of.the.narrowest.table.is";
    for unit in Unit::ALL {
        for exponent in (-9..22).step_by(2) {
            let value = 9.9876 * 10f64.powi(exponent);
            for state in [State::Valid, State::Noisy] {
                let params = Params::one("power", i64::from(exponent)).and("state", state.word());
                let record = measured("strain", params, unit, value, 0.3)
                    .predicted(value / 3.0, value / 3.0, 0.3)
                    .judged(state, vec![Reason::new(Cause::Steal, "steal")]);
                document.records.push(record.clone());
                document.records.push(record.with_summary(|summary| summary.bound = Some(value)));
            }
        }
    }
    let params = Params::one("日本語", "日本語".repeat(30).as_str()).and("x", "a b\tc\n\u{1b}[2J");
    let mut strange =
        measured(long, params, Unit::Nanoseconds, 1.0, 0.1).titled(&"title ".repeat(30));
    document.records.push(strange.clone());
    strange.params = Params::none();
    document.records.push(strange.clone());
    let reason =
        Reason::new(Cause::Crashed, "x".repeat(400)).with_remedy(Remedy::raise(&["limit"; 60]));
    document.records.push(strange.judged(State::Failed, vec![reason]));
    document.host.cpu.model = "processor ".repeat(40);
    document.host.kernel_command_line = Some("option=value,".repeat(60));
    document
}

#[test]
fn no_line_is_wider_than_the_layout() {
    let (document, other) = (strained(), document());
    let comparison = compare(&document, &other, &Noise::default(), 1);
    for layout in layouts() {
        assert_fits(&show(&document, &layout), layout.width);
        assert_fits(&render(&comparison, &layout), layout.width);
    }
}

/// Digits of the forbidden value in any unit, as few as a noisy value has.
const LEAK: &str = "765";

/// Removes what separates digits, so that a value is found in any notation.
fn digits(text: &str) -> String {
    plain(text).replace(['.', ' ', ','], "")
}

#[test]
fn untrusted_record_never_shows_its_number() {
    for state in [State::Invalid, State::Unavailable, State::Failed] {
        let reason = Reason::new(Cause::Clock, "why");
        // The overview has a row for it.
        let record = forbidden("os.thread.create_join", Params::none(), state, reason);
        let mut document = document();
        document.records = vec![record.clone()];
        for layout in layouts() {
            let text = show(&document, &layout);
            assert!(!digits(&text).contains(LEAK), "{layout:?}: {text}");
            assert!(!text.contains("modes") && !text.contains("floor"), "{text}");
            let mut table = Table::new(layout);
            let rows = plain(&table.rows(std::slice::from_ref(&record)));
            assert!(!rows.contains(|letter: char| letter.is_ascii_digit()), "{rows}");
            assert!(rows.contains(state.word()) && rows.contains("why"), "{rows}");
            let comparison = compare(&document, &document, &Noise::default(), 1);
            assert!(!digits(&render(&comparison, &layout)).contains(LEAK));
            assert!(!digits(&serde_json::to_string(&comparison).unwrap()).contains(LEAK));
        }
    }
}

#[test]
fn search_for_leaks_finds_a_noisy_number() {
    let reason = Reason::new(Cause::Steal, "why");
    let mut document = document();
    document.records =
        vec![forbidden("os.thread.create_join", Params::none(), State::Noisy, reason)];
    for width in [60, 80, 110, 140] {
        assert!(digits(&show(&document, &layout(width))).contains(LEAK), "{width}");
    }
}

#[test]
fn time_of_zero_or_less_is_never_printed() {
    for value in [0.0, -3.25, f64::NAN, f64::INFINITY] {
        let mut record = measured("os.x", Params::none(), Unit::Nanoseconds, 1.0, 0.01);
        record.summary.as_mut().unwrap().median = value;
        let rows = plain(&Table::new(Layout::default()).rows(&[record]));
        assert!(rows.contains("no valid value recorded"), "{rows}");
        assert!(!rows.contains("0 ns") && !rows.contains("-3") && !rows.contains("inf"), "{rows}");
    }
}

#[test]
fn samples_are_printed_as_a_histogram() {
    let mut record = measured("os.x", Params::none(), Unit::Nanoseconds, 100.0, 0.01);
    let values = [vec![100.0; 60], vec![200.0; 40]].concat();
    record.samples = Some(vec![crate::fixture::sample(values)]);
    let mut table = Table::new(Layout { width: 140, ..Layout::default() });
    let rows = table.rows(&[record]);
    assert!(rows.contains("█        ▆"), "{rows}");
    let foot = plain(&table.foot());
    let foot = foot.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(foot.contains("processes: histogram of the values"), "{foot}");
}

#[test]
fn each_part_has_its_own_blank_lines() {
    let document = document();
    assert!(opening(&document, 80).ends_with("\n\n"));
    assert!(closing(&document, 80).starts_with('\n'));
    assert!(!plain(&show(&document, &Layout::default())).contains("\n\n\n"));
}

#[test]
fn invalid_frequency_gives_no_cycles() {
    let reason = Reason::new(Cause::Clock, "why");
    let mut frequency = forbidden("cpu.frequency", Params::none(), State::Invalid, reason);
    frequency.unit = Unit::Hertz;
    let time = measured("os.x", Params::none(), Unit::Nanoseconds, 100.0, 0.01);
    let mut table = Table::new(Layout { cycles: true, ..Layout::default() });
    let rows = digits(&table.rows(&[frequency, time]));
    assert!(!rows.contains(LEAK), "{rows}");
    assert!(plain(&table.foot()).contains("cycles: not shown"), "{}", table.foot());
}
