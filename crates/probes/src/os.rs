//! Metrics of the kernel: system calls, process and thread creation, context switches, IPC.
//!
//! One probe per file. Shared parts: inline system calls (`raw_call`), counting signal handlers
//! (`handler`), child processes that are always reaped (`child`), links between processes (`link`),
//! processes that pass a token over them (`ping_pong`, `turns`) and shared memory (`shared`).

use crate::prelude::*;

pub mod bandwidth;
pub(crate) mod child;
pub mod file_lock;
pub mod futex;
mod handler;
mod link;
pub mod multiplex;
mod ping_pong;
pub mod process_exec;
pub mod process_fork;
mod program;
pub mod ratio;
mod raw_call;
pub mod round_trip;
mod shared;
pub mod signal;
mod stream;
pub mod switch;
pub mod switch_ring;
pub mod syscall;
pub mod syscall_fresh;
pub mod thread_create;
mod turns;
pub mod unix_connect;
pub mod vdso;
mod vfork;
pub mod wake;
mod working_set;

/// Common to metrics whose work includes context switches.
const TURNS: About = About { expects: Counters::TURNS, noise_limit: 0.10, ..About::BASE };

/// Cases `part=…` and `part=total` of one operation, which gives the times of both.
fn both_parts<'k>(
    cases: &[ProbeCase],
    indices: Vec<usize>,
    mut once: impl FnMut(&Clock) -> Result<[f64; 2]> + 'k,
) -> SamplerWork<'k> {
    let is_total = |index: &usize| cases[*index].params.text("part") == Some("total");
    let totals: Vec<bool> = indices.iter().map(is_total).collect();
    SamplerWork::single(indices, move |clock, values| {
        let times = once(clock)?;
        for (value, total) in values.iter_mut().zip(&totals) {
            *value = times[usize::from(*total)];
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests;

#[cfg(test)]
fn check_names(sample: &fathom_record::Sample) -> Vec<&str> {
    sample.checks.iter().map(|check| check.name.as_str()).collect()
}
