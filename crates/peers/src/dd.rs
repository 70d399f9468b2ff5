//! dd: reads through the page cache and by O_DIRECT, and a synced write.

use crate::DATA_BYTES;
use crate::prelude::*;
use crate::slope;

pub(crate) struct DdPeer;

/// MiB read; the slope over the sizes excludes program start.
const READ: [u64; 3] = [128, 256, 384];
/// MiB written. No slope: the time of a sync varies so much that it would measure that.
const WRITTEN: [u64; 6] = [100, 500, 1024, 2048, 5120, 10_240];
/// Larger files are written only if dd or the case is named.
const WRITTEN_USUAL: u64 = 100;
/// What a pair of writes is announced to take.
const BYTES_PER_S_USUAL: f64 = 400e6;
const READ_DIFFERENCE: &str = "Fathom also computes checksums; dd's value is the slope over 128, \
                               256 and 384 MiB, Fathom's the median pass of 16";

impl Peer for DdPeer {
    fn name(&self) -> &'static str {
        "dd"
    }

    fn package(&self) -> &'static str {
        "coreutils"
    }

    fn rows(&self, _: &PeerMachine) -> Vec<Row> {
        let warm = reading("warm", "if=FILE of=/dev/null bs=1M", 2, &[]);
        let work = "if=FILE of=/dev/null bs=1M iflag=direct";
        let direct = reading("direct", work, 1, &["iflag=direct"]);
        let written = WRITTEN.map(writing);
        [warm, Row { seconds: 2.2, ..direct }].into_iter().chain(written).collect()
    }
}

fn reading(state: &str, work: &'static str, times: usize, more: &'static [&'static str]) -> Row {
    let way = if state == "warm" { "read" } else { "direct" };
    let params = Params::one("block", 1 << 20).and("file_bytes", 16 << 20).and("state", state);
    let commands = move |place: &PeerPlace| {
        let one = |mib: &u64| {
            let from = format!("if={}", place.data.display());
            let words = [from, "of=/dev/null".into(), "bs=1M".into(), format!("count={mib}")];
            Invocation::new("dd", words.into_iter().chain(more.iter().map(ToString::to_string)))
        };
        READ.iter().map(one).cycle().take(times * READ.len()).collect()
    };
    row(params.and("threads", 1).and("way", way), work, READ_DIFFERENCE, Box::new(commands))
}

fn row(params: Params, work: &'static str, difference: &'static str, commands: Commands) -> Row {
    Row {
        metric: "file.read.throughput",
        params,
        work,
        difference,
        statistic: PeerStatistic::Slope,
        reads_data: true,
        ..Row::usual(commands, Box::new(|outputs| slope::rate(&points(outputs)?)))
    }
}

fn writing(mib: u64) -> Row {
    let bytes = mib << 20;
    let params = Params::one("block", 1 << 20).and("file_bytes", bytes as i64).and("sync", "data");
    // Zeros would be other work on a disk that detects them: the data file is written repeatedly.
    let part = DATA_BYTES >> 20;
    let commands = move |place: &PeerPlace| {
        let (from, to) = (place.data.display(), place.own.display());
        let one = |at: u64| {
            let count = part.min(mib - at);
            let sync = if at + count == mib { ",fdatasync" } else { "" };
            let words = [format!("if={from}"), format!("of={to}"), "bs=1M".to_owned()];
            let rest =
                [format!("count={count}"), format!("seek={at}"), format!("conv=notrunc{sync}")];
            Invocation::new("dd", words.into_iter().chain(rest))
        };
        (0..mib).step_by(part as usize).map(one).collect()
    };
    let row = row(
        params,
        "if=FILE of=NEW bs=1M seek=N conv=notrunc, the last with fdatasync",
        "both write the file once and sync it once; dd reads the data from a cached file of 384 \
         MiB, once for each part, Fathom generates it outside the timed part",
        Box::new(commands),
    );
    Row {
        metric: "file.write.throughput",
        ours: Ours::File(|place, params| {
            let path = place.own.display().to_string();
            let count = (params.integer("file_bytes").unwrap_or(0) >> 20).to_string();
            let words = ["write", &path, "--block", "1M", "--count", &count, "--sync", "data"];
            words.map(str::to_owned).into()
        }),
        only_named: mib > WRITTEN_USUAL,
        statistic: PeerStatistic::Mean,
        written: 2 * bytes,
        seconds: (2.0 * bytes as f64 / BYTES_PER_S_USUAL).max(0.6),
        parse: Box::new(|outputs| {
            let (written, seconds): (Vec<f64>, Vec<f64>) = points(outputs)?.into_iter().unzip();
            PeerReading::from_value(written.iter().sum::<f64>() / seconds.iter().sum::<f64>())
        }),
        ..row
    }
}

/// Bytes and seconds of each process.
fn points(outputs: &[Output]) -> Result<Vec<(f64, f64)>, RunError> {
    let point = |output: &Output| {
        let bytes = before(&output.err, "bytes");
        let seconds = output.err.split_once("copied, ").and_then(|(_, rest)| before(rest, " s"));
        bytes.zip(seconds).ok_or_else(|| missing("`bytes … copied, … s`", output))
    };
    outputs.iter().map(point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(bytes: u64, seconds: &str) -> Output {
        let text = include_str!("../tests/outputs/dd-9.1.txt");
        let text = text.replace("134217728", &bytes.to_string()).replace("0.0170586", seconds);
        Output { err: text, ..Output::default() }
    }

    #[test]
    fn output_of_dd_9_1_is_parsed() {
        let point = points(&[output(134_217_728, "0.0170586")]);
        assert_eq!(point, Ok(vec![(134_217_728.0, 0.0170586)]));
        assert!(points(&[Output::printed("0+0 records in")]).is_err());
        let write = (writing(128).parse)(&[output(128 << 20, "0.128")]).unwrap();
        assert_eq!(write, PeerReading::from_value(f64::from(128 << 20) / 0.128).unwrap());
        let parts = [output(384 << 20, "0.3"), output(116 << 20, "0.2")];
        let write = (writing(500).parse)(&parts).unwrap();
        assert_eq!(write, PeerReading::from_value(f64::from(500 << 20) / 0.5).unwrap());
        let commands = (writing(500).commands)(&PeerPlace::at("/f".as_ref()));
        let last = commands[1].arguments.join(" ");
        assert!(last.ends_with("count=116 seek=384 conv=notrunc,fdatasync"), "{last}");
        assert_eq!(commands.len(), 2);
    }
}
