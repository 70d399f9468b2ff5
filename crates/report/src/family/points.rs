//! What has to be said of the cases of a family that are not as they should be: which ones, why,
//! each cause once.

use fathom_analysis::display_value::DisplayValue;
use fathom_record::quantity::{at_most, quantity, range};
use fathom_record::{Agreement, Cause, Prediction, Protocol, Record, State, Unit};

use crate::cells::{Setting, is_as_found};
use crate::counts::{cause_words, counts_of, states, without_model};
use crate::paint::{FAINT, PLAIN, of_state, paint_lines};
use crate::remarks::{FURTHER, INDENT, meaning, next, read_apart, reason_words};
use crate::wrap::{glued, wrapped};

/// Single cases named in a row without an order; beyond, how many more.
const NAMED: usize = 8;

/// The cases of a family, in its order.
pub(crate) struct Points<'a> {
    pub(crate) records: Vec<&'a Record>,
    /// What each is called within the family.
    pub(crate) names: Vec<String>,
    /// What they are called.
    pub(crate) noun: &'static str,
    /// Whether neighbours in the order are neighbours in fact.
    pub(crate) ordered: bool,
}

/// What was already said of an earlier family of the same metric.
#[derive(Debug, Default)]
pub(crate) struct Told {
    noisy: Vec<Vec<Cause>>,
    texts: Vec<String>,
}

impl Told {
    /// Whether this is said for the first time.
    fn first(&mut self, text: &str) -> bool {
        let new = self.texts.iter().all(|told| told != text);
        if new {
            self.texts.push(text.to_owned());
        }
        new
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
                .those(|one| one.verdict.shows_number() && one.agreement == Some(agreement))
                .len();
            words.extend((count > 0).then(|| glued(&format!("{count} {}", agreement.word()))));
        }
        let without = without_model(self.records.iter().copied());
        // Where none has a prediction, the row says so.
        words.extend(
            (without > 0 && !words.is_empty())
                .then(|| glued(&format!("{without} without a model"))),
        );
        if !words.is_empty() {
            text += &format!("; {}", words.join(", "));
        }
        text
    }

    /// The lines beneath a family.
    pub(crate) fn remarks(&self, setting: &Setting<'_>, told: &mut Told) -> String {
        let width = setting.columns.line;
        let mut faint = String::new();
        let mut say = |text: String| faint += &wrapped(&text, width, INDENT, FURTHER);
        self.bounds(setting.protocol).into_iter().for_each(&mut say);
        self.apart().into_iter().for_each(&mut say);
        self.differing(setting.protocol, told).into_iter().for_each(&mut say);
        paint_lines(FAINT, &faint) + &self.noisy(width, told) + &self.without_number(width, told)
    }

    fn those(&self, wanted: impl Fn(&Record) -> bool) -> Vec<usize> {
        (0..self.records.len()).filter(|at| wanted(self.records[*at])).collect()
    }

    /// The chosen cases in words: `2 MiB…16 MiB, 64 MiB`.
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

    /// Differences too small to tell.
    fn bounds(&self, protocol: Protocol) -> Option<String> {
        let bound = |record: &Record| match DisplayValue::of(record, protocol) {
            DisplayValue::Bound(bound) => Some(bound),
            _ => None,
        };
        let chosen = self.those(|record| bound(record).is_some());
        let largest = chosen.iter().filter_map(|at| bound(self.records[*at])).reduce(f64::max)?;
        let largest = glued(&at_most(largest, self.records[0].unit));
        Some(format!("too small to tell at {}: {largest}", self.named(&chosen)))
    }

    /// Where one number does not say it all.
    fn apart(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let shown = |record: &Record| {
            let summary = record.summary.as_ref().filter(|_| record.verdict.shows_number());
            summary.filter(|summary| summary.bound.is_none()).cloned()
        };
        let all = glued("`fathom show --all`");
        let found = self.those(|record| shown(record).is_some() && is_as_found(record));
        if !found.is_empty() && found.len() < self.those(|it| shown(it).is_some()).len() {
            lines.push(format!("as found at {}", self.named(&found)));
        }
        let modes = self.those(|record| {
            shown(record).is_some_and(|it| it.modes.len() > 1 && read_apart(&it.modes, record))
        });
        if !modes.is_empty() {
            lines.push(format!("several modes at {}: see {all}", self.named(&modes)));
        }
        let clusters = self.those(|record| {
            let far = |it: &fathom_record::Summary| read_apart(&it.clusters, record);
            shown(record).is_some_and(|it| it.clusters.len() > 1 && far(&it))
        });
        if !clusters.is_empty() {
            let at = self.named(&clusters);
            lines.push(format!("processes fall into groups at {at}: see {all}"));
        }
        let floor = |record: &Record| shown(record).and_then(|it| it.clock_floor);
        let timed_singly = self.those(|record| floor(record).is_some());
        let highest = timed_singly.iter().filter_map(|at| floor(self.records[*at]));
        if let Some(floor) = highest.reduce(f64::max) {
            let floor = glued(&quantity(floor, Unit::Nanoseconds));
            let at = self.named(&timed_singly);
            let why = "timed singly, and too short to be free of it";
            lines.push(format!("clock floor {floor} at {at}: {why}"));
        }
        let nothing = self.those(|record| {
            record.verdict.shows_number()
                && DisplayValue::of(record, Protocol::Median) == DisplayValue::Withheld
        });
        if !nothing.is_empty() {
            let at = self.named(&nothing);
            lines.push(format!("no value that could be shown was recorded at {at}"));
        }
        lines
    }

    /// The cases outside their predictions, by what that means, each with the one furthest off.
    fn differing(&self, protocol: Protocol, told: &mut Told) -> Vec<String> {
        let chosen = self.those(|record| {
            record.verdict.shows_number() && record.agreement.is_some_and(Agreement::fails)
        });
        let groups = grouped(&chosen, |at| meaning(self.records[at]).unwrap_or_default());
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
                words if told.first(words) => format!("{text}: {words}"),
                _ => format!("{text}: as above"),
            }
        };
        groups.into_iter().map(line).collect()
    }

    /// The noisy cases by their causes, each set of causes in full once.
    fn noisy(&self, width: usize, told: &mut Told) -> String {
        let chosen = self.those(|record| record.verdict.state == State::Noisy);
        let causes = |at: usize| {
            let reasons = &self.records[at].verdict.reasons;
            reasons.iter().map(|reason| reason.cause).collect::<Vec<_>>()
        };
        let mut text = String::new();
        for (causes, members) in grouped(&chosen, causes) {
            let named = self.named(&members);
            if told.noisy.contains(&causes) {
                let words = causes.first().map_or("no reason was recorded", |it| cause_words(*it));
                let line = format!("noisy at {named}: {words}, as above");
                let lines = wrapped(&line, width, INDENT, INDENT);
                text += &paint_lines(of_state(State::Noisy), &lines);
                continue;
            }
            let widest = |at: &&usize| {
                let summary = self.records[**at].summary.as_ref();
                summary.and_then(|it| it.relative_half_width()).unwrap_or(0.0)
            };
            let first = members.iter().max_by(|a, b| widest(a).total_cmp(&widest(b)));
            let Some(first) = first else { continue };
            let record = self.records[*first];
            let example = match members.len() {
                1 => String::new(),
                _ => format!(" (so at {})", glued(&self.names[*first])),
            };
            let line = format!("noisy at {named}: {}{example}", reason_words(record));
            let lines = wrapped(&line, width, INDENT, INDENT);
            text += &paint_lines(of_state(State::Noisy), &lines);
            text += &advice(record, width);
            told.noisy.push(causes);
        }
        text
    }

    /// The cases without a number, by state and reason.
    fn without_number(&self, width: usize, told: &mut Told) -> String {
        let chosen = self.those(|record| !record.verdict.shows_number());
        let reason = |at: usize| {
            let record = self.records[at];
            (record.verdict.state.word(), reason_words(record))
        };
        let mut text = String::new();
        for ((word, reason), members) in grouped(&chosen, reason) {
            let record = self.records[members[0]];
            let new = told.first(&format!("{word} {reason}"));
            let as_above = if new { "" } else { ", as above" };
            let line = format!("{word} at {}: {reason}{as_above}", self.named_in_full(&members));
            let lines = wrapped(&line, width, INDENT, INDENT);
            text += &paint_lines(of_state(record.verdict.state), &lines);
            if new {
                text += &advice(record, width);
            }
        }
        text
    }

    /// As [`Self::named`], and none left out.
    fn named_in_full(&self, chosen: &[usize]) -> String {
        if self.ordered || chosen.len() <= NAMED || chosen.len() == self.records.len() {
            return self.named(chosen);
        }
        chosen.iter().map(|at| glued(&self.names[*at])).collect::<Vec<_>>().join(", ")
    }
}

