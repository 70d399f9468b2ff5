//! os.process.fork: duplicating a process whose resident memory grows step by step.

use std::collections::BTreeMap;

use fathom_measure::sampler::Fault;
use fathom_measure::{Clock, Sampler, Work, host};
use fathom_record::{Counters, Host, NoModel, NotSelected, Params, Prediction, Stratum};

use super::child::{fork, refused};
use crate::buffer::{Buffer, Page};
use crate::memory_budget::MemoryBudget;
use fathom_metric::order::Order;
use fathom_metric::sum::{Sum, Term};
use fathom_metric::{About, Case, Inputs, Parameter, Probe, Sizes};

/// os.process.fork.
pub struct ProcessFork;

static ABOUT: About = About {
    id: "os.process.fork",
    title: "forking a process",
    timed: "part=fork: the C library's fork until it returns in the parent. part=total: until the \
            child, which does nothing but _exit, has been reaped by wait4",
    not_timed: "making the memory resident, which is done before; copying pages on write: neither \
                side writes to the ladder between two forks",
    model: "a bound at the two small steps: at 1 MiB part=fork ≥ os.thread.create, part=total ≥ \
            part=fork; 16 MiB ≥ 1 MiB. A value from 256 MiB on: the line through the two small \
            steps goes on, since each page costs the same work. The small steps have no value: \
            what copying one entry costs is known from this ladder alone",
    source: "Linux mm/memory.c, copy_page_range: one page-table entry, and one page's count of \
             users, for each resident page; METHOD 25 for the order",
    pitfalls: &[
        "huge pages have one entry for 512 pages: the ladder is kept to small ones, and looked up \
         in smaps afterwards",
        "memory that was only reserved costs nothing to fork: every page is written first",
        "the first fork makes the ladder read-only for both; it is not written again, so later \
         forks find it so. A program that writes between forks pays a fault for each page besides",
        "the worker's own few MiB are on top of rss_bytes in every case",
        "creator and child share one CPU: the child runs when the parent waits, or first, if the \
         scheduler prefers it; then its end lies in part=fork too",
        "another exit than _exit would run the parent's destructors twice; the child's exit \
         status is checked each time",
        "beyond some 100 MiB the kernel's 64 bytes for each page leave the caches: a page \
         then costs more",
    ],
    parameters: &[
        Parameter {
            name: "part",
            values: "fork, total",
            meaning: "until fork returns in the parent · until the child is reaped",
        },
        Parameter {
            name: "rss_bytes",
            values: "1, 16, 256, 1024 MiB",
            meaning: "resident memory by small pages, beside the worker's own",
        },
    ],
    needs: &["os.thread.create"],
    requires: "four times rss_bytes of available memory, and of the cgroup's limit",
    published: "1.325 ms ± 80 % (2016, i5-5257U)",
    expects: Counters::TURNS,
    noise_limit: 0.10,
    ..About::BASE
};

const MIB: u64 = 1 << 20;
const RSS_BYTES: [u64; 4] = [MIB, 16 * MIB, 256 * MIB, 1024 * MIB];
const PARTS: [&str; 2] = ["fork", "total"];
/// What the child leaves with: a status that nothing else leaves with by chance.
const EXIT_STATUS: i32 = 7;

/// With room: 500 ns to make a page resident, 14 forks of 200 µs and 250 ns a page.
fn cost_ns(rss_bytes: u64) -> f64 {
    let pages = rss_bytes as f64 / 4096.0;
    (500.0 * pages + 14.0 * (200_000.0 + 250.0 * pages)) / PARTS.len() as f64
}

fn params(part: &str, rss_bytes: u64) -> Params {
    Params::one("part", part).and("rss_bytes", rss_bytes as i64)
}

impl Probe for ProcessFork {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn cases(&self, _: &Host, sizes: &Sizes) -> Vec<Case> {
        let steps = if sizes.smoke { &RSS_BYTES[..1] } else { &RSS_BYTES[..] };
        let parts = |rss: &u64| {
            PARTS.map(|part| Case { params: params(part, *rss), cost_ns: cost_ns(*rss) })
        };
        steps.iter().flat_map(parts).collect()
    }

    fn selection(&self, case: &Case, _: &Host) -> Result<Stratum, NotSelected> {
        // Four milliseconds and more: a tenth of a neighbour's spells.
        let is_long = rss_of(case) >= 256 * MIB;
        if is_long { Err(NotSelected::LongOperation) } else { Ok(Stratum::FullSpeed) }
    }

