//! memory.latency: a load that waits for the one before, over sets from a few lines to several
//! times the last-level cache.

pub(crate) mod ladder;
pub(crate) mod model;

use fathom_measure::sampler::Fault;
use fathom_measure::{Sampler, Work, host};
use fathom_record::{Host, NoModel, NotSelected, Prediction, Stratum};

use self::ladder::Step;
use super::chain::{Chain, LOADS, Shape};
use crate::buffer::{Buffer, in_words};
use crate::room::Room;
use fathom_metric::{About, Case, Known, Parameter, Probe, Sizes};

/// memory.latency.
pub struct Latency;

static ABOUT: About = About {
    id: "memory.latency",
    title: "load that waits for another",
    timed: "one load whose address is what the load before it brought: 16 of them in a row, then \
            the count of the loop, which waits for nothing",
    not_timed: "linking and warming the set, which is done before; loads that overlap, as most of \
                a program's do: the chase is the one thing that a core cannot hurry",
    model: "a value where the set lies clearly in one level, which is at most half of its size \
            and at least twice that of the level before: the level's load-to-use cycles from the \
            table ÷ cpu.frequency, ± 10 % in the first level, ± 20 % in the second and ± 30 % \
            in the third. By small pages only in the first level: beyond it translation adds what \
            no table gives, and it is an order, ≥. So it is at twice the last level and more: ≥ \
            the last level's cycles ÷ frequency, and the row and the column of a DDR4 module where \
            SMBIOS names one; what the way to it takes no source says. Where SMBIOS tells nothing, \
            or another kind, this is a mere lower bound, which hardly any machine could miss. \
            Between \
            two levels there is no model, and none for patterns that a prefetcher foresees",
    source: "data/uarch.toml: l1_cycles, l2_cycles, l3_cycles; random cycle: S. Sattolo, An \
             algorithm to generate a random cyclic permutation, Information Processing Letters 22 \
             (1986); dependent loads over growing arrays: lmbench's lat_mem_rd (McVoy & Staelin, \
             USENIX 1996); Micron, 4Gb DDR4 SDRAM, speed bin tables",
    pitfalls: &[
        "a prefetcher foresees any constant stride: the order is uniformly random, one element a \
         line; the strides are there to show the prefetcher",
        "pages that nobody wrote are all one zero page, and lie in the cache: every page is \
         written first",
        "small pages cost translation besides, so that a curve by small pages shows the buffers \
         of translation as well: page sizes are apart, and looked up in smaps after the rounds",
        "a set that was just linked lies in the caches and is dirty there: it is walked through \
         once, so that the caches hold what a long chase leaves in them, and each set is taken \
         alone, since sets would evict each other",
        "walking through a set with many loads at once is quick, and for so long a shared cache, \
         and the lines of page tables in it, are less disturbed by others than by a slow chase: \
         the chase itself goes on for 262144 loads before it is timed",
        "a chain that closes too early is a smaller set: each element holds its rank, and every \
         batch must end at the rank where so many loads lead",
        "a cache shared with others holds less than its size, and in a guest nobody says with how \
         many: the third level's plateau is then shorter, and its edge the share that a chase can \
         hold against neighbours",
        "huge pages of a guest may be small ones of its host, and every miss of a translation \
         buffer walks two tables there",
    ],
    parameters: &[
        Parameter {
            name: "set_bytes",
            values: "1 KiB to at least 4 × the last-level cache, in octaves, with steps of a \
                     quarter of each cache's size around it for pattern=random",
            meaning: "bytes that the chain goes through; fewer where a quarter of the available \
                      memory is less",
        },
        Parameter {
            name: "pattern",
            values: "random; from standard effort on random_page, stride64; at thorough effort \
                     stride32, 128, 256, 512, 1024 up to 128 MiB",
            meaning: "random: one random cycle through all lines · random_page: pages in random \
                      order, and all lines of one in random order before the next · stride: \
                      ascending by so many bytes",
        },
        Parameter {
            name: "page",
            values: "4K, huge",
            meaning: "pages of the kernel's base size · huge ones, gathered on advice",
        },
    ],
    needs: &["cpu.frequency"],
    requires: "four times the largest set of available memory, and of the cgroup's limit; else \
               the ladder ends earlier",
    ..About::BASE
};

impl Probe for Latency {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn cases(&self, host: &Host, sizes: &Sizes) -> Vec<Case> {
        let case = |step: Step| Case { params: step.params(), cost_ns: cost_ns(&step) };
        ladder::steps(host, sizes).into_iter().map(case).collect()
    }

