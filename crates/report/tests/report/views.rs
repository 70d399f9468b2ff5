//! Runs at various terminal widths.

use crate::fixture::{assert_fits, document, layout, measured, over, plain};
use crate::{assert_snapshot, assert_titled};
use fathom_analysis::history::history;
use fathom_record::{
    Cause, Counts, Document, Effort, MetricId, NotSelected, Outline, Params, Protocol, Reason,
    Record, Remedy, RunState, State, Unit, Verdict,
};
use fathom_report::{
    Layout, RunListing, Table, Trends, brief, closing, kept, opening, others, runs, show, show_with,
};

/// A run of named groups, which is shown as a table.
fn run_of_groups() -> Document {
    let mut document = document();
    document.run.asked = ["cpu", "os", "memory", "file", "load"].map(str::to_owned).to_vec();
    document
}

/// Every row of the overview, with records in every state.
fn whole_battery() -> Document {
    let ns = Unit::Nanoseconds;
    let one = |metric: &str, name: &str, value: &str| {
        measured(metric, Params::one(name, value), ns, 1_234.0, 0.01)
    };
    let plain = |metric: &str| measured(metric, Params::none(), ns, 156.9, 0.02);
    let bandwidth = |op: &str, threads: i64, bytes_per_s: f64| {
        let params = Params::one("level", "dram").and("op", op).and("threads", threads);
        let record = measured("memory.bandwidth", params, Unit::BytesPerSecond, bytes_per_s, 0.14);
        record.predicted(bytes_per_s, 0.0, 0.3).found(NotSelected::TooFewClean)
    };
    let random = Params::one("order", "random").and("state", "direct");
    let mut document = document();
    document.records.extend([
        measured("cpu.call", Params::one("args", 0), ns, 1.3, 0.01),
        one("os.vdso.clock_gettime", "clock", "monotonic"),
        plain("os.thread.create_join"),
        one("os.process.fork", "part", "total"),
        one("os.process.spawn", "part", "total").predicted(500.0, 0.0, 0.1),
        plain("os.switch.thread"),
        plain("os.switch.process"),
        one("os.pipe.rtt", "calls", "libc").predicted(1_000.0, 200.0, 0.3),
        plain("memory.latency.l1"),
        plain("memory.latency.l2"),
        plain("memory.latency.l3").judged(
            State::Noisy,
            vec![Reason::new(Cause::SlowCore, "").with_remedy(Remedy::QuieterHost)],
        ),
        plain("memory.latency.dram"),
        bandwidth("read", 1, 4.1e10),
        bandwidth("read", 8, 2.05e11),
        bandwidth("write", 1, 2.9e10),
        bandwidth("write", 8, 1.2e11),
        bandwidth("copy", 1, 3.9e10),
        bandwidth("copy", 8, 1.6e11),
        one("memory.fault", "kind", "anonymous"),
        plain("memory.core_to_core"),
        one("file.read.throughput", "state", "cold"),
        measured("file.read.latency", random, ns, 51_320.0, 0.1),
        one("file.write.throughput", "sync", "none"),
        one("file.write.throughput", "sync", "data"),
        measured("file.fsync", Params::one("bytes", 4_096), ns, 185_900.0, 0.25),
    ]);
    document
}

#[test]
fn overview_fits_one_screen() {
    for width in [60, 80, 140] {
        let text = plain(&show(&whole_battery(), &layout(width)));
        assert!(width < 80 || text.lines().count() <= 50, "{text}");
        assert_fits(&text, width);
    }
    assert_snapshot("overview_fits_one_screen.txt", &plain(&show(&whole_battery(), &layout(80))));
}

/// A case that took 30 % longer in the last three of eight runs.
fn slower_system_call() -> Trends {
    let call = Params::one("call", "getppid");
    let run = |at: usize| {
        let mut run = document();
        run.run.id = format!("{at:016x}");
        let ns = if at < 5 { 100.0 + at as f64 / 10.0 } else { 130.0 + at as f64 / 10.0 };
        run.records = vec![measured("os.syscall", call.clone(), Unit::Nanoseconds, ns, 0.01)];
        Outline::from(&run)
    };
    let runs: Vec<Outline> = (0..8).map(run).collect();
    let host = document().host.identity().to_owned();
    let history = history("os.syscall", &host, &runs, &|params| *params == call);
    Trends::new(history.series.into_iter().map(|it| (MetricId::new("os.syscall"), it)).collect())
}

