//! The classic table: operation, hardware base, software overhead, predicted, measured, standard
//! deviation; and beside it the published figures of a study.

use std::collections::BTreeMap;

use fathom_analysis::reference::{
    Beside, Here, Missing, Published, ReferenceRow, RunBeside, StudyFigure, StudyReference,
};
use fathom_record::quantity::{NOTHING, percent, scaled_range_within, scaled_within, unit_for};
use fathom_record::{Protocol, State, Unit};

use crate::case::{case, named};
use crate::column::{Column, Lines};
use crate::distinct::distinct;
use crate::layout::Layout;
use crate::listing::started;
use crate::markdown;
use crate::opening::labelled;
use crate::paint::{FAINT, PLAIN, STRONG, paint, paint_lines};
use crate::shown::{NOISY, mark};
use crate::wrap::{NARROWEST, clean, glued, width_of, wrapped};

const WIDEST: usize = 140;
/// Width from which the published figures are on the line of those of this machine.
const WIDE: usize = 100;

/// Columns beside which every name of an operation fits a line of 80 letters.
const NARROW: [usize; 5] = [8, 8, 11, 8, 5];

/// Units of rates: powers of 1024, or of 1000 as published.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Units {
    #[default]
    Binary,
    Published,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct ReferenceOptions {
    /// Print the published figures.
    pub published: bool,
    pub units: Units,
    pub markdown: bool,
}

pub fn known(references: &[StudyReference]) -> String {
    let names = references.iter().map(|one| format!("`{}` ({})", one.name, one.title));
    names.collect::<Vec<String>>().join(", ")
}

/// The command that measures the case of a published figure; `None` without one.
pub type CommandOf<'a> = &'a dyn Fn(&Published) -> Option<String>;

/// The study, the runs, the table, notes, and the rows without a number, with what measures them.
pub fn render(
    beside: &Beside,
    options: ReferenceOptions,
    command_of: CommandOf<'_>,
    layout: &Layout,
) -> String {
    let line = layout.width.clamp(NARROWEST, WIDEST);
    let mut notes = Notes::default();
    let widths = match options.published {
        // One more figure of a predicted range where there is room.
        true => [5, 5, if line >= WIDE + 2 { 9 } else { 8 }, 6, 4],
        false if line >= 80 => NARROW,
        false => [10, 9, 13, 9, 7],
    };
    let with_cells =
        |row| Cells { name: name(row, beside), ..cells(row, options, widths, &mut notes) };
    let rows: Vec<Cells> = beside.rows.iter().map(with_cells).collect();
    let mut parts: Vec<(&str, String)> = Vec::new();
    if options.published {
        parts.push(("study", format!("{}: {}", beside.reference, beside.title)));
        parts.push(("", beside.machine.clone()));
        parts.push(("how", beside.protocol.clone()));
        parts.extend(beside.note.clone().map(|note| ("note", note)));
    }
    let runs = runs_used(beside).into_iter();
    parts.extend(std::iter::once("here").chain(std::iter::repeat("")).zip(runs));
    let mut closing = vec![legend(options, &rows, line)];
    closing.extend(notes.0.iter().enumerate().map(|(at, note)| format!("[{}] {note}", at + 1)));
    if options.published {
        closing.extend(remarks(&beside.rows));
    }
    closing.push(matched_count(beside));
    let (reasons, commands) = unmatched(beside, command_of);
    closing.extend(reasons);
    if !commands.is_empty() {
        let has_file = commands.iter().any(|(command, _)| command.contains("FILE"));
        let file =
            if has_file { " (FILE has the bytes and the cache state of the row)" } else { "" };
        closing.push(format!("Each of these commands fills its rows{file}:"));
    }
    if options.markdown {
        let commands = commands.iter().map(|(command, count)| format!("`{command}`: {count}"));
        closing.extend(commands);
        return in_markdown(&parts, &rows, options, &closing);
    }
    let head: String =
        parts.iter().map(|(label, text)| labelled(label, &clean(text), line)).collect();
    let foot: String = closing.iter().map(|text| wrapped(text, line, "", "  ")).collect();
    let commands: String = commands.iter().map(|one| command_lines(one, line)).collect();
    head + "\n" + &table(&rows, options, widths, line) + &paint_lines(FAINT, &foot) + &commands
}

/// A command that can be copied, with the rows that it fills as a comment of the shell: behind it,
/// or above it where the line is too short.
fn command_lines((command, rows): &(String, String), line: usize) -> String {
    let indent = "  ";
    let whole = format!("{indent}{command}  # {rows}\n");
    if width_of(whole.trim_end()) <= line {
        return whole;
    }
    let above = paint_lines(FAINT, &wrapped(&format!("# {rows}"), line, indent, "  # "));
    above + &wrapped(command, line, indent, "    ")
}

