//! `fathom file`, `fathom load` and others: run a procedure, print its records as they complete,
//! and store them.
//!
//! Records are stored as steps end, between timed passes: a killed command keeps what it finished.

use std::io::IsTerminal;
use std::process::{ExitCode, Stdio};

use anyhow::Context;
use fathom_analysis::limits::LimitJudged;
use fathom_engine::{Audience, CoordinatorProgress, Plan, Session, SessionSetup};
use fathom_measure::clock::{self, CalibrationWatch};
use fathom_measure::host;
use fathom_metric::{Ending, Event, Procedure, ProcedureError};
use fathom_probes::REGISTRY;
use fathom_record::{Document, Host, Record, is_own};
use fathom_report::by_hand;
use fathom_store::{CaseSearch, Store, StoreError};
use rustix::event::{PollFd, PollFlags, poll};

use super::as_member::{self, Reports};
use super::run_store::RunStore;
use super::{export, limits, output_file, setup};
use crate::arguments::StoreArguments;
use crate::arguments::by_hand::ProcedureArguments;
use crate::exit::{Status, UsageError};
use crate::interrupt;
use crate::live::timestamp;
use crate::terminal::{self, PERCENT_BAR, TerminalOutput};

pub(super) fn by_hand(arguments: &ProcedureArguments) -> anyhow::Result<Status> {
    let ProcedureArguments { path, procedure, label, jsonl, output, member, .. } = arguments;
    if let Some(done) = procedure.part() {
        return done.map(|()| Status::Success).map_err(command_error);
    }
    let begun_ns = clock::monotonic_raw_ns();
    let stop = interrupt::stop(procedure.restores()).context("listen to signals")?;
    procedure.check().map_err(command_error)?;
    let file = export::document_file(arguments.file.as_deref(), arguments.force)?;
    let mut host = host::read();
    setup::check_environment(&host)?;
    let store = RunStore::for_run(*member, &output.store, &host)?;
    let earlier = || {
        let results =
            store.earlier().map(|store| earlier_results(store, procedure.prior_metrics(), &host));
        results.unwrap_or_default()
    };
    if !measure_missing(&**procedure, earlier, &output.store)? {
        return Ok(Status::Interrupted);
    }
    let earlier = earlier();
    setup::warn_of_busy_cpus(&host);
    let watch = if procedure.calibrates() {
        CalibrationWatch::begin(&host)
    } else {
        CalibrationWatch::of_kernel()
    };
    let watch = watch.context("calibrate the clock")?;
    setup::note_counter_rate(&mut host, &watch);
    let start_ns = as_member::wait_for_start(*member)?;
    let setup = SessionSetup {
        tool: setup::tool(),
        host,
        id: setup::run_id(),
        label: label.clone(),
        started: timestamp(),
        begun_ns: start_ns.unwrap_or(begun_ns),
        start_ns,
        path,
        asked: procedure.asked(),
        watch,
        stop,
        earlier,
        imposed: setup::imposed(),
    };
    let mut printer = Printer {
        format: match (output.json, *jsonl, output.brief) {
            (true, ..) => ByHandFormat::Json,
            (_, true, _) => ByHandFormat::JsonLines,
            (.., true) => ByHandFormat::Brief,
            _ => ByHandFormat::Tables,
        },
        samples: output.samples,
        output: TerminalOutput::new(),
        width: terminal::width(),
        printed: Vec::new(),
        store,
        stored: Stored::Nothing,
        whole: None,
        keeps_whole: output.json || file.is_some(),
        screen: String::new(),
        reports: Reports::from_options(*member),
    };
    let ending = Session::new(&REGISTRY, setup, &mut printer).run(&**procedure, timestamp);
    let has_failed = ending.is_err() && printer.printed.is_empty();
    let judged = if has_failed { Vec::new() } else { procedure.judge(&printer.printed) };
    printer.print_judged(&judged);
    if let (Some(path), Some(document)) = (file, &printer.whole) {
        output_file::write(&path, fathom_report::judged_json(document, &judged))?;
    }
    printer.status(ending.map_err(command_error)?, &judged)
}

