//! The history of a metric: its values in all stored runs of a host, and their change points
//! (METHOD 30).
//!
//! Hosts are never pooled: a series is one case on one host at one effort. A new kernel or setting
//! does not start a new series; it is listed with the change at which it appeared.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::panic::resume_unwind;
use std::thread;

use fathom_record::host::name_with_id;
use fathom_record::{
    Better, Effort, Headline, Host, Outline, Params, Record, RunHead, State, Stratum, Unit,
};
use serde::Serialize;

use crate::differences::{Difference, differences};
use crate::statistics::{Candidates, ChangePoint, Strictness, mean};
use crate::subject::subjects;

/// A change point has p ≤ 0.01, an effect of at least 1 % as in a comparison, and at least three
/// runs on each side.
pub(crate) const STRICTNESS: Strictness =
    Strictness { p_max: 0.01, effect_min: 0.01, stretch_min: 3 };
/// The fewest runs with a value in which a change point is possible.
pub const RUNS_MIN: usize = 2 * STRICTNESS.stretch_min;

/// The history of a metric on one host.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct History {
    pub metric: String,
    /// The newest name of the host, with the beginning of its id if other hosts have that name.
    pub host: String,
    /// The id of the host, or its name if it has none.
    pub host_id: String,
    /// One series per case, in order of first appearance.
    pub series: Vec<HistorySeries>,
    /// Ids of runs left out because a test setup changed the measurement.
    pub imposed: Vec<String>,
    /// Ids of runs left out because the CPU of an end is emulated.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub emulated: Vec<String>,
    /// Runs of this host without the selected cases.
    pub without: usize,
    /// Other hosts with runs of the metric.
    pub other_hosts: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HistorySeries {
    pub params: Params,
    /// The far host, with its id because names are not unique.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub far: Option<String>,
    pub unit: Unit,
    /// Which direction is an improvement.
    pub better: Better,
    /// All runs have one effort: others have series of their own.
    pub effort: Effort,
    /// The state of the core in which at least half of the runs were, else all processes.
    pub stratum: Stratum,
    /// Oldest first.
    pub points: Vec<HistoryPoint>,
    pub changes: Vec<Change>,
    /// Changes left out because the core frequency changed as much, by a few percent.
    pub explained: usize,
    /// Where the name of the case became that of another command or benchmark.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<OtherSubject>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OtherSubject {
    /// The first run of it.
    pub run: String,
    pub before: String,
    pub after: String,
}

/// The case in one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HistoryPoint {
    pub run: String,
    /// Its label, where it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// When it began, RFC 3339.
    pub started: String,
    /// The headline. Absent if the record is invalid or the run was interrupted during the case.
    pub value: Option<f64>,
    /// Whether the value is over all processes, because the core was in another state than in the
    /// series: it is left out of the change detection.
    pub slow: bool,
    pub interval: Option<[f64; 2]>,
    /// Upper bound of a difference that is too uncertain to be a number.
    pub bound: Option<f64>,
    pub state: State,
    /// Whether the run was interrupted during the case.
    pub cut_short: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// The first run after the change.
    pub run: String,
    pub started: String,
    pub after_run: String,
    /// Mean between the previous change and this one.
    pub before: f64,
    /// Mean between this change and the next.
    pub after: f64,
    /// after ÷ before.
    pub ratio: f64,
    /// Two-sided p of Student's t-test, corrected for the number of candidate positions.
    pub p: f64,
    /// Whether it is a regression. Absent if neither direction is better.
    pub worse: Option<bool>,
    /// Whether it is a change of the values over all processes: in the newest runs the core was in
    /// another state than in the series.
    pub as_found: bool,
    /// Differences between the runs before and after the change.
    pub differences: Vec<Difference>,
}

