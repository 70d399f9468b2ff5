//! memory.latency: dependent-load latency for working sets from 1 KiB to several times the
//! last-level cache.

pub(crate) mod cases;
pub(crate) mod model;

use fathom_measure::host;
use fathom_record::BETWEEN_LEVELS;

use self::cases::ChaseCase;
use super::chain::{Chain, ChainShape, LOADS};
use crate::prelude::*;

/// Beyond the L2 cache other guests use the same caches and memory.
pub(super) const BEYOND_L2_NOISE_LIMIT: f64 = 0.10;

metric!(Latency, ABOUT);

static ABOUT: About = About {
    id: "memory.latency",
    title: "dependent-load latency",
    timed: "one load whose address is the result of the previous load (pointer chase), 16 \
            unrolled; the loop counter executes in parallel",
    not_timed: "linking and warming the working set; overlapping loads, which most programs have",
    model: "a value where the working set is clearly in one level (at most three quarters of L1, \
            half of others, in a guest a quarter of L2 and an eighth of L3, at least twice the \
            previous level): load-to-use cycles ÷ cpu.frequency, ± 2 % in L1 and L2, ± 30 % in \
            L3. With 4K pages the same, ± 20 % in L2, within half of the reach of the second TLB; \
            beyond, page walks add an unpublished cost and the value is a lower bound. Huge pages \
            from 1.25 to 2 times L1 or L2 a bracket: a cyclic walk misses all loads with LRU \
            replacement, and m = 1 − exp(−m × set ÷ size) of them with random replacement. From \
            twice the last level on: ≥ its cycles ÷ frequency, plus tRCD and tAA of DDR4 where \
            SMBIOS reports it; the cost of the path to the memory controller is not published. \
            Without DDR4 in SMBIOS this is a weak bound. Otherwise between two levels a bracket: \
            at least the one, at most the other; no median describes such a set, which the record \
            states, is not noisy for its interval, and is no input of a model. No model for \
            patterns that prefetchers detect",
    source: "data/uarch.toml: l1_cycles, l2_cycles, l3_cycles; random cycle: S. Sattolo, An \
             algorithm to generate a random cyclic permutation, Information Processing Letters 22 \
             (1986); dependent loads over growing arrays: lmbench's lat_mem_rd (McVoy & Staelin, \
             USENIX 1996); Micron, 4Gb DDR4 SDRAM, speed bin tables",
    pitfalls: &[
        "prefetchers detect constant strides: the order is uniformly random with one element per \
         line; the stride patterns show the prefetcher",
        "unwritten pages all map the zero page, which stays cached: every page is written first",
        "4K pages add TLB misses to the curve: page sizes are separate cases, verified in smaps \
         after the rounds",
        "a freshly linked working set is dirty in the caches: one walk leaves the caches as a long \
         chase does; working sets are measured one at a time, as they would evict each other",
        "a warm-up with parallel loads is fast, and other users of a shared cache evict fewer of \
         its lines and page-table lines than during a slow chase: up to 262144 untimed dependent \
         loads follow, 65536 from twice the last-level cache on",
        "a chain that closes early is a smaller working set: each element holds its rank, and \
         every batch must end at the expected rank",
        "a shared cache holds less than its size, and a guest does not see who shares it: the L3 \
         plateau is shorter, and ends at the share that the chase keeps resident",
        "other guests use the same L3 and memory: sets beyond L2 are noisy from ± 10 % on",
        "the host may back a guest's huge pages with small ones, and a TLB miss walks two page \
         tables",
    ],
    parameters: &[
        Parameter::new(
            "set_bytes",
            "1 KiB (quick: an eighth of L1) to about 4 × the last-level cache (256 MiB where it is \
                     unknown), in octaves, with steps of a quarter of each cache's size around it \
                     for pattern=random",
            "working set; limited to a quarter of the available memory",
        ),
        Parameter::new(
            "pattern",
            "random; from standard effort on random_page, stride64; at thorough effort \
                     stride32, 128, 256, 512, 1024 up to 128 MiB",
            "random: one random cycle through all lines · random_page: pages in random \
                      order, all lines of a page in random order before the next · stride: \
                      ascending by that many bytes",
        ),
        Parameter::new(
            "page",
            "4K, huge",
            "base page size · transparent huge pages by madvise (in a guest: guest-huge, \
                      as the host may use other pages beneath)",
        ),
    ],
    needs: &["cpu.frequency"],
    requires: "available memory and cgroup limit of four times the largest working set; else the \
               largest working sets are left out",
    ..About::BASE
};

impl Probe for Latency {
    fn cases(&self, host: &Host, sizes: &Sizes) -> Vec<ProbeCase> {
        let case =
            |case: ChaseCase| ProbeCase { params: case.params(), cost_ns: cost_ns(&case, host) };
        cases::chase_cases(host, sizes).into_iter().map(case).collect()
    }

    fn selection(&self, case: &ProbeCase, host: &Host) -> Result<Stratum, NotSelected> {
        let l2 = host.cpu.caches.iter().filter(|cache| cache.level == 2);
        let l2_bytes = l2.map(|cache| cache.size_bytes).max().unwrap_or(0);
        let bytes = case.params.integer("set_bytes").unwrap_or_default();
        let is_within_core = u64::try_from(bytes).is_ok_and(|bytes| bytes <= l2_bytes);
        Ok(if is_within_core { Stratum::ToItself } else { Stratum::CoreAtFullSpeed })
    }

