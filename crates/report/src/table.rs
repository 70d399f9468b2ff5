//! The table of a run, written block by block as the run proceeds.
//!
//! The text does not depend on block boundaries: a stored run is printed as it was while it ran.
//! Therefore cases that may form a curve or a matrix are held back until their metric is complete.

use std::collections::{BTreeMap, BTreeSet};

use fathom_analysis::display_value::DisplayValue;
use fathom_record::quantity::quantity;
use fathom_record::{
    Basis, Cause, Host, Interval, MetricId, Params, Protocol, Record, State, Stratum, Unit, Value,
};

use crate::case::{case, counted};
use crate::columns::{self, Setting, TableColumns, case_row, columns_for};
use crate::counts::cause_words;
use crate::family::{self, Caches, FamilyPart, Printed};
use crate::layout::Layout;
use crate::paint::{FAINT, STRONG, paint, paint_lines};
use crate::remarks::remarks;
use crate::remedy;
use crate::shown::{NOISY, cycle_count, is_as_found};
use crate::wrap::{clean, glued, width_of, wrapped};

/// The metric that converts times into cycles.
const FREQUENCY: &str = "cpu.frequency";

/// The table, and what its foot has to explain.
#[derive(Debug)]
pub struct Table {
    layout: Layout,
    columns: TableColumns,
    /// The metric of the last row, if its cases are printed below a line of its own.
    group: Option<MetricId>,
    /// The last row of this group.
    above: Option<Record>,
    /// Cases of one metric that may form a family.
    held: Vec<Record>,
    caches: Caches,
    seen: TableSeen,
}

/// What has been printed so far.
#[derive(Debug, Default)]
struct TableSeen {
    rows: bool,
    /// Number of processes → level of the intervals.
    levels: BTreeMap<u32, f64>,
    within_run: Option<f64>,
    single: bool,
    noisy: bool,
    as_found: bool,
    selected: bool,
    bound: bool,
    curve: bool,
    matrix: bool,
    no_model: bool,
    typical: bool,
    histogram: bool,
    /// Causes of noise that a row has in words.
    explained: Vec<Cause>,
    hz: Option<f64>,
    hz_noisy: bool,
    /// Names and nanoseconds of times printed before the frequency was known.
    early: Vec<(String, f64)>,
    /// Remedies of all records, with their causes and the number of cases.
    remedies: Vec<(String, BTreeSet<&'static str>, usize)>,
}

impl Table {
    pub fn new(layout: Layout) -> Self {
        let columns = columns_for(&layout);
        Self {
            layout,
            columns,
            group: None,
            above: None,
            held: Vec::new(),
            caches: Caches::default(),
            seen: TableSeen::default(),
        }
    }

    /// The table with the cache sizes of this machine marked in charts.
    #[must_use]
    pub fn on(self, host: &Host) -> Self {
        Self { caches: Caches::from_host(host), ..self }
    }

    /// The names of the columns, and the protocol unless it is the default.
    pub fn header(&self) -> String {
        let mut text = String::new();
        if self.layout.protocol == Protocol::Trimmed {
            let protocol = "classic trimmed protocol: the lowest and highest trials are dropped; \
                            mean and standard deviation of the others";
            text += &paint_lines(FAINT, &wrapped(protocol, self.columns.line, "", ""));
        }
        text + &columns::header(&self.columns, self.layout.protocol)
    }

    /// The rows of more records with their remarks. Those of the last metric can be held back: see
    /// [`Table::foot`].
    pub fn rows(&mut self, records: &[Record]) -> String {
        let mut text = String::new();
        for record in records {
            if self.held.first().is_some_and(|held| held.metric != record.metric) {
                text += &self.flush();
            }
            let may_belong = !self.layout.all && family::may_belong(&record.params);
            if may_belong || !self.held.is_empty() {
                self.held.push(record.clone());
            } else {
                text += &self.record(record);
            }
        }
        text
    }

    /// The rows held back, the meaning of all marks, and the remedies. Empty without rows.
    pub fn foot(&mut self) -> String {
        let held = self.flush();
        held + &self.marks_explained()
    }

    fn marks_explained(&self) -> String {
        if !self.seen.rows {
            return String::new();
        }
        let mut text = String::new();
        let (protocol, has_samples) = (self.layout.protocol, self.seen.histogram);
        let wide = columns::meanings(&self.columns, protocol, has_samples);
        for line in [self.uncertainty(), self.marks(), self.families(), wide, self.cycles()] {
            text += &wrapped(&line, self.columns.line, "", "  ");
        }
        let mut text = paint_lines(FAINT, &text);
        for (remedy, causes, count) in &self.seen.remedies {
            let causes = causes.iter().copied().collect::<Vec<_>>().join(", ");
            let line = format!("{causes} ({}): {remedy}", counted(*count, "case"));
            text += &wrapped(&line, self.columns.line, "→ ", "  ");
        }
        text
    }

