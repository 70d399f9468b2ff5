//! `fathom fleet pairs`: each two hosts measure to each other, each way.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use fathom_analysis::fleet::{TournamentRound, WHOLE_MAX, tournament};
use fathom_far::nonce;
use fathom_fleet::{FleetWork, PairOrder, Present, RunOrder};
use fathom_measure::host;
use fathom_record::{Document, State};

use super::gather::{GatherRequest, Gathered, gather};
use super::order::check_pair;
use super::run::{finish, random_label};
use super::summary::{FleetPairs, FleetSummary, LOST};
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
    let tours = Tours::new(run, rounds_max, seed);
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
        delivered: &|run| tours.saw(run),
    })?;
    let summary =
        FleetSummary::from_gathered(&gathered, Some(&label)).and_pairs(tours.outcome(&gathered));
    finish(&gathered, summary, (&arguments.output, arguments.missing.allow_missing), true)
}

/// A pair is repeated so often, while its numbers are noisy.
const REPEATS_MAX: usize = 2;

/// Who measures to whom. The first step starts the far ends; then each round of pairs is two steps:
/// one way, and back. What is noisy then is repeated, in half as many steps at most.
struct Tours {
    run: RunOrder,
    rounds_max: usize,
    seed: u64,
    /// Of those that have joined, whose number no longer changes.
    rounds: OnceCell<Vec<TournamentRound>>,
    /// From whom to whom was measured, by names, and why without a number.
    seen: RefCell<BTreeMap<[String; 2], Option<String>>>,
    /// From whom to whom all numbers are valid, by names.
    valid: RefCell<BTreeSet<[String; 2]>>,
    /// What is repeated in each step, by places.
    repeats: RefCell<BTreeMap<usize, Vec<[usize; 2]>>>,
}

impl Tours {
    fn new(run: RunOrder, rounds_max: usize, seed: u64) -> Self {
        let (rounds, seen, valid, repeats) = Default::default();
        Self { run, rounds_max, seed, rounds, seen, valid, repeats }
    }

    fn rounds(&self, members: usize) -> &[TournamentRound] {
        self.rounds.get_or_init(|| {
            let mut rounds = tournament(members, self.seed);
            rounds.truncate(self.rounds_max);
            rounds
        })
    }

    fn steps(&self, members: usize) -> usize {
        self.planned_steps(members) + self.rounds(members).len()
    }

    fn planned_steps(&self, members: usize) -> usize {
        1 + 2 * self.rounds(members).len()
    }

    /// A run of a pair, which needs no repetition if all of it is valid.
    fn saw(&self, run: &Document) {
        let Some(far) = run.far.first() else { return };
        let ends = [&run.host.name, &far.host.name].map(String::clone);
        let why = why_without_number(run);
        let mut seen = self.seen.borrow_mut();
        let known = seen.entry(ends.clone()).or_insert_with(|| why.clone());
        *known = known.take().filter(|_| why.is_some());
        let is_valid = run.records.iter().all(|record| record.verdict.state == State::Valid);
        if is_valid && !run.records.is_empty() {
            self.valid.borrow_mut().insert(ends);
        }
    }

