//! The cases of memory.latency: working sets, access patterns and page sizes.

use fathom_record::host::Cache;

use super::super::chain::Pattern;
use crate::prelude::*;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
const SMALLEST: usize = KIB;
/// The largest working set of lat_mem_rd.
const CLASSIC_LARGEST: usize = 128 * MIB;
/// The largest working set where the caches are unknown: four times a last-level cache of 64 MiB.
const UNKNOWN_LARGEST: usize = 256 * MIB;
/// The largest working set ÷ last-level cache, about.
const BEYOND_LLC: usize = 4;
/// A quick run has few working sets beyond: linking one takes a second for each GiB.
const QUICK_LARGE: usize = 64 * MIB;
/// The same with base pages where plateaus are detected with huge ones.
const QUICK_LARGE_BASE: usize = 8 * MIB;
/// Octaves after the second-to-last cache with steps of a quarter.
const QUARTERED: usize = 2;
/// Strides of lat_mem_rd.
const STRIDES: [usize; 6] = [32, 64, 128, 256, 512, 1024];

/// The parameters of a case. Ordered as they are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ChaseCase {
    pub(crate) pattern: Pattern,
    pub(crate) page: BufferPage,
    pub(crate) set_bytes: usize,
}

impl ChaseCase {
    pub(crate) fn params(&self) -> Params {
        Params::one("set_bytes", self.set_bytes as i64)
            .and("pattern", self.pattern.name().as_str())
            .and("page", self.page.name().as_str())
    }

    pub(crate) fn from_params(params: &Params) -> Option<Self> {
        Some(Self {
            pattern: Pattern::named(params.text("pattern")?)?,
            page: BufferPage::named(params.text("page")?)?,
            set_bytes: params.number("set_bytes")?,
        })
    }

    /// The working set and, while it is linked, the order of its elements.
    pub(crate) fn memory_bytes(&self) -> usize {
        let step_bytes = if let Pattern::Stride(bytes) = self.pattern { bytes } else { 64 };
        self.set_bytes + self.set_bytes / step_bytes * size_of::<u32>()
    }
}

/// Data and unified caches, level 1 first.
pub(crate) fn caches(host: &Host) -> Vec<&Cache> {
    let data = host.cpu.caches.iter().filter(|cache| cache.kind != "instruction");
    let mut caches: Vec<&Cache> = data.collect();
    caches.sort_by_key(|cache| cache.level);
    caches
}

/// The same, for a model that needs them.
pub(crate) fn known_caches(host: &Host) -> Result<Vec<&Cache>, NoModel> {
    let caches = caches(host);
    match caches.is_empty() {
        true => Err(NoModel::unknown_fact(&["cpu.caches"])),
        false => Ok(caches),
    }
}

/// The cases for this host, ordered by pattern, page size and working set.
pub(crate) fn chase_cases(host: &Host, sizes: &Sizes) -> Vec<ChaseCase> {
    let largest = largest(host);
    let mut cases = Vec::new();
    for page in BufferPage::ALL {
        let mut add = |pattern, sets: &[usize]| {
            cases.extend(sets.iter().map(|&set_bytes| ChaseCase { pattern, page, set_bytes }));
        };
        if sizes.smoke {
            for pattern in [Pattern::Random, Pattern::RandomPage, Pattern::Stride(64)] {
                add(pattern, &[4 * KIB, 96 * KIB]);
            }
            continue;
        }
        let octaves = octaves(smallest(host, sizes.effort), largest);
        let is_coarse = sizes.effort == Effort::Quick && page == BufferPage::Base && has_huge(host);
        let fine = match is_coarse {
            true => {
                let is_few = |set: &usize| *set <= QUICK_LARGE_BASE || *set == largest;
                octaves.iter().copied().filter(is_few).collect()
            }
            false => fine(host, sizes.effort, largest),
        };
        add(Pattern::Random, &fine);
        if sizes.effort != Effort::Quick {
            add(Pattern::RandomPage, &octaves);
            add(Pattern::Stride(64), &octaves);
        }
        if sizes.effort == Effort::Thorough {
            let classic = self::octaves(SMALLEST, largest.min(CLASSIC_LARGEST));
            for stride in STRIDES.into_iter().filter(|stride| *stride != 64) {
                add(Pattern::Stride(stride), &classic);
            }
        }
    }
    cases.sort_unstable();
    cases
}

