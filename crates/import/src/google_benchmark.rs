//! Google Benchmark: the JSON of `--benchmark_format=json`. Repetitions are the rounds of the
//! process that printed the file.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use fathom_record::{Params, Unit};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, IntoDeserializer, MapAccess, Visitor};
use serde_json::Value;

use crate::json::{self, Number};
use crate::name::{self, ParsedName};
use crate::parsed::{ParsedCase, ParsedDate, ParsedKind, ParsedSeries};
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
struct RowFields {
    name: String,
    run_name: Option<String>,
    /// Since 1.5.
    run_type: Option<RunType>,
    aggregate_name: Option<String>,
    #[serde(default)]
    iterations: u64,
    real_time: Option<Number>,
    cpu_time: Option<Number>,
    #[serde(default)]
    time_unit: TimeUnit,
    error_message: Option<String>,
    skip_message: Option<String>,
    /// With the user's counters.
    #[serde(flatten)]
    more: BTreeMap<String, Value>,
}

struct GoogleBenchmarkRow {
    fields: RowFields,
    /// Counters that have the name of a field.
    twice: Vec<String>,
}

impl<'de> Deserialize<'de> for GoogleBenchmarkRow {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(RowVisitor)
    }
}

struct RowVisitor;

impl<'de> Visitor<'de> for RowVisitor {
    type Value = GoogleBenchmarkRow;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a benchmark")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<GoogleBenchmarkRow, A::Error> {
        let mut first = FirstOfEach { map, seen: BTreeSet::new(), twice: Vec::new() };
        let fields = RowFields::deserialize(MapAccessDeserializer::new(&mut first))?;
        Ok(GoogleBenchmarkRow { fields, twice: first.twice })
    }
}

/// The first field of each name: the library writes its own before the user's counters.
struct FirstOfEach<A> {
    map: A,
    seen: BTreeSet<String>,
    twice: Vec<String>,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for FirstOfEach<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        while let Some(key) = self.map.next_key::<String>()? {
            if self.seen.insert(key.clone()) {
                return seed.deserialize(key.into_deserializer()).map(Some);
            }
            self.map.next_value::<IgnoredAny>()?;
            self.twice.push(key);
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.map.next_value_seed(seed)
    }
}

#[derive(Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RunType {
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
const NO_RESULTS: [&str; 6] = [
    "family_index",
    "label",
    "per_family_instance_index",
    "repetitions",
    "repetition_index",
    "threads",
];
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

/// Of the names of aggregates, where nothing else says what they are: before 1.5.
const AGGREGATES: [&str; 5] = ["mean", "median", "stddev", "BigO", "RMS"];

pub(crate) fn parse(text: &str) -> Result<Parsed, ParseError> {
    let mut notes = Vec::new();
    let GoogleBenchmarkOutput { context, benchmarks } = json::read(text, &mut notes)?;
    let version = context.library_version.map(|it| it.trim_start_matches('v').to_owned());
    let date = context.date.as_deref().and_then(ParsedDate::parse);
    let (host, cpus) = (context.host_name, context.num_cpus);
    let mut parsed = Parsed { version, host, cpus, date, notes, ..Parsed::default() };
    if context.library_build_type.as_deref() == Some("debug") {
        parsed.notes.push("the library of Google Benchmark was a debug build".to_owned());
    }
    let names: BTreeSet<&str> = benchmarks.iter().map(|row| row.fields.name.as_str()).collect();
    let rows = || benchmarks.iter().map(|row| (row, row.fields.run(&names)));
    let of = |wanted: Option<&str>| -> BTreeSet<&str> {
        let found = rows().filter(|(_, (_, aggregate))| *aggregate == wanted);
        found.map(|(_, (name, _))| name).collect()
    };
    let (measured, with_median) = (of(None), of(Some("median")));
    for (row, (name, aggregate)) in rows() {
        let wanted = if with_median.contains(name) { "median" } else { "mean" };
        let is_wanted = !measured.contains(name) && aggregate == Some(wanted);
        if aggregate.is_some() && !is_wanted {
            continue;
        }
        let notes = row.twice.iter().map(|key| {
            let name = name::title(name);
            format!(
                "{name}: the counter `{}` has the name of a field and is left out",
                name::title(key)
            )
        });
        parsed.notes.extend(notes);
        let added = row
            .fields
            .series(name, aggregate)
            .and_then(|mut all| all.drain(..).try_for_each(|one| parsed.add(one)));
        added.map_err(|what| ParseError::at_last(text, &row.fields.name, what))?;
    }
    Ok(parsed)
}

impl RowFields {
    /// The name of what was run, and of the aggregate of its repetitions, if it is one.
    fn run<'r>(&'r self, names: &BTreeSet<&str>) -> (&'r str, Option<&'r str>) {
        let name = self.run_name.as_deref().unwrap_or(&self.name);
        let is_other = |base: &str| {
            let of_base = |aggregate: &str| names.contains(format!("{base}_{aggregate}").as_str());
            names.contains(base) || of_base("mean") && of_base("stddev")
        };
        let old = || {
            let (base, aggregate) = self.name.rsplit_once('_')?;
            let is_fit = ["big_o", "rms"].iter().any(|key| self.more.contains_key(*key));
            let is_known = AGGREGATES.contains(&aggregate) && (is_fit || is_other(base));
            is_known.then_some((base, Some(aggregate)))
        };
        match self.run_type {
            Some(RunType::Iteration) => (name, None),
            Some(RunType::Aggregate) => (name, Some(self.aggregate_name.as_deref().unwrap_or(""))),
            None => old().unwrap_or((name, None)),
        }
    }

    fn series(&self, name: &str, aggregate: Option<&str>) -> Result<Vec<ParsedSeries>, String> {
        let case = named(name);
        let mut first = case.series(self.time());
        if let Some(message) = self.error_message.as_deref().or(self.skip_message.as_deref()) {
            let message = Some(name::title(message));
            match self.error_message {
                Some(_) => first.failure = message,
                None => first.missing = message,
            }
            return Ok(vec![first]);
        }
        match self.real_time {
            Some(real) => first.push(0, real.0),
            None => first.missing = Some("the file has no `real_time` of it".to_owned()),
        }
        if self.more.len() > COUNTERS_MAX {
            return Err(format!("{} counters, at most {COUNTERS_MAX}", self.more.len()));
        }
        let mut all = vec![first];
        all.extend(self.cpu_time.map(|it| case.aspect("cpu_time", self.time()).with(0, it.0)));
        let counters = self.more.iter().filter(|(key, _)| !NO_RESULTS.contains(&key.as_str()));
        all.extend(counters.filter_map(|(key, value)| {
            let value = value.as_f64().or_else(|| json::not_finite(value.as_str()?))?;
            Some(case.aspect(key, kind_of(key)).with(0, value))
        }));
        for one in &mut all {
            one.batch = self.iterations.max(1);
            one.notes.extend(aggregate.map(|name| {
                format!("the {name} of the repetitions, which the file does not have")
            }));
        }
        Ok(all)
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
fn named(name: &str) -> ParsedCase {
    if name::is_long(name) {
        return ParsedCase::new(name, name::safe(name), Params::none());
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
    let ParsedName { id, mut params } = ParsedName::from_name(&kept.join("/"), ':');
    params.0.extend(arguments.0);
    ParsedCase::new(name, id, params)
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
            let ParsedCase { id: found, params, .. } = named(name);
            assert_eq!(format!("{found}{params}"), id);
        }
    }
}
