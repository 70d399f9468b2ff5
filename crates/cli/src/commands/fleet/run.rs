//! `fathom fleet run` and `fathom fleet facts` of members: gathers runs, and judges them.

use std::os::fd::AsFd as _;

use anyhow::{Context as _, bail};
use fathom_engine::Plan;
use fathom_far::nonce;
use fathom_fleet::{Outcome, Plan as Gather, RunOrder, Work, coordinate};
use fathom_measure::clock::monotonic_raw_ns;
use fathom_measure::host;
use fathom_probes::REGISTRY;
use fathom_record::run::ClockFacts;
use fathom_record::{Document, Effort, Host, Protocol, Run, RunState, SCHEMA_VERSION, Verdict};
use fathom_report::Layout;
use fathom_report::fleet::render;
use rustix::process::{Resource, getrlimit, setrlimit};

use super::engine::{Engine, Source};
use super::gathering::Gathering;
use super::listening::{OneTime, listen};
use super::summary::Summary;
use super::{judgement, of_judgement};
use crate::arguments::StoreArguments;
use crate::arguments::fleet::{FactsArguments, FleetOutput, FleetRunArguments, GatherArguments};
use crate::commands::run_store::RunStore;
use crate::commands::{named, setup};
use crate::exit::{OrUsage as _, Status};
use crate::interrupt::Interrupt;
use crate::live::timestamp;
use crate::terminal;

/// Waits for members: by programs that start at once, and by hand.
const JOIN_NS: u64 = 120_000_000_000;
const JOIN_BY_HAND_NS: u64 = 600_000_000_000;

pub(in super::super) fn run(arguments: &FleetRunArguments) -> anyhow::Result<Status> {
    let effort = match (arguments.quick, arguments.thorough) {
        (true, _) => Effort::Quick,
        (_, true) => Effort::Thorough,
        _ => Effort::Standard,
    };
    let metrics = named(&arguments.metrics);
    // What is wrong on any machine is so here, before anything is started.
    let (asked, host) = (metrics.clone(), host::read());
    let plan = Plan::new(&REGISTRY, asked, effort, Protocol::Median, 0, &host);
    plan.and_then(|plan| plan.without_by_hand(&REGISTRY)).or_usage()?;
    let work = Work::Run(RunOrder { metrics, effort, only: arguments.only });
    let label = arguments.label.clone().map_or_else(new_label, Ok)?;
    let gathered = gather(&Request {
        gather: &arguments.gather,
        store: Some(&arguments.output.store),
        label: label.clone(),
        procedure: None,
        together: arguments.together,
        at_once: arguments.at_once.map_or(usize::MAX, usize::from),
        work: &|_, _| work.clone(),
    })?;
    finish(&gathered, Some(&label), &arguments.output, true)
}

pub(super) fn facts(arguments: &FactsArguments) -> anyhow::Result<Status> {
    let mut gathered = gather(&Request {
        gather: &arguments.gather,
        store: None,
        label: String::new(),
        procedure: None,
        together: false,
        at_once: usize::MAX,
        work: &|_, _| Work::Facts,
    })?;
    let here = gathered.outcome.members.iter().filter(|it| it.lost.is_none());
    gathered.runs = here.map(|it| facts_of(&it.member.host)).collect();
    finish(&gathered, None, &arguments.output, false)
}

/// What members are gathered for.
pub(super) struct Request<'r> {
    pub(super) gather: &'r GatherArguments,
    /// Where their runs are stored; nowhere if absent.
    pub(super) store: Option<&'r StoreArguments>,
    pub(super) label: String,
    /// The command whose runs they deliver, if it is not `fathom run`.
    pub(super) procedure: Option<&'static str>,
    pub(super) together: bool,
    pub(super) at_once: usize,
    /// The work of a member, by its place and the number of members.
    pub(super) work: &'r dyn Fn(usize, usize) -> Work,
}

pub(super) struct Gathered {
    pub(super) outcome: Outcome,
    /// What was delivered and stored, without samples.
    pub(super) runs: Vec<Document>,
    /// The nodes that did not join, and why.
    pub(super) absent: Vec<(String, String)>,
    /// Whether a run could not be stored.
    pub(super) has_failed: bool,
}

