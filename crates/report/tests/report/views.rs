//! Runs at various terminal widths.

use crate::fixture::{document, over, plain};
use fathom_record::{
    Cause, Counts, Document, Effort, Protocol, Reason, Remedy, RunState, State, Verdict,
};
use fathom_report::{Layout, RunListing, Table, closing, opening, runs, show};

fn layout(width: usize) -> Layout {
    Layout { width, ..Layout::default() }
}

#[test]
fn run_at_various_widths() {
    for width in [60, 80, 110, 140] {
        let text = plain(&show(&document(), &layout(width)));
        insta::assert_snapshot!(format!("run_at_{width}_columns"), text);
    }
}

#[test]
fn run_with_cycles() {
    let wide = Layout { cycles: true, ..layout(80) };
    let narrow = Layout { cycles: true, ..layout(60) };
    let mut text = String::new();
    for layout in [wide, narrow] {
        let mut table = Table::new(layout);
        text += &table.header();
        text += &table.rows(&document().records[..11]);
        text += &table.foot();
        text += "\n";
    }
    insta::assert_snapshot!(plain(&text));
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
    insta::assert_snapshot!(plain(&text));
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
    insta::assert_snapshot!(plain(&text));
}

#[test]
fn run_without_records_says_so() {
    let empty = Document { records: Vec::new(), ..document() };
    assert!(plain(&show(&empty, &layout(80))).contains("\nNothing was measured.\n"));
    assert_eq!(Table::new(layout(80)).foot(), "");
}

#[test]
fn run_of_one_valid_record_has_a_short_closing() {
    let mut one = document();
    one.records.truncate(1);
    let text = plain(&closing(&one, 80));
    assert!(text.starts_with("\n1 case: 1 valid. 1 of 1 predicted value within"), "{text}");
}

#[test]
fn violated_bound_is_a_finding_with_its_limit() {
    let mut document = document();
    document.records.retain(|record| record.metric.as_str() == "os.switch.thread");
    let text = plain(&closing(&document, 200));
    let sentence = "1. os.switch.thread{set_bytes=65536} takes 1.204 µs (± 1.0 %), > 1.62 µs \
                    predicted: more than two system calls.\n";
    assert!(text.contains(sentence), "{text}");
}

#[test]
fn wide_interval_is_not_a_finding() {
    let mut document = document();
    document.records.retain(|record| record.metric.as_str() == "os.switch.thread");
    let summary = document.records[0].summary.as_mut().unwrap();
    summary.interval = over([1_000.0, 1_400.0]);
    assert!(!plain(&closing(&document, 200)).contains("1. "));
}

#[test]
fn unavailable_cases_are_counted_with_a_remedy() {
    let mut document = document();
    document.records.retain(|record| record.verdict.state == State::Unavailable);
    let text = plain(&closing(&document, 200));
    let sentence = "2 cases are unavailable but have a remedy; os.wake.cross_cpu{via=futex}: allow \
                    this process a second CPU (taskset, cpuset).\n";
    assert!(text.contains(sentence), "{text}");
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
    insta::assert_snapshot!(text.join("\n"));
    assert!(runs(&[], &layout(80)).contains("No stored runs"));
}

#[test]
fn failed_prediction_is_coloured_and_named() {
    let text = show(&document(), &layout(80));
    let line = text.lines().find(|line| line.contains("getppid")).unwrap();
    let (before, _) = line.split_once("outside").unwrap();
    assert!(before.ends_with('m') && before.contains("\u{1b}["), "{line:?}");
}
