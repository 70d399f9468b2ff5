//! `fathom run`: measures this machine.

mod files;
mod follower;
pub(super) mod remote;

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};

use anyhow::Context;
use fathom_engine::worker::Workers;
use fathom_engine::{Audience as _, InjectedSpin, KEPT, Plan, RunSetup, coordinate};
use fathom_measure::affinity;
use fathom_measure::clock::{self, CalibrationWatch};
use fathom_measure::condition::RUN_MARK;
use fathom_measure::host::{self, HostReader};
use fathom_measure::sampler::Resources;
use fathom_metric::Sizes;
use fathom_probes::REGISTRY;
use fathom_record::{Document, Effort, Host, Record, Reference, RunState};
use fathom_report::Layout;
use fathom_store::Store;

use super::limits::{self, CommandLimits};
use super::run_store::RunStore;
use super::{as_member, export, output_file, scratch_folder, setup, stored_run};
use crate::arguments::{ProtocolName, RunArguments};
use crate::exit::{OrUsage, Status, UsageError, usage_error};
use crate::interrupt::Interrupt;
use crate::live::LiveMachine;
use crate::terminal;
use crate::tune::{self, Tuning};
use follower::Follower;

/// A set-up of a second takes a minute on an emulated CPU.
const EMULATED_GRACE: f64 = 6.0;
const CPUS: &str = "/sys/devices/system/cpu";
const NO_JOURNAL: &str = "--tune: no folder for its journal; set HOME, or use --store";

pub(super) fn run(arguments: &RunArguments) -> anyhow::Result<Status> {
    let interrupt = Interrupt::listen().context("listen to signals")?;
    let output = export::document_file(arguments.output.as_deref(), arguments.force)?;
    let allowed = host::read().cpu.allowed;
    let mut status = Status::Success;
    for number in 1..=arguments.repeat {
        if arguments.repeat > 1 && !arguments.quiet {
            terminal::warn(&format!("run {number} of {}", arguments.repeat));
        }
        let of_run = one_run(arguments, &interrupt, output.as_deref())?;
        match of_run {
            Status::Success => {}
            // The results are stored: the other runs go on.
            Status::Incomplete => status = of_run,
            _ => return Ok(of_run),
        }
        // The next run may use another CPU.
        let _ = affinity::pin_to(&allowed);
    }
    Ok(status)
}

/// Makes a run; writes it to `output` as well.
fn one_run(
    arguments: &RunArguments,
    interrupt: &Interrupt,
    output: Option<&Path>,
) -> anyhow::Result<Status> {
    let begun_ns = clock::monotonic_raw_ns();
    let journal_folder = journal_folder(arguments);
    let recover = |folder: &Path| tune::recover(CPUS.as_ref(), folder);
    if let Some(message) = journal_folder.as_deref().and_then(recover) {
        terminal::warn(&message);
    }
    let limits = arguments.limits.as_deref().map(CommandLimits::read).transpose()?;
    let mut host = HostReader::live().with_folder(arguments.folder.clone()).read();
    let workers = workers(&host)?;
    let (plan, remote) = with_remote(arguments, &host)?;
    setup::check_environment(&host)?;
    if !arguments.quiet && !arguments.member.member {
        setup::warn_of_busy_cpus(&host);
    }
    let notice =
        (!arguments.quiet).then(|| terminal::Notice::new("choosing a CPU, calibrating the clock"));
    let (cpu, cpu_reason) = choose_cpu(arguments.cpu, &host)?;
    let files = files::prepare(arguments, &plan, interrupt)?;
    let store = RunStore::for_run(arguments.member, &arguments.store, &host)?;
    let watch = CalibrationWatch::begin(&host).context("calibrate the clock")?;
    setup::note_counter_rate(&mut host, &watch);
    drop(notice);
    let run_mark = bind_run_mark();
    let notes = Vec::from_iter(run_mark.is_none().then(warn_of_other_run));
    let tuning = tuning(arguments, &host, cpu, journal_folder.as_deref())?;
    leave_cpu(cpu, &host);
    let begun_ns = as_member::wait_for_start(arguments.member)?.unwrap_or(begun_ns);
    let setup = RunSetup {
        earlier: earlier_reference(&store, &host, cpu, plan.effort),
        tool: setup::tool(),
        id: setup::run_id(),
        label: arguments.label.clone(),
        cpu,
        cpu_reason,
        clock: watch.facts(),
        folder: files.folder.clone(),
        tuned: tuning.as_ref().map(|tuning| tuning.changes.clone()).unwrap_or_default(),
        imposed: setup::imposed(),
        notes,
        priority: tuning.as_ref().is_some_and(|tuning| tuning.priority),
        resources: Resources {
            cpus: host.cpu.allowed.clone(),
            files: files.files.clone(),
            far: remote.iter().map(|remote| remote.place.clone()).collect(),
        },
        far: remote.into_iter().map(|remote| remote.host).collect(),
        host,
    };
    let mut machine = LiveMachine::new(workers, watch, interrupt.clone(), begun_ns);
    let mut follower = Follower::new(arguments, store, files.announcement.clone());
    let document = coordinate(&plan, setup, &mut machine, &mut follower);
    drop((tuning, run_mark, files));
    if let Some(path) = output {
        output_file::write(path, fathom_report::document_json(&follower.printed(&document)))?;
    }
    if let Some(warning) = remote::losses(&document) {
        terminal::warn(&warning);
    }
    let status = status(arguments, &document, &follower);
    match &limits {
        Some(limits) if status == Status::Success => beside_limits(limits, &document, arguments),
        _ => Ok(status),
    }
}

