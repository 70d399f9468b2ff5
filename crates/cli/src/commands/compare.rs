//! `fathom compare`: runs compared metric by metric.

use fathom_analysis::compare::{Comparison, ComparisonAnswer, Gate, Noise, compare_to_all};
use fathom_analysis::fleet::{FleetRuns, compare_groups};
use fathom_metric::Entry;
use fathom_probes::REGISTRY;
use fathom_record::Document;
use fathom_report::Layout;
use fathom_report::compare::{render, render_groups};
use fathom_report::side_by_side::render as render_sides;
use fathom_store::Store;

use super::{group, reference, stored_run, typical};
use crate::arguments::CompareArguments;
use crate::exit::{Status, usage_error};
use crate::terminal;

/// Hosts that have room side by side.
pub(super) const SIDES_MAX: usize = 4;
/// Run-to-run noise is learned from this many of the newest runs of a host.
const NOISE_RUNS: u32 = 40;
pub(super) const SEED: u64 = 1;

pub(super) fn compare(arguments: &CompareArguments) -> anyhow::Result<Status> {
    if let Some(name) = &arguments.reference {
        return reference::compare(name, arguments);
    }
    if arguments.typical {
        return typical::compare(arguments);
    }
    let names = arguments.runs.iter().map(String::as_str);
    let default = LAST_TWO.into_iter().filter(|_| arguments.runs.is_empty());
    stored_run::open_for(names.chain(default), &arguments.store, |_| ())?;
    if let Some((a, b)) = groups(arguments)? {
        return of_groups((&a, &b), arguments);
    }
    let (a, b) = sides(arguments)?;
    let is_other_host = |run: &Document| run.host.identity() != a[0].host.identity();
    if a.iter().any(is_other_host) {
        return side_by_side(&a.iter().chain([&b]).collect::<Vec<_>>(), arguments);
    }
    if a.iter().any(|run| run.run.id == b.run.id) {
        terminal::warn("the same run is on both sides");
    }
    let noise = noise(&a, &b, stored_run::open_store(&arguments.store).ok().as_deref());
    let mut comparison =
        compare_to_all(&a.iter().collect::<Vec<_>>(), &b, &noise, arguments.seed.unwrap_or(SEED));
    let is_empty = comparison.rows.is_empty();
    if is_empty {
        terminal::warn(&nothing_compared(&comparison));
        if !arguments.json {
            return Ok(Status::Incomplete);
        }
    }
    add_gate(&mut comparison, arguments);
    let status = super::print(arguments.json, &comparison, |layout| {
        let runs: Vec<&Document> = a.iter().chain([&b]).collect();
        let busy = fathom_report::busy_runs(&runs, layout.width);
        let text = render(&comparison, &Layout { all: arguments.all, ..*layout });
        // The first line of a gate is its answer.
        if arguments.fail_on.is_some() { text + &busy } else { busy + &text }
    })?;
    Ok(after_gate(&comparison, status))
}

fn add_gate(comparison: &mut Comparison, arguments: &CompareArguments) {
    if let Some(limit) = arguments.fail_on {
        let undecided = arguments.undecided.map(ComparisonAnswer::from);
        comparison.gate = Some(comparison.gate_except(&arguments.except, limit, undecided));
    }
}

fn after_gate(comparison: &Comparison, status: Status) -> Status {
    match comparison.gate.as_ref().map(Gate::taken) {
        _ if comparison.rows.is_empty() => Status::Incomplete,
        Some(ComparisonAnswer::Fail) => Status::Incomplete,
        Some(ComparisonAnswer::Undecided) => Status::Undecided,
        Some(ComparisonAnswer::Pass) | None => status,
    }
}

/// The runs of A and B, if these are two groups: one of the names is of several runs.
fn groups(arguments: &CompareArguments) -> anyhow::Result<Option<(FleetRuns, FleetRuns)>> {
    let [a, b] = arguments.runs.as_slice() else { return Ok(None) };
    if ![a, b].into_iter().any(|name| stored_run::is_group(name, &arguments.store)) {
        return Ok(None);
    }
    let runs = |name: &String| group::judged(std::slice::from_ref(name), &arguments.store);
    Ok(Some((runs(a)?, runs(b)?)))
}

