//! Numbers between hosts, from the runs that measured them: each host to others, by their names.

use std::collections::{BTreeMap, BTreeSet};

use fathom_record::{Better, Document, Host, MetricId, Params, Record, Unit};
use serde::Serialize;

use super::pairs::{self, Directed, Pairs};
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

type MatrixEnds<'a> = [&'a Host; 2];

/// The matrices of metrics that at least five hosts have measured between each other, or fewer that
/// have measured to each other: those are not judged.
pub(super) fn matrices(runs: &[&Document]) -> Vec<Matrix> {
    BETWEEN.iter().filter_map(|metric| matrix(metric, runs)).collect()
}

fn matrix(metric: &str, runs: &[&Document]) -> Option<Matrix> {
    let mut newest_first = runs.to_vec();
    newest_first.sort_by(|a, b| b.run.id.cmp(&a.run.id));
    let mut cases: BTreeMap<Params, Vec<(MatrixEnds<'_>, &Record)>> = BTreeMap::new();
    for run in newest_first {
        for record in run.records.iter().filter(|record| record.metric.as_str() == metric) {
            let Some((params, ends)) = ends(run, record) else { continue };
            cases.entry(params).or_default().push((ends, record));
        }
    }
    let (params, found) = cases.into_iter().rev().max_by_key(|(_, found)| found.len())?;
    let ends = found.iter().flat_map(|(ends, _)| ends.iter().copied());
    let hosts: BTreeMap<(&str, &str), &Host> = ends.map(|host| (key(host), host)).collect();
    let calls = |run: &&&Document| !run.far.is_empty();
    let callers: BTreeSet<_> = runs.iter().filter(calls).map(|run| key(&run.host)).collect();
    let is_mutual = |ends: &MatrixEnds<'_>| ends.iter().all(|end| callers.contains(&key(end)));
    let are_among_each_other = found.iter().any(|(ends, _)| is_mutual(ends));
    if hosts.len() < HOSTS_MIN && !are_among_each_other {
        return None;
    }
    let mut named: Vec<(String, (&str, &str))> =
        hosts.iter().map(|(key, host)| (host.label(hosts.values().copied()), *key)).collect();
    named.sort_by(|a, b| names::order(&a.0).cmp(&names::order(&b.0)));
    let index: BTreeMap<(&str, &str), usize> =
        named.iter().enumerate().map(|(at, (_, key))| (*key, at)).collect();
    let mut numbers: BTreeMap<(usize, usize), Directed> = BTreeMap::new();
    let mut measured: BTreeSet<(usize, usize)> = BTreeSet::new();
    for ([from, to], record) in &found {
        let (from, to) = (index[&key(from)], index[&key(to)]);
        measured.insert((from, to));
        // The newest valid one counts, or that of the end named first; else the least noisy.
        if let Some(number) = Directed::between(from, to, record) {
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
        metric: first.metric.clone(),
        params,
        unit: first.unit,
        better: first.better,
        pairs: pairs::judge(named.len(), &directed, first.better),
        noisy: directed.iter().filter(|one| one.is_noisy).count(),
        not_valid,
        numbers: directed.iter().map(|one| (one.from, one.to, one.value())).collect(),
        hosts: named.into_iter().map(|(name, _)| name).collect(),
    })
}

/// The hosts from and to which a record is, and its other parameters. What goes both ways at once
/// has no direction.
fn ends<'a>(run: &'a Document, record: &Record) -> Option<(Params, MatrixEnds<'a>)> {
    let far = run.far_host(&record.params).filter(|far| key(far) != key(&run.host))?;
    let mut params = record.params.clone();
    params.0.remove("to");
    let direction = params.0.remove("direction").map(|it| it.to_string());
    match direction.as_deref() {
        None | Some("send") => Some((params, [&run.host, far])),
        Some("receive") => Some((params, [far, &run.host])),
        Some(_) => None,
    }
}
