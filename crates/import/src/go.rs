//! Go: the text of `go test -bench`, which benchstat reads too. Lines of one benchmark are rounds
//! of the test binary that printed them; a file may have the output of several.

use std::collections::BTreeMap;

use fathom_record::{Better, Unit};

use crate::name::{self, ParsedName};
use crate::parsed::{ParsedKind, ParsedSeries};
use crate::{ParseError, Parsed};

const BENCHMARK: &str = "Benchmark";
/// Lines of settings at the beginning.
const SETTINGS: [&str; 4] = ["goos: ", "goarch: ", "pkg: ", "cpu: "];

/// Words of a line with a result.
const WORDS_MAX: usize = 1_000;

/// Whether a line is of no other format.
pub(crate) fn is_of_go(line: &str) -> bool {
    let is_result = line.starts_with(BENCHMARK) && matches!(result(line), Ok(Some(_)));
    is_result || SETTINGS[..2].iter().any(|one| line.starts_with(one))
}

pub(crate) fn parse(text: &str) -> Result<Parsed, ParseError> {
    let mut reader = GoReader::default();
    for (at, line) in text.lines().enumerate() {
        reader.line(line).map_err(|what| ParseError::new(at + 1, what))?;
    }
    if reader.failed > 0 {
        let note = format!("{} lines FAIL: not all benchmarks ended well", reader.failed);
        reader.parsed.notes.push(note);
    }
    Ok(reader.parsed)
}

#[derive(Default)]
struct GoReader {
    parsed: Parsed,
    package: Option<String>,
    /// How many processes had ended before this line, and whether one had a result since.
    processes: usize,
    has_result: bool,
    failed: usize,
    /// By `Unit` lines.
    better: BTreeMap<String, Better>,
}

impl GoReader {
    fn line(&mut self, line: &str) -> Result<(), String> {
        if let Some((setting, value)) = line
            .split_once(": ")
            .filter(|(key, _)| SETTINGS.iter().any(|one| one.trim_end_matches(": ") == *key))
        {
            return self.setting(setting, value.trim());
        }
        let mut words = line.split_whitespace();
        match words.next() {
            Some("Unit") => self.unit(words.next(), words),
            Some("PASS" | "FAIL" | "ok") => {
                self.failed += usize::from(line.starts_with("FAIL"));
                self.end_process();
            }
            Some(word) if word.starts_with(BENCHMARK) => {
                if let Some(result) = result(line)? {
                    self.add(&result)?;
                } else {
                    self.failed += usize::from(line.contains("--- FAIL"));
                }
            }
            _ => self.failed += usize::from(line.trim_start().starts_with("--- FAIL")),
        }
        Ok(())
    }

    /// The next process begins with its settings, or after the end of the last one.
    fn end_process(&mut self) {
        self.processes += usize::from(std::mem::take(&mut self.has_result));
    }

