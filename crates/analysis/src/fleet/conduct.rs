//! Hosts that do not measure as their peers do: cases that fail, are noisy or take long on one host
//! alone. They have no number to be judged by.

use std::collections::BTreeMap;

use fathom_record::{Cause, State};
use serde::Serialize;

use super::rows::{FleetFound, FleetSubject};
use super::runs::FleetRun;
use super::series::{SeriesSide, Test, discoveries, tests};
use super::{FleetMember, HOSTS_MIN};
use crate::statistics::median;

/// Of the other hosts so many per cent have a number where one has none.
const USUAL_PERCENT: usize = 80;
/// A smaller excess of noisy cases is not odd, nor are fewer cases.
const NOISY_EXCESS_MIN: f64 = 0.2;
const NOISY_CASES_MIN: usize = 5;
/// A run that takes less longer than those of the others is not odd.
const SLOW_MIN: f64 = 0.25;
/// A share near 0 or 1 is uncertain, too.
const PSEUDO: f64 = 0.5;

/// What is odd about how a host measures.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum OddConduct {
    /// Cases without a number, where most of the others have one.
    Cases {
        /// Failed, invalid or unavailable.
        state: State,
        cases: usize,
        /// The most frequent cause.
        cause: Option<Cause>,
        /// The first of them.
        first: FleetSubject,
    },
    /// More of its cases are noisy than of those of the others.
    Noisy {
        cases: usize,
        /// Cases with a number.
        of: usize,
        /// The median share of the others.
        usual: f64,
        cause: Option<Cause>,
    },
    /// Its run took longer than those of the others.
    Slow { ns: f64, usual_ns: f64 },
}

impl OddConduct {
    /// Whether it failed to measure: noise and delay may be those of a busy moment.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        matches!(self, Self::Cases { state: State::Failed | State::Invalid, .. })
    }
}

/// What each member has odd, by member.
pub(super) fn conduct(cases: &[FleetFound<'_>], here: &[&FleetMember<'_>]) -> Vec<Vec<OddConduct>> {
    let mut all = without_number(cases, here.len());
    if here.len() < HOSTS_MIN {
        return all;
    }
    let noisy = (0..here.len()).map(|member| share(cases, member)).collect::<Vec<_>>();
    noisy_members(&noisy).into_iter().for_each(|(member, one)| all[member].push(one));
    slow_members(here).into_iter().for_each(|(member, one)| all[member].push(one));
    all
}

/// Why a case of a host has no number.
type CauseOfCase = (Option<Cause>, FleetSubject);

