//! Gathers members for a command: starts them or waits for them, until all have delivered.

use std::os::fd::AsFd as _;

use anyhow::Context as _;
use fathom_analysis::fleet::FleetRuns;
use fathom_fleet::{CoordinatorPlan, PlanOutcome, WorkOf, coordinate};
use fathom_measure::clock::monotonic_raw_ns;
use fathom_measure::host;
use fathom_record::quantity::{counted, quantity};
use fathom_record::{Document, Unit};
use rustix::process::{Resource, getrlimit, setrlimit};

use super::engine::{Engine, EngineSource};
use super::gathering::Gathering;
use super::known_hosts::KnownHosts;
use super::listening::{OneTime, listen};
use crate::arguments::StoreArguments;
use crate::arguments::fleet::GatherArguments;
use crate::commands::run_store::RunStore;
use crate::commands::stored_run;
use crate::interrupt::Interrupt;
use crate::terminal;

/// Waits for members: by programs that start at once, and by hand.
const JOIN_NS: u64 = 120_000_000_000;
const JOIN_BY_HAND_NS: u64 = 600_000_000_000;

/// What members are gathered for.
pub(super) struct GatherRequest<'r> {
    pub(super) gather: &'r GatherArguments,
    /// Where their runs are stored; nowhere if absent.
    pub(super) store: Option<&'r StoreArguments>,
    pub(super) label: String,
    /// The command whose runs they deliver, if it is not `fathom run`.
    pub(super) procedure: Option<&'static str>,
    pub(super) together: bool,
    pub(super) at_once: usize,
    /// How many rounds of work there are for so many members.
    pub(super) rounds: &'r dyn Fn(usize) -> usize,
    /// The work of a member in a round; `None` if it has none.
    pub(super) work: &'r WorkOf<'r>,
    /// Sees each run that was delivered.
    pub(super) delivered: &'r dyn Fn(&Document),
}

pub(super) struct Gathered {
    pub(super) outcome: PlanOutcome,
    /// What was delivered and stored, as it is judged.
    pub(super) judged: FleetRuns,
    /// The shares of a load.
    pub(super) shares: Vec<Document>,
    /// How many members were to come.
    pub(super) expected: usize,
    /// The nodes that did not join, and why.
    pub(super) absent: Vec<(String, String)>,
    /// Whether a run could not be stored.
    pub(super) has_failed: bool,
}

/// Starts members, or waits for them, and returns when all have delivered or are lost.
pub(super) fn gather(request: &GatherRequest<'_>) -> anyhow::Result<Gathered> {
    let interrupt = Interrupt::listen().context("listen to signals")?;
    raise_open_files();
    let source = EngineSource::from_arguments(request.gather)?;
    let (listener, join) = listen(request.gather, &source)?;
    let one_time = OneTime::new(&source)?;
    let expected = source.members();
    let is_by_hand = matches!(source, EngineSource::ByHand(_));
    if is_by_hand {
        let members = counted(expected, "member");
        terminal::warn(&format!("waiting for {members}; start on each host:"));
        terminal::warn(&format!("  {}", one_time.command(&join)));
        if listener.local_addr().is_ok_and(|it| it.ip().is_loopback()) {
            terminal::warn("  only this host reaches it; --listen ADDR is for others, too");
        }
    }
    let usual_ns = if is_by_hand { JOIN_BY_HAND_NS } else { JOIN_NS };
    let plan = CoordinatorPlan {
        token: one_time.token.clone(),
        expected,
        join_ns: request.gather.join_time.map_or(usual_ns, |time| time.as_nanos() as u64),
        same_host: request.gather.same_host,
        together: request.together,
        at_once: request.at_once,
        rounds: request.rounds,
        work: request.work,
        clock: monotonic_raw_ns,
    };
    let engine = Engine::new(source, &plan.token, join)?;
    let store = request.store.map(|store| RunStore::open(store, &host::read())).transpose()?;
    let store = store.unwrap_or_else(RunStore::none);
    let known = request.store.filter(|_| store.store().is_some()).map(stored_run::open_store);
    let warn = |error: &_| terminal::warn(&format!("ids of hosts are not looked up: {error:#}"));
    let hosts = KnownHosts::read(
        known.and_then(|store| std::rc::Rc::into_inner(store.inspect_err(warn).ok()?)),
    );
    let label = request.label.clone();
    let mut gathering =
        Gathering::new(engine, store, hosts, label, (request.procedure, request.delivered));
    let outcome = coordinate(vec![listener], &plan, interrupt.as_fd(), &mut gathering);
    let absent = gathering.end();
    let has_failed = gathering.has_failed();
    let outcome = outcome.context("wait for members")?;
    if is_by_hand && outcome.members.is_empty() && !outcome.is_stopped {
        let waited = quantity(plan.join_ns as f64, Unit::Nanoseconds);
        terminal::warn(&format!("nobody joined in {waited}; --join-time waits longer"));
    }
    let Gathering { judged, shares, .. } = gathering;
    Ok(Gathered { outcome, judged, shares, expected, absent, has_failed })
}

/// Each member has a connection.
fn raise_open_files() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Without, as many members as descriptors join at a time.
    let _ = setrlimit(Resource::Nofile, limit);
}