    fn setting(&mut self, setting: &str, value: &str) -> Result<(), String> {
        self.end_process();
        let one = |known: &mut Option<String>, value: &str| match known {
            Some(known) if known != value => {
                Err(format!("{setting} {value:?} after {known:?}: import the machines apart"))
            }
            _ => {
                *known = Some(name::title(value));
                Ok(())
            }
        };
        match setting {
            "cpu" => one(&mut self.parsed.cpu, value),
            "goarch" => one(&mut self.parsed.architecture, architecture(value)),
            "pkg" => {
                self.package = value.rsplit('/').next().map(name::safe);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// `Unit ns/op better=lower`.
    fn unit<'l>(&mut self, unit: Option<&str>, words: impl Iterator<Item = &'l str>) {
        for word in words {
            let better = match word {
                "better=lower" => Better::Lower,
                "better=higher" => Better::Higher,
                _ => continue,
            };
            self.better.extend(unit.map(|unit| (unit.to_owned(), better)));
        }
    }

    fn add(&mut self, result: &GoLine<'_>) -> Result<(), String> {
        let (plain, procs) = without_procs(result.name);
        let ParsedName { id, mut params } = ParsedName::from_name(plain, '=');
        params = procs.map_or(params.clone(), |procs| params.and("procs", procs));
        let id = self.package.iter().fold(id, |id, package| format!("{package}.{id}"));
        let title = name::title(result.name);
        for (value, unit) in &result.values {
            let mut kind = kind_of(unit);
            kind.better = self.better.get(*unit).copied().unwrap_or(kind.better);
            let series = match *unit {
                "ns/op" => ParsedSeries::new(&title, &id, &params, kind),
                unit => ParsedSeries::aspect(&title, &id, unit, &params, kind),
            };
            let series = series.with(self.processes, *value);
            self.parsed.add(ParsedSeries { batch: result.iterations, ..series })?;
        }
        self.has_result = true;
        Ok(())
    }
}

/// The names of architectures that Go has names of its own for.
fn architecture(name: &str) -> &str {
    match name {
        "amd64" => "x86_64",
        "arm64" => "aarch64",
        other => other,
    }
}

/// The name without its last part `-8`, which is GOMAXPROCS.
fn without_procs(name: &str) -> (&str, Option<i64>) {
    let split = name.rsplit_once('-').and_then(|(plain, procs)| {
        let is_count = !procs.starts_with(['0', '+']) && !plain.is_empty();
        Some((plain, procs.parse().ok().filter(|_| is_count)?))
    });
    split.map_or((name, None), |(plain, procs)| (plain, Some(procs)))
}

struct GoLine<'l> {
    /// Without `Benchmark`.
    name: &'l str,
    iterations: u64,
    values: Vec<(f64, &'l str)>,
}

/// The result of a line that begins with `Benchmark`; `None` for a name alone, which `-v` prints,
/// and for one that is followed by what the benchmark itself printed or logged.
fn result(line: &str) -> Result<Option<GoLine<'_>>, String> {
    const FORM: &str = "a result is `BenchmarkName N VALUE UNIT …`";
    let words: Vec<&str> = line.split_whitespace().take(WORDS_MAX + 1).collect();
    let [name, iterations, pairs @ ..] = words.as_slice() else { return Ok(None) };
    let name = name.strip_prefix(BENCHMARK).unwrap_or(name);
    let name = if name.is_empty() { BENCHMARK } else { name };
    let Ok(iterations) = iterations.parse::<u64>() else {
        // A result whose count is damaged has a value and its unit all the same.
        return match pairs {
            [value, unit, ..] if value.parse::<f64>().is_ok() && unit.contains('/') => {
                Err(format!("{iterations:?} is no count; {FORM}"))
            }
            _ => Ok(None),
        };
    };
    if words.len() > WORDS_MAX {
        return Err(format!("more than {WORDS_MAX} words; {FORM}"));
    }
    if pairs.is_empty() || pairs.len() % 2 == 1 {
        return Err(format!("a value without its unit; {FORM}"));
    }
    let pair = |pair: &[&'_ str]| -> Result<f64, String> {
        let value = pair[0].parse::<f64>().ok().filter(|value| value.is_finite());
        let value = value.ok_or_else(|| format!("{:?} is no number; {FORM}", pair[0]))?;
        kind_of(pair[1]).checked(value).map_err(|why| format!("{} {}: {why}", pair[0], pair[1]))
    };
    let values = pairs.chunks(2).map(|it| Ok((pair(it)?, it[1])));
    Ok(Some(GoLine { name, iterations, values: values.collect::<Result<_, String>>()? }))
}

/// What a unit is, as benchstat takes it.
fn kind_of(unit: &str) -> ParsedKind {
    match unit {
        "MB/s" => ParsedKind { exponent: 6, ..ParsedKind::rate(Unit::BytesPerSecond) },
        "B/s" => ParsedKind::rate(Unit::BytesPerSecond),
        "B" | "bytes" | "B/op" => ParsedKind::amount(Unit::Bytes),
        "allocs/op" => ParsedKind::amount(Unit::Ratio),
        "sec" | "sec/op" | "s/op" => ParsedKind::SECONDS,
        "ns" => ParsedKind::time(0),
        _ if unit.starts_with("ns/") || unit.ends_with("-ns") => ParsedKind::time(0),
        _ if unit.ends_with("-bytes") => ParsedKind::amount(Unit::Bytes),
        _ if unit.ends_with("/s") || unit.ends_with("/sec") => ParsedKind::rate(Unit::PerSecond),
        _ => ParsedKind::NUMBER,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gomaxprocs_is_a_parameter() {
        for (name, parts) in [
            ("Sum-8", ("Sum", Some(8))),
            ("Sum", ("Sum", None)),
            ("Sum/n=10-16", ("Sum/n=10", Some(16))),
            ("Read-ahead", ("Read-ahead", None)),
            ("-8", ("-8", None)),
        ] {
            assert_eq!(without_procs(name), parts);
        }
    }

    #[test]
    fn direction_is_of_the_unit_line_or_the_unit() {
        let text = "Unit hits/op better=higher\nBenchmarkA 5 1 ns/op 2 hits/op 3 x/s 4 y\n";
        let parsed = parse(text).expect("results");
        let found: Vec<(Unit, Better)> =
            parsed.series.iter().map(|one| (one.kind.unit, one.kind.better)).collect();
        assert_eq!(
            found,
            [
                (Unit::Nanoseconds, Better::Lower),
                (Unit::Ratio, Better::Higher),
                (Unit::PerSecond, Better::Higher),
                (Unit::Ratio, Better::Neither),
            ]
        );
        assert_eq!(parsed.series[1].id, "A.hits_op");
    }

    #[test]
    fn each_test_binary_is_a_process() {
        let one = "goos: linux\npkg: example.com/sums\nBenchmarkSum-2 9 5 ns/op\n";
        let text =
            format!("{one}BenchmarkSum-2 9 6 ns/op\nPASS\nok  \texample.com/sums\t1s\n{one}");
        let parsed = parse(&text).expect("results");
        assert_eq!(parsed.series[0].processes, [(0, vec![5.0, 6.0]), (1, vec![5.0])].into());
        let ParsedSeries { id, params, .. } = &parsed.series[0];
        assert_eq!(format!("{id}{params}"), "sums.Sum{procs=2}");
    }

    #[test]
    fn what_a_benchmark_prints_is_no_result() {
        let text = "BenchmarkA-2 9 5 ns/op\nBenchmarkB-2 \t--- FAIL: BenchmarkB-2\n\
                    BenchmarkC-2 \tprinted 3 times\n";
        let parsed = parse(text).expect("a result");
        assert_eq!(parsed.series.len(), 1);
        assert!(parsed.notes.iter().any(|note| note.contains('1')), "{:?}", parsed.notes);
    }

    #[test]
    fn malformed_line_is_named() {
        for (line, why) in [
            ("BenchmarkA x 1 ns/op", "\"x\" is no count"),
            ("BenchmarkA 5 1", "without its unit"),
            ("BenchmarkA 5", "without its unit"),
            ("BenchmarkA 5 fast ns/op", "\"fast\" is no number"),
            ("BenchmarkA 5 NaN ns/op", "\"NaN\" is no number"),
            ("BenchmarkA 5 -1 ns/op", "-1 ns/op: below 0"),
            ("cpu: another", "import the machines apart"),
        ] {
            let error = parse(&format!("cpu: one\nBenchmarkA\n{line}\n")).unwrap_err();
            assert!(error.line == 3 && error.what.contains(why), "{error}");
        }
    }
}
