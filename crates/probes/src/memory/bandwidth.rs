//! memory.bandwidth: bytes a second that one core, some or all read, write, copy and add up.

mod model;

use fathom_measure::sampler::Fault;
use fathom_measure::{Sampler, Work, host};
use fathom_record::{
    Better, Counters, Effort, Host, NoModel, NotSelected, Params, Prediction, Remedy, Stratum, Unit,
};

use super::thread_team::{ThreadTeam, CheckResult, TaskFactory};
use super::cpu_selection;
use super::stream::{GRAIN, Memory, Task};
use super::vectors::{Op, Vectors};
use crate::buffer::{Page, binary_size};
use crate::memory_budget::MemoryBudget;
use fathom_metric::{About, Case, Known, Parameter, Probe, Sizes};

/// memory.bandwidth.
pub struct Bandwidth;

pub(super) static ABOUT: About = About {
    id: "memory.bandwidth",
    title: "memory bandwidth",
    unit: Unit::BytesPerSecond,
    better: Better::Higher,
    timed: "bytes of the program's that all threads together load and store in a second, from the \
            order to begin until the last is done; copy counts two and triad (a = b + 3 · c, \
            doubles) three arrays",
    not_timed: "lines that an ordinary store fetches before it overwrites them, and their way \
                back: they pass the memory bus, but are no byte of the program's. Beside each \
                number stands what the bus then carried, which is assumed and not measured",
    model: "read, one thread, level=dram: at least one line of 64 bytes for each \
            memory.latency.dram; how many a core keeps under way at most no source tells, for \
            the second level fetches ahead into a queue of its own. All threads: at most \
            modules × transfers/s × 8 bytes where SMBIOS tells, else at least 0.9 × one \
            thread. write, copy and triad fetch a line for each of the program's: at most \
            read. Caches: one thread reads a first level at the published bytes a cycle × \
            cpu.frequency, a second at most so; private levels grow with the threads; a copy \
            stores half of its bytes: at most 2 × write",
    source: "Little's law (J. D. C. Little, Operations Research 9, 1961): under way = rate × time; \
             J. D. McCalpin, STREAM (what copy and triad count); data/uarch.toml",
    pitfalls: &[
        "a reader that skips: lmbench's bw_mem rd loads one word in four. Here every byte is \
         loaded and summed, and each chunk's sum is compared with that of what was written",
        "counting: sysbench counts blocks that stay in a cache as memory, and by default all of \
         its threads share one block; mbw counts a copied byte once, STREAM twice. Here, as by \
         STREAM, the bytes loaded and the bytes stored are counted: copy 16 and triad 24 for each \
         double",
        "an array smaller than the caches measures them: level=dram passes over four times the \
         last-level cache, by all threads that share it together",
        "never-written memory is one page of zeros: each thread writes its own arrays first, on \
         its own core, and the pages are verified by size and node",
        "a read of memory fetches ahead by instructions, at a distance that was tuned; the others \
         leave that to the core, so that a part of what sets them apart is the tuning",
        "4 KiB pages stop prefetchers and cost translations: page=huge where the kernel gives \
         such, and the other beside it",
        "threads that do not stream at the same time: each batch begins by one order, and ends \
         with the last of them",
        "on a machine whose last-level cache is shared with strangers (a virtual one), level=l3 \
         is what they leave",
    ],
    parameters: &[
        Parameter {
            name: "op",
            values: "read, write, write_nt, copy, triad",
            meaning: "what is done; write_nt stores past the caches",
        },
        Parameter {
            name: "threads",
            values: "1, powers of two, all cores",
            meaning: "one for each core of the measured kind; quick: one and all",
        },
        Parameter {
            name: "level",
            values: "l1, l2, l3, dram",
            meaning: "half of the level's size for each thread, or four last-level caches in all",
        },
        Parameter {
            name: "page",
            values: "huge, 4K",
            meaning: "pages of the arrays; huge where the kernel gathers them on advice",
        },
    ],
    needs: &["cpu.frequency", "memory.latency.dram"],
    requires: "sixteen times the last-level cache of available memory, and of the cgroup's limit",
    published: "read 8.74 GB/s, write 8.62 GB/s (2016, i5-5257U; 29.2 GB/s nominal)",
    expects: Counters::NONE,
    noise_limit: 0.10,
};

/// Where the arrays lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Cache(u32),
    Dram,
}

impl Level {
    const ALL: [Self; 4] = [Self::Cache(1), Self::Cache(2), Self::Cache(3), Self::Dram];

