//! Limits of the user: `--limits` of run, show and check.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{ErrorKind, Read as _};
use std::path::Path;

use anyhow::{Context, anyhow, bail};
use fathom_analysis::limits::{self, LimitAnswer, LimitJudged, LimitJudgement, UserLimit};
use fathom_engine::{CaseSelector, nearest_of};
use fathom_probes::REGISTRY;
use fathom_record::{Activity, Document, Record, Unit, is_own, name, system_cause};

use crate::exit::{Status, UsageError};

/// A line of the file: all cases that it selects have the limit.
struct LimitEntry {
    cases: CaseSelector,
    /// In each unit that the metric may have: that of a metric outside the registry is in its
    /// records.
    limits: Vec<(Unit, UserLimit)>,
    written: String,
}

pub(super) struct CommandLimits(Vec<LimitEntry>);

/// The largest file of limits.
const BYTES_MAX: u64 = 1 << 20;

impl CommandLimits {
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        let failed = |error: std::io::Error| {
            let cause = system_cause(&error, Activity::Read);
            let remedy = match error.kind() {
                ErrorKind::NotFound => "; `fathom export --format limits -o FILE` writes one",
                _ => "",
            };
            anyhow!("open {shown}: {cause}{remedy}")
        };
        let facts = fs::metadata(path).map_err(failed)?;
        if !facts.is_file() {
            bail!("{shown}: not a regular file; write the limits into one");
        }
        let mut text = String::new();
        File::open(path)
            .and_then(|file| file.take(BYTES_MAX + 1).read_to_string(&mut text))
            .map_err(failed)?;
        if text.len() as u64 > BYTES_MAX {
            bail!("{shown}: larger than 1 MiB, the limit of such a file");
        }
        let entries =
            limits::entries(&text).map_err(UsageError).with_context(|| shown.to_string())?;
        if entries.is_empty() {
            bail!("{shown} has no limits; `fathom export --format limits` writes those of a run");
        }
        let entries = entries.iter().map(|(name, range)| entry(name, range));
        let entries = entries.collect::<Result<Vec<LimitEntry>, UsageError>>();
        let mut entries = entries.with_context(|| shown.to_string())?;
        // The limit of fewer cases is before that of more.
        entries.sort_by_key(|entry| Reverse(entry.cases.parameters()));
        let mut known = BTreeMap::new();
        let mut twice = entries
            .iter()
            .filter_map(|entry| Some((known.insert(entry.cases.key(), entry)?, entry)));
        if let Some((first, second)) = twice.next() {
            let [first, second] = [first, second].map(|entry| &entry.cases.text);
            let message = format!("{first} and {second} are the same cases; keep one of them");
            return Err(UsageError(message)).with_context(|| shown.to_string());
        }
        Ok(Self(entries))
    }

    pub(super) fn judgement(&self, document: &Document) -> LimitJudgement {
        let mut records: BTreeMap<&str, Vec<&Record>> = BTreeMap::new();
        for record in &document.records {
            records.entry(record.metric.as_str()).or_default().push(record);
        }
        let mut rows: BTreeMap<String, LimitJudged> = BTreeMap::new();
        for entry in &self.0 {
            let of_metric = records.get(entry.cases.name.as_str());
            for row in entry.judge(of_metric.map_or(&[], Vec::as_slice)) {
                rows.entry(row.name.clone()).or_insert(row);
            }
        }
        let rows = rows.into_values().collect();
        let (run, host) = (&document.run, document.host.name.clone());
        LimitJudgement::new([name(&run.id, run.label.as_deref()), host, run.started.clone()], rows)
    }
}

impl LimitEntry {
    /// `records`: those of its metric.
    fn judge(&self, records: &[&Record]) -> Vec<LimitJudged> {
        let Self { cases, limits, written } = self;
        let records = records.iter().copied().filter(|one| cases.selects(&one.params));
        let judged = |record: &Record| {
            let (_, limit) = limits.iter().find(|(unit, _)| *unit == record.unit)?;
            Some(limit.judge(record))
        };
        let mut rows: Vec<LimitJudged> = records.filter_map(judged).collect();
        if rows.is_empty() {
            let (unit, limit) = &limits[0];
            rows.push(limit.not_measured(&cases.text, *unit));
        }
        rows.iter_mut().for_each(|row| row.written.clone_from(written));
        rows
    }
}

fn entry(name: &str, range: &str) -> Result<LimitEntry, UsageError> {
    let wrong = |why: String| UsageError(format!("{name}: {why}"));
    let cases = CaseSelector::parse(name).map_err(|error| wrong(error.to_string()))?;
    if cases.name.contains('.') && is_own(&cases.name) {
        let parsed = Unit::ALL.map(|unit| UserLimit::parse(range, unit).map(|limit| (unit, limit)));
        let limits: Vec<(Unit, UserLimit)> = parsed.iter().flatten().copied().collect();
        return match limits.is_empty() {
            true => Err(wrong(UserLimit::parse(range, Unit::ALL[0]).err().unwrap_or_default())),
            false => Ok(LimitEntry { cases, limits, written: range.trim().to_owned() }),
        };
    }
    let ids = || REGISTRY.entries().iter().map(|entry| entry.about());
    let about = ids().find(|about| about.id == cases.name);
    let about = about.ok_or_else(|| {
        let in_group = |id: &&str| id.split_once('.').is_some_and(|(group, _)| group == cases.name);
        if let Some(first) = ids().map(|about| about.id).find(in_group) {
            return wrong(format!("is a group; a limit is of a metric, such as {first}"));
        }
        let nearest = nearest_of(&cases.name, ids().map(|about| about.id).collect());
        let nearest = if nearest.is_empty() { String::new() } else { format!("; {nearest}?") };
        wrong(format!("no such metric{nearest}"))
    })?;
    let limit = UserLimit::parse(range, about.unit).map_err(wrong)?;
    Ok(LimitEntry { cases, limits: vec![(about.unit, limit)], written: range.trim().to_owned() })
}

/// The exit status of kept, broken and undecided limits.
pub(super) fn status(answer: LimitAnswer) -> Status {
    match answer {
        LimitAnswer::Kept => Status::Success,
        LimitAnswer::NotKept => Status::Incomplete,
        LimitAnswer::Undecided => Status::Undecided,
    }
}
