//! One number of each host beside those of the others: which are odd, by spread and uncertainty.

use fathom_record::Interval;
use fathom_record::quantity::percent;

use crate::statistics::{
    benjamini_hochberg, median, median_interval, qn, qn_freedom, standard_error, student_tails,
    two_levels,
};

/// The share of false findings among hosts called odd.
pub(super) const FALSE_DISCOVERY_RATE: f64 = 0.05;
/// With more odd members a group is not one of equal members.
const ODD_SHARE_MAX: f64 = 0.25;

/// So few members are judged each by the others.
pub(super) const FEW_MEMBERS: usize = 20;

/// The number of a member of a series.
#[derive(Clone, Copy, Debug)]
pub(super) struct SeriesSide {
    pub(super) member: usize,
    /// Logarithm of the number.
    pub(super) ln: f64,
    /// Its standard error.
    pub(super) own: f64,
}

/// The logarithm of a number and its standard error, by the interval over process medians; `None`
/// without an interval, or for a number that is not positive.
pub(super) fn logarithm(
    number: f64,
    interval: Option<Interval>,
    process_medians: &[f64],
) -> Option<(f64, f64)> {
    let (limits, level) = match interval {
        Some(interval) => (interval.limits(), interval.level),
        None => median_interval(process_medians)?,
    };
    let (ln, own) = (number.ln(), standard_error(limits.map(f64::ln), level)?);
    (ln.is_finite() && own.is_finite()).then_some((ln, own))
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
    /// Whether its series is one of cases together, which are judged apart from single ones.
    pub(super) is_together: bool,
}

/// What many series say together of the spread of each, of which few members alone say little.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prior {
    /// Variance between members ÷ that of a member by its own uncertainty.
    ratio: f64,
    /// Degrees of freedom with which it is known.
    freedom: f64,
}

/// Fewer series say nothing of each other.
const PRIOR_SERIES_MIN: usize = 5;
/// Series of the same members are not independent.
pub(super) const PRIOR_FREEDOM_MAX: f64 = 30.0;

/// Moderated variances (Smyth, Stat. Appl. Genet. Mol. Biol. 3, 2004): the less the variances of
/// series differ beyond chance, the more they say of each. Of two kinds of series.
pub(super) fn priors(kinds: [Vec<&[SeriesSide]>; 2]) -> [Option<Prior>; 2] {
    let ratio = |sides: &&[SeriesSide]| {
        let ln = 2.0 * (spread(sides)?.qn / usual_error(sides)).ln();
        ln.is_finite().then_some((ln, qn_freedom(sides.len())))
    };
    let kinds = kinds.map(|kind| kind.iter().filter_map(ratio).collect::<Vec<(f64, f64)>>());
    // How much they differ, each kind from its own median.
    let medians =
        kinds.each_ref().map(|kind| median(&kind.iter().map(|it| it.0).collect::<Vec<_>>()));
    let off = kinds
        .iter()
        .zip(medians)
        .flat_map(|(kind, middle)| kind.iter().map(move |(ln, _)| ln - middle.unwrap_or(0.0)));
    let off: Vec<f64> = off.collect();
    if off.len() < PRIOR_SERIES_MIN {
        return [None; 2];
    }
    // The trigamma function, which is the variance of the logarithm, and its inverse.
    let freedom: Vec<f64> = kinds.iter().flatten().map(|it| it.1).collect();
    let half = median(&freedom).unwrap_or(1.0) / 2.0;
    let by_chance = 1.0 / half + 0.5 / half.powi(2);
    let more = qn(&off).unwrap_or(f64::INFINITY).powi(2) - by_chance;
    let known = if more > 0.0 { (1.0 + (1.0 + 2.0 * more).sqrt()) / more } else { f64::INFINITY };
    let freedom = known.min(PRIOR_FREEDOM_MAX);
    medians.map(|ratio| Some(Prior { ratio: ratio?.exp(), freedom }))
}

fn usual_error(sides: &[SeriesSide]) -> f64 {
    median(&sides.iter().map(|side| side.own).collect::<Vec<_>>()).unwrap_or(0.0)
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
    let mut logarithms: Vec<f64> = sides.iter().map(|side| side.ln).collect();
    let [low, high] = two_levels(&logarithms)?;
    if sides.len() <= FEW_MEMBERS {
        // One odd member, with its neighbour by chance, is no level of few.
        let middle = median(&logarithms)?;
        let far = |at: &usize| (logarithms[*at] - middle).abs();
        let farthest = (0..logarithms.len()).max_by(|a, b| far(a).total_cmp(&far(b)))?;
        logarithms.swap_remove(farthest);
        two_levels(&logarithms)?;
    }
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

/// Each member against the median of its peers, in the spread between these and its own
/// uncertainty. A spread of few numbers is uncertain itself: Student's t. `independent` is how many
/// of them are, and `fitted` how many terms were taken from these: what remains of them has less
/// spread than they; `prior` is what other series say of the spread.
pub(super) fn tests(
    series: usize,
    (sides, peers): (&[SeriesSide], &[SeriesSide]),
    effect_min: f64,
    [independent, fitted]: [usize; 2],
    prior: Option<Prior>,
) -> Vec<Test> {
    let Some(Spread { middle, qn }) = spread(peers) else { return Vec::new() };
    let left = independent.saturating_sub(fitted).max(2);
    let qn = qn * (independent as f64 / left as f64).sqrt();
    let (usual, own_freedom) = (usual_error(peers).powi(2), qn_freedom(left));
    let known = prior.map_or(0.0, |prior| prior.freedom);
    let freedom = own_freedom + known;
    let deviation = |own: f64| {
        let Some(Prior { ratio, freedom: known }) = prior else { return qn.hypot(own) };
        let variance = (own_freedom * qn.powi(2) + known * ratio * usual) / freedom;
        // The usual uncertainty is in the spread already.
        (variance + (own.powi(2) - usual).max(0.0)).sqrt().max(own)
    };
    let test = |side: &SeriesSide| {
        let effect = side.ln - middle;
        let z = if effect == 0.0 { 0.0 } else { effect / deviation(side.own) };
        let is_large = effect.exp_m1().abs() > effect_min;
        let p = student_tails(z, freedom).filter(|_| is_large).unwrap_or(1.0);
        Test { series, member: side.member, effect, z, p, is_together: false }
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
    let adjusted: Vec<Vec<f64>> = by_member.iter().map(|tests| adjusted(tests)).collect();
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

/// The p of one member's tests: of cases together and of single ones apart, since the few of the
/// first would pay for all of the second.
fn adjusted(tests: &[Test]) -> Vec<f64> {
    let of = |together: bool| {
        let p = tests.iter().filter(|test| test.is_together == together).map(|test| test.p);
        benjamini_hochberg(&p.collect::<Vec<f64>>())
    };
    let [together, single] = [of(true), of(false)];
    let families = if together.is_empty() || single.is_empty() { 1.0 } else { 2.0 };
    let (mut together, mut single) = (together.into_iter(), single.into_iter());
    let next = |test: &Test| if test.is_together { together.next() } else { single.next() };
    tests.iter().filter_map(next).map(|p| (families * p).min(1.0)).collect()
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