    fn name(self) -> &'static str {
        match self {
            Self::Cache(1) => "l1",
            Self::Cache(2) => "l2",
            Self::Cache(_) => "l3",
            Self::Dram => "dram",
        }
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.name() == name)
    }

    /// The size of this level's cache.
    fn cache_bytes(self, host: &Host) -> Option<u64> {
        let Self::Cache(level) = self else { return None };
        let mut caches = host.cpu.caches.iter().filter(|cache| cache.kind != "instruction");
        caches.find(|cache| cache.level == level).map(|cache| cache.size_bytes)
    }
}

/// A case in words that are understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kind {
    op: Op,
    threads: usize,
    level: Level,
    page: Page,
}

impl Kind {
    fn params(self) -> Params {
        Params::one("op", self.op.name())
            .and("threads", self.threads as i64)
            .and("level", self.level.name())
            .and("page", self.page.name().as_str())
    }

    fn of(params: &Params) -> Option<Self> {
        Some(Self {
            op: Op::named(params.text("op")?)?,
            threads: usize::try_from(params.integer("threads")?).ok().filter(|it| *it > 0)?,
            level: Level::named(params.text("level")?)?,
            page: Page::named(params.text("page")?)?,
        })
    }
}

/// Size of a last-level cache that nobody tells.
const CACHE_UNTOLD_BYTES: u64 = 32 << 20;
/// So many last-level caches are passed over before a line is met again.
const CACHES: u64 = 4;
/// Bytes of an array that one iteration passes over in memory: some hundred microseconds.
const CHUNK_BYTES: usize = 2 << 20;

impl Probe for Bandwidth {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn cases(&self, host: &Host, sizes: &Sizes) -> Vec<Case> {
        let kinds = match sizes.smoke {
            true => vec![
                Kind { op: Op::Read, threads: 1, level: Level::Cache(2), page: Page::Base },
                Kind { op: Op::Triad, threads: 2, level: Level::Cache(2), page: Page::Base },
            ],
            false => kinds(host, sizes.effort),
        };
        let dram_bytes = CACHES as f64 * host_cache_bytes(host) as f64;
        let case = |kind: &Kind| {
            let filled = if kind.level == Level::Dram { dram_bytes } else { 0.0 };
            // Filled and verified at 5 bytes a nanosecond each, and some 20 ms of rounds.
            Case { params: kind.params(), cost_ns: 20e6 + 0.4 * filled }
        };
        kinds.iter().map(case).collect()
    }

    fn selection(&self, case: &Case, _: &Host) -> Result<Stratum, NotSelected> {
        match Kind::of(&case.params) {
            Some(Kind { threads: 1, level: Level::Cache(1 | 2), .. }) => Ok(Stratum::FullSpeed),
            Some(Kind { threads: 1, .. }) => Ok(Stratum::CoreAtFullSpeed),
            _ => Err(NotSelected::SecondCpu),
        }
    }

    fn predict(&self, case: &Case, host: &Host, known: &Known<'_>) -> Result<Prediction, NoModel> {
        match Kind::of(&case.params) {
            Some(kind) => model::predict(kind, host, known),
            None => Err(NoModel::no_such_case(&case.params)),
        }
    }

    fn visit(&self, cases: &[Case], sampler: &mut Sampler) -> Result<(), Fault> {
        let mut host = host::read();
        host.cpu.allowed = sampler.cpus().to_vec();
        let settings = sampler.settings();
        let seats = cpu_selection::cpu_order(&host, settings.cpu, settings.other_cpu);
        let mut studio = Studio::new(&host, seats, cases);
        for (index, case) in cases.iter().enumerate() {
            let taken = match Kind::of(&case.params) {
                Some(kind) => studio.take(index, kind, sampler),
                None => Err(Fault::Failed(format!("{} is no such case", case.params))),
            };
            if let Err(fault) = taken {
                sampler.fault(index, fault);
            }
        }
        Ok(())
    }
}

