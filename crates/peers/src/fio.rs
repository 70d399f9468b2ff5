//! fio: a file read from memory and past it, in blocks and in random ones, and written.

use fathom_record::{Params, PeerStatistic, Unit};
use serde_json::Value;

use crate::Peer;
use crate::process::{Invocation, Output};
use crate::row::{Machine, Place, Reading, ReadingError, Row};
use crate::text::{first, without};

/// fio.
pub(crate) struct Fio;

/// Fresh files are written so often: as often as ours in one process, since the pages of one that
/// was removed are those of the next, and hot.
const WRITES: u64 = 13;

impl Peer for Fio {
    fn name(&self) -> &'static str {
        "fio"
    }

    fn rows(&self, _: &Machine) -> Vec<Row> {
        vec![warm_blocks(), direct_blocks(), warm_random(), direct_random(), fresh_write()]
    }
}

/// fio with a job: its threads stay in its process, and its buffer begins at a page as ours does.
/// By default it begins 16 bytes behind one, which halves the speed of a copy on some cores.
fn job(words: &[&str], file: String) -> Invocation {
    let usual = [
        "--name=crosscheck",
        "--thread",
        "--iomem_align=4k",
        "--output-format=json",
        "--invalidate=0",
    ];
    let words = usual.iter().chain(words).map(|word| (*word).to_owned());
    Invocation::new("fio", words.chain([file]))
}

fn reading(words: &'static [&'static str]) -> crate::row::Commands {
    Box::new(move |place: &Place| {
        let file = format!("--filename={}", place.data.display());
        let words = [&["--readonly", "--size=64M"], words].concat();
        vec![job(&words, file)]
    })
}

