//! Models of file reads and writes, from system call costs and memory bandwidth of the same run.

use fathom_fileio::read::{BLOCK, Way};

use super::state::FileState;
use crate::memory::bandwidth;
use crate::memory::latency::cases::known_caches;
use crate::memory::latency::model::Level;
use crate::prelude::*;

/// Queue depth of io_uring.
const DEPTH: u32 = 16;
pub(super) const THROUGHPUT: &str = "file.read.throughput";
/// Bytes and blocks of a pass past the page cache.
pub(super) const PASS_BYTES: i64 = 16 << 20;
pub(super) const DIRECT_BLOCK: i64 = 1 << 20;
const BANDWIDTH: &str = "memory.bandwidth";
const SYSCALL: &str = "os.syscall";
/// Includes the page cache lookup, unlike a call on a device such as /dev/zero.
const CALL: &str = "file.call";
/// Page cache folios vary in size and physical address, unlike the buffers of memory.bandwidth.
const TOLERANCE: f64 = 0.3;

/// One read of a cached block: the call for one byte of a file, and the copy of the block, which
/// is found in one of these levels.
pub(super) fn block_read(
    (call, bytes): (&Params, f64),
    levels: &[Level],
    tolerance: f64,
    known: &Inputs<'_>,
) -> Model {
    let call_ns = earlier(CALL, call, known)?;
    let (name, rate) = bandwidth::read_rate(levels, known)?;
    let copy_ns = bytes / rate * 1e9;
    let call_name = format!("{CALL}{call}");
    let formula = format!("{call_name} + block ÷ {name}");
    let source = "Linux mm/filemap.c: filemap_read finds the page and copies from it; the buffer \
                  is cached, so that the copy takes as long as its loads";
    Ok(Prediction::sum(copy_ns, call_ns, tolerance, &formula, source)
        .with_result(&call_name, call_ns, Unit::Nanoseconds)
        .with_part(call_ns)
        .with_quantity("block", bytes, Unit::Bytes, Origin::Case)
        .with_result(&name, rate, Unit::BytesPerSecond)
        .with_part(copy_ns)
        .if_above("kernel overhead per page, or the data is further away")
        .if_below("the data is nearer, or the kernel copies faster than a loop of loads reads"))
}

/// The parameters of a read case.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ReadCase {
    pub(super) block: usize,
    pub(super) state: Option<FileState>,
    pub(super) threads: usize,
    pub(super) way: Option<Way>,
    pub(super) bytes: u64,
}

impl ReadCase {
    pub(super) fn from_params(params: &Params) -> Option<Self> {
        let number = |name: &str| params.number::<usize>(name).filter(|it| *it > 0);
        Some(Self {
            block: number("block")?,
            state: FileState::named(params.text("state")?),
            threads: number("threads")?,
            way: way_named(params.text("way")?),
            bytes: number("file_bytes")? as u64,
        })
    }
}

/// The value of the parameter `way` and of the option `--way`.
pub(crate) fn way_name(way: Way) -> &'static str {
    match way {
        Way::Pread => "pread",
        Way::Map => "mmap",
        Way::Direct => "direct",
        Way::Ring { .. } => "ring",
        Way::Calls { .. } => "read",
    }
}

fn way_named(name: &str) -> Option<Way> {
    let ring = Way::Ring { depth: DEPTH };
    let ways = [Way::Calls { count: None }, Way::Pread, Way::Map, Way::Direct, ring];
    ways.into_iter().find(|way| way_name(*way) == name)
}

/// Predicts a case of file.read.throughput.
pub(super) fn read(kind: ReadCase, params: &Params, host: &Host, known: &Inputs<'_>) -> Model {
    // More threads than CPUs copy no faster, and no bandwidth of theirs is ever measured.
    let cpus = Some(host.cpu.allowed.len()).filter(|cpus| *cpus > 0);
    let kind = ReadCase { threads: kind.threads.min(cpus.unwrap_or(usize::MAX)), ..kind };
    match (kind.state, kind.way) {
        (Some(FileState::Warm), Some(Way::Calls { .. } | Way::Pread)) => copied(kind, host, known),
        (Some(FileState::Warm), Some(Way::Map)) => mapped(kind, known),
        (Some(FileState::Cold), _) => {
            fetched(params, kind, known).or_else(|_| at_most_warm(params, kind, host, known))
        }
        (Some(FileState::Direct), _) => Err(NoModel::SpeedOfDevice),
        _ => Err(NoModel::MixedResidency),
    }
}

