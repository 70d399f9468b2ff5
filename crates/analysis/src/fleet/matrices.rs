//! Numbers between hosts, from the runs that measured them: each host to others, by their names.

use std::collections::{BTreeMap, BTreeSet};

use fathom_record::host::name_with_id;
use fathom_record::{Better, MetricId, Params, Unit};
use serde::Serialize;

use super::pairs::{self, Directed, Pairs};
use super::runs::{FleetEntry, FleetRun};
use super::{BETWEEN, HOSTS_MIN, key, names};

/// One case between all hosts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Matrix {
    pub metric: MetricId,
    /// Without the far host, and without the direction, which is that of the pair.
    pub params: Params,
    pub unit: Unit,
    pub better: Better,
    /// In the order of their numbers.
    pub hosts: Vec<String>,
    /// From host, to host, and the number: also the noisy ones.
    pub numbers: Vec<(usize, usize, f64)>,
    /// How many of them are noisy.
    pub noisy: usize,
    /// How many were measured without a number.
    pub not_valid: usize,
    pub pairs: Pairs,
}

/// Identity and name of two hosts.
type MatrixEnds<'a> = [(&'a str, &'a str); 2];

/// The matrices of metrics that at least five hosts have measured between each other, or fewer that
/// have measured to each other: those are not judged.
pub(super) fn matrices(runs: &[FleetRun]) -> Vec<Matrix> {
    BETWEEN.iter().filter_map(|metric| matrix(metric, runs)).collect()
}

fn matrix(metric: &str, runs: &[FleetRun]) -> Option<Matrix> {
    let mut newest_first: Vec<&FleetRun> = runs.iter().collect();
    newest_first.sort_by(|a, b| b.head.run.id.cmp(&a.head.run.id));
    let mut cases: BTreeMap<Params, Vec<(MatrixEnds<'_>, &FleetEntry)>> = BTreeMap::new();
    for run in newest_first {
        for entry in run.entries.iter().filter(|entry| entry.case.metric.as_str() == metric) {
            let Some((params, ends)) = ends(run, entry) else { continue };
            cases.entry(params).or_default().push((ends, entry));
        }
    }
    let (params, found) = cases.into_iter().rev().max_by_key(|(_, found)| found.len())?;
    let ends = found.iter().flat_map(|(ends, _)| ends.iter().copied());
    let hosts: BTreeSet<(&str, &str)> = ends.collect();
    let callers = runs.iter().filter(|run| run.calls).map(|run| key(&run.head.host));
    let callers: BTreeSet<_> = callers.collect();
    let is_mutual = |ends: &MatrixEnds<'_>| ends.iter().all(|end| callers.contains(end));
    let are_among_each_other = found.iter().any(|(ends, _)| is_mutual(ends));
    if hosts.len() < HOSTS_MIN && !are_among_each_other {
        return None;
    }
    // As people tell hosts of one name apart.
    let label = |&(identity, name): &(&str, &str)| {
        let is_unique = hosts.iter().filter(|(_, other)| *other == name).count() == 1;
        name_with_id(name, Some(identity).filter(|id| !is_unique && *id != name))
    };
    let mut named: Vec<(String, (&str, &str))> =
        hosts.iter().map(|host| (label(host), *host)).collect();
    named.sort_by(|a, b| names::order(&a.0).cmp(&names::order(&b.0)));
    let index: BTreeMap<(&str, &str), usize> =
        named.iter().enumerate().map(|(at, (_, key))| (*key, at)).collect();
    let mut numbers: BTreeMap<(usize, usize), Directed> = BTreeMap::new();
    let mut measured: BTreeSet<(usize, usize)> = BTreeSet::new();
    for ([from, to], entry) in &found {
        let (from, to) = (index[from], index[to]);
        measured.insert((from, to));
        // The newest valid one counts, or that of the end named first; else the least noisy.
        if let Some(number) = entry.link.as_deref().map(|link| link.with_ends(from, to)) {
            let known = numbers.entry((from, to)).or_insert(number);
            if known.is_noisy && number.is_better(known) {
                *known = number;
            }
        }
    }
    let (_, first) = found.first()?;
    let not_valid = measured.len() - numbers.len();
    let directed: Vec<Directed> = numbers.into_values().collect();
    let mut counts = vec![0; named.len()];
    directed.iter().for_each(|one| counts[one.from] += 1);
    // All to one server is a star, which says nothing of links.
    let is_star = counts.iter().filter(|count| **count > 1).count() < HOSTS_MIN;
    if is_star && !are_among_each_other {
        return None;
    }
    Some(Matrix {
        metric: first.case.metric.clone(),
        params,
        unit: first.case.unit,
        better: first.case.better,
        pairs: pairs::judge(named.len(), &directed, first.case.better),
        noisy: directed.iter().filter(|one| one.is_noisy).count(),
        not_valid,
        numbers: directed.iter().map(|one| (one.from, one.to, one.value())).collect(),
        hosts: named.into_iter().map(|(name, _)| name).collect(),
    })
}

/// The hosts from and to which a record is, and its other parameters. What goes both ways at once
/// has no direction.
fn ends<'a>(run: &'a FleetRun, entry: &'a FleetEntry) -> Option<(Params, MatrixEnds<'a>)> {
    let (own, far) = (key(&run.head.host), entry.case.far.as_ref()?.key());
    let mut params = Some(entry.case.params.clone()).filter(|_| far != own)?;
    params.0.remove("to");
    let direction = params.0.remove("direction").map(|it| it.to_string());
    match direction.as_deref() {
        None | Some("send") => Some((params, [own, far])),
        Some("receive") => Some((params, [far, own])),
        Some(_) => None,
    }
}
