//! `fathom explain`: the description of a metric, and how its latest results were obtained.

use fathom_engine::CaseSelector;
use fathom_metric::Entry;
use fathom_record::Record;
use fathom_report::{Layout, accounts, paragraph};
use fathom_store::CaseSearch;

use super::stored_run;
use crate::arguments::ExplainArguments;
use crate::exit::Status;
use crate::terminal;

pub(super) fn explain(arguments: &ExplainArguments) -> anyhow::Result<Status> {
    let words = arguments.metrics.iter().map(|word| super::selector(word));
    let words = words.collect::<Result<Vec<_>, _>>()?;
    let width = terminal::width();
    let (mut text, mut described) = (String::new(), Vec::new());
    for word in &words {
        // Whether the named cases exist depends on the machine: the stored results decide that.
        for entry in super::metrics_named(vec![word.name.clone()])? {
            let results = latest_results(entry, word, arguments, width)?;
            let mut fields = super::list::as_json(entry);
            fields["results"] = serde_json::to_value(&results.records)?;
            described.push(fields);
            let about = entry.about();
            text += &format!("{}  {} [{}]\n", about.id, about.title, about.unit.symbol());
            text += &results.answer;
            let topic = super::list::topic_of(about.id);
            text += &topic
                .map_or(String::new(), |it| paragraph(it, width, "  see also   ", &" ".repeat(13)));
            text += &description(entry, width);
            text += &results.accounts;
        }
    }
    super::print_list(arguments.json, "metrics", &described, |_| text)
}

fn description(entry: &Entry, width: usize) -> String {
    let about = entry.about();
    let mut text = String::new();
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
    let priced = fathom_bench::priced_by(about.id);
    if !priced.is_empty() {
        add("price of", &format!("{} (`fathom bench --cost 'CMD'`)", priced.join("; ")));
    }
    add("requires", about.requires);
    add("published", about.published);
    let limit = 100.0 * about.noise_limit;
    add("noisy", &format!("spread above ± {limit:.0} % that no counter explains"));
    text
}

/// What a metric's latest results are, and how they were obtained.
#[derive(Default)]
struct LatestResults {
    answer: String,
    accounts: String,
    records: Vec<Record>,
}

/// The results of `--run`, or the newest of each case on the default host; if there are none, the
/// command that measures them.
fn latest_results(
    entry: &Entry,
    word: &CaseSelector,
    arguments: &ExplainArguments,
    width: usize,
) -> anyhow::Result<LatestResults> {
    let about = entry.about();
    let without_results = |accounts: String| {
        if word.has_parameters() {
            super::check_cases_exist(word)?;
        }
        Ok(LatestResults { accounts, ..LatestResults::default() })
    };
    let command = crate::remedy::measuring(word, about.id);
    let without = |what: &str| {
        let text = format!("{what}; `{command}` measures it");
        format!("\n{}\n", paragraph(&text, width, "", "  "))
    };
    let none = without("no stored result");
    let is_named = arguments.store.store.is_some();
    let place = stored_run::place(&arguments.store)?;
    let is_missing = place.file().is_some_and(|path| !path.exists());
    if !is_named && arguments.run.is_none() && is_missing {
        return without_results(none);
    }
    let store = stored_run::open_store(&arguments.store)?;
    let named = arguments.run.as_ref().map(|run| stored_run::find(&store, run)).transpose()?;
    // The newest run first; each has the cases that no newer one has.
    let mut runs: Vec<String> = named.iter().cloned().collect();
    if named.is_none() {
        let host = stored_run::default_host(&store)?;
        let all = CaseSearch::on_host(&host);
        // What was interrupted, or failed, explains less than any whole number.
        let mut cases = store.newest_cases([about.id], all)?;
        cases.extend(store.newest_cases([about.id], all.whole())?);
        runs.extend(cases.into_iter().rev().filter(|it| word.selects(&it.params)).map(|it| it.run));
        runs.dedup();
        // Each run of a command by hand is about another subject.
        runs.truncate(if matches!(entry, Entry::ByHand(_)) { 1 } else { runs.len() });
    }
    let mut found = LatestResults::default();
    for run in runs {
        let document = stored_run::of_store(&store, &run, false)?;
        let of_metric =
            |record: &&Record| record.metric.as_str() == about.id && word.selects(&record.params);
        let is_new =
            |record: &&Record| found.records.iter().all(|known| known.params != record.params);
        let records = document.records.iter().filter(of_metric).filter(is_new);
        let records: Vec<Record> = records.cloned().collect();
        if !records.is_empty() {
            let protocol = document.run.protocol;
            let layout = Layout { width, protocol, all: arguments.all, ..Layout::default() };
            let results = accounts(&records, &document, &layout);
            if found.answer.is_empty() {
                found.answer = fathom_report::answer(&records, &document, width);
            }
            found.accounts += &format!("\nin run {run} of {}:\n{results}\n", document.run.started);
        }
        found.records.extend(records);
    }
    match (found.accounts.is_empty(), named) {
        (false, _) => Ok(found),
        (true, None) => without_results(none),
        (true, Some(run)) => without_results(without(&format!("run {run} has no result of it"))),
    }
}
