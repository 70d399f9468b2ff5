//! Many hosts: which of them is odd, by its peers of the same hardware, and what all of them have
//! in common.
//!
//! Peers show what no prediction can: a host that is slower than those like it. What slows all of
//! them only prediction and typical range show. Between hosts, [`pairs`] takes hosts and links
//! apart; [`tournament`] says who measures with whom.

mod changes;
mod classes;
mod conduct;
mod facts;
mod groups;
mod host;
mod matrices;
pub mod names;
mod numbers;
pub mod pairs;
mod rows;
mod runs;
mod series;
mod strips;
mod tournament;
mod uniform;

pub use changes::{CaseChange, GroupComparison, HostChange, compare_groups};
pub use classes::visible;
pub use conduct::OddConduct;
pub use facts::OddFact;
pub use groups::Hardware;
pub use host::{HostAnswer, HostJudgement, judge_host};
pub use matrices::Matrix;
use matrices::matrices;
pub use numbers::OddNumber;
pub use rows::{FleetCase, FleetSubject};
pub use runs::FleetRuns;
pub use strips::{Drawing, Strip, strips};
pub use tournament::{TournamentRound, WHOLE_MAX, tournament};
pub use uniform::{Missed, Uniform};

use std::collections::BTreeMap;

use fathom_record::quantity::counted;
use fathom_record::{Cause, Counts, Host, State, first_causes};
use serde::Serialize;

use self::facts::{Facts, UsualFacts, dividing, facts_of, odd_facts, usual_facts};
use self::numbers::{Abstained, Numbers};
use self::runs::{FleetEntry, FleetRun};

/// Fewer hosts do not judge each other.
pub const HOSTS_MIN: usize = 5;

/// Metrics between two hosts, of each of which the case that most pairs have is judged.
const BETWEEN: [&str; 2] = ["network.tcp.rtt", "network.tcp.bandwidth"];

/// Noise limits of metrics, as shares: smaller differences are not odd.
pub type FleetLimits = BTreeMap<&'static str, f64>;

/// Hosts judged by their peers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judgement {
    pub hosts: usize,
    /// The largest first.
    pub groups: Vec<Group>,
    /// Numbers between hosts, where at least five have measured to each other: hosts and links
    /// apart.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub between: Vec<Matrix>,
}

/// Hosts of the same hardware.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Group {
    pub hardware: Hardware,
    /// In the order of their numbers: `node9` before `node10`.
    pub hosts: Vec<String>,
    /// The state of all their records.
    pub records: Counts,
    /// What makes records noisy, and how many, the most frequent first.
    pub noise: Vec<(Cause, usize)>,
    /// Hosts that differ from the others, in the order of `hosts`.
    pub odd: Vec<OddHost>,
    /// What was not judged by peers, and why.
    pub not_judged: Vec<NotJudged>,
    /// What is slow on all hosts.
    pub uniform: Vec<Uniform>,
    pub cases: Vec<FleetCase>,
}

/// A host that differs from its group: one finding.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OddHost {
    pub host: String,
    /// The largest effect first.
    pub numbers: Vec<OddNumber>,
    /// Cases that only it did not measure, or measured badly or slowly.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conduct: Vec<OddConduct>,
    /// What else is odd: a likely cause, no proof.
    pub facts: Vec<OddFact>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NotJudged {
    /// Absent for all numbers of the group.
    pub subject: Option<FleetSubject>,
    pub reason: String,
    /// The hosts on the smaller side of what divides the group.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub part: Vec<String>,
    /// The facts that divide it alike: a likely cause.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<OddFact>,
}

impl Group {
    /// How many cases were judged by peers.
    #[must_use]
    pub fn judged_cases(&self) -> usize {
        let abstained = |case: &&FleetCase| {
            let case = (&case.metric, &case.params, &case.far);
            self.not_judged
                .iter()
                .filter_map(|it| it.subject.as_ref())
                .any(|subject| (&subject.metric, &subject.params, &subject.far) == case)
        };
        let enough = self.cases.iter().filter(|case| case.valid >= HOSTS_MIN);
        if self.is_abstained() { 0 } else { enough.filter(|case| !abstained(case)).count() }
    }

