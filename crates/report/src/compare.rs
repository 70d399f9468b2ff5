//! Comparisons for the terminal.

mod factors;
mod families;
mod gate;
mod groups;
mod split;
mod verdict;

use std::collections::BTreeMap;

use anstyle::Style;
use fathom_analysis::compare::{
    Compared, Comparison, ComparisonCase, ComparisonSide, ComparisonWord, Noise, NoiseBy,
    NotComparable, Share,
};
use fathom_analysis::differences::Difference;
use fathom_analysis::fleet::GroupComparison;
use fathom_record::quantity::{NOTHING, change, percent, quantity, signed_percent};
use fathom_record::{MetricId, Params, RunState, Stratum};

use self::families::{FamilyLine, Many};
use crate::case::{counted, named};
use crate::column::{Column, Lines};
use crate::distinct::grouped;
use crate::layout::Layout;
use crate::opening::{labelled, minute};
use crate::paint::{BAD, CARE, FAINT, GOOD, PLAIN, STRONG, paint_lines};
use crate::shown::mark;
use crate::wrap::{NARROWEST, clean, glued, width_of, wrapped};

/// Printed instead of `inconclusive` if the core speed can hide or fake a change.
const CORE_SPEED: &str = "core speed";
/// With more families of cases on one side only, cases are counted by metric.
const LISTED: usize = 12;
/// Facts in which the hosts or runs differ.
const FACTS: usize = 4;
/// Cases named that cannot be compared for one reason.
const NAMED: usize = 2;

/// A smaller rest is nothing.
const NET_MIN: f64 = 0.000_5;
/// Smaller changes may be noise from run to run.
const SMALL: f64 = 0.1;
/// Cases of which the terms are shown.
const SPLITS: usize = 3;
/// Lines of cases, and of notes beneath; `fathom compare --help` has what all words mean.
const CASES: usize = 10;
const NOTES: usize = 2;

/// Width of both values.
const VALUES: usize = 17;
/// The columns that are looked at by their places.
const BOTH: usize = 1;
const INTERVAL: usize = 2;
const PROCESSES: usize = 4;
const CHANGE: usize = 5;
const NET: usize = 6;

static COLUMNS: [Column<()>; 7] = [
    Column::left("metric", &[], ()),
    // A case has one row: its name needs the room at 80 columns.
    Column::right("A → B", &[(100, VALUES)], ()),
    Column::right("95 % interval", &[(0, 15)], ()),
    Column::right("p", &[(110, 8)], ()),
    Column::right("processes", &[(110, 9)], ()),
    Column::left("change", &[(0, 21)], ()),
    Column::right("net of class", &[(100, 12)], ()),
];

/// One line: name, values, interval, p, processes, change, net change.
fn row(columns: &Lines, texts: [&str; 7], word: Style) -> String {
    let style = |at| if at == CHANGE { word } else { PLAIN };
    columns.line((0..).zip(texts).map(|(at, text)| (text, style(at))))
}

/// Whether some cases are of one state of the core, so that those over all processes are marked.
fn has_selected(comparison: &Comparison) -> bool {
    comparison.rows.iter().any(|row| row.stratum != Stratum::AsFound)
}

/// The answer, both sides and their differences, what moved together, and the cases that differ
/// beside that, the most first. A row for each case as it is if `layout.all`.
pub fn render(comparison: &Comparison, layout: &Layout) -> String {
    rendered(comparison, None, layout)
}

/// The same of two groups, whose rows are over hosts, and the hosts that changed most.
pub fn render_groups(groups: &GroupComparison, layout: &Layout) -> String {
    rendered(&groups.whole, Some(groups), layout)
}

