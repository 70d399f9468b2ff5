//! `fathom crosscheck`: other programs on the same work, in turn with this one.

mod chosen;
mod files;
mod list;
mod ours;
mod turns;
mod view;

use fathom_measure::host;
use fathom_measure::sampler::Missing;
use fathom_peers::{
    Invocation, Machine, On, Ours, Peer, Row, RunError, Runner, is_there, version_in,
};
use fathom_record::crosscheck::CROSSCHECK_SCHEMA_VERSION;
use fathom_record::{CrossOutcome, CrossRow, Crosscheck, Host, MetricId};

use super::disk_folder::in_full;
use super::start;
use crate::arguments::crosscheck::CrosscheckArguments;
use crate::exit::Status;
use crate::interrupt::Interrupt;
use crate::live::timestamp;
use chosen::{Chosen, chosen};
use fathom_engine::worker::Workers;
use turns::Bench;
use view::View;

/// So long a program may take to tell its version.
const TELLING_NS: u64 = 5_000_000_000;

pub(super) fn crosscheck(arguments: &CrosscheckArguments) -> anyhow::Result<Status> {
    let interrupt = Interrupt::listen()?;
    let host = host::read();
    start::check_environment(&host)?;
    let (cpu, _) = super::run::choose_cpu(arguments.cpu, &host)?;
    let all = chosen(&arguments.words, &Machine { host: &host, cpu })?;
    let mut bench = Bench {
        interrupt: &interrupt,
        program: Workers::of_this_program()?.program,
        cpu,
        allowed: host.cpu.allowed.clone(),
        limit_ns: u64::from(arguments.limit) * 1_000_000_000,
        allow_memory: arguments.allow_memory,
        pairs: arguments.pairs,
        place: Err(Missing { reason: "no files are needed".to_owned(), remedy: None }),
    };
    let missing: Result<Vec<_>, RunError> = all.iter().map(|it| missing(it.peer, &bench)).collect();
    let Ok(missing) = missing else { return Ok(Status::Interrupted) };
    if arguments.list {
        return list::list(arguments, &all, &missing);
    }
    let mut view = View::new(arguments);
    let there = || all.iter().zip(&missing).filter(|(_, missing)| missing.is_none());
    let rows: Vec<&Row> = there().flat_map(|(chosen, _)| &chosen.rows).collect();
    let files = files::prepare(arguments, &rows, &interrupt)?;
    bench.place = files.files.clone();
    view.begins(&announcement(&rows, &bench, files.said.as_deref()), !rows.is_empty());
    let mut document = begun(arguments, host, cpu);
    document.interrupted = interrupt.arrived();
    for (Chosen { peer, rows }, missing) in all.iter().zip(missing) {
        let package = missing.unwrap_or_else(|| peer.package());
        if document.interrupted || view.has_left() {
            break;
        }
        let version = if missing.is_none() { version(*peer, &bench) } else { None };
        let made = if missing.is_none() { made(*peer, rows, &bench) } else { Ok(()) };
        for row in rows {
            let mut taken = begun_row(*peer, package, version.clone(), row, &bench);
            match (missing, &made) {
                (Some(_), _) => taken.outcome = CrossOutcome::Missing,
                (None, Err(why)) => fail(&mut taken, why.clone()),
                (None, Ok(())) => bench.take(row, &mut taken, |pair| view.pair(row, *peer, pair)),
            }
            view.row(&taken);
            document.interrupted |= taken.outcome == CrossOutcome::Interrupted;
            document.rows.push(taken);
            if document.interrupted || view.has_left() {
                break;
            }
        }
    }
    // Before the last word: nothing is left by then.
    drop(files);
    view.ends(&document)
}

fn begun(arguments: &CrosscheckArguments, host: Host, cpu: u32) -> Crosscheck {
    Crosscheck {
        schema: CROSSCHECK_SCHEMA_VERSION,
        tool: start::tool(),
        started: timestamp(),
        host,
        cpu,
        pairs: arguments.pairs,
        interrupted: false,
        rows: Vec::new(),
    }
}