    /// Whether its numbers were not judged as a whole.
    fn is_abstained(&self) -> bool {
        self.not_judged.iter().any(|it| it.subject.is_none())
    }
}

impl Judgement {
    /// Whether the hosts of some group judged each other: without `numbers` by facts alone.
    #[must_use]
    pub fn is_any_judged(&self, numbers: bool) -> bool {
        let is_judged = |group: &Group| match numbers {
            true => group.judged_cases() > 0,
            false => group.hosts.len() >= HOSTS_MIN,
        };
        let is_between = |it: &Matrix| it.pairs.usual.is_some();
        self.groups.iter().any(is_judged) || numbers && self.between.iter().any(is_between)
    }

    /// Whether a host is odd, by its numbers or its facts, or a link between two.
    pub fn is_any_odd(&self) -> bool {
        let is_bad = |it: &Matrix| !it.pairs.bad_hosts.is_empty() || !it.pairs.bad_links.is_empty();
        self.groups.iter().any(|group| !group.odd.is_empty()) || self.between.iter().any(is_bad)
    }
}

/// A host and its runs.
struct FleetMember<'a> {
    name: String,
    /// The newest first.
    runs: Vec<&'a FleetRun>,
}

impl<'a> FleetMember<'a> {
    /// Of all its runs.
    fn entries(&self) -> impl Iterator<Item = &'a FleetEntry> {
        self.runs.iter().flat_map(|run| &run.entries)
    }

    fn host(&self) -> &'a Host {
        &self.runs[0].head.host
    }
}

/// Hosts by their hardware, with their facts.
struct Fleet<'a> {
    members: Vec<FleetMember<'a>>,
    /// The members of each group by index, the largest group first.
    groups: Vec<(Hardware, Vec<usize>)>,
    /// By member.
    facts: Vec<Facts>,
}

impl<'a> Fleet<'a> {
    fn from_runs(runs: impl IntoIterator<Item = &'a FleetRun>) -> Self {
        let members = members(runs);
        let groups = groups::groups(&members);
        let mut facts: Vec<Facts> = vec![Facts::new(); members.len()];
        for (hardware, group) in &groups {
            group.iter().for_each(|at| facts[*at] = facts_of(members[*at].host(), hardware));
        }
        Self { members, groups, facts }
    }

