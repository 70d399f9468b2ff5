//! `fathom crosscheck`: other programs on the same work, alternating with this one.

mod fathom_side;
mod files;
mod list;
mod pairs;
mod selection;
mod view;

use fathom_measure::host;
use fathom_measure::sampler::ResourceMissing;
use fathom_peers::{
    Invocation, On, Ours, Peer, PeerMachine, Row, RunError, Runner, free_port, is_there, version_in,
};
use fathom_record::crosscheck::CROSSCHECK_SCHEMA_VERSION;
use fathom_record::{CrossOutcome, CrossRow, Crosscheck, Host, MetricId};

use super::scratch_folder::missing_text;
use super::{counted, setup};
use crate::arguments::crosscheck::CrosscheckArguments;
use crate::exit::Status;
use crate::interrupt::Interrupt;
use crate::live::timestamp;
use fathom_engine::worker::Workers;
use pairs::PairBench;
use selection::{Selection, select};
use view::CrosscheckView;

/// The time limit of `--version`.
const VERSION_LIMIT_NS: u64 = 5_000_000_000;

pub(super) fn crosscheck(arguments: &CrosscheckArguments) -> anyhow::Result<Status> {
    let interrupt = Interrupt::listen()?;
    let host = host::read();
    setup::check_environment(&host)?;
    let (cpu, _) = super::run::choose_cpu(arguments.cpu, &host)?;
    let machine = PeerMachine { host: &host, cpu };
    let all = select(&arguments.words, &machine)?;
    let mut bench = PairBench {
        interrupt: &interrupt,
        program: Workers::of_this_program()?.program,
        cpu,
        other_cpu: machine.other_cpu(),
        // Without a port a server fails, and its row says why.
        port: free_port().unwrap_or(0),
        allowed: host.cpu.allowed.clone(),
        limit_ns: u64::from(arguments.limit) * 1_000_000_000,
        allow_memory: arguments.allow_memory,
        pairs: arguments.pairs,
        place: Err(ResourceMissing { reason: "no files are needed".to_owned(), remedy: None }),
    };
    let missing: Result<Vec<_>, RunError> = all.iter().map(|it| missing(it.peer, &bench)).collect();
    let Ok(missing) = missing else { return Ok(Status::Interrupted) };
    if arguments.list {
        return list::list(arguments, &all, &missing);
    }
    let mut view = CrosscheckView::new(arguments);
    let installed = || all.iter().zip(&missing).filter(|(_, missing)| missing.is_none());
    let to_run: Vec<&Row> = installed().flat_map(|(one, _)| &one.rows).collect();
    let files = files::prepare(arguments, &to_run, &interrupt)?;
    bench.place = files.files.clone();
    let announcement = announcement(&to_run, &bench, files.announcement.as_deref());
    view.print_opening(&announcement, !to_run.is_empty());
    let mut document = empty_document(arguments, host, cpu);
    document.interrupted = interrupt.arrived();
    for (Selection { peer, rows }, missing) in all.iter().zip(missing) {
        let package = missing.unwrap_or_else(|| peer.package());
        if document.interrupted || view.is_closed() {
            break;
        }
        let version = if missing.is_none() { version(*peer, &bench) } else { None };
        let built = if missing.is_none() { build(*peer, rows, &bench) } else { Ok(()) };
        for row in rows {
            let mut result = empty_row(*peer, package, version.clone(), row, &bench);
            match (missing, &built) {
                (Some(_), _) => result.outcome = CrossOutcome::Missing,
                (None, Err(error)) => fail(&mut result, error.clone()),
                (None, Ok(())) => bench.run(row, &mut result, |pair| view.pair(row, *peer, pair)),
            }
            view.row(&result);
            document.interrupted |= result.outcome == CrossOutcome::Interrupted;
            document.rows.push(result);
            if document.interrupted || view.is_closed() {
                break;
            }
        }
    }
    // Test files are removed before the closing lines are printed.
    drop(files);
    view.finish(&document)
}

