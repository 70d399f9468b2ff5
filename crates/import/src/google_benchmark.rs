//! Google Benchmark: the JSON of `--benchmark_format=json`. Repetitions are the rounds of the
//! process that printed the file.

use std::collections::{BTreeMap, BTreeSet};

use fathom_record::{Params, Unit};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use crate::json::{self, Number};
use crate::name::{self, ParsedName};
use crate::parsed::{ParsedDate, ParsedKind, ParsedSeries};
use crate::{ParseError, Parsed};

#[derive(Deserialize)]
struct GoogleBenchmarkOutput {
    context: Context,
    benchmarks: Vec<GoogleBenchmarkRow>,
}

#[derive(Deserialize)]
struct Context {
    date: Option<String>,
    host_name: Option<String>,
    num_cpus: Option<u32>,
    library_version: Option<String>,
    library_build_type: Option<String>,
}

#[derive(Deserialize)]
struct GoogleBenchmarkRow {
    name: String,
    run_name: Option<String>,
    #[serde(default)]
    run_type: RunType,
    aggregate_name: Option<String>,
    #[serde(default)]
    iterations: u64,
    real_time: Option<Number>,
    cpu_time: Option<Number>,
    #[serde(default)]
    time_unit: TimeUnit,
    error_message: Option<String>,
    /// With the user's counters.
    #[serde(flatten)]
    more: BTreeMap<String, Value>,
}

#[derive(Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RunType {
    #[default]
    Iteration,
    Aggregate,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum TimeUnit {
    #[default]
    Ns,
    Us,
    Ms,
    S,
}

/// User's counters of a row.
const COUNTERS_MAX: usize = 500;
/// Numbers of a row that are no results.
const NO_RESULTS: [&str; 5] =
    ["family_index", "per_family_instance_index", "repetitions", "repetition_index", "threads"];
/// Parts of a name that set how long is measured, or with which clock.
const SETTINGS: [&str; 7] = [
    "iterations:",
    "manual_time",
    "min_time:",
    "min_warmup_time:",
    "process_time",
    "real_time",
    "repeats:",
];

pub(crate) fn parse(text: &str) -> Result<Parsed, ParseError> {
    let GoogleBenchmarkOutput { context, benchmarks } = json::read(text, 0)?;
    let moment = context.date.as_ref().and_then(|it| it.parse::<Timestamp>().ok());
    let version = context.library_version.map(|it| it.trim_start_matches('v').to_owned());
    let mut parsed = Parsed {
        version,
        host: context.host_name,
        cpus: context.num_cpus,
        date: context.date.zip(moment).map(|(text, moment)| ParsedDate { text, moment }),
        ..Parsed::default()
    };
    if context.library_build_type.as_deref() == Some("debug") {
        parsed.notes.push("the library of Google Benchmark was a debug build".to_owned());
    }
    let is_run = |row: &&GoogleBenchmarkRow| row.run_type == RunType::Iteration;
    let measured: BTreeSet<&str> =
        benchmarks.iter().filter(is_run).map(GoogleBenchmarkRow::run_name).collect();
    let of = |row: &GoogleBenchmarkRow, aggregate: &str| {
        row.aggregate_name.as_deref() == Some(aggregate)
    };
    let with_median: BTreeSet<&str> = benchmarks
        .iter()
        .filter(|row| of(row, "median"))
        .map(GoogleBenchmarkRow::run_name)
        .collect();
    for row in &benchmarks {
        let name = row.run_name();
        let wanted = if with_median.contains(name) { "median" } else { "mean" };
        let is_wanted = is_run(&row) || !measured.contains(name) && of(row, wanted);
        for one in row.series().into_iter().filter(|_| is_wanted) {
            let added = one.and_then(|one| parsed.add(one));
            added.map_err(|what| ParseError::at_last(text, &row.name, what))?;
        }
    }
    Ok(parsed)
}

impl GoogleBenchmarkRow {
    fn run_name(&self) -> &str {
        self.run_name.as_ref().unwrap_or(&self.name)
    }