/// The newest stored number of each case of these metrics on this host, oldest first; of those of a
/// command itself the newest record, which may say that there is no number. If the store cannot be
/// read, the record has no model and says so.
fn earlier_results(store: &Store, metrics: &[&str], host: &Host) -> Vec<Record> {
    let (own, others): (Vec<&str>, Vec<&str>) = metrics.iter().partition(|it| is_own(it));
    let newest = |metrics: Vec<&str>, numbers: bool| {
        let search = CaseSearch { numbers, ..CaseSearch::on_host(host.identity()) };
        let cases = store.newest_cases(metrics, search);
        let found = cases.and_then(|cases| store.records_of(&cases));
        found.map_or_else(|_| Vec::new(), |(runs, _)| runs)
    };
    let runs = newest(others, true).into_iter().chain(newest(own, false));
    runs.flat_map(|run| run.records).collect()
}

/// What a price takes to measure with all that it needs, and for how many the run is planned at
/// least.
const PRICE_S: usize = 4;
const PRICES_MIN: usize = 5;

/// Runs the metrics that have no result yet, by a process of their own. What it cannot measure
/// stays missing; false if it was interrupted.
fn measure_missing(
    procedure: &dyn Procedure,
    earlier: impl Fn() -> Vec<Record>,
    store: &StoreArguments,
) -> anyhow::Result<bool> {
    if !procedure.measures_missing() {
        return Ok(true);
    }
    let (metrics, known) = (procedure.prior_metrics(), earlier());
    let has_result = |metric: &&&str| known.iter().any(|record| record.metric.as_str() == **metric);
    let missing: Vec<&str> = metrics.iter().filter(|metric| !has_result(metric)).copied().collect();
    if missing.is_empty() {
        return Ok(true);
    }
    let program = std::env::current_exe().context("find this program")?;
    let mut command = std::process::Command::new(program);
    let time = format!("{}s", PRICE_S * missing.len().max(PRICES_MIN));
    command.args(["run", "--time", &time]).args(&missing).stdout(Stdio::null());
    command.args(store.store.iter().flat_map(|path| ["--store".as_ref(), path.as_os_str()]));
    let status = command.stdin(Stdio::null()).status().context("start `fathom run`")?;
    let code = status.code().and_then(|code| u8::try_from(code).ok()).map(ExitCode::from);
    let is_interrupted = code == Some(Status::Interrupted.into());
    if is_interrupted {
        terminal::warn(
            "interrupted while measuring prices: finished ones are stored, the command was not run",
        );
    }
    Ok(!is_interrupted)
}