/// The cells of one row.
struct Cells {
    name: String,
    unit: &'static str,
    here: [String; 5],
    is_noisy: bool,
    published: [String; 5],
    ratio: String,
}

impl Cells {
    /// The texts of [`COLUMNS`].
    fn texts(&self) -> impl Iterator<Item = &str> {
        let numbers = self.here.iter().chain(&self.published).chain([&self.ratio]);
        [&*self.name, self.unit].into_iter().chain(numbers.map(String::as_str))
    }
}

/// Operation, unit, five columns here, five published, ratio. The widths of the ten depend on what
/// is shown, and so do their titles.
#[rustfmt::skip]
static COLUMNS: [Column<()>; 13] = [
    Column::left("operation", &[], ()),
    Column::left("unit", &[(0, 5)], ()),
    NUMBER, NUMBER, NUMBER, NUMBER, NUMBER,
    NUMBER, NUMBER, NUMBER, NUMBER, NUMBER,
    Column::right("ratio", &[(0, 5)], ()),
];
const NUMBER: Column<()> = Column::right("", &[(0, 0)], ());

/// Texts that fit no column, by number.
#[derive(Default)]
struct Notes(Vec<String>);

impl Notes {
    fn mark(&mut self, text: &str) -> String {
        let known = self.0.iter().position(|note| note == text);
        let at = known.unwrap_or_else(|| {
            self.0.push(text.to_owned());
            self.0.len() - 1
        });
        format!("[{}]", at + 1)
    }
}

fn cells(
    row: &ReferenceRow,
    options: ReferenceOptions,
    widths: [usize; 5],
    notes: &mut Notes,
) -> Cells {
    let published = &row.published;
    let theirs = match published.measured {
        StudyFigure::Number(number) if options.published => Some(number),
        _ => None,
    };
    let values: Vec<f64> = row.here.iter().map(|here| here.measured).chain(theirs).collect();
    let (divisor, unit) = unit_of(&values, published.unit, options.units);
    let one = |value: Option<f64>, at: usize| {
        value.map_or_else(nothing, |value| scaled_within(value, divisor, widths[at]))
    };
    let deviation = |share: Option<f64>| share.map_or_else(nothing, of_mean);
    let here = row.here.as_ref().map_or_else(
        || [(); 5].map(|()| nothing()),
        |here| {
            let [low, high] = here.predicted;
            let mark = here_mark(here);
            let room = widths[3] - width_of(mark);
            [
                one(here.hardware, 0),
                one(here.from_results, 1),
                scaled_range_within(low, high, divisor, widths[2]),
                format!("{mark}{}", scaled_within(here.measured, divisor, room)),
                deviation(here.sd_percent),
            ]
        },
    );
    let mut figure = |figure: Option<&StudyFigure>, at: usize| match figure {
        None => nothing(),
        Some(StudyFigure::Number(number)) => one(Some(*number), at),
        Some(StudyFigure::Range([low, high])) => {
            scaled_range_within(Some(*low), Some(*high), divisor, widths[at])
        }
        Some(StudyFigure::Words(words)) if width_of(words) <= widths[at] => words.clone(),
        Some(StudyFigure::Words(words)) => notes.mark(words),
    };
    let columns = if options.published {
        [
            figure(published.hardware.as_ref(), 0),
            figure(published.software.as_ref(), 1),
            figure(published.predicted.as_ref(), 2),
            figure(Some(&published.measured), 3),
            deviation(published.sd_percent),
        ]
    } else {
        Default::default()
    };
    let ratio = row.ratio.map_or_else(nothing, |ratio| scaled_within(ratio, 1.0, 5));
    // A row without any number has no unit.
    let unit = if values.is_empty() { "" } else { unit };
    let is_noisy = row.here.as_ref().is_some_and(|here| here.state == State::Noisy);
    Cells { name: String::new(), unit, here, is_noisy, published: columns, ratio }
}

/// What a number measured here begins with.
pub(crate) fn here_mark(here: &Here) -> &'static str {
    if here.is_bound { "≤ " } else { mark(here.is_unfiltered, here.state == State::Noisy) }
}

