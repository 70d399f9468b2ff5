//! `fathom report`: kept runs as one page for a browser.

use std::io::Read;
use std::path::Path;

use anyhow::bail;
use fathom_analysis::compare::{self as comparing, Comparison};
use fathom_analysis::reference::Beneath;
use fathom_record::{Document, RunState};
use fathom_report::page::{self, MARK, MARK_WITHIN};

use super::made::{self, Own};
use super::{compare, reference, stored};
use crate::arguments::report::ReportArguments;
use crate::exit::{Status, refuse};
use crate::terminal;

/// The page as `make web` built it; absent in a program that was built without it.
#[cfg(feature = "page")]
const TEMPLATE: Option<&str> =
    Some(include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../web/dist/report.html")));
#[cfg(not(feature = "page"))]
const TEMPLATE: Option<&str> = None;
/// More runs than this on one page cannot be told apart.
const RUNS_MAX: usize = 6;
/// Seed of the comparison's bootstrap: that of `fathom compare`.
const SEED: u64 = 1;
/// What is replaced without being told to.
const OWN: Own = Own { is: is_ours, refusal: "it is there and is no page of `fathom report`" };

pub(super) fn report(arguments: &ReportArguments) -> anyhow::Result<Status> {
    // A name that is given empty stands for none.
    if arguments.reference.as_deref() == Some("") {
        return reference::list();
    }
    with(TEMPLATE, arguments)
}

/// Makes the page from the built one, where this program has it.
fn with(template: Option<&str>, arguments: &ReportArguments) -> anyhow::Result<Status> {
    let Some(template) = template else {
        bail!(
            "this program was built without the page of `report`; with Node 20.19 or newer, `make \
             build` in the source tree makes one that has it"
        );
    };
    let path = made::path(&arguments.output);
    // Before the work: who must not write need not wait for it.
    let place = path.map(|path| made::place(path, arguments.force, &OWN)).transpose()?;
    let name = arguments.reference.as_deref();
    let reference = name.map(|name| reference::find("report", name)).transpose()?;
    let documents = documents(arguments)?;
    let comparison = comparison(&documents, arguments);
    let study = reference.as_ref().map(|reference| Beneath::of(reference, &documents));
    say(&documents, comparison.as_ref());
    if study.as_ref().is_some_and(|study| !study.touches(&documents)) {
        terminal::warn(
            "the study has no figure of a metric in these runs: nothing lies under them",
        );
    }
    let text = page::page(template, &documents, comparison.as_ref(), study.as_ref());
    let Some(place) = place else { return super::print_text(&text) };
    made::write(&place, &text)?;
    super::print_text(&format!("{}\n", wrote(&arguments.output, text.len(), &documents)))
}

fn documents(arguments: &ReportArguments) -> anyhow::Result<Vec<Document>> {
    let runs = &arguments.runs;
    if runs.len() > RUNS_MAX {
        refuse!("{} runs; a page takes {RUNS_MAX} at most: name fewer", runs.len());
    }
    if runs.is_empty() {
        return Ok(vec![stored::latest_of_this_host(true, &arguments.store)?]);
    }
    let mut documents: Vec<Document> = Vec::new();
    for run in runs {
        let document = stored::document(run, true, &arguments.store)?;
        match documents.iter().any(|other| other.run.id == document.run.id) {
            true => terminal::warn(&format!("{run} is run {} once more", document.run.id)),
            false => documents.push(document),
        }
    }
    Ok(documents)
}

/// Of two runs, what changed from the first to the second.
fn comparison(documents: &[Document], arguments: &ReportArguments) -> Option<Comparison> {
    let [a, b] = documents else { return None };
    let noise = compare::noise(std::slice::from_ref(a), b, &arguments.store);
    Some(comparing::compare(a, b, &noise, SEED))
}

/// What a person should know who does not look at the page yet.
fn say(documents: &[Document], comparison: Option<&Comparison>) {
    for document in documents {
        let id = &document.run.id;
        match document.run.state {
            RunState::Complete => {}
            RunState::Interrupted => {
                terminal::warn(&format!("run {id} was interrupted: the page holds what was done"));
            }
            RunState::Running => terminal::warn(&format!(
                "run {id} goes on or ended without a word: the page holds what was done"
            )),
        }
        if !document.records.iter().any(|record| record.verdict.shows_number()) {
            terminal::warn(&format!("run {id} has no number to show"));
        }
    }
    if comparison.is_some_and(|it| it.rows.is_empty() && it.not_comparable.is_empty()) {
        terminal::warn("the two runs have no metric in common: nothing is compared");
    }
}

/// Whether a file is a page that this command made.
fn is_ours(path: &Path) -> bool {
    let mut start = Vec::new();
    let limit = u64::try_from(MARK_WITHIN).unwrap_or(u64::MAX);
    let read = std::fs::File::open(path).map(|file| file.take(limit).read_to_end(&mut start));
    read.is_ok() && String::from_utf8_lossy(&start).contains(MARK)
}

/// What was written, in a line.
fn wrote(path: &Path, bytes: usize, documents: &[Document]) -> String {
    let runs: Vec<String> = documents
        .iter()
        .map(|document| {
            let (run, count) = (document.run.name(), document.records.len());
            let cases = if count == 1 { "1 case".to_owned() } else { format!("{count} cases") };
            format!("run {run} of {} ({cases})", document.host.name)
        })
        .collect();
    let size = fathom_report::quantity(bytes as f64, fathom_record::Unit::Bytes);
    format!("Wrote {} ({size}): {}. Open it in a browser.", path.display(), runs.join(", "))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::arguments::{Arguments, Command};
    use crate::exit::Usage;

    #[test]
    fn a_program_without_the_page_says_how_to_get_one_that_has_it() {
        let line = Arguments::parse_from(["fathom", "report"]);
        let Command::Report(arguments) = line.command else { unreachable!("it was asked for") };
        let error = with(None, &arguments).unwrap_err();
        assert!(!error.is::<Usage>(), "{error}");
        let said = error.to_string();
        assert!(said.contains("without the page") && said.contains("make build"), "{said}");
        assert!(!said.contains('\n'), "{said}");
    }
}
