//! Effects of factors in randomised complete blocks.
//!
//! A *cell* is a combination of levels, one for each factor. A *block* has one time of each cell.
//! The effect of a level is its time ÷ the time of the reference level, with all other factors
//! equal: within a block the mean of the differences of logarithms over all such pairs. What
//! slows a whole block cancels.

/// The level of each factor, in the order of the factors.
pub type Levels = Vec<u32>;

/// A weighted sum of the logarithms of a block. The weights add up to 0.
#[derive(Clone, Debug, PartialEq)]
pub struct Contrast {
    /// Cells and their weights.
    weights: Vec<(usize, f64)>,
    /// Pairs, or pairs of pairs, that it is a mean of.
    pub terms: usize,
}

impl Contrast {
    /// The ratio of times in a block; `None` if it lacks a cell.
    pub fn ratio(&self, times: &[Option<f64>]) -> Option<f64> {
        let weighted = self.weights.iter().map(|(cell, weight)| {
            let time = times.get(*cell).copied().flatten().filter(|time| *time > 0.0)?;
            Some(weight * time.ln())
        });
        weighted.sum::<Option<f64>>().map(f64::exp)
    }

    fn from_terms(terms: &[Vec<(usize, f64)>]) -> Option<Self> {
        let share = 1.0 / terms.len() as f64;
        let weights = terms.iter().flatten().map(|(cell, weight)| (*cell, weight * share));
        let weights: Vec<(usize, f64)> = weights.collect();
        (!weights.is_empty()).then_some(Self { weights, terms: terms.len() })
    }
}

/// The effect of a level of a factor against another one; `None` if no two cells differ only in it.
pub fn effect(cells: &[Levels], factor: usize, [from, to]: [u32; 2]) -> Option<Contrast> {
    let pairs = changed(cells, factor, [from, to]);
    let terms: Vec<_> = pairs.map(|[a, b]| vec![(b, 1.0), (a, -1.0)]).collect();
    Contrast::from_terms(&terms)
}

/// How much the effect of a level differs between two levels of another factor, as a ratio of
/// ratios.
pub fn interaction(
    cells: &[Levels],
    (factor, levels): (usize, [u32; 2]),
    (other, [from, to]): (usize, [u32; 2]),
) -> Option<Contrast> {
    let at = |cell: usize, level: u32| {
        let mut wanted = cells[cell].clone();
        wanted[other] = level;
        cells.iter().position(|known| *known == wanted)
    };
    let pairs = changed(cells, factor, levels).filter(|[a, _]| cells[*a][other] == from);
    let term =
        |[a, b]: [usize; 2]| Some(vec![(at(b, to)?, 1.0), (at(a, to)?, -1.0), (b, -1.0), (a, 1.0)]);
    let terms: Vec<_> = pairs.filter_map(term).collect();
    Contrast::from_terms(&terms)
}

/// Pairs of cells that differ in this factor only.
fn changed(
    cells: &[Levels],
    factor: usize,
    [from, to]: [u32; 2],
) -> impl Iterator<Item = [usize; 2]> {
    let with = move |cell: &Levels| {
        let mut wanted = cell.clone();
        wanted[factor] = to;
        cells.iter().position(|known| *known == wanted)
    };
    let of_level = cells.iter().enumerate().filter(move |(_, cell)| cell[factor] == from);
    of_level.filter_map(move |(index, cell)| Some([index, with(cell)?]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two factors of two and three levels, all combinations.
    fn cells() -> Vec<Levels> {
        (0..2).flat_map(|a| (0..3).map(move |b| vec![a, b])).collect()
    }

    #[test]
    fn effects_are_ratios_within_a_block() {
        // Factor 0 doubles, level 2 of factor 1 takes 5 times as long, and both together 15 times.
        let time = |cell: &Levels| match (cell[0], cell[1]) {
            (0, 2) => Some(5.0),
            (1, 2) => Some(15.0),
            (a, _) => Some(f64::from(1 + a)),
        };
        let cells = cells();
        for slow in [1.0, 7.0] {
            let times: Vec<_> = cells.iter().map(|cell| time(cell).map(|it| it * slow)).collect();
            let ratio = |contrast: Option<Contrast>| contrast.unwrap().ratio(&times).unwrap();
            // The mean over the levels of the other factor.
            let first = effect(&cells, 0, [0, 1]);
            assert_eq!(first.as_ref().unwrap().terms, 3);
            assert!((ratio(first) - 12_f64.cbrt()).abs() < 1e-12);
            assert!((ratio(effect(&cells, 1, [0, 1])) - 1.0).abs() < 1e-12);
            assert!((ratio(effect(&cells, 1, [0, 2])) - 37.5_f64.sqrt()).abs() < 1e-12);
            let both = interaction(&cells, (0, [0, 1]), (1, [0, 2]));
            assert!((ratio(both) - 1.5).abs() < 1e-12);
            let none = interaction(&cells, (0, [0, 1]), (1, [0, 1]));
            assert!((ratio(none) - 1.0).abs() < 1e-12);
        }
    }

    #[test]
    fn cells_without_a_partner_do_not_count() {
        let mut cells = cells();
        cells.pop();
        assert_eq!(effect(&cells, 0, [0, 1]).unwrap().terms, 2);
        assert_eq!(effect(&cells, 0, [0, 9]), None);
        assert_eq!(interaction(&cells, (0, [0, 1]), (1, [0, 2])), None);
        let contrast = effect(&cells, 1, [0, 1]).unwrap();
        let mut times = vec![Some(1.0); cells.len()];
        assert_eq!(contrast.ratio(&times), Some(1.0));
        times[1] = None;
        assert_eq!(contrast.ratio(&times), None, "a block without a cell");
        times[1] = Some(0.0);
        assert_eq!(contrast.ratio(&times), None, "no time");
    }
}