/// The history of a metric on the host with this [`Host::identity`], from runs, oldest first.
pub fn history(
    metric: &str,
    host: &str,
    runs: &[Outline],
    selects: &dyn Fn(&Params) -> bool,
) -> History {
    let has_it = |run: &&Outline| run.headlines.iter().any(|one| selects(&one.params));
    let with_it: Vec<&Outline> = runs.iter().filter(has_it).collect();
    let hosts = newest_hosts(runs);
    let label = |host: &Host| host.label(hosts.values().copied());
    let elsewhere = with_it.iter().map(|run| run.host.identity());
    let elsewhere: BTreeSet<&str> = elsewhere.filter(|id| *id != host).collect();
    let other_hosts: BTreeSet<String> = elsewhere.iter().map(|id| label(hosts[id])).collect();
    let is_ours = |run: &Outline| run.host.identity() == host;
    let of_host = runs.iter().filter(|run| is_ours(run)).count();
    let ours = with_it.iter().copied().filter(|run| is_ours(run));
    let without = of_host - ours.clone().count();
    let (imposed, ours): (Vec<&Outline>, Vec<&Outline>) = ours.partition(|one| is_imposed(one));
    // Two far hosts are two series even if they have one name.
    let mut numbers: BTreeMap<(&Params, &str, &str), usize> = BTreeMap::new();
    let mut cases: Vec<HistoryCase<'_>> = Vec::new();
    let mut emulated: Vec<String> = Vec::new();
    for run in &ours {
        for headline in run.headlines.iter().filter(|one| selects(&one.params)) {
            if RunHead::from(*run).is_emulated(&headline.params) {
                emulated.push(run.run.id.clone());
                continue;
            }
            let far = RunHead::from(*run).far_host(&headline.params).map_or("", Host::identity);
            // Interval and drift depend on the effort, and so may the value.
            let key = (&*headline.params, far, run.run.effort.word());
            let number = *numbers.entry(key).or_insert(cases.len());
            match cases.get_mut(number) {
                // A record in another unit is another quantity.
                Some(case) if case[0].1.unit != headline.unit => {}
                Some(case) => case.push((run, headline)),
                None => cases.push(vec![(run, headline)]),
            }
        }
    }
    emulated.dedup();
    History {
        metric: metric.to_owned(),
        host: hosts.get(host).map_or_else(|| host.to_owned(), |host| label(host)),
        host_id: host.to_owned(),
        series: all_series(&cases),
        imposed: imposed.into_iter().map(|one| one.run.id.clone()).collect(),
        emulated,
        without,
        other_hosts: other_hosts.into_iter().collect(),
    }
}

/// The record of a case in a run, by the id of the run.
pub type CaseRecords = HashMap<(String, Params), Record>;

impl History {
    /// With where its cases became those of other commands, which only records say.
    #[must_use]
    pub fn with_others(mut self, records: &CaseRecords) -> Self {
        for series in &mut self.series {
            let of =
                |point: &HistoryPoint| records.get(&(point.run.clone(), series.params.clone()));
            let known: Vec<_> =
                series.points.iter().filter_map(|one| Some((&one.run, of(one)?))).collect();
            let others = known.windows(2).filter_map(|pair| {
                let [before, after] = subjects(pair[0].1, pair[1].1)?;
                Some(OtherSubject { run: pair[1].0.clone(), before, after })
            });
            series.others = others.collect();
        }
        self
    }
}

/// Each host as recorded by its newest run, by identity: it may have been renamed.
fn newest_hosts(runs: &[Outline]) -> BTreeMap<&str, &Host> {
    runs.iter().map(|run| (run.host.identity(), &*run.host)).collect()
}

/// A case in the runs that have it, oldest first.
type HistoryCase<'a> = Vec<(&'a Outline, &'a Headline)>;

