//! Rows of a cross-check in every outcome.

use fathom_analysis::crosscheck::add;
use fathom_record::{
    Cause, CrossOutcome, CrossRow, Crosscheck, Host, MetricId, Params, PeerStatistic, State, Tool,
    Turn, Unit, Verdict,
};
use fathom_report::crosscheck::{foot, header, peer, row};
use unicode_width::UnicodeWidthStr;

use crate::assert_snapshot;
use crate::fixture;

fn compared(pairs: usize) -> CrossRow {
    let metric = MetricId::new("file.read.throughput");
    let params = Params::one("block", 1 << 20).and("state", "warm").and("threads", 1);
    let mut row = CrossRow {
        peer: "dd".to_owned(),
        package: "coreutils".to_owned(),
        version: Some("9.1".to_owned()),
        work: "if=FILE of=/dev/null".to_owned(),
        difference: "dd only copies the data, fathom sums it".to_owned(),
        cpus: vec![1],
        our_command: "fathom run 'file.read.throughput{block=1048576}'".to_owned(),
        peer_commands: vec!["taskset -c 1 dd if=data of=/dev/null bs=1M".to_owned(); 2],
        ..CrossRow::for_metric(metric, params, Unit::BytesPerSecond, PeerStatistic::Slope)
    };
    (0..pairs).for_each(|at| turn(&mut row, 1.5e10, 1.2e10 + 1e9 * at as f64));
    row
}

fn plain(text: &str) -> String {
    fixture::plain(text).replace('\u{a0}', " ")
}

fn turn(row: &mut CrossRow, ours: f64, theirs: f64) {
    add(row, Turn::new(ours, theirs, "by the slope".to_owned()));
}

fn with(pairs: usize, change: impl FnOnce(&mut CrossRow)) -> CrossRow {
    let mut row = compared(pairs);
    change(&mut row);
    row
}

/// The peer is preempted this often in each of three turns.
fn preempted(row: &mut CrossRow, hz: [f64; 3]) {
    row.turns.iter_mut().zip(hz).for_each(|(turn, hz)| turn.peer_preempted_hz = Some(hz));
}

fn lost(statistic: PeerStatistic) -> impl FnOnce(&mut CrossRow) {
    move |row| {
        row.statistic = statistic;
        preempted(row, [250.0, 3.0, 240.0]);
        row.turns.iter_mut().for_each(|turn| turn.peer_lost_share = Some(0.23));
    }
}

fn noisy() -> CrossRow {
    let verdict = Verdict::because(State::Noisy, Cause::Contention, "another process ran 30 %");
    with(5, |row| row.turns[3] = row.turns[3].clone().judged(&verdict))
}

fn failed() -> CrossRow {
    let reason = "no `copied` in its output, which begins: \u{1b}[31mrubbish".to_owned();
    with(0, |row| (row.outcome, row.reason) = (CrossOutcome::Failed, Some(reason)))
}

fn missing() -> CrossRow {
    with(0, |row| row.outcome = CrossOutcome::Missing)
}

#[test]
fn rows_have_their_cautions() {
    let rows = [
        ("fine", compared(5)),
        ("preempted in one turn of three", with(3, |row| preempted(row, [250.0, 3.0, 3.0]))),
        ("preempted", with(3, |row| preempted(row, [250.0, 3.0, 240.0]))),
        ("descheduled, a mean", with(3, lost(PeerStatistic::Mean))),
        ("descheduled, a median", with(3, lost(PeerStatistic::Median))),
        ("descheduled, a slope", with(3, lost(PeerStatistic::Slope))),
        ("pairs disagree", with(3, |row| turn(row, 4e10, 1e10))),
        ("failed", failed()),
    ];
    let mut text = String::new();
    for (title, one) in rows {
        text += &format!("--- {title}\n{}", plain(&row(&one, 80, false)));
    }
    text += &format!("--- every turn\n{}", plain(&row(&noisy(), 80, true)));
    text +=
        &format!("--- not installed\n{}{}", row(&missing(), 80, true), plain(&peer(&missing())));
    assert!(!text.contains('\u{1b}'), "escape codes of other programs are removed");
    assert_snapshot("crosscheck_rows.txt", &text);
}

#[test]
fn row_fits_every_width() {
    let text = [60, 80, 110, 140].map(|width| {
        let text = plain(&(header(width) + &row(&compared(4), width, true)));
        let is_command = |line: &&str| line.starts_with("    $ ");
        let widest = text.lines().filter(|line| !is_command(line)).map(UnicodeWidthStr::width);
        assert!(widest.max() <= Some(width), "{width}:\n{text}");
        text
    });
    assert_snapshot("crosscheck_at_60_80_110_and_140_columns.txt", &text.join("\n"));
}

#[test]
fn foot_counts_rows_by_outcome() {
    let apart = with(1, |row| turn(row, 4e10, 1e10));
    let text = [
        vec![missing()],
        vec![compared(1)],
        vec![compared(4)],
        vec![compared(5)],
        vec![apart, compared(5)],
    ]
    .map(|rows| {
        let crosscheck = Crosscheck {
            schema: fathom_record::crosscheck::CROSSCHECK_SCHEMA_VERSION,
            tool: Tool::fixture(),
            started: String::new(),
            host: Host::default(),
            cpu: 1,
            pairs: 5,
            interrupted: false,
            rows,
        };
        plain(&foot(&crosscheck, 80))
    });
    assert_snapshot("crosscheck_foot.txt", &text.join("\n"));
}
