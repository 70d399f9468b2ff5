//! fio: sequential and random reads through the page cache and by O_DIRECT, and writes.

use crate::prelude::*;

pub(crate) struct Fio;

/// Files written: as many as Fathom writes in one process, since each reuses the cached pages of
/// the one removed before it.
const WRITES: u64 = 13;

impl Peer for Fio {
    fn name(&self) -> &'static str {
        "fio"
    }

    fn rows(&self, _: &PeerMachine) -> Vec<Row> {
        vec![warm_blocks(), direct_blocks(), warm_random(), direct_random(), fresh_write()]
    }
}

/// fio with a job as a thread of its process. Its buffer is page-aligned like Fathom's: the
/// default, 16 bytes after a page boundary, halves the copy rate on some cores.
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

fn reading(words: &'static [&'static str]) -> Commands {
    Box::new(move |place: &PeerPlace| {
        let file = format!("--filename={}", place.data.display());
        let words = [&["--readonly", "--size=64M"], words].concat();
        vec![job(&words, file)]
    })
}

fn row(
    (metric, params, unit): (&'static str, Params, Unit),
    (work, difference): (&'static str, &'static str),
    commands: Commands,
    parse: Parse,
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
            "Fathom also computes checksums; fio reports the median call, Fathom the median pass \
             of 16 calls",
        ),
        reading(&["--rw=read", "--bs=1M", "--ioengine=sync", "--loops=12"]),
        Box::new(|outputs| {
            PeerReading::from_value(f64::from(1 << 20) * 1e9 / median_call(outputs, "read")?)
        }),
    )
}

fn direct_blocks() -> Row {
    let row = row(
        blocks("direct", "direct"),
        (
            "read, 1 MiB, O_DIRECT",
            "Fathom also computes checksums; fio reports the mean call, Fathom the median pass of \
             16 calls",
        ),
        reading(&["--rw=read", "--bs=1M", "--ioengine=sync", "--direct=1", "--loops=6"]),
        Box::new(|outputs| {
            PeerReading::from_value(f64::from(1 << 20) * 1e9 / mean_call(outputs, "read")?)
        }),
    );
    Row { statistic: PeerStatistic::Mean, seconds: 2.0, ..row }
}

fn warm_random() -> Row {
    row(
        random("warm"),
        (
            "randread, 4 KiB",
            "both call pread without looking at the data; fio's median includes two clock reads \
             for each call",
        ),
        reading(&[
            "--rw=randread",
            "--bs=4k",
            "--ioengine=psync",
            "--norandommap",
            "--number_ios=100000",
        ]),
        Box::new(|outputs| PeerReading::from_value(median_call(outputs, "read")?)),
    )
}

fn direct_random() -> Row {
    let row = row(
        random("direct"),
        (
            "randread, 4 KiB, O_DIRECT",
            "queue depth 1 on both sides; fio reports the mean call, Fathom the median pass of 64",
        ),
        reading(&[
            "--rw=randread",
            "--bs=4k",
            "--ioengine=psync",
            "--direct=1",
            "--norandommap",
            "--number_ios=3000",
        ]),
        Box::new(|outputs| PeerReading::from_value(mean_call(outputs, "read")?)),
    );
    Row { statistic: PeerStatistic::Mean, ..row }
}

fn fresh_write() -> Row {
    let params = Params::one("block", 64 << 10).and("file_bytes", 16 << 20).and("sync", "none");
    let commands = |place: &PeerPlace| {
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
            "both write new files without sync; fio reports the median call, Fathom the median \
             file including close",
        ),
        Box::new(commands),
        Box::new(|outputs| {
            PeerReading::from_value(f64::from(64 << 10) * 1e9 / median_call(outputs, "write")?)
        }),
    );
    Row { reads_data: false, written: (5 * 13 + WRITES) * (16 << 20), seconds: 2.0, ..row }
}

/// The completion latencies of one direction of the job.
fn latencies(outputs: &[Output], direction: &str) -> Result<Value, RunError> {
    let output = &outputs[0];
    let json = output.out.find('{').map(|at| &output.out[at..]);
    let whole = json.and_then(|json| serde_json::from_str::<Value>(json).ok());
    let whole = whole.ok_or_else(|| missing("JSON", output))?;
    let job = &whole["jobs"][0];
    match job["error"].as_i64() {
        Some(0) => Ok(job[direction]["clat_ns"].clone()),
        Some(error) => Err(RunError::Failed(format!("job error {error}"))),
        None => Err(missing("job", output)),
    }
}

fn mean_call(outputs: &[Output], direction: &str) -> Result<f64, RunError> {
    let mean = latencies(outputs, direction)?["mean"].as_f64();
    mean.ok_or_else(|| missing("`clat_ns.mean`", &outputs[0]))
}

fn median_call(outputs: &[Output], direction: &str) -> Result<f64, RunError> {
    let median = latencies(outputs, direction)?["percentile"]["50.000000"].as_f64();
    median.ok_or_else(|| missing("`clat_ns.percentile`", &outputs[0]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = include_str!("../tests/outputs/fio-3.33-read.json");

    #[test]
    fn output_of_fio_3_33_is_parsed() {
        let outputs = [Output::printed(&format!("fio: a warning\n{TEXT}"))];
        assert_eq!(median_call(&outputs, "read"), Ok(181_248.0));
        assert_eq!(mean_call(&outputs, "read"), Ok(281_385.876_953));
        let row = warm_blocks();
        let reading = (row.parse)(&outputs).unwrap();
        assert!((reading.value / 5.78531e9 - 1.0).abs() < 1e-4, "{reading:?}");
    }

    #[test]
    fn failed_or_idle_job_has_no_value() {
        let failed = [Output::printed(&TEXT.replace("\"error\" : 0", "\"error\" : 28"))];
        assert_eq!(mean_call(&failed, "read"), Err(RunError::Failed("job error 28".to_owned())));
        let idle = [Output::printed(TEXT)];
        assert!(mean_call(&idle, "write").is_ok_and(|ns| PeerReading::from_value(ns).is_err()));
        assert!(mean_call(&[Output::printed("{\"jobs\": []}")], "read").is_err());
    }
}
