//! Go: the text of `go test -bench`, which benchstat reads too. Lines of one benchmark are rounds
//! of the test binary that printed them; a file may have the output of several.

use std::borrow::Cow;
use std::collections::BTreeMap;

use fathom_record::Better;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::name::{self, ParsedName};
use crate::parsed::{ParsedCase, ParsedSeries};
use crate::{ParseError, Parsed, unit};

const BENCHMARK: &str = "Benchmark";
/// Words of a line with a result.
const WORDS_MAX: usize = 1_000;
/// Lines such as `commit: 1a2b3c`.
const CONFIGURATION_MAX: usize = 50;

/// Whether a line is of no other format.
pub(crate) fn is_of_go(line: &str) -> bool {
    line.starts_with("goos: ") || line.starts_with("goarch: ") || result(line).is_some()
}

pub(crate) fn parse(text: &str) -> Result<Parsed, ParseError> {
    let mut reader = GoReader::default();
    for (at, line) in plain(text).lines().enumerate() {
        reader.line(line).map_err(|what| ParseError::new(at + 1, what))?;
    }
    if reader.failed > 0 {
        let note = format!("{} lines FAIL: not all benchmarks ended well", reader.failed);
        reader.parsed.notes.push(note);
    }
    if let [first, ..] = reader.printed.as_slice() {
        let count = reader.printed.len();
        let note = format!("lines like a result that are none: {count}; the first: {first}");
        reader.parsed.notes.push(note);
    }
    Ok(reader.parsed)
}

/// An event of `go test -json`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct GoEvent {
    #[serde(rename = "Action")]
    _action: IgnoredAny,
    #[serde(default)]
    package: String,
    #[serde(default)]
    output: String,
}

/// What was printed: of `-json` the output of each package, whose events alternate with others'.
fn plain(text: &str) -> Cow<'_, str> {
    let event = |line: &str| serde_json::from_str::<GoEvent>(line).ok();
    // Messages of the build may be before them and between them; results are in events.
    let mut first = text.lines().filter(|line| is_of_go(line) || event(line).is_some());
    if first.next().is_none_or(is_of_go) {
        return text.into();
    }
    let mut packages: Vec<String> = Vec::new();
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    for event in text.lines().filter_map(event) {
        let at = *places.entry(event.package).or_insert_with_key(|package| {
            packages.push(format!("pkg: {package}\n"));
            packages.len() - 1
        });
        packages[at] += &event.output;
    }
    packages.concat().into()
}

#[derive(Default)]
struct GoReader {
    parsed: Parsed,
    package: String,
    /// As benchstat names what is in lines of `key: value`, except for the settings.
    configuration: BTreeMap<String, String>,
    /// How many processes had ended before this line, and whether one had a result since.
    processes: usize,
    has_result: bool,
    failed: usize,
    /// Lines that a benchmark printed behind its name.
    printed: Vec<String>,
    /// By `Unit` lines.
    better: BTreeMap<String, Better>,
}

