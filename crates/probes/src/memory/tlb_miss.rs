//! memory.latency.tlb_miss: added latency of a load that misses the TLB.

use super::chain::Pattern;
use super::latency::cases::{self, ChaseCase};
use super::latency::model::{self, Level};
use crate::prelude::*;

metric!(TlbMiss, ABOUT);

static ABOUT: About = About {
    id: "memory.latency.tlb_miss",
    title: "TLB miss",
    timed: "memory.latency with random order at the largest working set with 4K pages, minus the \
            same with huge pages, per process; median and interval over processes",
    not_timed: "L1 TLB misses that hit the L2 TLB: the working set has more pages than both",
    model: "lower bound: one page-table entry is loaded, ≥ the cycles of the smallest level that \
            holds all entries (8 bytes per page) ÷ cpu.frequency. No model under nested paging, \
            where each step of the walk needs a walk of the host's tables",
    source: "page walk: Intel SDM volume 3A, chapter 5 (paging); nested: J. Bhargava et al., \
             Accelerating two-dimensional page walks for virtualized systems, ASPLOS 2008",
    pitfalls: &[
        "the first access to a page is a fault, not a TLB miss: every page is written before",
        "a core runs several page walks in parallel: dependent loads expose each walk, programs \
         with overlapping loads pay less",
        "page-table lines evict data from the caches: the difference includes that",
        "a host may back a guest's huge pages with 4K pages, so that the chase with huge pages \
         misses too: in a guest the difference is not the cost of a TLB miss alone, which a note \
         states",
    ],
    needs: &["cpu.frequency", "memory.latency"],
    requires: "transparent huge pages",
    noise_limit: 0.25,
    ..About::BASE
};

/// Base pages that no TLB covers: twice the largest published TLB, 4096 entries (Zen 5).
const PAGES_MIN: usize = 8192;
const IN_A_GUEST: &str = "in a guest not the cost of a TLB miss alone: where the host backs huge \
                          pages with 4K pages, the chase with huge pages misses too";
const ENTRY_BYTES: usize = 8;

impl Derived for TlbMiss {
    fn inputs(&self) -> &'static [&'static str] {
        &["memory.latency"]
    }

    /// The two cases of the difference only.
    fn depends_on(&self, _: &Params, record: &Record, known: &Inputs<'_>) -> bool {
        let is_used = |case: ChaseCase| {
            case.pattern == Pattern::Random && largest(known) == Ok(case.set_bytes)
        };
        record.metric.as_str() == "memory.latency"
            && ChaseCase::from_params(&record.params).is_some_and(is_used)
    }

    fn reduce(&self, _: &Params, known: &Inputs<'_>) -> Result<DerivedEstimate, MissingInput> {
        let set_bytes = largest(known)?;
        let of = |page| {
            let case = ChaseCase { pattern: Pattern::Random, page, set_bytes };
            known.input("memory.latency", &case.params())
        };
        let (base, huge) = (of(BufferPage::Base)?, of(BufferPage::Huge)?);
        // The same processes measured both.
        let pairs = base.process_medians.iter().zip(&huge.process_medians);
        let per_process = pairs.map(|(base, huge)| base - huge).collect();
        let ns = |median: f64| quantity(median, Unit::Nanoseconds);
        let mut notes = vec![format!(
            "at {}, where a load takes {} with 4K pages and {} with huge ones",
            binary_size(set_bytes as u64),
            ns(base.median),
            ns(huge.median)
        )];
        let kind = known.host().and_then(|host| host.virtualization.as_deref());
        if kind.is_some_and(|kind| kind != "none") {
            notes.push(IN_A_GUEST.to_owned());
        }
        Ok(DerivedEstimate { per_process, difference: true, notes, ..DerivedEstimate::default() })
    }

    fn predict(&self, _: &Params, host: &Host, known: &Inputs<'_>) -> Model {
        if host.virtualization.as_deref().is_none_or(|kind| kind != "none") {
            return Err(NoModel::NestedPaging);
        }
        let set_bytes = largest(known)?;
        let table_bytes = set_bytes / BufferPage::Base.bytes() * ENTRY_BYTES;
        let holds = |cache: &&fathom_record::host::Cache| cache.size_bytes >= table_bytes as u64;
        let level = cases::known_caches(host)?.into_iter().find(holds);
        let level = level.map_or(Level::Memory, |cache| Level::Cache(cache.level));
        let entry = model::of_level(level, host, known)?;
        let limit = if entry.is_ordinal() { entry } else { entry.as_lower_limit() };
        let calculated = Origin::calculated("8 bytes per page");
        Ok(limit
            .with_quantity("page table", table_bytes as f64, Unit::Bytes, calculated)
            .if_above("")
            .if_below("TLB hits: the core coalesces the entries of adjacent pages"))
    }
}

/// The largest working set measured with both page sizes, if no TLB covers it.
fn largest(known: &Inputs<'_>) -> Result<usize, MissingInput> {
    let of = |page| {
        known
            .cases_of("memory.latency")
            .filter_map(|(params, _)| ChaseCase::from_params(params))
            .filter(move |case| case.pattern == Pattern::Random && case.page == page)
            .map(|case| case.set_bytes)
    };
    let huge: Vec<usize> = of(BufferPage::Huge).collect();
    let largest = of(BufferPage::Base).filter(|set| huge.contains(set)).max();
    let none = MissingInput::Absent("no working set was measured with both 4K and huge pages");
    let largest = largest.ok_or(none)?;
    let needed = PAGES_MIN * BufferPage::Base.bytes();
    if largest >= needed {
        return Ok(largest);
    }
    let (largest, needed) = (largest as u64, needed as u64);
    let why = "the TLB may cover a smaller working set";
    Err(MissingInput::SetTooSmall { largest, needed, why })
}

#[cfg(test)]
mod tests;
