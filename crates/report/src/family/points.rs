//! Remarks on the cases of a family that are not valid and within their prediction: which cases and
//! why, each cause once.

use fathom_analysis::display_value::DisplayValue;
use fathom_analysis::evidence::shown_agreement;
use fathom_record::quantity::{at_most, quantity};
use fathom_record::{Agreement, Fact, Position, Prediction, Protocol, Record, State, Unit, causes};

use crate::columns::Setting;
use crate::counts::{cause_words, counts_of, states, without_prediction};
use crate::distinct::grouped;
use crate::paint::{FAINT, of_state, paint_lines};
use crate::remarks::{FURTHER, INDENT, meaning, read_apart, reason_words};
use crate::shown::{is_as_found, limits};
use crate::wrap::{glued, wrapped};

/// Cases named in a family without order; further ones are counted.
const NAMED: usize = 8;

pub(crate) struct Points<'a> {
    pub(crate) records: Vec<&'a Record>,
    /// The name of each case within the family.
    pub(crate) names: Vec<String>,
    /// What the cases are called.
    pub(crate) noun: &'static str,
    /// Whether neighbours are adjacent on an axis.
    pub(crate) ordered: bool,
}

/// What was printed for earlier families of the same metric.
#[derive(Debug, Default)]
pub(crate) struct Printed {
    texts: Vec<String>,
}

impl Printed {
    /// Whether this text is printed for the first time.
    fn is_first(&mut self, text: &str) -> bool {
        let is_first = self.texts.iter().all(|other| other != text);
        if is_first {
            self.texts.push(text.to_owned());
        }
        is_first
    }
}

