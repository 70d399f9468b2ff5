//! The document of a crosscheck: the same work by Fathom and by another program, in turn.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::statistics;
use crate::{Host, MetricId, Params, Tool, Unit};

/// Version of the crosscheck's JSON document; it changes when a reader would break.
pub const CROSSCHECK_SCHEMA_VERSION: u32 = 1;

/// One JSON document: what was compared with what, and how the two stand to each other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Crosscheck {
    /// [`CROSSCHECK_SCHEMA_VERSION`].
    pub schema: u32,
    /// The program that made it.
    pub tool: Tool,
    /// When it began, RFC 3339 in UTC.
    pub started: String,
    /// The machine.
    pub host: Host,
    /// The CPU of rows that run on one.
    pub cpu: u32,
    /// Pairs asked for in each row.
    pub pairs: u32,
    /// A person stopped it: rows may be missing, and pairs of the last one.
    pub interrupted: bool,
    /// The rows, by peer.
    pub rows: Vec<CrossRow>,
}

/// The same work by both.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CrossRow {
    /// The other program.
    pub peer: String,
    /// The Debian package that has it.
    pub package: String,
    /// Its version, where it tells one.
    pub version: Option<String>,
    /// What is measured.
    pub metric: MetricId,
    /// With which parameters.
    pub params: Params,
    /// The unit of all values.
    pub unit: Unit,
    /// What the peer calls it.
    pub work: String,
    /// What the peer counts or does otherwise: why the ratio may not be 1.
    pub difference: String,
    /// The CPUs of both sides.
    pub cpus: Vec<u32>,
    /// Our side, for a shell.
    pub our_command: String,
    /// The peer's side, for a shell, run one after the other in each turn.
    pub peer_commands: Vec<String>,
    /// How it went.
    pub outcome: CrossOutcome,
    /// Why it is missing or failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The turns, in the order taken: A B, B A, A B …
    pub turns: Vec<Turn>,
    /// The median of ours.
    pub ours: Option<f64>,
    /// The median of theirs.
    pub theirs: Option<f64>,
    /// Ours ÷ theirs.
    pub ratio: Option<PairRatio>,
}

/// How a row went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CrossOutcome {
    /// All pairs were taken.
    Compared,
    /// The peer is not installed.
    Missing,
    /// One side gave no number.
    Failed,
    /// A person stopped it.
    Interrupted,
}

/// One pair: each side once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Turn {
    /// Our number.
    pub ours: f64,
    /// Theirs.
    pub theirs: f64,
    /// Ours ÷ theirs.
    pub ratio: f64,
    /// What else the peer said of its number.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// How often in a second the peer lost its CPU to others. Most tell a mean, which has that in
    /// it; ours is a median. Absent where its own processes take turns on a CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer_preempted_hz: Option<f64>,
}

impl Turn {
    /// Both numbers, and their ratio.
    pub fn new(ours: f64, theirs: f64, detail: String) -> Self {
        Self { ours, theirs, ratio: ours / theirs, detail, peer_preempted_hz: None }
    }
}

/// The ratios of some pairs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PairRatio {
    /// Their median.
    pub median: f64,
    /// The lower end of the interval or of the range.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// The level of the interval; absent below 5 pairs, of which there is only the range.
    pub level: Option<f64>,
    /// So many pairs.
    pub pairs: u32,
}

impl PairRatio {
    /// The median of the pairs' ratios with its interval by order statistics, or with their range
    /// where they are too few for one. `None` without pairs.
    pub fn of(turns: &[Turn]) -> Option<Self> {
        let ratios: Vec<f64> = turns.iter().map(|turn| turn.ratio).collect();
        let median = statistics::median(&ratios)?;
        let ([low, high], level) = match statistics::median_interval(&ratios) {
            Some((ends, level)) => (ends, Some(level)),
            None => {
                let fold = |better: fn(f64, f64) -> f64| ratios.iter().copied().reduce(better);
                ([fold(f64::min)?, fold(f64::max)?], None)
            }
        };
        Some(Self { median, low, high, level, pairs: ratios.len() as u32 })
    }
}

impl CrossRow {
    /// How often in a second the peer lost its CPU to others, in the median turn.
    pub fn peer_preempted_hz(&self) -> Option<f64> {
        let rates: Vec<f64> = self.turns.iter().filter_map(|turn| turn.peer_preempted_hz).collect();
        statistics::median(&rates)
    }

    /// Takes a pair in.
    pub fn add(&mut self, turn: Turn) {
        self.turns.push(turn);
        let side = |of: fn(&Turn) -> f64| {
            let values: Vec<f64> = self.turns.iter().map(of).collect();
            statistics::median(&values)
        };
        (self.ours, self.theirs) = (side(|turn| turn.ours), side(|turn| turn.theirs));
        self.ratio = PairRatio::of(&self.turns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(values: &[(f64, f64)]) -> Option<PairRatio> {
        let turn = |(ours, theirs): &(f64, f64)| Turn::new(*ours, *theirs, String::new());
        PairRatio::of(&values.iter().map(turn).collect::<Vec<_>>())
    }

    #[test]
    fn few_pairs_have_a_range_and_five_an_interval() {
        assert_eq!(ratio(&[]), None);
        let three = ratio(&[(2.0, 1.0), (1.0, 1.0), (3.0, 2.0)]).unwrap();
        assert_eq!((three.median, three.low, three.high), (1.5, 1.0, 2.0));
        assert_eq!((three.level, three.pairs), (None, 3));
        let five: Vec<(f64, f64)> = [9.0, 1.0, 5.0, 3.0, 7.0].map(|ours| (ours, 1.0)).into();
        let five = ratio(&five).unwrap();
        assert_eq!((five.median, five.low, five.high), (5.0, 1.0, 9.0));
        assert_eq!(five.level, Some(0.9375));
    }

    #[test]
    fn a_ratio_is_that_of_each_pair_and_not_of_the_medians() {
        // Both sides are twice as slow in the second turn, and no ratio changes.
        let pairs = ratio(&[(1.0, 2.0), (2.0, 4.0), (1.5, 3.0)]).unwrap();
        assert_eq!((pairs.low, pairs.high), (0.5, 0.5));
    }
}