#[test]
fn wide_overview_has_intervals_and_trends() {
    let with = |width: usize| {
        let battery = whole_battery();
        let text = show_with(&battery, &layout(width), &slower_system_call(), None);
        plain(&(text + &kept(&battery, width)))
    };
    assert_eq!(with(100), plain(&show(&whole_battery(), &layout(100))));
    let text = with(140);
    let line = text.lines().find(|line| line.contains("system call (getppid)")).unwrap();
    assert!(line.ends_with("▁▁▁▁▁███ +30 %"), "{text}");
    assert_snapshot("overview_at_140_columns.txt", &text);
}

#[test]
fn command_of_another_run_has_its_answer() {
    let mut other = document();
    other.run.procedure = Some("file size".to_owned());
    other.run.asked = vec!["file size".to_owned()];
    other.records = vec![measured("file.reasonable_size", Params::none(), Unit::Bytes, 1e9, 0.01)];
    let text = plain(&others(&whole_battery(), &[other], &layout(80)));
    assert!(text.contains("file size: 1 case\n  file.reasonable_size: 953.7 MiB ± "), "{text}");
}

#[test]
fn one_cpu_has_one_row_for_each_bandwidth() {
    let mut document = whole_battery();
    document.records.retain(|record| record.params.integer("threads") != Some(8));
    let text = plain(&show(&document, &layout(80)));
    assert_eq!(text.matches("thread  ").count(), 3, "{text}");
    assert!(!text.contains("threads"), "{text}");
}

#[test]
fn run_at_various_widths() {
    for width in [60, 80, 110, 140] {
        let text = plain(&show(&run_of_groups(), &layout(width)));
        assert_snapshot(&format!("run_at_{width}_columns.txt"), &text);
    }
}

#[test]
fn run_by_the_trimmed_protocol() {
    let mut text = String::new();
    for width in [80, 140] {
        let mut table = Table::new(Layout { protocol: Protocol::Trimmed, ..layout(width) });
        text += &table.header();
        text += &table.rows(&document().records);
        text += &table.foot();
        text += "\n";
    }
    assert_snapshot("run_by_the_trimmed_protocol.txt", &plain(&text));
}

#[test]
fn interrupted_tuned_run_with_drift() {
    let mut document = document();
    document.run.state = RunState::Interrupted;
    document.run.ended = None;
    document.run.planned = 40;
    document.run.asked = vec!["cpu".to_owned(), "os.syscall".to_owned()];
    document.run.tuned = vec!["governor of CPU 1: powersave → performance".to_owned()];
    document.run.clock.wall_step_ns = Some(2e9);
    document.run.clock.refused = Some("the kernel's clock source is hpet".to_owned());
    document.run.verdict = Verdict {
        state: State::Noisy,
        reasons: vec![
            Reason::new(Cause::MachineDrift, "machine 3.1 % slower from 12:01 to 12:03")
                .with_remedy(Remedy::LetSettle),
        ],
    };
    for record in &mut document.records[20..] {
        record.summary = None;
        record.verdict = Verdict::because(State::Failed, Cause::Interrupted, "not measured");
    }
    let text = opening(&document, 80) + &closing(&document, 80);
    assert_snapshot("interrupted_tuned_run_with_drift.txt", &plain(&text));
}

#[test]
fn run_without_records_says_so() {
    let empty = Document { records: Vec::new(), ..document() };
    assert!(plain(&show(&empty, &layout(80))).starts_with("Nothing was measured.\n"));
    assert_eq!(Table::new(layout(80)).foot(), "");
}

/// Of the records that `keep` selects.
fn closing_of(keep: fn(&Record) -> bool) -> String {
    let mut document = document();
    document.records.retain(keep);
    plain(&closing(&document, 80))
}

