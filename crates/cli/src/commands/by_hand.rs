//! What measures by hand: runs a procedure, shows its records as they are done, and keeps them.
//!
//! Everything is kept at the end, so that the store's writes fall between no two timed passes.

use std::io::IsTerminal;

use anyhow::Context;
use fathom_engine::{Audience, Plan, Progress, Session, SessionSetup};
use fathom_measure::clock::{self, Watch};
use fathom_measure::host;
use fathom_metric::{Ending, Event, ProcedureError};
use fathom_probes::REGISTRY;
use fathom_record::{Document, Host, Record};
use fathom_report::by_hand;
use fathom_store::Store;
use rustix::event::{PollFd, PollFlags, poll};

use super::keeping::Keeping;
use super::start;
use crate::arguments::by_hand::{Common, FileArguments};
use crate::exit::{Status, Usage};
use crate::interrupt;
use crate::live::timestamp;
use crate::terminal::{self, Output, SHARE};

pub(super) fn by_hand(arguments: &FileArguments) -> anyhow::Result<Status> {
    let FileArguments { command, procedure, label, common } = arguments;
    if let Some(done) = procedure.part() {
        return done.map(|()| Status::Done).map_err(refused);
    }
    let begun_ns = clock::monotonic_raw_ns();
    let stop = interrupt::stop().context("listen to signals")?;
    procedure.check().map_err(refused)?;
    let mut host = host::read();
    start::check_environment(&host)?;
    let keeping = Keeping::open(&common.store);
    let recalls = keeping.store().into_iter().flat_map(|store| {
        procedure.prior_metrics().iter().flat_map(|metric| recalled(store, metric, &host))
    });
    let earlier = recalls.collect();
    let watch = match procedure.calibrates() {
        true => Watch::begin(&host),
        false => Watch::of_kernel(),
    };
    let watch = watch.context("calibrate the clock")?;
    start::note_counter_rate(&mut host, &watch);
    let setup = SessionSetup {
        tool: start::tool(),
        host,
        id: start::run_id(),
        label: label.clone(),
        started: timestamp(),
        begun_ns,
        path: command.path,
        asked: procedure.asked(),
        watch,
        stop,
        earlier,
        imposed: start::imposed(),
    };
    let mut follower = Follower::new(common, keeping);
    let ending = Session::new(&REGISTRY, setup, &mut follower).run(&**procedure, timestamp);
    follower.status(ending.map_err(refused)?)
}

/// The newest believable results of a metric on this host, oldest first. A store that cannot be
/// read leaves the number without a model, and that is said.
fn recalled(store: &Store, metric: &str, host: &Host) -> Vec<Record> {
    let Ok((documents, _)) = store.of_metric(metric) else { return Vec::new() };
    let of_this_host = |document: &Document| document.host.identity() == host.identity();
    documents.into_iter().filter(of_this_host).flat_map(|one| one.records).collect()
}

fn refused(error: ProcedureError) -> anyhow::Error {
    match error {
        ProcedureError::Usage(text) => Usage(text).into(),
        ProcedureError::Failed(text) => anyhow::anyhow!(text),
    }
}

/// Prints and keeps what a procedure gives.
struct Follower {
    json: bool,
    samples: bool,
    output: Output,
    width: usize,
    /// The record that was shown last.
    above: Option<Record>,
    keeping: Keeping,
}

impl Follower {
    fn new(common: &Common, keeping: Keeping) -> Self {
        Self {
            json: common.json,
            samples: common.samples,
            output: Output::new(),
            width: terminal::width(),
            above: None,
            keeping,
        }
    }

    /// Prints a text for people; nothing under `--json`.
    fn print(&mut self, text: &str) {
        self.output.clear_bar();
        if !self.json {
            self.output.write(text);
        }
    }

    /// How the command ended.
    fn status(&self, ending: Ending) -> anyhow::Result<Status> {
        Ok(match (super::printed(&self.output)?, ending) {
            (Status::Done, _) if self.keeping.has_failed() => Status::Failed,
            (Status::Done, Ending::Stopped) => Status::Interrupted,
            (Status::Done, Ending::Faulty) => Status::Failed,
            (Status::Done, Ending::NotFound) => Status::Incomplete,
            (status, _) => status,
        })
    }
}

impl Audience for Follower {
    fn begins(&mut self, _: &Document, _: Option<(&Plan, f64)>) {}

    fn progress(&mut self, _: &Progress) {}

    fn block(&mut self, records: &[Record]) {
        self.print(&by_hand::group(records, self.above.as_ref(), self.width));
        self.above = records.last().cloned();
    }

    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Warning(text) => {
                self.output.clear_bar();
                terminal::warn(text);
            }
            Event::Progress { done, all, what } => {
                let Some(bar) = self.output.bar(SHARE) else { return };
                bar.set_length(all);
                bar.set_position(done);
                bar.set_message(what.to_owned());
                bar.tick();
            }
        }
    }

    fn confirm(&mut self, text: &str, ask: bool) -> bool {
        self.print(&by_hand::announcement(text, self.width));
        let is_let = !ask || confirmed(text);
        if !is_let {
            terminal::warn("aborted: nothing was done");
        }
        is_let
    }

    fn ends(&mut self, document: &Document) {
        self.output.clear_bar();
        // A command that measured nothing leaves no run behind.
        if !document.records.is_empty() {
            self.keeping.keep(|store| store.import(document));
        }
        if self.json {
            let mut document = document.clone();
            if !self.samples {
                document.records.iter_mut().for_each(|record| record.samples = None);
            }
            self.output.write(&fathom_report::document_json(&document));
        } else {
            let found = by_hand::findings(&document.records, &document.host, self.width);
            self.output.write(&found);
        }
        self.keeping.ends();
    }

    fn has_left(&self) -> bool {
        self.output.is_closed()
    }
}

/// Whether a person, asked on the terminal, lets this go on; without a terminal nobody is asked.
fn confirmed(text: &str) -> bool {
    let stdin = std::io::stdin();
    if !(stdin.is_terminal() && terminal::shows_progress()) {
        return true;
    }
    terminal::warn(&format!("{text}. Go on? [y/N]"));
    let mut answer = String::new();
    // A signal ends the wait, where it would not end the read. What cannot be read is no yes.
    let is_there = poll(&mut [PollFd::new(&stdin, PollFlags::IN)], None).is_ok();
    is_there && stdin.read_line(&mut answer).is_ok() && matches!(answer.trim(), "y" | "Y" | "yes")
}
