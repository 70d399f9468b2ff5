//! `fathom compare`: runs against a run, metric by metric.

use fathom_analysis::compare::{Compared, Comparison, Noise, compare_to_all};
use fathom_metric::Entry;
use fathom_probes::REGISTRY;
use fathom_record::Document;
use fathom_report::compare::render;

use super::{reference, stored};
use crate::arguments::{CompareArguments, StoreArguments};
use crate::exit::{Status, refuse};
use crate::terminal;

/// So many runs of a host teach how far its runs lie apart: the newest.
const TEACHING: u32 = 40;

pub(super) fn compare(arguments: &CompareArguments) -> anyhow::Result<Status> {
    if let Some(name) = &arguments.reference {
        return reference::beside(name, arguments);
    }
    let (a, b) = sides(arguments)?;
    let noise = noise(&a, &b, &arguments.store);
    let comparison = compare_to_all(&refs(&a), &b, &noise, arguments.seed);
    if comparison.rows.is_empty() {
        terminal::warn(&nothing_compared(&comparison));
        return Ok(Status::Incomplete);
    }
    let printed = super::print(arguments.json, &comparison, |layout| render(&comparison, layout));
    let Some(limit) = arguments.fail_on else { return printed };
    let status = printed?;
    explain_gate(&comparison, limit);
    Ok(if comparison.passes(limit) { status } else { Status::Incomplete })
}

/// What closes the gate of `--fail-on`, or leaves it open although cases are undecided.
fn explain_gate(comparison: &Comparison, limit: f64) {
    let percent = fathom_report::percent(limit);
    let worse: Vec<&Compared> = comparison.regressions(limit).collect();
    if let [first, rest @ ..] = worse.as_slice() {
        let more =
            if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
        let (metric, params) = (&first.metric, &first.params);
        return terminal::warn(&format!("worse by more than {percent}: {metric}{params}{more}"));
    }
    let (undecided, all) = (comparison.undecided(), comparison.rows.len());
    if undecided == 0 {
        return;
    }
    let mut why = "too few processes (8 on each side can tell: leave --quick away), or a run that \
                   is noisy as a whole"
        .to_owned();
    if comparison.rows.iter().any(|row| row.is_spoiled()) {
        why += ", or a core that others made slow";
    }
    let suspects = comparison.suspects(limit).count();
    terminal::warn(&format!(
        "--fail-on: {undecided} of {all} cases cannot be decided, {suspects} of which look worse \
         by more than {percent}: {why}"
    ));
}

/// The runs that are A, and B.
fn sides(arguments: &CompareArguments) -> anyhow::Result<(Vec<Document>, Document)> {
    let Some((b, a)) = arguments.runs.split_last().filter(|(_, a)| !a.is_empty()) else {
        let named = arguments.runs.len();
        refuse!(
            "compare: two runs or more are needed, {named} named; name those to compare against \
             and last the one to compare, such as `fathom compare latest~1 latest`"
        );
    };
    let read = |name: &String| stored::document(name, false, &arguments.store);
    let a: Vec<Document> = a.iter().map(read).collect::<anyhow::Result<_>>()?;
    let b = read(b)?;
    for (at, run) in a.iter().enumerate() {
        let id = &run.run.id;
        if a[..at].iter().any(|other| other.run.id == *id) {
            refuse!("compare: run {id} is named twice; a run counts once");
        }
        let (host, other) = (&a[0].host, &run.host);
        if host.identity() != other.identity() {
            let (host, other) = (host.label([other]), other.label([host]));
            refuse!(
                "compare: run {} is of {host} and run {id} of {other}; hosts are never pooled: \
                 name runs of one host before the last",
                a[0].run.id
            );
        }
    }
    if a.iter().any(|run| run.run.id == b.run.id) {
        terminal::warn("B is a run of A too: a run does not differ from itself");
    }
    Ok((a, b))
}

/// Why no case is compared.
fn nothing_compared(comparison: &Comparison) -> String {
    let (a, b) = (&comparison.a.id, &comparison.b.id);
    let why = match comparison.not_comparable.as_slice() {
        [] => "they have no case in common".to_owned(),
        [first, rest @ ..] => {
            let name = format!("{}{}", first.metric, first.params);
            let more = match rest.len() {
                0 => String::new(),
                count => format!(", and {count} more likewise"),
            };
            format!("{name}: {}{more}", first.reason)
        }
    };
    format!(
        "compare {a} {b}: nothing can be compared: {why}; `fathom show RUN` shows what a run has, \
         `fathom run METRIC` measures it again"
    )
}

fn refs(documents: &[Document]) -> Vec<&Document> {
    documents.iter().collect()
}

/// The noise between runs like these, by the kept runs of the host, and the noise limits of their
/// metrics where those are too few. A store that does not exist or cannot be read adds nothing.
pub(super) fn noise(a: &[Document], b: &Document, store: &StoreArguments) -> Noise {
    let kept = stored::open(store)
        .and_then(|store| Ok(store.newest_of(b.host.identity(), b.run.effort, TEACHING)?));
    let noise = kept.map_or_else(|_| Noise::default(), |(kept, _)| Noise::learn(&kept, a, b));
    let abouts = REGISTRY.entries().iter().map(Entry::about);
    noise.with_limits(abouts.map(|about| (about.id, about.noise_limit)))
}
