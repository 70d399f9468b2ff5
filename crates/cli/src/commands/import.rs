//! `fathom import`: runs that were measured or exported elsewhere.

#[cfg(test)]
mod fuzz;

use std::fs::File;
use std::path::Path;

use anyhow::{Context, bail};
use fathom_record::{Document, RunState};
use fathom_store::{Store, StoreError};

use super::{counted, documents, stored_run};
use crate::arguments::ImportArguments;
use crate::exit::Status;

pub(super) fn import(arguments: &ImportArguments) -> anyhow::Result<Status> {
    // All files are validated before any run is stored.
    let mut documents = Vec::new();
    for path in &arguments.files {
        documents.extend(read(path)?);
    }
    let mut store = stored_run::announced(Store::open(&stored_run::store_path(&arguments.store)?)?);
    let mut new = 0;
    for document in &documents {
        new += usize::from(store_run(&mut store, document)?);
    }
    let known = match documents.len() - new {
        0 => String::new(),
        known => format!("; skipped {known} that the store already had"),
    };
    let runs = counted(new, "run");
    super::print_text(&format!("Imported {runs}{known}. `fathom show --runs` lists them.\n"))
}

/// Stores a run; false if the store already has it.
fn store_run(store: &mut Store, document: &Document) -> Result<bool, StoreError> {
    let mut document = document.clone();
    if document.run.state == RunState::Running {
        // It will never be completed in this store.
        document.run.state = RunState::Interrupted;
    }
    store.import(&document)
}

/// All documents of a file.
fn read(path: &Path) -> anyhow::Result<Vec<Document>> {
    let name = path.display();
    if path == Path::new("-") {
        return documents::read(std::io::stdin().lock(), "standard input");
    }
    let file = File::open(path).with_context(|| format!("open {name}"))?;
    if file.metadata().is_ok_and(|facts| facts.is_dir()) {
        bail!("{name} is a directory; name files of `fathom export`");
    }
    documents::read(file, &name.to_string())
}
