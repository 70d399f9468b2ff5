//! `--reference`: figures of a published study; and the classic table.

use std::collections::BTreeSet;

use fathom_analysis::reference::{self as published, Beside, CLASSIC, Published, StudyReference};
use fathom_probes::REGISTRY;
use fathom_record::Document;
use fathom_report::reference::{ReferenceOptions, Units, known, render};
use fathom_store::CaseSearch;

use super::stored_run;
use crate::arguments::{CompareArguments, ShowArguments, StoreArguments, UnitsName};
use crate::exit::{Status, UsageError};
use crate::remedy::with_remedy;
use crate::terminal;

/// Lists the studies, for `--reference` without a name.
pub(super) fn list() -> anyhow::Result<Status> {
    super::print_text(&format!("Published studies: {}.\n", known(&published::all())))
}

pub(super) fn find(command: &str, name: &str) -> Result<StudyReference, UsageError> {
    published::find(name).ok_or_else(|| {
        let known = known(&published::all());
        UsageError(format!("{command} --reference {name}: unknown study; known: {known}"))
    })
}

/// The command that measures a published case on this host, or on a far one.
fn command_of(published: &Published) -> Option<String> {
    let metric = published.metric.as_str();
    if let Some(command) = REGISTRY.command_of(metric) {
        return Some(command.line());
    }
    REGISTRY.find(metric)?;
    let mut params = published.params.clone();
    let remote = params.text("to") == Some("remote");
    if remote {
        params.0.remove("to");
    }
    let case = format!("{metric}{params}");
    let case = if params.is_empty() { case } else { format!("'{case}'") };
    Some(format!("fathom run {case}{}", if remote { " --remote HOST" } else { "" }))
}

/// `fathom compare --reference`: runs beside a study.
pub(super) fn compare(name: &str, arguments: &CompareArguments) -> anyhow::Result<Status> {
    if name.is_empty() {
        return list();
    }
    let beside = beside(&find("compare", name)?, &arguments.runs, &arguments.store)?;
    let options = ReferenceOptions { published: true, ..ReferenceOptions::default() };
    super::print(arguments.json, &beside, |layout| render(&beside, options, &command_of, layout))
}

/// `fathom show --classic`.
pub(super) fn classic(arguments: &ShowArguments) -> anyhow::Result<Status> {
    let reference = find("show", arguments.reference.as_deref().unwrap_or(CLASSIC))?;
    let output = &arguments.output;
    let runs: Vec<String> = arguments.run.iter().chain(&arguments.names).cloned().collect();
    let beside = beside(&reference, &runs, &output.store)?;
    let units = match arguments.units {
        UnitsName::Binary => Units::Binary,
        UnitsName::Published => Units::Published,
    };
    let published = arguments.reference.is_some();
    let options = ReferenceOptions { published, units, markdown: arguments.markdown };
    super::print(output.json, &beside, |layout| render(&beside, options, &command_of, layout))
}

/// The named runs beside a study; without a name the latest battery, and the newest numbers of its
/// host for the rows that it does not have.
fn beside(
    reference: &StudyReference,
    runs: &[String],
    store: &StoreArguments,
) -> anyhow::Result<Beside> {
    if !runs.is_empty() {
        let read = |run: &String| stored_run::document(run, false, store);
        let documents: Vec<Document> = runs.iter().map(read).collect::<anyhow::Result<_>>()?;
        return Ok(published::beside(reference, &documents));
    }
    let latest = stored_run::document(stored_run::latest_battery(store)?, false, store)?;
    let store = stored_run::open_store(store)?;
    let metrics: BTreeSet<&str> = reference.record.iter().map(|it| it.metric.as_str()).collect();
    let search = CaseSearch { numbers: true, ..CaseSearch::on_host(latest.host.identity()) };
    let (others, damaged) = store.records_of(&store.newest_cases(metrics, search)?)?;
    damaged.iter().for_each(|error| terminal::warn(&format!("skipped: {}", with_remedy(error))));
    let id = latest.run.id.clone();
    let others = others.into_iter().rev().filter(|other| other.run.id != id);
    let documents: Vec<Document> = std::iter::once(latest).chain(others).collect();
    let mut beside = published::beside(reference, &documents);
    let rows = &beside.rows;
    let is_used = |run: &str| rows.iter().flat_map(|row| &row.here).any(|here| here.run == run);
    beside.runs.retain(|run| run.id == id || is_used(&run.id));
    Ok(beside)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::arguments::Arguments;

    #[test]
    fn every_row_of_the_classic_table_has_a_command_that_parses() {
        let classic = find("show", CLASSIC).expect("the study");
        let measured = classic.record.iter().filter(|one| one.unlike.is_none());
        for published in measured.filter(|one| !classic.not_measured.contains(&one.metric)) {
            let command = command_of(published).expect("a metric of the registry");
            let words = command.split(' ').map(|word| word.trim_matches('\''));
            let parsed = Arguments::try_parse_from(words);
            assert!(parsed.is_ok(), "{command}: {:?}", parsed.err());
            let id = published.metric.as_str();
            assert!(command.contains(id) || REGISTRY.command_of(id).is_some(), "{command}");
        }
    }
}