/// Starts members, or waits for them, and returns when all have delivered or are lost.
pub(super) fn gather(request: &Request<'_>) -> anyhow::Result<Gathered> {
    let interrupt = Interrupt::listen().context("listen to signals")?;
    raise_open_files();
    let source = Source::of(request.gather)?;
    let (listener, join) = listen(request.gather, &source)?;
    let one_time = OneTime::new(&source)?;
    let expected = source.members();
    let is_by_hand = matches!(source, Source::ByHand(_));
    if is_by_hand {
        terminal::warn(&format!("waits for {expected} members; start on each host:"));
        terminal::warn(&format!("  {}", one_time.command(&join)));
    }
    let usual_ns = if is_by_hand { JOIN_BY_HAND_NS } else { JOIN_NS };
    let plan = Gather {
        token: one_time.token.clone(),
        expected,
        join_ns: request.gather.join_time.map_or(usual_ns, |time| time.as_nanos() as u64),
        same_host: request.gather.same_host,
        together: request.together,
        at_once: request.at_once,
        work: request.work,
        clock: monotonic_raw_ns,
    };
    let engine = Engine::new(source, &plan.token, join)?;
    let store = request.store.map(|store| RunStore::open(store, &host::read()));
    let store = store.unwrap_or_else(RunStore::none);
    let mut gathering = Gathering::new(engine, store, request.label.clone(), request.procedure);
    let outcome = coordinate(vec![listener], &plan, interrupt.as_fd(), &mut gathering);
    let absent = gathering.end();
    let has_failed = gathering.has_failed();
    let outcome = outcome.context("wait for members")?;
    Ok(Gathered { outcome, runs: gathering.runs, absent, has_failed })
}

/// Each member has a connection.
fn raise_open_files() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Without, as many members as descriptors join at a time.
    let _ = setrlimit(Resource::Nofile, limit);
}

/// Prints who came and the judgement.
fn finish(
    gathered: &Gathered,
    label: Option<&str>,
    output: &FleetOutput,
    numbers: bool,
) -> anyhow::Result<Status> {
    let summary = Summary::of(gathered, label);
    if gathered.runs.is_empty() {
        if gathered.outcome.is_stopped {
            terminal::warn(&summary.words());
            return Ok(Status::Interrupted);
        }
        bail!("{}", summary.words());
    }
    let judgement = judgement(&gathered.runs);
    let printed = crate::commands::print(output.json, &summary.with(&judgement), |layout| {
        let layout = Layout { all: output.all, ..*layout };
        summary.screen(&layout) + &render(&judgement, &layout) + &summary.foot(&layout)
    })?;
    Ok(match of_judgement(&judgement, numbers, printed) {
        Status::OutputClosed => Status::OutputClosed,
        _ if gathered.outcome.is_stopped => Status::Interrupted,
        _ if gathered.has_failed => Status::Failed,
        status => status,
    })
}

/// `fleet-3fa08c`: short enough to be typed, and no two of them are alike.
fn new_label() -> anyhow::Result<String> {
    Ok(format!("fleet-{}", &nonce()?[..6]))
}

/// The facts of a host as a run without results.
fn facts_of(host: &Host) -> Document {
    let run = Run {
        id: setup::run_id(),
        label: None,
        started: timestamp(),
        ended: None,
        duration_ns: None,
        effort: Effort::default(),
        protocol: Protocol::default(),
        seed: 0,
        asked: Vec::new(),
        procedure: None,
        planned: 0,
        state: RunState::Complete,
        cpu: 0,
        cpu_reason: String::new(),
        reference: None,
        clock: ClockFacts::default(),
        tuned: Vec::new(),
        imposed: Vec::new(),
        verdict: Verdict::default(),
        notes: Vec::new(),
    };
    let (tool, far, records) = (setup::tool(), Vec::new(), Vec::new());
    Document { schema: SCHEMA_VERSION, tool, run, host: host.clone(), far, records }
}
