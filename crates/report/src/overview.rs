//! The default view of a run of all metrics: one screen with the best-known numbers, and what is
//! outside, noisy or missing.

use fathom_analysis::display_value::DisplayValue;
use fathom_record::quantity::{NOTHING, interval_within, quantity, quantity_within};
use fathom_record::{
    Agreement, Cause, Document, Host, NoModel, Params, Protocol, Record, Run, State, Summary, Unit,
    causes,
};

use crate::case::counted;
use crate::cells::{mark, measured, predicted, text_below, uncertainty};
use crate::closing::{agreement, duration, progress};
use crate::core_state::{core_state, left_out};
use crate::counts::cause_words;
use crate::findings::{outside, unusual};
use crate::grid::Grid;
use crate::opening::{labelled, minute};
use crate::paint::{BAD, CARE, FAINT, GOOD, PLAIN, STRONG, of_state};
use crate::remedy;
use crate::trend::{TRENDS_WIDTH, Trends};
use crate::typical;
use crate::wrap::{NARROWEST, glued, width_of, wrapped};

/// A wider line only moves the words away from their numbers.
const WIDEST: usize = 140;
/// The column of intervals; a narrower line has half their widths only.
const INTERVAL: usize = 17;
const WITH_INTERVAL: usize = 116;
/// The column of trends, from [`TRENDS_WIDTH`] on.
const TREND: usize = 18;
/// The column of typical ranges; a narrower line has none.
const TYPICAL: usize = 12;
const WITH_TYPICAL: usize = 96;
/// Metrics with a result outside its prediction that are named.
const OUTSIDE: usize = 2;
/// Metrics with a result that is not typical that are named.
const UNUSUAL: usize = 2;

/// A line of the overview: the first or last of the cases that have these parameters.
struct Row {
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
) -> Row {
    Row { group, label, metric, params, pick: Pick::First, is_brief: false }
}

const fn last(row: Row) -> Row {
    Row { pick: Pick::Last, ..row }
}

const fn brief(row: Row) -> Row {
    Row { is_brief: true, ..row }
}

const fn rate(row: Row) -> Row {
    Row { pick: Pick::RateOfFirst, ..row }
}

const DRAM_READ: &[(&str, &str)] = &[("level", "dram"), ("op", "read")];
const DRAM_WRITE: &[(&str, &str)] = &[("level", "dram"), ("op", "write")];
const DRAM_COPY: &[(&str, &str)] = &[("level", "dram"), ("op", "copy")];
const RANDOM: &[(&str, &str)] = &[("order", "random"), ("state", "direct")];

/// In the order of the groups of a run, so that rows appear from top to bottom.
#[rustfmt::skip]
const ROWS: &[Row] = &[
    brief(row("cpu", "core frequency", "cpu.frequency", &[])),
    row("cpu", "function call", "cpu.call", &[("args", "0")]),
    brief(row("system", "system call (getppid)", "os.syscall", &[("call", "getppid")])),
    row("system", "clock_gettime", "os.vdso.clock_gettime", &[("clock", "monotonic")]),
    brief(row("system", "thread create + join", "os.thread.create_join", &[])),
    row("system", "fork + exit + wait", "os.process.fork", &[("part", "total")]),
    brief(row("system", "fork + exec + wait", "os.process.spawn", &[("part", "total")])),
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

/// The metric of the row with this label.
pub fn metric_of_label(label: &str) -> Option<&'static str> {
    let has_label = |row: &&Row| match row.label.split_once("{threads}") {
        Some((start, _)) => label.strip_prefix(start).is_some_and(|it| it.contains(" thread")),
        None => row.label.eq_ignore_ascii_case(label),
    };
    ROWS.iter().find(has_label).map(|row| row.metric)
}