/// A row before its first pair.
fn begun_row(
    peer: &dyn Peer,
    package: &str,
    version: Option<String>,
    row: &Row,
    bench: &Bench<'_>,
) -> CrossRow {
    let pinned = |on| match on {
        On::One => format!("taskset -c {} ", bench.cpu),
        On::All => String::new(),
    };
    // `fathom run` pins its workers itself.
    let our_pin = match row.ours {
        Ours::Run => String::new(),
        Ours::File(_) => pinned(row.on),
    };
    let our_command = Invocation { program: "fathom".to_owned(), ..bench.our_command(row) };
    let commands = bench.peer_commands(row);
    CrossRow {
        peer: peer.name().to_owned(),
        package: package.to_owned(),
        version,
        work: row.work.to_owned(),
        difference: row.difference.to_owned(),
        cpus: bench.cpus(row.on),
        our_command: format!("{our_pin}{our_command}"),
        peer_commands: commands.iter().map(|it| format!("{}{it}", pinned(row.on))).collect(),
        ..CrossRow::of(MetricId::new(row.metric), row.params.clone(), row.unit, row.tells)
    }
}

fn fail(row: &mut CrossRow, trouble: RunError) {
    match trouble {
        RunError::Stopped => row.outcome = CrossOutcome::Interrupted,
        RunError::Failed(why) => {
            row.outcome = CrossOutcome::Failed;
            row.reason = Some(why);
        }
    }
}

/// The package to install for a peer that is not here.
fn missing(peer: &dyn Peer, bench: &Bench<'_>) -> Result<Option<&'static str>, RunError> {
    if !is_there(peer.program()) {
        return Ok(Some(peer.package()));
    }
    let Some((look, package)) = peer.library() else { return Ok(None) };
    match bench.runs(&look, On::All) {
        Ok(_) => Ok(None),
        Err(RunError::Failed(_)) => Ok(Some(package)),
        Err(RunError::Stopped) => Err(RunError::Stopped),
    }
}

/// What a peer says of its version, if anything.
fn version(peer: &dyn Peer, bench: &Bench<'_>) -> Option<String> {
    let stop = std::os::fd::AsFd::as_fd(bench.interrupt);
    let runner = Runner { stop, limit_ns: TELLING_NS, cpus: bench.allowed.clone() };
    let said = runner.run(&peer.version()).ok()?;
    version_in(&said.out).or_else(|| version_in(&said.err))
}

/// Makes what is measured, where a peer is made here.
fn made(peer: &dyn Peer, rows: &[Row], bench: &Bench<'_>) -> Result<(), RunError> {
    let place = match &bench.place {
        Ok(place) => place,
        Err(why) if rows.iter().any(Row::needs_files) => {
            return Err(RunError::Failed(in_full(why)));
        }
        Err(_) => return Ok(()),
    };
    match peer.made_by(place) {
        Some(maker) => bench.runs(&maker, On::All).map(drop),
        None => Ok(()),
    }
}

/// What will be done, how long it takes and what is written, before any of it.
fn announcement(rows: &[&Row], bench: &Bench<'_>, files: Option<&str>) -> String {
    if rows.is_empty() {
        return "None of the programs is installed: nothing is measured.".to_owned();
    }
    let pairs = bench.pairs;
    let seconds: f64 = rows.iter().map(|row| row.seconds * f64::from(pairs)).sum();
    let counted = |count: usize, noun: &str| match count {
        1 => format!("1 {noun}"),
        _ => format!("{count} {noun}s"),
    };
    let time = format!("about {:.0} s", seconds.ceil());
    let pairs = counted(pairs as usize, "pair");
    let mut text =
        format!("{}, {pairs} each in turn (A B, B A …): {time}.", counted(rows.len(), "row"));
    if let Some(said) = files {
        text += &format!(" {said}");
    }
    text
}
