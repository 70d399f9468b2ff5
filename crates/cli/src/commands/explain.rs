//! `fathom explain`: what a metric is, and how its last results came about.

use anyhow::Context;
use fathom_metric::Entry;
use fathom_probes::REGISTRY;
use fathom_record::{Effort, Host, Protocol, Record};
use fathom_report::{Layout, accounts, paragraph};

use super::stored;
use crate::arguments::ExplainArguments;
use crate::exit::{OrUsage, Status};
use crate::terminal::{self, Output};
use fathom_engine::{CaseSelector, Plan};

/// The newest runs among which the last result is looked for.
const RUNS_LOOKED_AT: usize = 50;

pub(super) fn explain(arguments: &ExplainArguments) -> anyhow::Result<Status> {
    let word = CaseSelector::parse(&arguments.metric).or_usage()?;
    // Which cases there are, the results tell: their sizes depend on the machine.
    let asked = vec![word.name.clone()];
    let plan = Plan::new(&REGISTRY, asked, Effort::Quick, Protocol::Median, 0, &Host::default())
        .or_usage()?;
    let width = terminal::width();
    let mut output = Output::new();
    for entry in plan.metrics(false) {
        let results = last_results(entry, &word, arguments, width)?;
        output.write(&what_it_is(entry, width));
        output.write(&results);
    }
    super::printed(&output)
}

fn what_it_is(entry: &Entry, width: usize) -> String {
    let about = entry.about();
    let mut text = format!("{}  {} [{}]\n", about.id, about.title, about.unit.symbol());
    let mut say = |name: &str, value: &str| {
        if !value.is_empty() {
            text += &paragraph(value, width, &format!("  {name:<11}"), &" ".repeat(13));
        }
    };
    let timed = if matches!(entry, Entry::Derived(_)) { "computed" } else { "timed" };
    say(timed, about.timed);
    say("not timed", about.not_timed);
    for parameter in about.parameters {
        say(
            "parameter",
            &format!("{} = {}: {}", parameter.name, parameter.values, parameter.meaning),
        );
    }
    say("model", about.model);
    say("source", about.source);
    about.pitfalls.iter().for_each(|pitfall| say("pitfall", pitfall));
    say("needs", &about.needs.join(", "));
    say("requires", about.requires);
    say("published", about.published);
    let limit = format!("above ± {:.0} % that no counter explains", 100.0 * about.noise_limit);
    say("noisy", &limit);
    text
}

/// The results of the run that was named, or of the newest that measured it; without one, how to
/// get them.
fn last_results(
    entry: &Entry,
    word: &CaseSelector,
    arguments: &ExplainArguments,
    width: usize,
) -> anyhow::Result<String> {
    let about = entry.about();
    let typed = word.quoted(about.id);
    let without = |text: String| {
        if word.has_parameters() {
            super::may_be_asked(word, entry)?;
        }
        Ok(text)
    };
    let none = format!("\nno result is kept yet; `fathom run {typed}` makes one\n\n");
    let is_named = arguments.store.store.is_some();
    if !is_named && arguments.run.is_none() && !stored::path(&arguments.store)?.exists() {
        return without(none);
    }
    let store = stored::open(&arguments.store)?;
    let runs: Vec<String> = match &arguments.run {
        Some(run) => vec![store.resolve(run)?],
        None => {
            let rows = store.runs()?;
            rows.into_iter().take(RUNS_LOOKED_AT).map(|row| row.id).collect()
        }
    };
    for run in &runs {
        let document = store.document(run, false).with_context(|| format!("read run {run}"))?;
        let of_metric =
            |record: &&Record| record.metric.as_str() == about.id && word.selects(&record.params);
        let records: Vec<Record> = document.records.iter().filter(of_metric).cloned().collect();
        if !records.is_empty() {
            let mut text = format!("\nin run {run} of {}:\n", document.run.started);
            let protocol = document.run.protocol;
            let layout = Layout { width, protocol, all: arguments.all, ..Layout::default() };
            text += &accounts(&records, &document, &layout);
            return Ok(text + "\n");
        }
    }
    match &arguments.run {
        None => without(none),
        Some(_) => {
            let run = &runs[0];
            without(format!("\nrun {run} did not measure it; `fathom run {typed}` does\n\n"))
        }
    }
}
