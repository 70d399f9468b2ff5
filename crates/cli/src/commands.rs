//! One file per command, and the mapping of their results to exit statuses.

mod as_member;
mod bisect;
mod by_hand;
mod check;
mod compare;
mod completions;
mod crosscheck;
mod doctor;
mod documents;
mod explain;
mod export;
mod fleet;
mod group;
mod history;
mod import;
mod limits;
mod list;
mod man;
mod output_file;
mod reference;
mod report;
mod run;
mod run_store;
mod scratch_folder;
mod serve;
mod setup;
mod show;
mod spool;
mod store;
mod stored_run;
mod trends;
mod typical;
mod ui;

use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Mutex, OnceLock};

use anstream::ColorChoice;
use fathom_engine::{CaseSelector, Plan};
use fathom_measure::host;
use fathom_metric::Entry;
use fathom_probes::REGISTRY;
use fathom_record::quantity::counted;
use fathom_record::{Effort, Host, Protocol, Tool};
use fathom_report::Layout;
use rustix::process::{Resource, getrlimit};

use crate::arguments::fleet::FleetCommand;
use crate::arguments::{Arguments, ColorName, EXIT_STATUS, OutputFile, RUN_NAMES, Subcommands};
use crate::exit::{OrUsage, Status, UsageError, is_usage};
use crate::{remedy, terminal};

/// The answer of `fathom check` to an error that was reported.
pub fn unknown_health(why: &str) -> ExitCode {
    let _ = print_text(&format!("FATHOM UNKNOWN - {why}\n"));
    Status::Health(3).into()
}

/// Why a command line that parses is refused on any machine.
#[cfg(test)]
pub(crate) fn refusal_of_plan(arguments: &Arguments) -> Option<String> {
    let one = match &arguments.command {
        Subcommands::Run(run) => return run::plan(run, &host::read()).err().map(|it| it.0),
        Subcommands::File(one) => &one.0,
        Subcommands::Load(one) => &one.0,
        Subcommands::Transfer(one) => &one.0,
        Subcommands::Fetch(one) => &one.0,
        Subcommands::Bench(one) => &one.0,
        _ => return None,
    };
    match one.procedure.check() {
        Err(fathom_metric::ProcedureError::Usage(text)) => Some(text),
        _ => None,
    }
}

/// Executes a command.
pub fn main(arguments: Arguments) -> ExitCode {
    match arguments.color {
        ColorName::Auto => ColorChoice::Auto,
        ColorName::Always => ColorChoice::Always,
        ColorName::Never => ColorChoice::Never,
    }
    .write_global();
    terminal::report_panics(
        "this is a defect of fathom: report it with the command line, its files and \
         `fathom --version`",
    );
    let outcome = || {
        check_open_files()
            .and_then(|()| setup::name_host(arguments.host_name.as_deref()))
            .and_then(|()| execute(&arguments.command))
    };
    match std::panic::catch_unwind(AssertUnwindSafe(outcome)) {
        Ok(outcome) => ended(outcome),
        Err(_) if matches!(arguments.command, Subcommands::Check(_)) => {
            unknown_health("a defect of fathom, see standard error")
        }
        // As Rust ends a program.
        Err(_) => ExitCode::from(101),
    }
}

/// Executes `fathom worker`.
pub fn worker() -> ExitCode {
    ended(check_open_files().and_then(|()| serve_worker()))
}

fn serve_worker() -> anyhow::Result<Status> {
    fathom_engine::worker::serve(&REGISTRY).map(|()| Status::Success)
}

