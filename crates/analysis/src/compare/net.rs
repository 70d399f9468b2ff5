//! Each case net of the factor of its class: what is left is its own.

use super::comparison::{
    Compared, ComparisonWord, EFFECT_MIN, FALSE_DISCOVERY_RATE, Factor, Net, PROCESSES_MIN, Share,
};
use super::noise::{Noise, Spread};
use super::sides::RowSides;
use super::weigh::word_for;
use crate::statistics::{Z_95, benjamini_hochberg, student_limit, student_tails};

/// Intervals wider than this say nothing.
const SAYS_NOTHING: f64 = 0.3;

impl Compared {
    /// Whether nothing is left net of its class.
    fn is_as_its_class(&self) -> bool {
        self.net.is_some_and(|net| {
            let [low, high] = net.interval;
            (low <= 1.0 && 1.0 <= high) || net.ratio.ln().abs() <= EFFECT_MIN
        })
    }

    /// What it is counted as beside these factors.
    fn share_beside(&self, factors: &[Factor]) -> Share {
        let class = factors.iter().find(|it| Some(it.class) == self.class);
        let word = self.net.map_or(self.word, |net| net.word);
        let width = self.interval.map_or(f64::INFINITY, |[low, high]| high / low - 1.0);
        let share = match class {
            _ if word < ComparisonWord::Unchanged && self.on_edge => Share::OnEdge,
            _ if word < ComparisonWord::Unchanged => Share::Differs,
            Some(class) if class.moved && self.is_as_its_class() => Share::WithClass,
            _ if self.word == ComparisonWord::Unchanged => Share::Unchanged,
            Some(class) if class.unchanged_within.is_some() => Share::Unchanged,
            _ if width > SAYS_NOTHING => Share::SaysNothing,
            _ => Share::Inconclusive,
        };
        // What may differ by the place of its CPUs is no finding of its own.
        match self.distances {
            _ if share == Share::Unchanged => share,
            Some([a, b]) if b > a => Share::CpusFarther,
            Some(_) => Share::CpusNearer,
            None => share,
        }
    }

    /// The row as it is net of its class.
    #[must_use]
    pub fn as_net(&self) -> Self {
        let mut row = self.clone();
        if let Some(net) = self.net {
            (row.ratio, row.interval, row.word) = (Some(net.ratio), Some(net.interval), net.word);
            row.unchanged_within = None;
        }
        row
    }
}

/// Sets what each row is net of its class.
pub(super) fn set(rows: &mut [Compared], sides: &[RowSides], factors: &[Factor], noise: &Noise) {
    let mut tested = Vec::new();
    for (at, (row, sides)) in rows.iter_mut().zip(sides).enumerate() {
        let class = factors.iter().find(|it| Some(it.class) == row.class);
        // What differs from run to run is in no interval of two runs; but kept runs show it, and
        // so do cases of a class.
        let kept = noise.of_case(&row.metric, &row.params, row.stratum).map(|it| it.spread);
        let of_runs = kept.and_then(|it| Some(it.deviation * student_limit(0.025, it.freedom)?));
        let scatter = class.map_or(1.0, |it| it.scatter);
        let moved = class.filter(|it| it.moved);
        let (by, by_error) = moved.map_or((1.0, 0.0), |it| (it.effect_on(row), it.error));
        let (Some(ratio), Some(interval)) = (row.ratio, row.interval) else { continue };
        let net = (ratio / by).ln();
        let [low, high] = interval.map(|end| (end / ratio).ln());
        let half =
            |of: f64| (scatter * of).abs().max(of_runs.unwrap_or(0.0)).hypot(Z_95 * by_error);
        let interval = [net - half(low), net + half(high)].map(f64::exp);
        // A single process has an interval within its run.
        let (own, freedom) = sides.deviation().unwrap_or(((high - low) / 2.0 / Z_95, 30.0));
        let (own, freedom) = Spread::at_least(kept, (scatter * own, freedom));
        let p = student_tails(net / own.hypot(by_error), freedom).unwrap_or(1.0);
        let word = ComparisonWord::Inconclusive;
        row.net = Some(Net { ratio: net.exp(), interval, p_adjusted: 1.0, word });
        tested.push((at, p, moved.is_some()));
    }
    let p: Vec<f64> = tested.iter().map(|(_, p, _)| *p).collect();
    for ((at, _, is_net), adjusted) in tested.iter().zip(benjamini_hochberg(&p)) {
        let (row, sides) = (&rows[*at], &sides[*at]);
        let Some(mut net) = row.net else { continue };
        net.p_adjusted = adjusted;
        // Nothing is left to a core that was faster, where its class has a factor.
        let is_core = row.is_spoiled() && !is_net;
        net.word = word(row, &net, is_core, sides.is_doubted);
        rows[*at].net = Some(net);
    }
}

/// Sets what each row is counted as.
pub(super) fn count(rows: &mut [Compared], factors: &[Factor]) {
    rows.iter_mut().for_each(|row| row.share = row.share_beside(factors));
}

fn word(row: &Compared, net: &Net, is_core: bool, is_doubted: bool) -> ComparisonWord {
    let [low, high] = net.interval;
    let is_borne_out = low > 1.0 || high < 1.0;
    let is_large = net.ratio.ln().abs() > EFFECT_MIN.max(row.noise.unwrap_or(0.0)).ln_1p();
    let is_changed = is_borne_out && is_large && net.p_adjusted < FALSE_DISCOVERY_RATE;
    let few = row.processes_a.min(row.processes_b) < PROCESSES_MIN;
    match row.word {
        _ if is_changed && !is_core => {
            word_for(net.ratio > 1.0, few || is_doubted, row.better, row.unit)
        }
        ComparisonWord::Unchanged => ComparisonWord::Unchanged,
        _ => ComparisonWord::Inconclusive,
    }
}
