//! The text of Go benchmarks, which benchstat compares: a line for each process.

use std::collections::BTreeMap;

use fathom_record::{Better, Document, Host, Protocol, Record, Unit};

/// All numbers of these runs; a bound is none. Benchstat compares lines as independent values:
/// processes are, rounds are not.
pub fn go(documents: &[Document]) -> String {
    let records = || documents.iter().flat_map(|document| &document.records);
    let mut text = units(records().filter(|record| number(record).is_some()));
    for document in documents {
        text += &settings(&document.host);
        document.records.iter().for_each(|record| text += &lines(record));
    }
    text
}

fn number(record: &Record) -> Option<f64> {
    record.number(Protocol::Median)
}

/// Which direction of each unit is better, unless that differs between its metrics.
fn units<'r>(records: impl Iterator<Item = &'r Record>) -> String {
    let mut directions: BTreeMap<&str, Vec<Better>> = BTreeMap::new();
    records.for_each(|it| directions.entry(unit(it.unit)).or_default().push(it.better));
    let line = |(unit, of): (&str, Vec<Better>)| {
        let better = match of.iter().all(|it| *it == of[0]).then_some(of[0])? {
            Better::Lower => "lower",
            Better::Higher => "higher",
            Better::Neither => return None,
        };
        Some(format!("Unit {unit} better={better}\n"))
    };
    directions.into_iter().filter_map(line).collect()
}

/// What `go test` prints of a host. Benchstat compares only runs whose settings are equal.
fn settings(host: &Host) -> String {
    let architecture = match host.cpu.architecture.as_str() {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let settings = [("goos", "linux"), ("goarch", architecture), ("cpu", &host.cpu.model)];
    let known = settings.iter().filter(|(_, value)| !value.is_empty());
    known.map(|(key, value)| format!("{key}: {}\n", value.replace('\n', " "))).collect()
}

fn lines(record: &Record) -> String {
    let (Some(headline), Some(summary)) = (number(record), record.shown_summary()) else {
        return String::new();
    };
    let values = match summary.process_medians.as_slice() {
        [] => &[headline],
        medians => medians,
    };
    let (name, unit) = (name(record), unit(record.unit));
    values.iter().map(|value| format!("{name} 1 {value} {unit}\n")).collect()
}

/// `BenchmarkOs.syscall/call=stat`.
fn name(record: &Record) -> String {
    let metric = record.metric.as_str();
    let first = metric.chars().take(1).flat_map(char::to_uppercase);
    let mut name: String = "Benchmark".chars().chain(first).chain(metric.chars().skip(1)).collect();
    for (key, value) in &record.params.0 {
        name += &format!("/{key}={value}");
    }
    name.replace(char::is_whitespace, "_")
}

fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Nanoseconds => "ns/op",
        Unit::Bytes => "B",
        Unit::BytesPerSecond => "B/s",
        Unit::PerSecond => "op/s",
        Unit::Hertz => "Hz",
        Unit::Ratio => "ratio",
    }
}

#[cfg(test)]
mod tests {
    use fathom_record::{MetricId, Params, State, Summary};

    use super::*;

    fn record(id: &str, unit: Unit, better: Better, medians: &[f64]) -> Record {
        let params = Params::one("call", "a b");
        let record = Record::new(MetricId::new(id), params, "", unit, better);
        let process_medians = medians.to_vec();
        let summary = Summary { median: 2.5, process_medians, ..Summary::default() };
        Record { summary: Some(summary), ..record }
    }

    #[test]
    fn each_process_has_a_line() {
        let time = record("os.syscall", Unit::Nanoseconds, Better::Lower, &[2.0, 3.0]);
        let rate = record("file.read", Unit::BytesPerSecond, Better::Higher, &[]);
        assert_eq!(
            lines(&time),
            "BenchmarkOs.syscall/call=a_b 1 2 ns/op\nBenchmarkOs.syscall/call=a_b 1 3 ns/op\n"
        );
        assert_eq!(lines(&rate), "BenchmarkFile.read/call=a_b 1 2.5 B/s\n");
        let mut invalid = time.clone();
        invalid.verdict.state = State::Invalid;
        assert_eq!(lines(&invalid), "");
        assert_eq!(
            units([&time, &rate].into_iter()),
            "Unit B/s better=higher\nUnit ns/op better=lower\n"
        );
        let neither = record("x.y", Unit::Nanoseconds, Better::Neither, &[]);
        assert_eq!(units([&time, &neither].into_iter()), "");
    }
}