/// A memory bandwidth with its name: on huge pages if measured, else on 4K pages.
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
    let metric = format!("{BANDWIDTH}{{op={op},threads={threads},level={level}}}");
    of("huge").or_else(|| of("4K")).ok_or(NoModel::MissingInput { metric })
}

/// The cache level that holds the buffer between copy and checksum.
fn level_of_buffer(kind: ReadCase, host: &Host) -> Result<&'static str, NoModel> {
    let caches = known_caches(host)?;
    let second = caches.iter().find(|cache| cache.level == 2).map_or(0, |cache| cache.size_bytes);
    // Sequential calls fill a buffer of several blocks before it is summed.
    let buffer = match kind.way {
        Some(Way::Calls { .. }) => kind.block.max(BLOCK),
        _ => kind.block,
    };
    // The copied pages need space in the cache too.
    Ok(if buffer as u64 * 2 <= second { "l2" } else { "l3" })
}

/// A warm file, read by calls.
fn copied(kind: ReadCase, host: &Host, known: &Inputs<'_>) -> Model {
    let ReadCase { block, threads, bytes, .. } = kind;
    let call = Params::one("call", "read1");
    let call_ns = earlier(CALL, &call, known)?;
    let (copy_name, copy) = rate("copy", threads, "dram", known)?;
    let (sum_name, sum) = rate("read", 1, level_of_buffer(kind, host)?, known)?;
    let (size, each) = (bytes as f64, threads as f64);
    let calls = (size / block as f64).ceil();
    let calls_s = calls * call_ns / each / 1e9;
    let (read_name, read) = rate("read", threads, "dram", known)?;
    // The buffer is written to memory, as by a copy; or it stays cached, and only loads take time.
    let sum_s = size / (each * sum);
    let [written_s, cached_s] = [2.0 * size / copy, size / read].map(|moved| moved + sum_s);
    let moves_s = (written_s + cached_s) / 2.0;
    let apart = (written_s - cached_s).abs() / 2.0 / (calls_s + moves_s);
    let formula = format!(
        "bytes ÷ (calls × {CALL}{call} ÷ threads + (2 × bytes ÷ {copy_name} + bytes ÷ \
         {read_name}) ÷ 2 + bytes ÷ (threads × {sum_name}))"
    );
    let source = "Linux mm/filemap.c: filemap_read copies from the page cache to a buffer that is \
                  written to memory (the copy bandwidth counts bytes read and written) or stays \
                  in a CPU cache: half of each; then the block is summed from the CPU cache";
    let whole = size / (calls_s + moves_s);
    let tolerance = apart.clamp(0.2, TOLERANCE);
    // The time has two parts, but the rate does not.
    let claim = Prediction::sum(whole, 0.0, tolerance, &formula, source);
    let call_name = format!("{CALL}{call}");
    Ok(claim
        .without_parts()
        .with_quantity("bytes", size, Unit::Bytes, Origin::Case)
        .with_input("calls", calls, Origin::calculated("bytes ÷ block"))
        .with_input("threads", each, Origin::calculated("threads, at most one for each CPU"))
        .with_result(&call_name, call_ns, Unit::Nanoseconds)
        .with_result(&copy_name, copy, Unit::BytesPerSecond)
        .with_result(&read_name, read, Unit::BytesPerSecond)
        .with_result(&sum_name, sum, Unit::BytesPerSecond)
        .if_above("part of the file stays in the last-level cache between passes")
        .if_below(
            "kernel overhead per page: hardened user copies, file system checks per read, memory \
             of another NUMA node; or threads share a CPU",
        ))
}

/// A warm file, mapped.
fn mapped(kind: ReadCase, known: &Inputs<'_>) -> Model {
    let (name, limit) = rate("read", kind.threads, "dram", known)?;
    let source = "no copy: the pages are mapped and read like other memory";
    let meaning = "part of the file stays in a CPU cache between passes";
    Ok(at_most((&name, limit), Unit::BytesPerSecond, (source, meaning)))
}

