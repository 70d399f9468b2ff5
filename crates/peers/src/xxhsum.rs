//! xxhsum: a file in memory, hashed.

use fathom_record::{Params, PeerStatistic};

use crate::process::{Invocation, Output};
use crate::row::{DATA_BYTES, Machine, On, Ours, Place, Reading, ReadingError, Row};
use crate::text::without;
use crate::{Peer, slope};

/// xxhsum.
pub(crate) struct Xxhsum;

/// Each of nothing and of the whole file is taken so often.
const TIMES: usize = 3;

impl Peer for Xxhsum {
    fn name(&self) -> &'static str {
        "xxhsum"
    }

    fn package(&self) -> &'static str {
        "xxhash"
    }

    fn rows(&self, _: &Machine) -> Vec<Row> {
        vec![whole_file(
            ("xxhsum", &["-H3"]),
            "-H3 FILE",
            "both read every byte; XXH3 by read, in one thread, ours by mmap or pread, in as many \
             as there are CPUs; of xxhsum the whole process less one without a file's bytes",
        )]
    }
}

/// A program that reads a whole file: what it takes less what it takes for an empty one.
pub(crate) fn whole_file(
    (program, options): (&'static str, &'static [&'static str]),
    work: &'static str,
    difference: &'static str,
) -> Row {
    let commands = move |place: &Place| {
        let of = |path: String| {
            let options = options.iter().map(ToString::to_string);
            Invocation::new(program, options.chain([path]))
        };
        let pair = [of("/dev/null".to_owned()), of(place.data.display().to_string())];
        pair.iter().cloned().cycle().take(2 * TIMES).collect()
    };
    let params = Params::one("file_bytes", DATA_BYTES as i64).and("files", 1);
    Row {
        metric: "file.fast",
        params: params.and("state", "warm"),
        work,
        difference,
        tells: PeerStatistic::Slope,
        ours: Ours::File(|place| vec!["fast".to_owned(), place.data.display().to_string()]),
        on: On::All,
        reads_data: true,
        seconds: 0.5,
        ..Row::usual(Box::new(commands), Box::new(rate))
    }
}

fn rate(outputs: &[Output]) -> Result<Reading, ReadingError> {
    let mut points = Vec::new();
    for (at, output) in outputs.iter().enumerate() {
        if !output.out.split_whitespace().any(is_hash) {
            return Err(without("hash", output));
        }
        let bytes = if at % 2 == 0 { 0.0 } else { DATA_BYTES as f64 };
        points.push((bytes, output.ns / 1e9));
    }
    slope::rate(&points)
}

fn is_hash(word: &str) -> bool {
    word.len() >= 16 && word.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_known_as_xxhsum_0_8_1_and_b3sum_1_2_0_print_them() {
        let texts = [
            include_str!("../tests/outputs/xxhsum-0.8.1.txt"),
            include_str!("../tests/outputs/b3sum-1.2.0.txt"),
        ];
        for text in texts {
            let took = |ns| Output { ns, ..Output::printed(text) };
            let reading = rate(&[took(1e6), took(41e6), took(1e6), took(41e6)]).unwrap();
            assert!((reading.value / (DATA_BYTES as f64 / 0.04) - 1.0).abs() < 1e-9);
        }
    }

    #[test]
    fn without_a_hash_nothing_was_read() {
        let error = rate(&[Output::printed("xxhsum: data: No such file")]).unwrap_err();
        assert!(error.to_string().starts_with("no hash in its output"), "{error}");
    }
}
