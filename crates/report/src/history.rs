//! A history as text: for each case a sparkline and its change points; for a single case also its
//! values.

use fathom_analysis::history::{
    Change, History, HistoryPoint, HistorySeries, OtherSubject, RUNS_MIN,
};
use fathom_record::quantity::{NOTHING, at_most, percent, quantity, quantity_within};
use fathom_record::{State, Stratum, Unit, is_own};

use crate::case::{case, counted};
use crate::layout::Layout;
use crate::listing::started;
use crate::paint::{CARE, FAINT, STRONG, of_state, paint, paint_lines};
use crate::shown::mark;
use crate::spark;
use crate::wrap::{NARROWEST, width_of, wrapped};

/// Values printed for a single case: the newest.
const VALUES_SHOWN: usize = 40;
/// Columns needed for values with their intervals.
const VALUE_WIDTH: usize = 90;
/// The last changes of the command that are named.
const OTHERS_NAMED: usize = 3;
/// Differences named beside a change; further ones are counted.
const DIFFERENCES_NAMED: usize = 4;

/// Histories as text: the answer, each series, and one explanation for all.
pub fn render(histories: &[History], layout: &Layout) -> String {
    let width = layout.width.max(NARROWEST);
    let series: Vec<&HistorySeries> =
        histories.iter().flat_map(|history| &history.series).collect();
    let marks = series.iter().any(|one| !is_as_found(one));
    let mut text = match histories.first().filter(|_| !series.is_empty()) {
        Some(first) => answer(&first.metric, &series, width),
        None => String::new(),
    };
    text.extend(histories.iter().map(|history| metric_text(history, width, marks)));
    if !series.is_empty() {
        text += &explanation(&series, width);
    }
    text
}

fn is_as_found(series: &HistorySeries) -> bool {
    series.stratum == Stratum::AsFound
}

/// The history of a metric; as-found series are marked if there are others.
fn metric_text(history: &History, width: usize, marks: bool) -> String {
    let mut text = String::new();
    let (metric, host) = (&history.metric, &history.host);
    if history.series.is_empty() {
        text += &match history.without {
            _ if !history.emulated.is_empty() => {
                format!("No comparable run of {metric} on {host}.\n")
            }
            0 => format!("No stored run of {metric} on {host}.\n"),
            _ => format!("No stored run of {metric} on {host} has these cases.\n"),
        };
    } else {
        let head = wrapped(&format!("{metric} on {host}"), width, "", "  ");
        text += &paint_lines(STRONG, &head);
        let alone = history.series.len() == 1;
        let effort = history.series[0].effort;
        let efforts = history.series.iter().any(|series| series.effort != effort);
        for series in &history.series {
            text += &series_text(series, width, alone, [marks && is_as_found(series), efforts]);
        }
    }
    let mut aside = |line: String| text += &wrapped(&line, width, "", "  ");
    if !history.imposed.is_empty() {
        let runs = history.imposed.join(", ");
        aside(format!("Left out, because of test settings: {runs}."));
    }
    if !history.emulated.is_empty() {
        let runs = history.emulated.join(", ");
        aside(format!("Left out, because the CPU is emulated: {runs}."));
    }
    if !history.other_hosts.is_empty() {
        let hosts = history.other_hosts.join(", ");
        aside(format!("Also measured on {hosts}; select one with `--host NAME|ID`."));
    }
    text
}

