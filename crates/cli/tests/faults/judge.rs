//! Whether a run that met a fault did what it must.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use fathom_lab::strace::{Fault, Injection};
use fathom_record::{Document, Run, RunState};
use fathom_store::{Store, StoreError};

use crate::kept;
use crate::test_env::TestEnv;

/// What the program says when it can no longer keep what it measures.
const NOT_KEPT: [&str; 2] = ["this run is not kept", "no longer kept"];

/// A run that met a fault, and is over.
pub(crate) struct Faulty<'t> {
    pub(crate) env: &'t TestEnv,
    pub(crate) injection: &'t Injection,
    /// `None` where it had to be ended.
    pub(crate) status: Option<ExitStatus>,
    /// On both outputs, in order.
    pub(crate) said: &'t str,
    /// A run like it, which nothing disturbed.
    pub(crate) example: &'t Document,
    /// Whether that one was in the store before.
    pub(crate) had_example: bool,
}

impl Faulty<'_> {
    /// How it ended, in a word; or the promise that it broke.
    pub(crate) fn judge(&self) -> Result<&'static str, String> {
        let status = self.status.ok_or("it hangs")?;
        let left = self.env.running_processes();
        if !left.is_empty() {
            return Err(format!("{left:?} are left running"));
        }
        let word = self.ending(status)?;
        let told = |why: String| format!("{word}, but {why}");
        let runs = match stored::runs(self.env.store()) {
            Err(why) if why.contains("there is no store") => Vec::new(),
            runs => runs.map_err(told)?,
        };
        if self.had_example && !runs.contains(self.example) {
            return Err(told("the earlier run is not as it was".to_owned()));
        }
        let new = runs.iter().find(|run| run.run.id != self.example.run.id);
        self.holds(word, new).map_err(told)?;
        self.usable().map_err(told)?;
        Ok(word)
    }

    /// The ending in a word; an error where it is none that may be, or does not name its cause.
    fn ending(&self, status: ExitStatus) -> Result<&'static str, String> {
        if self.said.contains("panicked") {
            return Err("it panicked".to_owned());
        }
        let named = self.said.lines().any(|line| line.starts_with("fathom: "));
        let not_kept = self.lost_at().is_some();
        match (status.code(), status.signal()) {
            (Some(0), _) if not_kept => Err("a loss, and exit status 0".to_owned()),
            (Some(0), _) => Ok("all done"),
            _ if self.injection.fault == Fault::Error("EINTR") => {
                Err(format!("{status} for a call that was interrupted"))
            }
            (Some(1), _) if named && not_kept => Ok("not kept, and said so"),
            (Some(1), _) if named => Ok("failed, and said why"),
            (Some(3), _) => Ok("without a number"),
            (Some(130), _) if self.injection.fault == Fault::Interrupt => Ok("interrupted"),
            (None, Some(2)) if self.injection.fault == Fault::Interrupt => Ok("interrupted early"),
            (None, Some(9)) if self.injection.fault == Fault::Kill => Ok("killed"),
            // The standard library's answer where no memory is left.
            (None, Some(6)) if self.said.contains("memory allocation of") => Ok("out of memory"),
            // Nor can it say that it cannot say anything.
            (Some(1), _) if self.injection.call == "write" && self.injection.times.is_none() => {
                Ok("failed without a voice")
            }
            _ => Err(format!("{status}, and no cause is named")),
        }
    }

    /// Where it says that the store failed.
    fn lost_at(&self) -> Option<usize> {
        NOT_KEPT.iter().filter_map(|words| self.said.find(words)).min()
    }

    /// What it said it keeps, it keeps.
    fn holds(&self, word: &str, new: Option<&Document>) -> Result<(), String> {
        // What is printed after the store failed is not acknowledged.
        let printed = match self.lost_at() {
            Some(at) => stored::records(&self.said[..at]),
            None => stored::records(self.said),
        };
        let Some(run) = new else {
            let claims = self.said.contains("Kept as run") || word == "all done";
            return match printed.is_empty() && !claims {
                true => Ok(()),
                false => Err("what it says it keeps is in no run".to_owned()),
            };
        };
        stored::holds(run, &printed)?;
        let (state, records) = (run.run.state, run.records.len());
        let whole = state == RunState::Complete && records as u64 == run.run.planned;
        if self.said.contains("Kept as run") && run.run.ended.is_none() {
            return Err(format!("it says that it is kept, with an end, and it is {state:?}"));
        }
        if word == "all done" && !whole {
            return Err(format!("it keeps {records} records of a run that is {state:?}"));
        }
        let mut missing = run.records.iter().filter(|record| !record.verdict.shows_number());
        let told = missing.any(|record| !record.verdict.reasons[0].text.is_empty());
        match word == "without a number" && !told {
            true => Err("no record says why".to_owned()),
            false => Ok(()),
        }
    }

    /// The store takes another run, and nothing lies about afterwards.
    fn usable(&self) -> Result<(), String> {
        let run = Run { id: "f".repeat(16), ..self.example.run.clone() };
        let document = Document { run, ..self.example.clone() };
        // The next run would make its folder where this one did not come to it.
        let folder = self.env.store().parent().expect("a folder");
        std::fs::create_dir_all(folder).map_err(|error| error.to_string())?;
        let another = || -> Result<(), StoreError> {
            let mut store = Store::open(self.env.store())?;
            store.begin(&document)?;
            store.update_run(&document.run)
        };
        another().map_err(|error| format!("it cannot be used again: {error}"))?;
        let lying = self.env.stray_files();
        match lying.is_empty() {
            true => Ok(()),
            false => Err(format!("{lying:?} are left lying about")),
        }
    }
}
