//! `fathom import`: runs that were measured or exported elsewhere.

#[cfg(test)]
mod fuzz;

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, bail};
use fathom_record::{Document, RunState};
use fathom_store::{Store, StoreError};

use super::{counted, documents, stored_run};
use crate::arguments::ImportArguments;
use crate::exit::Status;

pub(super) fn import(arguments: &ImportArguments) -> anyhow::Result<Status> {
    // All files are validated before any run is stored: files are read twice, and one run is held
    // at a time. A pipe can be read once.
    let mut of_pipes = Vec::new();
    for path in &arguments.files {
        match open(path)? {
            Input::File(file) => documents::each(file, &name(path), &mut |_| Ok(()))?,
            Input::Pipe(pipe) => of_pipes.extend(documents::read(pipe, &name(path))?),
        }
    }
    let mut store = stored_run::announced(Store::open(&stored_run::store_path(&arguments.store)?)?);
    let (mut new, mut all, mut missing, mut planned) = (0, 0, 0, 0);
    let mut keep = |document: Document| {
        all += 1;
        let run = &document.run;
        // Of a part of a run: `show NAME --json` and `export` select records.
        if run.state == RunState::Complete {
            let lacking = run.planned.saturating_sub(document.records.len() as u64);
            missing = u64::saturating_add(missing, lacking);
            planned = u64::saturating_add(planned, run.planned);
        }
        new += usize::from(store_run(&mut store, document)?);
        Ok(())
    };
    of_pipes.into_iter().try_for_each(&mut keep)?;
    for path in &arguments.files {
        if let Input::File(file) = open(path)? {
            documents::each(file, &name(path), &mut keep)?;
        }
    }
    let known = match all - new {
        0 => String::new(),
        known => format!("; skipped {known} that the store already had"),
    };
    let lacks = match missing {
        0 => String::new(),
        missing => format!("; {missing} of {planned} planned records are missing"),
    };
    let runs = counted(new, "run");
    super::print_done(&format!(
        "Imported {runs}{known}{lacks}. `fathom show --runs` lists them.
"
    ))
}

/// Stores a run; false if the store already has it.
fn store_run(store: &mut Store, mut document: Document) -> Result<bool, StoreError> {
    if document.run.state == RunState::Running {
        // It will never be completed in this store.
        document.run.state = RunState::Interrupted;
    }
    store.import(&document)
}

enum Input {
    File(File),
    Pipe(Box<dyn Read>),
}

fn name(path: &Path) -> String {
    if path == Path::new("-") { "standard input".to_owned() } else { path.display().to_string() }
}

fn open(path: &Path) -> anyhow::Result<Input> {
    if path == Path::new("-") {
        return Ok(Input::Pipe(Box::new(std::io::stdin().lock())));
    }
    let name = path.display();
    let file = File::open(path).with_context(|| format!("open {name}"))?;
    match file.metadata().map(|facts| facts.file_type()) {
        Ok(kind) if kind.is_dir() => {
            bail!("{name} is a directory; name files of `fathom export`");
        }
        Ok(kind) if !kind.is_file() => Ok(Input::Pipe(Box::new(file))),
        _ => Ok(Input::File(file)),
    }
}
