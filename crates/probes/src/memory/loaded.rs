//! memory.latency.loaded: dependent-load latency while the other cores read memory.

mod load;

use std::sync::Arc;

use fathom_measure::host;

use self::load::{LoadControl, LoadTask};
use super::chain::{Chain, ChainShape, LOADS, Pattern};
use super::cpu_selection;
use super::latency::cases::{self, ChaseCase};
use super::latency::{NOT_ONE_CYCLE, line_bytes, settling_loads};
use super::stream::ThreadMemory;
use super::thread_team::{TaskFactory, ThreadTeam};
use crate::prelude::*;

metric!(Loaded, ABOUT);

static ABOUT: About = About {
    id: "memory.latency.loaded",
    title: "loaded memory latency",
    timed: "one dependent load, as memory.latency with random order at its largest working set, \
            while a thread on every other core reads memory for a share of the time",
    not_timed: "starting and stopping the reads: all start with the chase and end within a \
                microsecond of it, in batches of 200 µs and more",
    model: "load=0: memory.latency{pattern=random} at the same working set and page size, ± 15 %. \
            Other loads: at least load=0. The increase towards saturation depends on the queues of \
            the memory controller, which are not published",
    source: "memory.latency of this run; loaded latency, as by Intel's Memory Latency Checker \
             (V. Viswanathan et al., 2013), which throttles by instructions between two loads",
    pitfalls: &[
        "latency and bandwidth measured apart are too optimistic: a loaded memory system adds \
         queueing delay",
        "a share of the time is not a share of the bandwidth: the bytes read are counted and \
         printed beside the number",
        "bursts of milliseconds alternate between full load and none: a burst is 32 KiB, and each \
         pause is computed from the duration of its burst",
        "few cores cannot saturate the memory of a large machine: with one other core, load=100 \
         is the bandwidth of that core",
    ],
    parameters: &[
        Parameter::new(
            "load",
            "0, 25, 50, 100",
            "percentage of the time that each other core reads",
        ),
        Parameter::new(
            "set_bytes",
            "about 4 × the last-level cache",
            "working set of the chase, and bytes that the other cores read",
        ),
        Parameter::new("page", "huge, 4K", "page size of all memory"),
    ],
    needs: &["memory.latency"],
    requires: "two cores, except for load=0; available memory of eight times the working set",
    noise_limit: 0.10,
    on_two_cpus: false,
    ..About::BASE
};

const LOADS_PERCENT: [u32; 4] = [0, 25, 50, 100];

/// The parameters of a case. Ordered as they are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct LoadCase {
    page: BufferPage,
    set_bytes: usize,
    percent: u32,
}

impl LoadCase {
    fn params(self) -> Params {
        Params::one("load", i64::from(self.percent))
            .and("set_bytes", self.set_bytes as i64)
            .and("page", self.page.name().as_str())
    }

    fn from_params(params: &Params) -> Option<Self> {
        let percent = params.number::<u32>("load").filter(|it| *it <= 100)?;
        let set_bytes = params.number("set_bytes")?;
        Some(Self { page: BufferPage::named(params.text("page")?)?, set_bytes, percent })
    }

    /// The same case of memory.latency.
    fn chase(self) -> ChaseCase {
        ChaseCase { pattern: Pattern::Random, page: self.page, set_bytes: self.set_bytes }
    }
}

impl Probe for Loaded {
    fn cases(&self, host: &Host, sizes: &Sizes) -> Vec<ProbeCase> {
        let (page, set_bytes) = match (sizes.smoke, cases::has_huge(host)) {
            (true, _) => (BufferPage::Base, 1 << 18),
            (false, true) => (BufferPage::Huge, cases::largest(host)),
            (false, false) => (BufferPage::Base, cases::largest(host)),
        };
        // 8 ms of rounds, and a share of linking, filling and verifying.
        let cost_ns = 8e6 + 0.25 * set_bytes as f64;
        LOADS_PERCENT
            .map(|percent| LoadCase { page, set_bytes, percent })
            .map(|case| ProbeCase { params: case.params(), cost_ns })
            .to_vec()
    }

    fn selection(&self, _: &ProbeCase, _: &Host) -> Result<Stratum, NotSelected> {
        Err(NotSelected::SecondCpu)
    }

    fn predict(&self, case: &ProbeCase, _: &Host, known: &Inputs<'_>) -> Model {
        let case = parsed(&case.params, LoadCase::from_params)?;
        if case.percent > 0 {
            let source = "reads of other cores can only add queueing delay";
            return at_least(ABOUT.id, &LoadCase { percent: 0, ..case }.params(), source, known);
        }
        let params = case.chase().params();
        let alone = earlier("memory.latency", &params, known)?;
        let name = format!("memory.latency{params}");
        let source = "the same chase at the same working set, without load";
        let sum = Prediction::sum(alone, 0.0, 0.15, &name, source);
        Ok(sum
            .without_parts()
            .self_consistent()
            .with_result(&name, alone, Unit::Nanoseconds)
            .if_above("other guests or processes used memory bandwidth in this measurement")
            .if_below("other guests or processes used memory bandwidth during memory.latency"))
    }