/// The series of all cases, in parallel: of thousands of runs each takes a while.
fn all_series(cases: &[HistoryCase<'_>]) -> Vec<HistorySeries> {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let share = cases.len().div_ceil(threads).max(1);
    let of_share = |cases: &[HistoryCase<'_>]| cases.iter().map(|case| series(case)).collect();
    thread::scope(|scope| {
        // Without a thread for it, a share is computed here.
        let start = |cases| {
            let thread = thread::Builder::new();
            let worker =
                thread.spawn_scoped(scope, move || -> Vec<HistorySeries> { of_share(cases) });
            worker.map_err(|_| of_share(cases))
        };
        let workers: Vec<_> = cases.chunks(share).map(start).collect();
        let join = |worker: Result<
            thread::ScopedJoinHandle<'_, Vec<HistorySeries>>,
            Vec<HistorySeries>,
        >| {
            worker.map_or_else(|done| done, |it| it.join().unwrap_or_else(|it| resume_unwind(it)))
        };
        workers.into_iter().flat_map(join).collect()
    })
}

fn is_imposed(outline: &Outline) -> bool {
    !outline.run.imposed.is_empty()
}

/// One case, from at least one headline, oldest first.
fn series(case: &[(&Outline, &Headline)]) -> HistorySeries {
    let first = case[0].1;
    // One stratum per series: a change of stratum is no change of the metric.
    let valued: Vec<&Headline> =
        case.iter().map(|(_, it)| *it).filter(|it| it.value.is_some() && !it.cut_short).collect();
    let count = |state: Stratum| valued.iter().filter(|it| it.stratum.is_of(state)).count();
    let most = Stratum::STATES.into_iter().max_by_key(|state| count(*state));
    let stratum = most.filter(|most| count(*most) > 0 && 2 * count(*most) >= valued.len());
    let stratum = stratum.unwrap_or(Stratum::AsFound);
    let is_found = stratum == Stratum::AsFound;
    let points: Vec<HistoryPoint> =
        case.iter().map(|(run, headline)| point(run, headline, stratum)).collect();
    let compared = HistoryCompared::from_case(case, &points, is_found);
    let (found, explained) = compared.changes();
    let mut changes: Vec<Change> =
        found.into_iter().map(|found| change(&found, &compared, case, false)).collect();
    changes.extend(slow_for_good(case, &points, is_found));
    let (params, unit, better) = (Params::clone(&first.params), first.unit, first.better);
    let far = RunHead::from(case[0].0)
        .far_host(&params)
        .map(|far| name_with_id(&far.name, far.id.as_deref()));
    let effort = case[0].0.run.effort;
    let others = Vec::new();
    HistorySeries { params, far, unit, better, effort, stratum, points, changes, explained, others }
}

/// The values of one stratum, for the change detection.
struct HistoryCompared {
    unit: Unit,
    values: Vec<Comparable>,
}

struct Comparable {
    /// The index of its point.
    at: usize,
    value: f64,
    /// The time of a fixed number of cycles of a core to itself in that run.
    cycle_ns: Option<f64>,
}

/// Core frequencies up to this share apart are one speed, as in a clean round.
const ONE_SPEED: f64 = 0.05;

impl HistoryCompared {
    /// The points that are not slow.
    fn from_case(case: &[(&Outline, &Headline)], points: &[HistoryPoint], is_found: bool) -> Self {
        let usable = |at: &usize| !points[*at].cut_short && !points[*at].slow;
        Self::at((0..case.len()).filter(usable), case, is_found)
    }

    fn at(
        indices: impl Iterator<Item = usize>,
        case: &[(&Outline, &Headline)],
        is_found: bool,
    ) -> Self {
        let comparable = |at: usize| {
            let (run, headline) = case[at];
            let (value, _) = headline.in_stratum(is_found)?;
            Some(Comparable { at, value, cycle_ns: run.run.reference.map(|it| it.frequency_ns) })
        };
        Self { unit: case[0].1.unit, values: indices.filter_map(comparable).collect() }
    }

    fn values(&self) -> Vec<f64> {
        self.values.iter().map(|one| one.value).collect()
    }

    /// The changes, and how many others the core frequency explains.
    fn changes(&self) -> (Vec<ChangePoint>, usize) {
        let is_explained = |change: &ChangePoint, ends: [usize; 3]| self.is_explained(change, ends);
        let values = self.values();
        let candidates = Candidates::of_series(&values, &STRICTNESS);
        let (found, all) =
            (candidates.confirmed(&is_explained), candidates.confirmed(&|_, _| false).len());
        let explained = all.saturating_sub(found.len());
        (found, explained)
    }

    /// Whether the core frequency wandered between both segments, and explains the change up to
    /// less than the smallest that is reported. The metric may depend on the frequency wholly, in
    /// part or not at all.
    fn is_explained(&self, change: &ChangePoint, [start, at, end]: [usize; 3]) -> bool {
        let mean_ns = |part: &[Comparable]| {
            let times: Vec<f64> = part.iter().filter_map(|one| one.cycle_ns).collect();
            mean(&times)
        };
        let (before, after) = (&self.values[start..at], &self.values[at..end]);
        let Some((before, after)) = mean_ns(before).zip(mean_ns(after)) else { return false };
        let core = after / before;
        let by_core = match self.unit {
            Unit::Nanoseconds => core.ln(),
            Unit::BytesPerSecond | Unit::PerSecond | Unit::Hertz => -core.ln(),
            Unit::Bytes | Unit::Ratio => return false,
        };
        let here = (change.after / change.before).ln();
        let rest = if here * by_core > 0.0 { here.abs() - by_core.abs() } else { here.abs() };
        core.ln().abs() <= ONE_SPEED.ln_1p() && rest < STRICTNESS.effect_min.ln_1p()
    }
}

/// A change at which a core became slow and stayed so: the newest runs of a series are of another
/// state. Slow spells that ended are left out.
fn slow_for_good(
    case: &[(&Outline, &Headline)],
    points: &[HistoryPoint],
    is_found: bool,
) -> Option<Change> {
    let valued = || points.iter().enumerate().filter(|(_, point)| point.value.is_some());
    let mut fast = valued().filter(|(_, point)| !point.slow).map(|(at, _)| at);
    let last_fast = fast.next_back().filter(|_| !is_found)?;
    let usable = |at: &usize| !points[*at].cut_short && (*at > last_fast || !points[*at].slow);
    let compared = HistoryCompared::at((0..case.len()).filter(usable), case, true);
    let is_newest = |found: &ChangePoint| compared.values[found.index].at > last_fast;
    let found = compared.changes().0.into_iter().find(is_newest)?;
    Some(change(&found, &compared, case, true))
}

fn change(
    found: &ChangePoint,
    compared: &HistoryCompared,
    case: &[(&Outline, &Headline)],
    as_found: bool,
) -> Change {
    let of = |index: usize| case[compared.values[index].at];
    let ((before, _), (after, headline)) = (of(found.index - 1), of(found.index));
    Change {
        run: after.run.id.clone(),
        started: after.run.started.clone(),
        after_run: before.run.id.clone(),
        before: found.before,
        after: found.after,
        ratio: found.after / found.before,
        p: found.p,
        worse: headline.better.improves(found.after > found.before).map(|better| !better),
        as_found,
        differences: differences(before, after),
    }
}

fn point(Outline { run, .. }: &Outline, headline: &Headline, stratum: Stratum) -> HistoryPoint {
    let is_found = stratum == Stratum::AsFound;
    // An interrupted case has too few processes to compare.
    let whole = |value: Option<f64>| value.filter(|_| !headline.cut_short);
    let is_elsewhere = !is_found && !headline.stratum.is_of(stratum);
    let slow = is_elsewhere && headline.value.is_some();
    let (value, interval) = headline.in_stratum(is_found || slow).unzip();
    HistoryPoint {
        slow,
        run: run.id.clone(),
        label: run.label.clone(),
        started: run.started.clone(),
        value: whole(value),
        interval: interval.flatten().filter(|_| !headline.cut_short),
        bound: whole(headline.bound),
        state: headline.state,
        cut_short: headline.cut_short,
    }
}
