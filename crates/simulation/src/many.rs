//! `fathom compare` over many cases at once (rule 28): the words that it gives where nothing
//! changed, and the share of false ones among them where something did.

use fathom_analysis::compare::{Noise, Word, compare};
use fathom_analysis::statistics;
use fathom_record::run::ClockFacts;
use fathom_record::{
    Better, Document, Effort, Host, MetricId, Params, Protocol, Record, Run, RunState, Tool, Unit,
    Verdict,
};

use crate::chance::Rate;
use crate::coverage::PROCESSES;
use crate::parallel::each;
use crate::section::{Section, alarms, cells, percent};
use crate::worlds::{ROUNDS, World, world};
use crate::{Source, Trials};

/// Cases of a run, as many as a quick run of everything has.
const CASES: i64 = 40;
/// How many of them change where some do, and by how much: twice what processes differ by, and
/// above the threshold of 1 %.
const CHANGED: i64 = 8;
const CHANGE: f64 = 1.02;

#[derive(Default)]
struct Figure {
    /// Intervals that exclude 1, of cases that did not change.
    excluding: Rate,
    /// Cases that did not change and have a word of change, whichever.
    words: Rate,
    /// Comparisons in which a case that did not change is called worse, better or changed.
    runs: Rate,
    /// Of what is called so in a comparison, the false share: its mean.
    false_share: f64,
    /// Cases that changed and were called so.
    found: Rate,
    /// Cases that did not change and were called unchanged, and those that did and were.
    unchanged: Rate,
    missed: Rate,
}

impl Figure {
    fn of(world: &World, processes: usize, changed: i64, trials: Trials) -> Self {
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
            let really = row.params.integer("case").is_some_and(|case| case < changed);
            let called = row.word <= Word::Changed;
            all += u32::from(called);
            if really {
                self.found.note(called);
                self.missed.note(row.word == Word::Unchanged);
                continue;
            }
            false_ones += u32::from(called);
            self.unchanged.note(row.word == Word::Unchanged);
            self.excluding.note(row.interval.is_some_and(|[low, high]| low > 1.0 || high < 1.0));
            self.words.note(row.word < Word::Unchanged);
        }
        self.runs.note(false_ones > 0);
        self.false_share += f64::from(false_ones) / f64::from(all.max(1));
    }
}

/// A run of all cases, the first `changed` of them slower.
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
    let run = Run {
        id: format!("{:016x}", source.bits()),
        label: None,
        started: String::new(),
        ended: None,
        duration_ns: None,
        effort: Effort::Standard,
        protocol: Protocol::Median,
        seed: 0,
        asked: Vec::new(),
        procedure: None,
        planned: 0,
        state: RunState::Complete,
        cpu: 0,
        cpu_reason: String::new(),
        reference: None,
        clock: ClockFacts::default(),
        tuned: Vec::new(),
        verdict: Verdict::default(),
        imposed: Vec::new(),
        notes: Vec::new(),
    };
    let tool = Tool { name: "fathom".to_owned(), version: String::new() };
    let (schema, far) = (fathom_record::SCHEMA_VERSION, Vec::new());
    Document { schema, tool, run, host: Host::default(), far, records }
}

const WORDS: &str = "\
*Excludes 1*: of cases that did not change, how many have a ratio whose interval excludes 1; *any
word*: how many have a word of change, \"looks slower\" among them; *false alarm*: in how many
comparisons a case is called worse or better that did not change, by the procedure of Benjamini and
Hochberg. Then eight of the cases are 2 % slower, which is about two deviations of their processes:
the *false share* of those called worse or better, and how many of the eight were *found*. Below 8
processes nothing is called so, only \"looks\". *Unchanged* is what is called unchanged within 2 %:
of cases that did not change, and (*wrongly*) of the eight. All in per cent.";

pub(crate) fn section(trials: Trials) -> Section {
    let words = format!(
        "`fathom compare` of two runs of {CASES} cases each, {} times.\n{WORDS}",
        trials.runs
    );
    let mut section = Section::titled("Many cases at once", &words);
    let worlds = ["normal", "log-normal", "heavy tail", "two kinds of processes"].map(world);
    let items: Vec<(&World, usize)> = worlds
        .into_iter()
        .flat_map(|world| PROCESSES.map(|processes| (world, processes)))
        .collect();
    let figures = each(&items, |(world, processes)| {
        [0, CHANGED].map(|changed| Figure::of(world, *processes, changed, trials))
    });
    let rows: Vec<Vec<String>> = items
        .iter()
        .zip(&figures)
        .map(|((world, processes), [same, some])| {
            let what = format!("{CASES} cases, {}, {processes} processes", world.name);
            section.at_most(same.excluding, 0.06, &format!("ratios, {what}"));
            section.at_most(same.words, 0.06, &format!("words, {what}"));
            section.at_most(same.runs, 0.05, &format!("false alarms of runs, {what}"));
            // At the very limit: one end of the interval is beyond it by chance in 2.5 %.
            section.at_most(some.missed, 0.05, &format!("unchanged, {what}"));
            let share = some.false_share;
            section.hold(
                share < 0.05 + 1.0 / f64::from(trials.runs).sqrt(),
                &format!("{what}: {} % of what is called changed is false", percent(share)),
            );
            vec![
                world.name.to_owned(),
                processes.to_string(),
                alarms(same.excluding, 0.05),
                alarms(same.words, 0.05),
                alarms(same.runs, 0.05),
                percent(share),
                percent(some.found.share()),
                percent(same.unchanged.share()),
                percent(some.missed.share()),
            ]
        })
        .collect();
    let header = [
        "shape",
        "processes",
        "excludes 1",
        "any word",
        "false alarm",
        "false share",
        "found",
        "unchanged",
        "wrongly",
    ];
    section.table(&cells(header), &rows);
    section
}
