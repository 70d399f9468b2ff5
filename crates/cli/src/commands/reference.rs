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

/// The command that measures a published case on this host, or on a far one. What it measures fills
/// the row: the case is in its plan, or its options are those of the case.
fn command_of(study: &StudyReference, published: &Published) -> Option<String> {
    let (metric, params) = (published.metric.as_str(), &published.params);
    let number = |name: &str| params.integer(name);
    Some(match (metric, REGISTRY.command_of(metric)) {
        ("file.read.throughput", _) => sweep(study, published)?,
        ("file.write.throughput", _) => {
            // Any block is the same work where the study does not state one.
            let (bytes, block) = (number("file_bytes")?, number("block").unwrap_or(1 << 20));
            let sync = params.text("sync").map_or(String::new(), |it| format!(" --sync {it}"));
            format!("fathom file write FILE --block {block} --count {}{sync}", bytes / block)
        }
        ("file.reasonable_size", _) => {
            let [from, to] = [number("from_ms")?, number("to_ms")?];
            format!("fathom file size --block {} --between {from}ms..{to}ms", number("block")?)
        }
        ("transfer.time", _) => "fathom transfer --published".to_owned(),
        (_, Some(command)) if command.path == "load" => {
            "fathom load http://HOST:8080/ --cases think0,think1,fixed --clients 1..10".to_owned()
        }
        (_, Some(command)) => command.line(),
        (_, None) => {
            REGISTRY.find(metric)?;
            let mut params = params.clone();
            let remote = params.text("to") == Some("remote");
            if remote {
                params.0.remove("to");
            }
            let case = format!("{metric}{params}");
            let case = if params.is_empty() { case } else { format!("'{case}'") };
            format!("fathom run {case}{}", if remote { " --remote HOST" } else { "" })
        }
    })
}

/// One sweep over all that a study has of a file.
fn sweep(study: &StudyReference, published: &Published) -> Option<String> {
    let of_file = |it: &Published| {
        let params = &it.params;
        (it.metric.clone(), params.integer("file_bytes"), params.integer("threads"))
    };
    let (_, bytes, threads) = of_file(published);
    let alike = || study.record.iter().filter(|it| of_file(it) == of_file(published));
    let blocks: BTreeSet<i64> = alike().filter_map(|it| it.params.integer("block")).collect();
    let blocks: Vec<String> = blocks.iter().map(i64::to_string).collect();
    let states: BTreeSet<&str> = alike().filter_map(|it| it.params.text("state")).collect();
    let states = if states.is_empty() { ["cold", "warm"].into() } else { states };
    let states = Vec::from_iter(states).join(",");
    let threads = threads.map_or(String::new(), |it| format!(" --threads {it}"));
    let blocks = blocks.join(",");
    let (bytes, of) = (bytes?, "fathom file sweep --sizes");
    Some(format!("{of} {bytes} --blocks {blocks} --state {states}{threads}"))
}

