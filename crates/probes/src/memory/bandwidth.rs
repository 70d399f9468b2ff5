//! memory.bandwidth: read, write, copy and triad bandwidth of one core, some or all.

mod model;

use fathom_measure::host;

use super::cpu_selection;
use super::latency::cases::{caches, has_huge};
use super::latency::model::Level;
use super::stream::{GRANULARITY, StreamConfig, ThreadMemory};
use super::thread_team::{CheckResult, TaskFactory, ThreadTeam};
use super::vectors::{Op, Vectors};
use crate::prelude::*;

metric!(Bandwidth, ABOUT);

pub(super) static ABOUT: About = About {
    id: "memory.bandwidth",
    title: "memory bandwidth",
    unit: Unit::BytesPerSecond,
    better: Better::Higher,
    timed: "bytes that all threads together load and store per second, from the start signal to \
            the last thread's end; copy counts two arrays, triad (a = b + 3 · c, doubles) three",
    not_timed: "cache lines that stores read first (write-allocate): they use memory bandwidth but \
                are not bytes of the program. The record gives the resulting bus traffic, which is \
                assumed and not measured",
    model: "read, one thread, level=dram: at least one 64-byte line per memory.latency.dram; the \
            maximum is not published, as L2 prefetches into a queue of its own. All threads: at \
            most modules × transfers/s × 8 bytes where SMBIOS reports them, else at least 0.9 × \
            one thread. write, copy and triad: a bracket of program bytes ÷ bus bytes, assumed \
            1 ÷ 2, 2 ÷ 3 and 3 ÷ 4 (write-allocate), × read, less 10 %, to read, plus 10 %; \
            write_nt has no write-allocate and no model. Caches: one thread reads L1 at the \
            published bytes per cycle × cpu.frequency, L2 too where a cycle brings half a line, \
            else at most; private levels scale with the threads; copy stores half of its bytes: \
            at most 2 × write",
    source: "Little's law (J. D. C. Little, Operations Research 9, 1961): concurrency = rate × \
             time; J. D. McCalpin, STREAM (bytes of copy and triad); data/uarch.toml",
    pitfalls: &[
        "skipped words: lmbench's bw_mem rd loads one word in four. Here every byte is loaded and \
         summed, and the sum of each chunk is compared with what was written",
        "counting: sysbench counts cache hits as memory, and by default all threads share one \
         block; mbw counts a copied byte once, STREAM twice. As in STREAM, loaded and stored \
         bytes count: copy 16 and triad 24 per double",
        "arrays smaller than the caches measure the caches: with level=dram all threads that share \
         a last-level cache together cover four times its size",
        "unwritten memory maps the zero page: each thread first writes its arrays on its own core; \
         page sizes and NUMA nodes are verified",
        "reads from memory use software prefetch at a tuned distance, the other operations only \
         the hardware prefetchers: part of their difference is tuning",
        "4K pages limit hardware prefetchers and add TLB misses: page=huge where available, with \
         4K cases for comparison",
        "threads that do not overlap in time: each batch starts with one signal and ends with the \
         last thread",
        "in a guest, level=l3 is the share of the last-level cache that other guests leave",
    ],
    parameters: &[
        Parameter::new(
            "op",
            "read, write, write_nt, copy, triad",
            "operation; write_nt uses non-temporal stores",
        ),
        Parameter::new(
            "threads",
            "1, powers of two, all cores",
            "one per core of the measured type; quick: one, for read, write and copy also all",
        ),
        Parameter::new(
            "level",
            "l1, l2, l3, dram",
            "half of the level's size per thread, or four last-level caches in all",
        ),
        Parameter::new("page", "huge, 4K", "page size of the arrays"),
    ],
    needs: &["cpu.frequency", "memory.latency.dram"],
    requires: "available memory and cgroup limit of sixteen times the last-level cache",
    published: "read 8.74 GB/s, write 8.62 GB/s (2016, i5-5257U; 29.2 GB/s nominal)",
    expects: Counters::NONE,
    noise_limit: 0.10,
    on_two_cpus: false,
    ..About::BASE
};

impl Level {
    const ALL: [Self; 4] = [Self::Cache(1), Self::Cache(2), Self::Cache(3), Self::Memory];

    fn name(self) -> &'static str {
        match self {
            Self::Cache(1) => "l1",
            Self::Cache(2) => "l2",
            Self::Cache(_) => "l3",
            Self::Memory => "dram",
        }
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.name() == name)
    }

    fn cache_bytes(self, host: &Host) -> Option<u64> {
        let cache = caches(host).into_iter().find(|cache| self == Self::Cache(cache.level))?;
        Some(cache.size_bytes)
    }
}

