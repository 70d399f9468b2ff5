//! One run of the files of one tool.

use std::collections::HashMap;

use fathom_analysis::judge::{Expectation, judge};
use fathom_analysis::statistics;
use fathom_record::measured_by::NAME;
use fathom_record::plausible::VISIT;
use fathom_record::run::ClockFacts;
use fathom_record::{
    Cause, Counters, Document, Effort, Fact, Host, MeasuredBy, MetricId, Reason, Record, Run,
    SCHEMA_VERSION, Sample, State, Summary, Tool, Verdict, escaped,
};
use jiff::Timestamp;

use crate::parsed::ParsedSeries;
use crate::{Format, Parsed};

/// An interval of this half width or more, relative, is wide: no tool states a limit of its own.
const NOISE_LIMIT: f64 = 0.1;
/// The host of files that do not name theirs.
const UNKNOWN: &str = "unknown";

/// A file with its name.
#[derive(Debug)]
pub struct DocumentSource {
    pub name: String,
    pub parsed: Parsed,
}

/// What the files do not say.
#[derive(Debug)]
pub struct DocumentAbout {
    pub format: Format,
    /// The program that imports.
    pub tool: Tool,
    pub label: Option<String>,
    /// The host that measured, if the user names it.
    pub host: Option<String>,
    /// When the files were written; it stands for a date that they lack.
    pub written: Timestamp,
}

/// Why files are not of one run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Conflict {
    #[error("{a} is of {what} {of_a} and {b} of {of_b}; import them apart")]
    Origin { what: &'static str, a: String, of_a: String, b: String, of_b: String },
    #[error("{b}: {why}")]
    Series { b: String, why: String },
    #[error("{a} and {b} are the same measurement; name it once")]
    Same { a: String, b: String },
    #[error("no file")]
    Nothing,
}

/// One run of files: the processes of each are processes of the run, in the order of the files.
///
/// # Errors
/// If they are of several hosts, CPUs or versions of the tool, disagree on a unit, or two have the
/// same text: one process counted twice would narrow every interval.
pub fn document(sources: &[DocumentSource], about: &DocumentAbout) -> Result<Document, Conflict> {
    let version = one_origin(sources, "version", |parsed| parsed.version.as_deref())?;
    let host = match &about.host {
        Some(name) => Some(name.as_str()),
        None => one_origin(sources, "host", |parsed| parsed.host.as_deref())?,
    };
    let cpu = one_origin(sources, "CPU", |parsed| parsed.cpu.as_deref())?;
    for (at, b) in sources.iter().enumerate() {
        let same = sources[..at].iter().find(|a| a.parsed.checksum == b.parsed.checksum);
        if let Some(a) = same {
            return Err(Conflict::Same { a: a.name.clone(), b: b.name.clone() });
        }
    }
    let merged = merged(sources)?;
    let first = &sources.first().ok_or(Conflict::Nothing)?.parsed;
    let dates = sources.iter().filter_map(|source| source.parsed.date.as_ref());
    let date = dates.min_by_key(|date| date.moment);
    let started = date.map_or(about.written, |date| date.moment);
    let id = run_id(started, sources);
    let measured_by = MeasuredBy {
        tool: about.format.name().to_owned(),
        version: version.map(printable),
        host: host.map(printable),
        date: date.map(|date| printable(&date.text)),
    };
    let name = measured_by.host.clone().unwrap_or_else(|| UNKNOWN.to_owned());
    let mut facts = Host { name, ..Host::default() };
    facts.cpu.model = cpu.map(printable).unwrap_or_default();
    facts.cpu.logical = first.cpus.unwrap_or_default();
    facts.cpu.architecture = first.architecture.as_deref().map(printable).unwrap_or_default();
    let make = |series: &ParsedSeries| record(series, &measured_by, &id);
    let records: Vec<Record> = merged.series.iter().map(make).collect();
    let names: Vec<&str> = sources.iter().map(|source| source.name.as_str()).collect();
    let command = format!("import {}", about.format.name());
    let run = Run {
        id: id.clone(),
        label: about.label.clone(),
        started: format!("{started:.3}"),
        effort: Effort::Quick,
        asked: vec![format!("{command} {}", names.join(" "))],
        procedure: Some(command),
        planned: records.len() as u64,
        cpu_reason: "not recorded".to_owned(),
        clock: ClockFacts { source: UNKNOWN.to_owned(), ..ClockFacts::default() },
        notes: merged.notes,
        ..Run::default()
    };
    let tool = about.tool.clone();
    let (schema, far) = (SCHEMA_VERSION, Vec::new());
    Ok(Document { schema, tool, run, host: facts, far, records })
}

/// A text of a file without what is hidden on a screen, and no longer than a host name of DNS.
fn printable(text: &str) -> String {
    const BYTES_MAX: usize = 253;
    let mut left = BYTES_MAX + 1;
    let fits = |letter: &char| {
        left = left.saturating_sub(letter.len_utf8());
        left > 0
    };
    escaped(text).chars().take_while(fits).collect()
}

/// What all files that say it say; an error if two differ.
fn one_origin<'s>(
    sources: &'s [DocumentSource],
    what: &'static str,
    of: impl Fn(&'s Parsed) -> Option<&'s str>,
) -> Result<Option<&'s str>, Conflict> {
    let mut known: Option<(&DocumentSource, &str)> = None;
    for source in sources {
        let Some(text) = of(&source.parsed) else { continue };
        match known {
            Some((first, of_first)) if of_first != text => {
                return Err(Conflict::Origin {
                    what,
                    a: first.name.clone(),
                    of_a: of_first.to_owned(),
                    b: source.name.clone(),
                    of_b: text.to_owned(),
                });
            }
            _ => known = known.or(Some((source, text))),
        }
    }
    Ok(known.map(|(_, text)| text))
}