    /// The facts that a group is compared with.
    fn peers(&self, (hardware, group): &(Hardware, Vec<usize>)) -> UsualFacts<'_> {
        // A host with a module less is in no large group, but its facts are those of one.
        let is_peer = |(other, peers): &&(Hardware, Vec<usize>)| {
            peers.len() >= HOSTS_MIN && (other == hardware || hardware.is_kin(other))
        };
        let large = group.len() >= HOSTS_MIN;
        let peers =
            if large { Some(group) } else { self.groups.iter().find(is_peer).map(|it| &it.1) };
        peers.map_or_else(UsualFacts::new, |peers| usual_facts(&self.facts_of(peers)))
    }

    fn facts_of(&self, of: &[usize]) -> Vec<&Facts> {
        of.iter().map(|at| &self.facts[*at]).collect()
    }

    fn here(&self, group: &[usize]) -> Vec<&FleetMember<'a>> {
        group.iter().map(|at| &self.members[*at]).collect()
    }

    fn judged(&self, group: &(Hardware, Vec<usize>), limits: &FleetLimits) -> Group {
        let (hardware, of) = group;
        let here = self.here(of);
        let found = rows::cases(&here);
        let mut conduct = conduct::conduct(&found, &here);
        let rows = rows::rows(&found, limits);
        let Numbers { cases, odd, abstained } = numbers::judge(&rows, here.len(), None);
        let mut odd: BTreeMap<usize, Vec<OddNumber>> = odd.into_iter().collect();
        let peers = self.peers(group);
        let mut odd_hosts = Vec::new();
        for (at, member) in of.iter().enumerate() {
            let numbers = odd.remove(&at).unwrap_or_default();
            let facts = odd_facts(&self.facts[*member], &peers);
            let conduct = std::mem::take(&mut conduct[at]);
            if !numbers.is_empty() || !facts.is_empty() || !conduct.is_empty() {
                odd_hosts.push(OddHost { host: here[at].name.clone(), numbers, conduct, facts });
            }
        }
        let entries = || here.iter().flat_map(|it| it.entries());
        let noisy = entries().filter(|entry| entry.state == State::Noisy);
        Group {
            hardware: hardware.clone(),
            hosts: here.iter().map(|it| it.name.clone()).collect(),
            records: Counts::from_states(entries().map(|entry| entry.state)),
            noise: first_causes(noisy.filter_map(|entry| entry.cause)),
            odd: odd_hosts,
            not_judged: self.not_judged(of, abstained),
            uniform: uniform::uniform(&rows, &here),
            cases,
        }
    }

    /// Why what was not judged, with the hosts and the facts that divide the group.
    fn not_judged(&self, group: &[usize], abstained: Vec<Abstained>) -> Vec<NotJudged> {
        let with_facts = |it: Abstained| {
            let (part, rest): (Vec<usize>, Vec<usize>) =
                (0..group.len()).partition(|at| it.part.contains(at));
            let of = |side: &[usize]| -> Vec<usize> { side.iter().map(|at| group[*at]).collect() };
            let facts = dividing(&self.facts_of(&of(&part)), &self.facts_of(&of(&rest)));
            let part = self.here(&of(&part)).iter().map(|host| host.name.clone()).collect();
            NotJudged { subject: it.subject, reason: it.reason, part, facts }
        };
        let mut all: Vec<NotJudged> = abstained.into_iter().map(with_facts).collect();
        if group.len() < HOSTS_MIN {
            let reason =
                format!("{}: at least {HOSTS_MIN} are needed", counted(group.len(), "host"));
            all.push(NotJudged { subject: None, reason, part: Vec::new(), facts: Vec::new() });
        }
        all
    }
}

/// Judges the hosts of these runs by each other. Several runs of a host are one: of each case its
/// newest. Clones, which share an id, are distinguished by their names.
#[must_use]
pub fn judge(runs: &FleetRuns, limits: &FleetLimits) -> Judgement {
    let fleet = Fleet::from_runs(&runs.runs);
    let groups = fleet.groups.iter().map(|group| fleet.judged(group, limits)).collect();
    Judgement { hosts: fleet.members.len(), groups, between: matrices(&runs.runs) }
}

/// What distinguishes hosts.
fn key(host: &Host) -> (&str, &str) {
    (host.identity(), &host.name)
}

fn members<'a>(all: impl IntoIterator<Item = &'a FleetRun>) -> Vec<FleetMember<'a>> {
    let mut hosts: BTreeMap<(&str, &str), Vec<&'a FleetRun>> = BTreeMap::new();
    for run in all {
        hosts.entry(key(&run.head.host)).or_default().push(run);
    }
    let newest_first = |mut runs: Vec<&'a FleetRun>| {
        runs.sort_by(|a, b| b.head.run.id.cmp(&a.head.run.id));
        runs
    };
    let runs: Vec<Vec<&FleetRun>> = hosts.into_values().map(newest_first).collect();
    let hosts = || runs.iter().map(|it| &it[0].head.host);
    let names: Vec<String> = hosts().map(|it| it.label(hosts())).collect();
    let mut members: Vec<FleetMember<'_>> =
        names.into_iter().zip(runs).map(|(name, runs)| FleetMember { name, runs }).collect();
    members.sort_by(|a, b| names::order(&a.name).cmp(&names::order(&b.name)));
    members
}
