//! How fast the core itself was while each process measured, by the reference spin between its
//! rounds (METHOD 27): processes that met a slow core are held against none that did not.
//!
//! A neighbour on the same core comes and goes within seconds. What it does to a few processes of
//! one run and not of the other is no change of what was measured, and the spin tells of it without
//! looking at the values.

use fathom_record::judge::SLOW_CORE_MIN;
use fathom_record::{Document, Record};
use serde::Serialize;

use super::differences::have_one_machine;

/// Of a side of which some processes are left out, at least so many must remain.
const REMAIN_MIN: usize = 4;

/// Processes of a case that met a slower core than the quickest of both sides did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SlowCore {
    /// Processes of A that did.
    pub a: usize,
    /// Processes of B that did.
    pub b: usize,
    /// Whether they were left out. Where too few others remain, all are shown, and nobody can tell.
    pub left_out: bool,
}

/// The quickest reference spins of the runs that are compared.
pub(super) struct Quickest<'a> {
    b: &'a Document,
    /// Of all runs of B's machine together.
    of_machine: Option<f64>,
}

impl<'a> Quickest<'a> {
    pub(super) fn of(a: &[&Document], b: &'a Document) -> Self {
        let alike = a.iter().filter(|one| have_one_machine(one, b));
        let of_machine = alike.chain([&b]).filter_map(|run| quickest_spin(run)).reduce(f64::min);
        Self { b, of_machine }
    }

    /// The spin that stands for a core at full speed in this run. Another machine has its own.
    pub(super) fn spin_of(&self, run: &Document) -> Option<f64> {
        if have_one_machine(run, self.b) { self.of_machine } else { quickest_spin(run) }
    }
}

/// How many times slower the core was in all of B than it came to be in A, where that is more than
/// processes that met a slow core are allowed.
pub(super) fn change(a: &Document, b: &Document) -> Option<f64> {
    let ratio = quickest_spin(b)? / quickest_spin(a)?;
    let is_alike = (1.0 / SLOW_CORE_MIN..=SLOW_CORE_MIN).contains(&ratio);
    (!is_alike).then_some(ratio)
}

fn quickest_spin(run: &Document) -> Option<f64> {
    let summaries = run.records.iter().filter_map(|record| record.summary.as_ref());
    let spins = summaries.flat_map(|summary| summary.process_spins.iter().copied());
    spins.filter(|spin| *spin > 0.0).reduce(f64::min)
}

/// The median of one process, and how many times slower its core was than at full speed, where a
/// spin tells that.
#[derive(Clone, Copy)]
pub(super) struct Process {
    pub(super) median: f64,
    slowness: Option<f64>,
}

/// The finite medians of the processes behind a record; the headline alone where there are none.
/// `full_speed` is the spin of a core at full speed. `None` without a summary.
pub(super) fn processes(record: &Record, full_speed: Option<f64>) -> Option<Vec<Process>> {
    let summary = record.summary.as_ref()?;
    let (medians, spins) = (&summary.process_medians, &summary.process_spins);
    let has_spins = spins.len() == medians.len();
    let slowness = |process: usize| Some(spins.get(process).filter(|_| has_spins)? / full_speed?);
    let process = |(at, median): (usize, &f64)| Process { median: *median, slowness: slowness(at) };
    let mut processes: Vec<Process> = medians.iter().enumerate().map(process).collect();
    processes.retain(|process| process.median.is_finite());
    if processes.is_empty() {
        processes.push(Process { median: summary.median, slowness: None });
    }
    Some(processes)
}

/// Leaves out, of the runs of A and of B, what met a slower core than the quickest of them all;
/// nothing where too few would remain. Says how many there are, if any.
pub(super) fn leave_out_slow(a: &mut Vec<Vec<Process>>, b: &mut Vec<Process>) -> Option<SlowCore> {
    let slownesses = a.iter().flatten().chain(b.iter()).filter_map(|process| process.slowness);
    let quickest = slownesses.reduce(f64::min)?;
    let is_slow = |process: &Process| {
        process.slowness.is_some_and(|slowness| slowness > SLOW_CORE_MIN * quickest)
    };
    let slow = |side: &mut dyn Iterator<Item = &Process>| side.filter(|it| is_slow(it)).count();
    let (slow_a, slow_b) = (slow(&mut a.iter().flatten()), slow(&mut b.iter()));
    if slow_a + slow_b == 0 {
        return None;
    }
    let (all_a, all_b) = (a.iter().map(Vec::len).sum::<usize>(), b.len());
    let are_enough = |all: usize, slow: usize| slow == 0 || all - slow >= REMAIN_MIN;
    let left_out = are_enough(all_a, slow_a) && are_enough(all_b, slow_b);
    if left_out {
        a.iter_mut().for_each(|run| run.retain(|process| !is_slow(process)));
        a.retain(|run| !run.is_empty());
        b.retain(|process| !is_slow(process));
    }
    Some(SlowCore { a: slow_a, b: slow_b, left_out })
}
