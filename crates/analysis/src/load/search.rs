//! The highest rate within limits, from windows of an open loop at chosen rates.
//!
//! Whether a window keeps a quantile below a limit is chance, and the chance depends on its length:
//! slow responses come in bursts, and a short window mostly has none. But the share of the
//! responses that are beyond the limit is the same on average, however short a window is. So the
//! answer is where that share, over all windows near it, is what the limit allows: a logistic curve
//! over the logarithm of the rate through the shares of windows (quasi-likelihood: Wedderburn,
//! 1974). Responses of a window depend on each other; by how much is seen from how windows scatter
//! about the curve. A limit without a share holds in a window or does not: its answer is where as
//! many windows hold as not.

use super::bisection::Bisection;

/// Windows of a search, at most.
pub const WINDOWS: usize = 20;
/// The first ones bisect.
const BISECTED: usize = 5;
/// It ends before when the interval is this narrow, each way, but not before so many windows: a
/// narrow one may be by chance.
const HALF: f64 = 0.01;
const WINDOWS_MIN: usize = 14;
/// Fewer windows near the answer have no interval,
const NEAR_MIN: usize = 8;
/// and so have windows in which a limit allows fewer responses beyond it: most have none, and a
/// burst in few is no measure of the scatter. Twenty are asked for.
const ALLOWED_MIN: f64 = 16.0;
/// Responses beyond a limit that each window is to have.
pub const ALLOWED: f64 = 20.0;
/// Windows are near if the logarithms of their rates are: by so many half-widths of the interval,
/// within limits.
const HALVES: f64 = 4.0;
const NEAREST: f64 = 0.05;
const NEAR: f64 = 0.15;
const WIDER: f64 = 1.4;
/// The level of the interval.
pub const LEVEL: f64 = 0.95;
const TAIL: f64 = (1.0 - LEVEL) / 2.0;
/// Windows are to both sides of the answer: at these quantiles of what is possible.
const SIDES: [f64; 2] = [0.2, 0.8];
/// Widths of the curve.
const WIDTHS: [f64; 11] = [0.003, 0.005, 0.008, 0.013, 0.02, 0.032, 0.05, 0.08, 0.12, 0.18, 0.3];
/// The share of windows that hold or not whatever their rate, as by a hiccup.
const LAPSES: f64 = 0.02;
const CELLS: usize = 160;
/// The answer is so near the windows, in its logarithm.
const REACH: f64 = 1.0;
/// What is less likely is no part of the finer cells.
const RARE: f64 = 1e-4;

/// A limit as a window saw it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Seen {
    /// So many responses were beyond it, and this share may be.
    Share {
        beyond: u64,
        of: u64,
        allowed: f64,
    },
    Holds(bool),
}

impl Seen {
    /// Whether the window itself keeps it.
    #[must_use]
    pub fn holds(self) -> bool {
        match self {
            Self::Share { beyond, of, allowed } => beyond as f64 <= allowed * of as f64,
            Self::Holds(holds) => holds,
        }
    }

    /// The logarithm of how likely it is where the limit is at this distance, in widths.
    fn ln_likelihood(self, apart: f64) -> f64 {
        match self {
            Self::Share { beyond, of, allowed } => {
                let [ln_beyond, ln_within] = ln_shares(apart + logit(allowed));
                beyond as f64 * ln_beyond + of.saturating_sub(beyond) as f64 * ln_within
            }
            Self::Holds(holds) => {
                let share = LAPSES / 2.0 + (1.0 - LAPSES) / (1.0 + apart.exp());
                (if holds { share } else { 1.0 - share }).ln()
            }
        }
    }

    /// By how much it differs from the curve, by its variance (Pearson). One of a share only.
    fn scatter(self, apart: f64) -> Option<f64> {
        let Self::Share { beyond, of, allowed } = self else { return None };
        let share = ln_shares(apart + logit(allowed))[0].exp();
        let expected = share * of as f64;
        let variance = (expected * (1.0 - share)).max(f64::MIN_POSITIVE);
        (of > 0).then(|| (beyond as f64 - expected).powi(2) / variance)
    }
}