    /// The cases held back: curves and matrices in a few lines each, others as rows.
    fn flush(&mut self) -> String {
        let held = std::mem::take(&mut self.held);
        let cases: Vec<&Params> = held.iter().map(|record| &record.params).collect();
        // A curve has numbers only.
        let parts = match held.iter().any(|record| matches!(record.value, Some(Value::Text(_)))) {
            true => (0..held.len()).map(FamilyPart::Row).collect(),
            false if family::is_matrix(&cases) => return self.matrix(&held),
            false => family::parts(&cases),
        };
        let (mut text, mut printed) = (String::new(), Printed::default());
        let mut drawn = Vec::new();
        for part in &parts {
            match part {
                FamilyPart::Row(index) => text += &self.record(&held[*index]),
                FamilyPart::Curve(curve) => {
                    let members = curve.members.iter().map(|index| &held[*index]);
                    text += &self.begin_family(members);
                    text += &family::curve_lines(curve, &held, &self.setting(), &mut printed);
                    self.seen.curve = true;
                    drawn.push(curve);
                }
            }
        }
        text + &family::chart(&drawn, &held, &self.caches, &self.setting())
    }

    fn matrix(&mut self, records: &[Record]) -> String {
        let mut text = match family::has_rows(records.len()) {
            true => records.iter().map(|record| self.record(record)).collect(),
            false => {
                self.seen.matrix = true;
                self.begin_family(records.iter())
            }
        };
        text += &family::matrix_lines(records, &self.setting(), &mut Printed::default());
        text
    }

    /// The line of the metric, unless it was the last one printed.
    fn begin_family<'a>(&mut self, members: impl Iterator<Item = &'a Record>) -> String {
        let mut text = String::new();
        for record in members {
            self.note(record, true);
            if self.group.as_ref() != Some(&record.metric) {
                text += &self.group_line(record);
                self.group = Some(record.metric.clone());
            }
        }
        self.above = None;
        text
    }