mod column {
    pub(super) const GROUP: usize = 0;
    pub(super) const NAME: usize = 1;
    pub(super) const MEASURED: usize = 2;
    pub(super) const HALF_WIDTH: usize = 3;
    pub(super) const INTERVAL: usize = 4;
    pub(super) const EXPECTED: usize = 5;
    pub(super) const TYPICAL: usize = 6;
    pub(super) const WORD: usize = 7;
    pub(super) const TREND: usize = 8;
    pub(super) const COUNT: usize = 9;
}

fn grid(width: usize) -> Grid<{ column::COUNT }> {
    // On a narrow line names are whole, without the groups and half widths.
    let widths = match width < 80 {
        true => [None, None, Some(11), None, None, Some(12), None, Some(12), None],
        false => {
            let interval = (width >= WITH_INTERVAL).then_some(INTERVAL);
            let typical = (width >= WITH_TYPICAL).then_some(TYPICAL);
            let trend = (width >= TRENDS_WIDTH).then_some(TREND);
            [Some(6), None, Some(12), Some(8), interval, Some(15), typical, Some(12), trend]
        }
    };
    let left = &[column::GROUP, column::NAME, column::WORD, column::TREND];
    let gap = if width >= WIDEST { 2 } else { 1 };
    Grid::new(width.clamp(NARROWEST, WIDEST), gap, column::NAME, left, widths)
}

/// How rows are printed.
struct View<'a> {
    protocol: Protocol,
    grid: Grid<{ column::COUNT }>,
    trends: &'a Trends,
}

impl View<'_> {
    fn new(protocol: Protocol, width: usize) -> Self {
        View { protocol, grid: grid(width), trends: const { &Trends::NONE } }
    }
}

/// The cases that have a row, whose trends are worth showing.
pub fn overview_records(document: &Document) -> Vec<&Record> {
    ROWS.iter().filter_map(|row| row.record(&document.records)).collect()
}

/// Machine, quality, the best-known numbers, and what is outside, noisy or missing.
pub fn overview(document: &Document, width: usize, trends: &Trends) -> String {
    let Document { run, host, records, .. } = document;
    let width = width.max(NARROWEST);
    let line = |label: &str, words: &str| labelled(label, words, width.min(WIDEST));
    let mut text = line("machine", &machine(host));
    text += &line("run", &run_words(run, host));
    text += &line("quality", &quality(document));
    let view = View { trends, ..View::new(run.protocol, width) };
    text += &headed(&view.grid, lines_of(ROWS.iter(), records, &[], &view));
    if records.is_empty() {
        text += "Nothing was measured.\n";
    }
    text += "\n";
    for (label, words) in remarkable(run, records) {
        text += &line(label, &words);
    }
    text
}

/// The header and the rows whose records are among these; empty without any.
pub fn rows(records: &[Record], protocol: Protocol, width: usize) -> String {
    let view = View::new(protocol, width);
    headed(&view.grid, lines_of(ROWS.iter(), records, &[], &view))
}

/// The header and the headline rows whose records are among these; empty without any.
pub(crate) fn brief_rows(records: &[Record], protocol: Protocol, width: usize) -> String {
    let view = View::new(protocol, width);
    let rows = ROWS.iter().filter(|row| row.is_brief);
    headed(&view.grid, lines_of(rows, records, &[], &view))
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
    let mut view = View::new(protocol, width);
    let grid = &mut view.grid;
    // Names begin with their group.
    if let Some(group) = grid.widths[column::GROUP].take() {
        grid.widths[column::NAME] = Some(grid.width(column::NAME) + group + 1);
    }
    let mut text = String::new();
    for record in records {
        let (mut name, mut row) = (record.name(), String::new());
        if width_of(&name) > view.grid.width(column::NAME) {
            row = wrapped(&name, width.clamp(NARROWEST, WIDEST), "", "  ");
            name.clear();
        }
        row += &line("", &name, record, Pick::First, &view);
        if let Some(text) = text_below(record, protocol, view.grid.width(column::MEASURED)) {
            row += &wrapped(&format!("value: {text}"), width.clamp(NARROWEST, WIDEST), "  ", "  ");
        }
        if 1 + text.lines().count() + row.lines().count() > room {
            break;
        }
        text += &row;
    }
    headed(&view.grid, text)
}

