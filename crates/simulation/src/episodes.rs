//! Agreement of two runs, one after the other, on a machine with episodes that neighbouring visits
//! share (METHOD 11): visits in blocks, and visits spread over the run.

use fathom_analysis::statistics::median_interval;

use crate::chance::ChanceRate;
use crate::experiment::Experiment;
use crate::section::{Section, marked_above};
use crate::worlds::TRUTH;
use crate::{Source, Trials};

/// Probes of a run, and of a block of the old order.
const PROBES: usize = 48;
const BLOCK: usize = 6;
/// Seconds of a visit, and of the pause between two runs.
const VISIT_S: f64 = 0.15;
const PAUSE_S: f64 = 5.0;
/// The most share of pairs without overlap, in episodes up to this long.
const APART_MAX: f64 = 0.03;
const LONGEST_S: f64 = 4.0;
/// Mean seconds of a slow episode, and how often the machine is slow.
const EPISODES_S: [f64; 4] = [0.1, 1.0, 4.0, 10.0];
const SLOW: f64 = 0.25;
/// Slowdown in an episode, and the deviation of processes.
const SLOWDOWN: f64 = 1.05;
const PROCESS: f64 = 0.01;

#[derive(Clone, Copy, PartialEq)]
enum EpisodeOrder {
    Blocks,
    Spread,
}

/// Orders of visits and numbers of processes.
const COLUMNS: [(EpisodeOrder, usize, &str); 4] = [
    (EpisodeOrder::Blocks, 5, "in blocks, 5 processes"),
    (EpisodeOrder::Blocks, 12, "in blocks, 12"),
    (EpisodeOrder::Spread, 5, "spread, 5 processes"),
    (EpisodeOrder::Spread, 12, "spread, 12"),
];

/// The machine is slow for a while, then not, for exponentially distributed times.
struct Episodes {
    mean_s: f64,
    is_slow: bool,
    ends_s: f64,
}

impl Episodes {
    fn new(mean_s: f64, source: &mut Source) -> Self {
        Self { mean_s, is_slow: source.uniform() < SLOW, ends_s: 0.0 }
    }

    fn is_slow_at(&mut self, at_s: f64, source: &mut Source) -> bool {
        // The first episode is as if it had begun before: exponential times have no memory.
        while self.ends_s <= at_s {
            let is_first = self.ends_s == 0.0;
            self.is_slow ^= !is_first;
            let mean_s = self.mean_s * if self.is_slow { 1.0 } else { (1.0 - SLOW) / SLOW };
            self.ends_s += -mean_s * source.uniform().ln();
        }
        self.is_slow
    }
}

/// The probe of each visit of a run.
fn order(how: EpisodeOrder, processes: usize, source: &mut Source) -> Vec<usize> {
    let mut places: Vec<(f64, usize)> = Vec::new();
    for probe in 0..PROBES {
        places.extend((0..processes).map(|visit| match how {
            EpisodeOrder::Blocks => ((probe / BLOCK) as f64 + source.uniform(), probe),
            EpisodeOrder::Spread => ((visit as f64 + source.uniform()) / processes as f64, probe),
        }));
    }
    places.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    places.into_iter().map(|(_, probe)| probe).collect()
}

/// Counts the probes whose intervals in two runs do not overlap.
fn trial(
    mean_s: f64,
    how: EpisodeOrder,
    processes: usize,
    source: &mut Source,
    apart: &mut ChanceRate,
) {
    let mut machine = Episodes::new(mean_s, source);
    let mut at_s = 0.0;
    let mut run = || {
        let mut values = vec![Vec::new(); PROBES];
        for probe in order(how, processes, source) {
            let slow = if machine.is_slow_at(at_s, source) { SLOWDOWN } else { 1.0 };
            values[probe].push(TRUTH * slow * (PROCESS * source.normal()).exp());
            at_s += VISIT_S;
        }
        at_s += PAUSE_S;
        values
    };
    // One probe of each block: the others of its block are no independent pairs.
    for (a, b) in run().iter().zip(run()).step_by(BLOCK) {
        let both = median_interval(a).zip(median_interval(&b));
        if let Some((([low, high], _), ([other_low, other_high], _))) = both {
            apart.count(high < other_low || other_high < low);
        }
    }
}

const WORDS: &str = "\
Two runs of 48 probes one after the other. The machine is slower by 5 % in a quarter of the time, in
episodes of some seconds that no counter shows; processes differ by 1 %. Counted are the pairs of
intervals of one probe that do not overlap, in per cent: 3 % are allowed (METHOD 11). *In blocks*:
all visits of six probes, then those of the next six. *Spread*: each probe is visited throughout the
run, as the program does it.";

pub(crate) fn section(trials: Trials) -> Section {
    let mut section = Section::new("Two runs on a machine with episodes", WORDS);
    Experiment {
        rows: &EPISODES_S,
        columns: &COLUMNS,
        name: |mean_s, (how, processes, _)| format!("episodes {mean_s} {} {processes}", *how as u8),
        trial: |mean_s, (how, processes, _), source, apart| {
            trial(*mean_s, *how, *processes, source, apart);
        },
        check: |section, mean_s, (how, processes, _), apart| {
            if *how == EpisodeOrder::Spread && *mean_s <= LONGEST_S {
                section.at_most(*apart, APART_MAX, &format!("episodes of {mean_s} s, {processes}"));
            }
        },
        head: "episode s",
        title: f64::to_string,
        heads: |(.., head)| (*head).to_owned(),
        cells: |_, _, apart| marked_above(*apart, APART_MAX),
    }
    .run(&mut section, trials.divided(5));
    section
}
