//! Predicted bandwidth of a stream.

use super::{ABOUT, Level, StreamCase};
use crate::memory::vectors::Op;
use crate::prelude::*;
use crate::uarch::{self, Constant, UarchRow};

const LINE_BYTES: f64 = 64.0;
const TRANSFER_BYTES: f64 = 8.0;
const LATENCY: &str = "memory.latency.dram";

pub(super) fn predict(case: StreamCase, host: &Host, known: &Inputs<'_>) -> Model {
    match case.level {
        Level::Memory => of_memory(case, host, known),
        Level::Cache(_) => of_cache(case, host, known),
    }
}

fn of_memory(case: StreamCase, host: &Host, known: &Inputs<'_>) -> Model {
    let huge = StreamCase { page: BufferPage::Huge, ..case };
    if case.page == BufferPage::Base && known.summary(ABOUT.id, &huge.params()).is_some() {
        let source = "hardware prefetchers stop at a 4 KiB boundary, and each page adds TLB misses";
        return at_most(1.0, huge, source, "no cost of 4K pages", known);
    }
    match case.op {
        Op::Read if case.threads == 1 => of_one_reader(known),
        Op::Read => of_all_readers(case, host, known),
        Op::WriteNt => Err(NoModel::WriteCombining),
        Op::Write | Op::Copy | Op::Triad => write_allocated(case, known),
    }
}

/// A store loads its line first, which is written back later: the bus moves more bytes than the
/// program. At least it moves all of them at the rate of a read. At most the write-backs pass the
/// other way meanwhile, and the loads, as many as the counted bytes, have that rate. A bracket, as
/// no counter shows which of both it is.
fn write_allocated(case: StreamCase, known: &Inputs<'_>) -> Model {
    let read = StreamCase { op: Op::Read, ..case };
    let (value, name) = (rate(read, known)?, read.result_name());
    let (own, bus) = (case.op.arrays(), case.op.bus_arrays());
    let share = own as f64 / bus as f64;
    let source = "write-allocate: a store loads its line first, and the line is written back, so \
                  that a bus moves more bytes than the program; assumed, not counted";
    let formula = format!("≥ 0.9 × {own} ÷ {bus} × {name}, ≤ 1.1 × {name}");
    let from = format!("assumed: the bus moves {bus} arrays, the program {own}");
    let bracket = Prediction::at_least(0.9 * share * value, &formula, source);
    Ok(Prediction { high: Some(1.1 * value), ..bracket }
        .with_result(&name, value, Unit::BytesPerSecond)
        .with_input("program bytes ÷ bus bytes", share, Origin::calculated(&from))
        .if_above(
            "the core avoids write-allocate for lines that are overwritten whole, or prefetches \
             for several streams further than for one",
        )
        .if_below("changes between loads and write-backs cost time on the bus"))
}

/// A lower bound: independent loads reach at least the rate of dependent ones. The maximum is not
/// published, as the L2 prefetcher has a queue of its own.
fn of_one_reader(known: &Inputs<'_>) -> Model {
    let latency = earlier(LATENCY, &Params::none(), known)?;
    let value = LINE_BYTES * 1e9 / latency;
    let formula = format!("≥ 64 B ÷ {LATENCY}");
    let source = "Little's law: concurrency = rate × time, with at least one line in flight; the \
                  maximum per core is not published";
    let bound = Prediction::at_least(value, &formula, source);
    let bound = bound.with_result(LATENCY, latency, Unit::Nanoseconds);
    Ok(bound.if_below("a CPU quota, or one of the two results was disturbed"))
}

fn of_all_readers(case: StreamCase, host: &Host, known: &Inputs<'_>) -> Model {
    let modules = &host.memory.modules;
    let rates: Vec<f64> = modules.iter().filter_map(|module| module.transfers_per_s).collect();
    if !rates.is_empty() && rates.len() == modules.len() {
        let peak = TRANSFER_BYTES * rates.iter().sum::<f64>();
        let formula = "≤ modules × transfers/s × 8 B";
        let source = "JEDEC: a channel is 64 bits wide; two modules on a channel share it";
        let origin = Origin::host(host, "memory.modules");
        return Ok(Prediction::at_most(peak, formula, source)
            .with_quantity("modules' peak", peak, Unit::BytesPerSecond, origin)
            .if_above("some of the bytes are cache hits"));
    }
    let one = StreamCase { threads: 1, ..case };
    let (limit, name) = (rate(one, known)?, one.result_name());
    let source = "more cores keep more lines in flight; bank conflicts between them cost less than \
                  a tenth of one core's rate";
    Ok(Prediction::at_least(0.9 * limit, &format!("≥ 0.9 × {name}"), source)
        .with_result(&name, limit, Unit::BytesPerSecond)
        .if_below("SMT siblings counted as cores, or a CPU quota"))
}

