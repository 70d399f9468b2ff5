//! `fathom export`: kept runs for other programs.

use fathom_record::Document;
use fathom_report::export as format;

use super::made::{self, Own};
use super::stored;
use crate::arguments::{ExportArguments, FormatName};
use crate::exit::{Status, refuse};
use crate::remedy::in_full;
use crate::terminal;

/// An export looks like any file of others: none is replaced without being told to.
const OWN: Own = Own { is: |_| false, refusal: "it is there already" };

pub(super) fn export(arguments: &ExportArguments) -> anyhow::Result<Status> {
    if arguments.samples && arguments.format != FormatName::Jsonl {
        refuse!("--samples: raw values are in JSON lines only (`--format jsonl`)");
    }
    let path = arguments.output.as_deref().and_then(made::path);
    // Before the work: who must not write need not wait for it.
    let place = path.map(|path| made::place(path, arguments.force, &OWN)).transpose()?;
    let documents = documents(arguments)?;
    let text = match arguments.format {
        FormatName::Jsonl => format::jsonl(&documents),
        FormatName::Csv => format::csv(&documents),
        FormatName::Openmetrics => format::openmetrics(&documents),
    };
    match place {
        Some(place) => {
            made::write(&place, &text)?;
            Ok(Status::Done)
        }
        None => super::print_text(&text),
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
    let runs = store.runs()?;
    let mut documents = Vec::new();
    for run in runs {
        match store.document(&run.id, samples) {
            Ok(document) => documents.push(document),
            // One damaged run must not take the others.
            Err(error) => terminal::warn(&format!("left out: {}", in_full(&error))),
        }
    }
    Ok(documents)
}
