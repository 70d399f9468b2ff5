//! The bisection of `fathom bisect`: how often the commits that it names hold the one that made a
//! command slower, and how many tests it takes.

use fathom_analysis::bisect::{BisectEnds, BisectTest, CommitBisection, commit_answer, ends};
use fathom_analysis::statistics::{median, median_interval};

use crate::chance::ChanceRate;
use crate::parallel::each;
use crate::section::{Section, percent};
use crate::{Source, Trials};

const COMMITS: usize = 64;
/// Tests of a bisection without noise.
const NOISELESS: f64 = 6.0;
/// Pairs of runs of the first measurement, and of a test at most.
const PAIRS: usize = 30;
const PAIRS_MOST: usize = 500;

/// A history: the first bad commit, its step, and the deviation of a run.
struct CommitHistory {
    first_bad: usize,
    step: f64,
    noise: f64,
    source: Source,
}

/// What a bisection of it came to.
struct Bisected {
    is_shown: bool,
    holds: bool,
    named: usize,
    tests: usize,
}

impl CommitHistory {
    /// The loss of a commit to the good one, by pairs of runs, with its interval.
    fn loss(&mut self, is_bad: bool, pairs: usize) -> (f64, [f64; 2]) {
        let level = 1.0 + if is_bad { self.step } else { 0.0 };
        let mut ratio =
            || level * (self.noise * (self.source.normal() - self.source.normal())).exp();
        let ratios: Vec<f64> = (0..pairs).map(|_| ratio()).collect();
        let (interval, _) = median_interval(&ratios).expect("pairs");
        (median(&ratios).expect("pairs") - 1.0, interval.map(|end| end - 1.0))
    }

    fn bisect(&mut self) -> Bisected {
        let (mut pairs, mut tests) = (PAIRS, 0);
        let BisectTest { limit, pairs } = loop {
            let (loss, interval) = self.loss(true, pairs);
            tests += 1;
            match ends(loss, interval, pairs, PAIRS_MOST) {
                BisectEnds::Shown(test) => break test,
                BisectEnds::Again(more) => pairs = more,
                BisectEnds::NotShown => {
                    return Bisected { is_shown: false, holds: false, named: COMMITS, tests };
                }
            }
        };
        let mut all = CommitBisection::new(COMMITS);
        while let Some(at) = all.next_commit() {
            let (_, interval) = self.loss(at >= self.first_bad, pairs);
            all.take(at, commit_answer(interval, limit));
        }
        let set = all.suspects();
        let holds = set.contains(&self.first_bad);
        Bisected { is_shown: true, holds, named: set.len(), tests: tests + all.tests() }
    }
}

const WORDS: &str = "\
Histories of 64 commits with one step, at any commit; the step is from 2 % to 10 %, and a run
deviates by 1 % to 8 % (normal, in logarithms). The bad commit is first measured against the good
one, in up to 500 pairs of runs, as `fathom bisect` does. *Shown*: that showed a loss. Of those: how
many sets of 95 % hold the right commit, how many commits they have and how many tests were made
(means, with the first measurements). A bisection without noise takes 6 tests.";

pub(crate) fn section(trials: Trials) -> Section {
    let mut section = Section::new("The first bad commit", WORDS);
    let worlds: [(&str, [f64; 2], [f64; 2]); 4] = [
        ("2–10 %, noise 1–8 %", [0.02, 0.1], [0.01, 0.08]),
        ("5 %, noise 1–8 %", [0.05, 0.05], [0.01, 0.08]),
        ("2 %, noise 1 %", [0.02, 0.02], [0.01, 0.01]),
        ("2 %, noise 8 %", [0.02, 0.02], [0.08, 0.08]),
    ];
    let all = each(&worlds, |(name, steps, noises)| {
        let mut source = Source::named(trials.seed, &format!("bisect {name}"));
        let mut between = |[from, to]: [f64; 2]| from + (to - from) * source.uniform();
        let of_one = |_| {
            let (step, noise) = (between(*steps), between(*noises));
            let first_bad = (between([0.0, COMMITS as f64]) as usize).min(COMMITS - 1);
            let own = Source::new(between([0.0, 1e15]) as u64);
            CommitHistory { first_bad, step, noise, source: own }.bisect()
        };
        (0..trials.runs).map(of_one).collect::<Vec<Bisected>>()
    });
    let mut rows = Vec::new();
    for ((name, ..), all) in worlds.iter().zip(&all) {
        let shown: Vec<&Bisected> = all.iter().filter(|one| one.is_shown).collect();
        let count = shown.len().max(1) as f64;
        let hits = shown.iter().filter(|one| one.holds).count() as u64;
        let held = ChanceRate { hits, of: shown.len() as u64 };
        let mean = |of: fn(&Bisected) -> usize| {
            shown.iter().map(|one| of(one) as f64).sum::<f64>() / count
        };
        let (named, tests) = (mean(|one| one.named), mean(|one| one.tests));
        section.at_least(held, 0.94, &format!("first bad commit, {name}: held"));
        if name.starts_with("5 %") {
            let what = format!("first bad commit, {name}: {tests:.1} tests, at most 12");
            section.require(tests <= 2.0 * NOISELESS, &what);
        }
        rows.push(format!(
            "{name} | {} | {} | {named:.1} | {tests:.1}",
            percent(count / all.len().max(1) as f64),
            percent(held.share()),
        ));
    }
    section.table("step, noise | shown, % | right commit held, % | named | tests", rows);
    section
}
