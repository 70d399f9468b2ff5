//! Limits of the user: `--limits` of run and show, and `fathom check`.

use std::fs;
use std::path::Path;

use anyhow::{Context, anyhow, bail};
use fathom_analysis::limits::{self, Answer, Judged, Judgement, Limit};
use fathom_engine::{CaseSelector, nearest_of};
use fathom_measure::clock;
use fathom_probes::REGISTRY;
use fathom_record::{Activity, Document, Unit, name, system_cause};

use super::stored_run;
use crate::arguments::CheckArguments;
use crate::exit::{Status, UsageError};
use crate::live::timestamp_of;
use crate::remedy;

/// A line of the file: all cases that it selects have the limit.
struct Entry {
    cases: CaseSelector,
    unit: Unit,
    limit: Limit,
}

pub(super) struct Limits(Vec<Entry>);

/// A larger file is none of limits.
const BYTES_MAX: u64 = 1 << 20;

impl Limits {
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        let text = fs::metadata(path)
            .and_then(|facts| match facts.len() > BYTES_MAX {
                true => Err(std::io::ErrorKind::FileTooLarge.into()),
                false => fs::read_to_string(path),
            })
            .map_err(|error| {
                let cause = system_cause(&error, Activity::Read);
                let remedy = match cause.remedy {
                    None => "; `fathom export --format limits -o FILE` writes one",
                    Some(_) => "",
                };
                anyhow!("open {shown}: {cause}{remedy}")
            })?;
        let entries =
            limits::entries(&text).map_err(UsageError).with_context(|| shown.to_string())?;
        if entries.is_empty() {
            bail!("{shown} has no limits; `fathom export --format limits` writes those of a run");
        }
        let entries = entries.iter().map(|(name, range)| entry(name, range));
        let entries = entries.collect::<Result<Vec<Entry>, UsageError>>();
        Ok(Self(entries.with_context(|| shown.to_string())?))
    }

    pub(super) fn judgement(&self, document: &Document) -> Judgement {
        let rows = self.0.iter().flat_map(|entry| entry.judge(document)).collect();
        let run = &document.run;
        Judgement::new(name(&run.id, run.label.as_deref()), run.started.clone(), rows)
    }
}

impl Entry {
    fn judge(&self, document: &Document) -> Vec<Judged> {
        let Self { cases, unit, limit } = self;
        let is_meant = |metric: &str| metric == cases.name;
        let records = document.records.iter();
        let records =
            records.filter(|one| is_meant(one.metric.as_str()) && cases.selects(&one.params));
        let rows: Vec<Judged> = records.map(|record| limit.judge(record)).collect();
        if rows.is_empty() { vec![limit.not_measured(&cases.text, *unit)] } else { rows }
    }
}

fn entry(name: &str, range: &str) -> Result<Entry, UsageError> {
    let wrong = |why: String| UsageError(format!("{name}: {why}"));
    let cases = CaseSelector::parse(name).map_err(|error| wrong(error.to_string()))?;
    let ids = || REGISTRY.entries().iter().map(|entry| entry.about());
    let about = ids().find(|about| about.id == cases.name);
    let about = about.ok_or_else(|| {
        let nearest = nearest_of(&cases.name, ids().map(|about| about.id).collect());
        let nearest = if nearest.is_empty() { String::new() } else { format!("; {nearest}?") };
        wrong(format!("no such metric{nearest}"))
    })?;
    let limit = Limit::parse(range, about.unit).map_err(wrong)?;
    Ok(Entry { cases, unit: about.unit, limit })
}

/// The exit status of kept, broken and undecided limits.
pub(super) fn status(judgement: &Judgement) -> Status {
    match judgement.answer {
        Answer::Kept => Status::Success,
        Answer::NotKept => Status::Incomplete,
        Answer::Undecided => Status::Undecided,
    }
}

/// `fathom check`: one line, and the exit status of a monitoring plugin. A failure is "unknown".
pub(super) fn check(arguments: &CheckArguments) -> anyhow::Result<Status> {
    let (text, status) = match health(arguments) {
        Ok(judgement) => {
            let state = match judgement.answer {
                Answer::Kept => 0,
                Answer::Undecided => 1,
                Answer::NotKept => 2,
            };
            (fathom_report::limits::health(&judgement), state)
        }
        Err(error) => (format!("FATHOM UNKNOWN - {}\n", remedy::line(&error)), 3),
    };
    match super::print_text(&text)? {
        Status::Success => Ok(Status::Health(status)),
        other => Ok(other),
    }
}

fn health(arguments: &CheckArguments) -> anyhow::Result<Judgement> {
    let limits = Limits::read(&arguments.limits)?;
    let run = match &arguments.run {
        Some(run) => run,
        None => stored_run::latest_battery(&arguments.store)?,
    };
    let document = stored_run::document(run, false, &arguments.store)?;
    if let Some(age) = arguments.max_age {
        let age_ns = u64::try_from(age.as_nanos()).unwrap_or(u64::MAX);
        let run = &document.run;
        if run.started < timestamp_of(clock::wall_ns().saturating_sub(age_ns)) {
            bail!("run {} is of {}, older than --max-age; `fathom run`", run.id, run.started);
        }
    }
    Ok(limits.judgement(&document))
}