pub(super) fn command_error(error: ProcedureError) -> anyhow::Error {
    match error {
        ProcedureError::Usage(text) => UsageError(text).into(),
        ProcedureError::Failed(text) | ProcedureError::CutShort(text) => anyhow::anyhow!(text),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ByHandFormat {
    Tables,
    /// At the end.
    Brief,
    /// One document, at the end.
    Json,
    JsonLines,
}

/// Prints and stores the records of a procedure.
struct Printer {
    format: ByHandFormat,
    samples: bool,
    output: TerminalOutput,
    width: usize,
    printed: Vec<Record>,
    store: RunStore,
    stored: Stored,
    /// The document that is printed as JSON or written to a file at the end.
    whole: Option<Document>,
    keeps_whole: bool,
    /// What is printed below the conditions of the user, which are the answer.
    screen: String,
    reports: Reports,
}

/// What the store has of the run. A command that measured nothing stores no run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stored {
    Nothing,
    Records,
    /// Records that those of finished steps replace at the end.
    Drafts,
}

impl Printer {
    /// Prints a text, unless another format is printed.
    fn print(&mut self, text: &str) {
        self.output.clear_bar();
        if self.format == ByHandFormat::Tables {
            self.output.write(text);
        }
    }

    fn store(&mut self, write: impl FnOnce(&mut Store) -> Result<Vec<StoreError>, StoreError>) {
        for warning in self.store.write(write) {
            self.output.clear_bar();
            terminal::warn(&warning);
        }
    }

    /// The conditions of the user and the screen; with JSON the whole document with them.
    fn print_judged(&mut self, judged: &[LimitJudged]) {
        if let Some(document) = self.whole.as_ref().filter(|_| self.format == ByHandFormat::Json) {
            self.output.write(&match self.reports.are_wanted() {
                true => fathom_report::export::jsonl(std::slice::from_ref(document)),
                false => fathom_report::judged_json(document, judged),
            });
        }
        let text = fathom_report::limits::conditions(judged, self.width);
        match self.format {
            // JSON goes alone to standard output.
            ByHandFormat::Json | ByHandFormat::JsonLines => text.lines().for_each(terminal::warn),
            ByHandFormat::Tables | ByHandFormat::Brief => self.output.write(&(text + &self.screen)),
        }
    }

    fn status(&self, ending: Ending, judged: &[LimitJudged]) -> anyhow::Result<Status> {
        Ok(match (super::output_status(&self.output)?, ending) {
            (Status::Success, _) if self.store.has_failed() => Status::Failed,
            (Status::Success, Ending::Stopped) => Status::Interrupted,
            (Status::Success, Ending::Faulty) => Status::Failed,
            (Status::Success, Ending::NotFound) => Status::Incomplete,
            (Status::Success, Ending::Done) if !judged.is_empty() => {
                let worst = judged.iter().map(|one| one.answer).min();
                worst.map_or(Status::Success, limits::status)
            }
            (status, _) => status,
        })
    }
}

impl Audience for Printer {
    fn begins(&mut self, _: &Document, _: Option<(&Plan, f64)>) {}

    fn progress(&mut self, _: &CoordinatorProgress) {}

    fn measured(&mut self, records: &[Record]) {
        if self.format == ByHandFormat::JsonLines {
            let lines = records.iter().map(|record| {
                let samples = record.samples.clone().filter(|_| self.samples);
                fathom_report::record_line(&Record { samples, ..record.clone() })
            });
            self.output.write(&lines.collect::<String>());
        }
        let bare = |record: &Record| Record {
            samples: None,
            series: Vec::new(),
            heat_map: None,
            ..record.clone()
        };
        self.printed.extend(records.iter().map(bare));
    }

    fn finished(&mut self, document: &Document, records: &[Record], are_drafts: bool) {
        match self.stored {
            Stored::Nothing => {
                let document = Document { records: records.to_vec(), ..document.clone() };
                self.store(|store| store.begin(&document));
            }
            _ => self.store(|store| store.put(&document.run.id, records)),
        }
        if are_drafts || self.stored == Stored::Nothing {
            self.stored = if are_drafts { Stored::Drafts } else { Stored::Records };
        }
    }

    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Warning(text) => {
                self.output.clear_bar();
                terminal::warn(text);
            }
            Event::Plan(text) => self.print(&by_hand::plan(text, self.width)),
            Event::Progress { done, all, what } => {
                let done = done as f64 / all.max(1) as f64;
                self.reports.progress(done, what);
                self.output.progress(PERCENT_BAR, done, what);
            }
            Event::Second(second) if self.format == ByHandFormat::JsonLines => {
                self.output.write(&fathom_report::second_line(second));
            }
            Event::Second(_) => {}
        }
    }

    fn confirm(&mut self, text: &str, ask: bool) -> bool {
        self.print(&by_hand::announcement(text, self.width));
        let is_confirmed = !ask || confirmed(text);
        if !is_confirmed {
            terminal::warn("aborted");
        }
        is_confirmed
    }

    fn ends(&mut self, document: &Document) {
        self.output.clear_bar();
        if self.stored == Stored::Drafts {
            self.store(|store| store.replace_records(&document.run.id, &document.records));
        }
        if self.stored != Stored::Nothing {
            self.store(|store| store.update_run(&document.run).map(|()| Vec::new()));
        }
        if self.keeps_whole {
            let mut document = document.clone();
            if !self.samples {
                document.records.iter_mut().for_each(|record| record.samples = None);
            }
            self.whole = Some(document);
        }
        self.screen = match self.format {
            ByHandFormat::Json | ByHandFormat::JsonLines => String::new(),
            ByHandFormat::Brief => {
                let is_stored = self.stored != Stored::Nothing && self.store.store().is_some();
                fathom_report::brief(document, self.width, is_stored)
            }
            ByHandFormat::Tables => fathom_report::by_hand_screen(document, self.width),
        };
    }

    fn has_left(&self) -> bool {
        self.output.is_closed()
    }
}

/// Asks for confirmation on the terminal; without one the answer is yes.
fn confirmed(text: &str) -> bool {
    let stdin = std::io::stdin();
    if !(stdin.is_terminal() && terminal::shows_progress()) {
        return true;
    }
    terminal::warn(&format!("{text}. Continue? [y/N]"));
    let mut answer = String::new();
    // A signal interrupts poll(2), but would not end the read: the handlers restart system calls.
    let is_readable = poll(&mut [PollFd::new(&stdin, PollFlags::IN)], None).is_ok();
    is_readable
        && stdin.read_line(&mut answer).is_ok()
        && matches!(answer.trim(), "y" | "Y" | "yes")
}
