//! The default view of a run of all metrics: one screen with the best-known numbers, and what is
//! outside, noisy or missing.

use fathom_record::quantity::{interval_within, quantity, quantity_within};
use fathom_record::{Cause, Document, Host, Params, Protocol, Record, Run, State, Unit, causes};

use crate::answer::Answer;
use crate::case::counted;
use crate::closing::{agreement, duration};
use crate::column::{Column, Lines, ShownCell, plain};
use crate::core_state::left_out;
use crate::counts::cause_words;
use crate::opening::{labelled, minute};
use crate::paint::{FAINT, STRONG};
use crate::remedy;
use crate::shown::{NOISY, ShownRecord, nothing, typical_range};
use crate::trend::{TRENDS_WIDTH, Trends};
use crate::wrap::{NARROWEST, glued, width_of, wrapped};

/// A wider line only moves the words away from their numbers.
const WIDEST: usize = 140;
/// A line of the overview: the first or last of the cases that have these parameters.
struct ReportRow {
    group: &'static str,
    /// `{threads}` stands for the number of threads of the case.
    label: &'static str,
    metric: &'static str,
    params: &'static [(&'static str, &'static str)],
    pick: Pick,
    /// Whether it is a headline, which the shortest view has.
    is_brief: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Pick {
    First,
    Last,
    /// The rate of the first one, whose value is a time.
    RateOfFirst,
}

const fn row(
    group: &'static str,
    label: &'static str,
    metric: &'static str,
    params: &'static [(&'static str, &'static str)],
) -> ReportRow {
    ReportRow { group, label, metric, params, pick: Pick::First, is_brief: false }
}

const fn last(row: ReportRow) -> ReportRow {
    ReportRow { pick: Pick::Last, ..row }
}

const fn brief(row: ReportRow) -> ReportRow {
    ReportRow { is_brief: true, ..row }
}

const fn rate(row: ReportRow) -> ReportRow {
    ReportRow { pick: Pick::RateOfFirst, ..row }
}

const DRAM_READ: &[(&str, &str)] = &[("level", "dram"), ("op", "read")];
const DRAM_WRITE: &[(&str, &str)] = &[("level", "dram"), ("op", "write")];
const DRAM_COPY: &[(&str, &str)] = &[("level", "dram"), ("op", "copy")];
const RANDOM: &[(&str, &str)] = &[("order", "random"), ("state", "direct")];

/// In the order of the groups of a run, so that rows appear from top to bottom.
#[rustfmt::skip]
const ROWS: &[ReportRow] = &[
    brief(row("cpu", "core frequency", "cpu.frequency", &[])),
    row("cpu", "function call", "cpu.call", &[("args", "0")]),
    brief(row("system", "system call (getppid)", "os.syscall", &[("call", "getppid")])),
    row("system", "clock_gettime", "os.vdso.clock_gettime", &[("clock", "monotonic")]),
    brief(row("system", "thread create + join", "os.thread.create_join", &[])),
    row("system", "fork + exit + wait", "os.process.fork", &[("part", "total")]),
    brief(row("system", "posix_spawn + wait", "os.process.spawn", &[("part", "total")])),
    row("system", "thread switch", "os.switch.thread", &[]),
    brief(row("system", "process switch", "os.switch.process", &[])),
    row("system", "pipe round trip", "os.pipe.rtt", &[("calls", "libc")]),
    row("memory", "latency, L1", "memory.latency.l1", &[]),
    row("memory", "latency, L2", "memory.latency.l2", &[]),
    row("memory", "latency, L3", "memory.latency.l3", &[]),
    brief(row("memory", "latency, memory", "memory.latency.dram", &[])),
    row("memory", "read, {threads}", "memory.bandwidth", DRAM_READ),
    brief(last(row("memory", "read, {threads}", "memory.bandwidth", DRAM_READ))),
    row("memory", "write, {threads}", "memory.bandwidth", DRAM_WRITE),
    last(row("memory", "write, {threads}", "memory.bandwidth", DRAM_WRITE)),
    row("memory", "copy, {threads}", "memory.bandwidth", DRAM_COPY),
    last(row("memory", "copy, {threads}", "memory.bandwidth", DRAM_COPY)),
    brief(row("memory", "page fault", "memory.fault", &[("kind", "anonymous")])),
    row("memory", "core to core", "memory.core_to_core", &[]),
    row("net", "TCP round trip, 1 CPU", "network.tcp.rtt",
        &[("bytes", "1"), ("cpus", "1"), ("mode", "block")]),
    brief(row("net", "TCP round trip, 2 CPUs", "network.tcp.rtt",
        &[("bytes", "1"), ("cpus", "2"), ("mode", "block")])),
    brief(last(row("file", "read, cached", "file.read.throughput",
        &[("state", "warm"), ("threads", "1"), ("way", "read")]))),
    brief(last(row("file", "read, cold", "file.read.throughput", &[("state", "cold")]))),
    brief(row("file", "random 4 KiB, direct", "file.read.latency", RANDOM)),
    rate(row("file", "random 4 KiB, IOPS", "file.read.latency", RANDOM)),
    row("file", "write, no sync", "file.write.throughput", &[("sync", "none")]),
    brief(row("file", "write + fdatasync", "file.write.throughput", &[("sync", "data")])),
    row("file", "write + fsync, 4 KiB", "file.fsync", &[("bytes", "4096")]),
];

/// Those of the cases of a metric that have rows.
pub fn cases_in_overview(metric: &str, cases: &[&Params]) -> Vec<Params> {
    let rows = ROWS.iter().filter(|row| row.metric == metric);
    rows.filter_map(|row| row.pick(cases.iter().copied(), |it| it).cloned()).collect()
}

fn has(params: &Params, (name, wanted): &(&str, &str)) -> bool {
    params.0.get(*name).is_some_and(|value| value.to_string() == *wanted)
}

/// The labels of all rows with the cases of each that a run has.
pub(crate) fn labelled_cases(
    records: &[Record],
) -> impl Iterator<Item = (&'static str, String, Option<&Record>)> {
    ROWS.iter().filter(|row| row.pick != Pick::RateOfFirst).map(|row| {
        let cpus = if row.pick == Pick::Last { "all CPUs" } else { "1 thread" };
        (row.group, row.label.replace("{threads}", cpus), row.record(records))
    })
}

/// The metric of the row with this label.
pub fn metric_of_label(label: &str) -> Option<&'static str> {
    let has_label = |row: &&ReportRow| match row.label.split_once("{threads}") {
        Some((start, _)) => label.strip_prefix(start).is_some_and(|it| it.contains(" thread")),
        None => row.label.eq_ignore_ascii_case(label),
    };
    ROWS.iter().find(has_label).map(|row| row.metric)
}

