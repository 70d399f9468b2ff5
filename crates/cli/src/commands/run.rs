//! `fathom run`: measures this machine.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use fathom_measure::clock::{self, Watch};
use fathom_measure::condition::RUN_MARK;
use fathom_measure::sampler::Resources;
use fathom_measure::{affinity, host};
use fathom_probes::REGISTRY;
use fathom_record::{Document, Effort, Host, Reference, RunState};
use fathom_store::Store;

use super::keeping::Keeping;
use super::{start, stored};
use crate::arguments::RunArguments;
use crate::exit::{OrUsage, Status, refuse};
use crate::interrupt::Interrupt;
use crate::live::LiveMachine;
use crate::terminal;
use crate::tune::{self, Tuned};
use fathom_engine::worker::Workers;
use fathom_engine::{InjectedSpin, Plan, RunSetup, coordinate};

mod follower;
mod place;

use follower::Follower;

/// How long the CPUs are watched to find a quiet one. The kernel counts in steps of 10 ms.
const BUSY_WINDOW: Duration = Duration::from_millis(100);
/// What the kernel knows of each CPU.
const CPUS: &str = "/sys/devices/system/cpu";

pub(super) fn run(arguments: &RunArguments) -> anyhow::Result<Status> {
    let begun_ns = clock::monotonic_raw_ns();
    let interrupt = Interrupt::listen().context("listen to signals")?;
    let journal = journal(arguments);
    let recovered = journal.as_deref().and_then(tune::recover);
    recovered.into_iter().for_each(|said| terminal::warn(&said));
    let mut host = host::read();
    // Six digits: short enough to be typed again.
    let seed = arguments.seed.unwrap_or_else(|| clock::wall_ns() / 1000 % 1_000_000);
    let (metrics, protocol) = (arguments.metrics.clone(), arguments.protocol.into());
    let plan = Plan::new(&REGISTRY, metrics, arguments.effort(), protocol, seed, &host)
        .and_then(|plan| plan.without_by_hand(&REGISTRY))
        .or_usage()?;
    let plan = if arguments.only { plan.alone() } else { plan };
    let injected = InjectedSpin::of_environment(&REGISTRY).or_usage()?;
    let plan = Plan { kept: arguments.keep, injected, ..plan };
    start::check_environment(&host)?;
    let (cpu, cpu_reason) = choose_cpu(arguments.cpu, &host)?;
    let place = place::prepare(arguments, &plan, &interrupt)?;
    let keeping = Keeping::open(&arguments.store);
    let watch = Watch::begin(&host).context("calibrate the clock")?;
    start::note_counter_rate(&mut host, &watch);
    let (mark, mut notes) = (mark_of_a_run(), Vec::new());
    if mark.is_none() {
        let note = "another fathom run measures on this machine: both disturb each other";
        terminal::warn(note);
        notes.push(note.to_owned());
    }
    let tuned = match (arguments.tune, &journal) {
        (false, _) => None,
        (true, Some(journal)) => Some(Tuned::apply(CPUS.as_ref(), &host, cpu, journal)),
        (true, None) => {
            bail!("--tune: no folder to note in what must be put back; set HOME, or --store")
        }
    };
    for refused in tuned.iter().flat_map(|tuned| &tuned.refused) {
        terminal::warn(&format!("--tune could not set {refused}"));
    }
    leave(cpu, &host);
    let earlier = reference_of_earlier_runs(&keeping, &host, cpu, plan.effort);
    let setup = RunSetup {
        earlier,
        tool: start::tool(),
        id: start::run_id(),
        label: arguments.label.clone(),
        cpu,
        cpu_reason,
        clock: watch.facts(),
        tuned: tuned.as_ref().map(|tuned| tuned.done.clone()).unwrap_or_default(),
        imposed: start::imposed(),
        notes,
        priority: tuned.as_ref().is_some_and(|tuned| tuned.priority),
        resources: Resources {
            cpus: host.cpu.allowed.clone(),
            files: place.files.clone(),
            far: Vec::new(),
        },
        far: Vec::new(),
        host,
    };
    let workers = Workers::of_this_program().context("find this program")?;
    let mut machine = LiveMachine::new(workers, watch, interrupt, begun_ns);
    let mut follower = Follower::new(arguments, keeping, place.said.clone());
    let document = coordinate(&plan, setup, &mut machine, &mut follower);
    drop((tuned, mark, place));
    status(arguments, &document, &follower)
}

