//! Numbers in which a host differs from its group.

use fathom_record::{MetricId, State, Stratum, Unit};
use serde::Serialize;

use super::HOSTS_MIN;
use super::classes::{is_of, together};
use super::rows::{AnalysisRow, FleetCase, FleetJudged, FleetSubject};
use super::series::{
    Bimodal, FEW_MEMBERS, SeriesSide, Test, are_many, bimodal, discoveries, discoveries_of, priors,
    tests,
};
use crate::compare::{ComparisonWord, word_for};

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
        if divided.iter().any(|class| is_of(subject, class)) {
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

/// Members who are odd, with the tests that show it. More than a quarter of them are no odd ones
/// out: those that are odd in single cases are left out first.
fn odd_members(
    all: &[FleetJudged],
    (members, only): (usize, Option<usize>),
    abstained: &mut Vec<Abstained>,
) -> Vec<(usize, Vec<(Test, f64)>)> {
    let mut tests = match members {
        // A host that is odd in all is a good part of the spread of few: the others judge it.
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
        Some(_) => is_of(&row.subject, &subject.metric),
        None => row.subject == *subject,
    };
    let unfiltered = rows.iter().filter(|row| row.stratum == Stratum::AsFound);
    let mut runs = unfiltered.filter(is_of).flat_map(|row| &row.found);
    runs.any(|one| one.member == member && one.run.head.run.verdict.state != State::Valid)
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
    let first = case.map(|row| &row.found[0].entry.case);
    let side = sides.iter().find(|side| side.member == member && first.is_some());
    let word = match first {
        Some(case) => word_for(effect > 0.0, false, case.better, case.unit),
        None if effect > 0.0 => ComparisonWord::Slower,
        None => ComparisonWord::Faster,
    };
    OddNumber {
        subject: subject.clone(),
        value: side.map(|side| side.ln.exp()),
        usual: side.map(|side| (side.ln - effect).exp()),
        unit: first.map(|case| case.unit),
        ratio: effect.exp(),
        z,
        p_adjusted,
        word,
    }
}