/// `fathom compare --reference`: runs beside a study.
pub(super) fn compare(name: &str, arguments: &CompareArguments) -> anyhow::Result<Status> {
    if name.is_empty() {
        return list();
    }
    let study = find("compare", name)?;
    let beside = beside(&study, &arguments.runs, &arguments.store)?;
    let options = ReferenceOptions { published: true, ..ReferenceOptions::default() };
    let command_of = |published: &Published| command_of(&study, published);
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
    let command_of = |published: &Published| command_of(&reference, published);
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
    // Under other limits it is a smaller machine.
    let is_alike = |other: &Document| other.host.cgroup.has_limits_of(&latest.host.cgroup);
    let others = others.into_iter().rev().filter(|other| other.run.id != id && is_alike(other));
    let others: Vec<Document> = others.collect();
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
    use fathom_load::LoadOptions;
    use fathom_record::{ParamValue, Params};
    use fathom_transfer::TransferOptions;

    use super::*;
    use crate::arguments::{Arguments, Subcommands};
    use crate::commands::refusal_of_plan;

    /// Each word of a command as the shell passes it, with a placeholder as a user fills it in.
    fn words(command: &str) -> Vec<String> {
        command.split(' ').map(|it| it.trim_matches('\'').replace("HOST", "localhost")).collect()
    }

    #[test]
    fn every_printed_command_fills_its_row() {
        for study in published::all() {
            let of_this_version =
                |it: &&Published| it.unlike.is_none() && !study.not_measured.contains(&it.metric);
            for published in study.record.iter().filter(of_this_version) {
                let command = command_of(&study, published).expect("a metric of the registry");
                let words = words(&command);
                let arguments = Arguments::try_parse_from(&words).expect(&command);
                assert_eq!(refusal_of_plan(&arguments), None, "{command}");
                assert!(fills(&arguments, &words, published), "{command}: {published:?}");
            }
        }
    }

    /// Whether the plan has the case, or the options of a command by hand are those of the case.
    fn fills(arguments: &Arguments, words: &[String], published: &Published) -> bool {
        if let Subcommands::Run(run) = &arguments.command {
            let plan = super::super::run::plan(run, &fathom_measure::host::read()).expect("a plan");
            let plan = if run.remote.is_some() { plan.and_remote("far") } else { Ok(plan) };
            let units = plan.expect("a plan").units.into_iter();
            let mut of_metric =
                units.filter(|it| !it.needed && it.entry.about().id == published.metric.as_str());
            return of_metric.any(|unit| {
                unit.cases.iter().any(|it| published.is_like(&published.metric, &it.params))
            });
        }
        let is_of = |params: &Params| {
            let mut own = published.params.0.iter().filter(|(name, _)| *name != "of");
            own.all(|(name, value)| params.0.get(name) == Some(value))
        };
        if words[1] == "transfer" {
            let options = TransferOptions::try_parse_from(&words[1..]).expect("a transfer");
            let cells = options.cells(0, 1, 1, [false; 2]);
            let sets = ["small", "file", "video"];
            return cells.iter().any(|it| sets.iter().any(|set| is_of(&it.params(set, true))));
        }
        if words[1] == "load" {
            let options = LoadOptions::try_parse_from(&words[1..]).expect("a load");
            return options.all_cases().iter().any(|case| {
                let think_s = case.think.as_secs() as i64;
                let params = Params::one("mode", case.choice.word()).and("think_s", think_s);
                let of = |clients: u32| params.clone().and("clients", i64::from(clients));
                options.closed().into_iter().map(of).any(|it| is_of(&it))
            });
        }
        let has = |value: &str| words.iter().any(|word| word.split(',').any(|it| it == value));
        let option = |name: &str| Some(words.iter().skip_while(|it| *it != name).nth(1)?.as_str());
        let is_given = |(name, value): (&String, &ParamValue)| match (name.as_str(), value) {
            // Of a file that is named, or made of so many blocks.
            ("file_bytes", ParamValue::Integer(bytes)) => {
                let of = |name: &str| option(name)?.parse::<i64>().ok();
                match of("--block").zip(of("--count")) {
                    Some((block, count)) => block * count == *bytes,
                    None => words.iter().any(|it| it == "FILE") || has(&bytes.to_string()),
                }
            }
            ("block" | "threads", value) => has(&value.to_string()),
            // What it finds, or always does.
            ("state" | "files", _) if ["fast", "contend"].contains(&words[2].as_str()) => true,
            ("state" | "sync", ParamValue::Text(text)) => has(text),
            ("from_ms", value) => has_window(words, |it| it.0 == format!("{value}ms")),
            ("to_ms", value) => has_window(words, |it| it.1 == format!("{value}ms")),
            _ => false,
        };
        published.params.0.iter().all(is_given)
    }

    fn has_window(words: &[String], is: impl Fn((&str, &str)) -> bool) -> bool {
        words.iter().filter_map(|word| word.split_once("..")).any(is)
    }

    #[test]
    fn figures_of_one_file_are_one_sweep() {
        let study = find("compare", "2022-files-a").expect("the study");
        let commands: BTreeSet<String> =
            study.record.iter().filter_map(|it| command_of(&study, it)).collect();
        let sweeps = commands.iter().filter(|it| it.starts_with("fathom file sweep "));
        assert_eq!(sweeps.count(), 10, "{commands:?}");
        let of_141_mb = "fathom file sweep --sizes 141351112 --blocks \
                         2000,4096,8000,20000,40000,80000 --state cold,warm --threads 4";
        assert!(commands.contains(of_141_mb), "{commands:?}");
    }
}