/// A row with the name of its group, if it is the first of it.
struct OverviewRow<'a> {
    group: &'a str,
    label: String,
    shown: ShownRecord<'a>,
    pick: Pick,
    trends: &'a Trends,
}

type OverviewCell = fn(&OverviewRow<'_>, usize) -> ShownCell;

const GROUP: usize = 0;
const NAME: usize = 1;
const MEASURED: usize = 2;

/// On a narrow line names are whole, without the groups and half widths.
#[rustfmt::skip]
static COLUMNS: [Column<OverviewCell>; 9] = [
    Column::left("", &[(80, 6)], |row, _| (row.group.to_owned(), FAINT)),
    Column::left("", &[], |row, _| plain(&row.label)),
    Column::right("measured", &[(80, 12), (0, 11)], |row, width| row.number(width)),
    Column::right("±", &[(80, 8)], |row, _| plain(row.half())),
    // A narrower line has half their widths only.
    Column::right("interval", &[(116, 17)], |row, width| row.of_time(|it| {
        Some(interval_within(it.interval()?, it.record.unit, width))
    })),
    Column::right("expected", &[(80, 15), (0, 12)], |row, width| {
        row.of_time(|it| Some(it.expected_value(width)))
    }),
    Column::right("typical", &[(96, 12)], |row, width| {
        row.of_time(|it| typical_range(it.record, width))
    }),
    Column::left("", &[(0, 12)], |row, _| row.shown.word()),
    Column::left("trend", &[(TRENDS_WIDTH, 18)], |row, width| {
        row.of_time(|it| Some(row.trends.cell(it.record, width)))
    }),
];

impl OverviewRow<'_> {
    /// The number, or the rate of which it is the time.
    fn number(&self, width: usize) -> ShownCell {
        let (text, style) = self.shown.measured(width);
        let text = match (self.pick, self.shown.value.number()) {
            (Pick::First | Pick::Last, _) => text,
            (Pick::RateOfFirst, Some(ns)) if ns > 0.0 => {
                let room = width - width_of(self.shown.mark);
                let rate = quantity_within(1e9 / ns, Unit::PerSecond, room);
                format!("{}{rate}", self.shown.mark)
            }
            (Pick::RateOfFirst, _) => nothing(),
        };
        (text, style)
    }

    fn half(&self) -> String {
        let shown = Some(&self.shown).filter(|it| it.record.verdict.shows_number());
        shown.map_or_else(String::new, ShownRecord::half)
    }

    /// What is known of the number of the case, not of the rate that it gives.
    fn of_time(&self, text: impl Fn(&ShownRecord<'_>) -> Option<String>) -> ShownCell {
        let shows_number = self.shown.record.verdict.shows_number();
        let shown = Some(&self.shown).filter(|_| shows_number && self.pick != Pick::RateOfFirst);
        plain(shown.and_then(text).unwrap_or_default())
    }
}

type OverviewLines = Lines<OverviewCell>;

fn lines_for(width: usize) -> OverviewLines {
    let gap = if width >= WIDEST { 2 } else { 1 };
    Lines::new(width.clamp(NARROWEST, WIDEST), gap, &COLUMNS)
}

/// How rows are printed.
struct OverviewView<'a> {
    protocol: Protocol,
    lines: OverviewLines,
    trends: &'a Trends,
}

