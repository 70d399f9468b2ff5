//! The output of `fathom run`: a table or JSON, and the store.

use std::time::Duration;

use fathom_engine::{Audience, Plan, Progress};
use fathom_record::{Document, Record};
use fathom_report::{Layout, Table};
use fathom_store::{Store, StoreError};

use super::super::counted;
use super::super::run_store::RunStore;
use crate::arguments::RunArguments;
use crate::terminal::{self, Output, PERCENT_BAR};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    Table,
    Json,
    JsonLines,
    Nothing,
}

/// Prints and stores a run while it is measured.
pub(super) struct Follower {
    format: Format,
    with_samples: bool,
    output: Output,
    table: Table,
    layout: Layout,
    store: RunStore,
    /// The announcement of the test files, if any.
    files: Option<String>,
    run_id: String,
    /// How many printed rows have changed since.
    changed: usize,
}

impl Follower {
    pub(super) fn new(arguments: &RunArguments, store: RunStore, files: Option<String>) -> Self {
        let format = match (arguments.json, arguments.jsonl, arguments.quiet) {
            (true, ..) => Format::Json,
            (_, true, _) => Format::JsonLines,
            (.., true) => Format::Nothing,
            _ => Format::Table,
        };
        let layout = Layout {
            width: terminal::width(),
            cycles: arguments.cycles,
            protocol: arguments.protocol.into(),
            all: arguments.all,
        };
        Self {
            format,
            with_samples: arguments.samples,
            output: Output::new(),
            table: Table::new(layout),
            layout,
            store,
            files,
            run_id: String::new(),
            changed: 0,
        }
    }

    pub(super) fn has_failed(&self) -> bool {
        self.store.has_failed() || self.output.error().is_some()
    }

    fn store(&mut self, write: impl FnOnce(&mut Store) -> Result<(), StoreError>) {
        if let Some(warning) = self.store.write(write) {
            self.output.clear_bar();
            terminal::warn(&warning);
        }
    }

    /// The record as it is printed and as `fathom show` reads it: without samples, unless
    /// requested.
    pub(super) fn printed(&self, record: &Record) -> Record {
        let samples = record.samples.clone().filter(|_| self.with_samples);
        Record { samples, ..record.clone() }
    }

    fn write_lines(&mut self, records: &[Record]) {
        let line = |one| fathom_report::record_line(&self.printed(one));
        let lines: String = records.iter().map(line).collect();
        self.output.write(&lines);
    }
}

impl Audience for Follower {
    fn begins(&mut self, document: &Document, plan: Option<(&Plan, f64)>) {
        self.run_id = document.run.id.clone();
        self.store(|store| store.begin(document));
        if self.format == Format::Table {
            let width = self.layout.width;
            self.output.write(&fathom_report::opening(document, width));
            if let Some((plan, estimate_ns)) = plan {
                self.output.write(&announcement(plan, estimate_ns, width));
            }
            if let Some(files) = &self.files {
                self.output.write(&(fathom_report::paragraph(files, width, "", "") + "\n"));
            }
            self.table = Table::new(self.layout).on(&document.host);
            self.output.write(&self.table.header());
        }
    }

    fn progress(&mut self, progress: &Progress) {
        if self.format == Format::Nothing {
            return;
        }
        let Some(bar) = self.output.bar(PERCENT_BAR) else { return };
        let whole = progress.elapsed_ns + progress.left_ns;
        bar.set_length(1000);
        bar.set_position((1000.0 * progress.elapsed_ns / whole.max(1.0)) as u64);
        let left = Duration::from_nanos(progress.left_ns as u64).as_secs() + 1;
        bar.set_message(format!("{}, {left} s left", progress.metric));
        bar.tick();
    }

    fn block(&mut self, records: &[Record]) {
        let run_id = self.run_id.clone();
        for record in records {
            self.store(|store| store.add(&run_id, record));
        }
        match self.format {
            Format::Table => {
                let records: Vec<Record> = records.iter().map(|one| self.printed(one)).collect();
                self.output.write(&self.table.rows(&records));
            }
            Format::JsonLines => self.write_lines(records),
            Format::Json | Format::Nothing => {}
        }
    }

    fn revised(&mut self, document: &Document, again: &[Record], changed: usize) {
        self.store(|store| store.replace_records(&document.run.id, &document.records));
        self.changed = changed;
        if self.format == Format::JsonLines {
            self.write_lines(again);
        }
    }

    fn ends(&mut self, document: &Document) {
        self.output.clear_bar();
        self.store(|store| store.update_run(&document.run));
        match self.format {
            Format::Table => {
                let width = self.layout.width;
                self.output.write(&self.table.foot());
                self.output.write(&fathom_report::changed(document, self.changed, width));
                self.output.write(&fathom_report::closing(document, width));
                if self.store.store().is_some() {
                    self.output.write(&fathom_report::kept(document, width));
                }
            }
            Format::Json => {
                let records = document.records.iter().map(|one| self.printed(one)).collect();
                let document = Document { records, ..document.clone() };
                self.output.write(&fathom_report::document_json(&document));
            }
            Format::JsonLines | Format::Nothing => {}
        }
        if let Some(error) = self.output.error() {
            terminal::warn(&format!("write to standard output: {error}"));
        }
    }

    fn has_left(&self) -> bool {
        self.output.is_closed()
    }
}

/// What will be measured and how long it takes.
fn announcement(plan: &Plan, estimate_ns: f64, width: usize) -> String {
    let visits = plan.visits();
    let needed: Vec<&str> = plan.metrics(true).iter().map(|entry| entry.about().id).collect();
    let needed_by_models = match needed.as_slice() {
        [] => String::new(),
        ids => format!(" (including {}, needed by predictions)", ids.join(", ")),
    };
    let processes = match visits.processes_max == visits.processes_min {
        true => format!("{}", visits.processes_min),
        false => format!("{} to {}", visits.processes_min, visits.processes_max),
    };
    let longest = f64::from(visits.processes_max) / f64::from(visits.processes_min);
    let seconds = (estimate_ns / 1e9).ceil();
    let time = match longest > 1.0 {
        true => format!("{seconds:.0} to {:.0} s", (seconds * longest).ceil()),
        false => format!("about {seconds:.0} s"),
    };
    let text = format!(
        "{} of {}{needed_by_models}; {} effort, {processes} processes each, seed {}: {time}",
        counted(plan.records(), "result"),
        counted(plan.metrics(false).len() + needed.len(), "metric"),
        plan.effort.word(),
        plan.seed
    );
    fathom_report::paragraph(&text, width, "", "") + "\n"
}