/// The newest value of a case, a sparkline, and its change points.
fn series_text(series: &HistorySeries, width: usize, alone: bool, marks: [bool; 2]) -> String {
    let [is_marked, with_effort] = marks;
    let fast = series.points.iter().filter(|point| !point.slow);
    let values: Vec<f64> = fast.filter_map(|point| point.value).collect();
    let name = if series.params.is_empty() { "all".to_owned() } else { case(&series.params) };
    let name = match &series.far {
        Some(far) => format!("{name}, far end {far}"),
        None => name,
    };
    let name = if with_effort { format!("{name}, {}", series.effort.word()) } else { name };
    let has_value = |point: &&HistoryPoint| !point.slow && point.value.or(point.bound).is_some();
    let runs = counted(series.points.iter().filter(has_value).count(), "run");
    let newest = series.points.iter().rev().find_map(|point| measured(point, series.unit));
    let mark = mark(is_marked, false);
    let newest = format!("{mark}{}", newest.unwrap_or_else(|| NOTHING.to_owned()));
    let name_width = (width / 3).min(36);
    // On a line of its own if it is too long: a cut name is ambiguous.
    let (above, beside) = match width_of(&name) > name_width {
        true => (wrapped(&name, width, "  ", "    "), String::new()),
        false => (String::new(), name),
    };
    let head = format!("  {beside:<name_width$} {newest:>12} {runs:>9} ");
    let bars = spark::line(&values, (width - width_of(&head).min(width)).min(60));
    let mut text = format!("{above}{}\n", format!("{head}{bars}").trim_end());
    for OtherSubject { run, before, after } in series.others.iter().rev().take(OTHERS_NAMED) {
        let line = format!("another command from run {run} on: `{before}` → `{after}`");
        text += &paint_lines(CARE, &wrapped(&line, width, "    ", "      "));
    }
    if alone {
        let hidden = series.points.len().saturating_sub(VALUES_SHOWN);
        if hidden > 0 {
            text += &format!("    … {hidden} earlier\n");
        }
        for point in &series.points[hidden..] {
            if let Some(change) = series.changes.iter().find(|change| change.run == point.run) {
                text += &change_text(change, series, width);
            }
            text += &value(point, series, width);
        }
    } else {
        series.changes.iter().for_each(|change| text += &change_text(change, series, width));
    }
    text
}

/// The value as tables print it: marked if noisy, or as a bound.
fn measured(point: &HistoryPoint, unit: Unit) -> Option<String> {
    let mark = mark(point.slow, point.state == State::Noisy);
    let text = match (point.value, point.bound) {
        (Some(value), _) => quantity(value, unit),
        (None, Some(bound)) => at_most(bound, unit),
        (None, None) => return None,
    };
    Some(format!("{mark}{text}"))
}

fn value(point: &HistoryPoint, series: &HistorySeries, width: usize) -> String {
    let measured = match measured(point, series.unit) {
        Some(text) => text,
        None if point.cut_short => "cut short".to_owned(),
        None => NOTHING.to_owned(),
    };
    let interval =
        point.interval.filter(|_| width >= VALUE_WIDTH).map_or(String::new(), |[low, high]| {
            let end = |value| quantity_within(value, series.unit, 10);
            format!("  {} to {}", end(low), end(high))
        });
    let state = paint(of_state(point.state), point.state.word());
    let run = fathom_record::name(&point.run, point.label.as_deref());
    format!("    {}  {measured:>12}{interval}  {state}  {run}\n", started(&point.started))
}

fn change_text(change: &Change, series: &HistorySeries, width: usize) -> String {
    let direction = match change.worse {
        Some(true) => ", worse",
        Some(false) => ", better",
        None => "",
    };
    let sign = if change.ratio > 1.0 { "+" } else { "−" };
    let found =
        if change.as_found { ", of all processes: another state of the core since" } else { "" };
    let mut text = format!(
        "since {} (run {}): {} → {}, {sign}{}{direction}{found} ({})",
        started(&change.started),
        change.run,
        quantity(change.before, series.unit),
        quantity(change.after, series.unit),
        percent((change.ratio - 1.0).abs()),
        p_text(change.p),
    );
    let named = change.differences.iter().take(DIFFERENCES_NAMED);
    let facts: Vec<String> =
        named.map(|one| format!("{} {} → {}", one.what, one.a, one.b)).collect();
    if !facts.is_empty() {
        text += &format!("; also changed: {}", facts.join(", "));
    }
    let further = change.differences.len().saturating_sub(DIFFERENCES_NAMED);
    if further > 0 {
        let runs = format!("{} {}", change.after_run, change.run);
        text += &format!(" and {further} more (`fathom compare {runs}`)");
    }
    let style = if change.worse == Some(true) { CARE } else { STRONG };
    paint_lines(style, &wrapped(&text, width, "    ▸ ", "      "))
}

