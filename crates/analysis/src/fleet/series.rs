//! One number of each host beside those of the others: which are odd, by spread and uncertainty.

use fathom_record::quantity::percent;

use crate::statistics::{benjamini_hochberg, median, qn, qn_freedom, student_tails, two_levels};

/// The share of false findings among hosts called odd.
pub(super) const FALSE_DISCOVERY_RATE: f64 = 0.05;
/// With more odd members a group is not one of equal members.
const ODD_SHARE_MAX: f64 = 0.25;

/// The number of a member of a series.
#[derive(Clone, Copy, Debug)]
pub(super) struct SeriesSide {
    pub(super) member: usize,
    /// Logarithm of the number.
    pub(super) ln: f64,
    /// Its standard error.
    pub(super) own: f64,
}

/// A member beside the others of its series.
#[derive(Clone, Copy, Debug)]
pub(super) struct Test {
    pub(super) series: usize,
    pub(super) member: usize,
    /// Logarithm of its number ÷ the median.
    pub(super) effect: f64,
    pub(super) z: f64,
    /// 1 if the effect is too small to be odd.
    pub(super) p: f64,
}

/// Members of two levels: they have no common median to be measured by.
#[derive(Clone, Debug)]
pub(super) struct Bimodal {
    /// Members of the level that has fewer.
    pub(super) part: Vec<usize>,
    /// Its share.
    pub(super) share: f64,
    /// The upper level ÷ the lower one, less 1.
    pub(super) apart: f64,
}

impl Bimodal {
    /// `bimodal across 50 hosts (40 % / 60 %, 8.1 % apart)`.
    pub(super) fn words(&self, count: usize, what: &str) -> String {
        let [few, most, apart] = [self.share, 1.0 - self.share, self.apart].map(percent);
        format!("bimodal across {count} {what} ({few} / {most}, {apart} apart)")
    }
}

/// What the median and the spread of a series are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spread {
    pub(super) middle: f64,
    pub(super) qn: f64,
}

pub(super) fn spread(sides: &[SeriesSide]) -> Option<Spread> {
    let logarithms: Vec<f64> = sides.iter().map(|side| side.ln).collect();
    Some(Spread { middle: median(&logarithms)?, qn: qn(&logarithms)? })
}

/// Whether the series has two levels that are further apart than the least effect.
pub(super) fn bimodal(sides: &[SeriesSide], effect_min: f64) -> Option<Bimodal> {
    let logarithms: Vec<f64> = sides.iter().map(|side| side.ln).collect();
    let [low, high] = two_levels(&logarithms)?;
    let apart = (high.at - low.at).exp_m1();
    if apart <= effect_min {
        return None;
    }
    let middle = f64::midpoint(low.at, high.at);
    let is_low = low.share <= high.share;
    let part = sides.iter().filter(|side| (side.ln < middle) == is_low);
    Some(Bimodal {
        part: part.map(|side| side.member).collect(),
        share: low.share.min(high.share),
        apart,
    })
}

/// Each member against the median, in the spread between members and its own uncertainty. A spread
/// of few numbers is uncertain itself: Student's t. `independent` is how many of them are, and
/// `fitted` how many terms were taken from these: what remains of them has less spread than they.
pub(super) fn tests(
    series: usize,
    sides: &[SeriesSide],
    effect_min: f64,
    [independent, fitted]: [usize; 2],
) -> Vec<Test> {
    let Some(Spread { middle, qn }) = spread(sides) else { return Vec::new() };
    let left = independent.saturating_sub(fitted).max(2);
    let qn = qn * (independent as f64 / left as f64).sqrt();
    let freedom = qn_freedom(left);
    let test = |side: &SeriesSide| {
        let effect = side.ln - middle;
        let z = if effect == 0.0 { 0.0 } else { effect / qn.hypot(side.own) };
        let is_large = effect.exp_m1().abs() > effect_min;
        let p = student_tails(z, freedom).filter(|_| is_large).unwrap_or(1.0);
        Test { series, member: side.member, effect, z, p }
    };
    sides.iter().map(test).collect()
}

/// The tests that make a member odd, with their p adjusted for all tests of this member, by member.
///
/// Benjamini and Hochberg over members × series in two steps (Benjamini & Bogomolov, J. R. Stat.
/// Soc. B 76, 2014): members by the p of all their tests together (Simes), then the tests of each
/// member found, at the rate times the share of members found. In one step, a member that is odd in
/// forty series would pay for two false findings of others.
pub(super) fn discoveries(tests: &[Test], members: usize) -> Vec<(usize, Vec<(Test, f64)>)> {
    let mut by_member: Vec<Vec<Test>> = vec![Vec::new(); members];
    tests.iter().for_each(|test| by_member[test.member].push(*test));
    let adjusted: Vec<Vec<f64>> = by_member
        .iter()
        .map(|tests| benjamini_hochberg(&tests.iter().map(|test| test.p).collect::<Vec<f64>>()))
        .collect();
    let least = adjusted.iter().map(|all| all.iter().copied().fold(1.0, f64::min));
    let of_members = benjamini_hochberg(&least.collect::<Vec<f64>>());
    let is_found = |member: &usize| of_members[*member] <= FALSE_DISCOVERY_RATE;
    let found: Vec<usize> = (0..members).filter(is_found).collect();
    let rate = FALSE_DISCOVERY_RATE * found.len() as f64 / members.max(1) as f64;
    let of_member = |member: usize| {
        let own = by_member[member].iter().copied().zip(adjusted[member].iter().copied());
        let mut own: Vec<(Test, f64)> = own.filter(|(_, p)| *p <= rate).collect();
        own.sort_by(|a, b| b.0.effect.abs().total_cmp(&a.0.effect.abs()));
        (member, own)
    };
    found.into_iter().map(of_member).collect()
}

/// The tests that make one member odd, as if it were the only one: false findings among the others
/// are nobody's.
pub(super) fn discoveries_of(member: usize, tests: &[Test]) -> Vec<(usize, Vec<(Test, f64)>)> {
    let own = tests.iter().filter(|test| test.member == member);
    let alone: Vec<Test> = own.map(|test| Test { member: 0, ..*test }).collect();
    let found = discoveries(&alone, 1).into_iter().filter(|(_, tests)| !tests.is_empty());
    let back = |(test, p): (Test, f64)| (Test { member, ..test }, p);
    found.map(|(_, tests)| (member, tests.into_iter().map(back).collect())).collect()
}

/// Whether so many odd members show a mixture instead.
pub(super) fn are_many(odd: usize, members: usize) -> bool {
    odd as f64 > ODD_SHARE_MAX * members as f64
}