fn logit(share: f64) -> f64 {
    (share / (1.0 - share)).ln()
}

/// The logarithms of a share and of the rest.
fn ln_shares(logit: f64) -> [f64; 2] {
    let more = (-logit.abs()).exp().ln_1p();
    [logit.min(0.0) - more, (-logit).min(0.0) - more]
}

/// A window at a rate.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchWindow {
    pub rate: f64,
    /// Of each limit, in one order.
    pub seen: Vec<Seen>,
}

impl SearchWindow {
    /// Whether all limits hold in it.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.seen.iter().all(|seen| seen.holds())
    }
}

/// The highest rate within limits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Highest {
    pub rate: f64,
    /// At [`LEVEL`]; `None` of too few or too short windows.
    pub interval: Option<[f64; 2]>,
    /// How many times as long windows are long enough for it.
    pub longer: f64,
}

/// A search: its windows, and where the next one is.
#[derive(Clone, Debug)]
pub struct Search {
    bisection: Bisection,
    windows: Vec<SearchWindow>,
}

impl Search {
    /// A search that begins at about this rate.
    #[must_use]
    pub fn around(guess: f64) -> Self {
        Self { bisection: Bisection::around(guess), windows: Vec::new() }
    }

    pub fn add(&mut self, window: SearchWindow) {
        self.bisection.add(window.rate, window.holds());
        self.windows.push(window);
    }

    #[must_use]
    pub fn windows(&self) -> &[SearchWindow] {
        &self.windows
    }

    /// The rate of the next window; `None` at the end.
    #[must_use]
    pub fn next_rate(&self) -> Option<f64> {
        let count = self.windows.len();
        if count >= WINDOWS {
            return None;
        }
        let held = self.windows.iter().filter(|window| window.holds()).count();
        if count < BISECTED || held == 0 || held == count {
            return Some(self.bisection.median());
        }
        let possible = self.possible();
        let [low, high] = possible.interval();
        if count >= WINDOWS_MIN && (high / low).ln() / 2.0 < HALF {
            return None;
        }
        Some(possible.at(SIDES[count % 2]))
    }

    /// The answer, if a window holds.
    #[must_use]
    pub fn highest(&self) -> Option<Highest> {
        self.windows.iter().any(SearchWindow::holds).then(|| {
            let possible = self.possible();
            let is_known = possible.near >= NEAR_MIN && possible.allowed >= ALLOWED_MIN;
            let interval = is_known.then(|| possible.interval());
            let longer =
                if possible.allowed < ALLOWED_MIN { ALLOWED / possible.allowed } else { 1.0 };
            Highest { rate: possible.at(0.5), interval, longer }
        })
    }

    /// What the windows leave possible. Which of them are near depends on the answer, and how near
    /// they have to be on how well it is known: over a narrow range a curve is straighter.
    fn possible(&self) -> Possible {
        let (mut middle, mut reach) = (self.bisection.median().ln(), NEAR);
        let mut possible = Possible::within(&[], [0.0, 0.0]);
        for _ in 0..2 {
            let near = near(&self.windows, middle, reach);
            let ends = near.iter().map(|window| window.rate.ln());
            let ends = ends.fold([f64::MAX, f64::MIN], |[a, b], at| [a.min(at), b.max(at)]);
            let coarse = Possible::within(&near, [ends[0] - REACH, ends[1] + REACH]);
            let likely = [RARE, 1.0 - RARE].map(|share| coarse.at(share).ln());
            possible = Possible::within(&near, likely);
            middle = possible.at(0.5).ln();
            let [low, high] = possible.interval();
            reach = (HALVES * (high / low).ln() / 2.0).clamp(NEAREST, NEAR);
        }
        possible
    }
}

