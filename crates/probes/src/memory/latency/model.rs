//! Predicted latency of a load from the cache level that holds its working set.

use super::super::chain::Pattern;
use super::cases::{ChaseCase, caches, known_caches};
use crate::prelude::*;
use crate::uarch::{self, UarchRow};
use fathom_record::host::Cache;

/// A level of the memory hierarchy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// Counted from 1.
    Cache(u32),
    Memory,
}

/// The level that clearly holds a working set: at most half of its size, at least twice the
/// previous level; less where other guests use the cache too ([`parts`]).
pub(crate) fn level_of(set_bytes: usize, host: &Host) -> Result<Level, NoModel> {
    let set = set_bytes as u64;
    let mut smaller = 0;
    for cache in known_caches(host)? {
        if set >= 2 * smaller && holds(host, cache, set) {
            return Ok(Level::Cache(cache.level));
        }
        smaller = cache.size_bytes;
    }
    if set >= 2 * smaller {
        return Ok(Level::Memory);
    }
    Err(NoModel::BetweenLevels)
}

/// The levels between which a working set is, by name: `L2 and L3`.
pub(crate) fn levels_around(set_bytes: usize, host: &Host) -> String {
    let caches = caches(host);
    let inside = caches.iter().rposition(|cache| 2 * cache.size_bytes <= set_bytes as u64);
    let name = |at: usize| caches.get(at).map_or("memory".into(), |it| format!("L{}", it.level));
    let first = inside.map_or(0, |before| before + 1);
    format!("{} and {}", name(first), name(first + 1))
}

/// A working set is clearly inside a cache if it is at most one of so many parts: half of it, or
/// three quarters of L1, whose sets are chosen by virtual addresses; in a guest a quarter of L2,
/// which the guest of an SMT sibling may use too, and an eighth of L3, of which a few CPUs of many
/// have a quarter at best.
fn parts(host: &Host, level: u32) -> f64 {
    let is_guest = host.is_guest();
    match level {
        1 => 4.0 / 3.0,
        2 if is_guest => 4.0,
        3.. if is_guest => 8.0,
        _ => 2.0,
    }
}

/// Whether a cache clearly holds this many bytes.
fn holds(host: &Host, cache: &Cache, bytes: u64) -> bool {
    parts(host, cache.level) * bytes as f64 <= cache.size_bytes as f64
}

/// The first level beyond L1 that holds data of this size beside its copy; memory if none does.
pub(crate) fn outer_level_of(bytes: u64, host: &Host) -> Result<Level, NoModel> {
    let is_outer = |cache: &&&Cache| cache.level > 1 && holds(host, cache, bytes);
    let levels = known_caches(host)?;
    Ok(levels.iter().find(is_outer).map_or(Level::Memory, |cache| Level::Cache(cache.level)))
}

pub(super) fn predict(case: &ChaseCase, host: &Host, known: &Inputs<'_>) -> Model {
    let level = match level_of(case.set_bytes, host) {
        Err(NoModel::BetweenLevels) if case.pattern == Pattern::Random => {
            return between(case, host, known);
        }
        level => level?,
    };
    if level != Level::Cache(1) && case.pattern != Pattern::Random {
        return Err(NoModel::Prefetched);
    }
    let value = of_level(level, host, known)?;
    if case.page == BufferPage::Base && level != Level::Cache(1) && !value.is_ordinal() {
        return Ok(on_base_pages(value, case.set_bytes, host));
    }
    Ok(value)
}