impl OverviewView<'_> {
    fn new(protocol: Protocol, width: usize) -> Self {
        OverviewView { protocol, lines: lines_for(width), trends: const { &Trends::NONE } }
    }
}

/// The cases that have a row, whose trends are worth showing.
pub fn overview_records(document: &Document) -> Vec<&Record> {
    ROWS.iter().filter_map(|row| row.record(&document.records)).collect()
}

/// What the run shows and what to do next; machine, the best-known numbers, and counts.
pub fn overview(document: &Document, width: usize, trends: &Trends) -> String {
    let Document { run, host, records, .. } = document;
    let width = width.max(NARROWEST);
    let line = |label: &str, words: &str| labelled(label, words, width.min(WIDEST));
    let mut text = answer(document, width);
    text += &line("machine", &machine(host));
    text += &line("run", &run_words(run, host));
    let view = OverviewView { trends, ..OverviewView::new(run.protocol, width) };
    text += &headed(&view.lines, lines_of(ROWS.iter(), records, &[], &view));
    text += "\n";
    for (label, words) in remarkable(run, records) {
        text += &line(label, &words);
    }
    text
}

/// The header and the rows whose records are among these; empty without any.
pub fn rows(records: &[Record], protocol: Protocol, width: usize) -> String {
    let view = OverviewView::new(protocol, width);
    headed(&view.lines, lines_of(ROWS.iter(), records, &[], &view))
}

/// The header and the headline rows whose records are among these; empty without any.
pub(crate) fn brief_rows(records: &[Record], protocol: Protocol, width: usize) -> String {
    let view = OverviewView::new(protocol, width);
    let rows = ROWS.iter().filter(|row| row.is_brief);
    headed(&view.lines, lines_of(rows, records, &[], &view))
}

/// The headline cases of a run of all metrics, among these records.
pub(crate) fn headlines(records: &[Record]) -> Vec<&Record> {
    ROWS.iter().filter(|row| row.is_brief).filter_map(|row| row.record(records)).collect()
}

