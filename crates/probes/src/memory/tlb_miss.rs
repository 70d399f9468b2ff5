//! memory.latency.tlb_miss: what a load costs more where the translation of its page must be
//! fetched too.

use fathom_record::{Host, NoModel, Origin, Params, Prediction, Record, Unit};

use super::chain::Pattern;
use super::latency::cases;
use super::latency::cases::ChaseCase;
use super::latency::model::{self, Level};
use crate::buffer::{Page, binary_size};
use fathom_metric::{About, Derived, Estimate, Known, MissingInput, Parameter};

/// memory.latency.tlb_miss.
pub struct TlbMiss;

static ABOUT: About = About {
    id: "memory.latency.tlb_miss",
    title: "miss of a translation buffer",
    timed: "nothing: it is memory.latency by random order at the largest set by small pages, less \
            the same by huge ones, for each process, with the median and interval over processes",
    not_timed: "misses of the first translation buffer that the second one answers: the set has \
                more pages than both",
    model: "a bound: one page-table entry must be loaded, ≥ the cycles of the smallest level that \
            holds all entries, which is 8 bytes a page, ÷ cpu.frequency. Under nested paging there \
            is no model: each step of the walk is a walk of the host's tables itself",
    source: "page walk: Intel SDM volume 3A, chapter 5 (paging); nested: J. Bhargava et al., \
             Accelerating two-dimensional page walks for virtualized systems, ASPLOS 2008",
    pitfalls: &[
        "the first access to a page costs a fault, which is no miss: every page is written before",
        "a core may have many walks under way at once: here each load waits for the one before, so \
         that no walk is hidden; a program that overlaps its loads pays less",
        "lines of page tables take room in the caches, so that data is evicted by them: that is in \
         the difference",
        "a host may back a guest's huge pages by small ones, so that the chase by huge pages \
         misses too: in a guest the difference is not the price of a miss alone, and says so",
    ],
    parameters: &[] as &[Parameter],
    needs: &["cpu.frequency", "memory.latency"],
    requires: "huge pages on advice",
    noise_limit: 0.25,
    ..About::BASE
};

/// Small pages of a set that no translation buffer holds: more than twice the largest published,
/// which are 4096 entries (Zen 5).
const PAGES_MIN: usize = 8192;
/// What the difference is in a guest.
const IN_A_GUEST: &str = "in a guest this is not the price of a miss alone: where the host backs \
                          huge pages by small ones, the chase by huge pages misses too";
/// Bytes of a page-table entry.
const ENTRY_BYTES: usize = 8;

impl Derived for TlbMiss {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn inputs(&self) -> &'static [&'static str] {
        &["memory.latency"]
    }

    /// The two cases whose difference it is; no other set's doubts are its own.
    fn rests_on(&self, _: &Params, record: &Record, known: &Known<'_>) -> bool {
        let step = ChaseCase::of(&record.params).filter(|step| step.pattern == Pattern::Random);
        let used = |step: ChaseCase| largest(known) == Ok(step.set_bytes);
        record.metric.as_str() == "memory.latency" && step.is_some_and(used)
    }

    fn cases(&self) -> Vec<Params> {
        vec![Params::none()]
    }

    fn reduce(&self, _: &Params, known: &Known<'_>) -> Result<Estimate, MissingInput> {
        let set_bytes = largest(known)?;
        let of = |page| {
            let step = ChaseCase { pattern: Pattern::Random, page, set_bytes };
            known.input("memory.latency", &step.params())
        };
        let (small, huge) = (of(Page::Base)?, of(Page::Huge)?);
        // Both are taken in the same processes.
        let pairs = small.process_medians.iter().zip(&huge.process_medians);
        let per_process = pairs.map(|(small, huge)| small - huge).collect();
        let mut notes = vec![format!("at {}", binary_size(set_bytes as u64))];
        let kind = known.host().and_then(|host| host.virtualization.as_deref());
        if kind.is_some_and(|kind| kind != "none") {
            notes.push(IN_A_GUEST.to_owned());
        }
        Ok(Estimate { per_process, difference: true, notes, ..Estimate::default() })
    }

    fn predict(&self, _: &Params, host: &Host, known: &Known<'_>) -> Result<Prediction, NoModel> {
        if host.virtualization.as_deref().is_none_or(|kind| kind != "none") {
            return Err(NoModel::NestedPaging);
        }
        let set_bytes = largest(known)?;
        let table_bytes = set_bytes / Page::Base.bytes() * ENTRY_BYTES;
        let holds = |cache: &&fathom_record::host::Cache| cache.size_bytes >= table_bytes as u64;
        let level = cases::caches(host).into_iter().find(holds);
        let level = level.map_or(Level::Memory, |cache| Level::Cache(cache.level));
        let entry = model::of_level(level, host, known)?;
        let limit = if entry.is_ordinal() { entry } else { entry.as_lower_limit() };
        Ok(limit
            .with_quantity(
                "page table",
                table_bytes as f64,
                Unit::Bytes,
                Origin::calculated("8 bytes a page"),
            )
            .if_above("")
            .if_below("the translations were there already: the core gathers neighbouring pages"))
    }
}

/// The largest set that there is by both kinds of page, if no translation buffer holds it.
fn largest(known: &Known<'_>) -> Result<usize, MissingInput> {
    let of = |page| {
        known
            .cases_of("memory.latency")
            .filter_map(|(params, _)| ChaseCase::of(params))
            .filter(move |step| step.pattern == Pattern::Random && step.page == page)
            .map(|step| step.set_bytes)
    };
    let huge: Vec<usize> = of(Page::Huge).collect();
    let largest = of(Page::Base).filter(|set| huge.contains(set)).max();
    let none = MissingInput::Absent("no set was measured both by small and by huge pages");
    let largest = largest.ok_or(none)?;
    let needed = PAGES_MIN * Page::Base.bytes();
    if largest >= needed {
        return Ok(largest);
    }
    let (largest, needed) = (largest as u64, needed as u64);
    let why = "translation buffers may hold a smaller one";
    Err(MissingInput::SetTooSmall { largest, needed, why })
}

#[cfg(test)]
mod tests;