#[test]
fn closing_names_what_was_found() {
    let is_bounded = |record: &Record| record.metric.as_str() == "os.switch.thread";
    let mut wide = document();
    wide.records.retain(is_bounded);
    wide.records[0].summary.as_mut().unwrap().interval = over([1_000.0, 1_400.0]);
    let text = [
        ("a valid record", closing_of(|record| record.metric.as_str() == "cpu.clock.read")),
        ("a violated bound", closing_of(is_bounded)),
        ("a bound within a wide interval", plain(&closing(&wide, 80))),
        (
            "unavailable with a remedy",
            closing_of(|record| record.verdict.state == State::Unavailable),
        ),
    ];
    assert_titled("closings.txt", &text);
}

#[test]
fn list_of_runs() {
    let row = |id: &str, state, host: &str| RunListing {
        id: id.to_owned(),
        label: (state == RunState::Running).then(|| "before upgrade".to_owned()),
        started: "2026-03-01T12:00:00Z".to_owned(),
        state,
        effort: Effort::Standard,
        host: host.to_owned(),
        host_id: Some("aaaaaaaa00".to_owned()),
        kernel: "6.18.44".to_owned(),
        asked: if state == RunState::Running { vec!["os".to_owned()] } else { Vec::new() },
        procedure: None,
        counts: Counts { valid: 71, noisy: 6, unavailable: 7, ..Counts::default() },
    };
    let rows = [
        row("0198c1a2b3c4d5e6", RunState::Complete, "falcon"),
        row("0198c1a2b3c4d5e7", RunState::Interrupted, "a-host-with-a-rather-long-name.example"),
        row("0198c1a2b3c4d5e8", RunState::Running, "falcon"),
    ];
    let text: Vec<String> =
        [60, 80, 120].into_iter().map(|width| plain(&runs(&rows, &layout(width)))).collect();
    assert_snapshot("list_of_runs.txt", &text.join("\n"));
    let namesakes = rows[..1].iter().cloned().chain([RunListing {
        host_id: Some("bbbbbbbb00".to_owned()),
        ..row("0198c1a2b3c4d5e7", RunState::Complete, "falcon")
    }]);
    let text = plain(&runs(&namesakes.collect::<Vec<_>>(), &layout(60)));
    assert!(text.contains("host falcon (aaaaaaaa)") && !text.contains('…'), "{text}");
    let asked = "file read w1gb, 4 KiB × 244141";
    let by_hand = RunListing {
        asked: vec![asked.to_owned()],
        procedure: Some("file read".to_owned()),
        ..row("0198c1a2b3c4d5e9", RunState::Complete, "falcon")
    };
    let text = plain(&runs(&[by_hand], &layout(80)));
    assert_eq!((text.matches(asked).count(), text.matches("file read").count()), (1, 1), "{text}");
    assert!(runs(&[], &layout(80)).contains("No stored runs"));
}

#[test]
fn failed_prediction_is_coloured_and_named() {
    let text = show(&document(), &layout(80));
    let line = text.lines().find(|line| line.contains("system call (getppid)")).unwrap();
    let (before, _) = line.split_once("outside").unwrap();
    assert!(before.ends_with('m') && before.contains("\u{1b}["), "{before:?}");
}

#[test]
fn brief_run_of_any_length_fits_24_rows() {
    let mut groups = run_of_groups();
    groups.records = (0..200)
        .map(|at| {
            let params = Params::one("set_bytes", at).and("order", "random");
            let record = measured(&format!("os.metric{at}"), params, Unit::Nanoseconds, 9.0, 0.2);
            record.judged(State::Noisy, vec![Reason::new(Cause::Spread, "spread ".repeat(200))])
        })
        .collect();
    for document in [whole_battery(), groups] {
        for width in [60, 80] {
            let text = plain(&brief(&document, width, true));
            let rows = text.lines().count();
            assert!((18..24).contains(&rows), "{rows}: {text}");
            assert!(text.contains("--all`") && !brief(&document, width, false).contains("--all`"));
            assert_fits(&text, width);
        }
    }
}
