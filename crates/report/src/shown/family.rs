//! What is shown of a family of cases in one row: extremes, the widest interval, how many agree
//! with their predictions, and the worst of them.

use fathom_analysis::display_value::DisplayValue;
use fathom_analysis::evidence::shown_agreement;
use fathom_record::quantity::{NOTHING, percent, span_within};
use fathom_record::{Agreement, Class, Protocol, Record, State, Unit};

use super::{cycle_count, mark_of_any, nothing};
use crate::column::ShownCell;
use crate::counts::{agreements, counts_of};
use crate::paint::{BAD, CARE, FAINT, GOOD, PLAIN, of_state};
use crate::wrap::width_of;

/// The members of a family as they are shown by a protocol.
#[derive(Clone, Copy)]
pub(crate) struct ShownFamily<'r> {
    pub(crate) members: &'r [&'r Record],
    pub(crate) protocol: Protocol,
}

pub(crate) fn extremes(values: impl Iterator<Item = f64>) -> Option<[f64; 2]> {
    values.map(|value| [value, value]).reduce(|a, b| [a[0].min(b[0]), a[1].max(b[1])])
}

impl ShownFamily<'_> {
    /// The number of each member that has one.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = Option<f64>> {
        self.members.iter().map(|record| DisplayValue::from_record(record, self.protocol).number())
    }

    fn is_noisy(&self) -> bool {
        self.members.iter().any(|record| record.verdict.state == State::Noisy)
    }

    /// From the lowest to the highest number.
    pub(crate) fn number(&self, width: usize) -> ShownCell {
        let mark = mark_of_any(self.members);
        let text = extremes(self.numbers().flatten()).map_or_else(nothing, |[low, high]| {
            let span = span_within(low, high, self.members[0].unit, width - width_of(mark));
            mark.to_owned() + &span
        });
        (text, if self.is_noisy() { CARE } else { PLAIN })
    }

    /// The same in CPU cycles, if it is of times.
    pub(crate) fn cycles(&self, hz: f64, width: usize) -> Option<String> {
        let is_time = self.members[0].unit == Unit::Nanoseconds;
        let cycles = self.numbers().flatten().map(|ns| ns * hz / 1e9);
        let [low, high] = extremes(cycles).filter(|_| is_time)?;
        let text = format!("{}…{}", cycle_count(low), cycle_count(high));
        Some(if width_of(&text) <= width { text } else { format!("{low:.0}…{high:.0}") })
    }

    /// The widest interval, or the largest deviation.
    pub(crate) fn half(&self) -> String {
        let of = |record: &&Record| {
            let summary = record.shown_summary()?;
            let summary = Some(summary).filter(|summary| summary.bound.is_none())?;
            match self.protocol {
                Protocol::Median => summary.relative_half_width(),
                Protocol::Trimmed => {
                    summary.trimmed.as_ref().map(|trimmed| trimmed.sd / trimmed.mean.abs())
                }
            }
        };
        match self.members.iter().filter_map(of).filter(|width| width.is_finite()).reduce(f64::max)
        {
            Some(widest) if widest > 9.99 => percent(widest),
            Some(widest) => format!("≤ {}", percent(widest)),
            None => nothing(),
        }
    }

    /// `14 of 16 within`; of bounds, if there are no values, `14 of 16 met`.
    pub(crate) fn agreeing(&self, width: usize) -> ShownCell {
        let all = |class| agreements(self.members.iter().copied(), class);
        let classes = [
            (Class::Value, Agreement::Within),
            (Class::SelfConsistency, Agreement::Within),
            (Class::Bound, Agreement::Met),
        ];
        let agreed = classes.map(|(class, word)| (all(class), word));
        let first = agreed.into_iter().find(|(counts, _)| counts.iter().sum::<usize>() > 0);
        let Some((counts, word)) = first else {
            let none = self.members.iter().any(|record| record.no_model.is_some());
            return (if none { "no model".to_owned() } else { nothing() }, FAINT);
        };
        let (holding, sum, word) = (counts[0], counts.iter().sum::<usize>(), word.word());
        let long = format!("{holding} of {sum} {word}");
        let text = if width_of(&long) <= width { long } else { format!("{holding}/{sum} {word}") };
        (text, PLAIN)
    }

    /// The worst agreement or state of any member, with its count.
    pub(crate) fn worst(&self, width: usize) -> ShownCell {
        let counts = counts_of(self.members.iter().copied());
        let of = |wanted| {
            let shown = self.members.iter().filter(|record| record.verdict.shows_number());
            shown.filter(|record| shown_agreement(record) == Some(wanted)).count()
        };
        let noisy = self.is_noisy();
        let care = |style| if noisy { CARE } else { style };
        let states = [State::Failed, State::Invalid].map(|state| {
            let count = self.members.iter().filter(|record| record.verdict.state == state).count();
            (count, state.word(), of_state(state))
        });
        let others = [
            (of(Agreement::Outside), Agreement::Outside.word(), care(BAD)),
            (of(Agreement::Violated), Agreement::Violated.word(), care(BAD)),
            (of(Agreement::Inconclusive), Agreement::Inconclusive.word(), care(PLAIN)),
        ];
        let worst = states.into_iter().chain(others).find(|(count, ..)| *count > 0);
        if let Some((count, word, style)) = worst {
            let long = format!("{count} {word}");
            let whole = count == self.members.len() || width_of(&long) > width;
            return (if whole { word.to_owned() } else { long }, style);
        }
        let (word, style) = match (of(Agreement::Within), of(Agreement::Met)) {
            (0, 0) if noisy => ("noisy", CARE),
            (0, 0) if counts.valid > 0 => (NOTHING, FAINT),
            (0, 0) => ("no number", FAINT),
            (0, _) => (Agreement::Met.word(), care(PLAIN)),
            _ if self.members.iter().any(|record| record.is_value_within()) => {
                (Agreement::Within.word(), care(GOOD))
            }
            _ => (Agreement::Within.word(), care(PLAIN)),
        };
        (word.to_owned(), style)
    }
}