/// Of so many kept runs the fastest reference loop is full speed.
const TEACHING: u32 = 10;

/// The fastest reference loop of this CPU in the newest kept runs.
fn reference_of_earlier_runs(
    keeping: &Keeping,
    host: &Host,
    cpu: u32,
    effort: Effort,
) -> Option<Reference> {
    let kept = keeping.store()?.newest_of(host.identity(), effort, TEACHING);
    // A store that cannot be read teaches nothing.
    let (runs, _) = kept.ok()?;
    let runs = runs.iter().map(|one| &one.document).filter(|one| one.run.cpu == cpu);
    let references = runs.filter_map(|one| one.run.reference);
    references.min_by(|a, b| a.loop_ns.total_cmp(&b.loop_ns))
}

fn status(
    arguments: &RunArguments,
    document: &Document,
    follower: &Follower,
) -> anyhow::Result<Status> {
    if follower.has_failed() {
        return Ok(Status::Failed);
    }
    if follower.is_closed() {
        return Ok(Status::OutputClosed);
    }
    if document.run.state == RunState::Interrupted {
        return Ok(Status::Interrupted);
    }
    let all_there = document.records.iter().all(|record| record.verdict.shows_number());
    Ok(if arguments.strict && !all_there { Status::Incomplete } else { Status::Done })
}

/// Where `--tune` keeps what it must put back: in the user's data folder, or where there is none
/// beside the store that was named.
///
/// Never in a folder that others can write: what it says is done as whoever runs.
fn journal(arguments: &RunArguments) -> Option<PathBuf> {
    let beside = Store::default_path().ok().or_else(|| stored::path(&arguments.store).ok())?;
    Some(beside.with_file_name("tune.json"))
}

/// The CPU for the workers, and why that one.
pub(super) fn choose_cpu(asked: Option<u32>, host: &Host) -> anyhow::Result<(u32, String)> {
    let allowed = &host.cpu.allowed;
    match asked {
        Some(cpu) if allowed.contains(&cpu) => Ok((cpu, "asked for with --cpu".to_owned())),
        Some(cpu) => {
            let list: Vec<String> = allowed.iter().map(u32::to_string).collect();
            refuse!("--cpu {cpu}: this process may use CPU {}", list.join(", "))
        }
        None => {
            let busy = affinity::busy_shares(BUSY_WINDOW);
            let choice =
                affinity::choose(host, &busy).context("no CPU is allowed to this process")?;
            Ok((choice.cpu, choice.reason))
        }
    }
}

/// A name that only one run at a time can hold; the kernel takes it back when the run ends. None if
/// another run holds it. Where it cannot be held for another reason there is nothing to say.
fn mark_of_a_run() -> Option<Option<UnixListener>> {
    let address = SocketAddr::from_abstract_name(RUN_MARK).ok();
    match address.map(|address| UnixListener::bind_addr(&address)) {
        Some(Err(error)) if error.kind() == std::io::ErrorKind::AddrInUse => None,
        Some(Ok(listener)) => Some(Some(listener)),
        _ => Some(None),
    }
}

/// Moves the coordinator to the other CPUs, where there are any.
fn leave(cpu: u32, host: &Host) {
    let others: Vec<u32> = host.cpu.allowed.iter().copied().filter(|other| *other != cpu).collect();
    if !others.is_empty() {
        // A courtesy to the worker; where it is refused, the counters will tell.
        let _ = affinity::pin_to(&others);
    }
}
