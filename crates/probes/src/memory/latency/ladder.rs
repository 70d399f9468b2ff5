//! The sets to chase through: which sizes, in which orders, by which pages.

use fathom_record::host::Cache;
use fathom_record::{Effort, Host, Params};

use super::super::chain::Pattern;
use crate::buffer::Page;
use crate::room::Room;
use fathom_metric::Sizes;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
/// The smallest set: some lines.
const SMALLEST: usize = KIB;
/// The largest of the classic grid, and where the last-level cache is unknown.
const CLASSIC_LARGEST: usize = 128 * MIB;
/// The largest set is at least so many times the last-level cache.
const BEYOND_LLC: usize = 4;
/// Octaves behind the last cache but one that are taken in quarters.
const QUARTERED: usize = 2;
/// Strides of the classic grid.
const STRIDES: [usize; 6] = [32, 64, 128, 256, 512, 1024];

/// One chain to chase along.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Step {
    pub(crate) pattern: Pattern,
    pub(crate) page: Page,
    pub(crate) set_bytes: usize,
}

impl Step {
    /// Its parameters.
    pub(crate) fn params(&self) -> Params {
        Params::one("set_bytes", self.set_bytes as i64)
            .and("pattern", self.pattern.name().as_str())
            .and("page", self.page.name().as_str())
    }

    /// The step with these parameters.
    pub(crate) fn of(params: &Params) -> Option<Self> {
        Some(Self {
            pattern: Pattern::named(params.text("pattern")?)?,
            page: Page::named(params.text("page")?)?,
            set_bytes: usize::try_from(params.integer("set_bytes")?).ok()?,
        })
    }

    /// Bytes that it takes: the set, and the order of its elements while it is linked.
    pub(crate) fn memory_bytes(&self) -> usize {
        let step_bytes = if let Pattern::Stride(bytes) = self.pattern { bytes } else { 64 };
        self.set_bytes + self.set_bytes / step_bytes * size_of::<u32>()
    }
}

/// The data caches of the host, the first level first.
pub(crate) fn caches(host: &Host) -> Vec<&Cache> {
    let data = host.cpu.caches.iter().filter(|cache| cache.kind != "instruction");
    let mut caches: Vec<&Cache> = data.collect();
    caches.sort_by_key(|cache| cache.level);
    caches
}

/// The steps to take on this host, ordered by pattern, page and size.
pub(crate) fn steps(host: &Host, sizes: &Sizes) -> Vec<Step> {
    if sizes.smoke {
        return smoke();
    }
    let largest = largest(host);
    let mut steps = Vec::new();
    for page in Page::ALL {
        let mut add = |pattern, sets: &[usize]| {
            steps.extend(sets.iter().map(|&set_bytes| Step { pattern, page, set_bytes }));
        };
        let octaves = octaves(SMALLEST, largest);
        let coarse = sizes.effort == Effort::Quick && page == Page::Base && has_huge(host);
        let fine = if coarse { octaves.clone() } else { fine(host, sizes.effort, largest) };
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
    steps.sort_unstable();
    steps
}

fn smoke() -> Vec<Step> {
    let mut steps = Vec::new();
    for pattern in [Pattern::Random, Pattern::RandomPage, Pattern::Stride(64)] {
        for page in Page::ALL {
            steps.extend([4 * KIB, 96 * KIB].map(|set_bytes| Step { pattern, page, set_bytes }));
        }
    }
    steps
}

/// The largest set: four times the last-level cache, in whole octaves, or what there is room for.
pub(crate) fn largest(host: &Host) -> usize {
    let wanted = host.last_level_cache().map_or(CLASSIC_LARGEST, |cache| {
        (BEYOND_LLC * cache.size_bytes as usize).next_power_of_two()
    });
    let room = Room::on(host);
    let fits = |set_bytes: usize| {
        let (pattern, page) = (Pattern::Random, Page::Base);
        let step = Step { pattern, page, set_bytes };
        // Of a host whose memory is unknown the visit finds out.
        room.bytes == 0 || room.admits(step.memory_bytes() as u64).is_ok()
    };
    octaves(SMALLEST, wanted).into_iter().rfind(|set| fits(*set)).unwrap_or(SMALLEST)
}

/// Whether plateaus will be found in the curve by huge pages.
pub(crate) fn has_huge(host: &Host) -> bool {
    host.memory.thp.as_deref().is_some_and(|thp| thp != "never")
}

fn octaves(from: usize, to: usize) -> Vec<usize> {
    std::iter::successors(Some(from), |set| set.checked_mul(2))
        .take_while(|set| *set > 0 && *set <= to)
        .collect()
}

/// Octaves, and finer steps about the size of each cache: where a plateau ends lies between two.
fn fine(host: &Host, effort: Effort, largest: usize) -> Vec<usize> {
    let mut sets = octaves(SMALLEST, largest);
    let last = host.last_level_cache().map_or(0, |cache| cache.size_bytes);
    for cache in caches(host) {
        let size = cache.size_bytes as usize;
        let quarters: &[usize] = match effort {
            // A set of this size takes a tenth of a second of the few there are.
            // Three times it is memory's, which has too few points by octaves alone.
            Effort::Quick if size as u64 == last => &[4, 6, 12],
            Effort::Quick => &[3, 4, 5, 6],
            Effort::Standard | Effort::Thorough => &[2, 3, 4, 5, 6, 7, 8, 12],
        };
        sets.extend(quarters.iter().map(|quarters| size / 4 * quarters));
    }
    // The third level of a guest may end anywhere between the second's size and its own, and what
    // is left of it must be seen as a plateau: quarters right behind the second, halves beyond.
    if let Some(last) = host.last_level_cache() {
        let before = caches(host).iter().rev().nth(1).map_or(0, |cache| cache.size_bytes);
        let unsure = octaves(before as usize, last.size_bytes as usize);
        for (octave, set) in unsure.into_iter().enumerate() {
            let quarters: &[usize] = if octave < QUARTERED { &[5, 6, 7] } else { &[6] };
            sets.extend(quarters.iter().map(|quarters| set / 4 * quarters));
        }
    }
    sets.retain(|set| (SMALLEST..=largest).contains(set) && set.is_multiple_of(KIB));
    sets.sort_unstable();
    sets.dedup();
    sets
}