/// All series, with the processes of each file after those of the files before it.
fn merged(sources: &[DocumentSource]) -> Result<Parsed, Conflict> {
    let mut merged = Parsed::default();
    let mut before = 0;
    for source in sources {
        for series in &source.parsed.series {
            let later = |(process, values): (&usize, &Vec<f64>)| (before + process, values.clone());
            let processes = series.processes.iter().map(later).collect();
            let added = merged.add(ParsedSeries { processes, ..series.clone() });
            added.map_err(|why| Conflict::Series { b: source.name.clone(), why })?;
        }
        let notes = source.parsed.notes.iter();
        merged.notes.extend(notes.map(|note| format!("{}: {note}", source.name)));
        let last = source.parsed.series.iter().filter_map(|one| one.processes.keys().next_back());
        before += last.max().map_or(0, |last| last + 1);
    }
    merged.tell_apart();
    // The cases of a metric together, as views show them.
    let mut first = HashMap::new();
    for series in &merged.series {
        let next = first.len();
        first.entry(series.id()).or_insert(next);
    }
    merged.series.sort_by_key(|series| first.get(&series.id()).copied());
    Ok(merged)
}

/// Milliseconds since 1970, as of other runs, and a checksum of the files: the same files give the
/// same run.
fn run_id(started: Timestamp, sources: &[DocumentSource]) -> String {
    let mut hash = crc32fast::Hasher::new();
    sources.iter().for_each(|source| hash.update(&source.parsed.checksum.to_le_bytes()));
    let (ms, low) = (started.as_millisecond().max(0), hash.finalize() & 0xffff);
    format!("{ms:012x}{low:04x}")
}

fn record(series: &ParsedSeries, measured_by: &MeasuredBy, run: &str) -> Record {
    let metric = MetricId::new(format!("import.{}.{}", measured_by.tool, series.id()));
    let (case, kind) = (&series.case, series.kind);
    let mut record =
        Record::new(metric, case.params.clone(), &series.title(), kind.unit, kind.better);
    record.visit = format!("{run}/{}", record.name());
    record.measured_by = Some(measured_by.clone());
    record.facts.clone_from(&series.facts);
    if case.name != case.title {
        // Quantities of one benchmark are not one another.
        let aspect = series.aspect.as_ref();
        let whole = aspect.map_or(case.name.clone(), |aspect| format!("{}: {aspect}", case.name));
        record.facts.push(Fact::text(NAME, whole));
    }
    let words = case.configuration.iter().map(|(key, value)| format!("{key}={value}"));
    let words = words.collect::<Vec<_>>().join(" ");
    // Options of a job are a fact of their own.
    let is_new = !words.is_empty() && record.text_of("options").is_none();
    record.facts.extend(is_new.then(|| Fact::text("configuration", words)));
    record.notes.clone_from(&series.notes);
    let samples: Vec<Sample> = series
        .processes
        .iter()
        .map(|(process, values)| Sample {
            process: *process as u32,
            batch: if VISIT.contains(&series.batch) { series.batch } else { 1 },
            values: values.clone(),
            values_per_round: 1,
            ..Sample::default()
        })
        .collect();
    let left_out = series.left_out.as_ref();
    if let Some(failure) = &series.failure {
        record.verdict = Verdict::because(State::Failed, Cause::Crashed, failure.clone());
    } else if let Some(summary) = statistics::summarise(&samples) {
        record.verdict = match kind.unit.takes(summary.median) {
            true => verdict(&samples, &summary, series),
            false => {
                let text = format!("{} {} in the file", summary.median, kind.unit.symbol());
                Verdict::because(State::Unavailable, Cause::TooShort, text)
            }
        };
        record.verdict.reasons.extend(left_out.map(|(count, why)| {
            let all = count + summary.n as usize;
            let text = format!("left out {count} of {all} values, the first with {why}");
            Reason::new(Cause::WrongWork, text)
        }));
        record.summary = Some(summary);
    } else {
        let why = left_out.map(|(_, why)| why.clone());
        let why = series.missing.clone().or(why).unwrap_or_else(|| "no value in the file".into());
        record.verdict = Verdict::because(State::Unavailable, Cause::MissingInput, why);
    }
    if let Some(doubt) = &series.doubt {
        let verdict = &mut record.verdict;
        verdict.state = if verdict.state == State::Valid { State::Noisy } else { verdict.state };
        verdict.reasons.push(Reason::new(Cause::WrongWork, doubt));
    }
    let remark = series.remark.as_ref().map(|text| Reason::new(Cause::WrongWork, text));
    record.verdict.reasons.extend(remark);
    record.samples = Some(samples);
    record.sealed()
}

/// By the values alone: the files have no counters.
fn verdict(samples: &[Sample], summary: &Summary, series: &ParsedSeries) -> Verdict {
    let better = series.kind.better;
    let expectation = Expectation { expects: Counters::NONE, noise_limit: NOISE_LIMIT, better };
    let mut verdict = judge(samples, summary, expectation, None);
    for reason in &mut verdict.reasons {
        // Those are options of a measurement here.
        reason.remedy = None;
        if reason.cause == Cause::Spread {
            reason.text =
                format!("wide interval of {} values; the file has no counters", summary.n);
        }
    }
    verdict
}