/// The header and a row for each record, below its name if that is long, in at most `room` lines.
pub(crate) fn rows_named(
    records: &[&Record],
    protocol: Protocol,
    width: usize,
    room: usize,
) -> String {
    let mut view = OverviewView::new(protocol, width);
    let lines = &mut view.lines;
    // Names begin with their group.
    if let Some(group) = lines.widths[GROUP].take() {
        lines.widths[NAME] = Some(lines.width(NAME) + group + 1);
    }
    let mut text = String::new();
    for record in records {
        let [mut row, name] = view.lines.name(record.name(), ["", "  "]);
        row += &line("", name, record, Pick::First, &view);
        let shown = ShownRecord::from_record(record, protocol);
        if let Some(below) = shown.text_below(view.lines.width(MEASURED)) {
            row += &wrapped(&format!("value: {below}"), view.lines.line, "  ", "  ");
        }
        if 1 + text.lines().count() + row.lines().count() > room {
            break;
        }
        text += &row;
    }
    headed(&view.lines, text)
}

fn headed(lines: &OverviewLines, text: String) -> String {
    if text.is_empty() {
        return text;
    }
    let unfiltered = if text.contains('°') { ", ° any state" } else { "" };
    let marks = format!("{NOISY} noisy{unfiltered}");
    let mut titles = COLUMNS.each_ref().map(|column| (&*column.title, STRONG));
    titles[NAME] = (&marks, FAINT);
    lines.line(titles) + &text
}

/// The rows whose records are among these, and not among others.
pub(crate) fn rows_beside(
    records: &[Record],
    others: &[&[Record]],
    run: &Run,
    width: usize,
) -> String {
    lines_of(ROWS.iter(), records, others, &OverviewView::new(run.protocol, width))
}

fn lines_of(
    rows: impl Iterator<Item = &'static ReportRow>,
    records: &[Record],
    others: &[&[Record]],
    view: &OverviewView<'_>,
) -> String {
    let (mut text, mut group, mut printed) = (String::new(), "", Vec::<&Record>::new());
    for row in rows {
        let Some(record) = row.record(records) else { continue };
        if others.iter().any(|others| row.record(others).is_some()) {
            continue;
        }
        // With one CPU the first and the last number of threads are the same.
        if row.pick == Pick::Last && printed.iter().any(|other| std::ptr::eq(*other, record)) {
            continue;
        }
        printed.push(record);
        let name = if row.group == group { "" } else { row.group };
        group = row.group;
        let threads = record.params.integer("threads").unwrap_or(1);
        let threads = counted(usize::try_from(threads).unwrap_or(1), "thread");
        let label = row.label.replace("{threads}", &threads);
        text += &line(name, label, record, row.pick, view);
    }
    text
}

impl ReportRow {
    fn record<'r>(&self, records: &'r [Record]) -> Option<&'r Record> {
        let of_metric = records.iter().filter(|record| record.metric.as_str() == self.metric);
        self.pick(of_metric, |record| &record.params)
    }

    /// The one of these cases of its metric that it shows.
    fn pick<'c, C>(
        &self,
        cases: impl Iterator<Item = &'c C>,
        params_of: impl Fn(&'c C) -> &'c Params,
    ) -> Option<&'c C> {
        let is_shown = |case: &&'c C| self.params.iter().all(|it| has(params_of(case), it));
        let mut shown = cases.filter(is_shown);
        match self.pick {
            Pick::Last => {
                // Other pages come last, in long runs only: the first ones are those of all runs.
                let but_pages = |case: &&'c C| {
                    let mut params = params_of(case).clone();
                    params.0.remove("page");
                    params
                };
                let shown: Vec<&'c C> = shown.collect();
                let last = but_pages(shown.last()?);
                shown.into_iter().find(|case| but_pages(case) == last)
            }
            Pick::First | Pick::RateOfFirst => shown.next(),
        }
    }
}

fn line(
    group: &str,
    label: String,
    record: &Record,
    pick: Pick,
    view: &OverviewView<'_>,
) -> String {
    let shown = ShownRecord::from_record(record, view.protocol);
    let row = OverviewRow { group, label, shown, pick, trends: view.trends };
    view.lines.row(|cell, width| cell(&row, width))
}

/// The machine in one line: no trade marks, no host name.
fn machine(host: &Host) -> String {
    let model = host.cpu.model.replace("(R)", "").replace("(TM)", "").replace(" CPU", "");
    let model = model.split(" @").next().unwrap_or_default().split_whitespace();
    let mut parts = vec![model.collect::<Vec<_>>().join(" ")];
    parts.extend((host.cpu.logical > 0).then(|| counted(host.cpu.logical as usize, "CPU")));
    parts.extend(host.memory.total_bytes.map(|bytes| quantity(bytes as f64, Unit::Bytes)));
    parts.extend(host.virtualization.clone().filter(|kind| kind != "none"));
    parts.push(format!("Linux {}", host.kernel));
    parts.retain(|part| !part.is_empty());
    parts.join(", ")
}