fn empty_document(arguments: &CrosscheckArguments, host: Host, cpu: u32) -> Crosscheck {
    Crosscheck {
        schema: CROSSCHECK_SCHEMA_VERSION,
        tool: setup::tool(),
        started: timestamp(),
        host,
        cpu,
        pairs: arguments.pairs,
        interrupted: false,
        rows: Vec::new(),
    }
}

fn empty_row(
    peer: &dyn Peer,
    package: &str,
    version: Option<String>,
    row: &Row,
    bench: &PairBench<'_>,
) -> CrossRow {
    // `fathom run` pins its workers itself.
    let our_pin = match (row.ours, row.on) {
        (Ours::File(_), On::One) | (Ours::Load(_), _) => format!("taskset -c {} ", bench.cpu),
        _ => String::new(),
    };
    let our_command =
        Invocation { program: "fathom".to_owned(), ..bench.our_command(row, bench.port) };
    CrossRow {
        peer: peer.name().to_owned(),
        package: package.to_owned(),
        version,
        work: row.work.to_owned(),
        difference: row.difference.to_owned(),
        cpus: bench.cpus(row.on),
        our_command: format!("{our_pin}{our_command}"),
        peer_commands: bench.shell_lines(row),
        ..CrossRow::for_metric(
            MetricId::new(row.metric),
            row.shown_params(),
            row.unit,
            row.statistic,
        )
    }
}

fn fail(row: &mut CrossRow, error: RunError) {
    match error {
        RunError::Stopped => row.outcome = CrossOutcome::Interrupted,
        RunError::Failed(why) => {
            row.outcome = CrossOutcome::Failed;
            row.reason = Some(why);
        }
    }
}

/// The package to install for a missing peer.
fn missing(peer: &dyn Peer, bench: &PairBench<'_>) -> Result<Option<&'static str>, RunError> {
    if !is_there(peer.program()) {
        return Ok(Some(peer.package()));
    }
    let Some((check, package)) = peer.library() else { return Ok(None) };
    match bench.execute(&check, On::All) {
        Ok(_) => Ok(None),
        Err(RunError::Failed(_)) => Ok(Some(package)),
        Err(RunError::Stopped) => Err(RunError::Stopped),
    }
}

fn version(peer: &dyn Peer, bench: &PairBench<'_>) -> Option<String> {
    let stop = std::os::fd::AsFd::as_fd(bench.interrupt);
    let runner = Runner { stop, limit_ns: VERSION_LIMIT_NS, cpus: bench.allowed.clone() };
    let output = runner.run(&peer.version()).ok()?;
    version_in(&output.out).or_else(|| version_in(&output.err))
}

/// Compiles a peer that is a library.
fn build(peer: &dyn Peer, rows: &[Row], bench: &PairBench<'_>) -> Result<(), RunError> {
    let place = match &bench.place {
        Ok(place) => place,
        Err(why) if rows.iter().any(Row::needs_files) => {
            return Err(RunError::Failed(missing_text(why)));
        }
        Err(_) => return Ok(()),
    };
    match peer.made_by(place) {
        Some(compiler) => bench.execute(&compiler, On::All).map(drop),
        None => Ok(()),
    }
}

/// What will run, how long it takes and what is written.
fn announcement(rows: &[&Row], bench: &PairBench<'_>, files: Option<&str>) -> String {
    if rows.is_empty() {
        return "None of the programs is installed: nothing is measured.".to_owned();
    }
    let seconds: f64 = rows.iter().map(|row| row.seconds * f64::from(bench.pairs)).sum();
    let (rows, pairs) = (counted(rows.len(), "row"), counted(bench.pairs as usize, "pair"));
    let files = files.map_or(String::new(), |files| format!(" {files}"));
    format!("{rows}, {pairs} each (A B, B A …): about {:.0} s.{files}", seconds.ceil())
}