/// The windows whose rates are near one, and if these are few, some that are less so.
fn near(windows: &[SearchWindow], ln_rate: f64, mut reach: f64) -> Vec<&SearchWindow> {
    loop {
        let is_near = |window: &&SearchWindow| (window.rate.ln() - ln_rate).abs() <= reach;
        let near: Vec<&SearchWindow> = windows.iter().filter(is_near).collect();
        if near.len() >= NEAR_MIN.min(windows.len()) {
            return near;
        }
        reach *= WIDER;
    }
}

/// The logarithms of rates, and how likely each is to be the answer or below it.
struct Possible {
    cells: Vec<(f64, f64)>,
    /// Windows near it.
    near: usize,
    /// Responses beyond a limit that it allows in one of them, of limits that were exceeded.
    allowed: f64,
}

impl Possible {
    /// The lowest answer of all limits.
    fn within(windows: &[&SearchWindow], [from, to]: [f64; 2]) -> Self {
        let step = (to - from) / (CELLS - 1) as f64;
        let rates: Vec<f64> = (0..CELLS).map(|cell| from + step * cell as f64).collect();
        let limits = windows.first().map_or(0, |window| window.seen.len());
        let (mut above, mut allowed) = (vec![1.0; CELLS], f64::INFINITY);
        for limit in 0..limits {
            let seen: Vec<(f64, Seen)> =
                windows.iter().map(|window| (window.rate.ln(), window.seen[limit])).collect();
            allowed = allowed_in_each(&seen).map_or(allowed, |it| allowed.min(it));
            for (one, share) in above.iter_mut().zip(shares_above(&seen, &rates)) {
                *one *= share;
            }
        }
        let cells = rates.into_iter().zip(above).map(|(rate, above)| (rate, 1.0 - above));
        Self { cells: cells.collect(), near: windows.len(), allowed }
    }

    /// The rate below which the answer is with this probability.
    fn at(&self, probability: f64) -> f64 {
        let after = self.cells.partition_point(|cell| cell.1 < probability);
        let after = after.clamp(1, self.cells.len() - 1);
        let [(from, below), (to, share)] = [self.cells[after - 1], self.cells[after]];
        let part = ((probability - below) / (share - below).max(f64::MIN_POSITIVE)).clamp(0.0, 1.0);
        (from + part * (to - from)).exp()
    }

    fn interval(&self) -> [f64; 2] {
        [self.at(TAIL), self.at(1.0 - TAIL)]
    }
}

/// Responses beyond a limit that it allows in a window; in all of them where none was beyond it.
fn allowed_in_each(seen: &[(f64, Seen)]) -> Option<f64> {
    let (mut allowed_in_all, mut all_beyond) = (0.0, 0);
    for (_, one) in seen {
        if let Seen::Share { beyond, of, allowed } = one {
            allowed_in_all += allowed * *of as f64;
            all_beyond += beyond;
        }
    }
    match all_beyond {
        // None of few says nothing, and none of many that the limit is far.
        0 => (0.0 < allowed_in_all && allowed_in_all < ALLOWED).then_some(allowed_in_all),
        _ => Some(allowed_in_all / seen.len() as f64),
    }
}

/// How likely the rate of a limit is above each of these.
fn shares_above(seen: &[(f64, Seen)], rates: &[f64]) -> Vec<f64> {
    let likelihoods: Vec<[f64; WIDTHS.len()]> = rates
        .iter()
        .map(|rate| {
            WIDTHS.map(|width| {
                seen.iter().map(|(at, seen)| seen.ln_likelihood((at - rate) / width)).sum()
            })
        })
        .collect();
    let all = || likelihoods.iter().enumerate();
    let flat = all().flat_map(|(cell, of)| of.iter().zip(WIDTHS).map(move |it| (cell, it)));
    let best = flat.max_by(|a, b| a.1.0.total_cmp(b.1.0));
    let (most, scatter) = best.map_or((0.0, None), |(cell, (most, width))| {
        let of = |(at, seen): &(f64, Seen)| seen.scatter((at - rates[cell]) / width);
        (*most, seen.iter().map(of).sum::<Option<f64>>())
    });
    let freedom = (seen.len() as f64 - 2.0).max(1.0);
    // Of dependent responses there are fewer independent ones; how much is known by Student's t.
    let weight = |ln: f64| match scatter {
        Some(scatter) => {
            let effect = (scatter / freedom).max(1.0);
            (1.0 + 2.0 * (most - ln) / (effect * freedom)).powf(-(freedom + 2.0) / 2.0)
        }
        None => (ln - most).exp(),
    };
    let weights: Vec<f64> = likelihoods.iter().map(|of| of.map(weight).iter().sum()).collect();
    let sum: f64 = weights.iter().sum();
    let mut below = 0.0;
    let above = weights.iter().map(|weight| {
        below += weight / sum;
        1.0 - below
    });
    above.collect()
}