    fn waits_for_memory(&self, case: &ProbeCase, host: &Host) -> bool {
        self.selection(case, host) == Ok(Stratum::CoreAtFullSpeed)
    }

    fn noise_limit(&self, case: &ProbeCase, host: &Host) -> f64 {
        match self.selection(case, host) {
            Ok(Stratum::CoreAtFullSpeed) => BEYOND_L2_NOISE_LIMIT,
            _ => ABOUT.noise_limit,
        }
    }

    fn predict(&self, case: &ProbeCase, host: &Host, known: &Inputs<'_>) -> Model {
        model::predict(&parsed(&case.params, ChaseCase::from_params)?, host, known)
    }

    fn visit(&self, cases: &[ProbeCase], sampler: &mut Sampler) -> Result<()> {
        let host = host::read();
        let mut chases = all_parsed(cases, ChaseCase::from_params)?;
        // Ascending sizes, because the buffer can only grow.
        chases.sort_unstable();
        // One growing buffer per curve, freed before the next.
        for curve in chases.chunk_by(|a, b| (a.0.pattern, a.0.page) == (b.0.pattern, b.0.page)) {
            measure_curve(curve, &host, sampler);
        }
        Ok(())
    }
}

/// 5 ms of rounds with their warm-up, the settling loads at up to 100 ns, and 0.5 ns per byte to
/// fault in, link and warm.
fn cost_ns(case: &ChaseCase, host: &Host) -> f64 {
    let set_bytes = case.set_bytes as f64;
    let load_ns = (set_bytes / 131_072.0).min(100.0);
    5e6 + load_ns * settling_loads(case.set_bytes, host) as f64 + 0.5 * set_bytes
}

/// Measures the cases of one pattern and page size, smallest first.
fn measure_curve(curve: &[(ChaseCase, usize)], host: &Host, sampler: &mut Sampler) {
    let budget = MemoryBudget::from_host(host);
    let check = |case: &ChaseCase| budget.check(case.memory_bytes() as u64);
    let fitting = curve.iter().filter(|(case, _)| check(case).is_ok());
    let largest = fitting.map(|(case, _)| case.set_bytes).max().unwrap_or_default();
    let mut buffer = Buffer::reserve(largest, curve[0].0.page);
    for (case, index) in curve {
        let outcome = check(case).and_then(|()| match &mut buffer {
            Ok(buffer) => measure_chase(case, *index, host, buffer, sampler),
            Err(fault) => Err(fault.clone()),
        });
        outcome.unwrap_or_else(|fault| sampler.fault(*index, fault));
    }
}

fn measure_chase(
    case: &ChaseCase,
    index: usize,
    host: &Host,
    buffer: &mut Buffer,
    sampler: &mut Sampler,
) -> Result<()> {
    let ChaseCase { pattern, page, set_bytes } = *case;
    buffer.grow_to(set_bytes);
    let (line_bytes, page_bytes) = (line_bytes(host), page.bytes());
    let shape = ChainShape { set_bytes, line_bytes, page_bytes, pattern };
    let seed = sampler.settings().seed ^ (index as u64) << 32;
    let mut chain = Chain::in_buffer(buffer, shape, seed);
    chain.warm();
    if !chain.settle(settling_loads(set_bytes, host)) {
        return Err(SamplerFault::WrongWork(NOT_ONE_CYCLE.to_owned()));
    }
    if let Err(NoModel::BetweenLevels) = model::level_of(set_bytes, host) {
        sampler.state(index, Fact::text(BETWEEN_LEVELS, model::levels_around(set_bytes, host)));
    }
    let chase = |iterations| chain.chase(iterations);
    sampler.run(vec![SamplerWork::unrolled(index, LOADS as f64, chase)]);
    let (passed, detail) = buffer.check()?;
    let used = binary_size(case.memory_bytes() as u64);
    let detail = format!("{detail}; {used} used including the order of the chain");
    sampler.check(index, "pages", passed, detail);
    Ok(())
}

/// Untimed dependent loads before the first round, at most. A set of twice the last-level cache
/// leaves few lines there from one walk to the next: mostly its page tables have to settle. With a
/// quarter of these, sets of one to two caches were up to 8 % too fast where others use the cache.
pub(super) fn settling_loads(set_bytes: usize, host: &Host) -> usize {
    let last = host.last_level_cache().map_or(u64::MAX, |cache| cache.size_bytes);
    if set_bytes as u64 / 2 < last { 1 << 18 } else { 1 << 16 }
}

pub(super) const NOT_ONE_CYCLE: &str = "the pointer chain is not one cycle through the working set";

/// Cache line size; 64 where the kernel does not report it.
pub(super) fn line_bytes(host: &Host) -> usize {
    let caches = cases::caches(host).into_iter();
    caches.filter_map(|cache| cache.line_bytes).max().map_or(64, |bytes| bytes as usize)
}

#[cfg(test)]
mod tests;