fn workers(host: &Host) -> anyhow::Result<Workers> {
    let mut workers = Workers::of_this_program().context("find this program")?;
    if host.is_emulated() {
        workers.grace_ns *= EMULATED_GRACE;
    }
    Ok(workers)
}

/// The limits beside the numbers: below the table, else on standard error.
fn beside_limits(
    limits: &CommandLimits,
    document: &Document,
    arguments: &RunArguments,
) -> anyhow::Result<Status> {
    let judgement = limits.judgement(document);
    let layout = Layout { width: terminal::width(), ..Layout::default() };
    match arguments.json || arguments.jsonl || arguments.quiet {
        true => terminal::warn(&format!("limits: {}", fathom_report::limits::counts(&judgement))),
        false => {
            let text = fathom_report::limits::judgement(&judgement, &layout);
            super::print_text(&format!("\n{text}"))?;
        }
    }
    Ok(limits::status(judgement.answer))
}

/// The plan, with the cases to the host of `--remote`.
fn with_remote(
    arguments: &RunArguments,
    host: &Host,
) -> anyhow::Result<(Plan, Option<remote::RemoteHost>)> {
    let plan = plan(arguments, host)?;
    let Some(remote) = remote::find(arguments, host)? else { return Ok((plan, None)) };
    let plan = plan.and_remote(&remote.place.to).or_usage()?;
    let to = &remote.place.to;
    let plan = if arguments.remote_only { remote::only_to(plan, to) } else { plan };
    for warning in [remote.sameness(host), remote.exposure(&plan)].iter().flatten() {
        terminal::warn(warning);
    }
    Ok((plan, Some(remote)))
}

pub(super) fn plan(arguments: &RunArguments, host: &Host) -> Result<Plan, UsageError> {
    // Six digits: short enough to be typed again.
    let seed = arguments.seed.unwrap_or_else(|| clock::wall_ns() / 1000 % 1_000_000);
    let (metrics, protocol) = (super::named(&arguments.metrics), arguments.protocol.into());
    let mount = scratch_folder::is_on_network(arguments.folder.as_deref());
    let sizes = Sizes { mount, ..arguments.effort.effort().into() };
    let plan = Plan::new(&REGISTRY, metrics, sizes, protocol, seed, host)
        .and_then(|plan| plan.without_by_hand(&REGISTRY))
        .or_usage()?;
    let plan = if arguments.only { plan.alone() } else { plan };
    let plan = plan.with_first(fathom_report::cases_in_overview);
    let time = arguments.time.map_or(plan.budget_ns, |time| time.as_secs_f64() * 1e9);
    let injected = InjectedSpin::of_environment(&REGISTRY).or_usage()?;
    let (kept, processes) = (arguments.keep.unwrap_or(KEPT), arguments.processes);
    if arguments.keep.is_some() && arguments.protocol == ProtocolName::Median {
        return Err(UsageError("--keep: only with --protocol trimmed".to_owned()));
    }
    Ok(Plan { kept, processes, budget_ns: time, injected, ..plan })
}

/// The fastest reference loop of this many earlier runs counts as full speed.
const REFERENCE_RUNS: u32 = 10;