/// The parameters of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct StreamCase {
    op: Op,
    threads: usize,
    level: Level,
    page: BufferPage,
}

impl StreamCase {
    fn params(self) -> Params {
        Params::one("op", self.op.name())
            .and("threads", self.threads as i64)
            .and("level", self.level.name())
            .and("page", self.page.name().as_str())
    }

    fn from_params(params: &Params) -> Option<Self> {
        Some(Self {
            op: Op::named(params.text("op")?)?,
            threads: params.number::<usize>("threads").filter(|it| *it > 0)?,
            level: Level::named(params.text("level")?)?,
            page: BufferPage::named(params.text("page")?)?,
        })
    }

    /// The name of its result in predictions.
    fn result_name(self) -> String {
        format!("{}{}", ABOUT.id, self.params())
    }
}

/// Assumed where the kernel reports no last-level cache.
const CACHE_BYTES_DEFAULT: u64 = 32 << 20;
/// Size of the arrays in last-level caches: large enough that no line is still cached.
const CACHES: u64 = 4;
/// Bytes of an array per iteration in memory: about 100 µs.
const CHUNK_BYTES: usize = 2 << 20;

impl Probe for Bandwidth {
    fn cases(&self, host: &Host, sizes: &Sizes) -> Vec<ProbeCase> {
        let cases = match sizes.smoke {
            true => vec![
                StreamCase {
                    op: Op::Read,
                    threads: 1,
                    level: Level::Cache(2),
                    page: BufferPage::Base,
                },
                StreamCase {
                    op: Op::Triad,
                    threads: 2,
                    level: Level::Cache(2),
                    page: BufferPage::Base,
                },
            ],
            false => stream_cases(host, sizes.effort),
        };
        let dram_bytes = CACHES as f64 * last_level_cache_bytes(host) as f64;
        let case = |case: &StreamCase| {
            let filled = if case.level == Level::Memory { dram_bytes } else { 0.0 };
            // 7 ms of rounds; filling and verifying at 12 GB/s each.
            ProbeCase { params: case.params(), cost_ns: 7e6 + 0.17 * filled }
        };
        cases.iter().map(case).collect()
    }

    fn waits_for_memory(&self, case: &ProbeCase, _: &Host) -> bool {
        StreamCase::from_params(&case.params).is_some_and(|case| case.level == Level::Memory)
    }

    fn selection(&self, case: &ProbeCase, _: &Host) -> Result<Stratum, NotSelected> {
        match StreamCase::from_params(&case.params) {
            Some(StreamCase { threads: 1, level: Level::Cache(1 | 2), .. }) => {
                Ok(Stratum::ToItself)
            }
            Some(StreamCase { threads: 1, .. }) => Ok(Stratum::CoreAtFullSpeed),
            _ => Err(NotSelected::SecondCpu),
        }
    }

    fn predict(&self, case: &ProbeCase, host: &Host, known: &Inputs<'_>) -> Model {
        model::predict(parsed(&case.params, StreamCase::from_params)?, host, known)
    }

    fn visit(&self, cases: &[ProbeCase], sampler: &mut Sampler) -> Result<()> {
        let mut host = host::read();
        host.cpu.allowed = sampler.cpus().to_vec();
        let settings = sampler.settings();
        let cpus = cpu_selection::cpu_order(&host, settings.cpu, settings.other_cpu);
        let cases = all_parsed(cases, StreamCase::from_params)?;
        let mut setup = Setup::new(&host, cpus, &cases)?;
        for (case, index) in cases {
            if let Err(fault) = setup.measure(index, case, sampler) {
                sampler.fault(index, fault);
            }
        }
        Ok(())
    }
}

fn stream_cases(host: &Host, effort: Effort) -> Vec<StreamCase> {
    let page = if has_huge(host) { BufferPage::Huge } else { BufferPage::Base };
    let cores = cpu_selection::core_count(host);
    let [one_and_all, sweep] =
        [false, effort != Effort::Quick].map(|powers| cpu_selection::thread_counts(cores, powers));
    let mut cases = Vec::new();
    let mut add = |ops: &[Op], counts: &[usize], level, page| {
        for op in ops {
            cases.extend(counts.iter().map(|&threads| StreamCase {
                op: *op,
                threads,
                level,
                page,
            }));
        }
    };
    // Of all cores a quick run has those that a screen and the published figures show.
    let is_quick = effort == Effort::Quick;
    let widely: &[Op] = if is_quick { &[Op::Read, Op::Write, Op::Copy] } else { &Op::ALL };
    for op in Op::ALL {
        let counts = if widely.contains(&op) { &sweep[..] } else { &sweep[..1] };
        add(&[op], counts, Level::Memory, page);
    }
    let base_page_ops: &[Op] = match effort {
        Effort::Quick => &[],
        Effort::Standard => &[Op::Read],
        Effort::Thorough => &Op::ALL,
    };
    if page == BufferPage::Huge {
        add(base_page_ops, &one_and_all, Level::Memory, BufferPage::Base);
    }
    for level in Level::ALL.into_iter().filter(|level| level.cache_bytes(host).is_some()) {
        match effort {
            Effort::Quick => add(&[Op::Read], &[1], level, page),
            _ => add(&[Op::Read, Op::Write, Op::Copy], &one_and_all, level, page),
        }
    }
    cases
}

