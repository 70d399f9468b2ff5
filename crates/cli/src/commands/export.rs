//! `fathom export`: stored runs for other programs.

use std::path::Path;

use anyhow::anyhow;
use fathom_analysis::typical;
use fathom_record::{Better, Document};
use fathom_report::export as format;

use super::output_file::{self, Replaceable};
use super::stored_run;
use crate::arguments::{BetterName, ExportArguments, FormatName};
use crate::exit::{Status, UsageError, usage_error};
use crate::remedy::with_remedy;
use crate::terminal;

/// An export has no mark by which it is recognised: no file is replaced without `--force`.
pub(super) const REPLACEABLE: Replaceable =
    Replaceable { is_replaceable: |_| false, refusal: "file exists" };

pub(super) fn export(arguments: &ExportArguments) -> anyhow::Result<Status> {
    if arguments.samples && !matches!(arguments.format, FormatName::Json | FormatName::Jsonl) {
        usage_error!("--samples: only JSON has raw samples (--format jsonl)");
    }
    if arguments.headline && arguments.format != FormatName::Openmetrics {
        usage_error!(
            "--headline: only OpenMetrics can be of headline cases (--format openmetrics)"
        );
    }
    // Before the work, so that a refusal comes at once.
    let output = arguments.output.as_deref().unwrap_or(Path::new("-"));
    let output = output_file::check(output, arguments.force, &REPLACEABLE)?;
    let documents = documents(arguments)?;
    let text = match arguments.format {
        FormatName::Json => documents.iter().map(fathom_report::document_json).collect(),
        FormatName::Markdown => fathom_report::markdown::documents(&documents),
        FormatName::Jsonl => format::jsonl(&documents),
        FormatName::Limits => format::limits(one(&documents)?, arguments.margin)
            .ok_or_else(|| anyhow!("the run has no valid number with an interval"))?,
        FormatName::Typical => machine(one(&documents)?, arguments.machine_type.as_deref())?,
        FormatName::Csv => format::csv(&documents),
        FormatName::Openmetrics => format::openmetrics(&documents, arguments.headline),
        FormatName::Go => format::go(&documents),
        FormatName::GithubAction => github_action(one(&documents)?, arguments.better),
    };
    match output {
        Some(path) => output_file::write(&path, &text).map(|()| Status::Success),
        None => super::print_text(&text),
    }
}

fn one(documents: &[Document]) -> Result<&Document, UsageError> {
    match documents {
        [one] => Ok(one),
        more => Err(UsageError(format!("export: this format is of one run, {} named", more.len()))),
    }
}

/// Says how many numbers are of the other direction.
fn github_action(document: &Document, better: BetterName) -> String {
    let (better, others) = match better {
        BetterName::Lower => (Better::Lower, "--better higher has rates"),
        BetterName::Higher => (Better::Higher, "--better lower has times and sizes"),
    };
    let (text, left) = format::github_action(document, better);
    if left > 0 {
        let left = super::counted(left, "number");
        terminal::warn(&format!("left out {left} of another direction; {others}"));
    }
    text
}

/// The row of a run for the collection of typical machines.
fn machine(document: &Document, name: Option<&str>) -> anyhow::Result<String> {
    let name = name.or(document.host.machine_type.as_deref());
    let is_word = |text: &str| {
        let is_part = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        !text.is_empty() && text.chars().all(is_part)
    };
    let parts = name.and_then(|name| name.split_once('/'));
    let Some((provider, name)) = parts.filter(|(a, b)| is_word(a) && is_word(b)) else {
        usage_error!(
            "--format typical: needs the machine type, --type PROVIDER/TYPE, such as \
             aws/m9g.large; own/NAME for a machine that is not rented"
        );
    };
    let machine = typical::row(document, provider, name).map_err(|error| anyhow!(error))?;
    Ok(typical::collection(&[machine]))
}

fn documents(arguments: &ExportArguments) -> anyhow::Result<Vec<Document>> {
    let samples = arguments.samples;
    if arguments.format == FormatName::Openmetrics && arguments.runs.is_empty() && !arguments.all {
        let (latest, others) = stored_run::latest_and_others(samples, &arguments.store)?;
        return Ok(std::iter::once(latest).chain(others).collect());
    }
    if !arguments.all {
        let is_of_all = matches!(arguments.format, FormatName::Limits | FormatName::Typical);
        let latest = match is_of_all && arguments.runs.is_empty() {
            true => stored_run::latest_battery(&arguments.store)?,
            false => "latest",
        };
        let latest = [latest.to_owned()];
        let runs = if arguments.runs.is_empty() { &latest[..] } else { &arguments.runs };
        let read = |run| stored_run::documents_of_group(run, samples, &arguments.store);
        let groups = runs.iter().map(|run| read(run)).collect::<anyhow::Result<Vec<_>>>()?;
        return Ok(groups.concat());
    }
    let store = stored_run::open_store(&arguments.store)?;
    let mut documents = Vec::new();
    // The oldest first, so that an import stores them in this order.
    for run in store.runs()?.iter().rev() {
        match store.document(&run.id, samples) {
            Ok(mut document) => {
                typical::fill(&mut document);
                documents.push(document);
            }
            // A damaged run does not prevent the export of the others.
            Err(error) => terminal::warn(&format!("skipped: {}", with_remedy(&error))),
        }
    }
    Ok(documents)
}