/// The operation; with the parameters that the study does not state if it has several cases.
fn name(row: &ReferenceRow, beside: &Beside) -> String {
    let published = &row.published;
    let here = row.here.as_ref().map(|here| here.params.clone());
    let Some(operation) = &published.operation else {
        return clean(&named(&published.metric, here.as_ref().unwrap_or(&published.params)));
    };
    let cases = beside.rows.iter().filter(|other| other.published == *published).count();
    let mut further = here.filter(|_| cases > 1).unwrap_or_default();
    further.0.retain(|name, _| !published.params.0.contains_key(name));
    let further = if further.is_empty() { String::new() } else { format!(", {}", case(&further)) };
    clean(&format!("{operation}{further}"))
}

/// The unit in which all these values can be read.
fn unit_of(values: &[f64], unit: Unit, units: Units) -> (f64, &'static str) {
    let of = |value: f64| {
        if unit != Unit::BytesPerSecond || units == Units::Binary {
            return unit_for(value, unit);
        }
        let (divisor, _) = unit_for(value, Unit::PerSecond);
        let symbols = [(1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s")];
        symbols.into_iter().find(|(size, _)| divisor >= *size).unwrap_or((1.0, "B/s"))
    };
    let (low, high) = values
        .iter()
        .fold((f64::INFINITY, 0f64), |(low, high), value| (low.min(*value), high.max(*value)));
    let (divisor, symbol) = of(high);
    if low < divisor / 10.0 { of(low) } else { (divisor, symbol) }
}

/// A percentage in two figures, without its sign.
fn of_mean(sd_percent: f64) -> String {
    percent(sd_percent / 100.0).trim_end_matches(" %").to_owned()
}

fn nothing() -> String {
    NOTHING.to_owned()
}

fn table(rows: &[Cells], options: ReferenceOptions, widths: [usize; 5], line: usize) -> String {
    let is_beside = options.published && line >= WIDE;
    let gap = if options.published || line < 80 { 1 } else { 2 };
    let mut lines = Lines::new(line, gap, &COLUMNS);
    for (at, width) in widths.into_iter().enumerate() {
        lines.widths[2 + at] = Some(width);
        lines.widths[7 + at] = Some(width);
    }
    let mut lines = lines.retain(|at| match at {
        7..12 => is_beside,
        12 => options.published,
        _ => true,
    });
    // Names of a narrow table have lines of their own.
    let has_names = options.published || lines.width(0) >= "operation".len();
    lines.widths[0] = Some(if has_names { lines.width(0).min(36) } else { 0 });
    let mut text = String::new();
    if is_beside {
        let group: usize = widths.iter().map(|width| width + 1).sum();
        let before = lines.width(0) + 6;
        let heads = format!("{:before$}{:>group$}{:>group$}", "", "this machine", "published");
        text += &(paint(STRONG, &heads) + "\n");
    }
    text += &lines.line(titles(options).map(|title| (title, STRONG)));
    for row in rows {
        let [above, name] = lines.name(row.name.clone(), ["", "    "]);
        let texts = std::iter::once(&*name).chain(row.texts().skip(1));
        text += &(above + &lines.line(texts.map(|text| (text, PLAIN))));
        if options.published && !is_beside {
            let cells = ["  published", ""].into_iter().chain(row.published.iter().map(|it| &**it));
            text += &paint(FAINT, &lines.line(cells.map(|text| (text, PLAIN))));
        }
    }
    text
}

fn titles(options: ReferenceOptions) -> [&'static str; 13] {
    let [hardware, results, predicted, measured] = match options.published {
        true => ["hw", "res.", "pred.", "meas."],
        false => ["hardware", "results", "predicted", "measured"],
    };
    let (a, b, c, d, e) = (hardware, results, predicted, measured, "± %");
    ["operation", "unit", a, b, c, d, e, a, "sw", c, d, e, "ratio"]
}

fn in_markdown(
    parts: &[(&str, String)],
    rows: &[Cells],
    options: ReferenceOptions,
    closing: &[String],
) -> String {
    let column = |(at, title): (usize, &str)| {
        let before = if (7..12).contains(&at) { "published " } else { "" };
        let cells = rows.iter().map(|row| row.texts().nth(at).unwrap_or_default().to_owned());
        Column { side: COLUMNS[at].side, ..Column::new(&format!("{before}{title}"), cells) }
    };
    let count = if options.published { 13 } else { 7 };
    let columns: Vec<Column> =
        titles(options).into_iter().enumerate().take(count).map(column).collect();
    let item = |text: &str| format!("- {}\n", markdown::text(text));
    let about: String = parts
        .iter()
        .map(|(label, text)| match *label {
            "" => item(text),
            label => item(&format!("{label}: {text}")),
        })
        .collect();
    let closing: String = closing.iter().map(|text| item(text)).collect();
    format!("{about}\n{}\n{closing}", markdown::table(&columns))
}

/// The runs with a row here, and which rows, if there are several.
fn runs_used(beside: &Beside) -> Vec<String> {
    let rows_of = |id: &str| -> Vec<&ReferenceRow> {
        let is_of = |row: &&ReferenceRow| row.here.as_ref().is_some_and(|here| here.run == id);
        beside.rows.iter().filter(is_of).collect()
    };
    let mut used: Vec<_> = beside.runs.iter().map(|run| (run, rows_of(&run.id))).collect();
    used.retain(|(_, rows)| !rows.is_empty());
    if used.is_empty() {
        used.extend(beside.runs.first().map(|run| (run, Vec::new())));
    }
    let describe = |(at, (run, rows)): (usize, (&RunBeside, Vec<&ReferenceRow>))| {
        let trimmed = if run.run_protocol == Protocol::Trimmed { ", trimmed protocol" } else { "" };
        let started = glued(&started(&run.started));
        let text = format!("run {} on {}, {}, {started} UTC{trimmed}", run.id, run.host, run.cpu);
        let names: Vec<String> = rows.iter().map(|row| name(row, beside)).collect();
        if at == 0 { text } else { format!("{text}: {} from this run", names.join("; ")) }
    };
    used.into_iter().enumerate().map(describe).collect()
}

fn legend(options: ReferenceOptions, rows: &[Cells], line: usize) -> String {
    let mut text = String::new();
    text += match options.published {
        true => {
            "hw: hardware base; res.: predicted from other results here; sw: software overhead; \
             pred.: predicted; meas.: measured; "
        }
        false => "results: predicted from other results of this machine; ",
    };
    text += "± %: standard deviation in percent of the mean (of the kept trials with the trimmed \
             protocol)";
    if options.published {
        text += "; ratio: measured here ÷ published, without significance because published \
                 figures have no confidence interval";
    }
    if rows.iter().any(|row| row.is_noisy) {
        text += &format!("; {NOISY}: noisy");
    }
    if rows.iter().any(|row| row.here[3].starts_with('°')) {
        text += "; °: unfiltered";
    }
    if line < WIDE && options.published && !options.markdown {
        text += "; first line: this machine";
    }
    text + "."
}

/// Notes on the published figures that have one here: each once, with its metric.
fn remarks(rows: &[ReferenceRow]) -> Vec<String> {
    let shown = rows.iter().filter(|row| row.here.is_some()).map(|row| &row.published);
    distinct(shown.flat_map(|it| {
        let parts = [&it.protocol, &it.note].into_iter().flatten();
        parts.map(|part| format!("{}: {part}", it.metric))
    }))
}

fn matched_count(beside: &Beside) -> String {
    let mut figures: Vec<_> = beside.rows.iter().map(|row| &row.published).collect();
    figures.dedup();
    let without = beside.rows.iter().filter(|row| row.here.is_none());
    let without = without.map(|row| &row.published).collect::<Vec<_>>();
    let found = figures.iter().filter(|figure| !without.contains(figure)).count();
    format!("{found} of {} published figures have a counterpart here.", figures.len())
}

/// The rows without a number here by reason, and the commands that may fill them, with the names of
/// the rows.
fn unmatched(beside: &Beside, command_of: CommandOf<'_>) -> (Vec<String>, Vec<(String, String)>) {
    let mut by_reason: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut by_command: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for row in &beside.rows {
        let Some(missing) = &row.missing else { continue };
        let name = name(row, beside);
        let command = match missing {
            Missing::NotInRun | Missing::NoNumber(_) => command_of(&row.published),
            _ => None,
        };
        let why = match missing {
            Missing::NotMeasured => "not measured by this version".to_owned(),
            Missing::Unlike(why) => format!("different work: {why}"),
            Missing::NotInRun if command.is_some() => String::new(),
            Missing::NotInRun => "not measured here".to_owned(),
            Missing::NoNumber(why) | Missing::Unavailable(why) => why.clone(),
            Missing::OtherUnit(units) => units.clone(),
        };
        if !why.is_empty() {
            by_reason.entry(why).or_default().push(name.clone());
        }
        if let Some(command) = command {
            by_command.entry(command).or_default().push(name);
        }
    }
    let reasons = by_reason.into_iter().map(|(why, names)| format!("{why}: {}", listed(names)));
    let commands = by_command.into_iter().map(|(command, names)| (command, listed(names)));
    (reasons.collect(), commands.collect())
}

/// Each name once; of many the first two, and how many more.
fn listed(names: Vec<String>) -> String {
    let names = distinct(names);
    match names.len() {
        0..4 => names.join("; "),
        all => format!("{}; and {} more", names[..2].join("; "), all - 2),
    }
}
