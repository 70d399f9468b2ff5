//! Numbers in which a host differs from its group.

use std::collections::{BTreeMap, BTreeSet};

use fathom_record::host::name_with_id;
use fathom_record::{Better, Host, Interval, MetricId, Params, Protocol, State, Stratum, Unit};
use serde::Serialize;

use super::classes::{is_of, together};
use super::series::{
    Bimodal, FEW_MEMBERS, SeriesSide, Test, are_many, bimodal, discoveries, discoveries_of, priors,
    spread, tests,
};
use super::{BETWEEN, FleetLimits, FleetMember, HOSTS_MIN, key};
use crate::compare::{ComparisonWord, RunRecord, changed_word, stratum_of};
use crate::display_value::DisplayValue;
use crate::statistics::{median_interval, standard_error};

/// Smaller effects are not odd.
pub(super) const EFFECT_MIN: f64 = 0.03;

/// A case, or the cases of a resource together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FleetSubject {
    /// The metric, or the resource, such as `cache and memory`.
    pub metric: MetricId,
    /// The parameters of a case.
    pub params: Params,
    /// The far host, where the case has two ends, with its id because names are not unique.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub far: Option<String>,
    /// How many cases together; absent for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cases: Option<usize>,
}

/// A number in which a host differs from its group.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OddNumber {
    #[serde(flatten)]
    pub subject: FleetSubject,
    /// Of a case, the number of the host.
    pub value: Option<f64>,
    /// Of a case, the median of the group.
    pub usual: Option<f64>,
    pub unit: Option<Unit>,
    /// Host ÷ group. Of cases together, how many times slower it is over these.
    pub ratio: f64,
    /// The difference in standard deviations: of hosts and its own uncertainty.
    pub z: f64,
    /// Allowing for the number of cases of the host (Benjamini and Hochberg).
    pub p_adjusted: f64,
    pub word: ComparisonWord,
}

/// A case of the group.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FleetCase {
    pub metric: MetricId,
    pub params: Params,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub far: Option<String>,
    pub unit: Unit,
    pub better: Better,
    /// Hosts with a valid number, which alone are compared.
    pub valid: usize,
    /// Hosts with a noisy number.
    pub noisy: usize,
    /// The median of the valid numbers.
    pub median: Option<f64>,
    /// How much hosts differ (Qn), as a share.
    pub spread: Option<f64>,
}

/// What was not judged by peers.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Abstained {
    pub(super) subject: Option<FleetSubject>,
    pub(super) reason: String,
    /// The hosts on one side of what divides the group.
    pub(super) part: Vec<usize>,
}

#[derive(Debug, Default)]
pub(super) struct Numbers {
    pub(super) cases: Vec<FleetCase>,
    /// By member.
    pub(super) odd: Vec<(usize, Vec<OddNumber>)>,
    pub(super) abstained: Vec<Abstained>,
}

/// One case of all members that have a valid number.
pub(super) struct AnalysisRow<'a> {
    pub(super) subject: FleetSubject,
    pub(super) found: Vec<(usize, RunRecord<'a>)>,
    pub(super) sides: Vec<SeriesSide>,
    pub(super) stratum: Stratum,
    pub(super) effect_min: f64,
    noisy: usize,
}

impl AnalysisRow<'_> {
    pub(super) fn better(&self) -> Better {
        self.found[0].1.record.better
    }

    /// The fewest processes behind the numbers of some members.
    pub(super) fn processes(&self, members: [usize; 2]) -> usize {
        let found = self.found.iter().filter(|(member, _)| members.contains(member));
        let counts = found.filter_map(|(_, one)| one.estimate(self.stratum));
        counts.map(|it| it.process_medians.len()).min().unwrap_or(0)
    }

    /// Of the valid numbers.
    pub(super) fn median(&self) -> Option<f64> {
        Some(spread(&self.sides)?.middle.exp())
    }

    fn case(&self) -> FleetCase {
        let first = self.found[0].1.record;
        let spread = spread(&self.sides);
        FleetCase {
            metric: first.metric.clone(),
            params: first.params.clone(),
            far: self.subject.far.clone(),
            unit: first.unit,
            better: first.better,
            valid: self.sides.len(),
            noisy: self.noisy,
            median: spread.map(|it| it.middle.exp()),
            spread: spread.map(|it| it.qn.exp_m1()),
        }
    }
}

/// The records of one case by member, in any state.
pub(super) type FleetFound<'a> = Vec<(usize, RunRecord<'a>)>;

