//! The output of `fathom run`: a table or JSON, and the store.

use std::time::Duration;

use fathom_analysis::typical;
use fathom_engine::{Audience, CaseOfVisit, CoordinatorProgress, Plan};
use fathom_record::{Document, Host, Record};
use fathom_report::{Layout, Table};
use fathom_store::{Store, StoreError};

use super::super::as_member::Reports;
use super::super::counted;
use super::super::run_store::RunStore;
use super::super::trends;
use crate::arguments::RunArguments;
use crate::terminal::{self, PERCENT_BAR, TerminalOutput};

/// The rows so far above the bar.
const ROWS_AND_BAR: &str = "{prefix}{bar:24} {percent:>3} %  {msg}";

#[derive(Clone, Copy, PartialEq, Eq)]
enum FollowerFormat {
    Table,
    Json,
    JsonLines,
    Nothing,
}

/// Prints and stores a run while it is measured.
pub(super) struct Follower {
    format: FollowerFormat,
    with_samples: bool,
    output: TerminalOutput,
    table: Table,
    layout: Layout,
    store: RunStore,
    /// The announcement of the test files, if any.
    files: Option<String>,
    run_id: String,
    host: Host,
    /// Whether only the shortest view is printed, at the end.
    brief: bool,
    /// The records so far of a run shown as an overview; `None` if it is shown as a table.
    overview: Option<Vec<Record>>,
    reports: Reports,
}

impl Follower {
    pub(super) fn new(arguments: &RunArguments, store: RunStore, files: Option<String>) -> Self {
        let format = match (arguments.json, arguments.jsonl, arguments.quiet) {
            (true, ..) => FollowerFormat::Json,
            (_, true, _) => FollowerFormat::JsonLines,
            (.., true) => FollowerFormat::Nothing,
            _ => FollowerFormat::Table,
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
            output: TerminalOutput::new(),
            table: Table::new(layout),
            layout,
            store,
            files,
            run_id: String::new(),
            host: Host::default(),
            brief: arguments.brief,
            overview: None,
            reports: Reports::from_options(arguments.member),
        }
    }

    pub(super) fn has_failed(&self) -> bool {
        self.store.has_failed() || self.output.error().is_some()
    }

    fn store(&mut self, write: impl FnOnce(&mut Store) -> Result<Vec<StoreError>, StoreError>) {
        for warning in self.store.write(write) {
            self.output.clear_bar();
            terminal::warn(&warning);
        }
    }

    /// The record as it is printed and as `fathom show` reads it: without samples, unless
    /// requested, and with its typical range.
    pub(super) fn printed(&self, record: &Record) -> Record {
        let samples = record.samples.clone().filter(|_| self.with_samples);
        Record { samples, typical: typical::typical_of(record, &self.host), ..record.clone() }
    }

    /// Draws the rows so far above the progress bar: later visits may change them, so they are
    /// printed only at the end.
    fn draw_settled(&mut self) {
        let Some(settled) = &self.overview else { return };
        let rows = fathom_report::overview_rows(settled, self.layout.protocol, terminal::width());
        let lines: Vec<&str> = rows.lines().collect();
        // A taller region than the terminal could not be removed again.
        let first = lines.len().saturating_sub(terminal::height().saturating_sub(4));
        let rows: String = lines[first..].iter().map(|line| format!("{line}\n")).collect();
        if let Some(bar) = self.output.bar(ROWS_AND_BAR) {
            bar.set_prefix(rows);
        }
    }

    fn write_lines(&mut self, records: &[Record]) {
        let line = |one| fathom_report::record_line(&self.printed(one));
        let lines: String = records.iter().map(line).collect();
        self.output.write(&lines);
    }
}

impl Audience for Follower {
    fn begins(&mut self, document: &Document, plan: Option<(&Plan, f64)>) {
        (self.run_id, self.host) = (document.run.id.clone(), document.host.clone());
        self.store(|store| store.begin(document));
        self.store.announce();
        if self.format == FollowerFormat::Table {
            let width = self.layout.width;
            if self.brief || fathom_report::has_overview(&document.run, &self.layout) {
                self.overview = Some(Vec::new());
            } else {
                self.output.write(&fathom_report::opening(document, width));
            }
            let mut texts: Vec<String> = Vec::new();
            texts.extend(plan.map(|(plan, time_ns)| announcement(plan, time_ns)));
            texts.extend(self.files.clone());
            for text in texts {
                match self.overview {
                    // The overview has the screen for itself.
                    Some(_) => terminal::warn(&text),
                    None => {
                        let text = fathom_report::paragraph(&text, width, "", "") + "\n";
                        self.output.write(&text);
                    }
                }
            }
            if self.overview.is_none() {
                self.table = Table::new(self.layout).on(&document.host);
                self.output.write(&self.table.header());
            }
        }
    }