/// What else moved at a change of a history, in the runs on both sides of it; empty if no class of
/// cases did.
pub fn moved(comparison: &Comparison, layout: &Layout) -> String {
    let width = layout.width.clamp(NARROWEST, 140);
    let lines = factors::lines(&comparison.factors, false, width);
    if lines.is_empty() {
        return lines;
    }
    let (a, b) = (&comparison.a.id, &comparison.b.id);
    let head = format!("\nAt the newest change more moved (`fathom compare {a} {b}`):");
    wrapped(&head, width, "", "  ") + &lines
}

fn rendered(comparison: &Comparison, groups: Option<&GroupComparison>, layout: &Layout) -> String {
    let width = layout.width.clamp(NARROWEST, 140);
    let mut text = String::new();
    if let Some(gate) = &comparison.gate {
        text += &gate::verdict(gate, comparison, width);
    }
    text += &verdict::verdict(comparison, width);
    text += "\n";
    text += &sides(comparison, layout.all, width);
    text += &groups.map_or_else(String::new, |it| groups::in_both(it, width));
    if let Some(gate) = &comparison.gate {
        text.push('\n');
        text += &gate::details(gate, layout.all, width);
    }
    text += &factors::lines(&comparison.factors, layout.all, width);
    text += &cases(comparison, groups.is_some(), layout.all, width);
    text += &factors::suspects_of_cases(&comparison.factors, layout.all, width);
    text += &groups.map_or_else(String::new, |it| groups::changed(it, layout.all, width));
    text + &paint_lines(FAINT, &notes(comparison, groups, layout.all, width))
}

/// The cases that differ beside their class, in [`CASES`] lines, or a row for each as it is.
fn cases(comparison: &Comparison, over_hosts: bool, all: bool, width: usize) -> String {
    let is_net = comparison.factors.iter().any(|it| it.moved);
    let columns = Lines::new(width, if width >= 110 { 2 } else { 1 }, &COLUMNS);
    let columns = &columns.retain(|at| at != NET || (all && is_net));
    let rows = match all {
        true => comparison.rows.clone(),
        false => verdict::differing(comparison),
    };
    let lines = families::lines(&rows, all);
    if lines.is_empty() {
        return String::new();
    }
    let mut titles = COLUMNS.each_ref().map(|column| (&*column.title, STRONG));
    if over_hosts {
        titles[PROCESSES].0 = "hosts";
    }
    if is_net && !all {
        (titles[0].0, titles[INTERVAL].0) = ("beside their class", "net 95 %");
        titles[CHANGE].0 = "net change";
    }
    let mut text = "\n".to_owned() + &columns.line(titles);
    let mut splits = if all { usize::MAX } else { SPLITS };
    let mut split_of = |row: &Compared| {
        let is_split = splits > 0 && row.split.is_some() && row.word < ComparisonWord::Unchanged;
        splits -= usize::from(is_split);
        if is_split { split::line(row, width) } else { String::new() }
    };
    let shown = if all { lines.len() } else { lines.len().min(CASES) };
    for line in &lines[..shown] {
        text += &match line {
            FamilyLine::One(row) => row_lines(row, comparison, columns) + &split_of(row),
            FamilyLine::Many(many) => family_lines(many, columns),
        };
    }
    let count = |line: &FamilyLine<'_>| match line {
        FamilyLine::One(_) => 1,
        FamilyLine::Many(many) => many.members.len(),
    };
    let more: usize = lines[shown..].iter().map(count).sum();
    if more > 0 {
        text += &format!("{} more (`--all`)\n", counted(more, "case"));
    }
    text
}

/// What could not be compared, and what intervals leave out; in [`NOTES`] lines unless `all` is
/// asked for.
fn notes(
    comparison: &Comparison,
    groups: Option<&GroupComparison>,
    all: bool,
    width: usize,
) -> String {
    let mut text = match groups {
        Some(groups) => groups::foot(groups, width),
        None => single(comparison, width) + &too_few_runs(comparison, width),
    };
    let head = text.clone();
    text += &not_comparable(comparison, all, width);
    text += &only("A", &comparison.only_a, width);
    text += &only("B", &comparison.only_b, width);
    if all || comparison.rows.is_empty() || text.lines().count() <= NOTES {
        return text;
    }
    let counts = [
        (comparison.not_comparable.len(), "not comparable"),
        (comparison.only_a.len(), "only in A"),
        (comparison.only_b.len(), "only in B"),
    ];
    let counts = counts.iter().filter(|(count, _)| *count > 0);
    let counts: Vec<String> = counts.map(|(count, what)| format!("{count} {what}")).collect();
    head + &wrapped(&format!("Cases: {} (`--all`)", counts.join(", ")), width, "", "  ")
}