fn without_number(cases: &[FleetFound<'_>], members: usize) -> Vec<Vec<OddConduct>> {
    let mut found: Vec<BTreeMap<State, Vec<CauseOfCase>>> = vec![BTreeMap::new(); members];
    for case in cases {
        let have = case.iter().filter(|one| one.entry.state.shows_number()).count();
        let others = case.len().saturating_sub(1);
        if others + 1 < HOSTS_MIN || 100 * have < USUAL_PERCENT * others {
            continue;
        }
        for one in case {
            let entry = one.entry;
            // What ended early says nothing of the host; what lacks an input follows another case.
            let is_of_host = !entry.is_cut_short && entry.cause != Some(Cause::MissingInput);
            if !entry.state.shows_number() && is_of_host {
                let states = &mut found[one.member];
                states.entry(entry.state).or_default().push((entry.cause, entry.case.subject()));
            }
        }
    }
    let of_state = |(state, mut all): (State, Vec<CauseOfCase>)| {
        let cause = most_frequent(all.iter().filter_map(|(cause, _)| *cause));
        OddConduct::Cases { state, cases: all.len(), cause, first: all.swap_remove(0).1 }
    };
    // The worst state first.
    found.into_iter().map(|states| states.into_iter().rev().map(of_state).collect()).collect()
}

fn most_frequent(causes: impl Iterator<Item = Cause>) -> Option<Cause> {
    let mut counts: Vec<(Cause, usize)> = Vec::new();
    for cause in causes {
        match counts.iter_mut().find(|(known, _)| *known == cause) {
            Some((_, count)) => *count += 1,
            None => counts.push((cause, 1)),
        }
    }
    counts.into_iter().rev().max_by_key(|(_, count)| *count).map(|(cause, _)| cause)
}

/// Noisy cases, cases with a number, and the cause.
fn share(cases: &[FleetFound<'_>], member: usize) -> (usize, usize, Option<Cause>) {
    let own = cases.iter().filter_map(|case| case.iter().find(|one| one.member == member));
    let shown: Vec<_> =
        own.map(|one| one.entry).filter(|entry| entry.state.shows_number()).collect();
    let noisy: Vec<_> = shown.iter().filter(|entry| entry.state == State::Noisy).collect();
    let causes = noisy.iter().filter_map(|entry| entry.cause);
    (noisy.len(), shown.len(), most_frequent(causes))
}

/// By the arcsine of the root, in which shares of equal counts are equally uncertain (Bartlett).
fn noisy_members(shares: &[(usize, usize, Option<Cause>)]) -> Vec<(usize, OddConduct)> {
    let ratio = |(noisy, shown, _): &(usize, usize, Option<Cause>)| {
        (*noisy as f64 + PSEUDO) / (*shown as f64 + 2.0 * PSEUDO)
    };
    let enough = |(_, it): &(usize, &(usize, usize, Option<Cause>))| it.1 >= NOISY_CASES_MIN;
    let judged = shares.iter().enumerate().filter(enough);
    let side = |(member, it): (usize, &(usize, usize, Option<Cause>))| SeriesSide {
        member,
        ln: ratio(it).sqrt().asin(),
        own: 0.5 / (it.1 as f64).sqrt(),
    };
    let sides: Vec<SeriesSide> = judged.clone().map(side).collect();
    let usual = median(&judged.map(|(_, it)| it.0 as f64 / it.1 as f64).collect::<Vec<_>>());
    let Some(usual) = usual.filter(|_| sides.len() >= HOSTS_MIN) else { return Vec::new() };
    let of = |member: usize| {
        let (cases, of, cause) = shares[member];
        let is_odd =
            cases >= NOISY_CASES_MIN && cases as f64 / of as f64 - usual > NOISY_EXCESS_MIN;
        is_odd.then_some((member, OddConduct::Noisy { cases, of, usual, cause }))
    };
    odd(&sides, 0.0, shares.len()).into_iter().filter_map(of).collect()
}

/// Of runs that were to measure the same.
fn slow_members(here: &[&FleetMember<'_>]) -> Vec<(usize, OddConduct)> {
    let asked = |FleetRun { head, .. }: &FleetRun| {
        (head.run.planned, head.run.effort, head.run.asked.clone())
    };
    let first = here.iter().map(|it| asked(it.runs[0])).collect::<Vec<_>>();
    let time = |(member, it): (usize, &&FleetMember<'_>)| {
        let alike = first.iter().filter(|other| **other == first[member]).count();
        let ns = it.runs[0].head.run.duration_ns.filter(|ns| *ns > 0.0 && alike >= HOSTS_MIN)?;
        Some(SeriesSide { member, ln: ns.ln(), own: 0.0 })
    };
    let sides: Vec<SeriesSide> = here.iter().enumerate().filter_map(time).collect();
    let usual = median(&sides.iter().map(|side| side.ln).collect::<Vec<_>>());
    let Some(usual) = usual.filter(|_| sides.len() >= HOSTS_MIN) else { return Vec::new() };
    let of = |member: usize| {
        let ln = sides.iter().find(|side| side.member == member)?.ln;
        Some((member, OddConduct::Slow { ns: ln.exp(), usual_ns: usual.exp() }))
    };
    odd(&sides, SLOW_MIN, here.len()).into_iter().filter_map(of).collect()
}

/// The members above the others.
fn odd(sides: &[SeriesSide], effect_min: f64, members: usize) -> Vec<usize> {
    let mut all = tests(0, (sides, sides), effect_min, [sides.len(), 0], None);
    let is_above = |test: &Test| test.effect > 0.0;
    all.iter_mut().filter(|test| !is_above(test)).for_each(|test| test.p = 1.0);
    let found = discoveries(&all, members).into_iter().filter(|(_, tests)| !tests.is_empty());
    found.map(|(member, _)| member).collect()
}
