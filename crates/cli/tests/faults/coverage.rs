//! What was made to fail, where, and what came of it: the table of a test of failing calls.

use std::collections::{BTreeMap, BTreeSet};

use fathom_lab::strace::Fault;

use crate::fault_plan::PlannedFault;

/// A line of the table: a call on something, and one way to fail.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Line {
    call: String,
    on: &'static str,
    fault: String,
}

#[derive(Default)]
struct Cell {
    at: BTreeSet<usize>,
    outcomes: BTreeMap<&'static str, usize>,
}

/// What was covered so far.
#[derive(Default)]
pub(crate) struct Coverage {
    lines: BTreeMap<Line, Cell>,
    faults: BTreeSet<PlannedFault>,
    words: BTreeMap<&'static str, usize>,
}

impl Coverage {
    /// A trial, and in a word what came of it.
    pub(crate) fn add(&mut self, one: &PlannedFault, word: &'static str) {
        let injection = &one.injection;
        let times = match injection.times {
            None => " for good".to_owned(),
            Some(1) => String::new(),
            Some(times) => format!(" × {times}"),
        };
        let fault = match injection.fault {
            Fault::Error(name) => format!("{name}{times}"),
            Fault::Kill => "SIGKILL".to_owned(),
            Fault::Interrupt => "SIGINT".to_owned(),
        };
        let line = Line { call: injection.call.clone(), on: one.on, fault };
        let cell = self.lines.entry(line).or_default();
        cell.at.insert(injection.at);
        *cell.outcomes.entry(word).or_default() += 1;
        *self.words.entry(word).or_default() += 1;
        self.faults.insert(one.clone());
    }

    /// How many different things came of it.
    pub(crate) fn kinds(&self) -> usize {
        self.words.len()
    }

    /// The table, with its sums above it.
    pub(crate) fn table(&self) -> String {
        let calls: BTreeSet<(&str, &str)> =
            self.lines.keys().map(|line| (line.call.as_str(), line.on)).collect();
        let mut text = format!(
            "{} trials of {} distinct faults (call × N × error) of {} calls: {}.\n\n\
             | call | on | fault | N | outcomes |\n|---|---|---|---|---|\n",
            self.words.values().sum::<usize>(),
            self.faults.len(),
            calls.len(),
            counted(&self.words)
        );
        for (Line { call, on, fault }, cell) in &self.lines {
            let (at, outcomes) = (ranges(&cell.at), counted(&cell.outcomes));
            text.push_str(&format!("| {call} | {on} | {fault} | {at} | {outcomes} |\n"));
        }
        text
    }
}

fn counted(words: &BTreeMap<&'static str, usize>) -> String {
    words.iter().map(|(word, count)| format!("{count} {word}")).collect::<Vec<_>>().join("; ")
}

/// `1–3, 7`.
fn ranges(numbers: &BTreeSet<usize>) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => ranges.push((*number, *number)),
        }
    }
    let text = ranges.iter().map(|(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first}–{last}"),
    });
    text.collect::<Vec<_>>().join(", ")
}

#[test]
fn consecutive_numbers_are_a_range() {
    assert_eq!(ranges(&[1, 2, 3, 7, 9, 10].into()), "1–3, 7, 9–10");
}