/// All cases. Of a host with several runs the newest that has the case. Numbers to two
/// far hosts are two cases, though both may have one name; to hosts that measure to others
/// themselves they are no cases of a host: hosts and links are taken apart.
pub(super) fn cases<'a>(members: &[&FleetMember<'a>]) -> Vec<FleetFound<'a>> {
    let mut cases: BTreeMap<(&MetricId, &Params, &str), FleetFound<'a>> = BTreeMap::new();
    let calls = |member: &&&FleetMember<'_>| member.runs.iter().any(|run| !run.far.is_empty());
    let callers: BTreeSet<(&str, &str)> =
        members.iter().filter(calls).map(|member| key(member.host())).collect();
    for (index, member) in members.iter().enumerate() {
        for run in &member.runs {
            for record in run.records.iter().rev() {
                let far = run.far_host(&record.params);
                let is_between = far.is_some_and(|far| callers.contains(&key(far)))
                    && BETWEEN.contains(&record.metric.as_str());
                if is_between {
                    continue;
                }
                let far = far.map_or("", Host::identity);
                let found = cases.entry((&record.metric, &record.params, far)).or_default();
                if found.last().is_none_or(|(last, _)| *last != index) {
                    found.push((index, RunRecord { record, run }));
                }
            }
        }
    }
    cases.into_values().collect()
}

/// The rows of all cases.
pub(super) fn rows<'a>(cases: &[FleetFound<'a>], limits: &FleetLimits) -> Vec<AnalysisRow<'a>> {
    let row = |found: &FleetFound<'a>| {
        let limit = limits.get(found[0].1.record.metric.as_str()).copied().unwrap_or(0.0);
        row(subject(found[0].1), found.clone(), EFFECT_MIN.max(limit))
    };
    cases.iter().filter_map(row).collect()
}

pub(super) fn subject(one: RunRecord<'_>) -> FleetSubject {
    let RunRecord { record, run } = one;
    let far = run.far_host(&record.params);
    FleetSubject {
        metric: record.metric.clone(),
        params: record.params.clone(),
        far: far.map(|far| name_with_id(&far.name, far.id.as_deref())),
        cases: None,
    }
}

/// `None` if no host has a number.
fn row(
    subject: FleetSubject,
    mut found: FleetFound<'_>,
    effect_min: f64,
) -> Option<AnalysisRow<'_>> {
    found.retain(|(_, one)| {
        let is_number = matches!(
            DisplayValue::from_record(one.record, Protocol::Median),
            DisplayValue::Number(_)
        );
        is_number && !one.record.verdict.is_emulated() && one.record.on_cliff().is_none()
    });
    let of_all = found.len();
    found.retain(|(_, one)| one.record.verdict.state == State::Valid);
    let noisy = of_all - found.len();
    let first = found.first()?.1.record;
    found.retain(|(_, one)| (one.record.unit, one.record.better) == (first.unit, first.better));
    let stratum = stratum_of(&found.iter().map(|(_, one)| *one).collect::<Vec<_>>());
    let side = |(member, one): &(usize, RunRecord<'_>)| {
        let it = one.estimate(stratum)?;
        let (ln, own) = logarithm(it.median, it.interval, &it.process_medians)?;
        Some(SeriesSide { member: *member, ln, own })
    };
    let sides = found.iter().filter_map(side).collect();
    Some(AnalysisRow { subject, sides, stratum, noisy, effect_min, found })
}

/// The logarithm of a number and its standard error, by the interval over process medians; `None`
/// without an interval, or for a number that is not positive.
pub(super) fn logarithm(
    number: f64,
    interval: Option<Interval>,
    process_medians: &[f64],
) -> Option<(f64, f64)> {
    let (limits, level) = match interval {
        Some(interval) => (interval.limits(), interval.level),
        None => median_interval(process_medians)?,
    };
    let (ln, own) = (number.ln(), standard_error(limits.map(f64::ln), level)?);
    (ln.is_finite() && own.is_finite()).then_some((ln, own))
}