    fn progress(&mut self, progress: &CoordinatorProgress) {
        if self.format == FollowerFormat::Nothing {
            return;
        }
        let template = if self.overview.is_some() { ROWS_AND_BAR } else { PERCENT_BAR };
        let whole = progress.elapsed_ns + progress.left_ns;
        let done = progress.elapsed_ns / whole.max(1.0);
        let done = self.reports.progress(done, &progress.metric);
        let left = Duration::from_nanos(progress.left_ns as u64).as_secs() + 1;
        self.output.progress(template, done, &format!("{left} s left, {}", progress.metric));
    }

    fn visited(&mut self, case: &CaseOfVisit<'_>) {
        if self.format == FollowerFormat::JsonLines {
            let CaseOfVisit { about, params, sample } = case;
            let (id, with_values) = ((about.id, about.unit), self.with_samples);
            self.output.write(&fathom_report::visit_line(id, params, sample, with_values));
        }
    }

    fn measured(&mut self, records: &[Record]) {
        let run_id = self.run_id.clone();
        self.store(|store| store.replace_records(&run_id, records));
        match self.format {
            FollowerFormat::Table => match &mut self.overview {
                // It is printed whole at the end.
                Some(_) => {}
                None => {
                    let records: Vec<Record> = records.iter().map(|it| self.printed(it)).collect();
                    self.output.write(&self.table.rows(&records));
                }
            },
            FollowerFormat::JsonLines => self.write_lines(records),
            FollowerFormat::Json | FollowerFormat::Nothing => {}
        }
    }

    fn finished(&mut self, document: &Document, records: &[Record], are_drafts: bool) {
        self.store(|store| store.replace_records(&document.run.id, records));
        if self.overview.is_some() && are_drafts {
            self.overview = Some(records.iter().map(|record| self.printed(record)).collect());
            self.draw_settled();
        }
    }

    fn ends(&mut self, document: &Document) {
        self.output.clear_bar();
        self.store(|store| store.update_run(&document.run).map(|()| Vec::new()));
        let records = document.records.iter().map(|one| self.printed(one)).collect();
        let document = &Document { records, ..document.clone() };
        match self.format {
            FollowerFormat::Table => {
                let (width, is_stored) = (self.layout.width, self.store.store().is_some());
                if self.brief {
                    self.output.write(&fathom_report::brief(document, width, is_stored));
                } else if self.overview.is_some() {
                    let trends = trends::trends_of(document, width, self.store.earlier());
                    self.output.write(&fathom_report::overview(document, width, &trends));
                } else {
                    self.output.write(&self.table.foot());
                    self.output.write(&fathom_report::closing(document, width));
                }
                if is_stored && !self.brief {
                    self.output.write(&fathom_report::kept(document, width));
                }
            }
            FollowerFormat::Json if self.reports.are_wanted() => {
                self.output.write(&fathom_report::export::jsonl(std::slice::from_ref(document)));
            }
            FollowerFormat::Json => self.output.write(&fathom_report::document_json(document)),
            FollowerFormat::JsonLines | FollowerFormat::Nothing => {}
        }
        if let Some(cause) = self.output.error() {
            terminal::warn(&format!("write to standard output: {cause}"));
        }
    }

    fn has_left(&self) -> bool {
        self.output.is_closed()
    }
}

/// What will be measured and how long it takes.
fn announcement(plan: &Plan, time_ns: f64) -> String {
    let needed: Vec<&str> = plan.metrics(true).iter().map(|entry| entry.about().id).collect();
    let needed_by_models = match needed.as_slice() {
        [] => String::new(),
        ids => format!(" (including {}, needed by predictions)", ids.join(", ")),
    };
    let processes = match plan.visits().processes {
        Some(processes) => format!("{processes} processes each"),
        None => "as many processes as fit".to_owned(),
    };
    let seconds = (time_ns / 1e9).ceil();
    format!(
        "{} of {}{needed_by_models}; {} effort, {processes}, seed {}: {seconds:.0} s",
        counted(plan.records(), "result"),
        counted(plan.metrics(false).len() + needed.len(), "metric"),
        plan.effort.word(),
        plan.seed
    )
}