/// The fastest reference loop of this CPU in the newest stored runs; `None` if the store cannot be
/// read.
fn earlier_reference(store: &RunStore, host: &Host, cpu: u32, effort: Effort) -> Option<Reference> {
    let (runs, _) =
        store.earlier()?.newest_of(host.identity(), effort, None, REFERENCE_RUNS).ok()?;
    let runs = runs.iter().filter(|one| one.run.cpu == cpu);
    let references = runs.filter_map(|one| one.run.reference);
    references.min_by(|a, b| a.loop_ns.total_cmp(&b.loop_ns))
}

fn status(arguments: &RunArguments, document: &Document, follower: &Follower) -> Status {
    let has_number = |record: &Record| record.verdict.shows_number();
    let all_numbers = || document.records.iter().all(has_number);
    let no_number =
        || document.records.first().filter(|_| !document.records.iter().any(has_number));
    if follower.has_failed() {
        Status::Failed
    } else if follower.has_left() {
        Status::OutputClosed
    } else if document.run.state == RunState::Interrupted {
        Status::Interrupted
    } else if remote::has_all_failed(document) {
        Status::Failed
    } else if let Some(record) = no_number() {
        if let Some(reason) = record.verdict.reasons.first() {
            let remedy = reason.remedy.as_ref().map(fathom_report::remedy::words);
            let remedy = remedy.map_or(String::new(), |remedy| format!("; {remedy}"));
            terminal::warn(&format!("no case has a number: {}{remedy}", reason.text));
        }
        Status::Incomplete
    } else if arguments.strict && !all_numbers() {
        Status::Incomplete
    } else {
        Status::Success
    }
}

/// Tunes the machine if that is asked for.
fn tuning(
    arguments: &RunArguments,
    host: &Host,
    cpu: u32,
    journal_folder: Option<&Path>,
) -> anyhow::Result<Option<Tuning>> {
    if !arguments.tune {
        return Ok(None);
    }
    let journal = tune::journal(journal_folder.context(NO_JOURNAL)?).context(NO_JOURNAL)?;
    let tuning = Tuning::apply(CPUS.as_ref(), host, cpu, &journal);
    for refusal in &tuning.refusals {
        terminal::warn(&format!("--tune could not set {refusal}"));
    }
    Ok(Some(tuning))
}

/// The folder for the journal of `--tune`: that of the user's data, else that of the named store.
fn journal_folder(arguments: &RunArguments) -> Option<PathBuf> {
    let beside = || Some(stored_run::place(&arguments.store).ok()?.file()?.to_owned());
    let store = Store::default_path().ok().or_else(beside)?;
    let folder = store.parent()?;
    Some(if folder == Path::new("") { PathBuf::from(".") } else { folder.to_owned() })
}

/// The CPU for the workers, and the reason for it.
pub(super) fn choose_cpu(requested: Option<u32>, host: &Host) -> anyhow::Result<(u32, String)> {
    let allowed = &host.cpu.allowed;
    match requested {
        Some(cpu) if allowed.contains(&cpu) => Ok((cpu, "selected with --cpu".to_owned())),
        Some(cpu) => {
            let list: Vec<String> = allowed.iter().map(u32::to_string).collect();
            usage_error!("--cpu {cpu}: allowed CPUs are {}", list.join(", "))
        }
        None => {
            let busy = affinity::busy_shares(setup::LOAD_WINDOW);
            let choice =
                affinity::choose(host, &busy).context("no CPU is allowed to this process")?;
            Ok((choice.cpu, choice.reason))
        }
    }
}

/// Binds a socket name that only one run at a time can have; the kernel releases it when the run
/// ends. `None` if another run has it; a run that cannot bind it for another reason goes on.
fn bind_run_mark() -> Option<Option<UnixListener>> {
    let address = SocketAddr::from_abstract_name(RUN_MARK).ok();
    match address.map(|address| UnixListener::bind_addr(&address)) {
        Some(Err(error)) if error.kind() == std::io::ErrorKind::AddrInUse => None,
        Some(Ok(listener)) => Some(Some(listener)),
        _ => Some(None),
    }
}

/// A warning, and a note of the run.
fn warn_of_other_run() -> String {
    let note = "another fathom run is active on this machine: each disturbs the other";
    terminal::warn(note);
    note.to_owned()
}

/// Moves the coordinator to other CPUs, if there are any.
fn leave_cpu(cpu: u32, host: &Host) {
    let others: Vec<u32> = host.cpu.allowed.iter().copied().filter(|other| *other != cpu).collect();
    if !others.is_empty() {
        // If it is refused, the counters of the visits show the preemption.
        let _ = affinity::pin_to(&others);
    }
}