#[cfg(test)]
mod tests {
    use rand_xoshiro::Xoshiro256PlusPlus;
    use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

    use super::*;

    /// A limit that holds up to a rate.
    fn exact(limit: f64, guess: f64) -> Search {
        let mut search = Search::around(guess);
        while let Some(rate) = search.next_rate() {
            search.add(SearchWindow { rate, seen: vec![Seen::Holds(rate <= limit)] });
        }
        search
    }

    #[test]
    fn exact_limit_is_found_in_few_windows() {
        for limit in [3.0, 60.0, 480.0, 5_000.0] {
            let search = exact(limit, 500.0);
            let found = search.highest().expect("windows that hold");
            let [low, high] = found.interval.expect("enough windows");
            assert!(low <= limit && limit <= high, "{low} to {high} for {limit}");
            assert!((found.rate / limit - 1.0).abs() < 0.05, "{} for {limit}", found.rate);
            assert!(search.windows().len() <= WINDOWS);
        }
        assert_eq!(exact(0.0, 500.0).highest(), None);
    }

    /// Responses of a window depend on each other: it scatters far more than independent ones.
    #[test]
    fn scatter_of_windows_is_in_the_interval() {
        let share = |rate: f64| 0.01 * (rate / 100.0).powi(14);
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut search = Search::around(150.0);
        while let Some(rate) = search.next_rate() {
            // From none to twice as much.
            let uniform = (random.next_u64() >> 11) as f64 * 2_f64.powi(-53);
            let beyond = (2.0 * uniform * share(rate) * 3_000.0).min(3_000.0);
            let seen = Seen::Share { beyond: beyond.round() as u64, of: 3_000, allowed: 0.01 };
            search.add(SearchWindow { rate, seen: vec![Seen::Holds(true), seen] });
        }
        let found = search.highest().expect("windows that hold");
        let [low, high] = found.interval.expect("enough windows");
        assert!(80.0 < low && low < 100.0 && 100.0 < high && high < 125.0, "{low} to {high}");
        // Independent ones would have ± 1 %.
        assert!(high / low > 1.04, "{low} to {high}");
    }

    #[test]
    fn windows_of_too_few_responses_have_no_interval() {
        let of = |responses: u64| {
            let mut search = Search::around(150.0);
            while let Some(rate) = search.next_rate() {
                let share = (0.01 * (rate / 100.0).powi(14)).min(1.0);
                let beyond = (share * responses as f64).round() as u64;
                let seen = Seen::Share { beyond, of: responses, allowed: 0.01 };
                search.add(SearchWindow { rate, seen: vec![seen] });
            }
            search.highest().expect("windows that hold")
        };
        // As of a rare error.
        let mut none = Search::around(150.0);
        while let Some(rate) = none.next_rate() {
            let seen = Seen::Share { beyond: 0, of: 100, allowed: 0.001 };
            none.add(SearchWindow { rate, seen: vec![Seen::Holds(rate < 100.0), seen] });
        }
        assert_eq!(none.highest().and_then(|found| found.interval), None);
        let (few, many) = (of(200), of(2_000));
        assert!(few.interval.is_none() && (few.longer - 10.0).abs() < 1e-9, "{few:?}");
        assert!(many.interval.is_some() && many.longer == 1.0, "{many:?}");
    }
}