fn headed(grid: &Grid<{ column::COUNT }>, text: String) -> String {
    if text.is_empty() {
        return text;
    }
    let marks = if text.contains('°') { "~ noisy, ° any state" } else { "~ noisy" };
    let names = ["", marks, "measured", "±", "interval", "expected", "typical", "", "trend"];
    let mut styles = [STRONG; column::COUNT];
    styles[column::NAME] = FAINT;
    grid.line(names, styles) + &text
}

/// The rows whose records are among these, and not among others.
pub(crate) fn rows_beside(
    records: &[Record],
    others: &[&[Record]],
    run: &Run,
    width: usize,
) -> String {
    lines_of(ROWS.iter(), records, others, &View::new(run.protocol, width))
}

fn lines_of(
    rows: impl Iterator<Item = &'static Row>,
    records: &[Record],
    others: &[&[Record]],
    view: &View<'_>,
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
        text += &line(name, row.label, record, row.pick, view);
    }
    text
}

impl Row {
    fn record<'r>(&self, records: &'r [Record]) -> Option<&'r Record> {
        let of_metric = records.iter().filter(|record| record.metric.as_str() == self.metric);
        self.pick(of_metric, |record| &record.params)
    }

    /// The one of these cases of its metric that it shows.
    fn pick<'c, C>(
        &self,
        mut cases: impl DoubleEndedIterator<Item = &'c C>,
        params_of: impl Fn(&'c C) -> &'c Params,
    ) -> Option<&'c C> {
        let is_shown = |case: &&'c C| self.params.iter().all(|it| has(params_of(case), it));
        match self.pick {
            Pick::Last => cases.rfind(is_shown),
            Pick::First | Pick::RateOfFirst => cases.find(is_shown),
        }
    }
}

fn line(group: &str, label: &str, record: &Record, pick: Pick, view: &View<'_>) -> String {
    let View { protocol, grid, trends } = view;
    let threads = record.params.integer("threads").unwrap_or(1);
    let threads = counted(usize::try_from(threads).unwrap_or(1), "thread");
    let label = label.replace("{threads}", &threads);
    let state = record.verdict.state;
    let mut cells = [const { String::new() }; column::COUNT];
    cells[column::GROUP] = group.to_owned();
    cells[column::NAME] = label;
    cells[column::MEASURED] = NOTHING.to_owned();
    let mut word = state.word();
    let mut style = of_state(state);
    if state.shows_number() {
        let room = |column: usize| grid.width(column);
        cells[column::HALF_WIDTH] = uncertainty(record, *protocol);
        if pick == Pick::RateOfFirst {
            cells[column::MEASURED] = rate_of(record, *protocol, room(column::MEASURED));
        } else {
            cells[column::MEASURED] = measured(record, *protocol, room(column::MEASURED)).0;
            cells[column::INTERVAL] = interval(record, *protocol, room(column::INTERVAL));
            cells[column::EXPECTED] = expected(record, grid);
            let typical = record.typical.as_ref().filter(|_| room(column::TYPICAL) > 0);
            let typical = typical.map(|it| typical::range(record, it, room(column::TYPICAL)));
            cells[column::TYPICAL] = typical.unwrap_or_default();
            cells[column::TREND] = trends.cell(record, room(column::TREND));
        }
        (word, style) = word_of(record);
    }
    cells[column::WORD] = word.to_owned();
    let mut styles = [PLAIN; column::COUNT];
    styles[column::GROUP] = FAINT;
    styles[column::MEASURED] = if state == State::Noisy { CARE } else { PLAIN };
    styles[column::WORD] = style;
    grid.line(cells.each_ref().map(String::as_str), styles)
}

/// The limits of the interval, which a trimmed mean does not have.
fn interval(record: &Record, protocol: Protocol, width: usize) -> String {
    let summary = record.shown_summary().filter(|_| protocol == Protocol::Median && width > 0);
    let limits = summary.filter(|it| it.bound.is_none()).and_then(Summary::limits);
    limits.map_or(String::new(), |limits| interval_within(limits, record.unit, width))
}