    /// The pairs to repeat in a step: those that were repeated least, and no host twice.
    fn repeated(&self, step: usize, members: &[Option<Present<'_>>]) -> Vec<[usize; 2]> {
        let mut repeats = self.repeats.borrow_mut();
        if let Some(known) = repeats.get(&step) {
            return known.clone();
        }
        let count = |pair: &[usize; 2]| repeats.values().flatten().filter(|it| *it == pair).count();
        let valid = self.valid.borrow();
        let is_noisy = |pair: &[usize; 2]| match pair.map(|at| members[at]) {
            [Some(from), Some(to)] => !valid.contains(&[from.name, to.name].map(str::to_owned)),
            _ => false,
        };
        let planned = 1..self.planned_steps(members.len());
        let all = planned.flat_map(|step| self.directions(step, members.len()));
        let mut noisy: Vec<_> = all.filter(is_noisy).map(|pair| (count(&pair), pair)).collect();
        noisy.retain(|(count, _)| *count < REPEATS_MAX);
        noisy.sort_by_key(|(count, _)| *count);
        let mut chosen: Vec<[usize; 2]> = Vec::new();
        for (_, pair) in noisy {
            if !chosen.iter().flatten().any(|busy| pair.contains(busy)) {
                chosen.push(pair);
            }
        }
        repeats.insert(step, chosen.clone());
        chosen
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
        let directions: Vec<[usize; 2]> = match step < self.planned_steps(members.len()) {
            true => self.directions(step, members.len()).collect(),
            false => self.repeated(step, members),
        };
        let [_, to] = directions.into_iter().find(|[from, _]| *from == place)?;
        let Present { name, serves } = members[to]?;
        let (run, name) = (self.run.clone(), name.to_owned());
        Some(FleetWork::Pair(PairOrder { run, to: serves?, name }))
    }

    /// Which pairs were measured.
    fn outcome(&self, gathered: &Gathered) -> FleetPairs {
        let members = &gathered.outcome.members;
        let rounds = self.rounds(members.len());
        let names = |[from, to]: [usize; 2]| [from, to].map(|at| members[at].member.name.as_str());
        let seen = self.seen.borrow();
        let repeats = self.repeats.borrow();
        let repeated: BTreeSet<&[usize; 2]> = repeats.values().flatten().collect();
        let valid = self.valid.borrow();
        let noisy = repeated
            .iter()
            .filter(|pair| !valid.contains(&pair.map(|at| members[at].member.name.clone())));
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
            repeated: repeated.len(),
            still_noisy: noisy.count(),
            not_measured: Vec::new(),
        };
        for step in 1..=2 * rounds.len() {
            for direction @ [from, to] in self.directions(step, members.len()) {
                pairs.planned += 1;
                let lost = || [from, to].iter().any(|at| members[*at].lost.is_some());
                let reason = match seen.get(&names(direction).map(str::to_owned)) {
                    Some(None) => continue,
                    Some(Some(why)) => why.clone(),
                    None => match failures.get(&(step, from)) {
                        Some(reason) => (*reason).to_owned(),
                        None if lost() => LOST.to_owned(),
                        None => "interrupted".to_owned(),
                    },
                };
                pairs.miss(names(direction), reason);
            }
        }
        pairs
    }
}

/// `None` for a run that has one.
fn why_without_number(run: &Document) -> Option<String> {
    let has_number = run.records.iter().any(|record| record.verdict.shows_number());
    let state = run.records.first().map_or("absent", |record| record.verdict.state.word());
    (!has_number).then(|| format!("every case is {state}"))
}

#[cfg(test)]
mod tests {
    use fathom_record::Effort;

    use super::*;

    fn tours(rounds_max: usize) -> Tours {
        let run = RunOrder { metrics: Vec::new(), effort: Effort::Quick, only: true };
        Tours::new(run, rounds_max, 7)
    }

    #[test]
    fn each_two_measure_to_each_other_once_each_way() {
        for members in [2, 5, 6] {
            let tours = tours(usize::MAX);
            let mut met: Vec<[usize; 2]> = Vec::new();
            for step in 0..tours.planned_steps(members) {
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
        assert_eq!([tours(3).planned_steps(6), tours(3).steps(6)], [7, 10]);
        assert_eq!(tours(usize::MAX).steps(1), 1, "nobody to measure to");
        assert_eq!(tours(usize::MAX).planned_steps(100), 1 + 2 * 63);
    }

    #[test]
    fn noisy_pairs_are_repeated_while_there_is_time() {
        let tours = tours(usize::MAX);
        let serves = Some("10.0.0.2:40000".parse().unwrap());
        let names = ["a", "b", "c", "d"];
        let members = names.map(|name| Some(Present { name, serves }));
        let run = |from: &str, to: &str, state: State| {
            let mut run = Document::fixture();
            run.host.name = from.to_owned();
            let host = fathom_record::Host { name: to.to_owned(), ..Default::default() };
            run.far = vec![fathom_record::FarHost { name: to.to_owned(), host, clock: None }];
            run.records.iter_mut().for_each(|record| record.verdict.state = state);
            run
        };
        for from in names {
            for to in names.into_iter().filter(|to| *to != from) {
                let is_noisy = from == "a" || (from, to) == ("c", "d");
                tours.saw(&run(from, to, if is_noisy { State::Noisy } else { State::Valid }));
            }
        }
        let of_step = |step| {
            let of = |place| match tours.work(step, place, &members) {
                Some(FleetWork::Pair(pair)) => Some((names[place], pair.name)),
                _ => None,
            };
            (0..4).filter_map(of).collect::<Vec<_>>()
        };
        let [first, last] = [tours.planned_steps(4), tours.steps(4) - 1];
        let mut found: Vec<_> = (first..=last).flat_map(of_step).collect();
        assert_eq!(of_step(first), of_step(first), "a step is decided once");
        found.sort();
        let expected = [("a", "b"), ("a", "c"), ("a", "d"), ("c", "d")];
        assert_eq!(found, expected.map(|(from, to)| (from, to.to_owned())));
        // A repetition that is valid is the last one.
        tours.saw(&run("a", "b", State::Valid));
        assert!(!of_step(last + 1).contains(&("a", "b".to_owned())));
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