/// What is not in the intervals of commands that measure once.
fn single(comparison: &Comparison, width: usize) -> String {
    let rows = &comparison.rows;
    let within = rows.iter().filter(|row| row.ratio.is_some() && is_single(row)).count();
    let words = match within {
        0 if rows.is_empty() || !rows.iter().all(|it| is_single(it) && it.ratio.is_none()) => {
            return String::new();
        }
        0 => "one process on a side: no ratio and no interval; `--all` prints the values of both \
              runs"
            .to_owned(),
        _ => format!(
            "{} of one process a side: intervals do not include run-to-run variation",
            counted(within, "case")
        ),
    };
    wrapped(&words, width, "", "  ")
}

/// What small differences may be, until enough runs of the host are kept.
fn too_few_runs(comparison: &Comparison, width: usize) -> String {
    let is_small = |times: f64| times.ln().abs() < SMALL.ln_1p();
    let is_net = |row: &Compared| row.share == Share::Differs && !is_single(row);
    let rows = comparison.rows.iter().filter(|row| is_net(row));
    let mut sizes = comparison.factors.iter().filter(|it| it.moved).map(|it| it.slower);
    let is_any = sizes.any(is_small) || rows.filter_map(|row| Some(row.net?.ratio)).any(is_small);
    let kept = comparison.noise_runs;
    let is_learned = comparison.rows.iter().any(|row| row.noise_by == Some(NoiseBy::Kept));
    if !is_any || is_learned {
        return String::new();
    }
    let why = match kept < Noise::RUNS_MIN {
        true => format!("it takes {} kept runs like these, not {kept}", Noise::RUNS_MIN),
        false => format!("too few of {kept} kept runs have these cases"),
    };
    let words = format!("Run-to-run noise is in no interval: {why}");
    wrapped(&words, width, "", "  ")
}

/// A line for each reason: how many cases, and the first of them; all of them if `all`.
fn not_comparable(comparison: &Comparison, all: bool, width: usize) -> String {
    let reasons = comparison.not_comparable.iter().map(|it| {
        let NotComparable { metric, params, reason } = it;
        (&**reason, clean(&named(metric, params)))
    });
    let line = |(reason, names): &(&str, Vec<String>)| {
        let shown = if all { names.len() } else { names.len().min(NAMED) };
        let mut list = names[..shown].join(", ");
        if shown < names.len() {
            list += &format!(" and {} more (`--all`)", names.len() - shown);
        }
        wrapped(&format!("not comparable, {reason}: {list}"), width, "", "  ")
    };
    grouped(reasons).iter().map(line).collect()
}

fn sides(comparison: &Comparison, all: bool, width: usize) -> String {
    let mut text = String::new();
    let (a, b) = (&comparison.a, &comparison.b);
    let more = comparison.more_a.iter().map(|side| ("", side));
    for (label, side) in [("A", a)].into_iter().chain(more).chain([("B", b)]) {
        text += &labelled(label, &side_words(side), width);
    }
    let facts = |label: &str, differences: &[Difference]| -> String {
        let fact = |(i, fact): (usize, &Difference)| {
            let label = if i == 0 { label } else { "" };
            let [from, to] = what_differs([&fact.a, &fact.b]);
            labelled(label, &format!("{}: {from} → {to}", fact.what), width)
        };
        let shown = if all { differences.len() } else { differences.len().min(FACTS) };
        let lines: String = differences[..shown].iter().enumerate().map(fact).collect();
        match differences.len() - shown {
            0 => lines,
            more => lines + &labelled("", &format!("{more} more (`--all`)"), width),
        }
    };
    text += &facts("in A", &comparison.within_a);
    text += &match comparison.differences.as_slice() {
        [] => labelled("differ", "no recorded differences of host and run", width),
        differences => facts("differ", differences),
    };
    if let Some(hours) = comparison.hours_apart {
        text += &labelled("apart", &apart_words(hours), width);
    }
    text + &comparison.core.map_or(String::new(), |core| labelled("core", &core_words(core), width))
}

