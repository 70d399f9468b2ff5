//! The tools whose files are read, and how each is recognised.

use crate::{
    ParseError, Parsed, criterion, fio, go, google_benchmark, hyperfine, iperf3, jmh, json,
};
use crate::{k6, oha, pyperf};

/// The form of a file: that of one tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    GoogleBenchmark,
    Hyperfine,
    Go,
    Pyperf,
    Fio,
    Iperf3,
    K6,
    Oha,
    Criterion,
    Jmh,
}

// As in the ids of metrics.
fathom_record::words!(
    Format.name.ALL,
    GoogleBenchmark = "google-benchmark",
    Hyperfine = "hyperfine",
    Go = "go",
    Pyperf = "pyperf",
    Fio = "fio",
    Iperf3 = "iperf3",
    K6 = "k6",
    Oha = "oha",
    Criterion = "criterion",
    Jmh = "jmh"
);

impl Format {
    /// Reads the whole text of a file.
    ///
    /// # Errors
    /// The first line that is not of this format, or a file without results.
    pub fn parse(self, text: &str) -> Result<Parsed, ParseError> {
        let parsed = match self {
            Self::GoogleBenchmark => google_benchmark::parse(text),
            Self::Hyperfine => hyperfine::parse(text),
            Self::Go => go::parse(text),
            Self::Pyperf => pyperf::parse(text),
            Self::Fio => fio::parse(text),
            Self::Iperf3 => iperf3::parse(text),
            Self::K6 => k6::parse(text),
            Self::Oha => oha::parse(text),
            Self::Criterion => criterion::parse(text),
            Self::Jmh => jmh::parse(text),
        }?;
        if parsed.series.is_empty() {
            let last = text.lines().count();
            return Err(ParseError::new(last, format!("no result of {}", self.name())));
        }
        Ok(Parsed { checksum: crc32fast::hash(text.as_bytes()), ..parsed })
    }

    /// The format that a text begins like; `None` if it is another, or not certain.
    pub fn recognised(beginning: &str) -> Option<Self> {
        // Tools print warnings before their JSON. Fields have any order, and what follows is cut.
        // Benchmarks of Go log what they like.
        let mut before = beginning.lines().take_while(|line| !json::is_begin(line));
        if before.any(go::is_of_go) {
            return Some(Self::Go);
        }
        let of_json = beginning.split_inclusive('\n').skip_while(|line| !json::is_begin(line));
        let text = of_json.collect::<String>();
        if text.is_empty() {
            return beginning.lines().any(go::is_of_go).then_some(Self::Go);
        }
        let fields = json::fields(&text);
        // Of the document, in it, or in its list.
        let has = |name: &str| fields.contains(&(1, name));
        let within = |name: &str| fields.iter().any(|(depth, field)| *depth > 1 && *field == name);
        match () {
            // A run of Fathom.
            () if has("schema") => None,
            // Also of messages about groups, which have benchmarks.
            () if has("reason") || has("std_dev") || has("full_id") => Some(Self::Criterion),
            () if has("fio version") || within("jobname") => Some(Self::Fio),
            () if has("Action") && has("Package") => Some(Self::Go),
            () if has("context") || has("benchmarks") && within("real_time") => {
                Some(Self::GoogleBenchmark)
            }
            () if has("benchmarks") => Some(Self::Pyperf),
            () if has("results") => Some(Self::Hyperfine),
            () if has("intervals") || has("start") && within("test_start") => Some(Self::Iperf3),
            () if has("metrics") => Some(Self::K6),
            () if has("summary") && within("requestsPerSec") => Some(Self::Oha),
            () if within("primaryMetric") || within("jmhVersion") => Some(Self::Jmh),
            () => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn format_is_recognised_by_the_first_field_or_line() {
        for (text, format) in [
            ("goos: linux\n{\"results\": 1}\nBenchmarkA 1 2 ns/op\n", Some(Format::Go)),
            ("{\n  \"context\": {", Some(Format::GoogleBenchmark)),
            ("{\"results\": [", Some(Format::Hyperfine)),
            ("{\"benchmarks\":[{", Some(Format::Pyperf)),
            ("{\n  \"fio version\" : \"fio-3.33\"", Some(Format::Fio)),
            ("note: both iodepth and sync\n{\n  \"fio version\" : \"", Some(Format::Fio)),
            ("goos: linux\ngoarch: amd64\n", Some(Format::Go)),
            ("BenchmarkSum-8 \t 100 \t 12.5 ns/op\n", Some(Format::Go)),
            ("{\"schema\": 3", None),
            ("{", None),
            ("[1, 2]", None),
            ("***WARNING*** x\n{\"context\": {", Some(Format::GoogleBenchmark)),
            ("{\"benchmarks\": [{\"real_time\": 1", Some(Format::GoogleBenchmark)),
            ("{\"Action\":\"output\",\"Package\":\"a\"}", Some(Format::Go)),
            ("{\"jobs\": [{\"jobname\": \"x\"", Some(Format::Fio)),
            ("{\"far\": [], \"results\": 1, \"schema\": 3", None),
            ("Benchmark results of today\n", None),
            ("", None),
        ] {
            assert_eq!(Format::recognised(text), format, "{text}");
        }
    }
}
