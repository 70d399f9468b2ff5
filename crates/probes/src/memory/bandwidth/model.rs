//! What a stream should give.

use fathom_record::{Host, NoModel, Origin, Params, Prediction, Unit};

use super::{ABOUT, Kind, Level};
use crate::buffer::Page;
use crate::memory::vectors::Op;
use crate::uarch::{self, Constant, Row};
use fathom_metric::Known;
use fathom_metric::order::earlier;

/// Bytes of a line: what a core keeps under way, it keeps by the line.
const LINE_BYTES: f64 = 64.0;
/// Bytes of one transfer of a channel.
const TRANSFER_BYTES: f64 = 8.0;
/// The measured latency of memory.
const LATENCY: &str = "memory.latency.dram";

pub(super) fn predict(kind: Kind, host: &Host, known: &Known<'_>) -> Result<Prediction, NoModel> {
    match kind.level {
        Level::Dram => of_memory(kind, host, known),
        Level::Cache(_) => of_cache(kind, host, known),
    }
}

fn of_memory(kind: Kind, host: &Host, known: &Known<'_>) -> Result<Prediction, NoModel> {
    let huge = Kind { page: Page::Huge, ..kind };
    if kind.page == Page::Base && known.summary(ABOUT.id, &huge.params()).is_some() {
        let source = "small pages stop a prefetcher at each 4 KiB, and cost a translation each";
        return at_most(1.0, huge, source, "small pages cost nothing here", known);
    }
    match kind.op {
        Op::Read if kind.threads == 1 => of_one_reader(known),
        Op::Read => of_all_readers(kind, host, known),
        Op::WriteNt => Err(NoModel::WriteCombining),
        Op::Write | Op::Copy | Op::Triad => {
            let source = "an ordinary store fetches the line it is about to overwrite, so that as \
                          many lines are fetched as for a read of so many bytes, and some go back";
            let meaning = "the core leaves out the fetch of a line that is overwritten whole";
            at_most(1.0, Kind { op: Op::Read, ..kind }, source, meaning, known)
        }
    }
}

/// An order: a stream's loads wait for no other, so that it cannot bring less than a chase does.
/// How much more no source tells: the second level fetches ahead into a queue of its own.
fn of_one_reader(known: &Known<'_>) -> Result<Prediction, NoModel> {
    let latency = earlier(LATENCY, &Params::none(), known)?;
    let value = LINE_BYTES * 1e9 / latency;
    let formula = format!("≥ 64 B ÷ {LATENCY}");
    let source = "Little's law: under way = rate × time, and a stream has one line under way at \
                  least; how many a core keeps at most no source tells";
    let claim = Prediction::at_least(value, &formula, source);
    let claim = claim.with_result(LATENCY, latency, Unit::Nanoseconds);
    Ok(claim.if_below("the reader waits for each line: a quota, or one of the two was spoilt"))
}

fn of_all_readers(kind: Kind, host: &Host, known: &Known<'_>) -> Result<Prediction, NoModel> {
    let modules = &host.memory.modules;
    let rates: Vec<f64> = modules.iter().filter_map(|module| module.transfers_per_s).collect();
    if !rates.is_empty() && rates.len() == modules.len() {
        let peak = TRANSFER_BYTES * rates.iter().sum::<f64>();
        let claim = Prediction::at_most(
            peak,
            "≤ modules × transfers/s × 8 B",
            "JEDEC: a channel is 64 bits wide; two modules on one channel share it",
        );
        let claim = claim.with_quantity(
            "modules' peak",
            peak,
            Unit::BytesPerSecond,
            Origin::host(host, "memory.modules"),
        );
        return Ok(claim.if_above("a cache served a part of the bytes"));
    }
    let one = Kind { threads: 1, ..kind };
    let limit = rate(one, known)?;
    let name = format!("{}{}", ABOUT.id, one.params());
    let claim = Prediction::at_least(
        0.9 * limit,
        &format!("≥ 0.9 × {name}"),
        "more cores keep more lines under way; what they lose to each other in the memory's banks \
         is less than a tenth of one's",
    );
    let claim = claim.with_result(&name, limit, Unit::BytesPerSecond);
    Ok(claim.if_below("the cores hinder each other: they may be threads of one core, or a quota"))
}