fn execute(command: &Subcommands) -> anyhow::Result<Status> {
    if std::env::var_os("FATHOM_PANIC").is_some_and(|it| it == "command") {
        panic!("as FATHOM_PANIC asks\nfor a test");
    }
    if let Err(error) = print_to(output_file_of(command)) {
        // What a monitoring plugin says of itself.
        if matches!(command, Subcommands::Check(_)) {
            return check::unknown(&error);
        }
        return Err(error);
    }
    match command {
        Subcommands::Run(run) => run::run(run),
        Subcommands::Doctor(doctor) => doctor::doctor(doctor),
        Subcommands::File(file) => by_hand::by_hand(&file.0),
        Subcommands::Load(load) => by_hand::by_hand(&load.0),
        Subcommands::Transfer(transfer) => by_hand::by_hand(&transfer.0),
        Subcommands::Bench(bench) => by_hand::by_hand(&bench.0),
        Subcommands::Fetch(fetch) => by_hand::by_hand(&fetch.0),
        Subcommands::Bisect(bisect) => bisect::bisect(bisect),
        Subcommands::List(list) => list::list(list),
        Subcommands::Explain(explain) => explain::explain(explain),
        Subcommands::Show(show) => show::show(show),
        Subcommands::Crosscheck(crosscheck) => crosscheck::crosscheck(crosscheck),
        Subcommands::Compare(compare) => compare::compare(compare),
        Subcommands::Fleet(fleet) => fleet::fleet(&fleet.command),
        Subcommands::Report(report) => report::report(report),
        Subcommands::Ui(ui) => ui::ui(ui),
        Subcommands::Serve(serve) => serve::serve(serve),
        Subcommands::History(history) => history::history(history),
        Subcommands::Check(check) => check::check(check),
        Subcommands::Export(export) => export::export(export),
        Subcommands::Import(import) => import::import(import),
        Subcommands::Store(arguments) => store::store(arguments),
        Subcommands::Completions(completions) => completions::completions(completions),
        Subcommands::Man(man) => man::man(man),
        Subcommands::RunNames => print_text(&format!("{RUN_NAMES}\n")),
        Subcommands::ExitStatus => print_text(&format!("{EXIT_STATUS}\n")),
        Subcommands::Worker => serve_worker(),
        Subcommands::Far => fathom_far::serve().map(|()| Status::Success).map_err(Into::into),
    }
}

/// With too few, each command would fail at another place, or take facts of the host for missing.
fn check_open_files() -> anyhow::Result<()> {
    const LEAST: u64 = 32;
    match getrlimit(Resource::Nofile).current {
        Some(limit) if limit < LEAST => anyhow::bail!(
            "open files are limited to {limit} (ulimit -n), at least {LEAST} are needed: \
             ulimit -n 1024"
        ),
        _ => Ok(()),
    }
}

/// The exit status; an error is printed.
fn ended(outcome: anyhow::Result<Status>) -> ExitCode {
    match outcome {
        Ok(status) => status.into(),
        Err(error) => {
            terminal::warn(&remedy::line(&error));
            // Scripts must be able to distinguish a usage error from a failure.
            if is_usage(&error) { ExitCode::from(2) } else { Status::Failed.into() }
        }
    }
}

/// A printed object: the version of its form, the program that wrote it, and its own fields.
#[derive(serde::Serialize)]
struct PrintedObject<'r, R: serde::Serialize> {
    schema: u32,
    tool: Tool,
    #[serde(flatten)]
    result: &'r R,
}

/// Versions of the forms that have no schema of their own.
const PRINTED_SCHEMA: u32 = 1;

/// Prints a result, an object as JSON or laid out for the terminal.
fn print(
    json: bool,
    result: &impl serde::Serialize,
    text: impl FnOnce(&Layout) -> String,
) -> anyhow::Result<Status> {
    print_text(&match json {
        true => fathom_report::json(&PrintedObject {
            schema: PRINTED_SCHEMA,
            // Nothing here depends on how it was built.
            tool: Tool { compiler: None, ..setup::tool() },
            result,
        }),
        false => text(&Layout { width: terminal::width(), ..Layout::default() }),
    })
}

/// Prints a list, in JSON as the field `name` of an object.
fn print_list(
    json: bool,
    name: &str,
    list: &impl serde::Serialize,
    text: impl FnOnce(&Layout) -> String,
) -> anyhow::Result<Status> {
    print(json, &std::collections::BTreeMap::from([(name, list)]), text)
}