impl GoReader {
    fn line(&mut self, line: &str) -> Result<(), String> {
        if let Some((key, value)) = setting(line) {
            return self.setting(key, value);
        }
        let mut words = line.split_whitespace();
        match words.next() {
            Some("Unit") => self.unit(words.next(), words),
            Some("PASS" | "FAIL" | "ok") => {
                self.failed += usize::from(line.starts_with("FAIL"));
                self.end_process();
            }
            Some(word) if word.starts_with(BENCHMARK) => {
                if let Some(result) = result(line) {
                    self.add(&result)?;
                } else if line.contains("--- FAIL") {
                    self.failed += 1;
                } else if words.next().is_some_and(|count| count.parse::<u64>().is_ok()) {
                    let words: Vec<&str> = line.split_whitespace().take(20).collect();
                    self.printed.push(name::title(&words.join(" ")));
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
            "cpu" => one(&mut self.parsed.cpu, value)?,
            "goarch" => one(&mut self.parsed.architecture, architecture(value))?,
            "pkg" => self.package = name::title(value),
            "goos" => {}
            key => {
                let is_room = self.configuration.len() < CONFIGURATION_MAX;
                if is_room || self.configuration.contains_key(key) {
                    self.configuration.insert(name::title(key), name::title(value));
                }
                // A benchmark may print such a line between its results.
                return Ok(());
            }
        }
        self.end_process();
        Ok(())
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
        let package = Some(self.package.as_str()).filter(|package| !package.is_empty());
        let last = package.and_then(|package| package.rsplit('/').next()).map(name::safe);
        let id = last.iter().fold(id, |id, package| format!("{package}.{id}"));
        let case = ParsedCase::new(result.name, id, params);
        // Packages may end alike.
        let name = package.iter().fold(case.name.clone(), |name, it| format!("{it}.{name}"));
        let configuration = self.configuration.clone();
        let case = ParsedCase { name, configuration, ..case };
        for (value, unit) in &result.values {
            let (mut kind, factor) = unit::kind_of(unit);
            kind.better = self.better.get(*unit).copied().unwrap_or(kind.better);
            let series = match *unit {
                "ns/op" => case.series(kind),
                unit => case.aspect(unit, kind),
            };
            let series = series.with(self.processes, factor * *value);
            self.parsed.add(ParsedSeries { batch: result.iterations, ..series })?;
        }
        self.has_result = true;
        Ok(())
    }
}

/// The key and value of a line of configuration, as benchstat reads it.
fn setting(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.split_once(':')?;
    let is_key = key.starts_with(char::is_lowercase)
        && !key.contains(|c: char| c.is_whitespace() || c.is_uppercase());
    (is_key && value.starts_with([' ', '\t'])).then(|| (key, value.trim()))
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

/// The result of a line, `BenchmarkName N VALUE UNIT …`; `None` for a name alone, which `-v`
/// prints, and for one that is followed by what the benchmark itself printed or logged.
fn result(line: &str) -> Option<GoLine<'_>> {
    let words: Vec<&str> = line.split_whitespace().take(WORDS_MAX + 1).collect();
    let [name, iterations, pairs @ ..] = words.as_slice() else { return None };
    let name = name.strip_prefix(BENCHMARK).filter(|_| line.starts_with(BENCHMARK))?;
    let name = if name.is_empty() { BENCHMARK } else { name };
    let iterations = iterations.parse().ok()?;
    if pairs.is_empty() || pairs.len() % 2 == 1 || words.len() > WORDS_MAX {
        return None;
    }
    let values = pairs.chunks(2).map(|it| Some((it[0].parse().ok()?, it[1])));
    Some(GoLine { name, iterations, values: values.collect::<Option<_>>()? })
}

#[cfg(test)]
mod tests {
    use fathom_record::Unit;

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
        assert_eq!(parsed.series[1].id(), "A.hits_op");
    }

    #[test]
    fn each_test_binary_is_a_process() {
        let one = "goos: linux\npkg: example.com/sums\nBenchmarkSum-2 9 5 ns/op\n";
        let text =
            format!("{one}BenchmarkSum-2 9 6 ns/op\nPASS\nok  \texample.com/sums\t1s\n{one}");
        let parsed = parse(&text).expect("results");
        assert_eq!(parsed.series[0].processes, [(0, vec![5.0, 6.0]), (1, vec![5.0])].into());
        let ParsedCase { id, params, .. } = &parsed.series[0].case;
        assert_eq!(format!("{id}{params}"), "sums.Sum{procs=2}");
    }

    #[test]
    fn what_a_benchmark_prints_is_no_result() {
        let text = "BenchmarkA-2 9 5 ns/op\nBenchmarkB-2 \t--- FAIL: BenchmarkB-2\n\
                    BenchmarkC-2 \tprinted 3 times\nBenchmarkD 5 1\nBenchmarkD 5 fast ns/op\n\
                    BenchmarkD 5\nBenchmarkD x 1 ns/op\n BenchmarkD 5 1 ns/op\n";
        let parsed = parse(text).expect("a result");
        assert_eq!(parsed.series.len(), 1);
        let [failed, printed] = parsed.notes.as_slice() else { panic!("{:?}", parsed.notes) };
        assert!(failed.starts_with("1 lines FAIL"), "{failed}");
        assert!(printed.contains("none: 4") && printed.ends_with(": BenchmarkD 5 1"));
        let error = parse("cpu: one\nBenchmarkA\ncpu: another\n").unwrap_err();
        assert!(error.line == 3 && error.what.contains("import the machines apart"), "{error}");
    }

    #[test]
    fn events_of_packages_are_taken_apart() {
        let event = |package: &str, output: &str| {
            format!("{{\"Action\":\"output\",\"Package\":\"{package}\",\"Output\":\"{output}\"}}\n")
        };
        let text = event("a/x", "BenchmarkA-2 \\t")
            + &event("b/x", "BenchmarkA-2 \\t 9\\t 7 ns/op\\n")
            + &event("a/x", " 9\\t 5 ns/op\\n")
            + &event("a/x", "PASS\\n");
        let mut parsed = parse(&text).expect("results");
        parsed.tell_apart();
        let found = parsed
            .series
            .iter()
            .map(|one| (one.id(), one.processes[one.processes.keys().next().unwrap()][0]));
        let expected = [("a_x.A-2", 5.0), ("b_x.A-2", 7.0)].map(|(id, ns)| (id.to_owned(), ns));
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }
}
