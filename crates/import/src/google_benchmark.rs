//! Google Benchmark: the JSON of `--benchmark_format=json`. Repetitions are the rounds of the
//! process that printed the file.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use fathom_record::{Params, Unit};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, IntoDeserializer, MapAccess, Visitor};
use serde_json::Value;

use crate::json::{self, Number, Text};
use crate::name::{self, ParsedName};
use crate::parsed::{ParsedCase, ParsedDate, ParsedKind, ParsedSeries};
use crate::{ParseError, Parsed};

#[derive(Deserialize)]
struct GoogleBenchmarkOutput {
    #[serde(default)]
    context: Context,
    benchmarks: Vec<GoogleBenchmarkRow>,
}

#[derive(Default, Deserialize)]
struct Context {
    #[serde(default, deserialize_with = "json::if_valid")]
    date: Option<String>,
    #[serde(default, deserialize_with = "json::if_valid")]
    host_name: Option<String>,
    #[serde(default, deserialize_with = "json::if_valid")]
    num_cpus: Option<u32>,
    #[serde(default, deserialize_with = "json::if_valid")]
    library_version: Option<String>,
    #[serde(default, deserialize_with = "json::if_valid")]
    library_build_type: Option<String>,
}

#[derive(Deserialize)]
struct RowFields {
    #[serde(default)]
    name: Text,
    run_name: Option<Text>,
    /// Since 1.5.
    run_type: Option<Text>,
    aggregate_name: Option<Text>,
    iterations: Option<Number>,
    real_time: Option<Number>,
    cpu_time: Option<Number>,
    time_unit: Option<Text>,
    error_message: Option<Text>,
    skip_message: Option<Text>,
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
const AGGREGATES: [&str; 3] = ["mean", "median", "stddev"];
const FITS: [&str; 2] = ["BigO", "RMS"];

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
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    benchmarks.iter().for_each(|row| *names.entry(&row.fields.name.0).or_default() += 1);
    if let Some(count) = names.get("") {
        parsed.notes.push(format!("results without a name, which are left out: {count}"));
    }
    let named = || benchmarks.iter().filter(|row| !row.fields.name.0.is_empty());
    let rows = || named().map(|row| (row, row.fields.run(&names)));
    let of = |wanted: Option<&str>| -> BTreeSet<&str> {
        let found = rows().filter(|(_, (_, aggregate))| *aggregate == wanted);
        found.map(|(_, (name, _))| name).collect()
    };
    let (measured, with_median) = (of(None), of(Some("median")));
    let mut guessed: Vec<&str> = Vec::new();
    for (row, (name, aggregate)) in rows() {
        let wanted = if with_median.contains(name) { "median" } else { "mean" };
        let is_wanted = !measured.contains(name) && aggregate == Some(wanted);
        if aggregate.is_some() && !is_wanted {
            // Others say what they are.
            guessed.extend(row.fields.run_type.is_none().then_some(row.fields.name.0.as_str()));
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
        added.map_err(|what| ParseError::at_last(text, &row.fields.name.0, what))?;
    }
    if !guessed.is_empty() {
        let all = name::title(&guessed.join(", "));
        parsed.notes.push(format!("left out, by their names aggregates of other results: {all}"));
    }
    Ok(parsed)
}

impl RowFields {
    /// The name of what was run, and of the aggregate of its repetitions, if it is one.
    fn run<'r>(&'r self, names: &BTreeMap<&str, usize>) -> (&'r str, Option<&'r str>) {
        let text = |text: &'r Option<Text>| text.as_ref().map(|it| it.0.as_str());
        let name = text(&self.run_name).unwrap_or(&self.name.0);
        let is_other = |base: &str| {
            let has = |which: &&str| names.contains_key(format!("{base}_{which}").as_str());
            names.get(base).is_some_and(|rows| *rows > 1) || AGGREGATES.iter().all(has)
        };
        let old = || {
            let (base, aggregate) = self.name.0.rsplit_once('_')?;
            let is_fit = ["big_o", "rms"].iter().any(|key| self.more.contains_key(*key));
            let is_known = match FITS.contains(&aggregate) {
                true => is_fit,
                false => AGGREGATES.contains(&aggregate) && is_other(base),
            };
            is_known.then_some((base, Some(aggregate)))
        };
        match text(&self.run_type) {
            Some("aggregate") => (name, Some(text(&self.aggregate_name).unwrap_or(""))),
            Some(_) => (name, None),
            None => old().unwrap_or((name, None)),
        }
    }

    fn series(&self, name: &str, aggregate: Option<&str>) -> Result<Vec<ParsedSeries>, String> {
        let case = named(name);
        let time = self.time();
        let mut first = case.series(ParsedKind::time(time.unwrap_or_default()));
        if let Some(Text(message)) = self.error_message.as_ref().or(self.skip_message.as_ref()) {
            let message = Some(name::title(message));
            match self.error_message {
                Some(_) => first.failure = message,
                None => first.missing = message,
            }
            return Ok(vec![first]);
        }
        let is_run = |it: &&Text| !["iteration", "aggregate"].contains(&it.0.as_str());
        if let Some(Text(other)) = self.run_type.as_ref().filter(is_run) {
            first.missing = Some(name::title(&format!("unknown `run_type` `{other}`")));
            return Ok(vec![first]);
        }
        match self.real_time.filter(|_| time.is_some()) {
            Some(real) => first.push(0, real.0),
            None => {
                first.missing = Some(
                    self.unit_unknown()
                        .unwrap_or_else(|| "the file has no `real_time` of it".to_owned()),
                )
            }
        }
        if self.more.len() > COUNTERS_MAX {
            return Err(format!("{} counters, at most {COUNTERS_MAX}", self.more.len()));
        }
        let mut all = vec![first];
        let cpu_time = self.cpu_time.zip(time);
        all.extend(
            cpu_time
                .map(|(it, unit)| case.aspect("cpu_time", ParsedKind::time(unit)).with(0, it.0)),
        );
        let counters = self.more.iter().filter(|(key, _)| !NO_RESULTS.contains(&key.as_str()));
        all.extend(counters.filter_map(|(key, value)| {
            let value = value.as_f64().or_else(|| json::not_finite(value.as_str()?))?;
            Some(case.aspect(key, kind_of(key)).with(0, value))
        }));
        for one in &mut all {
            one.batch = self.iterations.map_or(1, |it| it.0 as u64).max(1);
            one.notes.extend(aggregate.map(|name| {
                format!("the {name} of the repetitions, which the file does not have")
            }));
        }
        Ok(all)
    }

    /// The unit of its times, as a power of ten of ns.
    fn time(&self) -> Option<i32> {
        let unit = self.time_unit.as_ref().map_or("ns", |unit| &unit.0);
        let known = [("ns", 0), ("us", 3), ("ms", 6), ("s", 9)];
        known.iter().find(|(name, _)| *name == unit).map(|(_, exponent)| *exponent)
    }

    fn unit_unknown(&self) -> Option<String> {
        let Text(unit) = self.time_unit.as_ref().filter(|_| self.time().is_none())?;
        Some(name::title(&format!("unknown `time_unit` `{unit}`")))
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