/// The rate at which one core reads the first of these levels that was measured, and its name.
pub(crate) fn read_rate(levels: &[Level], known: &Inputs<'_>) -> Result<(String, f64), NoModel> {
    let case = |level, page| StreamCase { op: Op::Read, threads: 1, level, page };
    let cases: Vec<StreamCase> = levels
        .iter()
        .flat_map(|level| [BufferPage::Huge, BufferPage::Base].map(|page| case(*level, page)))
        .collect();
    let of =
        |case: &StreamCase| Some((case.result_name(), known.quantity(ABOUT.id, &case.params())?));
    let missing = || cases.first().map_or(ABOUT.id.to_owned(), |case| case.result_name());
    cases.iter().find_map(of).ok_or_else(|| NoModel::MissingInput { metric: missing() })
}

/// The same of the last cache.
pub(crate) fn last_cache_read_rate(known: &Inputs<'_>) -> Result<(String, f64), NoModel> {
    read_rate(&[Level::Cache(3), Level::Cache(2)], known)
}

/// The store bandwidth of one core to memory in this run, by the faster of temporal and
/// non-temporal stores, with the name of the result.
pub(crate) fn store_rate(known: &Inputs<'_>) -> Result<(String, f64), NoModel> {
    let case = |op, page| StreamCase { op, threads: 1, level: Level::Memory, page };
    let cases = [Op::Write, Op::WriteNt]
        .into_iter()
        .flat_map(|op| [BufferPage::Huge, BufferPage::Base].map(|page| case(op, page)));
    let rates = cases
        .filter_map(|case| Some((case.result_name(), known.quantity(ABOUT.id, &case.params())?)));
    let missing =
        || NoModel::MissingInput { metric: case(Op::Write, BufferPage::Huge).result_name() };
    rates.max_by(|(_, one), (_, other)| one.total_cmp(other)).ok_or_else(missing)
}

fn last_level_cache_bytes(host: &Host) -> u64 {
    host.last_level_cache().map_or(CACHE_BYTES_DEFAULT, |cache| cache.size_bytes)
}

/// Bytes of one array of one thread, and the part of it per iteration. `sharers` threads share the
/// last-level cache.
fn array_and_chunk(case: StreamCase, sharers: usize, host: &Host) -> Result<(usize, usize)> {
    let arrays = case.op.arrays() as u64;
    let each = |bytes: u64| usize::try_from(bytes / arrays).unwrap_or(usize::MAX);
    if case.level == Level::Memory {
        let array = each(CACHES * last_level_cache_bytes(host) / sharers as u64);
        let chunk = array.min(CHUNK_BYTES) / GRANULARITY * GRANULARITY;
        return Ok((array.next_multiple_of(chunk), chunk));
    }
    let name = case.level.name();
    let missing = || SamplerFault::Unavailable(format!("the host reports no {name} cache"), None);
    let cache = case.level.cache_bytes(host).ok_or_else(missing)?;
    let sharers = if case.level == Level::Cache(3) { sharers as u64 } else { 1 };
    match each(cache / 2 / sharers) / GRANULARITY * GRANULARITY {
        0 => Err(SamplerFault::Unavailable(
            format!("half of {name} is too small for an array"),
            None,
        )),
        array => Ok((array, array)),
    }
}

/// CPUs with their memory, which all cases share so that it is written once.
struct Setup<'h> {
    host: &'h Host,
    budget: MemoryBudget,
    cpus: Vec<u32>,
    memory: Vec<ThreadMemory>,
    /// The largest need of each CPU over all cases.
    reserve_bytes: Vec<usize>,
    page: Option<BufferPage>,
    /// On all CPUs but the first, once a case needs them.
    team: ThreadTeam,
}