/// Where a command prints, if it has no own files.
fn output_file_of(command: &Subcommands) -> Option<&OutputFile> {
    match command {
        Subcommands::List(list) => Some(&list.file),
        Subcommands::Explain(explain) => Some(&explain.file),
        Subcommands::Show(show) => Some(&show.file),
        Subcommands::Compare(compare) => Some(&compare.file),
        Subcommands::History(history) => Some(&history.file),
        Subcommands::Check(check) => Some(&check.file),
        Subcommands::Fleet(fleet) => match &fleet.command {
            FleetCommand::Judge(judge) => Some(&judge.file),
            _ => None,
        },
        _ => None,
    }
}

/// The file of `-o` of a command that prints, and what it has printed.
static WRITTEN: OnceLock<(PathBuf, Mutex<String>)> = OnceLock::new();

/// Lets a command print to a file, if one is named.
fn print_to(file: Option<&OutputFile>) -> anyhow::Result<()> {
    const REPLACEABLE: output_file::Replaceable =
        output_file::Replaceable { is_replaceable: |_| false, refusal: "file exists" };
    let Some(OutputFile { output: Some(path), force }) = file else { return Ok(()) };
    if let Some(path) = output_file::check(path, *force, &REPLACEABLE)? {
        WRITTEN.get_or_init(|| (path, Mutex::default()));
    }
    Ok(())
}

fn print_text(text: &str) -> anyhow::Result<Status> {
    if let Some((path, written)) = WRITTEN.get() {
        let mut written = written.lock().expect("one thread prints");
        *written += &anstream::adapter::strip_str(text).to_string();
        output_file::write(path, &*written)?;
        return Ok(Status::Success);
    }
    let mut output = terminal::TerminalOutput::new();
    output.write(text);
    output_status(&output)
}

/// Prints a help text or a version.
pub fn print_help(text: &str) -> ExitCode {
    ended(print_text(text))
}

/// Says what a command has done, which a closed standard output does not change.
fn print_done(text: &str) -> anyhow::Result<Status> {
    if terminal::was_closed() { Ok(Status::Success) } else { print_text(text) }
}

/// The status of a command that only prints.
fn output_status(output: &terminal::TerminalOutput) -> anyhow::Result<Status> {
    match output.error() {
        Some(cause) => anyhow::bail!("write to standard output: {cause}"),
        None if output.is_closed() => Ok(Status::OutputClosed),
        None => Ok(Status::Success),
    }
}

/// A selector, or the label of a row of the overview for the metric of that row.
fn selector(text: &str) -> Result<CaseSelector, UsageError> {
    CaseSelector::parse(fathom_report::metric_of_label(text).unwrap_or(text)).or_usage()
}

/// Selectors, where labels of the overview are replaced by their metrics.
fn named(texts: &[String]) -> Vec<String> {
    let metric = |text: &String| fathom_report::metric_of_label(text).unwrap_or(text).to_owned();
    texts.iter().map(metric).collect()
}

/// The registry's metrics under some names, without regard to this machine.
fn metrics_named(names: Vec<String>) -> Result<Vec<&'static Entry>, UsageError> {
    // Some metrics have no case at quick effort.
    let (effort, protocol) = (Effort::Thorough, Protocol::Median);
    let plan = Plan::new(&REGISTRY, names, effort, protocol, 0, &Host::default()).or_usage()?;
    Ok(plan.metrics(false))
}

/// Checks that a metric has the named cases although no stored run has them, as `fathom run` does.
fn check_cases_exist(word: &CaseSelector) -> Result<(), UsageError> {
    let (effort, protocol) = (Effort::Thorough, Protocol::Median);
    let plan = Plan::new(&REGISTRY, vec![word.text.clone()], effort, protocol, 0, &host::read());
    plan.map(drop).or_usage()
}