/// The cases of an effort on a host.
fn kinds(host: &Host, effort: Effort) -> Vec<Kind> {
    let has_huge = host.memory.thp.as_deref().is_some_and(|thp| thp != "never");
    let best = if has_huge { Page::Huge } else { Page::Base };
    let cores = cpu_selection::core_count(host);
    let sizes = cpu_selection::thread_counts(cores, effort != Effort::Quick);
    let mut kinds = Vec::new();
    let of = |op, threads, level, page| Kind { op, threads, level, page };
    for op in Op::ALL {
        kinds.extend(sizes.iter().map(|threads| of(op, *threads, Level::Dram, best)));
    }
    let small: &[Op] = match effort {
        Effort::Quick => &[],
        Effort::Standard => &[Op::Read],
        Effort::Thorough => &Op::ALL,
    };
    let ends = cpu_selection::thread_counts(cores, false);
    for op in small.iter().filter(|_| has_huge) {
        kinds.extend(ends.iter().map(|threads| of(*op, *threads, Level::Dram, Page::Base)));
    }
    let caches = Level::ALL.into_iter().filter(|level| level.cache_bytes(host).is_some());
    for level in caches {
        let ops: &[Op] = match effort {
            Effort::Quick => &[Op::Read],
            _ => &[Op::Read, Op::Write, Op::Copy],
        };
        let sizes = if effort == Effort::Quick { &ends[..1] } else { &ends[..] };
        for op in ops {
            kinds.extend(sizes.iter().map(|threads| of(*op, *threads, level, best)));
        }
    }
    kinds
}

/// The rate at which one core stores to memory in this run, by the faster of the two ways, and the
/// name of its result.
pub(crate) fn storing(known: &Known<'_>) -> Result<(String, f64), NoModel> {
    let ways = [Op::Write, Op::WriteNt].into_iter().flat_map(|op| {
        [Page::Huge, Page::Base].map(|page| Kind { op, threads: 1, level: Level::Dram, page })
    });
    let rates = ways.filter_map(|kind| {
        let rate = known.quantity(ABOUT.id, &kind.params())?;
        Some((format!("{}{}", ABOUT.id, kind.params()), rate))
    });
    rates.max_by(|(_, one), (_, other)| one.total_cmp(other)).ok_or_else(|| {
        let metric = format!(
            "{}{}",
            ABOUT.id,
            Kind { op: Op::Write, threads: 1, level: Level::Dram, page: Page::Huge }.params()
        );
        NoModel::MissingInput { metric }
    })
}

fn host_cache_bytes(host: &Host) -> u64 {
    host.last_level_cache().map_or(CACHE_UNTOLD_BYTES, |cache| cache.size_bytes)
}

/// Bytes of one array of one thread, and of what one iteration passes over of it.
fn array_and_chunk(kind: Kind, sharing: usize, host: &Host) -> Result<(usize, usize), Fault> {
    let arrays = kind.op.arrays() as u64;
    let each = |bytes: u64| usize::try_from(bytes / arrays).unwrap_or(usize::MAX);
    if kind.level == Level::Dram {
        let array = each(CACHES * host_cache_bytes(host) / sharing as u64);
        let chunk = array.min(CHUNK_BYTES) / GRAIN * GRAIN;
        return Ok((array.next_multiple_of(chunk), chunk));
    }
    let name = kind.level.name();
    let untold = || Fault::Unavailable(format!("the host reports no cache {name}"), None);
    let cache = kind.level.cache_bytes(host).ok_or_else(untold)?;
    let sharing = if kind.level == Level::Cache(3) { sharing as u64 } else { 1 };
    let array = each(cache / 2 / sharing) / GRAIN * GRAIN;
    match array {
        0 => Err(Fault::Unavailable(format!("half of {name} is too small for an array"), None)),
        array => Ok((array, array)),
    }
}

/// Seats with their memory, and the threads on all but the first.
struct Studio<'h> {
    host: &'h Host,
    room: MemoryBudget,
    seats: Vec<u32>,
    memory: Vec<Memory>,
    /// What each seat needs at most in this visit, by page.
    reserve_bytes: Vec<usize>,
    page: Option<Page>,
    crew: Option<ThreadTeam>,
}

impl<'h> Studio<'h> {
    fn new(host: &'h Host, mut seats: Vec<u32>, cases: &[Case]) -> Self {
        let kinds: Vec<Kind> = cases.iter().filter_map(|case| Kind::of(&case.params)).collect();
        let most = kinds.iter().map(|kind| kind.threads).max().unwrap_or(1);
        seats.truncate(most);
        let mut reserve_bytes = vec![0; seats.len()];
        for kind in kinds.iter().filter(|kind| kind.threads <= seats.len()) {
            for (seat, most) in reserve_bytes.iter_mut().enumerate().take(kind.threads) {
                let sharing = cpu_selection::cache_sharers(host, &seats[..kind.threads], seat);
                if let Ok((array, _)) = array_and_chunk(*kind, sharing, host) {
                    *most = (kind.op.arrays() * array).max(*most);
                }
            }
        }
        let memory = vec![Memory::default(); seats.len()];
        let (page, crew, room) = (None, None, MemoryBudget::of(host));
        Self { host, room, seats, memory, reserve_bytes, page, crew }
    }

