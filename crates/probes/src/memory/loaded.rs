//! memory.latency.loaded: a load that waits for another, while the other cores read memory.

mod load;

use std::sync::Arc;

use fathom_measure::sampler::Fault;
use fathom_measure::{Sampler, Work, host};
use fathom_record::{Host, NoModel, NotSelected, Params, Prediction, Remedy, Stratum, Unit};

use self::load::{Load, Order as Told};
use super::chain::{Chain, LOADS, Pattern, Shape};
use super::thread_team::{ThreadTeam, CheckResult, TaskFactory, RunningTeam};
use super::latency::cases::{self, ChaseCase};
use super::latency::line_bytes;
use super::cpu_selection;
use super::stream::Memory;
use crate::buffer::{Buffer, Page, binary_size};
use crate::memory_budget::MemoryBudget;
use fathom_metric::order::{Order, earlier};
use fathom_metric::{About, Case, Known, Parameter, Probe, Sizes};

/// memory.latency.loaded.
pub struct Loaded;

static ABOUT: About = About {
    id: "memory.latency.loaded",
    title: "load beside other cores' reads",
    timed: "one load whose address is what the load before it brought, as memory.latency by random \
            order in its largest set, while a thread on each other core reads memory for a share \
            of the time",
    not_timed: "beginning and ending the reads, which the batch's overhead holds: all begin when \
                the chase does and end within a microsecond of it",
    model: "load=0: memory.latency{pattern=random} of the same set and page, ± 15 %. Others: at \
            least load=0. How far it rises towards saturation depends on queues of the memory's \
            controller, which no source gives",
    source: "memory.latency of this run; loaded latency, as by Intel's Memory Latency Checker \
             (V. Viswanathan et al., 2013), which throttles by instructions between two loads",
    pitfalls: &[
        "latency and bandwidth taken apart flatter a machine: what a load waits for is a queue, \
         which is empty while nobody reads",
        "a share of the time is no share of the bandwidth: the bytes that were read are counted, \
         and told beside the number",
        "reading by turns of milliseconds is either full load or none: a turn is 32 KiB, and each \
         pause follows from how long its turn took",
        "few cores cannot saturate the memory of a large machine: with one other core, load=100 \
         is what that one core reads",
    ],
    parameters: &[
        Parameter {
            name: "load",
            values: "0, 25, 50, 100",
            meaning: "per cent of the time in which each other core reads",
        },
        Parameter {
            name: "set_bytes",
            values: "at least 4 × the last-level cache",
            meaning: "bytes that the chain goes through, and bytes that the others pass over",
        },
        Parameter {
            name: "page",
            values: "huge, 4K",
            meaning: "pages of all of it; huge where the kernel gathers them on advice",
        },
    ],
    needs: &["memory.latency"],
    requires: "two cores, but for load=0; eight times the set of available memory",
    noise_limit: 0.10,
    ..About::BASE
};

/// Loads in per cent of the time.
const LOADS_PERCENT: [u32; 4] = [0, 25, 50, 100];

/// A case in words that are understood; ordered as they are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    page: Page,
    set_bytes: usize,
    percent: u32,
}

impl Kind {
    fn params(self) -> Params {
        Params::one("load", i64::from(self.percent))
            .and("set_bytes", self.set_bytes as i64)
            .and("page", self.page.name().as_str())
    }

    fn of(params: &Params) -> Option<Self> {
        let percent = u32::try_from(params.integer("load")?).ok().filter(|it| *it <= 100)?;
        let set_bytes = usize::try_from(params.integer("set_bytes")?).ok()?;
        Some(Self { page: Page::named(params.text("page")?)?, set_bytes, percent })
    }

    /// The step of memory.latency that is the same without others.
    fn step(self) -> ChaseCase {
        ChaseCase { pattern: Pattern::Random, page: self.page, set_bytes: self.set_bytes }
    }
}

impl Probe for Loaded {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn cases(&self, host: &Host, sizes: &Sizes) -> Vec<Case> {
        let (page, set_bytes) = match (sizes.smoke, cases::has_huge(host)) {
            (true, _) => (Page::Base, 1 << 18),
            (false, true) => (Page::Huge, cases::largest(host)),
            (false, false) => (Page::Base, cases::largest(host)),
        };
        // With a quarter each of linking, filling and verifying, and 15 ms of rounds.
        let cost_ns = 20e6 + 0.6 * set_bytes as f64;
        let kind = |percent| Kind { page, set_bytes, percent };
        let case = |percent: u32| Case { params: kind(percent).params(), cost_ns };
        LOADS_PERCENT.into_iter().map(case).collect()
    }

    fn selection(&self, _: &Case, _: &Host) -> Result<Stratum, NotSelected> {
        Err(NotSelected::SecondCpu)
    }

    fn predict(&self, case: &Case, _: &Host, known: &Known<'_>) -> Result<Prediction, NoModel> {
        let kind = Kind::of(&case.params).ok_or_else(|| NoModel::no_such_case(&case.params))?;
        if kind.percent > 0 {
            let source = "what others read can only add to the queues that a load waits in";
            let order = Order { factor: 1.0, metric: ABOUT.id, source };
            return order.claim(&Kind { percent: 0, ..kind }.params(), known);
        }
        let params = kind.step().params();
        let alone = earlier("memory.latency", &params, known)?;
        let name = format!("memory.latency{params}");
        let source = "the same chase through as large a set, with nobody beside it";
        let sum = Prediction::sum(alone, 0.0, 0.15, &name, source);
        Ok(Prediction { software: None, ..sum }
            .with_result(&name, alone, Unit::Nanoseconds)
            .if_above("others used the memory meanwhile: neighbours on the host")
            .if_below("memory.latency met neighbours on the host that are gone"))
    }