/// With 4K pages: the same within half of the reach of the second-level TLB, whose hits cost a few
/// cycles, so ± 20 % at least; beyond, a lower bound, as the cost of a page walk is not published.
fn on_base_pages(value: Prediction, set_bytes: usize, host: &Host) -> Prediction {
    let row = uarch::row_for(host).ok();
    let entries = row.and_then(|row| Some((row, row.sourced("l2_tlb_entries").ok()?)));
    match entries {
        Some((row, entries))
            if 2 * set_bytes <= entries.value as usize * BufferPage::Base.bytes() =>
        {
            let source = format!("{}; {}", value.source, entries.source);
            let formula = format!("{} within half of the TLB's reach", value.formula);
            let if_above = format!("{}; TLB misses", value.if_above);
            let around = value.value.unwrap_or(0.0);
            let low = value.low.map(|low| low.min(0.8 * around));
            let high = value.high.map(|high| high.max(1.2 * around));
            Prediction { source, formula, if_above, low, high, ..value }.with_input(
                "l2_tlb_entries",
                entries.value,
                row.origin(),
            )
        }
        _ => value.as_lower_limit(),
    }
}

/// The smallest multiple of a cache's size for which [`missing`] is a limit: closer to the size the
/// associativity decides.
const BEYOND_MIN: f64 = 1.25;

/// The share of the loads of a cyclic walk that miss a cache with random replacement, whose size
/// the working set exceeds by this factor: m = 1 − exp(−m × factor). With least-recently-used
/// replacement all of them miss.
fn missing(factor: f64) -> f64 {
    let mut random = 1.0;
    // Converges to far below a per mille for factors from 1.25.
    for _ in 0..100 {
        random = 1.0 - f64::exp(-random * factor);
    }
    random
}

/// A working set that a cache holds in part, and that the next one clearly holds.
fn partly(case: &ChaseCase, cache: &Cache, next: &Cache, host: &Host, known: &Inputs<'_>) -> Model {
    let factor = case.set_bytes as f64 / cache.size_bytes as f64;
    let is_clear = factor >= BEYOND_MIN && holds(host, next, case.set_bytes as u64);
    if case.page != BufferPage::Huge || !is_clear {
        return Err(NoModel::BetweenLevels);
    }
    let [hit, miss] = [cache, next].map(|it| of_level(Level::Cache(it.level), host, known));
    let (hit, miss) = (hit?, miss?);
    let share = missing(factor);
    let low = hit.low.zip(miss.low).map(|(hit, miss)| (1.0 - share) * hit + share * miss);
    let formula = format!(
        "≥ (1 − miss share) × {} + miss share × {}, ≤ {}, less or with their tolerances",
        hit.formula, miss.formula, miss.formula
    );
    let source = format!(
        "{}; {}; share of a cyclic walk that misses: random replacement at least, all with LRU",
        hit.source, miss.source
    );
    let more = miss.inputs.into_iter().filter(|it| it.name != "frequency");
    let inputs = hit.inputs.into_iter().chain(more).collect();
    let origin = Origin::calculated("m = 1 − exp(−m × set_bytes ÷ cache size)");
    let bracket = Prediction { low, high: miss.high, formula, source, inputs, ..hit };
    let bracket = Prediction { value: None, ..bracket.without_parts() };
    let if_below = "the cache is larger than stated, or replaced as neither LRU nor at random";
    Ok(bracket.with_input("miss share", share, origin).if_above(&miss.if_above).if_below(if_below))
}

/// A working set near the size of a level: between the latencies of this and of the next.
fn between(case: &ChaseCase, host: &Host, known: &Inputs<'_>) -> Model {
    let inside = |cache: &&&Cache| case.set_bytes as u64 <= 2 * cache.size_bytes;
    let levels = caches(host);
    let at = levels.iter().position(|cache| inside(&cache)).ok_or(NoModel::BetweenLevels)?;
    let level = levels[at].level;
    if let Some(next) = levels.get(at + 1)
        && let Ok(bracket) = partly(case, levels[at], next, host, known)
    {
        return Ok(bracket);
    }
    let faster = of_level(Level::Cache(level), host, known)?;
    let low = faster.low;
    let formula = format!("≥ {}, less its tolerance", faster.formula);
    let mut bracket = Prediction { low, high: None, value: None, formula, ..faster };
    (bracket.hardware, bracket.software) = (None, None);
    let has_next = levels.iter().any(|cache| cache.level == level + 1);
    let next = has_next.then(|| of_level(Level::Cache(level + 1), host, known).ok()).flatten();
    if let Some(next) = next.filter(|_| case.page == BufferPage::Huge) {
        bracket.high = next.high;
        bracket.formula += &format!("; ≤ {}, with its tolerance", next.formula);
        bracket.inputs.extend(next.inputs.into_iter().filter(|it| it.name != "frequency"));
        bracket.if_above = next.if_above;
    } else {
        bracket.if_above.clear();
    }
    Ok(bracket)
}

