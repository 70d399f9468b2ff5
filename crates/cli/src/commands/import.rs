//! `fathom import`: runs that were made elsewhere.

#[cfg(test)]
mod fuzz;

use std::fs::File;
use std::path::Path;

use anyhow::{Context, bail};
use fathom_record::{Document, RunState};
use fathom_store::{Store, StoreError};

use super::{documents, stored};
use crate::arguments::ImportArguments;
use crate::exit::Status;

/// What became of the runs of a file.
#[derive(Default)]
struct Counted {
    new: usize,
    known: usize,
}

pub(super) fn import(arguments: &ImportArguments) -> anyhow::Result<Status> {
    // All is read and checked before anything is kept.
    let mut documents = Vec::new();
    for path in &arguments.files {
        documents.extend(read(path)?);
    }
    let mut store = Store::open(&stored::path(&arguments.store)?)?;
    let mut counted = Counted::default();
    for document in &documents {
        keep(&mut store, document, &mut counted)?;
    }
    let Counted { new, known } = counted;
    let runs = if new == 1 { "1 run".to_owned() } else { format!("{new} runs") };
    let beside = match known {
        0 => String::new(),
        1 => "; 1 was there already".to_owned(),
        _ => format!("; {known} were there already"),
    };
    super::print_text(&format!("Kept {runs}{beside}. `fathom show --runs` lists them.\n"))
}

fn keep(store: &mut Store, document: &Document, counted: &mut Counted) -> Result<(), StoreError> {
    let mut document = document.clone();
    if document.run.state == RunState::Running {
        // Wherever it goes on, it does not go on here.
        document.run.state = RunState::Interrupted;
    }
    match store.import(&document)? {
        true => counted.new += 1,
        false => counted.known += 1,
    }
    Ok(())
}

/// All documents of a file: one, or one after another.
fn read(path: &Path) -> anyhow::Result<Vec<Document>> {
    let shown = path.display();
    if path == Path::new("-") {
        return documents::read(std::io::stdin().lock(), "standard input");
    }
    let file = File::open(path).with_context(|| format!("open {shown}"))?;
    if file.metadata().is_ok_and(|facts| facts.is_dir()) {
        bail!("{shown} is a directory; name files of `fathom export`");
    }
    documents::read(file, &shown.to_string())
}
