//! fio 3: the JSON of `--output-format=json` and `json+`. A file has one value of each number.

use std::collections::BTreeMap;

use fathom_record::{Fact, Params, Unit};
use jiff::Timestamp;
use serde::Deserialize;

use crate::json::{self, Number, Text};
use crate::name;
use crate::parsed::{ParsedCase, ParsedDate, ParsedKind, ParsedSeries};
use crate::{ParseError, Parsed};

#[derive(Deserialize)]
struct FioOutput {
    #[serde(rename = "fio version")]
    version: String,
    #[serde(default, deserialize_with = "json::if_valid")]
    timestamp_ms: Option<i64>,
    #[serde(default, rename = "global options", deserialize_with = "json::if_valid")]
    options: BTreeMap<String, Text>,
    /// Of `--client` each has its host, and the last is of all.
    #[serde(default, alias = "client_stats")]
    jobs: Vec<FioJob>,
}

#[derive(Deserialize)]
struct FioJob {
    #[serde(default)]
    jobname: Text,
    hostname: Option<Text>,
    #[serde(default, deserialize_with = "json::if_valid")]
    error: i64,
    #[serde(default, rename = "job options", deserialize_with = "json::if_valid")]
    options: BTreeMap<String, Text>,
    read: Option<FioOperation>,
    write: Option<FioOperation>,
    trim: Option<FioOperation>,
}

#[derive(Deserialize)]
struct FioOperation {
    total_ios: Number,
    /// In KiB/s, rounded.
    bw: Option<Number>,
    /// Since fio 3.2.
    bw_bytes: Option<Number>,
    iops: Number,
    /// Since fio 3.0.
    lat_ns: Option<Latency>,
    clat_ns: Option<Latency>,
}

#[derive(Deserialize)]
struct Latency {
    mean: Number,
    #[serde(default, deserialize_with = "json::if_valid")]
    percentile: BTreeMap<String, Number>,
}

/// Those that are read, as fio writes them.
const PERCENTILES: [(&str, &str); 3] =
    [("50.000000", "50"), ("99.000000", "99"), ("99.900000", "99.9")];

/// Of a job, with those of the file.
const OPTIONS_MAX: usize = 200;

pub(crate) fn parse(text: &str) -> Result<Parsed, ParseError> {
    let mut notes = Vec::new();
    let output: FioOutput = json::read(text, &mut notes)?;
    let version = output.version.trim_start_matches("fio-");
    if !version.starts_with("3.") {
        let what = format!("fio {version}; the output of fio 3 is read");
        return Err(ParseError::at_last(text, &output.version, what));
    }
    let date = output.timestamp_ms.and_then(|ms| Timestamp::from_millisecond(ms).ok());
    let mut parsed = Parsed {
        version: Some(version.to_owned()),
        date: date.map(|moment| ParsedDate { text: format!("{moment:.3}"), moment }),
        notes,
        ..Parsed::default()
    };
    let is_one = |job: &&FioJob| job.hostname.is_none() || job.jobname.0 != "All clients";
    for job in output.jobs.iter().filter(is_one) {
        let case = job.case(&output.options);
        // Jobs of one name are processes of `numjobs`.
        let block = parsed.block(&case);
        for one in job.series(&case, block) {
            let added = parsed.add(one);
            added.map_err(|what| ParseError::at_last(text, &job.jobname.0, what))?;
        }
    }
    let several = parsed.series.iter().find(|one| one.processes.len() > 1);
    let note = several.map(|one| {
        let (count, name) = (one.processes.len(), &one.case.title);
        format!("{count} jobs are named {name}: each is a process, and the numbers are of one job")
    });
    parsed.notes.extend(note);
    Ok(parsed)
}

impl FioJob {
    /// Jobs of one name are one case only if all their options are the same.
    fn case(&self, global: &BTreeMap<String, Text>) -> ParsedCase {
        let Self { jobname: Text(name), options, .. } = self;
        let mut case = ParsedCase::new(name, name::safe(name), Params::none());
        let (global, own) = (global.iter().take(OPTIONS_MAX), options.iter().take(OPTIONS_MAX));
        // Those of the job replace those of the file.
        let all: BTreeMap<&String, &Text> = global.chain(own).collect();
        let (mut length, mut rest) = (0, crc32fast::Hasher::new());
        for (key, Text(value)) in all {
            length += key.len() + value.len();
            match length <= name::TITLE_CHARS_MAX {
                true => {
                    case.configuration.insert(name::title(key), name::title(value));
                }
                false => rest.update(format!("{key}={value} ").as_bytes()),
            }
        }
        // Of many, those that are not shown tell jobs apart, too.
        if length > name::TITLE_CHARS_MAX {
            let checksum = format!("{:08x}", rest.finalize());
            case.configuration.insert("more".to_owned(), checksum);
        }
        self.hostname.iter().fold(case, |case, Text(host)| ParsedCase {
            name: format!("{} on {host}", case.name),
            ..case.and("client", host)
        })
    }

    fn series(&self, case: &ParsedCase, block: usize) -> Vec<ParsedSeries> {
        let mut all = Vec::new();
        for (op, operation) in [("read", &self.read), ("write", &self.write), ("trim", &self.trim)]
        {
            let Some(operation) = operation.as_ref().filter(|it| it.total_ios.0 != 0.0) else {
                continue;
            };
            let case = case.and("op", op);
            let mut one = |aspect: &str, case: &ParsedCase, kind, value: Option<Number>| {
                all.extend(value.map(|value| case.aspect(aspect, kind).with(block, value.0)));
            };
            let bw = operation.bw_bytes.or(operation.bw.map(|kib| Number(kib.0 * 1024.0)));
            one("bw", &case, ParsedKind::rate(Unit::BytesPerSecond), bw);
            one("iops", &case, ParsedKind::rate(Unit::PerSecond), Some(operation.iops));
            let lat = operation.lat_ns.as_ref().map(|latency| latency.mean);
            one("lat", &case, ParsedKind::time(0), lat);
            let percentiles = operation.clat_ns.as_ref().map(|latency| &latency.percentile);
            for (key, percentile) in PERCENTILES {
                let value = percentiles.and_then(|it| it.get(key));
                let case = case.and("percentile", percentile);
                one("clat", &case, ParsedKind::time(0), value.copied());
            }
        }
        if all.is_empty() && self.error != 0 {
            all.push(case.series(ParsedKind::NUMBER));
        }
        if all.is_empty() {
            return all;
        }
        let words = case.configuration.iter().map(|(key, value)| match value.is_empty() {
            true => key.clone(),
            false => format!("{key}={value}"),
        });
        let options = name::title(&words.collect::<Vec<_>>().join(" "));
        for one in &mut all {
            one.facts.push(Fact::text("options", options.clone()));
            one.failure =
                (self.error != 0).then(|| format!("fio: error {} of the job", self.error));
        }
        all
    }
}