/// The rate of the device past the page cache, under its name.
pub(super) fn of_device(known: &Inputs<'_>) -> Result<(String, f64), NoModel> {
    let params = Params::one("block", DIRECT_BLOCK).and("state", "direct").and("threads", 1);
    let params = params.and("way", "direct").and("file_bytes", PASS_BYTES);
    let rate = earlier(THROUGHPUT, &params, known)?;
    Ok((format!("{THROUGHPUT}{params}"), rate))
}

/// A cold file: each byte comes from the device, and is then read like a cached one. A bracket:
/// with deep readahead the device may be faster than one direct read after the other.
fn fetched(params: &Params, kind: ReadCase, known: &Inputs<'_>) -> Model {
    let warm = params.clone().and("state", "warm");
    let (device_name, device) = of_device(known)?;
    let (warm_name, cached) = (format!("{THROUGHPUT}{warm}"), earlier(THROUGHPUT, &warm, known)?);
    let size = kind.bytes as f64;
    let formula = format!("bytes ÷ (bytes ÷ {device_name} + bytes ÷ {warm_name})");
    let source = "Linux mm/filemap.c and mm/readahead.c: the device reads ahead, into the page \
                  cache, from which the data is copied";
    let rate = 1.0 / (1.0 / device + 1.0 / cached);
    let bracket = Prediction::at_least(
        (1.0 - TOLERANCE) * rate,
        &format!("≥ {} × {formula}, ≤ {warm_name}", 1.0 - TOLERANCE),
        source,
    );
    Ok(Prediction { high: Some(cached), ..bracket }
        .with_quantity("bytes", size, Unit::Bytes, Origin::Case)
        .with_result(&device_name, device, Unit::BytesPerSecond)
        .with_result(&warm_name, cached, Unit::BytesPerSecond)
        .if_above("part of the file was cached, or one of the two was disturbed")
        .if_below("readahead does not keep the device busy"))
}

/// A cold file: bounded by the warm read, measured or modelled.
fn at_most_warm(params: &Params, kind: ReadCase, host: &Host, known: &Inputs<'_>) -> Model {
    let warm = params.clone().and("state", "warm");
    let source = "data from a device is stored in the page cache and copied from there";
    let meaning = "part of the file was cached, or one of the two was disturbed";
    match known.quantity(THROUGHPUT, &warm) {
        Some(limit) => {
            let name = format!("{THROUGHPUT}{warm}");
            Ok(at_most((&name, limit), Unit::BytesPerSecond, (source, meaning)))
        }
        None => {
            let claim = copied(ReadCase { state: Some(FileState::Warm), ..kind }, host, known)?;
            let high = claim.value;
            let formula = format!("≤ {}", claim.formula);
            let claim = Prediction { value: None, low: None, high, formula, ..claim };
            Ok(Prediction { source: source.to_owned(), ..claim }.if_above(meaning).if_below(""))
        }
    }
}

/// The bound of a write: its system calls plus the stores to memory.
pub(super) fn write(block: usize, bytes: u64, known: &Inputs<'_>) -> Model {
    let call = Params::one("call", "write1");
    let call_name = format!("{SYSCALL}{call}");
    let call_ns = earlier(SYSCALL, &call, known)?;
    let (store_name, store) = bandwidth::store_rate(known)?;
    let size = bytes as f64;
    let calls = (size / block as f64).ceil();
    let most = size / (calls * call_ns / 1e9 + size / store);
    let formula = format!("≤ bytes ÷ (calls × {call_name} + bytes ÷ {store_name})");
    let source = "Linux mm/filemap.c: generic_perform_write copies to the page cache, by stores \
                  to memory; page allocation, accounting and sync come on top, without a \
                  published cost";
    Ok(Prediction::at_most(most, &formula, source)
        .with_quantity("bytes", size, Unit::Bytes, Origin::Case)
        .with_input("calls", calls, Origin::calculated("bytes ÷ block"))
        .with_result(&call_name, call_ns, Unit::Nanoseconds)
        .with_result(&store_name, store, Unit::BytesPerSecond)
        .if_above("the written pages stay in a CPU cache"))
}
