//! dd: a file read from memory, read past it, and written to its device.

use fathom_record::{Params, PeerStatistic};

use crate::process::{Invocation, Output};
use crate::row::{Commands, Machine, Ours, Place, Reading, ReadingError, Row};
use crate::text::{before, without};
use crate::{Peer, slope};

/// dd.
pub(crate) struct Dd;

/// MiB that are read. The slope over them has no start in it.
const READ: [u64; 3] = [128, 256, 384];
/// MiB that are written. One size: what a device takes to sync is another each time, so that the
/// slope over two would be of that.
const WRITTEN: u64 = 128;

impl Peer for Dd {
    fn name(&self) -> &'static str {
        "dd"
    }

    fn package(&self) -> &'static str {
        "coreutils"
    }

    fn rows(&self, _: &Machine) -> Vec<Row> {
        let warm = reading(
            "warm",
            ("if=FILE of=/dev/null bs=1M", 2, &[]),
            "ours also sums what it reads; of dd the slope over 128, 256 and 384 MiB, of ours \
             passes of 16",
        );
        let direct = reading(
            "direct",
            ("if=FILE of=/dev/null bs=1M iflag=direct", 1, &["iflag=direct"]),
            "ours also sums what it reads; of dd the slope over 128, 256 and 384 MiB, of ours \
             passes of 16",
        );
        vec![warm, Row { seconds: 2.2, ..direct }, writing()]
    }
}

fn reading(
    state: &str,
    (work, times, more): (&'static str, usize, &'static [&'static str]),
    difference: &'static str,
) -> Row {
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
    row(params.and("threads", 1).and("way", way), work, difference, Box::new(commands))
}

fn row(params: Params, work: &'static str, difference: &'static str, commands: Commands) -> Row {
    Row {
        metric: "file.read.throughput",
        params,
        work,
        difference,
        tells: PeerStatistic::Slope,
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
        "both write 128 MiB and sync once; dd reads from a file in memory what ours has made \
         before",
        Box::new(commands),
    );
    Row {
        metric: "file.write.throughput",
        ours: Ours::File(|place| {
            let path = place.own.display().to_string();
            let words = ["write", &path, "--block", "1M", "--count", "128", "--sync", "data"];
            words.map(str::to_owned).into()
        }),
        tells: PeerStatistic::Mean,
        written: 2 * bytes,
        seconds: 0.6,
        parse: Box::new(|outputs| {
            let (bytes, seconds) = points(outputs)?.first().copied().unwrap_or_default();
            Reading::of(bytes / seconds)
        }),
        ..row
    }
}

/// Bytes and seconds of each start.
fn points(outputs: &[Output]) -> Result<Vec<(f64, f64)>, ReadingError> {
    let point = |output: &Output| {
        let bytes = before(&output.err, "bytes");
        let seconds = output.err.split_once("copied, ").and_then(|(_, rest)| before(rest, " s"));
        bytes.zip(seconds).ok_or_else(|| without("`bytes … copied, … s`", output))
    };
    outputs.iter().map(point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(bytes: u64, seconds: &str) -> Output {
        let text = include_str!("../tests/outputs/dd-9.1.txt");
        let text = text.replace("134217728", &bytes.to_string()).replace("0.0170586", seconds);
        Output { err: text, ..Output::NOTHING }
    }

    #[test]
    fn bytes_and_seconds_are_read_as_dd_9_1_prints_them() {
        let point = points(&[output(134_217_728, "0.0170586")]);
        assert_eq!(point, Ok(vec![(134_217_728.0, 0.0170586)]));
        assert!(points(&[Output::printed("0+0 records in")]).is_err());
    }

    #[test]
    fn a_synced_write_is_one_of_one_size_without_a_slope() {
        let row = writing();
        assert_eq!((row.commands)(&Place::at("/var/tmp/x".as_ref())).len(), 1);
        let reading = (row.parse)(&[output(128 << 20, "0.128")]).unwrap();
        assert_eq!(reading, Reading::of(f64::from(128 << 20) / 0.128).unwrap());
        assert_eq!(row.tells, PeerStatistic::Mean, "the sync is in it");
    }
}
