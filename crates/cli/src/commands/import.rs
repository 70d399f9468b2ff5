//! `fathom import`: runs that were made elsewhere.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use fathom_record::{Document, RunState, SCHEMA_VERSION};
use fathom_store::{Store, StoreError};
use serde::de::{Deserialize, Deserializer, Error as _};

use super::start;
use crate::arguments::ImportArguments;
use crate::exit::{Status, Usage};
use crate::terminal::Output;

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
    let mut store = match start::open_store(&arguments.store)? {
        Ok(store) => store,
        Err(why) => return Err(Usage(why).into()),
    };
    let mut counted = Counted::default();
    for document in &documents {
        keep(&mut store, document, &mut counted)?;
    }
    let mut output = Output::new();
    let Counted { new, known } = counted;
    let runs = if new == 1 { "1 run".to_owned() } else { format!("{new} runs") };
    let beside = if known > 0 { format!("; {known} were there already") } else { String::new() };
    output.write(&format!("Kept {runs}{beside}. `fathom show --runs` lists them.\n"));
    super::printed(&output)
}

fn keep(store: &mut Store, document: &Document, counted: &mut Counted) -> anyhow::Result<()> {
    let mut document = document.clone();
    if document.run.state == RunState::Running {
        // Wherever it goes on, it does not go on here.
        document.run.state = RunState::Interrupted;
    }
    match store.import(&document) {
        Ok(true) => counted.new += 1,
        Ok(false) => counted.known += 1,
        Err(error @ (StoreError::Duplicate { .. } | StoreError::NotStorable { .. })) => {
            return Err(Usage(error.to_string()).into());
        }
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

/// All documents of a file: one, or one after another.
fn read(path: &Path) -> anyhow::Result<Vec<Document>> {
    let shown = path.display();
    if path == Path::new("-") {
        return parse(std::io::stdin().lock(), "standard input");
    }
    let file = File::open(path).map_err(|error| Usage(format!("open {shown}: {error}")))?;
    if file.metadata().is_ok_and(|facts| facts.is_dir()) {
        return Err(Usage(format!("{shown} is a directory; name files of `fathom export`")).into());
    }
    parse(BufReader::new(file), &shown.to_string())
}

/// A document that says where it is wrong: line, column and field.
struct Tracked(Document);

impl<'de> Deserialize<'de> for Tracked {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        serde_path_to_error::deserialize(deserializer).map(Self).map_err(|error| {
            let field = error.path().to_string();
            let text = error.into_inner().to_string();
            match field.as_str() {
                "." | "?" => D::Error::custom(text),
                field => D::Error::custom(format!("{text}, in the field `{field}`")),
            }
        })
    }
}

/// Documents one after another, each checked as soon as it is read.
fn parse(reader: impl Read, name: &str) -> anyhow::Result<Vec<Document>> {
    let mut documents: Vec<Document> = Vec::new();
    for document in serde_json::Deserializer::from_reader(reader).into_iter::<Tracked>() {
        let Tracked(document) = document.map_err(|error| {
            Usage(format!("{name} holds no run of `fathom export` or `fathom run --json`: {error}"))
        })?;
        checked(&document, name)?;
        documents.push(document);
    }
    match documents.is_empty() {
        true => Err(Usage(format!("{name} is empty; name a file of `fathom export`")).into()),
        false => Ok(documents),
    }
}

fn checked(document: &Document, name: &str) -> anyhow::Result<()> {
    if document.schema != SCHEMA_VERSION {
        let (theirs, ours) = (document.schema, SCHEMA_VERSION);
        let text = format!(
            "{name} has schema {theirs}, this program reads {ours}; use the fathom that made it"
        );
        return Err(Usage(text).into());
    }
    let id = &document.run.id;
    if id.is_empty() || id.len() > 64 || !id.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
    {
        return Err(Usage(format!("{name}: `{id}` is no id of a run")).into());
    }
    match document.records.iter().find(|record| !record.is_intact()) {
        Some(record) => Err(Usage(format!(
            "{name} is damaged: the checksum of {} in run {id} does not fit its content",
            record.name()
        ))
        .into()),
        None => Ok(()),
    }
}