    fn predict(&self, case: &Case, _: &Host, known: &Inputs<'_>) -> Result<Prediction, NoModel> {
        let part = case.params.text("part").unwrap_or_default();
        let rss = rss_of(case);
        let order = |metric, params: &Params, source| {
            Order { factor: 1.0, metric, source }.claim(params, known)
        };
        match RSS_BYTES.iter().position(|step| *step == rss) {
            Some(0) if part == "total" => {
                order(ABOUT.id, &params("fork", rss), "the same fork, and its child's end besides")
            }
            Some(0) => {
                let source = "a thread shares what a process is given a copy of (METHOD 25)";
                order("os.thread.create", &Params::none(), source)
            }
            Some(1) => {
                let source = "more page-table entries to copy, and to tear down";
                order(ABOUT.id, &params(part, RSS_BYTES[0]), source)
            }
            Some(_) => along_the_line(part, rss, known),
            None => Err(NoModel::no_such_case(&case.params)),
        }
    }

    fn visit(&self, cases: &[Case], sampler: &mut Sampler) -> Result<(), Fault> {
        let mut steps: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for (index, case) in cases.iter().enumerate() {
            steps.entry(rss_of(case)).or_default().push(index);
        }
        let budget = MemoryBudget::of(&host::read());
        let fitting: Vec<u64> =
            steps.keys().copied().filter(|rss| budget.check(*rss).is_ok()).collect();
        let (mut resident, mapped, refusal) = largest(&fitting);
        for (rss, indices) in steps {
            match resident.as_mut().filter(|_| rss <= mapped) {
                Some(resident) => take_step(cases, rss, &indices, resident, sampler),
                None => {
                    let fault = budget.check(rss).err().or_else(|| refusal.clone());
                    let lost = Fault::Failed("the ladder has no such step".to_owned());
                    let fault = fault.unwrap_or(lost);
                    indices.iter().for_each(|index| sampler.fault(*index, fault.clone()));
                }
            }
        }
        Ok(())
    }
}

/// The line through the two smallest steps, at a larger one.
fn along_the_line(part: &str, rss: u64, known: &Inputs<'_>) -> Result<Prediction, NoModel> {
    let [low, high, ..] = RSS_BYTES;
    let steps = (rss - low) as f64 / (high - low) as f64;
    let term = |times, rss| Term { times, metric: ABOUT.id, params: params(part, rss) };
    let sum = Sum {
        terms: &[term(steps, high), term(1.0 - steps, low)],
        tolerance: 0.3,
        source: "Linux mm/memory.c, copy_page_range: the same work for each resident page, so the \
                 line through the two smallest steps goes on",
        otherwise: "a page costs more, or less, than in a small process: the kernel's 64 bytes for \
                    each page no longer fit the caches, or pages are shared in larger pieces",
    };
    sum.predict(known)
}

/// Room for the largest step that can be mapped, how large it is, and why a larger one cannot be: a
/// limit on address space (`ulimit -v`) is not seen before.
fn largest(steps: &[u64]) -> (Option<Buffer>, u64, Option<Fault>) {
    let mut refusal = None;
    for rss in steps.iter().rev() {
        match Buffer::reserve(*rss as usize, Page::Base) {
            Ok(resident) => return (Some(resident), *rss, refusal),
            Err(fault) => refusal = Some(fault),
        }
    }
    (None, 0, refusal)
}

fn rss_of(case: &Case) -> u64 {
    case.params.integer("rss_bytes").and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(0)
}

/// Grows to one step of the ladder and takes its rounds.
fn take_step(
    cases: &[Case],
    rss: u64,
    indices: &[usize],
    resident: &mut Buffer,
    sampler: &mut Sampler,
) {
    resident.grow_to(rss as usize);
    let total: Vec<bool> =
        indices.iter().map(|index| cases[*index].params.text("part") == Some("total")).collect();
    let operation = |clock: &Clock, values: &mut [f64]| {
        let times = fork_once(clock)?;
        for (value, total) in values.iter_mut().zip(&total) {
            *value = if *total { times.total_ns } else { times.fork_ns };
        }
        Ok(())
    };
    sampler.run(vec![Work::single(indices.to_vec(), operation)]);
    let verified = resident.check();
    for index in indices {
        match &verified {
            Ok((passed, detail)) => {
                sampler.check(*index, "resident memory", *passed, detail.clone());
            }
            Err(fault) => sampler.fault(*index, fault.clone()),
        }
    }
}

struct Times {
    fork_ns: f64,
    total_ns: f64,
}

fn fork_once(clock: &Clock) -> Result<Times, Fault> {
    let start = clock.start();
    // SAFETY: the child does nothing but leave.
    let child = unsafe { fork(|| EXIT_STATUS) }.map_err(|error| refused("fork", &error))?;
    let forked = clock.stop();
    child.wait_for(EXIT_STATUS)?;
    let reaped = clock.stop();
    Ok(Times { fork_ns: clock.ns(start, forked), total_ns: clock.ns(start, reaped) })
}

#[cfg(test)]
mod tests;