/// Smaller p-values are denormal and lose digits.
fn p_text(p: f64) -> String {
    if p < f64::MIN_POSITIVE { "p < 1e-307".to_owned() } else { format!("p = {p:.1e}") }
}

/// How many changes there are, and the newest.
fn answer(metric: &str, series: &[&HistorySeries], width: usize) -> String {
    let of = |one: &&HistorySeries| one.changes.len();
    let changes: usize = series.iter().map(of).sum();
    let with_value = |series: &&HistorySeries| {
        series.points.iter().filter(|point| point.value.is_some()).count()
    };
    let most = series.iter().map(with_value).max().unwrap_or(0);
    let points = || series.iter().flat_map(|one| &one.points).filter(|it| it.value.is_some());
    let noisy = points().filter(|point| point.state == State::Noisy).count();
    let noisy = match noisy > 1 && 2 * noisy > points().count() {
        true => format!(
            " {noisy} of {} are noisy: a busy machine changes numbers, too (`fathom doctor`).",
            counted(points().count(), "value")
        ),
        false => String::new(),
    };
    let text = match changes {
        0 if most < RUNS_MIN => {
            let more = match is_own(metric) {
                true => String::new(),
                false => format!(": `fathom run {metric} --quick` each hour, by cron, gives them"),
            };
            format!("Too few runs to detect a change ({most} of at least {RUNS_MIN}){more}.")
        }
        0 => "No lasting change.".to_owned(),
        count => {
            let day = |change: &Change| change.started.get(..10).unwrap_or_default().to_owned();
            let newest = series.iter().flat_map(|one| &one.changes).map(day).max();
            let changed = series.iter().filter(|one| !one.changes.is_empty()).count();
            format!(
                "{} in {changed} of {}, the newest on {}.",
                counted(count, "lasting change"),
                counted(series.len(), "case"),
                newest.unwrap_or_default()
            )
        }
    };
    paint_lines(STRONG, &wrapped(&(text + &noisy), width, "", "  "))
}

/// The criteria for a change, and the values that are left out.
fn explanation(series: &[&HistorySeries], width: usize) -> String {
    let mut text = String::new();
    let mut count_values = |is: fn(&HistoryPoint) -> bool, one: &str, many: &str| {
        let points = series.iter().flat_map(|series| &series.points);
        match points.filter(|point| is(point)).count() {
            0 => {}
            1 => text += &format!(" 1 {one}."),
            count => text += &format!(" {count} {many}."),
        }
    };
    count_values(
        |point| point.bound.is_some(),
        "value is an upper bound and left out",
        "values are upper bounds and left out",
    );
    count_values(
        |point| point.cut_short,
        "value of an interrupted run is left out",
        "values of interrupted runs are left out",
    );
    count_values(
        |point| point.value.is_none() && point.bound.is_none() && !point.cut_short,
        "value is missing or invalid",
        "values are missing or invalid",
    );
    count_values(
        |point| point.slow,
        "value (°) is of a run in another state of the core and left out",
        "values (°) are of runs in another state of the core and left out",
    );
    match series.iter().map(|series| series.explained).sum::<usize>() {
        0 => {}
        1 => text += " 1 change is left out: the core frequency changed as much.",
        count => {
            text += &format!(" {count} changes are left out: the core frequency changed as much.")
        }
    }
    let found = series.iter().filter(|series| is_as_found(series)).count();
    text += match series.len() - found {
        0 => " All values are over all processes.",
        _ if found == 0 => " All values are of one state of the core.",
        _ => " °: over all processes; others of one state of the core.",
    };
    text += " A change is reported if it is at least 1 %, with at least three runs on each \
             side, and at most 1 % of series without a change would show it.";
    let text = paint_lines(FAINT, &wrapped(text.trim_start(), width, "", "  "));
    format!("\n{text}")
}
