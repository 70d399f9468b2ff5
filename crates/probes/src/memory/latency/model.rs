//! What a load should take, by the level that its set lies in.

use fathom_record::{Host, NoModel, Origin, Params, Prediction, Unit};

use super::super::chain::Pattern;
use super::ladder::{Step, caches};
use crate::buffer::Page;
use crate::uarch::{self, Row};
use fathom_metric::Known;
use fathom_metric::order::earlier;

/// A level of the hierarchy of caches, or what lies behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// A cache, counted from 1.
    Cache(u32),
    /// Memory behind the last cache.
    Memory,
}

/// The level that a set clearly lies in: at most half of its size, at least twice the one before.
pub(crate) fn level_of(set_bytes: usize, host: &Host) -> Result<Level, NoModel> {
    let caches = caches(host);
    if caches.is_empty() {
        return Err(NoModel::unknown_fact(&["cpu.caches"]));
    }
    let set = set_bytes as u64;
    let mut smaller = 0;
    for cache in caches {
        if set >= 2 * smaller && 2 * set <= cache.size_bytes {
            return Ok(Level::Cache(cache.level));
        }
        smaller = cache.size_bytes;
    }
    if set >= 2 * smaller {
        return Ok(Level::Memory);
    }
    Err(NoModel::BetweenLevels)
}

pub(super) fn predict(step: &Step, host: &Host, known: &Known<'_>) -> Result<Prediction, NoModel> {
    let level = level_of(step.set_bytes, host)?;
    if level != Level::Cache(1) && step.pattern != Pattern::Random {
        return Err(NoModel::Prefetched);
    }
    let value = of_level(level, host, known)?;
    if step.page == Page::Base && level != Level::Cache(1) && !value.is_ordinal() {
        // What a miss of the translation buffers adds is in no table.
        return Ok(value.as_lower_limit());
    }
    Ok(value)
}

/// What a load takes that finds its line in this level, and its page's translation for nothing.
pub(crate) fn of_level(
    level: Level,
    host: &Host,
    known: &Known<'_>,
) -> Result<Prediction, NoModel> {
    let row = uarch::row_for(host)?;
    let frequency = earlier("cpu.frequency", &Params::none(), known)?;
    match level {
        Level::Cache(level) => of_cache(level, row, frequency, host),
        Level::Memory => of_memory(row, frequency, host),
    }
}

fn of_cache(level: u32, row: &Row, frequency: f64, host: &Host) -> Result<Prediction, NoModel> {
    let name = format!("l{level}_cycles");
    let cycles = row.sourced(&name)?;
    let cycle_ns = 1e9 / frequency;
    let tolerance = match level {
        1 => 0.1,
        2 => 0.2,
        _ => 0.3,
    };
    let formula = format!("{name} ÷ frequency");
    let prediction =
        Prediction::sum(cycles.value * cycle_ns, 0.0, tolerance, &formula, &cycles.source)
            .with_input(&name, cycles.value, row.origin())
            .with_quantity("frequency", frequency, Unit::Hertz, Origin::this_run("cpu.frequency"));
    let (above, below) = match level {
        1 => (
            "the loads do not hit the first level, or the core is not the table's",
            "loads overlapped: the address was foreseen, or the core is not the table's",
        ),
        _ if shared_with_strangers(host, level) => (
            "the cache is shared with other guests of the host, whose lines take its room and \
             whose loads its turns, or its clock is slower than in the part that was published",
            "the set lies in the level before, or the core is not the table's",
        ),
        _ => (
            "a larger die or a slower clock of the cache than in the part that was published, or \
             translation costs besides",
            "the set lies in the level before, or the core is not the table's",
        ),
    };
    Ok(prediction.if_above(above).if_below(below))
}

/// Whether others than this system may use this cache: in a guest, whatever lies behind the core.
pub(crate) fn shared_with_strangers(host: &Host, level: u32) -> bool {
    level > 2 && host.virtualization.as_deref().is_some_and(|kind| kind != "none")
}

/// The fastest row and column of a speed bin that is standard: no module of the kind is faster
/// unless it is driven beyond it.
const DDR4_ROW_AND_COLUMN_NS: f64 = 12.5 + 12.5;
const DDR4_SOURCE: &str =
    "Micron, 4Gb DDR4 SDRAM data sheet, DDR4-2400 speed bins, -083F: tRCD + tAA";

/// That memory's own share is not in the claim.
const MERE_BOUND: &str = " (a mere lower bound: no sourced figure for the modules)";

/// An order: what the last level takes to find nothing, and the module's row and column, which a
/// random order rarely finds open. What lies between the two no source gives.
fn of_memory(row: &Row, frequency: f64, host: &Host) -> Result<Prediction, NoModel> {
    let last = caches(host).last().map_or(3, |cache| cache.level);
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
        order.formula += MERE_BOUND;
    }
    Ok(order.if_above("").if_below("a part of this set lies in the caches"))
}