/// Both sides of a difference. Of long lists, such as the kernel's command line, only the words
/// that the other side does not have.
pub(crate) fn what_differs(sides: [&str; 2]) -> [String; 2] {
    const WORDS_MIN: usize = 8;
    let words = sides.map(|side| side.split_whitespace().collect::<Vec<_>>());
    if words.iter().any(|side| side.len() < WORDS_MIN) {
        return sides.map(str::to_owned);
    }
    let without = |side: &[&str], other: &[&str]| {
        let only: Vec<&str> = side.iter().filter(|word| !other.contains(word)).copied().collect();
        if only.is_empty() { "nothing more".to_owned() } else { only.join(" ") }
    };
    [without(&words[0], &words[1]), without(&words[1], &words[0])]
}

fn apart_words(hours: f64) -> String {
    let time =
        if hours < 48.0 { format!("{hours:.0} h") } else { format!("{:.0} d", hours / 24.0) };
    format!(
        "{} between A and B, in which the machine may have changed: better measure both in turn \
         (A B B A) and compare neighbours",
        glued(&time)
    )
}

fn core_words(core: f64) -> String {
    let (side, other, times) = if core > 1.0 { ("B", "A", core) } else { ("A", "B", 1.0 / core) };
    format!(
        "{} slower throughout {side} than in {other} (reference loop), so everything is compared \
         over all processes: check governor, temperature and neighbours, and measure again",
        glued(&percent(times - 1.0))
    )
}

fn side_words(side: &ComparisonSide) -> String {
    let (valid, records) = (side.valid, side.records);
    let started = minute(&side.started);
    let mut words = format!(
        "{} on {}, {started} UTC, {valid} of {records} cases valid",
        fathom_record::name(&side.id, side.label.as_deref()),
        side.host,
    );
    if side.state != RunState::Complete {
        let whole = side.records - side.in_part;
        let mut progress = match side.planned {
            0 => format!("{whole} cases"),
            planned => format!("{whole} of {planned} cases"),
        };
        if side.in_part > 0 {
            progress += &format!(", {} partly", side.in_part);
        }
        words += &match side.state {
            RunState::Running => format!(", running: {progress} so far"),
            RunState::Unknown => format!(", running or killed: {progress} so far"),
            _ => format!(", interrupted after {progress}"),
        };
    }
    if let Some(why) = &side.noisy {
        words +=
            &format!("; low-quality run ({why}): differences over all processes are tentative");
    }
    words
}

/// Whether a side rests on the first visits although clean ones were looked for.
fn is_as_found(row: &Compared) -> bool {
    row.stratum == Stratum::AsFound && row.visits_a.max(row.visits_b) > 0
}

/// The parameters in which the compared cases of this metric differ; all if it is the only one.
fn short_params(row: &Compared, rows: &[Compared]) -> Params {
    let others: Vec<&Params> =
        rows.iter().filter(|it| it.metric == row.metric).map(|it| &it.params).collect();
    let mut params = row.params.clone();
    if others.len() > 1 {
        params.0.retain(|name, value| others.iter().any(|it| it.0.get(name) != Some(value)));
    }
    params
}

/// Whether a side is one process, such as a command that measures once.
fn is_single(row: &Compared) -> bool {
    row.processes_a.min(row.processes_b) < 2
}

