//! Which commit made a command slower: a bisection whose answers may be wrong or missing.
//!
//! One of the commits after a good one is the first bad one; before a test each is as likely as
//! the others. A test answers *good* or *bad*, each wrong as often as its interval misses on one
//! side, or *undecided*, which says nothing of where the step is. Each test is the one whose answer
//! is expected to say most.

use crate::compare::{ComparisonAnswer, gate_answer};

/// How often an answer is wrong at most: an interval of 95 % errs half as often on each side.
const ERROR: f64 = 0.025;
/// The probability that the named commits hold the first bad one.
pub const LEVEL: f64 = 0.95;
/// Tests of one commit per halving of their number; without noise one would do.
const TESTS_PER_HALVING: usize = 8;
/// The interval of a test has half this share of the step as its width on each side, so that most
/// answers are decided: the limit is half the step.
const HALF_WIDTH: f64 = 0.25;
/// Pairs of runs with which a test can have an answer.
const PAIRS_MIN: usize = 9;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitAnswer {
    Good,
    Bad,
    Undecided,
    /// It cannot be built, or its command fails.
    Untestable,
}

fathom_record::words!(
    CommitAnswer.word,
    Good = "good",
    Bad = "bad",
    Undecided = "undecided",
    Untestable = "not testable"
);

/// A commit against the good one: by the rule of the gate.
pub fn commit_answer(loss: [f64; 2], limit: f64) -> CommitAnswer {
    match gate_answer(loss, limit) {
        ComparisonAnswer::Pass => CommitAnswer::Good,
        ComparisonAnswer::Fail => CommitAnswer::Bad,
        ComparisonAnswer::Undecided => CommitAnswer::Undecided,
    }
}

/// How tests are made, by the bad commit measured against the good one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BisectTest {
    /// The loss above which a commit is bad: halfway to that of the bad one.
    pub limit: f64,
    /// Pairs of runs.
    pub pairs: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum BisectEnds {
    Shown(BisectTest),
    /// To be measured again, by so many pairs.
    Again(usize),
    NotShown,
}

/// `loss`: the bad commit's, with its interval by so many pairs of at most `most`.
pub fn ends(loss: f64, [low, high]: [f64; 2], pairs: usize, most: usize) -> BisectEnds {
    // As logarithms, so that a limit is as far from an equal commit as from the bad one.
    let step = loss.ln_1p();
    let (half, aim) = ((high.ln_1p() - low.ln_1p()) / 2.0, HALF_WIDTH * step);
    let needed = match step > 0.0 {
        true => (pairs as f64 * (half / aim).powi(2)).ceil() as usize,
        false => usize::MAX,
    };
    match low > 0.0 && (half <= aim || pairs >= most) {
        true => {
            let pairs = needed.clamp(PAIRS_MIN.min(most), most);
            BisectEnds::Shown(BisectTest { limit: (step / 2.0).exp_m1(), pairs })
        }
        false if pairs >= most => BisectEnds::NotShown,
        false => BisectEnds::Again(needed.clamp(2 * pairs, 8 * pairs).min(most)),
    }
}

/// What is known of the commits after the good one, the last of which is bad.
#[derive(Clone, Debug)]
pub struct CommitBisection {
    /// By commit, the probability that it is the first bad one.
    shares: Vec<f64>,
    /// By commit, its answers of each kind.
    decided: Vec<u32>,
    undecided: Vec<u32>,
    untestable: Vec<bool>,
    tests: usize,
}

impl CommitBisection {
    /// # Panics
    /// Without a commit.
    pub fn new(commits: usize) -> Self {
        assert!(commits > 0, "the bad one is a commit");
        Self {
            shares: vec![1.0 / commits as f64; commits],
            decided: vec![0; commits],
            undecided: vec![0; commits],
            untestable: vec![false; commits],
            tests: 0,
        }
    }

    /// Takes an answer for a commit.
    pub fn take(&mut self, commit: usize, answer: CommitAnswer) {
        self.tests += 1;
        let [first, rest] = match answer {
            CommitAnswer::Untestable => return self.untestable[commit] = true,
            CommitAnswer::Undecided => return self.undecided[commit] += 1,
            CommitAnswer::Bad => [1.0 - ERROR, ERROR],
            CommitAnswer::Good => [ERROR, 1.0 - ERROR],
        };
        self.decided[commit] += 1;
        for (at, share) in self.shares.iter_mut().enumerate() {
            *share *= if at <= commit { first } else { rest };
        }
        let sum: f64 = self.shares.iter().sum();
        self.shares.iter_mut().for_each(|share| *share /= sum);
    }

    /// The commit whose test says most; nothing at the end.
    pub fn next_commit(&self) -> Option<usize> {
        if self.is_decided() || self.tests >= self.most_tests() {
            return None;
        }
        let mut before = 0.0;
        let mut best = None;
        for (at, share) in self.shares.iter().enumerate() {
            before += share;
            if self.untestable[at] || at + 1 == self.shares.len() {
                continue;
            }
            // A commit that was undecided may be so again.
            let [decided, undecided] = [self.decided[at], self.undecided[at]].map(f64::from);
            let expected = (decided + 1.0) / (decided + undecided + 1.0);
            let says_bad = before * (1.0 - ERROR) + (1.0 - before) * ERROR;
            let gain = expected * (entropy(says_bad) - entropy(ERROR));
            if best.is_none_or(|(most, _)| gain > most) {
                best = Some((gain, at));
            }
        }
        best.map(|(_, at)| at)
    }