fn of_groups(
    groups: (&FleetRuns, &FleetRuns),
    arguments: &CompareArguments,
) -> anyhow::Result<Status> {
    let names = [0, 1].map(|at| arguments.runs[at].as_str());
    let mut groups =
        compare_groups(groups, names, &group::noise_limits(), arguments.seed.unwrap_or(SEED));
    add_gate(&mut groups.whole, arguments);
    let status = super::print(arguments.json, &groups, |layout| {
        render_groups(&groups, &Layout { all: arguments.all, ..*layout })
    })?;
    Ok(after_gate(&groups.whole, status))
}

/// As [`stored_run::find`] knows them.
const LAST_TWO: [&str; 2] = ["latest:battery~1", "latest:battery"];

/// The runs of A, and B: without names the last two runs of all metrics.
fn sides(arguments: &CompareArguments) -> anyhow::Result<(Vec<Document>, Document)> {
    let batteries = LAST_TWO.map(str::to_owned);
    let named = if arguments.runs.is_empty() { &batteries } else { arguments.runs.as_slice() };
    let Some((b, a)) = named.split_last().filter(|(_, a)| !a.is_empty()) else {
        let named = arguments.runs.len();
        usage_error!(
            "compare: needs at least two runs, {named} named; the last one is compared with those \
             before it, such as `fathom compare latest~1 latest`"
        );
    };
    stored_run::foresee_documents(named, &arguments.store)?;
    let read = |name: &String| stored_run::document(name, false, &arguments.store);
    let a: Vec<Document> = a.iter().map(read).collect::<anyhow::Result<_>>()?;
    let b = read(b)?;
    for (at, run) in a.iter().enumerate() {
        let id = &run.run.id;
        if a[..at].iter().any(|other| other.run.id == *id) {
            usage_error!("compare: run {id} is named twice");
        }
    }
    Ok((a, b))
}

/// The runs of several hosts, one of each.
fn side_by_side(runs: &[&Document], arguments: &CompareArguments) -> anyhow::Result<Status> {
    if arguments.fail_on.is_some() || arguments.seed.is_some() {
        let option = if arguments.seed.is_some() { "--seed" } else { "--fail-on" };
        usage_error!("compare: {option} is of one host: name its runs, the last one to be judged");
    }
    if runs.len() > SIDES_MAX {
        usage_error!(
            "compare: {} runs of several hosts, at most {SIDES_MAX} stand side by side; `fathom \
             fleet judge` judges more",
            runs.len()
        );
    }
    for (at, run) in runs.iter().enumerate() {
        let is_same = |other: &&&Document| other.host.identity() == run.host.identity();
        if let Some(other) = runs[..at].iter().find(is_same) {
            let ([a, b], host) = ([&other.run.id, &run.run.id], &run.host.name);
            usage_error!(
                "compare: runs {a} and {b} are both of host {host}: name one of each host"
            );
        }
    }
    let sides = fathom_analysis::side_by_side::side_by_side(runs);
    super::print(arguments.json, &sides, |layout| {
        let busy = fathom_report::busy_runs(runs, layout.width);
        busy + &render_sides(&sides, runs, &Layout { all: arguments.all, ..*layout })
    })
}

/// Why no case is compared.
fn nothing_compared(comparison: &Comparison) -> String {
    let (a, b) = (&comparison.a.id, &comparison.b.id);
    let why = match comparison.not_comparable.as_slice() {
        [] => "no common case".to_owned(),
        [first, rest @ ..] => {
            let more = match rest.len() {
                0 => String::new(),
                count => format!(" ({count} more cases are not comparable)"),
            };
            format!("{}{}: {}{more}", first.metric, first.params, first.reason)
        }
    };
    format!(
        "compare {a} {b}: nothing to compare: {why}; `fathom show RUN` shows what a run has, \
         `fathom run METRIC` measures it again"
    )
}

/// Run-to-run noise by the stored runs of the host, with the noise limits of the metrics where
/// those are too few; the limits alone if there is no store that can be read.
pub(super) fn noise(a: &[Document], b: &Document, store: Option<&Store>) -> Noise {
    let stored = store.and_then(|store| {
        let (run, host) = (&b.run, b.host.identity());
        store.newest_of(host, run.effort, run.procedure.as_deref(), NOISE_RUNS).ok()
    });
    let noise = stored.map_or_else(Noise::default, |(runs, _)| Noise::learn(&runs, a, b));
    let abouts = REGISTRY.entries().iter().map(Entry::about);
    noise.with_limits(abouts.map(|about| (about.id, about.noise_limit)))
}