    fn visit(&self, cases: &[ProbeCase], sampler: &mut Sampler) -> Result<()> {
        let mut load_cases = all_parsed(cases, LoadCase::from_params)?;
        load_cases.sort_unstable();
        for group in load_cases.chunk_by(|a, b| a.0.chase() == b.0.chase()) {
            if let Err(fault) = measure_group(group, sampler) {
                group.iter().for_each(|(_, index)| sampler.fault(*index, fault.clone()));
            }
        }
        Ok(())
    }
}

/// Measures all loads at one working set.
fn measure_group(group: &[(LoadCase, usize)], sampler: &mut Sampler) -> Result<()> {
    let mut host = host::read();
    host.cpu.allowed = sampler.cpus().to_vec();
    let settings = sampler.settings();
    let cpus = cpu_selection::cpu_order(&host, settings.cpu, settings.other_cpu);
    let LoadCase { page, set_bytes, .. } = group[0].0;
    let needed = group[0].0.chase().memory_bytes() + set_bytes;
    MemoryBudget::from_host(&host).check(needed as u64)?;
    let mut buffer = Buffer::with_bytes(set_bytes, page)?;
    let (line_bytes, page_bytes) = (line_bytes(&host), page.bytes());
    let shape = ChainShape { set_bytes, line_bytes, page_bytes, pattern: Pattern::Random };
    let mut chain = Chain::in_buffer(&mut buffer, shape, settings.seed);
    chain.warm();
    if !chain.settle(settling_loads(set_bytes, &host)) {
        return Err(SamplerFault::WrongWork(NOT_ONE_CYCLE.to_owned()));
    }
    // The idle case first: once the readers have a task, they poll between batches.
    let (idle, loaded): (Vec<_>, Vec<_>) = group.iter().partition(|(case, _)| case.percent == 0);
    for (_, index) in idle {
        let chase = |iterations| chain.chase(iterations);
        sampler.run(vec![SamplerWork::unrolled(index, LOADS as f64, chase)]);
        sampler.check(index, "load", true, "no other reads");
    }
    if !loaded.is_empty()
        && let Err(fault) = measure_loaded(&loaded, &cpus, &mut chain, sampler)
    {
        loaded.iter().for_each(|(_, index)| sampler.fault(*index, fault.clone()));
    }
    sampler.works_in_step_with(&[]);
    let (passed, detail) = buffer.check()?;
    for (_, index) in group {
        let detail = format!("{detail}; {} used in all", binary_size(needed as u64));
        sampler.check(*index, "pages", passed, detail);
    }
    Ok(())
}

/// Measures the loads above 0.
fn measure_loaded(
    loaded: &[(LoadCase, usize)],
    cpus: &[u32],
    chain: &mut Chain<'_>,
    sampler: &mut Sampler,
) -> Result<()> {
    let readers = &cpus[1..];
    if readers.is_empty() {
        return Err(SamplerFault::unavailable("no second core for the load", Remedy::SecondCpu));
    }
    let mut team = ThreadTeam::pinned_to(readers)?;
    let control = Arc::new(LoadControl::default());
    let memory = vec![ThreadMemory::default(); readers.len()];
    let LoadCase { page, set_bytes, .. } = loaded[0].0;
    let bytes = set_bytes / readers.len();
    let factory = |memory: &ThreadMemory| LoadTask::factory(bytes, page, memory, &control);
    let factories: Vec<TaskFactory> = memory.iter().map(factory).collect();
    sampler.works_in_step_with(&team.threads());
    let mut running = team.start(None, factories)?;
    for (case, index) in loaded {
        control.begin(case.percent);
        let chase_beside_load = |iterations| {
            running.run_beside(|| {
                let done = chain.chase(iterations);
                control.end_batch();
                done
            })
        };
        sampler.run(vec![SamplerWork::unrolled(*index, LOADS as f64, chase_beside_load)]);
        let (read, rate) = control.bytes_and_rate(readers.len());
        let text = format!("{:.2} GB/s read, {} in all", rate / 1e9, binary_size(read));
        sampler.check(*index, "load", read > 0, text);
    }
    for (cpu, result) in readers.iter().zip(running.finish()) {
        for (_, index) in loaded {
            match &result {
                Ok((passed, text)) => {
                    sampler.check(*index, "bytes read", *passed, format!("CPU {cpu}: {text}"));
                }
                Err(fault) => sampler.fault(*index, fault.clone()),
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
