//! os.process.fork: forking a process with 1 MiB to 1 GiB of resident memory.

use std::collections::BTreeMap;

use fathom_measure::host;

use super::child::{creation_fault, fork};
use crate::prelude::*;

metric!(ProcessFork, ABOUT);

static ABOUT: About = About {
    id: "os.process.fork",
    title: "forking a process",
    timed: "part=fork: the C library's fork until it returns in the parent. part=total: until the \
            child, which only calls _exit, has been reaped by wait4",
    not_timed: "making the memory resident; copy-on-write faults: neither side writes to the \
                memory between two forks",
    model: "bounds for the two small sizes: at 1 MiB part=fork ≥ os.thread.create, part=total ≥ \
            part=fork; 16 MiB ≥ 1 MiB. A value from 256 MiB: extrapolated linearly from the two \
            small sizes, since each page costs the same. The small sizes have no value: the cost \
            of copying a page-table entry is known from this metric alone",
    source: "Linux mm/memory.c, copy_page_range: one page-table entry and one page reference \
             count for each resident page; METHOD 25 for the order",
    pitfalls: &[
        "a huge page has one entry for 512 pages: the memory uses base pages only, which is \
         checked in smaps afterwards",
        "memory that was only reserved costs nothing to fork: every page is written first",
        "the first fork makes the pages read-only in both processes; they are not written again, \
         so later forks find them read-only. A program that writes between forks also pays a \
         fault for each page",
        "the worker's own few MiB are on top of rss_bytes in every case",
        "parent and child share one CPU: if the scheduler runs the child first, part=fork \
         includes the child's exit",
        "an exit other than _exit would run the parent's destructors twice; the child's exit \
         status is checked each time",
        "beyond about 100 MiB the kernel's 64-byte struct page of each page no longer fits the \
         caches: a page then costs more",
    ],
    parameters: &[
        Parameter::new(
            "part",
            "fork, total",
            "until fork returns in the parent · until the child is reaped",
        ),
        Parameter::new(
            "rss_bytes",
            "1, 16, 256 MiB; from standard effort on 1024 MiB",
            "resident memory in base pages, in addition to the worker's own",
        ),
    ],
    needs: &["os.thread.create"],
    requires: "four times rss_bytes of available memory, also within the cgroup's limit",
    published: "1.325 ms ± 80 % (2016, i5-5257U)",
    ..super::TURNS
};

const MIB: u64 = 1 << 20;
const RSS_BYTES: [u64; 4] = [MIB, 16 * MIB, 256 * MIB, 1024 * MIB];
const PARTS: [&str; 2] = ["fork", "total"];
/// The child's exit status, unlikely to come from anything else.
const EXIT_STATUS: i32 = 7;

/// 500 ns to make a page resident, 8 forks of 500 µs plus 300 ns a page.
fn cost_ns(rss_bytes: u64) -> f64 {
    let pages = rss_bytes as f64 / 4096.0;
    (500.0 * pages + 8.0 * (500_000.0 + 300.0 * pages)) / PARTS.len() as f64
}

fn params(part: &str, rss_bytes: u64) -> Params {
    Params::one("part", part).and("rss_bytes", rss_bytes as i64)
}

impl Probe for ProcessFork {
    fn cases(&self, _: &Host, sizes: &Sizes) -> Vec<ProbeCase> {
        let steps = match (sizes.smoke, sizes.effort) {
            (true, _) => &RSS_BYTES[..1],
            // A visit of 1 GiB takes a second.
            (false, Effort::Quick) => &RSS_BYTES[..3],
            (false, _) => &RSS_BYTES[..],
        };
        let parts = |rss: &u64| {
            PARTS.map(|part| ProbeCase { params: params(part, *rss), cost_ns: cost_ns(*rss) })
        };
        steps.iter().flat_map(parts).collect()
    }

    fn selection(&self, case: &ProbeCase, _: &Host) -> Result<Stratum, NotSelected> {
        // 4 ms and more, a tenth of a typical burst of SMT contention: too long to select clean
        // ones.
        let is_long = rss_of(case) >= 256 * MIB;
        if is_long { Err(NotSelected::LongOperation) } else { Ok(Stratum::ToItself) }
    }