fn row_lines(row: &Compared, comparison: &Comparison, columns: &Lines) -> String {
    let is_marked = has_selected(comparison) && is_as_found(row);
    let mark = mark(is_marked, row.noisy_a || row.noisy_b);
    let params = &short_params(row, &comparison.rows);
    let name = format!("{mark}{}", clean(&named(&row.metric, params)));
    if row.ratio.is_none() && is_single(row) {
        let each = format!("{} → {}", quantity(row.a, row.unit), quantity(row.b, row.unit));
        return wrapped(&format!("{name}  {}", glued(&each)), columns.line, "", "    ");
    }
    let [mut text, mut name] = columns.name(name, ["", "    "]);
    let mut values = change(row.a, row.b, row.unit, VALUES);
    if columns.has(BOTH) && width_of(&values) > VALUES {
        // Too far apart for one unit: on a line of their own.
        let each = format!("{} → {}", quantity(row.a, row.unit), quantity(row.b, row.unit));
        text += &wrapped(&format!("{name} {each}"), columns.line, "", "    ");
        (name, values) = (String::new(), String::new());
    }
    let word = match row.unchanged_within {
        Some(share) => unchanged(share),
        None if row.is_spoiled() => CORE_SPEED.to_owned(),
        None => change_words(row.word, row.ratio, ""),
    };
    let p = row.p.map_or(NOTHING.to_owned(), p_text);
    let processes = format!("{}/{}", row.processes_a, row.processes_b);
    let net = row.net.map_or(NOTHING.to_owned(), |net| {
        let is_nothing = (net.ratio - 1.0).abs() < NET_MIN;
        if is_nothing { percent(0.0) } else { signed_percent(net.ratio) }
    });
    let texts = [&name, &values, &limits(row.interval), &p, &processes, &word, &net];
    text + &self::row(columns, texts.map(String::as_str), style(row.word))
}

/// `20 % slower`, `looks 20 % slower`, `changed −20 %`, `inconclusive`: the size is that of the
/// change of the number, a time or a rate; `before` is written before it.
pub(crate) fn change_words(word: ComparisonWord, ratio: Option<f64>, before: &str) -> String {
    let (text, Some(ratio)) = (text_of(word), ratio) else { return text_of(word).to_owned() };
    let size = format!("{before}{}", percent((ratio - 1.0).abs()));
    match word {
        ComparisonWord::Unchanged | ComparisonWord::Inconclusive => text.to_owned(),
        ComparisonWord::Changed | ComparisonWord::LooksChanged => {
            format!("{text} {}", signed_percent(ratio))
        }
        _ => match text.split_once(' ') {
            Some((looks, word)) => format!("{looks} {size} {word}"),
            None => format!("{size} {text}"),
        },
    }
}

/// One line for cases of one metric with the same word.
fn family_lines(many: &Many<'_>, columns: &Lines) -> String {
    let mark = mark(false, many.members.iter().any(|row| row.noisy_a || row.noisy_b));
    let (cases, first) = (many.members.len(), many.members[0].word);
    let name = format!("{mark}{} ({cases} cases)", clean(&many.name));
    let [text, name] = columns.name(name, ["", "    "]);
    // The first changed most. Ratios are never averaged.
    let most = many.members[0];
    let values = change(most.a, most.b, most.unit, VALUES);
    let values = if width_of(&values) > VALUES { String::new() } else { values };
    let up_to = change_words(first, most.ratio, "≤ ");
    let texts = [&name, &values, &limits(many.hull()), "", "", &up_to, ""];
    text + &row(columns, texts, style(first))
}

