//! xxhsum: hashing a cached file.

use crate::prelude::*;
use crate::row::DATA_BYTES;
use crate::slope;

pub(crate) struct Xxhsum;

/// Runs of each size.
const REPETITIONS: usize = 3;

impl Peer for Xxhsum {
    fn name(&self) -> &'static str {
        "xxhsum"
    }

    fn package(&self) -> &'static str {
        "xxhash"
    }

    fn rows(&self, _: &PeerMachine) -> Vec<Row> {
        vec![whole_file(
            ("xxhsum", &["-H3"]),
            "-H3 FILE",
            "both read every byte; xxhsum by read in one thread, Fathom by mmap or pread in one \
             thread per CPU; xxhsum's time is that of its process minus one on an empty file",
        )]
    }
}

/// A program that hashes a file: the time of its process minus that on an empty file.
pub(crate) fn whole_file(
    (program, options): (&'static str, &'static [&'static str]),
    work: &'static str,
    difference: &'static str,
) -> Row {
    let commands = move |place: &PeerPlace| {
        let of = |path: String| {
            let options = options.iter().map(ToString::to_string);
            Invocation::new(program, options.chain([path]))
        };
        let pair = [of("/dev/null".to_owned()), of(place.data.display().to_string())];
        pair.iter().cloned().cycle().take(2 * REPETITIONS).collect()
    };
    let params = Params::one("file_bytes", DATA_BYTES as i64).and("files", 1);
    Row {
        metric: "file.fast",
        params: params.and("state", "warm"),
        work,
        difference,
        statistic: PeerStatistic::Slope,
        ours: Ours::File(|place, _| vec!["fast".to_owned(), place.data.display().to_string()]),
        on: On::All,
        reads_data: true,
        seconds: 0.5,
        ..Row::usual(Box::new(commands), Box::new(rate))
    }
}

/// Throughput from the outputs of alternating empty and full files.
fn rate(outputs: &[Output]) -> Result<PeerReading, RunError> {
    if let Some(output) = outputs.iter().find(|it| !it.out.split_whitespace().any(is_hash)) {
        return Err(missing("hash", output));
    }
    let bytes = [0.0, DATA_BYTES as f64].into_iter().cycle();
    let points: Vec<_> = bytes.zip(outputs.iter().map(|output| output.ns / 1e9)).collect();
    slope::rate(&points)
}

fn is_hash(word: &str) -> bool {
    word.len() >= 16 && word.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_of_xxhsum_0_8_1_and_b3sum_1_2_0_is_parsed() {
        let texts = [
            include_str!("../tests/outputs/xxhsum-0.8.1.txt"),
            include_str!("../tests/outputs/b3sum-1.2.0.txt"),
        ];
        for text in texts {
            let took = |ns| Output { ns, ..Output::printed(text) };
            let reading = rate(&[took(1e6), took(41e6), took(1e6), took(41e6)]).unwrap();
            assert!((reading.value / (DATA_BYTES as f64 / 0.04) - 1.0).abs() < 1e-9);
        }
        assert!(rate(&[Output::printed("xxhsum: data: No such file")]).is_err());
    }
}