fn of_cache(kind: Kind, host: &Host, known: &Known<'_>) -> Result<Prediction, NoModel> {
    let one = Kind { threads: 1, ..kind };
    if kind.threads > 1 {
        return of_private_caches(kind, one, known);
    }
    match (kind.op, kind.level) {
        (Op::Read, Level::Cache(1)) => {
            let (peak, row, per_cycle) = published("l1_read_bytes_per_cycle", host, known)?;
            let sum = Prediction::sum(peak, 0.0, 0.2, FORMULA, &per_cycle.source);
            let sum = Prediction { software: None, ..sum };
            let meaning = "the core runs at another frequency, or loads that are not aligned";
            Ok(inputs(sum, peak, row, per_cycle).otherwise(meaning))
        }
        (Op::Read, Level::Cache(2)) => {
            let (peak, row, per_cycle) = published("l2_read_bytes_per_cycle", host, known)?;
            let formula = format!("≤ {FORMULA}");
            let claim = Prediction::at_most(peak, &formula, &per_cycle.source);
            let meaning = "a part of the set stays in the first level";
            Ok(inputs(claim, peak, row, per_cycle).if_above(meaning))
        }
        (Op::Read, _) => {
            let source = "a level is no faster than the one before it, through which it is read";
            let meaning = "a part of the set stays in the second level";
            at_most(1.0, Kind { level: Level::Cache(2), ..kind }, source, meaning, known)
        }
        (Op::Copy, _) => {
            let source = "half of what a copy counts is stored, as fast as a write at best";
            at_most(2.0, Kind { op: Op::Write, ..kind }, source, "the two results differ", known)
        }
        _ => {
            let source = "no core stores more bytes a cycle than it loads";
            at_most(1.0, Kind { op: Op::Read, ..kind }, source, "the two results differ", known)
        }
    }
}

const FORMULA: &str = "published bytes a cycle × cpu.frequency";

/// Threads on cores of their own: each has its first two levels to itself.
fn of_private_caches(kind: Kind, one: Kind, known: &Known<'_>) -> Result<Prediction, NoModel> {
    let threads = kind.threads as f64;
    if kind.level == Level::Cache(3) {
        let source = "a shared cache serves several cores no faster than each alone";
        return at_most(threads, one, source, "the one thread was disturbed", known);
    }
    let alone = rate(one, known)?;
    let name = format!("{}{}", ABOUT.id, one.params());
    let source = "each core has its first two levels to itself";
    let sum = Prediction::sum(threads * alone, 0.0, 0.2, &format!("threads × {name}"), source);
    let sum = Prediction { hardware: None, software: None, ..sum };
    Ok(sum
        .with_input("threads", threads, Origin::Case)
        .with_result(&name, alone, Unit::BytesPerSecond)
        .if_above("the one thread was disturbed, or ran at a lower frequency")
        .if_below("the cores are threads of one core, or slow each other: frequency, quota"))
}

/// The claim that this case gives at most so many times another.
fn at_most(
    times: f64,
    other: Kind,
    source: &str,
    meaning: &str,
    known: &Known<'_>,
) -> Result<Prediction, NoModel> {
    let limit = rate(other, known)?;
    let name = format!("{}{}", ABOUT.id, other.params());
    let formula =
        if times == 1.0 { format!("≤ {name}") } else { format!("≤ {times} × {name}") };
    let claim = Prediction::at_most(times * limit, &formula, source).with_result(
        &name,
        limit,
        Unit::BytesPerSecond,
    );
    Ok(claim.if_above(meaning))
}

fn rate(kind: Kind, known: &Known<'_>) -> Result<f64, NoModel> {
    earlier(ABOUT.id, &kind.params(), known)
}

/// A published number of bytes a cycle at the measured frequency.
fn published(
    name: &str,
    host: &Host,
    known: &Known<'_>,
) -> Result<(f64, &'static Row, &'static Constant), NoModel> {
    let row = uarch::row_for(host)?;
    let per_cycle = row.sourced(name)?;
    let hz = earlier("cpu.frequency", &Params::none(), known)?;
    Ok((per_cycle.value * hz, row, per_cycle))
}

fn inputs(prediction: Prediction, peak: f64, row: &Row, per_cycle: &Constant) -> Prediction {
    let hz = peak / per_cycle.value;
    prediction.with_input("bytes a cycle", per_cycle.value, row.origin()).with_result(
        "cpu.frequency",
        hz,
        Unit::Hertz,
    )
}
