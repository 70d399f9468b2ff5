//! Judges a run that met a fault.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use fathom_lab::strace::{Injection, StraceFault};
use fathom_record::{Document, Record, Run, RunState, State};
use fathom_store::{Store, StoreError};

use crate::stored;
use crate::test_env::TestEnv;
use crate::trials::TrialOutcome;

/// Warnings that the store failed.
const NOT_STORED: [&str; 2] = ["this run is not stored", "results are no longer stored"];

/// Whether there is no number because of a fault: what the machine disturbs has one.
fn is_missing(record: &Record) -> bool {
    matches!(record.verdict.state, State::Failed | State::Unavailable)
}

/// A run that met a fault and has ended.
pub(crate) struct FaultyRun<'t> {
    pub(crate) env: &'t TestEnv,
    pub(crate) injection: &'t Injection,
    /// Both outputs, in order.
    pub(crate) output: &'t str,
    /// The same run without a fault.
    pub(crate) example: &'t Document,
    /// Whether the store had the example before.
    pub(crate) had_example: bool,
}

impl FaultyRun<'_> {
    pub(crate) fn judge(&self, status: ExitStatus) -> TrialOutcome {
        let left = self.env.running_processes();
        if !left.is_empty() {
            return Err(format!("{left:?} are left running"));
        }
        let ending = self.ending(status)?;
        let but = |why: String| format!("{ending}, but {why}");
        let runs = match stored::runs(self.env.store()) {
            Err(why) if why.contains("there is no store") => Vec::new(),
            runs => runs.map_err(but)?,
        };
        if self.had_example && !runs.contains(self.example) {
            return Err(but("the earlier run has changed".to_owned()));
        }
        let new = runs.iter().find(|run| run.run.id != self.example.run.id);
        let ending = match new {
            Some(run) if ending == "complete" && run.records.iter().any(is_missing) => {
                "a number is missing"
            }
            _ => ending,
        };
        if self.injection.fault == StraceFault::Error("EINTR") && ending != "complete" {
            return Err(format!("{ending} after EINTR"));
        }
        self.check_acknowledged(ending, new).map_err(but)?;
        self.check_store_usable().map_err(but)?;
        Ok(ending)
    }

    /// The kind of ending; an error if the exit status is wrong or has no cause.
    fn ending(&self, status: ExitStatus) -> TrialOutcome {
        if self.output.contains("panicked") {
            return Err("it panicked".to_owned());
        }
        let has_message = self.output.lines().any(|line| line.starts_with("fathom: "));
        let is_not_stored = self.store_failure().is_some();
        match (status.code(), status.signal()) {
            (Some(0), _) if is_not_stored => Err("records are lost, with exit status 0".to_owned()),
            (Some(0), _) => Ok("complete"),
            (Some(1), _) if has_message && is_not_stored => Ok("not stored, with a warning"),
            (Some(1), _) if has_message => Ok("failed with an error"),
            (Some(3), _) if self.output.contains("no case has a number") => Ok("no number"),
            (Some(130), _) if self.injection.fault == StraceFault::Interrupt => Ok("interrupted"),
            (None, Some(2)) if self.injection.fault == StraceFault::Interrupt => {
                Ok("interrupted early")
            }
            (None, Some(9)) if self.injection.fault == StraceFault::Kill => Ok("killed"),
            // The standard library aborts if an allocation fails.
            (None, Some(6)) if self.output.contains("memory allocation of") => Ok("out of memory"),
            // Every write fails, also that of the message.
            (Some(1), _) if self.injection.call == "write" && self.injection.times.is_none() => {
                Ok("failed without output")
            }
            _ => Err(format!("{status} without a message")),
        }
    }

    /// The position of the first warning that the store failed.
    fn store_failure(&self) -> Option<usize> {
        NOT_STORED.iter().filter_map(|warning| self.output.find(warning)).min()
    }

    /// Every acknowledged record is in the run.
    fn check_acknowledged(&self, ending: &str, new: Option<&Document>) -> Result<(), String> {
        // A record that is printed after the store failed is not acknowledged.
        let acknowledged =
            stored::records(&self.output[..self.store_failure().unwrap_or(self.output.len())]);
        let claims_run = self.output.contains("Kept as run");
        let Some(run) = new else {
            return match acknowledged.is_empty() && !claims_run && ending != "complete" {
                true => Ok(()),
                false => Err("the store has no run".to_owned()),
            };
        };
        stored::check(run, &acknowledged)?;
        let (state, records) = (run.run.state, run.records.len());
        let is_whole = state == RunState::Complete && records as u64 == run.run.planned;
        if claims_run && run.run.ended.is_none() {
            return Err(format!("it claims a stored run, which is {state:?}"));
        }
        if ending == "complete" && !is_whole {
            return Err(format!("the store has {records} records of a run that is {state:?}"));
        }
        let mut missing = run.records.iter().filter(|record| is_missing(record));
        let has_reason = missing.any(|record| !record.verdict.reasons[0].text.is_empty());
        match ending == "a number is missing" && !has_reason {
            true => Err("no record has a reason".to_owned()),
            false => Ok(()),
        }
    }

    /// The store accepts another run, and no file is left beside it.
    fn check_store_usable(&self) -> Result<(), String> {
        let run = Run { id: "f".repeat(16), ..self.example.run.clone() };
        let document = Document { run, ..self.example.clone() };
        // The next run would create the folder.
        let folder = self.env.store().parent().expect("a folder");
        std::fs::create_dir_all(folder).map_err(|error| error.to_string())?;
        let store_another = || -> Result<(), StoreError> {
            let mut store = Store::open(self.env.store())?;
            store.begin(&document)?;
            store.update_run(&document.run)
        };
        store_another().map_err(|error| format!("the store cannot be used again: {error}"))?;
        let stray = self.env.stray_files();
        match stray.is_empty() {
            true => Ok(()),
            false => Err(format!("{stray:?} are left")),
        }
    }
}
