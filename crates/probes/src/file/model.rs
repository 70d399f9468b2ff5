//! What reading and writing a file should give, from what calls and memory gave in the same run.

use fathom_fileio::read::{BLOCK, Way};
use fathom_record::{Host, NoModel, Origin, Params, Prediction, Unit};

use super::state::State;
use crate::memory::bandwidth;
use fathom_metric::Inputs;
use fathom_metric::order::earlier;

/// Reads of a ring that are under way at once.
const DEPTH: u32 = 16;
/// What is predicted.
const THROUGHPUT: &str = "file.read.throughput";
const BANDWIDTH: &str = "memory.bandwidth";
const SYSCALL: &str = "os.syscall";
/// Finds the place in the file, which a call on no file does not.
const CALL: &str = "file.call";
/// Pages of the page cache lie anywhere, and are of any size: one in three ways off at most.
const TOLERANCE: f64 = 0.3;

/// A case in words that are understood.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Kind {
    pub(super) block: usize,
    pub(super) state: Option<State>,
    pub(super) threads: usize,
    pub(super) way: Option<Way>,
    pub(super) bytes: u64,
}

impl Kind {
    pub(super) fn of(params: &Params) -> Option<Self> {
        let number = |name: &str| usize::try_from(params.integer(name)?).ok().filter(|it| *it > 0);
        Some(Self {
            block: number("block")?,
            state: State::named(params.text("state")?),
            threads: number("threads")?,
            way: way_named(params.text("way")?),
            bytes: number("file_bytes")? as u64,
        })
    }
}

fn way_named(name: &str) -> Option<Way> {
    Some(match name {
        "read" => Way::Calls { count: None },
        "pread" => Way::Pread,
        "mmap" => Way::Map,
        "direct" => Way::Direct,
        "ring" => Way::Ring { depth: DEPTH },
        _ => return None,
    })
}

/// What a case of file.read.throughput should give.
pub(super) fn read(
    kind: Kind,
    params: &Params,
    host: &Host,
    known: &Inputs<'_>,
) -> Result<Prediction, NoModel> {
    match (kind.state, kind.way) {
        (Some(State::Warm), Some(Way::Calls { .. } | Way::Pread)) => copied(kind, host, known),
        (Some(State::Warm), Some(Way::Map)) => mapped(kind, known),
        (Some(State::Cold), _) => at_most_warm(params, kind, host, known),
        // A throttle of the control group is to stand here, where there is one: it is what the
        // device then gives.
        (Some(State::Direct), _) => Err(NoModel::SpeedOfDevice),
        _ => Err(NoModel::MixedResidency),
    }
}

/// A rate of memory, on the pages that were measured.
fn rate(
    op: &str,
    threads: usize,
    level: &str,
    known: &Inputs<'_>,
) -> Result<(String, f64), NoModel> {
    let params = |page| {
        let params = Params::one("op", op).and("threads", threads as i64);
        params.and("level", level).and("page", page)
    };
    let of = |page| {
        let params = params(page);
        let rate = known.quantity(BANDWIDTH, &params)?;
        Some((format!("{BANDWIDTH}{params}"), rate))
    };
    let wanted = format!("{BANDWIDTH}{{op={op},threads={threads},level={level}}}");
    of("huge").or_else(|| of("4K")).ok_or(NoModel::MissingInput { metric: wanted })
}

/// The level of cache that holds the buffer between the copy and the sum.
fn level_of_buffer(kind: Kind, host: &Host) -> &'static str {
    let mut caches = host.cpu.caches.iter().filter(|cache| cache.kind != "instruction");
    let second = caches.find(|cache| cache.level == 2).map_or(0, |cache| cache.size_bytes);
    // One call after another fills a buffer of many blocks before it is summed.
    let buffer = match kind.way {
        Some(Way::Calls { .. }) => kind.block.max(BLOCK),
        _ => kind.block,
    };
    // A buffer as large as the cache shares it with the pages that are copied.
    if buffer as u64 * 2 <= second { "l2" } else { "l3" }
}