fn of_cache(case: StreamCase, host: &Host, known: &Inputs<'_>) -> Model {
    let one = StreamCase { threads: 1, ..case };
    if case.threads > 1 {
        return of_private_caches(case, one, known);
    }
    match (case.op, case.level) {
        (Op::Read, Level::Cache(1)) => {
            let (peak, row, per_cycle) = published("l1_read_bytes_per_cycle", host, known)?;
            let sum = Prediction::sum(peak, 0.0, 0.2, FORMULA, &per_cycle.source);
            let sum = Prediction { software: None, ..sum };
            let meaning = "another core frequency, or unaligned loads";
            Ok(inputs(sum, peak, row, per_cycle).otherwise(meaning))
        }
        (Op::Read, Level::Cache(2)) => {
            let (peak, row, per_cycle) = published("l2_read_bytes_per_cycle", host, known)?;
            // A path that is wider than half a line is not filled in every cycle.
            if per_cycle.value > LINE_BYTES / 2.0 {
                let formula = format!("≤ {FORMULA}");
                let bound = Prediction::at_most(peak, &formula, &per_cycle.source);
                let meaning = "some of the arrays stay in L1";
                return Ok(inputs(bound, peak, row, per_cycle).if_above(meaning));
            }
            let sum = Prediction::sum(peak, 0.0, 0.2, FORMULA, &per_cycle.source);
            Ok(inputs(sum, peak, row, per_cycle)
                .if_above("some of the arrays stay in L1, or another core frequency")
                .if_below("the prefetcher of L1 does not run far enough ahead, or SMT contention"))
        }
        (Op::Read, _) => {
            let source = "a level is no faster than the previous one, through which it is read";
            let meaning = "some of the arrays stay in L2";
            at_most(1.0, StreamCase { level: Level::Cache(2), ..case }, source, meaning, known)
        }
        (Op::Copy, _) => {
            let source = "half of the bytes of a copy are stored, at most as fast as a write";
            at_most(2.0, StreamCase { op: Op::Write, ..case }, source, DISTURBED, known)
        }
        _ => {
            let source = "no core stores more bytes per cycle than it loads";
            at_most(1.0, StreamCase { op: Op::Read, ..case }, source, DISTURBED, known)
        }
    }
}

const FORMULA: &str = "published bytes per cycle × cpu.frequency";
const DISTURBED: &str = "one of the two results was disturbed";

/// Private caches scale with the cores.
fn of_private_caches(case: StreamCase, one: StreamCase, known: &Inputs<'_>) -> Model {
    let threads = case.threads as f64;
    if case.level == Level::Cache(3) {
        let source = "a shared cache serves several cores at most as fast as each alone";
        return at_most(threads, one, source, "the single thread was disturbed", known);
    }
    let (alone, name) = (rate(one, known)?, one.result_name());
    let source = "L1 and L2 are private to a core";
    let sum = Prediction::sum(threads * alone, 0.0, 0.2, &format!("threads × {name}"), source);
    let sum = sum.without_parts().self_consistent();
    Ok(sum
        .with_input("threads", threads, Origin::Case)
        .with_result(&name, alone, Unit::BytesPerSecond)
        .if_above("the single thread was disturbed, or ran at a lower frequency")
        .if_below("SMT siblings counted as cores, a lower all-core frequency, or a CPU quota"))
}

/// The upper bound `times` × another case.
fn at_most(
    times: f64,
    other: StreamCase,
    source: &str,
    meaning: &str,
    known: &Inputs<'_>,
) -> Model {
    let (limit, name) = (rate(other, known)?, other.result_name());
    let formula =
        if times == 1.0 { format!("≤ {name}") } else { format!("≤ {times} × {name}") };
    Ok(Prediction::at_most(times * limit, &formula, source)
        .with_result(&name, limit, Unit::BytesPerSecond)
        .if_above(meaning))
}

fn rate(case: StreamCase, known: &Inputs<'_>) -> Result<f64, NoModel> {
    earlier(ABOUT.id, &case.params(), known)
}

/// The published bytes per cycle at the measured frequency.
fn published(
    name: &str,
    host: &Host,
    known: &Inputs<'_>,
) -> Result<(f64, &'static UarchRow, &'static Constant), NoModel> {
    let row = uarch::row_for(host)?;
    let per_cycle = row.sourced(name)?;
    let hz = known.frequency()?;
    Ok((per_cycle.value * hz, row, per_cycle))
}

fn inputs(prediction: Prediction, peak: f64, row: &UarchRow, per_cycle: &Constant) -> Prediction {
    let prediction = prediction.with_input("bytes per cycle", per_cycle.value, row.origin());
    prediction.with_result("cpu.frequency", peak / per_cycle.value, Unit::Hertz)
}