/// The predicted range. A bound that holds says little, and is not printed.
fn expected(record: &Record, grid: &Grid<{ column::COUNT }>) -> String {
    let says_something = record.prediction.as_ref().is_some_and(|prediction| {
        !prediction.is_ordinal() || record.agreement.is_some_and(Agreement::fails)
    });
    let says_something =
        says_something || matches!(record.no_model, Some(NoModel::NoisyInput { .. }));
    if says_something { predicted(record, grid.width(column::EXPECTED)).0 } else { String::new() }
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

/// How far the numbers can be trusted, what disturbed them, and what helps.
fn quality(document: &Document) -> String {
    let Document { run, records, .. } = document;
    let mut parts: Vec<String> = progress(document).into_iter().map(|it| it + " ").collect();
    if let Some(reference) = run.reference {
        parts.push(format!("{}; ", core_state(&reference)));
    }
    let valid = records.iter().filter(|record| record.verdict.state == State::Valid).count();
    parts.push(format!("{valid} of {} valid", counted(records.len(), "case")));
    if run.verdict.state != State::Valid {
        let causes: Vec<&str> =
            run.verdict.reasons.iter().map(|it| cause_words(it.cause)).collect();
        parts.push(format!("; run {}: {}", run.verdict.state.word(), causes.join(", ")));
    }
    let reasons = || records.iter().flat_map(|record| record.verdict.reasons.first());
    let noisy = causes(records, State::Noisy);
    if let Some((cause, _)) = noisy.first() {
        let remedy = remedy::first(reasons().filter(|reason| reason.cause == *cause));
        parts.extend(remedy.map(|remedy| format!(" → {remedy}")));
    }
    parts.concat()
}

/// Labelled texts on what is outside, noisy or missing, and on all predictions.
fn remarkable(run: &Run, records: &[Record]) -> Vec<(&'static str, String)> {
    let all = counted(records.len(), "case");
    let mut lines = Vec::new();
    let outside = outside(records, OUTSIDE);
    if !outside.is_empty() {
        lines.push(("outside", outside.join("; ")));
    }
    let unusual = unusual(records, UNUSUAL);
    if !unusual.is_empty() {
        lines.push(("typical", unusual.join("; ")));
    }
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

fn rate_of(record: &Record, protocol: Protocol, width: usize) -> String {
    let mark = mark(&[record]);
    match DisplayValue::of(record, protocol).number() {
        Some(ns) if ns > 0.0 => {
            let rate = quantity_within(1e9 / ns, Unit::PerSecond, width - width_of(mark));
            format!("{mark}{rate}")
        }
        _ => NOTHING.to_owned(),
    }
}

/// What the reader has to know about the number, the most important first.
fn word_of(record: &Record) -> (&'static str, anstyle::Style) {
    let noisy = record.verdict.state == State::Noisy;
    // An inconclusive bound says nothing against the number.
    let has_value = record.prediction.as_ref().is_some_and(|it| !it.is_ordinal());
    match record.agreement {
        Some(agreement) if agreement.fails() => (agreement.word(), BAD),
        _ if noisy => (State::Noisy.word(), CARE),
        Some(Agreement::Inconclusive) if has_value => (Agreement::Inconclusive.word(), PLAIN),
        Some(Agreement::Within) if record.is_value_within() => (Agreement::Within.word(), GOOD),
        Some(Agreement::Within) => (Agreement::Within.word(), PLAIN),
        _ => (State::Valid.word(), PLAIN),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_whole() {
        let labels = ROWS.iter().map(|row| row.label.replace("{threads}", "128 threads"));
        let most = labels.map(|label| width_of(&label)).max().unwrap();
        for width in NARROWEST..200 {
            let name = grid(width).width(column::NAME);
            assert!(name >= most, "{name} at {width}");
        }
    }
}
