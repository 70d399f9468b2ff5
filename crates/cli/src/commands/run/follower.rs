//! The output of `fathom run`: a table or JSON, and the store.

use std::time::Duration;

use fathom_analysis::typical;
use fathom_engine::{Audience, CaseOfVisit, CoordinatorProgress, Plan};
use fathom_record::{Document, Record};
use fathom_report::Layout;
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
    layout: Layout,
    store: RunStore,
    /// The announcement of the test files, if any.
    files: Option<String>,
    run_id: String,
    /// Whether only the shortest view is printed, at the end.
    brief: bool,
    /// The records so far of a run shown as an overview; `None` if it is shown as a table.
    settled: Option<Vec<Record>>,
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
            layout,
            store,
            files,
            run_id: String::new(),
            brief: arguments.brief,
            settled: None,
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

    /// The run as it is printed and as `fathom show` reads it: without samples, unless requested,
    /// and with typical ranges.
    pub(super) fn printed(&self, document: &Document) -> Document {
        let mut printed = document.clone();
        if !self.with_samples {
            printed.records.iter_mut().for_each(|record| record.samples = None);
        }
        typical::fill(&mut printed);
        printed
    }

    /// Draws the rows so far above the progress bar: later visits may change them, so they are
    /// printed only at the end.
    fn draw_settled(&mut self) {
        let Some(settled) = &self.settled else { return };
        let rows = fathom_report::overview_rows(settled, self.layout.protocol, terminal::width());
        let lines: Vec<&str> = rows.lines().collect();
        // A taller region than the terminal could not be removed again.
        let first = lines.len().saturating_sub(terminal::height().saturating_sub(4));
        let shown: String = lines[first..].iter().map(|line| format!("{line}\n")).collect();
        if let Some(bar) = self.output.bar(ROWS_AND_BAR) {
            bar.set_prefix(shown);
        }
    }
}

impl Audience for Follower {
    fn begins(&mut self, document: &Document, plan: Option<(&Plan, f64)>) {
        self.run_id.clone_from(&document.run.id);
        self.store(|store| store.begin(document));
        self.store.announce();
        if self.format == FollowerFormat::Table {
            let has_overview = fathom_report::has_overview(&document.run, &self.layout);
            self.settled = (self.brief || has_overview).then(Vec::new);
            // The results have the screen for themselves.
            let text = plan.map(|(plan, time_ns)| announcement(plan, time_ns));
            text.iter().chain(&self.files).for_each(|text| terminal::warn(text));
        }
    }

    fn progress(&mut self, progress: &CoordinatorProgress) {
        if self.format == FollowerFormat::Nothing {
            return;
        }
        let template = if self.settled.is_some() { ROWS_AND_BAR } else { PERCENT_BAR };
        let whole = progress.elapsed_ns + progress.left_ns;
        let done = progress.elapsed_ns / whole.max(1.0);
        self.reports.progress(done, &progress.metric);
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
    }

    fn finished(&mut self, document: &Document, records: &[Record], are_drafts: bool) {
        self.store(|store| store.replace_records(&document.run.id, records));
        if self.settled.is_some() && are_drafts {
            let core = document.run.reference.as_ref();
            let mut records = records.to_vec();
            let judge = |record| typical::fill_record(record, &document.host, core);
            records.iter_mut().for_each(judge);
            self.settled = Some(records);
            self.draw_settled();
        }
    }

    fn ends(&mut self, document: &Document) {
        self.output.clear_bar();
        self.store(|store| store.update_run(&document.run).map(|()| Vec::new()));
        let document = &self.printed(document);
        match self.format {
            FollowerFormat::Table => {
                let (layout, is_stored) = (self.layout, self.store.store().is_some());
                let text = if self.brief {
                    fathom_report::brief(document, layout.width, is_stored)
                } else {
                    let earlier = self.store.earlier().filter(|_| self.settled.is_some());
                    let trends = trends::trends_of(document, layout.width, earlier);
                    let text = fathom_report::show_with(document, &layout, &trends, None);
                    let kept = fathom_report::kept(document, layout.width);
                    if is_stored { text + &kept } else { text }
                };
                self.output.write(&text);
            }
            FollowerFormat::Json if self.reports.are_wanted() => {
                self.output.write(&fathom_report::export::jsonl(std::slice::from_ref(document)));
            }
            FollowerFormat::Json => self.output.write(&fathom_report::document_json(document)),
            FollowerFormat::JsonLines => {
                let lines = document.records.iter().map(fathom_report::record_line);
                self.output.write(&lines.collect::<String>());
            }
            FollowerFormat::Nothing => {}
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
