//! `fathom fleet pairs`: each two hosts measure to each other, each way.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use fathom_analysis::fleet::{TournamentRound, WHOLE_MAX, tournament};
use fathom_far::nonce;
use fathom_fleet::{FleetWork, PairOrder, Present, RunOrder};
use fathom_measure::host;
use fathom_record::Document;

use super::gather::{GatherRequest, Gathered, gather};
use super::order::check_pair;
use super::run::{finish, random_label};
use super::summary::{FleetPairs, FleetSummary};
use crate::arguments::fleet::FleetPairsArguments;
use crate::commands::named;
use crate::exit::{Status, usage_error};

/// The round trip of a byte between processes that sleep, as those of services do, and one stream.
const METRICS: [&str; 2] = [
    "network.tcp.rtt{bytes=1,cpus=2,mode=block}",
    "network.tcp.bandwidth{cpus=2,direction=send,streams=1}",
];

pub(in super::super) fn pairs(arguments: &FleetPairsArguments) -> anyhow::Result<Status> {
    let mut metrics = named(&arguments.metrics);
    if metrics.is_empty() {
        metrics = METRICS.map(str::to_owned).to_vec();
    }
    let effort = arguments.effort.effort();
    let run = RunOrder { metrics, effort, only: true };
    if let Err(why) = check_pair(&run, &host::read()) {
        usage_error!("{why}");
    }
    let seed = u64::from_str_radix(&nonce()?[..16], 16)?;
    let rounds_max = arguments.rounds.map_or(usize::MAX, usize::from);
    let tours = Tours { run, rounds_max, seed, rounds: OnceCell::new() };
    let label = arguments.label.clone().map_or_else(random_label, Ok)?;
    let gathered = gather(&GatherRequest {
        gather: &arguments.gather,
        store: Some(&arguments.output.store),
        label: label.clone(),
        procedure: None,
        together: false,
        at_once: arguments.at_once.map_or(usize::MAX, usize::from),
        rounds: &|members| tours.steps(members),
        work: &|step, place, members| tours.work(step, place, members),
    })?;
    let summary =
        FleetSummary::from_gathered(&gathered, Some(&label)).and_pairs(tours.outcome(&gathered));
    finish(&gathered, summary, &arguments.output, true)
}

/// Who measures to whom. The first step starts the far ends; then each round of pairs is two steps:
/// one way, and back.
struct Tours {
    run: RunOrder,
    rounds_max: usize,
    seed: u64,
    /// Of those that have joined, whose number no longer changes.
    rounds: OnceCell<Vec<TournamentRound>>,
}

impl Tours {
    fn rounds(&self, members: usize) -> &[TournamentRound] {
        self.rounds.get_or_init(|| {
            let mut rounds = tournament(members, self.seed);
            rounds.truncate(self.rounds_max);
            rounds
        })
    }

    fn steps(&self, members: usize) -> usize {
        1 + 2 * self.rounds(members).len()
    }

    /// From whom to whom in a step, by places.
    fn directions(&self, step: usize, members: usize) -> impl Iterator<Item = [usize; 2]> {
        let round = step.checked_sub(1).and_then(|step| self.rounds(members).get(step / 2));
        let is_back = step.is_multiple_of(2);
        let pairs = round.into_iter().flat_map(|round| &round.pairs);
        pairs.map(move |&[a, b]| if is_back { [b, a] } else { [a, b] })
    }