impl<'h> Setup<'h> {
    fn new(host: &'h Host, mut cpus: Vec<u32>, cases: &[(StreamCase, usize)]) -> Result<Self> {
        cpus.truncate(cases.iter().map(|(case, _)| case.threads).max().unwrap_or(1));
        let mut reserve_bytes = vec![0; cpus.len()];
        for (case, _) in cases.iter().filter(|(case, _)| case.threads <= cpus.len()) {
            for (index, most) in reserve_bytes.iter_mut().enumerate().take(case.threads) {
                let sharers = cpu_selection::cache_sharers(host, &cpus[..case.threads], index);
                if let Ok((array, _)) = array_and_chunk(*case, sharers, host) {
                    *most = (case.op.arrays() * array).max(*most);
                }
            }
        }
        let memory = vec![ThreadMemory::default(); cpus.len()];
        let (page, team, budget) =
            (None, ThreadTeam::pinned_to(&[])?, MemoryBudget::from_host(host));
        Ok(Self { host, budget, cpus, memory, reserve_bytes, page, team })
    }

    /// One case at a time, so that no other case uses the caches.
    fn measure(&mut self, index: usize, case: StreamCase, sampler: &mut Sampler) -> Result<()> {
        let StreamCase { op, threads, level, page } = case;
        let available = self.cpus.len();
        if threads > available {
            let what = format!("needs {threads} cores of one type; {available} are available");
            return Err(SamplerFault::unavailable(what, Remedy::MoreCores));
        }
        let needed: usize = self.reserve_bytes[..threads].iter().sum();
        self.budget.check(needed as u64)?;
        if self.page.replace(page) != Some(page) {
            self.memory = vec![ThreadMemory::default(); available];
        }
        let mut factories = Vec::new();
        let mut iteration_bytes = 0;
        for cpu in 0..threads {
            let sharers = cpu_selection::cache_sharers(self.host, &self.cpus[..threads], cpu);
            let (array_bytes, chunk_bytes) = array_and_chunk(case, sharers, self.host)?;
            iteration_bytes += op.arrays() * chunk_bytes;
            let config = StreamConfig {
                op,
                page,
                vectors: Vectors::widest(),
                reserve_bytes: self.reserve_bytes[cpu],
                array_bytes,
                chunk_bytes,
                prefetch: level == Level::Memory,
            };
            factories.push(config.factory(&self.memory[cpu]));
        }
        let results = self.run(index, factories, iteration_bytes, sampler)?;
        let reserved = binary_size(needed as u64);
        report_checks(index, case, &self.cpus[..threads], results, &reserved, sampler);
        Ok(())
    }

    fn run(
        &mut self,
        index: usize,
        mut factories: Vec<TaskFactory>,
        iteration_bytes: usize,
        sampler: &mut Sampler,
    ) -> Result<Vec<Result<CheckResult>>> {
        let own = Some(factories.remove(0));
        if self.team.threads().len() < factories.len() {
            self.team = ThreadTeam::pinned_to(&self.cpus[1..])?;
        }
        sampler.works_in_step_with(&self.team.threads()[..factories.len()]);
        let mut running = self.team.start(own, factories)?;
        sampler.run(vec![SamplerWork::Batched {
            case: index,
            kernel: Box::new(|iterations| running.run(iterations)),
            twin: None,
            has_entry: false,
            per_iteration: iteration_bytes as f64,
            to_unit: |ns_per_byte| 1e9 / ns_per_byte,
            timings: None,
        }]);
        sampler.works_in_step_with(&[]);
        Ok(running.finish())
    }
}

/// Records the setup, the check of each thread and the assumed bus traffic.
fn report_checks(
    index: usize,
    case: StreamCase,
    cpus: &[u32],
    results: Vec<Result<CheckResult>>,
    reserved: &str,
    sampler: &mut Sampler,
) {
    let Vectors { bytes, name, .. } = Vectors::widest();
    let prefetch = match (case.op, case.level) {
        (Op::Read, Level::Memory) => "software prefetch",
        _ => "hardware prefetch only",
    };
    let streams = format!("{bytes}-byte vectors ({name}), {prefetch}, CPUs {cpus:?}");
    sampler.check(index, "streams", true, streams);
    // The caller's own result is the last.
    for (cpu, result) in cpus[1..].iter().chain(&cpus[..1]).zip(results) {
        match result {
            Ok((passed, text)) => {
                let detail = format!("CPU {cpu}, {reserved} reserved: {text}");
                sampler.check(index, "bytes and pages", passed, detail);
            }
            Err(fault) => sampler.fault(index, fault),
        }
    }
    if case.level == Level::Memory {
        let (bus, own) = (case.op.bus_arrays(), case.op.arrays());
        let assumed = match bus == own {
            true => "assumed: as many as the program's".to_owned(),
            false => format!("assumed: {bus} ÷ {own} of the program's (write-allocate)"),
        };
        sampler.check(index, "bus bytes", true, assumed);
    }
}

#[cfg(test)]
mod tests;