    fn selection(&self, case: &Case, host: &Host) -> Result<Stratum, NotSelected> {
        let own = host.cpu.caches.iter().filter(|cache| cache.level == 2);
        let own_bytes = own.map(|cache| cache.size_bytes).max().unwrap_or(0);
        let bytes = case.params.integer("set_bytes").unwrap_or_default();
        let is_within_core = u64::try_from(bytes).is_ok_and(|bytes| bytes <= own_bytes);
        Ok(if is_within_core { Stratum::FullSpeed } else { Stratum::CoreAtFullSpeed })
    }

    fn predict(&self, case: &Case, host: &Host, known: &Known<'_>) -> Result<Prediction, NoModel> {
        let step = Step::of(&case.params);
        let step = step.ok_or_else(|| NoModel::no_such_case(&case.params))?;
        model::predict(&step, host, known)
    }

    fn visit(&self, cases: &[Case], sampler: &mut Sampler) -> Result<(), Fault> {
        let host = host::read();
        let mut steps: Vec<(Step, usize)> = Vec::new();
        for (index, case) in cases.iter().enumerate() {
            match Step::of(&case.params) {
                Some(step) => steps.push((step, index)),
                None => sampler.fault(index, Fault::Failed("no step of the ladder".to_owned())),
            }
        }
        steps.sort_unstable();
        // One buffer for each curve: it grows from set to set, and is gone before the next.
        for curve in steps.chunk_by(|a, b| (a.0.pattern, a.0.page) == (b.0.pattern, b.0.page)) {
            take_curve(curve, &host, sampler);
        }
        Ok(())
    }
}

/// With room: 12 ms of rounds with their warm-up, up to 50 ms until a set beyond the caches has
/// settled, and half a nanosecond a byte for its pages and links.
fn cost_ns(step: &Step) -> f64 {
    let settling_ns = (6.0 * step.set_bytes as f64).min(50e6);
    12e6 + settling_ns + 0.5 * step.set_bytes as f64
}

/// Takes the steps of one pattern and page, smallest first.
fn take_curve(curve: &[(Step, usize)], host: &Host, sampler: &mut Sampler) {
    let room = Room::on(host);
    let refusal = |step: &Step| room.admits(step.memory_bytes() as u64).err();
    let fitting = curve.iter().filter(|(step, _)| refusal(step).is_none());
    let largest = fitting.map(|(step, _)| step.set_bytes).max().unwrap_or_default();
    let page = curve[0].0.page;
    let mut buffer = Buffer::reserve(largest, page);
    for (step, index) in curve {
        let outcome = match (refusal(step), &mut buffer) {
            (Some(fault), _) => Err(fault),
            (None, Err(fault)) => Err(fault.clone()),
            (None, Ok(buffer)) => take_step(step, *index, host, buffer, sampler),
        };
        outcome.unwrap_or_else(|fault| sampler.fault(*index, fault));
    }
}

fn take_step(
    step: &Step,
    index: usize,
    host: &Host,
    buffer: &mut Buffer,
    sampler: &mut Sampler,
) -> Result<(), Fault> {
    let Step { pattern, page, set_bytes } = *step;
    let line_bytes = line_bytes(host);
    buffer.grow_to(set_bytes);
    let shape = Shape { set_bytes, line_bytes, page_bytes: page.bytes(), pattern };
    let seed = sampler.settings().seed ^ (index as u64) << 32;
    let mut chain = Chain::of(buffer, shape, seed);
    chain.warm();
    if !chain.settle() {
        return Err(Fault::WrongWork("the chain is not the one cycle that was linked".to_owned()));
    }
    let chase = |iterations| chain.chase(iterations);
    sampler.run(vec![Work::unrolled(index, LOADS as f64, chase)]);
    let (passed, detail) = buffer.check()?;
    let taken = in_words(step.memory_bytes() as u64);
    sampler.check(
        index,
        "pages",
        passed,
        format!("{detail}; {taken} taken with the chain's order"),
    );
    Ok(())
}

/// Bytes of a line of the first cache; 64 where the kernel does not say.
pub(crate) fn line_bytes(host: &Host) -> usize {
    let told = host.cpu.caches.iter().filter(|cache| cache.kind != "instruction");
    told.filter_map(|cache| cache.line_bytes).max().map_or(64, |bytes| bytes as usize)
}

#[cfg(test)]
mod tests;