/// What the members of a group have odd, or `only` one of them if nobody asks about the others.
pub(super) fn judge(rows: &[AnalysisRow<'_>], members: usize, only: Option<usize>) -> Numbers {
    let mut numbers =
        Numbers { cases: rows.iter().map(AnalysisRow::case).collect(), ..Numbers::default() };
    let enough = rows.iter().filter(|row| row.sides.len() >= HOSTS_MIN);
    let mut all: Vec<FleetJudged> =
        enough.map(|row| (row.subject.clone(), row.sides.clone(), row.effect_min)).collect();
    let together = together(rows, members);
    // What divides the cases of a resource together divides each, if less visibly.
    let mut divided: Vec<MetricId> = Vec::new();
    for (subject, sides, least) in &together {
        if let Some(found) = bimodal(sides, *least) {
            divided.push(subject.metric.clone());
            numbers.abstained.push(abstained(subject, &found, sides.len()));
        }
    }
    all.retain(|(subject, sides, least)| {
        if divided.iter().any(|class| is_of(&subject.metric, class)) {
            return false;
        }
        let found = bimodal(sides, *least);
        numbers.abstained.extend(found.as_ref().map(|it| abstained(subject, it, sides.len())));
        found.is_none()
    });
    all.extend(together.into_iter().filter(|(subject, ..)| !divided.contains(&subject.metric)));
    let odd = odd_members(&all, (members, only), &mut numbers.abstained);
    let number = |member: usize, (test, p): &(Test, f64)| {
        let number = odd_number(rows, &all[test.series], *test, *p);
        let word = if is_doubted(rows, &number.subject, member) {
            number.word.doubted()
        } else {
            number.word
        };
        OddNumber { word, ..number }
    };
    let of_member = |(member, tests): &(usize, Vec<(Test, f64)>)| {
        (*member, tests.iter().map(|test| number(*member, test)).collect())
    };
    numbers.odd = odd.iter().map(of_member).collect();
    numbers
}

/// A subject, its numbers, and the least effect.
pub(super) type FleetJudged = (FleetSubject, Vec<SeriesSide>, f64);

/// Members who are odd, with the tests that show it. More than a quarter of them are no odd ones
/// out: those that are odd in single cases are left out first.
fn odd_members(
    all: &[FleetJudged],
    (members, only): (usize, Option<usize>),
    abstained: &mut Vec<Abstained>,
) -> Vec<(usize, Vec<(Test, f64)>)> {
    let mut tests = match members {
        // A host that is odd in all is a good part of the spread of few: it is judged by the others.
        few if few <= FEW_MEMBERS => (0..few).flat_map(|one| all_tests(all, Some(one))).collect(),
        _ => all_tests(all, None),
    };
    let is_together = |test: &Test| test.is_together;
    loop {
        let mut odd = discoveries(&tests, members);
        odd.retain(|(_, tests)| !tests.is_empty());
        if !are_many(odd.len(), members) {
            return only.map_or(odd, |member| discoveries_of(member, &tests));
        }
        let is_single = !tests.iter().all(is_together);
        let what = if is_single { "differ in single cases" } else { "differ" };
        abstained.push(Abstained {
            subject: None,
            reason: format!("{} of {members} hosts {what}: more than a quarter", odd.len()),
            part: odd.iter().map(|(member, _)| *member).collect(),
        });
        // Nothing more to leave out ends with no odd member.
        tests.retain(|test| is_single && is_together(test));
    }
}

/// The tests of all members by all, or of one by the others.
fn all_tests(all: &[FleetJudged], only: Option<usize>) -> Vec<Test> {
    let split = |(_, sides, _): &FleetJudged| -> [Vec<SeriesSide>; 2] {
        let Some(only) = only else { return [sides.clone(), sides.clone()] };
        let (own, others): (Vec<_>, Vec<_>) = sides.iter().partition(|it| it.member == only);
        [own, others]
    };
    let split: Vec<[Vec<SeriesSide>; 2]> = all.iter().map(split).collect();
    let is_of_several = |at: usize| all[at].0.cases.is_some();
    let [together, single] = priors([true, false].map(|several| {
        let of_kind = (0..all.len()).filter(|at| is_of_several(*at) == several);
        of_kind.map(|at| split[at][1].as_slice()).collect()
    }));
    let of_one = |at: usize| {
        let ([sides, peers], is_together) = (&split[at], is_of_several(at));
        let prior = if is_together { together } else { single };
        let tests = tests(at, (sides, peers), all[at].2, [peers.len(), 0], prior).into_iter();
        tests.map(move |test| Test { is_together, ..test })
    };
    (0..all.len()).flat_map(of_one).collect()
}

/// Whether unfiltered numbers are of a run that is noisy as a whole.
fn is_doubted(rows: &[AnalysisRow<'_>], subject: &FleetSubject, member: usize) -> bool {
    let is_of = |row: &&AnalysisRow<'_>| match subject.cases {
        Some(_) => is_of(&row.subject.metric, &subject.metric),
        None => row.subject == *subject,
    };
    let unfiltered = rows.iter().filter(|row| row.stratum == Stratum::AsFound);
    let mut runs = unfiltered.filter(is_of).flat_map(|row| &row.found);
    runs.any(|(of, one)| *of == member && one.run.run.verdict.state != State::Valid)
}

fn abstained(subject: &FleetSubject, found: &Bimodal, of: usize) -> Abstained {
    let reason = found.words(of, "hosts");
    Abstained { subject: Some(subject.clone()), reason, part: found.part.clone() }
}

fn odd_number(
    rows: &[AnalysisRow<'_>],
    (subject, sides, _): &FleetJudged,
    Test { member, effect, z, .. }: Test,
    p_adjusted: f64,
) -> OddNumber {
    let case = rows.iter().find(|row| row.subject == *subject);
    let first = case.map(|row| row.found[0].1.record);
    let side = sides.iter().find(|side| side.member == member && first.is_some());
    let word = match first {
        Some(record) => changed_word(effect > 0.0, false, record),
        None if effect > 0.0 => ComparisonWord::Slower,
        None => ComparisonWord::Faster,
    };
    OddNumber {
        subject: subject.clone(),
        value: side.map(|side| side.ln.exp()),
        usual: side.map(|side| (side.ln - effect).exp()),
        unit: first.map(|record| record.unit),
        ratio: effect.exp(),
        z,
        p_adjusted,
        word,
    }
}
