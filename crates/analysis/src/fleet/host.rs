//! One host judged by the stored runs of its group: what `judge` says of it, without the others.

use fathom_record::Document;
use serde::Serialize;

use super::numbers::{self, Numbers};
use super::rows;
use super::{
    Fleet, FleetLimits, FleetRuns, HOSTS_MIN, Hardware, NotJudged, OddConduct, OddHost, conduct,
    key, odd_facts,
};
use crate::compare::ComparisonWord;

/// A host beside its group.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HostJudgement {
    pub hardware: Hardware,
    /// Hosts of this hardware, itself among them.
    pub hosts: usize,
    /// Cases of the run of which five hosts have a valid number.
    pub cases: usize,
    /// Those that were judged.
    pub judged: usize,
    /// In what it differs; empty where it does not.
    pub odd: OddHost,
    /// What was not judged, and why.
    pub not_judged: Vec<NotJudged>,
}

/// What a check says of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostAnswer {
    /// As its group.
    Usual,
    /// Fewer than half of its cases could be judged.
    Undecided,
    /// It differs in a fact, by a number that is better or only looks worse, or is noisy or slow.
    Differs,
    /// A number is worse, or another one where neither direction is better; or cases fail that its
    /// peers can measure.
    Odd,
    /// Its group has too few hosts, or no common case.
    Unknown,
}

impl HostJudgement {
    #[must_use]
    pub fn answer(&self) -> HostAnswer {
        let OddHost { numbers, facts, conduct, .. } = &self.odd;
        let is_odd =
            |word: ComparisonWord| word.is_certainly_worse() || word == ComparisonWord::Changed;
        let has_failed = conduct.iter().any(OddConduct::has_failed);
        if has_failed || numbers.iter().any(|number| is_odd(number.word)) {
            HostAnswer::Odd
        } else if !numbers.is_empty() || !facts.is_empty() {
            HostAnswer::Differs
        } else if self.hosts < HOSTS_MIN || self.cases == 0 {
            HostAnswer::Unknown
        } else if 2 * self.judged < self.cases {
            HostAnswer::Undecided
        } else if !conduct.is_empty() {
            HostAnswer::Differs
        } else {
            HostAnswer::Usual
        }
    }
}

/// Judges the host of `run` by the runs of its group, with false findings controlled over its own
/// cases. Other runs of the host in the group are not its peers.
///
/// # Panics
/// Never: the run is a member of the group.
#[must_use]
pub fn judge_host(run: &Document, runs: &FleetRuns, limits: &FleetLimits) -> HostJudgement {
    let own = key(&run.host);
    let others = runs.runs.iter().filter(|other| key(&other.head.host) != own);
    let itself: FleetRuns = [run].into_iter().collect();
    let fleet = Fleet::from_runs(others.chain(&itself.runs));
    let is_own = |member: &usize| key(fleet.members[*member].host()) == own;
    let find =
        |(at, (_, of)): (usize, &(Hardware, Vec<usize>))| Some((at, of.iter().position(is_own)?));
    let (number, at) =
        fleet.groups.iter().enumerate().find_map(find).expect("the run is in a group");
    let group = &fleet.groups[number];
    let (hardware, of) = group;
    let here = fleet.here(of);
    let found = rows::cases(&here);
    let conduct = conduct::conduct(&found, &here).swap_remove(at);
    let rows = rows::rows(&found, limits);
    let Numbers { odd, abstained, .. } = numbers::judge(&rows, here.len(), Some(at));
    let not_judged = fleet.not_judged(of, abstained);
    let is_whole = not_judged.iter().all(|it| it.subject.is_some());
    let has = |row: &&rows::AnalysisRow<'_>| {
        row.sides.len() >= HOSTS_MIN
            && itself.runs[0].entries.iter().any(|entry| entry.case.subject() == row.subject)
    };
    let is_judged = |row: &&&rows::AnalysisRow<'_>| {
        let is_of_row = |it: &NotJudged| it.subject.as_ref() == Some(&row.subject);
        row.sides.iter().any(|side| side.member == at) && !not_judged.iter().any(is_of_row)
    };
    let cases: Vec<&rows::AnalysisRow<'_>> = rows.iter().filter(has).collect();
    let facts = odd_facts(&fleet.facts[of[at]], &fleet.peers(group));
    HostJudgement {
        hardware: hardware.clone(),
        hosts: here.len(),
        cases: cases.len(),
        judged: if is_whole { cases.iter().filter(is_judged).count() } else { 0 },
        odd: OddHost {
            host: here[at].name.clone(),
            numbers: odd.into_iter().flat_map(|(_, numbers)| numbers).collect(),
            conduct,
            facts,
        },
        not_judged,
    }
}