pub(crate) fn run_words(run: &Run, host: &Host) -> String {
    let (started, effort) = (minute(&run.started), run.effort.word());
    let on = if host.name.is_empty() { String::new() } else { format!(" on {}", host.name) };
    let mut words = format!("{}{on}, {effort}, {started} UTC", run.name());
    if let Some(ns) = run.duration_ns {
        words += &format!(", {}", duration(ns));
    }
    words
}

/// The answer that a view on a terminal begins with.
pub(crate) fn answer(document: &Document, width: usize) -> String {
    Answer::from_document(document, &[]).lines(width.clamp(NARROWEST, WIDEST))
}

/// What to do next, as [`answer`] ends with it.
pub(crate) fn next(document: &Document, width: usize) -> String {
    Answer::from_document(document, &[]).next_lines(width.clamp(NARROWEST, WIDEST))
}

/// What a run says of its machine that is bad: `Bad at memory: …`.
pub(crate) fn worse(document: &Document) -> Option<String> {
    Answer::from_document(document, &[]).bad
}

/// Labelled texts on what is noisy or missing, and on all predictions.
fn remarkable(run: &Run, records: &[Record]) -> Vec<(&'static str, String)> {
    let all = counted(records.len(), "case");
    let mut lines = Vec::new();
    let noisy = causes(records, State::Noisy);
    if !noisy.is_empty() {
        lines.push(("noisy", format!("{} of {all}: {}", total(&noisy), list(&noisy))));
    }
    let missing = missing(records);
    lines.extend(left_out(run).map(|words| ("left out", words)));
    if !missing.is_empty() {
        lines.push(("missing", missing.join("; ")));
    }
    let predictions = agreement(records);
    if !predictions.is_empty() {
        lines.push(("models", predictions.trim().to_owned()));
    }
    lines
}

/// The results without a number by their states, with the remedy of the most frequent cause that
/// has one.
fn missing(records: &[Record]) -> Vec<String> {
    let states = [State::Unavailable, State::Invalid, State::Failed];
    let remedy_of = |state: State, cause: Cause| {
        let of_state = records.iter().filter(|record| record.verdict.state == state);
        let reasons = of_state.flat_map(|record| &record.verdict.reasons);
        remedy::first(reasons.filter(|reason| reason.cause == cause))
    };
    let by_state = states.map(|state| (state, causes(records, state)));
    let each = by_state
        .iter()
        .flat_map(|(state, causes)| causes.iter().map(|(cause, count)| (*count, *state, *cause)));
    let remedied =
        each.filter_map(|(count, state, cause)| Some((count, state, remedy_of(state, cause)?)));
    let most = remedied.reduce(|most, other| if other.0 > most.0 { other } else { most });
    let words = |(state, causes): &(State, Vec<(Cause, usize)>)| {
        let remedy = most.as_ref().filter(|(_, of, _)| of == state);
        let remedy = remedy.map_or(String::new(), |(.., remedy)| format!(" → {remedy}"));
        format!("{} {}: {}{remedy}", total(causes), state.word(), list(causes))
    };
    by_state.iter().filter(|(_, causes)| !causes.is_empty()).map(words).collect()
}

fn total(causes: &[(Cause, usize)]) -> usize {
    causes.iter().map(|(_, count)| count).sum()
}

fn list(causes: &[(Cause, usize)]) -> String {
    let one = |(cause, count): &(Cause, usize)| glued(&format!("{} {count}", cause_words(*cause)));
    causes.iter().map(one).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_whole() {
        let labels = ROWS.iter().map(|row| row.label.replace("{threads}", "128 threads"));
        let most = labels.map(|label| width_of(&label)).max().unwrap();
        for width in NARROWEST..200 {
            let name = lines_for(width).width(NAME);
            assert!(name >= most, "{name} at {width}");
        }
    }
}
