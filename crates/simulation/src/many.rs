//! `fathom compare` over many cases at once (rule 28): its verdicts for unchanged cases, and the
//! share of false alarms among the reported changes.

use fathom_analysis::compare::{ComparisonWord, Noise, compare};
use fathom_analysis::statistics;
use fathom_record::{Better, Document, Host, MetricId, Params, Record, Run, Tool, Unit};

use crate::chance::ChanceRate;
use crate::coverage::PROCESSES;
use crate::parallel::each;
use crate::section::{Section, marked_above, percent};
use crate::worlds::{ROUNDS, World, world};
use crate::{Source, Trials};

/// Cases of a run, as in a quick run of all metrics.
const CASES: i64 = 40;
/// Number of changed cases, and their factor: twice the spread of processes, and above the
/// threshold of 1 %.
const CHANGED: i64 = 8;
const CHANGE: f64 = 1.02;

#[derive(Default)]
struct ManyFigure {
    /// Unchanged cases whose interval excludes 1.
    excluding: ChanceRate,
    /// Unchanged cases with any verdict of change.
    words: ChanceRate,
    /// Comparisons in which an unchanged case is called worse, better or changed.
    runs: ChanceRate,
    /// Mean share of false alarms among these verdicts.
    false_share: f64,
    /// Changed cases with such a verdict.
    found: ChanceRate,
    /// Unchanged cases called unchanged, and changed ones.
    unchanged: ChanceRate,
    missed: ChanceRate,
}

impl ManyFigure {
    fn from_world(world: &World, processes: usize, changed: i64, trials: Trials) -> Self {
        let name = format!("many {} {processes} {changed}", world.name);
        let mut source = Source::named(trials.seed, &name);
        let mut figure = Self::default();
        for _ in 0..trials.runs {
            let a = document(world, processes, 0, &mut source);
            let b = document(world, processes, changed, &mut source);
            figure.note(&a, &b, changed, source.bits());
        }
        figure.false_share /= f64::from(trials.runs);
        figure
    }

    fn note(&mut self, a: &Document, b: &Document, changed: i64, seed: u64) {
        let (mut false_ones, mut all) = (0, 0);
        for row in compare(a, b, &Noise::default(), seed).rows {
            let is_changed = row.params.integer("case").is_some_and(|case| case < changed);
            let is_reported = row.word <= ComparisonWord::Changed;
            all += u32::from(is_reported);
            if is_changed {
                self.found.count(is_reported);
                self.missed.count(row.word == ComparisonWord::Unchanged);
                continue;
            }
            false_ones += u32::from(is_reported);
            self.unchanged.count(row.word == ComparisonWord::Unchanged);
            self.excluding.count(row.interval.is_some_and(|[low, high]| low > 1.0 || high < 1.0));
            self.words.count(row.word < ComparisonWord::Unchanged);
        }
        self.runs.count(false_ones > 0);
        self.false_share += f64::from(false_ones) / f64::from(all.max(1));
    }
}

/// A run of all cases, with the first `changed` of them slower.
fn document(world: &World, processes: usize, changed: i64, source: &mut Source) -> Document {
    let mut record = |case: i64| {
        let mut samples = world.samples(source, processes, ROUNDS);
        if case < changed {
            let values = samples.iter_mut().flat_map(|sample| &mut sample.values);
            values.for_each(|value| *value *= CHANGE);
        }
        let (metric, params) = (MetricId::new("os.case"), Params::one("case", case));
        let mut record = Record::new(metric, params, "", Unit::Nanoseconds, Better::Lower);
        record.summary = statistics::summarise(&samples);
        record
    };
    let records = (0..CASES).map(&mut record).collect();
    run_of(records, source.bits())
}

/// A complete run with these records.
pub(crate) fn run_of(records: Vec<Record>, id: u64) -> Document {
    let run = Run { id: format!("{id:016x}"), ..Run::default() };
    let tool = Tool { name: "fathom".to_owned(), version: String::new(), compiler: None };
    let (schema, far) = (fathom_record::SCHEMA_VERSION, Vec::new());
    Document { schema, tool, run, host: Host::default(), far, records }
}

const WORDS: &str = "\
*Excludes 1*: unchanged cases whose interval of the ratio excludes 1. *Any word*: unchanged cases
with a verdict of change, including \"looks slower\". *False alarm*: comparisons in which an
unchanged case is called worse or better, after the Benjamini-Hochberg procedure. Then eight of the
cases are 2 % slower, about two deviations of their processes: the *false share* of the cases
called worse or better, and the share of the eight that was *found*. Below 8 processes the verdict
is only \"looks\". *Unchanged* are the cases called unchanged within 2 %: of the unchanged ones,
and (*wrongly*) of the eight. All in per cent.";

pub(crate) fn section(trials: Trials) -> Section {
    let preface = format!(
        "`fathom compare` of two runs of {CASES} cases each, {} times.\n{WORDS}",
        trials.runs
    );
    let mut section = Section::new("Many cases at once", &preface);
    let worlds = ["normal", "log-normal", "heavy tail", "two kinds of processes"].map(world);
    let items: Vec<(&World, usize)> = worlds
        .into_iter()
        .flat_map(|world| PROCESSES.map(|processes| (world, processes)))
        .collect();
    let figures = each(&items, |(world, processes)| {
        [0, CHANGED].map(|changed| ManyFigure::from_world(world, *processes, changed, trials))
    });
    let rows: Vec<String> = items
        .iter()
        .zip(&figures)
        .map(|((world, processes), [same, some])| {
            let what = format!("{CASES} cases, {}, {processes} processes", world.name);
            section.at_most(same.excluding, 0.06, &format!("ratios, {what}"));
            section.at_most(same.words, 0.06, &format!("words, {what}"));
            section.at_most(same.runs, 0.05, &format!("false alarms of runs, {what}"));
            // The change is at the limit: one end of the interval is beyond it by chance in 2.5 %.
            section.at_most(some.missed, 0.05, &format!("unchanged, {what}"));
            let share = some.false_share;
            section.require(
                share < 0.05 + 1.0 / f64::from(trials.runs).sqrt(),
                &format!("{what}: {} % of the reported changes are false", percent(share)),
            );
            let [excluding, words, runs] =
                [same.excluding, same.words, same.runs].map(|rate| marked_above(rate, 0.05));
            let [found, unchanged, missed] =
                [some.found, same.unchanged, some.missed].map(|rate| percent(rate.share()));
            let share = percent(share);
            format!(
                "{} | {processes} | {excluding} | {words} | {runs} | {share} | {found} | \
                 {unchanged} | {missed}",
                world.name
            )
        })
        .collect();
    let header = "shape | processes | excludes 1 | any word | false alarm | false share | found | \
                  unchanged | wrongly";
    section.table(header, rows);
    section
}
