//! The tools whose files are read, and how each is recognised.

use crate::{ParseError, Parsed, fio, go, google_benchmark, hyperfine, pyperf};

/// The form of a file: that of one tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    GoogleBenchmark,
    Hyperfine,
    Go,
    Pyperf,
    Fio,
}

// As in the ids of metrics.
fathom_record::words!(
    Format.name.ALL,
    GoogleBenchmark = "google-benchmark",
    Hyperfine = "hyperfine",
    Go = "go",
    Pyperf = "pyperf",
    Fio = "fio"
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
        }?;
        if parsed.series.is_empty() {
            let last = text.lines().count();
            return Err(ParseError::new(last, format!("no result of {}", self.name())));
        }
        Ok(Parsed { checksum: crc32fast::hash(text.as_bytes()), ..parsed })
    }

    /// The format that a text begins like; `None` if it is another, or not certain.
    pub fn recognised(beginning: &str) -> Option<Self> {
        let text = beginning.trim_start();
        match first_field(text) {
            Some("context") => Some(Self::GoogleBenchmark),
            Some("results") => Some(Self::Hyperfine),
            Some("benchmarks") => Some(Self::Pyperf),
            Some("fio version") => Some(Self::Fio),
            Some(_) => None,
            // Before its JSON fio prints warnings.
            None if text.contains("\n{") && text.contains("\"fio version\"") => Some(Self::Fio),
            None => text.lines().any(go::is_of_go).then_some(Self::Go),
        }
    }
}

/// The name of the first field of an object.
fn first_field(text: &str) -> Option<&str> {
    let text = text.strip_prefix('{')?.trim_start();
    text.strip_prefix('"')?.split('"').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn format_is_recognised_by_the_first_field_or_line() {
        for (text, format) in [
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
            ("Benchmark results of today\n", None),
            ("", None),
        ] {
            assert_eq!(Format::recognised(text), format, "{text}");
        }
    }
}