    /// The smallest set of commits that holds the first bad one with [`LEVEL`], in their order.
    pub fn suspects(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.shares.len()).collect();
        order.sort_by(|a, b| self.shares[*b].total_cmp(&self.shares[*a]));
        let mut sum = 0.0;
        let is_needed = |at: &usize| {
            let is_needed = sum < LEVEL;
            sum += self.shares[*at];
            is_needed
        };
        let mut set: Vec<usize> = order.into_iter().take_while(is_needed).collect();
        set.sort_unstable();
        set
    }

    /// Which is the first bad one with the highest probability.
    pub fn likeliest(&self) -> usize {
        let of = |at: &usize| self.shares[*at];
        (0..self.shares.len()).max_by(|a, b| of(a).total_cmp(&of(b))).unwrap_or_default()
    }

    pub fn share(&self, commit: usize) -> f64 {
        self.shares[commit]
    }

    pub fn tests(&self) -> usize {
        self.tests
    }

    /// Whether no commit that can be tested is between the suspects.
    pub fn is_decided(&self) -> bool {
        let set = self.suspects();
        let (Some(first), Some(last)) = (set.first(), set.last()) else { return true };
        (*first..*last).all(|at| self.untestable[at])
    }

    fn most_tests(&self) -> usize {
        TESTS_PER_HALVING * (1 + self.shares.len().ilog2() as usize)
    }
}

/// In bits, of an answer that has this probability or the rest.
fn entropy(share: f64) -> f64 {
    let part = |share: f64| if share > 0.0 { -share * share.log2() } else { 0.0 };
    part(share) + part(1.0 - share)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers as asked, until the end.
    fn bisected(
        commits: usize,
        mut answer: impl FnMut(usize, usize) -> CommitAnswer,
    ) -> (Vec<usize>, usize) {
        let mut all = CommitBisection::new(commits);
        while let Some(at) = all.next_commit() {
            all.take(at, answer(at, all.tests()));
        }
        (all.suspects(), all.tests())
    }

    fn right(first_bad: usize) -> impl Fn(usize, usize) -> CommitAnswer {
        move |at, _| if at >= first_bad { CommitAnswer::Bad } else { CommitAnswer::Good }
    }

    #[test]
    fn right_answers_name_each_first_bad_commit() {
        for first_bad in 0..64 {
            let (set, tests) = bisected(64, right(first_bad));
            assert_eq!(set, [first_bad]);
            assert!(tests <= 10, "{first_bad}: {tests} tests, 6 without noise");
        }
        assert_eq!(bisected(1, right(0)), (vec![0], 0), "one commit has to be it");
    }

    #[test]
    fn one_wrong_answer_is_found_out() {
        for wrong in 0..5 {
            let lying = |at: usize, test: usize| match (right(40)(at, test), test == wrong) {
                (CommitAnswer::Good, true) => CommitAnswer::Bad,
                (CommitAnswer::Bad, true) => CommitAnswer::Good,
                (answer, _) => answer,
            };
            assert_eq!(bisected(64, lying).0, [40], "answer {wrong} is wrong");
        }
    }

    #[test]
    fn untestable_commits_leave_a_set() {
        let broken = 20..24;
        let answer = |at: usize, test: usize| match broken.contains(&at) {
            true => CommitAnswer::Untestable,
            false => right(22)(at, test),
        };
        assert_eq!(bisected(64, answer).0, [20, 21, 22, 23, 24]);
        let beside = |at: usize, _| match broken.contains(&at) {
            true => CommitAnswer::Untestable,
            false => right(30)(at, 0),
        };
        assert_eq!(bisected(64, beside).0, [30]);
        let (set, tests) = bisected(64, |_, _| CommitAnswer::Undecided);
        assert!(set.len() > 60 && tests == 56, "it ends: {tests}");
    }

    #[test]
    fn undecided_says_nothing_and_another_commit_is_tried() {
        let mut all = CommitBisection::new(64);
        let first = all.next_commit().unwrap();
        assert_eq!(first, 31, "half of them");
        all.take(first, CommitAnswer::Undecided);
        assert!((all.share(0) - all.share(63)).abs() < 1e-12);
        assert_eq!(all.next_commit(), Some(30));
    }

    #[test]
    fn ends_set_the_limit_and_the_pairs() {
        let shown = |loss, interval, pairs| match ends(loss, interval, pairs, 500) {
            BisectEnds::Shown(BisectTest { limit, pairs }) => Some(((limit * 1e4).round(), pairs)),
            _ => None,
        };
        assert_eq!(shown(0.04, [0.032, 0.048], 30), Some((198.0, 19)));
        assert_eq!(shown(0.08, [0.07, 0.09], 40), Some((392.0, 10)));
        assert_eq!(shown(0.04, [0.02, 0.06], 500), Some((198.0, 500)), "no more are allowed");
        assert_eq!(shown(8.0, [6.0, 10.0], 30), Some((20_000.0, 9)), "3 times, of 9 times");
        assert_eq!(ends(0.04, [0.02, 0.06], 30, 500), BisectEnds::Again(116));
        assert_eq!(ends(-0.01, [-0.02, 0.01], 30, 500), BisectEnds::Again(240));
        assert_eq!(ends(0.01, [-0.01, 0.03], 500, 500), BisectEnds::NotShown);
        assert_eq!(commit_answer([0.01, 0.03], 0.02), CommitAnswer::Undecided);
        assert_eq!(commit_answer([0.021, 0.03], 0.02), CommitAnswer::Bad);
        assert_eq!(commit_answer([-0.02, 0.02], 0.02), CommitAnswer::Good);
    }
}