    fn predict(&self, case: &ProbeCase, _: &Host, known: &Inputs<'_>) -> Model {
        let part = case.params.text("part").unwrap_or_default();
        let rss = rss_of(case);
        match RSS_BYTES.iter().position(|step| *step == rss) {
            Some(0) if part == "total" => {
                let source = "the same fork, plus the child's exit";
                at_least(ABOUT.id, &params("fork", rss), source, known)
            }
            Some(0) => {
                let source = "a thread shares what fork copies (METHOD 25)";
                at_least("os.thread.create", &Params::none(), source, known)
            }
            Some(1) => {
                let source = "more page-table entries to copy and to tear down";
                at_least(ABOUT.id, &params(part, RSS_BYTES[0]), source, known)
            }
            Some(_) => extrapolate(part, rss, known),
            None => Err(NoModel::no_such_case(&case.params)),
        }
    }

    fn visit(&self, cases: &[ProbeCase], sampler: &mut Sampler) -> Result<()> {
        let mut sizes: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for (index, case) in cases.iter().enumerate() {
            sizes.entry(rss_of(case)).or_default().push(index);
        }
        let budget = MemoryBudget::from_host(&host::read());
        let fitting: Vec<u64> =
            sizes.keys().copied().filter(|rss| budget.check(*rss).is_ok()).collect();
        let (mut buffer, mapped, refusal) = reserve_largest(&fitting);
        for (rss, indices) in sizes {
            match buffer.as_mut().filter(|_| rss <= mapped) {
                Some(buffer) => measure_size(cases, rss, &indices, buffer, sampler),
                None => {
                    let fault = budget.check(rss).err().or_else(|| refusal.clone());
                    let fault =
                        fault.unwrap_or(SamplerFault::Failed("memory not mapped".to_owned()));
                    indices.iter().for_each(|index| sampler.fault(*index, fault.clone()));
                }
            }
        }
        Ok(())
    }
}

/// Linear extrapolation from the two smallest sizes.
fn extrapolate(part: &str, rss: u64, known: &Inputs<'_>) -> Model {
    let [low, high, ..] = RSS_BYTES;
    let steps = (rss - low) as f64 / (high - low) as f64;
    let term = |times, rss| Term::new(times, ABOUT.id, params(part, rss));
    let sum = Sum {
        terms: &[term(steps, high), term(1.0 - steps, low)],
        tolerance: 0.3,
        source: "Linux mm/memory.c, copy_page_range: the same work for each resident page, so cost \
                 is linear in resident memory",
        otherwise: "a page costs more or less than in a small process: the kernel's 64-byte struct \
                    page no longer fits the caches, or pages are shared in larger units",
    };
    Ok(sum.predict(known)?.self_consistent())
}

/// A buffer for the largest size that can be mapped, that size, and the fault of larger ones. Only
/// mapping reveals a limit on address space (`ulimit -v`).
fn reserve_largest(sizes: &[u64]) -> (Option<Buffer>, u64, Option<SamplerFault>) {
    let mut refusal = None;
    for rss in sizes.iter().rev() {
        match Buffer::reserve(*rss as usize, BufferPage::Base) {
            Ok(buffer) => return (Some(buffer), *rss, refusal),
            Err(fault) => refusal = Some(fault),
        }
    }
    (None, 0, refusal)
}

fn rss_of(case: &ProbeCase) -> u64 {
    case.params.number("rss_bytes").unwrap_or(0)
}

/// Makes `rss` bytes resident and measures their cases.
fn measure_size(
    cases: &[ProbeCase],
    rss: u64,
    indices: &[usize],
    buffer: &mut Buffer,
    sampler: &mut Sampler,
) {
    // Ascending sizes, so that memory of the smaller ones is reused and never freed.
    buffer.grow_to(rss as usize);
    sampler.run(vec![super::both_parts(cases, indices.to_vec(), fork_once)]);
    let verified = buffer.check();
    for index in indices {
        match &verified {
            Ok((passed, detail)) => {
                sampler.check(*index, "resident memory", *passed, detail.clone());
            }
            Err(fault) => sampler.fault(*index, fault.clone()),
        }
    }
}

/// Nanoseconds until fork returned, and until the child was reaped.
fn fork_once(clock: &Clock) -> Result<[f64; 2]> {
    let start = clock.start();
    // SAFETY: the child only exits.
    let child = unsafe { fork(|| EXIT_STATUS) }.map_err(|error| creation_fault("fork", &error))?;
    let forked = clock.stop();
    child.wait_for(EXIT_STATUS)?;
    let reaped = clock.stop();
    Ok([forked, reaped].map(|stop| clock.ns(start, stop)))
}

#[cfg(test)]
mod tests;
