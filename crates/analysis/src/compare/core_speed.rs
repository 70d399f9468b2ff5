//! How fast the core itself was while each process measured, by the reference spin between its
//! rounds (METHOD 27): processes that met a slow core are not compared
//! with those that did not.
//!
//! A neighbour on the same core comes and goes within seconds. What it does to a few processes of
//! one run and not of the other is no change of what was measured, and the spin shows it without
//! looking at the values.

use fathom_record::{Document, Record};
use serde::Serialize;

use crate::differences::have_one_machine;
use crate::judge::SLOW_CORE_MIN;

/// Of a side of which some processes are left out, at least so many must remain, and half of it:
/// what most of a side met is how it was.
const REMAIN_MIN: usize = 4;

/// Processes of a case that met a slower core than others of both sides did.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SlowCore {
    /// Processes of A that did.
    pub a: usize,
    /// Processes of B that did.
    pub b: usize,
    /// How many times slower it was for the slowest of them.
    pub times: f64,
    /// Whether they were left out. Where too few others remain, all are shown, and nobody can tell
    /// what is not far more than a slow core explains.
    pub left_out: bool,
}

impl SlowCore {
    /// Whether a change is far more than it explains. What else the core does may suffer more than
    /// the spin: by its square, at most.
    pub(super) fn explains(self, interval: [f64; 2]) -> bool {
        let nearest = interval.map(|end| end.ln().abs()).into_iter().fold(f64::INFINITY, f64::min);
        nearest <= 2.0 * self.times.ln()
    }
}

/// The runs that are compared, and how quick their reference spins came to be.
pub(super) struct Runs<'a>(Vec<&'a Document>);

impl<'a> Runs<'a> {
    pub(super) fn of(a: &[&'a Document], b: &'a Document) -> Self {
        Self(a.iter().copied().chain([b]).collect())
    }

    /// The spin that stands for full speed in this run: the quickest of all runs on one CPU of one
    /// machine. Another core has its own.
    pub(super) fn full_speed(&self, run: &Document) -> Option<f64> {
        let alike = self.0.iter().filter(|one| have_one_core(one, run));
        alike.filter_map(|one| quickest_spin(one)).reduce(f64::min)
    }
}

fn have_one_core(a: &Document, b: &Document) -> bool {
    a.run.cpu == b.run.cpu && have_one_machine(a, b)
}

/// How many times slower the core was in all of B than it came to be in A, where that is more than
/// is forgiven a process. Of two hosts it is no news, nor of two of a host's CPUs.
pub(super) fn change(a: &[&Document], b: &Document) -> Option<f64> {
    let is_alike = |one: &&&Document| {
        let (host_a, host_b) = (&one.host, &b.host);
        one.run.cpu == b.run.cpu
            && (host_a.identity(), &host_a.cpu.model) == (host_b.identity(), &host_b.cpu.model)
    };
    let in_a = a.iter().filter(is_alike).filter_map(|one| quickest_spin(one)).reduce(f64::min);
    let ratio = quickest_spin(b)? / in_a?;
    let is_as_quick = (1.0 / SLOW_CORE_MIN..=SLOW_CORE_MIN).contains(&ratio);
    (!is_as_quick).then_some(ratio)
}

fn quickest_spin(run: &Document) -> Option<f64> {
    let summaries = run.records.iter().filter_map(|record| record.summary.as_ref());
    let spins = summaries.flat_map(|summary| summary.process_spins.iter().copied());
    spins.filter(|spin| *spin > 0.0).reduce(f64::min)
}

/// The median of one process, and how many times slower its core was than at full speed, where a
/// spin shows that.
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
    let slowness = |process: usize| {
        let spin = spins.get(process).filter(|spin| has_spins && **spin > 0.0)?;
        Some(spin / full_speed?)
    };
    let process = |(at, median): (usize, &f64)| Process { median: *median, slowness: slowness(at) };
    let mut processes: Vec<Process> = medians.iter().enumerate().map(process).collect();
    processes.retain(|process| process.median.is_finite());
    if processes.is_empty() {
        processes.push(Process { median: summary.median, slowness: None });
    }
    Some(processes)
}

/// Leaves out, of the runs of A and of B, what met a slower core than others of them; nothing where
/// too few would remain. Says how many there are, if any. Where the spin of only one process is
/// missing, none is judged: one side would be sifted and the other not.
pub(super) fn leave_out_slow(a: &mut Vec<Vec<Process>>, b: &mut Vec<Process>) -> Option<SlowCore> {
    let of_all = a.iter().flatten().chain(b.iter()).map(|process| process.slowness);
    let mut of_all = of_all.collect::<Option<Vec<f64>>>()?;
    of_all.sort_unstable_by(f64::total_cmp);
    // One lucky process among slow ones is no measure of them.
    let full_speed = *of_all.get(REMAIN_MIN.min(of_all.len()) - 1)?;
    let times = of_all.last()? / full_speed;
    let is_slow = |process: &Process| {
        process.slowness.is_some_and(|slowness| slowness > SLOW_CORE_MIN * full_speed)
    };
    let slow = |side: &mut dyn Iterator<Item = &Process>| side.filter(|it| is_slow(it)).count();
    let (slow_a, slow_b) = (slow(&mut a.iter().flatten()), slow(&mut b.iter()));
    if slow_a + slow_b == 0 {
        return None;
    }
    let (all_a, all_b) = (a.iter().map(Vec::len).sum::<usize>(), b.len());
    let are_enough = |all: usize, slow: usize| {
        let remain = all - slow;
        slow == 0 || (remain >= REMAIN_MIN && 2 * remain >= all)
    };
    let left_out = are_enough(all_a, slow_a) && are_enough(all_b, slow_b);
    if left_out {
        a.iter_mut().for_each(|run| run.retain(|process| !is_slow(process)));
        a.retain(|run| !run.is_empty());
        b.retain(|process| !is_slow(process));
    }
    Some(SlowCore { a: slow_a, b: slow_b, times, left_out })
}