/// The next thing to do, beneath a reason.
fn advice(record: &Record, width: usize) -> String {
    let arrow = format!("{INDENT}→ ");
    next(record)
        .map_or(String::new(), |next| paint_lines(PLAIN, &wrapped(&next, width, &arrow, FURTHER)))
}

/// The chosen by their key, in the order in which the keys first occur.
fn grouped<K: PartialEq>(chosen: &[usize], key: impl Fn(usize) -> K) -> Vec<(K, Vec<usize>)> {
    let mut groups: Vec<(K, Vec<usize>)> = Vec::new();
    for at in chosen {
        let key = key(*at);
        match groups.iter_mut().find(|(other, _)| *other == key) {
            Some((_, members)) => members.push(*at),
            None => groups.push((key, vec![*at])),
        }
    }
    groups
}

/// `13.40 ns, not 3.2–6.0 ns`.
fn figures(record: &Record, protocol: Protocol) -> Option<String> {
    let measured = DisplayValue::of(record, protocol).number()?;
    let prediction = record.prediction.as_ref()?;
    let limits = range(prediction.low, prediction.high, record.unit);
    let measured = glued(&quantity(measured, record.unit));
    Some(format!("{measured}, {}", glued(&format!("not {limits}"))))
}

/// |ln(measured ÷ nearest limit)|.
fn distance(record: &Record, protocol: Protocol) -> Option<f64> {
    let measured = DisplayValue::of(record, protocol).number()?;
    let prediction: &Prediction = record.prediction.as_ref()?;
    let limits = [prediction.low, prediction.high].into_iter().flatten();
    limits.map(|limit| (measured / limit).ln().abs()).reduce(f64::min)
}