    fn setting(&self) -> Setting<'_> {
        Setting {
            columns: &self.columns,
            protocol: self.layout.protocol,
            hz: self.seen.hz.filter(|_| self.layout.cycles),
        }
    }

    fn record(&mut self, record: &Record) -> String {
        self.note(record, false);
        let mut text = String::new();
        let label = if record.params.is_empty() {
            (self.group, self.above) = (None, None);
            record.metric.to_string()
        } else {
            if self.group.as_ref() != Some(&record.metric) {
                text += &self.group_line(record);
                (self.group, self.above) = (Some(record.metric.clone()), None);
            }
            format!("  {}", case(&record.params))
        };
        let mut explained = std::mem::take(&mut self.seen.explained);
        let setting = self.setting();
        let label = clean(&label);
        let indent = if record.params.is_empty() { "" } else { "  " };
        let [above, name] = self.columns.name(label, [indent, "    "]);
        text += &(above + &case_row(&name, record, &setting));
        let above = self.above.as_ref();
        text += &remarks(record, above, &mut explained, &setting);
        self.seen.explained = explained;
        self.above = Some(record.clone());
        text
    }

    /// The metric's id, with its title if it fits.
    fn group_line(&self, record: &Record) -> String {
        let id = record.metric.as_str();
        let room = self.columns.line.saturating_sub(width_of(id) + 2);
        let title = clean(&record.title);
        if width_of(id) > self.columns.line || title.is_empty() || width_of(&title) > room {
            return paint_lines(STRONG, &wrapped(id, self.columns.line, "", "  "));
        }
        format!("{}  {}\n", paint(STRONG, &clean(id)), paint(FAINT, &title))
    }

    /// Notes what the foot has to explain.
    fn note(&mut self, record: &Record, in_family: bool) {
        let seen = &mut self.seen;
        seen.rows = true;
        seen.note_remedy(record);
        if !record.verdict.shows_number() {
            return;
        }
        let shown = DisplayValue::from_record(record, self.layout.protocol);
        let noisy = record.verdict.state == State::Noisy;
        seen.noisy |= noisy;
        seen.bound |= matches!(shown, DisplayValue::Bound(_));
        seen.no_model |= record.no_model.is_some() && record.prediction.is_none();
        seen.typical |= record.typical.is_some();
        seen.histogram |= record.samples.is_some();
        if record.metric.as_str() == FREQUENCY && record.unit == Unit::Hertz && seen.hz.is_none() {
            (seen.hz, seen.hz_noisy) = (shown.number(), noisy);
        }
        // The foot would repeat a row for each case of a family.
        let early = self.layout.cycles && !in_family && seen.hz.is_none();
        if early && record.unit == Unit::Nanoseconds {
            seen.early.extend(shown.number().map(|ns| (record.name(), ns)));
        }
        let Some(summary) = record.summary.as_ref().filter(|s| s.bound.is_none()) else {
            return;
        };
        seen.as_found |= is_as_found(record);
        seen.selected |= summary.stratum != Stratum::AsFound;
        seen.single |= summary.interval.is_none() && summary.n == 1;
        if let Some(Interval { level, basis, .. }) = summary.interval {
            match basis {
                Basis::Processes => {
                    seen.levels.insert(summary.processes, level);
                }
                Basis::WithinRun => {
                    let least = seen.within_run.map_or(level, |known| known.min(level));
                    seen.within_run = Some(least);
                }
                Basis::Derived | Basis::Grid => {}
            }
        }
    }

    fn uncertainty(&self) -> String {
        if self.layout.protocol == Protocol::Trimmed {
            return "sd: standard deviation of the kept values ÷ their mean; underestimates σ by \
                    about half"
                .to_owned();
        }
        let levels: Vec<String> = self
            .seen
            .levels
            .iter()
            .map(|(processes, level)| format!("{} from {processes} processes", level_text(*level)))
            .collect();
        let mut text =
            "±: half the confidence interval ÷ the measured value, or both arms".to_owned();
        if !levels.is_empty() {
            text += &format!("; levels: {}", levels.join(", "));
        }
        if let Some(level) = self.seen.within_run {
            text += &format!("; *: within one run, {}", level_text(level));
        }
        if self.seen.single {
            text += &format!("; {}", glued("n=1: one pass, no interval"));
        }
        text
    }

    fn marks(&self) -> String {
        let mut marks = Vec::new();
        if self.seen.noisy {
            marks.push(
                glued(&format!("{NOISY}: noisy,")) + " cause below the first row that has it",
            );
        }
        if self.seen.as_found {
            let others = if self.seen.selected { ", others in one" } else { "" };
            marks.push(glued("°: over") + " all processes, in any state of the core" + others);
        }
        if self.seen.bound {
            marks.push(glued("≤: upper") + " bound of a difference too small to measure");
        }
        if self.seen.no_model {
            marks.push("no model: see ".to_owned() + &glued("`fathom explain METRIC`"));
        }
        if self.seen.typical {
            let percentiles = glued("typical: 5th");
            marks.push(format!(
                "{percentiles} to 95th percentile of published machine types with this CPU, of \
                 about this size"
            ));
        }
        marks.join("; ")
    }

    fn families(&self) -> String {
        let mut parts = Vec::new();
        if self.seen.curve {
            parts.push(
                "bars: the curve on a log scale, lowest ▁ to highest █, ? no number".to_owned(),
            );
        }
        if self.seen.curve || self.seen.matrix {
            let rows = glued("`fathom show --all`");
            parts.push(format!("…: lowest to highest, {rows} prints each case"));
        }
        parts.join("; ")
    }

    fn cycles(&self) -> String {
        if !self.layout.cycles {
            return String::new();
        }
        let Some(hz) = self.seen.hz else {
            return format!("cycles: not shown, {FREQUENCY} was not measured in this run");
        };
        let noisy = if self.seen.hz_noisy { ", noisy" } else { "" };
        let rate = glued(&quantity(hz, Unit::Hertz));
        let mut text = format!("cycles: at {rate} ({FREQUENCY}{noisy})");
        let early: Vec<String> = self
            .seen
            .early
            .iter()
            .map(|(name, ns)| glued(&format!("{name} {}", cycle_count(ns * hz / 1e9))))
            .collect();
        if !early.is_empty() {
            text += &format!("; rows above it: {}", early.join(", "));
        }
        text
    }
}

impl TableSeen {
    fn note_remedy(&mut self, record: &Record) {
        let mut reasons = record.verdict.reasons.iter();
        let Some(reason) = reasons.find(|reason| reason.remedy.is_some()) else { return };
        let Some(text) = remedy::first([reason]) else { return };
        let at = self.remedies.iter().position(|(other, ..)| *other == text);
        let at = at.unwrap_or_else(|| {
            self.remedies.push((text, BTreeSet::new(), 0));
            self.remedies.len() - 1
        });
        let (_, causes, count) = &mut self.remedies[at];
        causes.insert(cause_words(reason.cause));
        *count += 1;
    }
}

fn level_text(level: f64) -> String {
    let text = format!("{:.1} %", level * 100.0);
    glued(if level > 0.999_5 { "> 99.9 %" } else { &text })
}