impl Points<'_> {
    /// `18 points: 15 valid, 2 noisy, 1 invalid; 14 within, 2 outside, 1 inconclusive`.
    pub(crate) fn counts(&self) -> String {
        let counts = counts_of(self.records.iter().copied());
        let states: Vec<String> = states(&counts)
            .map(|(count, state)| glued(&format!("{count} {}", state.word())))
            .collect();
        let all = glued(&format!("{} {}", self.records.len(), self.noun));
        let mut text = match states.as_slice() {
            [_] => format!("{all}, all {}", self.records[0].verdict.state.word()),
            states => format!("{all}: {}", states.join(", ")),
        };
        let mut words = Vec::new();
        for agreement in Agreement::ALL {
            let count = self
                .select(|one| one.verdict.shows_number() && shown_agreement(one) == Some(agreement))
                .len();
            words.extend((count > 0).then(|| glued(&format!("{count} {}", agreement.word()))));
        }
        let (without, noisy) = without_prediction(self.records.iter().copied());
        // Without any prediction the row has `no model`.
        if !words.is_empty() {
            for (count, what) in [(without, "without a model"), (noisy, "with a noisy input")] {
                words.extend((count > 0).then(|| glued(&format!("{count} {what}"))));
            }
        }
        if !words.is_empty() {
            text += &format!("; {}", words.join(", "));
        }
        text
    }

    /// The lines beneath a family.
    pub(crate) fn remarks(&self, setting: &Setting<'_>, printed: &mut Printed) -> String {
        let width = setting.columns.line;
        let mut faint = String::new();
        let mut add = |text: String| faint += &wrapped(&text, width, INDENT, FURTHER);
        self.bounds(setting.protocol).into_iter().for_each(&mut add);
        self.distributions().into_iter().for_each(&mut add);
        self.differing(setting.protocol, printed).into_iter().for_each(&mut add);
        self.unusual().into_iter().for_each(&mut add);
        let noisy = self.noisy(width);
        paint_lines(FAINT, &faint) + &noisy + &self.without_number(width, printed)
    }

    fn select(&self, wanted: impl Fn(&Record) -> bool) -> Vec<usize> {
        (0..self.records.len()).filter(|at| wanted(self.records[*at])).collect()
    }

    /// The chosen cases as text: `2 MiB…16 MiB, 64 MiB`.
    fn named(&self, chosen: &[usize]) -> String {
        if chosen.len() == self.records.len() && chosen.len() > 1 {
            return glued(&format!("all {} {}", chosen.len(), self.noun));
        }
        if !self.ordered {
            let first = chosen.iter().take(NAMED).map(|at| glued(&self.names[*at]));
            let mut list: Vec<String> = first.collect();
            let more = chosen.len().saturating_sub(NAMED);
            list.extend((more > 0).then(|| glued(&format!("and {more} more"))));
            return list.join(", ");
        }
        let stretches = chosen.chunk_by(|a, b| a + 1 == *b);
        let words = stretches.flat_map(|stretch| match stretch {
            [first, .., last] if stretch.len() > 2 => {
                vec![glued(&format!("{}…{}", self.names[*first], self.names[*last]))]
            }
            few => few.iter().map(|at| glued(&self.names[*at])).collect(),
        });
        words.collect::<Vec<_>>().join(", ")
    }

    /// Numbers that such machines do not give.
    fn unusual(&self) -> Vec<String> {
        let at = |position: Position, word: &str| {
            let is_it = |record: &Record| {
                record.typical.as_ref().is_some_and(|typical| typical.position == position)
            };
            let chosen = self.select(is_it);
            let places = (!chosen.is_empty()).then(|| self.named(&chosen))?;
            Some(format!("{word} than typical at {places}: `fathom compare --typical`"))
        };
        let both = [(Position::Worse, "worse"), (Position::Better, "better")];
        both.into_iter().filter_map(|(position, word)| at(position, word)).collect()
    }

    /// Differences too small to measure.
    fn bounds(&self, protocol: Protocol) -> Option<String> {
        let bound = |record: &Record| match DisplayValue::from_record(record, protocol) {
            DisplayValue::Bound(bound) => Some(bound),
            _ => None,
        };
        let chosen = self.select(|record| bound(record).is_some());
        let largest = chosen.iter().filter_map(|at| bound(self.records[*at])).reduce(f64::max)?;
        let largest = glued(&at_most(largest, self.records[0].unit));
        Some(format!("upper bound at {}: {largest}", self.named(&chosen)))
    }

    /// Remarks on strata, modes, clusters, the clock's floor and missing values.
    fn distributions(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let shown = |record: &Record| {
            let summary = record.shown_summary();
            summary.filter(|summary| summary.bound.is_none()).cloned()
        };
        let all = glued("`fathom show --all`");
        let found = self.select(|record| shown(record).is_some() && is_as_found(record));
        if !found.is_empty() && found.len() < self.select(|it| shown(it).is_some()).len() {
            lines.push(format!(
                "over all processes, in any state of the core, at {}",
                self.named(&found)
            ));
        }
        let between = self.select(|record| Fact::are_on_edge(&record.facts));
        if !between.is_empty() {
            let at = self.named(&between);
            lines.push(format!("between two levels at {at}: no level alone holds these sets"));
        }
        let modes = self.select(|record| {
            shown(record).is_some_and(|it| it.modes.len() > 1 && read_apart(&it.modes, record))
        });
        if !modes.is_empty() {
            lines.push(format!("multimodal at {}: see {all}", self.named(&modes)));
        }
        let clusters = self.select(|record| {
            let far = |it: &fathom_record::Summary| read_apart(&it.clusters, record);
            shown(record).is_some_and(|it| it.clusters.len() > 1 && far(&it))
        });
        if !clusters.is_empty() {
            let at = self.named(&clusters);
            lines.push(format!("bimodal across processes at {at}: see {all}"));
        }
        let floor_of = |record: &Record| shown(record).and_then(|it| it.clock_floor);
        let timed_singly = self.select(|record| floor_of(record).is_some());
        let highest = timed_singly.iter().filter_map(|at| floor_of(self.records[*at]));
        if let Some(ns) = highest.reduce(f64::max) {
            let floor = glued(&quantity(ns, Unit::Nanoseconds));
            let at = self.named(&timed_singly);
            lines.push(format!("clock floor {floor} at {at}: affects single timings this short"));
        }
        let nothing = self.select(|record| {
            record.verdict.shows_number()
                && DisplayValue::from_record(record, Protocol::Median) == DisplayValue::Withheld
        });
        if !nothing.is_empty() {
            let at = self.named(&nothing);
            lines.push(format!("no valid value recorded at {at}"));
        }
        lines
    }

    /// The cases outside their predictions, by meaning, each with the furthest case.
    fn differing(&self, protocol: Protocol, printed: &mut Printed) -> Vec<String> {
        let chosen = self.select(|record| {
            record.verdict.shows_number() && shown_agreement(record).is_some_and(Agreement::fails)
        });
        let meaning = |at: usize| meaning(self.records[at]).unwrap_or_default();
        let groups = grouped(chosen.iter().map(|at| (meaning(*at), *at)));
        let line = |(meaning, members): (&str, Vec<usize>)| {
            let far = |at: &usize| distance(self.records[*at], protocol).unwrap_or(0.0);
            let furthest = members.iter().max_by(|a, b| far(a).total_cmp(&far(b)));
            let mut text = format!("outside at {}", self.named(&members));
            if let Some((at, figures)) =
                furthest.and_then(|at| Some((at, figures(self.records[*at], protocol)?)))
            {
                text += &match members.len() {
                    1 => format!(" ({figures})"),
                    _ => format!(", furthest at {} ({figures})", glued(&self.names[*at])),
                };
            }
            match meaning {
                "" => text,
                words if printed.is_first(words) => format!("{text}: {words}"),
                _ => format!("{text}: as above"),
            }
        };
        groups.into_iter().map(line).collect()
    }

    /// The noisy cases in a line, with their main causes and how many have each.
    fn noisy(&self, width: usize) -> String {
        let chosen = self.select(|record| record.verdict.state == State::Noisy);
        if chosen.is_empty() {
            return String::new();
        }
        let causes: Vec<String> = causes(self.records.iter().copied(), State::Noisy)
            .into_iter()
            .map(|(cause, count)| glued(&format!("{} {count}", cause_words(cause))))
            .collect();
        let line = format!("noisy at {}: {}", self.named(&chosen), causes.join(", "));
        paint_lines(of_state(State::Noisy), &wrapped(&line, width, INDENT, INDENT))
    }

    /// The cases without a number, by state and reason.
    fn without_number(&self, width: usize, printed: &mut Printed) -> String {
        let chosen = self.select(|record| !record.verdict.shows_number());
        let reason_of = |at: usize| {
            let record = self.records[at];
            (record.verdict.state.word(), reason_words(record))
        };
        let mut text = String::new();
        for ((word, reason), members) in grouped(chosen.iter().map(|at| (reason_of(*at), *at))) {
            let record = self.records[members[0]];
            let is_first = printed.is_first(&format!("{word} {reason}"));
            let as_above = if is_first { "" } else { ", as above" };
            let line = format!("{word} at {}: {reason}{as_above}", self.named_in_full(&members));
            let lines = wrapped(&line, width, INDENT, INDENT);
            text += &paint_lines(of_state(record.verdict.state), &lines);
        }
        text
    }

    /// As [`Self::named`], but never shortened.
    fn named_in_full(&self, chosen: &[usize]) -> String {
        if self.ordered || chosen.len() <= NAMED || chosen.len() == self.records.len() {
            return self.named(chosen);
        }
        chosen.iter().map(|at| glued(&self.names[*at])).collect::<Vec<_>>().join(", ")
    }
}

/// `13.40 ns, not 3.2–6.0 ns`.
fn figures(record: &Record, protocol: Protocol) -> Option<String> {
    let measured = DisplayValue::from_record(record, protocol).number()?;
    let prediction = record.prediction.as_ref()?;
    let limits = limits(record, prediction);
    let measured = glued(&quantity(measured, record.unit));
    Some(format!("{measured}, {}", glued(&format!("not {limits}"))))
}

/// |ln(measured ÷ nearest limit)|.
fn distance(record: &Record, protocol: Protocol) -> Option<f64> {
    let measured = DisplayValue::from_record(record, protocol).number()?;
    let prediction: &Prediction = record.prediction.as_ref()?;
    let limits = [prediction.low, prediction.high].into_iter().flatten();
    limits.map(|limit| (measured / limit).ln().abs()).reduce(f64::min)
}