    fn series(&self) -> Vec<Result<ParsedSeries, String>> {
        let title = name::title(self.run_name());
        let ParsedName { id, params } = named(self.run_name());
        if let Some(message) = &self.error_message {
            let mut failed = ParsedSeries::new(&title, &id, &params, self.time());
            failed.failure = Some(name::title(message));
            return vec![Ok(failed)];
        }
        let Some(real) = self.real_time else { return vec![Err("no `real_time`".to_owned())] };
        if self.more.len() > COUNTERS_MAX {
            return vec![Err(format!("{} counters, at most {COUNTERS_MAX}", self.more.len()))];
        }
        let mut all = vec![ParsedSeries::new(&title, &id, &params, self.time()).with(0, real.0)];
        let aspect = |aspect: &str, kind, value| {
            ParsedSeries::aspect(&title, &id, aspect, &params, kind).with(0, value)
        };
        all.extend(self.cpu_time.map(|time| aspect("cpu_time", self.time(), time.0)));
        let counters = self.more.iter().filter(|(key, _)| !NO_RESULTS.contains(&key.as_str()));
        let numbers = counters.filter_map(|(key, value)| Some((key, value.as_f64()?)));
        for (key, value) in numbers {
            let kind = kind_of(key);
            let value = kind.checked(value).map_err(|why| format!("`{key}`: {value}: {why}"));
            match value {
                Ok(value) => all.push(aspect(key, kind, value)),
                Err(why) => return vec![Err(why)],
            }
        }
        for one in &mut all {
            one.batch = self.iterations.max(1);
            let aggregate = self.aggregate_name.iter();
            one.notes.extend(aggregate.map(|name| {
                format!("the {name} of the repetitions, which the file does not have")
            }));
        }
        all.into_iter().map(Ok).collect()
    }

    fn time(&self) -> ParsedKind {
        ParsedKind::time(match self.time_unit {
            TimeUnit::Ns => 0,
            TimeUnit::Us => 3,
            TimeUnit::Ms => 6,
            TimeUnit::S => 9,
        })
    }
}

/// What a counter is, by its name: a flag of the program decides what its number means.
fn kind_of(counter: &str) -> ParsedKind {
    match counter {
        "bytes_per_second" => ParsedKind::rate(Unit::BytesPerSecond),
        _ if counter.ends_with("_per_second") => ParsedKind::rate(Unit::PerSecond),
        _ => ParsedKind::NUMBER,
    }
}

/// `BM_x/64/threads:2` has the parameters `arg` and `threads`.
fn named(name: &str) -> ParsedName {
    if name::is_long(name) {
        return ParsedName::from_name(name, ':');
    }
    let is_setting = |part: &str| SETTINGS.iter().any(|it| part.starts_with(it));
    let (mut kept, mut arguments) = (Vec::new(), Params::none());
    for (at, part) in name.split('/').filter(|part| !is_setting(part)).enumerate() {
        if at > 0 && part.parse::<i64>().is_ok() {
            let place = match arguments.0.len() {
                0 => "arg".to_owned(),
                before => format!("arg{}", before + 1),
            };
            arguments = name::with(arguments, &place, part);
        } else {
            kept.push(part);
        }
    }
    let mut named = ParsedName::from_name(&kept.join("/"), ':');
    named.params.0.extend(arguments.0);
    named
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_of_a_benchmark_are_parameters() {
        for (name, id) in [
            ("BM_Sum", "BM_Sum"),
            ("BM_Sum/64/8/threads:2/real_time", "BM_Sum{arg=64,arg2=8,threads=2}"),
            ("Fixture/Copy/bytes:4096/min_time:0.080/repeats:5", "Fixture.Copy{bytes=4096}"),
            ("BM_x<std::vector<int>>/1", "BM_x_std_vector_int{arg=1}"),
        ] {
            let ParsedName { id: found, params } = named(name);
            assert_eq!(format!("{found}{params}"), id);
        }
    }
}