    /// Takes one case: a set-up of its own, so that no other case fights for the caches.
    fn take(&mut self, index: usize, kind: Kind, sampler: &mut Sampler) -> Result<(), Fault> {
        let Kind { op, threads, .. } = kind;
        if threads > self.seats.len() {
            let there = self.seats.len();
            let what =
                format!("needs {threads} cores of one kind, and this process may use {there}");
            return Err(Fault::unavailable(what, Remedy::MoreCores));
        }
        let needed: usize = self.reserve_bytes[..threads].iter().sum();
        self.budget.check(needed as u64)?;
        if self.page.replace(kind.page) != Some(kind.page) {
            self.memory = vec![Memory::default(); self.seats.len()];
        }
        let mut makers = Vec::new();
        let mut iteration_bytes = 0;
        for seat in 0..threads {
            let sharing = cpu_selection::cache_sharers(self.host, &self.seats[..threads], seat);
            let (array_bytes, chunk_bytes) = array_and_chunk(kind, sharing, self.host)?;
            iteration_bytes += op.arrays() * chunk_bytes;
            let task = Task {
                op,
                page: kind.page,
                vectors: Vectors::widest(),
                reserve_bytes: self.reserve_bytes[seat],
                array_bytes,
                chunk_bytes,
                far: kind.level == Level::Dram,
            };
            makers.push(task.maker(&self.memory[seat]));
        }
        let findings = self.stream(index, makers, iteration_bytes, sampler)?;
        let used = format!("{} reserved", binary_size(needed as u64));
        judge(index, kind, &self.seats[..threads], findings, &used, sampler);
        Ok(())
    }

    /// Has all stream in step, and tells what each found.
    fn stream(
        &mut self,
        index: usize,
        mut makers: Vec<TaskFactory>,
        iteration_bytes: usize,
        sampler: &mut Sampler,
    ) -> Result<Vec<Result<CheckResult, Fault>>, Fault> {
        let own = Some(makers.remove(0));
        if self.crew.is_none() && !makers.is_empty() {
            self.crew = Some(ThreadTeam::on(&self.seats[1..])?);
        }
        let mut alone = ThreadTeam::on(&[])?;
        let crew = self.crew.as_mut().unwrap_or(&mut alone);
        sampler.works_in_step_with(&crew.threads()[..makers.len()]);
        let mut mustered = crew.muster(own, makers)?;
        sampler.run(vec![Work::Batched {
            case: index,
            kernel: Box::new(|iterations| mustered.work(iterations)),
            twin: None,
            per_iteration: iteration_bytes as f64,
            to_unit: |ns_a_byte| 1e9 / ns_a_byte,
            timings: None,
        }]);
        sampler.works_in_step_with(&[]);
        Ok(mustered.dismiss())
    }
}

/// Hands what each thread found to the sampler, and what the bus is taken to have carried.
fn judge(
    index: usize,
    kind: Kind,
    seats: &[u32],
    findings: Vec<Result<CheckResult, Fault>>,
    used: &str,
    sampler: &mut Sampler,
) {
    let vectors = Vectors::widest();
    let ahead = match (kind.op, kind.level) {
        (Op::Read, Level::Dram) => "fetched ahead by instructions",
        _ => "fetched ahead by the core alone",
    };
    let (bytes, name) = (vectors.bytes, vectors.name);
    let detail = format!("as set up: {bytes}-byte vectors ({name}), {ahead}, CPUs {seats:?}");
    sampler.check(index, "streams", true, detail);
    // The caller's own stands last.
    let cpus = seats[1..].iter().chain(&seats[..1]);
    for (cpu, finding) in cpus.zip(findings) {
        match finding {
            Ok((passed, text)) => {
                let detail = format!("on CPU {cpu}, of {used}: {text}");
                sampler.check(index, "bytes and pages", passed, detail);
            }
            Err(fault) => sampler.fault(index, fault),
        }
    }
    if kind.level == Level::Dram {
        let (bus, own) = (kind.op.bus_arrays(), kind.op.arrays());
        let detail = match bus == own {
            true => "assumed: as many as the program's".to_owned(),
            false => format!("assumed: {bus} ÷ {own} of the program's (write-allocate)"),
        };
        sampler.check(index, "bus bytes", true, detail);
    }
}

#[cfg(test)]
mod tests;
