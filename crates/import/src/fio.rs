//! fio 3: the JSON of `--output-format=json` and `json+`. A file has one value of each number.

use std::collections::BTreeMap;

use fathom_record::{Fact, Params, Unit};
use jiff::Timestamp;
use serde::Deserialize;

use crate::json::{self, Number};
use crate::name;
use crate::parsed::{ParsedDate, ParsedKind, ParsedSeries};
use crate::{ParseError, Parsed};

#[derive(Deserialize)]
struct FioOutput {
    #[serde(rename = "fio version")]
    version: String,
    timestamp_ms: Option<i64>,
    #[serde(default, rename = "global options")]
    options: BTreeMap<String, String>,
    jobs: Vec<FioJob>,
}

#[derive(Deserialize)]
struct FioJob {
    jobname: String,
    #[serde(default)]
    error: i32,
    #[serde(default, rename = "job options")]
    options: BTreeMap<String, String>,
    read: Option<FioOperation>,
    write: Option<FioOperation>,
    trim: Option<FioOperation>,
}

#[derive(Deserialize)]
struct FioOperation {
    total_ios: u64,
    bw_bytes: Number,
    iops: Number,
    lat_ns: Latency,
    clat_ns: Option<Latency>,
}

#[derive(Deserialize)]
struct Latency {
    mean: Number,
    #[serde(default)]
    percentile: BTreeMap<String, Number>,
}

/// Those that are read, as fio writes them.
const PERCENTILES: [(&str, &str); 3] =
    [("50.000000", "50"), ("99.000000", "99"), ("99.900000", "99.9")];

pub(crate) fn parse(text: &str) -> Result<Parsed, ParseError> {
    // Warnings come first.
    let is_json = |line: &str| line.trim_start().starts_with('{');
    let before = text.lines().take_while(|line| !is_json(line)).count();
    let skipped = text.split_inclusive('\n').take(before).map(str::len).sum::<usize>();
    let rest = &text[skipped..];
    if rest.is_empty() {
        return Err(ParseError::new(1, "no JSON; run fio with --output-format=json"));
    }
    let output: FioOutput = json::read(rest, before)?;
    let version = output.version.trim_start_matches("fio-");
    if !version.starts_with("3.") {
        let what = format!("fio {version}; the output of fio 3 is read");
        return Err(ParseError::at_last(text, &output.version, what));
    }
    let date = output.timestamp_ms.and_then(|ms| Timestamp::from_millisecond(ms).ok());
    let mut parsed = Parsed {
        version: Some(version.to_owned()),
        date: date.map(|moment| ParsedDate { text: format!("{moment:.3}"), moment }),
        ..Parsed::default()
    };
    for job in &output.jobs {
        for one in job.series(&output.options) {
            let added = parsed.add_new(one, "run fio with --group_reporting, or name the jobs");
            added.map_err(|what| ParseError::at_last(text, &job.jobname, what))?;
        }
    }
    Ok(parsed)
}

impl FioJob {
    fn series(&self, global: &BTreeMap<String, String>) -> Vec<ParsedSeries> {
        let (title, id) = (name::title(&self.jobname), name::safe(&self.jobname));
        let mut all = Vec::new();
        for (op, operation) in [("read", &self.read), ("write", &self.write), ("trim", &self.trim)]
        {
            let Some(operation) = operation.as_ref().filter(|it| it.total_ios > 0) else {
                continue;
            };
            let params = Params::one("op", op);
            let mut one = |aspect: &str, params: &Params, kind, value: Number| {
                all.push(ParsedSeries::aspect(&title, &id, aspect, params, kind).with(0, value.0));
            };
            one("bw", &params, ParsedKind::rate(Unit::BytesPerSecond), operation.bw_bytes);
            one("iops", &params, ParsedKind::rate(Unit::PerSecond), operation.iops);
            one("lat", &params, ParsedKind::time(0), operation.lat_ns.mean);
            let percentiles = operation.clat_ns.as_ref().map(|latency| &latency.percentile);
            for (key, percentile) in PERCENTILES {
                if let Some(value) = percentiles.and_then(|it| it.get(key)) {
                    let params = params.clone().and("percentile", percentile);
                    one("clat", &params, ParsedKind::time(0), *value);
                }
            }
        }
        if all.is_empty() && self.error != 0 {
            all.push(ParsedSeries::new(&title, &id, &Params::none(), ParsedKind::NUMBER));
        }
        if all.is_empty() {
            return all;
        }
        let inherited = global.iter().filter(|(key, _)| !self.options.contains_key(*key));
        let mut words = Vec::new();
        let mut length = 0;
        for (key, value) in inherited.chain(&self.options) {
            // What comes after is not shown.
            if length > name::TITLE_CHARS_MAX {
                break;
            }
            let (key, value) = (name::title(key), name::title(value));
            words.push(if value.is_empty() { key } else { format!("{key}={value}") });
            length += words.last().map_or(0, String::len);
        }
        let options = name::title(&words.join(" "));
        for one in &mut all {
            one.facts.push(Fact::text("options", options.clone()));
            one.failure =
                (self.error != 0).then(|| format!("fio: error {} of the job", self.error));
        }
        all
    }
}