fn row(
    (metric, params, unit): (&'static str, Params, Unit),
    (work, difference): (&'static str, &'static str),
    commands: crate::row::Commands,
    parse: crate::row::Parse,
) -> Row {
    Row { metric, params, unit, work, difference, reads_data: true, ..Row::usual(commands, parse) }
}

fn blocks(state: &str, way: &str) -> (&'static str, Params, Unit) {
    let params = Params::one("block", 1 << 20).and("file_bytes", 16 << 20);
    let params = params.and("state", state).and("threads", 1).and("way", way);
    ("file.read.throughput", params, Unit::BytesPerSecond)
}

fn random(state: &str) -> (&'static str, Params, Unit) {
    let params = Params::one("file_bytes", 64 << 20).and("order", "random");
    ("file.read.latency", params.and("state", state), Unit::Nanoseconds)
}

fn warm_blocks() -> Row {
    row(
        blocks("warm", "read"),
        (
            "read, 1 MiB",
            "ours also sums what it reads; of fio the median call, of ours a pass of 16 calls",
        ),
        reading(&["--rw=read", "--bs=1M", "--ioengine=sync", "--loops=12"]),
        Box::new(|outputs| Reading::of(f64::from(1 << 20) * 1e9 / median_call(outputs, "read")?)),
    )
}

fn direct_blocks() -> Row {
    let row = row(
        blocks("direct", "direct"),
        (
            "read, 1 MiB, O_DIRECT",
            "ours also sums what it reads; of fio the mean call, of ours the median pass of 16",
        ),
        reading(&["--rw=read", "--bs=1M", "--ioengine=sync", "--direct=1", "--loops=6"]),
        Box::new(|outputs| Reading::of(f64::from(1 << 20) * 1e9 / mean_call(outputs, "read")?)),
    );
    Row { tells: PeerStatistic::Mean, seconds: 2.0, ..row }
}

fn warm_random() -> Row {
    row(
        random("warm"),
        (
            "randread, 4 KiB",
            "both read by pread and look at nothing; fio reads the clock twice for each call, \
             which is in its median",
        ),
        reading(&[
            "--rw=randread",
            "--bs=4k",
            "--ioengine=psync",
            "--norandommap",
            "--number_ios=100000",
        ]),
        Box::new(|outputs| Reading::of(median_call(outputs, "read")?)),
    )
}

fn direct_random() -> Row {
    let row = row(
        random("direct"),
        (
            "randread, 4 KiB, O_DIRECT",
            "both wait for each block; of fio the mean call, of ours the median pass of 64",
        ),
        reading(&[
            "--rw=randread",
            "--bs=4k",
            "--ioengine=psync",
            "--direct=1",
            "--norandommap",
            "--number_ios=3000",
        ]),
        Box::new(|outputs| Reading::of(mean_call(outputs, "read")?)),
    );
    Row { tells: PeerStatistic::Mean, ..row }
}

fn fresh_write() -> Row {
    let params = Params::one("block", 64 << 10).and("file_bytes", 16 << 20).and("sync", "none");
    let commands = |place: &Place| {
        let loops = format!("--loops={WRITES}");
        let words = [
            "--rw=write",
            "--bs=64k",
            "--size=16M",
            "--ioengine=sync",
            "--fallocate=none",
            "--create_on_open=1",
            "--unlink=1",
            "--unlink_each_loop=1",
            &loops,
        ];
        vec![job(&words, format!("--filename={}", place.own.display()))]
    };
    let row = row(
        ("file.write.throughput", params, Unit::BytesPerSecond),
        (
            "write, 64 KiB, 16 MiB in all",
            "both write fresh files and sync nothing; of fio the median call, of ours the median \
             file with its close",
        ),
        Box::new(commands),
        Box::new(|outputs| Reading::of(f64::from(64 << 10) * 1e9 / median_call(outputs, "write")?)),
    );
    Row { reads_data: false, written: (5 * 13 + WRITES) * (16 << 20), seconds: 2.0, ..row }
}

/// The completion times of one direction of the one job.
fn calls(outputs: &[Output], direction: &str) -> Result<Value, ReadingError> {
    let output = first(outputs);
    let json = output.out.find('{').map(|at| &output.out[at..]);
    let whole = json.and_then(|json| serde_json::from_str::<Value>(json).ok());
    let whole = whole.ok_or_else(|| without("JSON", output))?;
    let job = &whole["jobs"][0];
    match job["error"].as_i64() {
        Some(0) => Ok(job[direction]["clat_ns"].clone()),
        Some(error) => Err(ReadingError::Failed(format!("job error {error}"))),
        None => Err(without("job", output)),
    }
}

fn mean_call(outputs: &[Output], direction: &str) -> Result<f64, ReadingError> {
    let calls = calls(outputs, direction)?;
    calls["mean"].as_f64().ok_or_else(|| without("`clat_ns.mean`", first(outputs)))
}

fn median_call(outputs: &[Output], direction: &str) -> Result<f64, ReadingError> {
    let calls = calls(outputs, direction)?;
    let median = calls["percentile"]["50.000000"].as_f64();
    median.ok_or_else(|| without("`clat_ns.percentile`", first(outputs)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = include_str!("../tests/outputs/fio-3.33-read.json");

    #[test]
    fn mean_and_median_call_are_read_as_fio_3_33_prints_them() {
        let outputs = [Output::printed(&format!("fio: a warning\n{TEXT}"))];
        assert_eq!(median_call(&outputs, "read"), Ok(181_248.0));
        assert_eq!(mean_call(&outputs, "read"), Ok(281_385.876_953));
        let row = warm_blocks();
        let reading = (row.parse)(&outputs).unwrap();
        assert!((reading.value / 5.78531e9 - 1.0).abs() < 1e-4, "{reading:?}");
    }

    #[test]
    fn a_job_that_failed_or_did_nothing_has_no_number() {
        let failed = [Output::printed(&TEXT.replace("\"error\" : 0", "\"error\" : 28"))];
        let error = ReadingError::Failed("job error 28".to_owned());
        assert_eq!(mean_call(&failed, "read"), Err(error));
        let idle = [Output::printed(TEXT)];
        assert!(mean_call(&idle, "write").is_ok_and(|ns| Reading::of(ns).is_err()));
        assert!(mean_call(&[Output::printed("{\"jobs\": []}")], "read").is_err());
    }
}