/// `+19.5…+20.5 %`: by how much the number changed, in as many digits as tell the ends apart.
fn limits(interval: Option<[f64; 2]>) -> String {
    let Some(ends) = interval.map(|ends| ends.map(|ratio| 100.0 * (ratio - 1.0))) else {
        return NOTHING.to_owned();
    };
    // An end that is not 0 does not read as 0.
    let finest = ends.map(f64::abs).into_iter().fold(ends[1] - ends[0], f64::min);
    let digits = match finest {
        width if width < 0.2 => 2,
        width if width < 5.0 => 1,
        _ => 0,
    };
    let [low, high] = ends.map(|end| match end {
        end if end.abs() >= 9_999.5 => ">9999".to_owned(),
        end => format!("{end:+.digits$}").replace('-', "−"),
    });
    format!("{low}…{high} %")
}

fn p_text(p: f64) -> String {
    if p < 0.000_1 { "< 0.0001".to_owned() } else { format!("{p:.4}") }
}

/// `unchanged ±3 %` for within 2.4 %: whole percents, rounded up, to fit the column.
fn unchanged(within: f64) -> String {
    format!("{} ±{}", text_of(ComparisonWord::Unchanged), whole_percent(within))
}

fn whole_percent(share: f64) -> String {
    format!("{} %", (100.0 * share - 1e-9).ceil())
}

pub(crate) fn text_of(word: ComparisonWord) -> &'static str {
    match word {
        ComparisonWord::Slower => "slower",
        ComparisonWord::Faster => "faster",
        ComparisonWord::Worse => "worse",
        ComparisonWord::Better => "better",
        ComparisonWord::Changed => "changed",
        ComparisonWord::LooksSlower => "looks slower",
        ComparisonWord::LooksFaster => "looks faster",
        ComparisonWord::LooksWorse => "looks worse",
        ComparisonWord::LooksBetter => "looks better",
        ComparisonWord::LooksChanged => "looks changed",
        ComparisonWord::Unchanged => "unchanged",
        ComparisonWord::Inconclusive => "inconclusive",
    }
}

pub(crate) fn style(word: ComparisonWord) -> Style {
    match word {
        ComparisonWord::Slower | ComparisonWord::Worse => BAD,
        ComparisonWord::Faster | ComparisonWord::Better => GOOD,
        ComparisonWord::Changed => STRONG,
        ComparisonWord::LooksSlower | ComparisonWord::LooksWorse | ComparisonWord::LooksChanged => {
            CARE
        }
        ComparisonWord::LooksFaster | ComparisonWord::LooksBetter | ComparisonWord::Unchanged => {
            PLAIN
        }
        ComparisonWord::Inconclusive => FAINT,
    }
}

fn only(side: &str, cases: &[ComparisonCase], width: usize) -> String {
    if cases.is_empty() {
        return String::new();
    }
    let names = families::names(cases);
    let (head, names) = if names.len() > LISTED {
        let head = format!("Only in {side}, {} cases (`--json` has each)", cases.len());
        let metrics = counts(cases.iter().map(|case| case.metric.as_str()));
        (head, metrics.into_iter().map(|(metric, count)| format!("{metric} ({count})")).collect())
    } else {
        (format!("Only in {side}"), names)
    };
    // A name longer than the line is broken at its blanks.
    let whole = |name: &String| if width_of(name) + 3 < width { glued(name) } else { name.clone() };
    let names: Vec<String> = names.iter().map(whole).collect();
    wrapped(&format!("{head}: {}", names.join(", ")), width, "", "  ")
}

/// `file 12, os 3`: groups of metrics with the number of cases.
fn group_counts<'a>(metrics: impl Iterator<Item = &'a MetricId>) -> String {
    let groups = counts(metrics.map(|it| it.as_str().split('.').next().unwrap_or_default()));
    let list = groups.iter().map(|(group, count)| glued(&format!("{group} {count}")));
    list.collect::<Vec<String>>().join(", ")
}

fn counts<'a>(of: impl Iterator<Item = &'a str>) -> BTreeMap<&'a str, usize> {
    let mut counts = BTreeMap::new();
    of.for_each(|one| *counts.entry(one).or_default() += 1);
    counts
}
