//! The interval within one run (rules 15 and 18).

use fathom_analysis::statistics::summarise;
use fathom_record::Sample;

use crate::chance::ChanceRate;
use crate::coverage::interval_contains;
use crate::experiment::Experiment;
use crate::section::{Section, marked_below, percent};
use crate::shapes::{
    Draw, ar_03, ar_08, drifting, heavy, log_normal, log_normal_ar_08, normal, slow_outliers,
    two_levels,
};
use crate::worlds::TRUTH;
use crate::{Source, Trials};

/// Numbers of rounds.
const LENGTHS: [usize; 5] = [12, 24, 50, 100, 500];

struct Rounds {
    name: &'static str,
    draw: Draw,
    autocorrelated: bool,
}

const ROUNDS: [Rounds; 10] = [
    Rounds { name: "normal", draw: normal, autocorrelated: false },
    Rounds { name: "log-normal", draw: log_normal, autocorrelated: false },
    Rounds { name: "heavy tail", draw: heavy, autocorrelated: false },
    Rounds { name: "outliers", draw: slow_outliers, autocorrelated: false },
    Rounds { name: "quantised", draw: quantised, autocorrelated: false },
    Rounds { name: "two paths", draw: two_levels, autocorrelated: false },
    Rounds { name: "AR(1), ρ = 0.3", draw: ar_03, autocorrelated: true },
    Rounds { name: "AR(1), ρ = 0.8", draw: ar_08, autocorrelated: true },
    Rounds { name: "log-normal AR(1), ρ = 0.8", draw: log_normal_ar_08, autocorrelated: true },
    Rounds { name: "drift", draw: drifting, autocorrelated: true },
];

/// Normal values, rounded to steps of one deviation. Their median is a step: one run contains no
/// information about a truth between two steps.
fn quantised(source: &mut Source, count: usize) -> Vec<f64> {
    normal(source, count).into_iter().map(|v| (v + 0.2).round()).collect()
}

const WORDS: &str = "\
If only one process can measure, the interval is over its rounds (rules 15 and 18). How often the
interval contains the truth, and in brackets, how often there is no interval, because the
autocorrelated rounds have an effective number below six. The stated level is 95 % to 98 %, by the
number of blocks.";

const AFTERWARDS: &str = "\
A short visit shows too little of its autocorrelation: with twelve rounds and ρ = 0.8, five visits
in six have no interval, and the intervals of the others are too narrow. They are valid from 100
rounds on. *Quantised* rounds of one process contain no information about the truth between two
steps of the clock: rule 5 makes a step less than a thousandth of a batch.";

pub(crate) fn section(trials: Trials) -> Section {
    let mut section = Section::new("The interval within one run", WORDS);
    Experiment {
        rows: &ROUNDS,
        columns: &LENGTHS,
        name: |rounds, length| format!("within {} {length}", rounds.name),
        trial: |rounds, length, source, [kept, none, kept_or_none]: &mut [ChanceRate; 3]| {
            let values = (rounds.draw)(source, *length);
            let values = values.into_iter().map(|v| (TRUTH + v).max(1.0)).collect();
            let Some(summary) = summarise(&[Sample { values, ..Sample::default() }]) else {
                return;
            };
            let (is_none, is_kept) =
                (summary.interval.is_none(), interval_contains(&summary, TRUTH));
            none.count(is_none);
            kept_or_none.count(is_none || is_kept);
            if !is_none {
                kept.count(is_kept);
            }
        },
        check: |section, rounds, length, &[kept, _, kept_or_none]| {
            let what = format!("within one run, {}, {length} rounds", rounds.name);
            let guaranteed = if rounds.autocorrelated { 0.90 } else { 0.93 };
            section.at_least(kept_or_none, guaranteed, &what);
            if !rounds.autocorrelated || *length >= 100 {
                section.at_least(kept, 0.93, &what);
            }
        },
        head: "rounds",
        title: |rounds| rounds.name.to_owned(),
        heads: usize::to_string,
        cells: |_, _, &[kept, none, _]| match kept.of {
            0 => format!("– ({})", percent(none.share())),
            _ => format!("{} ({})", marked_below(kept, 0.93), percent(none.share())),
        },
    }
    .run(&mut section, trials);
    section.paragraph(AFTERWARDS);
    section
}
