//! One file per command, and what turns their outcome into an exit status.

mod by_hand;
mod compare;
mod completions;
mod crosscheck;
mod disk_folder;
mod doctor;
mod documents;
mod explain;
mod export;
mod history;
mod import;
mod keeping;
mod list;
mod made;
mod man;
mod reference;
mod report;
mod run;
mod show;
mod start;
mod stored;

use std::process::ExitCode;

use fathom_engine::{CaseSelector, Plan, PlanError};
use fathom_measure::host;
use fathom_metric::Entry;
use fathom_probes::REGISTRY;
use fathom_record::{Effort, Protocol};
use fathom_report::Layout;

use crate::arguments::{Arguments, Command};
use crate::exit::{OrUsage, Status, Usage};
use crate::{remedy, terminal};

/// Does what the command line says.
pub fn main(arguments: Arguments) -> ExitCode {
    let outcome = match &arguments.command {
        Command::Run(run) => run::run(run),
        Command::Doctor(doctor) => doctor::doctor(doctor),
        Command::File(file) => by_hand::by_hand(file),
        Command::List(list) => list::list(list),
        Command::Explain(explain) => explain::explain(explain),
        Command::Show(show) => show::show(show),
        Command::Crosscheck(crosscheck) => crosscheck::crosscheck(crosscheck),
        Command::Compare(compare) => compare::compare(compare),
        Command::Report(report) => report::report(report),
        Command::History(history) => history::history(history),
        Command::Export(export) => export::export(export),
        Command::Import(import) => import::import(import),
        Command::Completions(completions) => completions::completions(completions),
        Command::Man(man) => man::man(man),
        Command::Worker => {
            fathom_engine::worker::serve(&fathom_probes::REGISTRY).map(|()| Status::Done)
        }
    };
    match outcome {
        Ok(status) => status.into(),
        Err(error) => {
            let remedy = error.chain().find_map(remedy::of);
            let remedy = remedy.map_or(String::new(), |remedy| format!("; {remedy}"));
            terminal::warn(&format!("{error:#}{remedy}"));
            // Bad input has a status of its own, so that scripts can tell it from a failure.
            if error.is::<Usage>() { ExitCode::from(2) } else { Status::Failed.into() }
        }
    }
}

/// Prints what a command found, as JSON or laid out for the terminal.
fn print(
    json: bool,
    found: &impl serde::Serialize,
    text: impl FnOnce(&Layout) -> String,
) -> anyhow::Result<Status> {
    print_text(&match json {
        true => fathom_report::json(found),
        false => text(&Layout { width: terminal::width(), ..Layout::default() }),
    })
}

/// Prints a text.
fn print_text(text: &str) -> anyhow::Result<Status> {
    let mut output = terminal::Output::new();
    output.write(text);
    printed(&output)
}

/// The status of a command that only printed.
fn printed(output: &terminal::Output) -> anyhow::Result<Status> {
    match output.failure() {
        Some(error) => anyhow::bail!("write to standard output: {error}"),
        None if output.is_closed() => Ok(Status::OutputClosed),
        None => Ok(Status::Done),
    }
}

/// Whether there are such cases at all, where no kept run has them: as `fathom run` says it.
fn may_be_asked(word: &CaseSelector, entry: &Entry) -> Result<(), Usage> {
    let (effort, protocol) = (Effort::Thorough, Protocol::Median);
    match Plan::new(&REGISTRY, vec![word.text.clone()], effort, protocol, 0, &host::read()) {
        // What has a command of its own has the cases that one asks it for.
        Err(PlanError::NoSuchCase { .. }) if matches!(entry, Entry::ByHand(_)) => Ok(()),
        checked => checked.map(drop).or_usage(),
    }
}