    fn visit(&self, cases: &[Case], sampler: &mut Sampler) -> Result<(), Fault> {
        let mut kinds: Vec<(Kind, usize)> = Vec::new();
        for (index, case) in cases.iter().enumerate() {
            match Kind::of(&case.params) {
                Some(kind) => kinds.push((kind, index)),
                None => {
                    let text = format!("{} is no such case", case.params);
                    sampler.fault(index, Fault::Failed(text));
                }
            }
        }
        kinds.sort_unstable();
        for group in kinds.chunk_by(|a, b| a.0.step() == b.0.step()) {
            if let Err(fault) = take(group, sampler) {
                group.iter().for_each(|(_, index)| sampler.fault(*index, fault.clone()));
            }
        }
        Ok(())
    }
}

/// Takes all loads over one set.
fn take(group: &[(Kind, usize)], sampler: &mut Sampler) -> Result<(), Fault> {
    let mut host = host::read();
    host.cpu.allowed = sampler.cpus().to_vec();
    let settings = sampler.settings();
    let seats = cpu_selection::cpu_order(&host, settings.cpu, settings.other_cpu);
    let Kind { page, set_bytes, .. } = group[0].0;
    let needed = group[0].0.step().memory_bytes() + set_bytes;
    MemoryBudget::of(&host).admits(needed as u64)?;
    let mut buffer = Buffer::of(set_bytes, page)?;
    let (line_bytes, page_bytes) = (line_bytes(&host), page.bytes());
    let shape = Shape { set_bytes, line_bytes, page_bytes, pattern: Pattern::Random };
    let mut chain = Chain::of(&mut buffer, shape, settings.seed);
    chain.warm();
    if !chain.settle() {
        return Err(Fault::WrongWork("the chain is not the one cycle that was linked".to_owned()));
    }
    let (alone, loaded): (Vec<_>, Vec<_>) = group.iter().partition(|(kind, _)| kind.percent == 0);
    for (_, index) in alone {
        let chase = |iterations| chain.chase(iterations);
        sampler.run(vec![Work::unrolled(index, LOADS as f64, chase)]);
        sampler.check(index, "load", true, "nobody reads beside it");
    }
    if !loaded.is_empty() {
        beside(&loaded, &seats, &mut chain, sampler);
    }
    let (passed, detail) = buffer.check()?;
    for (_, index) in group {
        let detail = format!("{detail}; {} taken in all", binary_size(needed as u64));
        sampler.check(*index, "pages", passed, detail);
    }
    Ok(())
}

/// Takes the loads above 0; what keeps them from being taken is told of each of them.
fn beside(loaded: &[(Kind, usize)], seats: &[u32], chain: &mut Chain<'_>, sampler: &mut Sampler) {
    let told = Arc::new(Told::default());
    let outcome = crew_of(seats).and_then(|mut crew| {
        let count = crew.threads().len();
        let memory = vec![Memory::default(); count];
        let Kind { page, set_bytes, .. } = loaded[0].0;
        let maker = |memory: &Memory| Load::maker(set_bytes / count, page, memory, &told);
        let makers: Vec<TaskFactory> = memory.iter().map(maker).collect();
        sampler.works_in_step_with(&crew.threads());
        let mut mustered = crew.muster(None, makers)?;
        for (kind, index) in loaded {
            take_one((*kind, *index, count), chain, &mut mustered, &told, sampler);
        }
        Ok(mustered.dismiss())
    });
    sampler.works_in_step_with(&[]);
    for (_, index) in loaded {
        match &outcome {
            Ok(findings) => judge(*index, seats, findings, sampler),
            Err(fault) => sampler.fault(*index, fault.clone()),
        }
    }
}

/// A thread on each seat but the first.
fn crew_of(seats: &[u32]) -> Result<ThreadTeam, Fault> {
    if seats.len() < 2 {
        let what = "there is one core only, and none to read beside it";
        return Err(Fault::unavailable(what, Remedy::SecondCpu));
    }
    ThreadTeam::on(&seats[1..])
}

/// Takes one load by so many threads.
fn take_one(
    (kind, index, threads): (Kind, usize, usize),
    chain: &mut Chain<'_>,
    mustered: &mut RunningTeam<'_>,
    told: &Told,
    sampler: &mut Sampler,
) {
    told.begin(kind.percent);
    sampler.run(vec![Work::unrolled(index, LOADS as f64, |iterations| {
        mustered.beside(|| {
            let did = chain.chase(iterations);
            told.end_batch();
            did
        })
    })]);
    let (bytes, rate) = told.read(threads);
    let text = format!("{:.2} GB/s read beside it, {} in all", rate / 1e9, binary_size(bytes));
    sampler.check(index, "load", bytes > 0, text);
}

fn judge(index: usize, seats: &[u32], findings: &[Result<CheckResult, Fault>], sampler: &mut Sampler) {
    for (cpu, finding) in seats[1..].iter().zip(findings) {
        match finding {
            Ok((passed, text)) => {
                sampler.check(index, "bytes read", *passed, format!("on CPU {cpu}: {text}"));
            }
            Err(fault) => sampler.fault(index, fault.clone()),
        }
    }
}

#[cfg(test)]
mod tests;
