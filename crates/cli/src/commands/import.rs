//! `fathom import`: runs that were measured or exported elsewhere, by Fathom or by another tool.

#[cfg(test)]
mod fuzz;

mod input;
mod other_tools;

use std::collections::BTreeSet;
use std::path::Path;

use fathom_record::{Document, RunState};
use fathom_store::{Store, StoreError};

use self::input::ImportInput;
use super::{counted, documents, stored_run};
use crate::arguments::ImportArguments;
use crate::exit::{Status, usage_error};
use crate::terminal;

pub(super) fn import(arguments: &ImportArguments) -> anyhow::Result<Status> {
    if arguments.files.iter().filter(|path| **path == Path::new("-")).count() > 1 {
        usage_error!("import: standard input is named twice; name it once");
    }
    let inputs = arguments.files.iter().map(|path| ImportInput::open(path));
    let inputs = inputs.collect::<anyhow::Result<Vec<ImportInput>>>()?;
    let named = arguments.format.is_some();
    inputs.iter().try_for_each(|input| input.check_kind(named))?;
    match other_tools::format(&inputs, arguments)? {
        Some(format) => other_tools::import(format, inputs, arguments),
        None => import_runs(inputs, arguments),
    }
}

fn import_runs(
    mut inputs: Vec<ImportInput>,
    arguments: &ImportArguments,
) -> anyhow::Result<Status> {
    // All files are validated before any run is stored: files are read twice, and one run is held
    // at a time. A pipe can be read once.
    let mut of_pipes = Vec::new();
    for input in &mut inputs {
        match input.is_pipe() {
            true => of_pipes.extend(documents::read(input.text()?, &input.name)?),
            false => documents::each(input.text()?, &input.name, &mut |_| Ok(()))?,
        }
    }
    let mut store =
        stored_run::announced(Store::open(&stored_run::store_place(&arguments.store)?)?);
    let (mut new, mut all, mut missing, mut planned) = (0, 0, 0, 0);
    let mut clones = BTreeSet::new();
    let mut keep = |document: Document| {
        all += 1;
        let run = &document.run;
        // Of a part of a run: `show NAME --json` and `export` select records.
        if run.state == RunState::Complete {
            let lacking = run.planned.saturating_sub(document.records.len() as u64);
            missing = u64::saturating_add(missing, lacking);
            planned = u64::saturating_add(planned, run.planned);
        }
        let clone = stored_run::clone_warning(&store, &document.host)?;
        let is_new = store_run(&mut store, document)?;
        clones.extend(clone.filter(|_| is_new));
        new += usize::from(is_new);
        Ok(())
    };
    of_pipes.into_iter().try_for_each(&mut keep)?;
    for input in inputs.iter_mut().filter(|input| !input.is_pipe()) {
        documents::each(input.text()?, &input.name, &mut keep)?;
    }
    clones.iter().for_each(|clone| terminal::warn(clone));
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
