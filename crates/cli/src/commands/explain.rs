//! `fathom explain`: the description of a metric, and how its latest results were obtained.

use anyhow::Context;
use fathom_engine::CaseSelector;
use fathom_metric::Entry;
use fathom_probes::REGISTRY;
use fathom_record::Record;
use fathom_report::{Layout, accounts, paragraph};
use fathom_store::Search;

use super::stored_run;
use crate::arguments::ExplainArguments;
use crate::exit::{OrUsage, Status};
use crate::terminal::{self, Output};

pub(super) fn explain(arguments: &ExplainArguments) -> anyhow::Result<Status> {
    let word = CaseSelector::parse(&arguments.metric).or_usage()?;
    let width = terminal::width();
    let mut output = Output::new();
    // Whether the named cases exist depends on the machine: the stored results decide that.
    for entry in super::metrics_named(vec![word.name.clone()])? {
        let results = latest_results(entry, &word, arguments, width)?;
        output.write(&description(entry, width));
        output.write(&results);
    }
    super::output_status(&output)
}

fn description(entry: &Entry, width: usize) -> String {
    let about = entry.about();
    let mut text = format!("{}  {} [{}]\n", about.id, about.title, about.unit.symbol());
    let mut add = |name: &str, value: &str| {
        if !value.is_empty() {
            text += &paragraph(value, width, &format!("  {name:<11}"), &" ".repeat(13));
        }
    };
    add(if matches!(entry, Entry::Derived(_)) { "computed" } else { "timed" }, about.timed);
    add("not timed", about.not_timed);
    for one in about.parameters {
        add("parameter", &format!("{} = {}: {}", one.name, one.values, one.meaning));
    }
    add("model", about.model);
    add("source", about.source);
    about.pitfalls.iter().for_each(|pitfall| add("pitfall", pitfall));
    add("needs", &about.needs.join(", "));
    add("requires", about.requires);
    add("published", about.published);
    let limit = 100.0 * about.noise_limit;
    add("noisy", &format!("spread above ± {limit:.0} % that no counter explains"));
    text
}

/// The results of `--run`, or of the newest run of the default host that has any; if there are
/// none, the command that measures them.
fn latest_results(
    entry: &Entry,
    word: &CaseSelector,
    arguments: &ExplainArguments,
    width: usize,
) -> anyhow::Result<String> {
    let about = entry.about();
    let argument = word.quoted(about.id);
    let without_results = |text: String| {
        if word.has_parameters() {
            super::check_cases_exist(word, entry)?;
        }
        Ok(text)
    };
    let command = match REGISTRY.command_of(about.id) {
        Some(command) => format!("fathom {}", command.path),
        None => format!("fathom run {argument}{}", fathom_report::remote_option(&word.text)),
    };
    let none = format!("\nno stored result; `{command}` measures it\n\n");
    let is_named = arguments.store.store.is_some();
    if !is_named && arguments.run.is_none() && !stored_run::store_path(&arguments.store)?.exists() {
        return without_results(none);
    }
    let store = stored_run::open_store(&arguments.store)?;
    let run = match &arguments.run {
        Some(run) => Some(stored_run::find(&store, run)?),
        None => {
            let host = stored_run::default_host(&store)?;
            let cases = store.newest_cases([about.id], Search::of(&host))?;
            cases.into_iter().rev().find(|case| word.selects(&case.params)).map(|case| case.run)
        }
    };
    if let Some(run) = &run {
        let document = store.document(run, false).with_context(|| format!("read run {run}"))?;
        let of_metric =
            |record: &&Record| record.metric.as_str() == about.id && word.selects(&record.params);
        let records: Vec<Record> = document.records.iter().filter(of_metric).cloned().collect();
        if !records.is_empty() {
            let protocol = document.run.protocol;
            let layout = Layout { width, protocol, all: arguments.all, ..Layout::default() };
            let results = accounts(&records, &document, &layout);
            return Ok(format!("\nin run {run} of {}:\n{results}\n", document.run.started));
        }
    }
    without_results(match run {
        None => none,
        Some(run) => format!("\nrun {run} has no result of it; `{command}` measures it\n\n"),
    })
}