/// The largest working set: four times the last-level cache, or a little less, rounded up to a
/// power of two, as far as memory allows.
pub(crate) fn largest(host: &Host) -> usize {
    let wanted = host.last_level_cache().map_or(UNKNOWN_LARGEST, |cache| {
        let wanted = BEYOND_LLC * cache.size_bytes as usize;
        // 260 MiB need no 2 GiB.
        (wanted - wanted / 16).next_power_of_two()
    });
    let budget = MemoryBudget::from_host(host);
    let fits = |set_bytes: usize| {
        let (pattern, page) = (Pattern::Random, BufferPage::Base);
        let case = ChaseCase { pattern, page, set_bytes };
        // Where the memory is unknown the visit checks it.
        budget.bytes == 0 || budget.check(case.memory_bytes() as u64).is_ok()
    };
    octaves(SMALLEST, wanted).into_iter().rfind(|set| fits(*set)).unwrap_or(SMALLEST)
}

/// The smallest working set. All that are much smaller than L1 are alike: a quick run begins with
/// about an eighth of it.
fn smallest(host: &Host, effort: Effort) -> usize {
    // Some hosts name larger caches only.
    let first = caches(host).into_iter().next().filter(|cache| cache.level == 1);
    let eighth = first.map_or(0, |cache| cache.size_bytes as usize / 8);
    let smaller = octaves(SMALLEST, eighth).into_iter().next_back();
    smaller.filter(|_| effort == Effort::Quick).unwrap_or(SMALLEST)
}

/// Whether plateaus are detected in the curve with huge pages.
pub(crate) fn has_huge(host: &Host) -> bool {
    host.memory.thp.as_deref().is_some_and(|thp| thp != "never")
}

fn octaves(from: usize, to: usize) -> Vec<usize> {
    std::iter::successors(Some(from), |set| set.checked_mul(2))
        .take_while(|set| *set > 0 && *set <= to)
        .collect()
}

/// Powers of two, with finer steps around the size of each cache, which locate the edges. Where the
/// caches are unknown, a step between all of them: a plateau of an octave then has three points.
fn fine(host: &Host, effort: Effort, largest: usize) -> Vec<usize> {
    let smallest = smallest(host, effort);
    let mut sets = octaves(smallest, largest);
    if host.last_level_cache().is_none() {
        let is_few = |set: &&usize| effort != Effort::Quick || **set <= QUICK_LARGE;
        let between: Vec<usize> = sets.iter().filter(is_few).map(|set| set / 2 * 3).collect();
        sets.extend(between);
    }
    let last_bytes = host.last_level_cache().map_or(0, |cache| cache.size_bytes);
    for cache in caches(host) {
        let size = cache.size_bytes as usize;
        let quarters: &[usize] = match effort {
            // Three times the last size adds a point to the plateau of memory, and a quarter more
            // ends the step in which it is found.
            Effort::Quick if size as u64 == last_bytes && size > QUICK_LARGE => &[6, 12],
            Effort::Quick if size as u64 == last_bytes => &[4, 5, 6, 12],
            Effort::Quick => &[3, 4, 5, 6],
            Effort::Standard | Effort::Thorough => &[2, 3, 4, 5, 6, 7, 8, 12],
        };
        sets.extend(quarters.iter().map(|quarters| size / 4 * quarters));
    }
    // In a guest the usable part of L3 can be anything between the sizes of L2 and L3, and must
    // show as a plateau: steps of a quarter right after L2, of a half beyond.
    if let Some(last) = host.last_level_cache() {
        let before = caches(host).iter().rev().nth(1).map_or(0, |cache| cache.size_bytes);
        let between = octaves(before as usize, last.size_bytes as usize);
        let is_few = |set: &usize| effort != Effort::Quick || *set <= QUICK_LARGE;
        for (octave, set) in between.into_iter().filter(is_few).enumerate() {
            let quarters: &[usize] = if octave < QUARTERED { &[5, 6, 7] } else { &[6] };
            sets.extend(quarters.iter().map(|quarters| set / 4 * quarters));
        }
    }
    sets.retain(|set| (smallest..=largest).contains(set) && set.is_multiple_of(KIB));
    sets.sort_unstable();
    sets.dedup();
    sets
}