/// Latency of a load that hits in this level and in the TLB.
pub(crate) fn of_level(level: Level, host: &Host, known: &Inputs<'_>) -> Model {
    let row = uarch::row_for(host)?;
    let frequency = known.frequency()?;
    match level {
        Level::Cache(level) => of_cache(level, row, frequency, host),
        Level::Memory => of_memory(row, frequency, host),
    }
}

fn of_cache(level: u32, row: &UarchRow, frequency: f64, host: &Host) -> Model {
    let name = format!("l{level}_cycles");
    let cycles = row.sourced(&name)?;
    let cycle_ns = 1e9 / frequency;
    // L1 and L2 run at the clock of the core; load-to-use cycles are whole numbers.
    let tolerance = if level <= 2 { 0.02 } else { 0.3 };
    let formula = format!("{name} ÷ frequency");
    let prediction =
        Prediction::sum(cycles.value * cycle_ns, 0.0, tolerance, &formula, &cycles.source)
            .with_input(&name, cycles.value, row.origin())
            .with_quantity("frequency", frequency, Unit::Hertz, Origin::this_run("cpu.frequency"));
    let (above, below) = match level {
        1 => (
            "loads miss L1, or the core is not the one in the table",
            "loads overlap by value prediction, or the core is not the one in the table",
        ),
        _ if shared_with_other_guests(host, level) => (
            "other guests of the host use the cache's capacity and bandwidth, or its clock is \
             slower than in the published part",
            "the working set is in the previous level, or the core is not the one in the table",
        ),
        _ => (
            "a larger die or a slower cache clock than in the published part, or TLB misses",
            "the working set is in the previous level, or the core is not the one in the table",
        ),
    };
    Ok(prediction.if_above(above).if_below(below))
}

/// Whether other guests may use this cache: in a guest, every cache outside the core.
pub(crate) fn shared_with_other_guests(host: &Host, level: u32) -> bool {
    level > 2 && host.is_guest()
}

/// The fastest standard speed bin: only overclocked modules are faster.
const DDR4_ROW_AND_COLUMN_NS: f64 = 12.5 + 12.5;
const DDR4_SOURCE: &str =
    "Micron, 4Gb DDR4 SDRAM data sheet, DDR4-2400 speed bins, -083F: tRCD + tAA";

const WEAK_BOUND: &str = " (a weak lower bound: no published latency of the modules)";

/// A lower bound: the latency of a last-level miss, and the row and column access of the module, as
/// random accesses rarely hit an open row. The path between the two has no published latency.
fn of_memory(row: &UarchRow, frequency: f64, host: &Host) -> Model {
    let last = known_caches(host)?.last().map_or(3, |cache| cache.level);
    let cache = of_cache(last, row, frequency, host)?;
    let mut order = cache.as_lower_limit();
    let modules = &host.memory.modules;
    if !modules.is_empty() && modules.iter().all(|module| module.kind.as_deref() == Some("DDR4")) {
        order.low = order.low.map(|low| low + DDR4_ROW_AND_COLUMN_NS);
        order.formula += " + row and column of DDR4";
        let published = Origin::Published { source: DDR4_SOURCE.to_owned() };
        let (name, nanoseconds) = ("row and column", Unit::Nanoseconds);
        order = order.with_quantity(name, DDR4_ROW_AND_COLUMN_NS, nanoseconds, published);
    } else {
        order.formula += WEAK_BOUND;
    }
    Ok(order.if_above("").if_below("a part of the working set is in the caches"))
}