    /// `None` for a member that serves, waits, or has lost the other one of its pair.
    fn work(
        &self,
        step: usize,
        place: usize,
        members: &[Option<Present<'_>>],
    ) -> Option<FleetWork> {
        if step == 0 {
            return Some(FleetWork::Serve);
        }
        let [_, to] = self.directions(step, members.len()).find(|[from, _]| *from == place)?;
        let Present { name, serves } = members[to]?;
        let (run, name) = (self.run.clone(), name.to_owned());
        Some(FleetWork::Pair(PairOrder { run, to: serves?, name }))
    }

    /// Which pairs were measured.
    fn outcome(&self, gathered: &Gathered) -> FleetPairs {
        let members = &gathered.outcome.members;
        let rounds = self.rounds(members.len());
        let names = |[from, to]: [usize; 2]| [from, to].map(|at| members[at].member.name.as_str());
        let runs: BTreeMap<[&str; 2], &Document> =
            gathered.runs.iter().filter_map(|run| Some((ends(run)?, run))).collect();
        let failures: BTreeMap<(usize, usize), &str> = gathered
            .outcome
            .failures
            .iter()
            .map(|it| ((it.round, it.place), it.reason.as_str()))
            .collect();
        let mut pairs = FleetPairs {
            rounds: rounds.len(),
            all_rounds: members.len().saturating_sub(1) + members.len() % 2,
            is_sample: members.len() > WHOLE_MAX,
            planned: 0,
            not_measured: Vec::new(),
        };
        for step in 1..=2 * rounds.len() {
            for direction @ [from, to] in self.directions(step, members.len()) {
                pairs.planned += 1;
                let lost = || [from, to].iter().any(|at| members[*at].lost.is_some());
                let reason = match runs.get(&names(direction)) {
                    Some(run) if has_number(run) => continue,
                    Some(run) => why_without_number(run),
                    None => match failures.get(&(step, from)) {
                        Some(reason) => (*reason).to_owned(),
                        None if lost() => "a member was lost".to_owned(),
                        None => "interrupted".to_owned(),
                    },
                };
                pairs.miss(names(direction), reason);
            }
        }
        pairs
    }
}

/// The hosts from and to which a run is.
fn ends(run: &Document) -> Option<[&str; 2]> {
    Some([&run.host.name, &run.far.first()?.host.name])
}

fn has_number(run: &Document) -> bool {
    run.records.iter().any(|record| record.verdict.shows_number())
}

fn why_without_number(run: &Document) -> String {
    let state = run.records.first().map_or("absent", |record| record.verdict.state.word());
    format!("every case is {state}")
}

#[cfg(test)]
mod tests {
    use fathom_record::Effort;

    use super::*;

    fn tours(rounds_max: usize) -> Tours {
        let run = RunOrder { metrics: Vec::new(), effort: Effort::Quick, only: true };
        Tours { run, rounds_max, seed: 7, rounds: OnceCell::new() }
    }

    #[test]
    fn each_two_measure_to_each_other_once_each_way() {
        for members in [2, 5, 6] {
            let tours = tours(usize::MAX);
            let mut met: Vec<[usize; 2]> = Vec::new();
            for step in 0..tours.steps(members) {
                let directions: Vec<_> = tours.directions(step, members).collect();
                let mut busy = directions.concat();
                busy.sort_unstable();
                busy.dedup();
                assert_eq!(busy.len(), 2 * directions.len(), "nobody is twice in step {step}");
                met.extend(directions);
            }
            met.sort_unstable();
            met.dedup();
            assert_eq!(met.len(), members * (members - 1), "{members} members");
        }
        assert_eq!(tours(3).steps(6), 7);
        assert_eq!(tours(usize::MAX).steps(1), 1, "nobody to measure to");
        assert_eq!(tours(usize::MAX).steps(100), 1 + 2 * 63);
    }

    #[test]
    fn lost_members_have_no_pairs() {
        let tours = tours(usize::MAX);
        let serves = Some("10.0.0.2:40000".parse().unwrap());
        let mut members = ["a", "b", "c", "d"].map(|name| Some(Present { name, serves }));
        let to =
            |step, place, members: &[Option<Present<'_>>]| match tours.work(step, place, members) {
                Some(FleetWork::Pair(pair)) => Some(pair.name),
                _ => None,
            };
        assert_eq!(tours.work(0, 3, &members), Some(FleetWork::Serve));
        let of_step = |step, members: &[Option<Present<'_>>]| {
            [0, 1, 2, 3].map(|place| to(step, place, members))
        };
        let [d, c] = ["d", "c"].map(|name| Some(name.to_owned()));
        assert_eq!(of_step(1, &members), [d, c.clone(), None, None]);
        members[3] = None;
        assert_eq!(of_step(1, &members), [None, c, None, None]);
        // The lost one is asked for nothing; whom it would have measured to serves.
        members[2].as_mut().unwrap().serves = None;
        assert_eq!(of_step(1, &members), [None, None, None, None]);
    }
}
