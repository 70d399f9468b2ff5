//! `fathom export`: kept runs for other programs.

use std::io::Write as _;
use std::path::Path;

use fathom_record::Document;
use fathom_report::export as format;

use super::stored;
use crate::arguments::{ExportArguments, FormatName};
use crate::exit::{Status, Usage};
use crate::terminal::{self, Output};

pub(super) fn export(arguments: &ExportArguments) -> anyhow::Result<Status> {
    let documents = documents(arguments)?;
    let text = match arguments.format {
        FormatName::Jsonl => format::jsonl(&documents),
        FormatName::Csv => format::csv(&documents),
        FormatName::Openmetrics => format::openmetrics(&documents),
    };
    match &arguments.output {
        Some(path) => write(path, &text).map(|()| Status::Done),
        None => {
            let mut output = Output::new();
            output.write(&text);
            super::printed(&output)
        }
    }
}

fn documents(arguments: &ExportArguments) -> anyhow::Result<Vec<Document>> {
    let samples = arguments.samples;
    if !arguments.all {
        let latest = ["latest".to_owned()];
        let runs = if arguments.runs.is_empty() { &latest[..] } else { &arguments.runs };
        return runs.iter().map(|run| stored::document(run, samples, &arguments.store)).collect();
    }
    let store = stored::open(&arguments.store)?;
    let runs = store.runs().map_err(|error| Usage(error.to_string()))?;
    let mut documents = Vec::new();
    for run in runs {
        match store.document(&run.id, samples) {
            Ok(document) => documents.push(document),
            // One damaged run must not take the others.
            Err(error) => terminal::warn(&format!("left out: {error}")),
        }
    }
    Ok(documents)
}

/// Writes a file whole or not at all.
pub(super) fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let refused =
        |error: &dyn std::fmt::Display| Usage(format!("write {}: {error}", path.display()));
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let scratch = fathom_fileio::scratch::Scratch::new(folder.unwrap_or(Path::new(".")))
        .map_err(|error| refused(&error))?;
    scratch.file().write_all(text.as_bytes()).map_err(|error| refused(&error))?;
    scratch.publish(path, true).map_err(|error| refused(&error))?;
    Ok(())
}