/// A file in memory, read by calls.
fn copied(kind: Kind, host: &Host, known: &Inputs<'_>) -> Result<Prediction, NoModel> {
    let Kind { block, threads, bytes, .. } = kind;
    let call = Params::one("call", "read1");
    let call_ns = earlier(CALL, &call, known)?;
    let (copy_name, copy) = rate("copy", threads, "dram", known)?;
    let (sum_name, sum) = rate("read", 1, level_of_buffer(kind, host), known)?;
    let (size, each) = (bytes as f64, threads as f64);
    let calls = (size / block as f64).ceil();
    let calls_s = calls * call_ns / each / 1e9;
    let moves_s = 2.0 * size / copy + size / (each * sum);
    let formula = format!(
        "bytes ÷ (calls × {CALL}{call} ÷ threads + 2 × bytes ÷ {copy_name} + bytes ÷ \
         (threads × {sum_name}))"
    );
    let source = "Linux mm/filemap.c: filemap_read copies from the page cache; the rate of a copy \
                  counts what is read and what is written; then the block is summed in the cache";
    let claim = Prediction::sum(size / (calls_s + moves_s), 0.0, TOLERANCE, &formula, source);
    let claim = Prediction { hardware: None, software: None, ..claim };
    let call_name = format!("{CALL}{call}");
    Ok(claim
        .with_quantity("bytes", size, Unit::Bytes, Origin::Case)
        .with_input("calls", calls, Origin::calculated("bytes ÷ block"))
        .with_input("threads", each, Origin::Case)
        .with_result(&call_name, call_ns, Unit::Nanoseconds)
        .with_result(&copy_name, copy, Unit::BytesPerSecond)
        .with_result(&sum_name, sum, Unit::BytesPerSecond)
        .if_above(
            "the file, or a part of it, stays in the last-level cache from one pass to the next, \
             or the copy's target stays in a cache, which spares what a store to memory costs",
        )
        .if_below(
            "the kernel does more for a page than to copy it: guards on copies to user space, a \
             file system that looks at each read, memory of another node; or threads that share \
             a CPU",
        ))
}

/// A claim that is no more than another result of the run.
fn at_most(
    (name, limit): (String, f64),
    source: &str,
    meaning: &str,
) -> Result<Prediction, NoModel> {
    let claim = Prediction::at_most(limit, &format!("≤ {name}"), source);
    let claim = claim.with_result(&name, limit, Unit::BytesPerSecond);
    Ok(claim.if_above(meaning))
}

/// A file in memory, read where it lies.
fn mapped(kind: Kind, known: &Inputs<'_>) -> Result<Prediction, NoModel> {
    let limit = rate("read", kind.threads, "dram", known)?;
    let source = "nothing is copied; the pages are mapped, and then read as any memory is";
    at_most(limit, source, "a part of the file stays in a cache from one pass to the next")
}

/// A file that is on a device alone: it comes to memory before it is copied from there.
fn at_most_warm(
    params: &Params,
    kind: Kind,
    host: &Host,
    known: &Inputs<'_>,
) -> Result<Prediction, NoModel> {
    let mut warm = params.clone();
    warm.0.insert("state".to_owned(), "warm".into());
    let source = "what comes from a device is put into memory, and then copied as from there";
    let meaning = "the file was in memory in part, or one of the two was disturbed";
    match known.quantity(THROUGHPUT, &warm) {
        Some(limit) => at_most((format!("{}{warm}", THROUGHPUT), limit), source, meaning),
        None => {
            let claim = copied(Kind { state: Some(State::Warm), ..kind }, host, known)?;
            let high = claim.value;
            let formula = format!("≤ {}", claim.formula);
            let claim = Prediction { value: None, low: None, high, formula, ..claim };
            Ok(Prediction { source: source.to_owned(), ..claim }.if_above(meaning).if_below(""))
        }
    }
}

/// What writing should give: no more than its calls and the stores to memory leave.
pub(super) fn write(block: usize, bytes: u64, known: &Inputs<'_>) -> Result<Prediction, NoModel> {
    let call = Params::one("call", "write1");
    let call_name = format!("{SYSCALL}{call}");
    let call_ns = earlier(SYSCALL, &call, known)?;
    let (store_name, store) = bandwidth::store_rate(known)?;
    let size = bytes as f64;
    let calls = (size / block as f64).ceil();
    let most = size / (calls * call_ns / 1e9 + size / store);
    let formula = format!("≤ bytes ÷ (calls × {call_name} + bytes ÷ {store_name})");
    let source = "Linux mm/filemap.c: generic_perform_write copies to the page cache, by stores \
                  to memory; what it takes to find and to account for a page, and what a sync \
                  takes, comes on top, and no source tells it";
    Ok(Prediction::at_most(most, &formula, source)
        .with_quantity("bytes", size, Unit::Bytes, Origin::Case)
        .with_input("calls", calls, Origin::calculated("bytes ÷ block"))
        .with_result(&call_name, call_ns, Unit::Nanoseconds)
        .with_result(&store_name, store, Unit::BytesPerSecond)
        .if_above("the pages that are written stay in a cache that stores faster than memory"))
}
