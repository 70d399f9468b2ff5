//! dd: reads through the page cache and by O_DIRECT, and a synced write.

use crate::prelude::*;
use crate::slope;

pub(crate) struct Dd;

/// MiB read; the slope over the sizes excludes program start.
const READ: [u64; 3] = [128, 256, 384];
/// MiB written. One size only: the time of a sync varies so much that a slope would measure that.
const WRITTEN: u64 = 128;
const READ_DIFFERENCE: &str = "Fathom also computes checksums; dd's value is the slope over 128, \
                               256 and 384 MiB, Fathom's the median pass of 16";

impl Peer for Dd {
    fn name(&self) -> &'static str {
        "dd"
    }

    fn package(&self) -> &'static str {
        "coreutils"
    }

    fn rows(&self, _: &Machine) -> Vec<Row> {
        let warm = reading("warm", "if=FILE of=/dev/null bs=1M", 2, &[]);
        let work = "if=FILE of=/dev/null bs=1M iflag=direct";
        let direct = reading("direct", work, 1, &["iflag=direct"]);
        vec![warm, Row { seconds: 2.2, ..direct }, writing()]
    }
}

fn reading(state: &str, work: &'static str, times: usize, more: &'static [&'static str]) -> Row {
    let way = if state == "warm" { "read" } else { "direct" };
    let params = Params::one("block", 1 << 20).and("file_bytes", 16 << 20).and("state", state);
    let commands = move |place: &Place| {
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

fn writing() -> Row {
    let bytes = WRITTEN << 20;
    let params = Params::one("block", 1 << 20).and("file_bytes", bytes as i64).and("sync", "data");
    let commands = |place: &Place| {
        let (from, to) = (place.data.display(), place.own.display());
        let words = [format!("if={from}"), format!("of={to}"), "bs=1M".to_owned()];
        let rest = [format!("count={WRITTEN}"), "conv=fdatasync".to_owned()];
        vec![Invocation::new("dd", words.into_iter().chain(rest))]
    };
    let row = row(
        params,
        "if=FILE of=NEW bs=1M count=128 conv=fdatasync",
        "both write 128 MiB and sync once; dd reads the data from a cached file, Fathom generates \
         it before the timed part",
        Box::new(commands),
    );
    Row {
        metric: "file.write.throughput",
        ours: Ours::File(|place| {
            let path = place.own.display().to_string();
            let words = ["write", &path, "--block", "1M", "--count", "128", "--sync", "data"];
            words.map(str::to_owned).into()
        }),
        statistic: PeerStatistic::Mean,
        written: 2 * bytes,
        seconds: 0.6,
        parse: Box::new(|outputs| {
            let (bytes, seconds) = points(outputs)?.first().copied().unwrap_or_default();
            Reading::of(bytes / seconds)
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
        let write = (writing().parse)(&[output(128 << 20, "0.128")]).unwrap();
        assert_eq!(write, Reading::of(f64::from(128 << 20) / 0.128).unwrap());
    }
}
