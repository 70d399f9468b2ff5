//! `fathom doctor`: whether this machine is ready to be measured. It changes nothing, but tries
//! remedies if it is asked to.

mod trial;

use std::path::Path;
use std::time::Duration;

use fathom_analysis::diagnosis::{Subject, diagnose, expect_busy, rules, worst};
use fathom_measure::clock::CalibrationWatch;
use fathom_measure::{condition, host};
use fathom_record::condition::StorePlace;
use fathom_record::diagnosis::{ClockState, DIAGNOSIS_SCHEMA_VERSION};
use fathom_record::{Condition, Diagnosis, Host, Severity};
use fathom_report::LastRun;
use fathom_store::Store;

use super::{export, output_file, setup, stored_run};
use crate::arguments::DoctorArguments;
use crate::exit::{Status, UsageError, usage_error};
use crate::live::timestamp;
use crate::remedy;

/// How long CPU load is sampled. The kernel counts in steps of 10 ms.
const LOAD_WINDOW: Duration = Duration::from_millis(200);

pub(super) fn doctor(arguments: &DoctorArguments) -> anyhow::Result<Status> {
    trial::check_names(arguments.tried.as_deref().unwrap_or_default())?;
    let restored = trial::recover(arguments)?;
    if arguments.undo {
        return Ok(restored);
    }
    if arguments.list {
        return super::print_text(&trial::list());
    }
    if let Some(names) = &arguments.tried {
        return trial::try_remedies(arguments, names);
    }
    arguments.only.iter().chain(&arguments.ignore).try_for_each(|name| check_rule(name))?;
    let output = arguments.output.as_deref();
    if output == Some(Path::new("-")) {
        usage_error!("--output -: `--json` prints the document to standard output");
    }
    let check = |path| output_file::check(path, arguments.force, &export::REPLACEABLE);
    let output = output.map(check).transpose()?.flatten();
    let diagnosis = examine(arguments);
    if let Some(path) = output {
        output_file::write(&path, fathom_report::json(&diagnosis))?;
    }
    let printed = match arguments.openmetrics {
        true => super::print_text(&fathom_report::export::findings(&diagnosis)),
        // It has a schema of its own.
        false if arguments.json => super::print_text(&fathom_report::json(&diagnosis)),
        false => super::print(false, &diagnosis, |layout| {
            let is_whole = arguments.only.is_empty() && arguments.ignore.is_empty();
            let last_run = last_run(arguments).filter(|_| is_whole);
            let how = (layout.width, arguments.all, is_whole);
            let tried = trial::tried(arguments, &diagnosis);
            fathom_report::doctor(&diagnosis, how, last_run.as_ref(), &tried)
        }),
    };
    Ok(match (printed?, diagnosis.severity) {
        (Status::Success, Severity::Warning) => Status::Warning,
        (Status::Success, Severity::Severe) => Status::Severe,
        (printed, _) => printed,
    })
}

/// What the last run of all metrics says of this machine, if there is one that can be read.
fn last_run(arguments: &DoctorArguments) -> Option<LastRun> {
    let store = stored_run::open_store(&arguments.store).ok()?;
    let found = store.find(stored_run::BATTERY, Some(host::read().identity())).ok()?;
    let whole = found.instead.is_none().then_some(found.id)?;
    Some(LastRun::from_document(&stored_run::of_store(&store, &whole, false).ok()?))
}

fn examine(arguments: &DoctorArguments) -> Diagnosis {
    let examined = timestamp();
    let host = host::read();
    let mut condition = condition::Reader::live().read(&host, LOAD_WINDOW);
    examine_store(arguments, &mut condition);
    // After the load was sampled: comparing the counters of the CPUs makes them busy.
    let clock = examine_clock(&host);
    let mut findings = diagnose(&Subject { host: &host, condition: &condition, clock: &clock });
    let is_named = |names: &[String], id: &String| names.contains(id);
    findings.retain(|one| arguments.only.is_empty() || is_named(&arguments.only, &one.id));
    findings.retain(|one| !is_named(&arguments.ignore, &one.id));
    if arguments.expect_busy {
        expect_busy(&mut findings);
    }
    Diagnosis {
        schema: DIAGNOSIS_SCHEMA_VERSION,
        tool: setup::tool(),
        examined,
        severity: worst(&findings),
        findings,
        host,
        condition,
        clock,
    }
}

/// Fails for the name of no rule.
fn check_rule(name: &str) -> Result<(), UsageError> {
    let names: Vec<&str> = rules().map(|rule| rule.id).collect();
    if names.contains(&name) {
        return Ok(());
    }
    let nearest = fathom_engine::nearest_of(name, names);
    let remedy = remedy::did_you_mean(&nearest, "`fathom doctor --all` lists all rules");
    Err(UsageError(format!("no rule is called `{name}`; {remedy}")))
}

fn examine_store(arguments: &DoctorArguments, condition: &mut Condition) {
    let (path, refused) = match stored_run::store_place(&arguments.store) {
        Ok(place) => {
            let refused = Store::examine(&place).err().map(|error| error.to_string());
            (place.to_string(), refused)
        }
        Err(error) => (String::new(), Some(error.to_string())),
    };
    condition.origin("store", "access(2)");
    condition.store = Some(StorePlace { path, refused });
}

fn examine_clock(host: &Host) -> ClockState {
    match CalibrationWatch::begin(host) {
        Ok(watch) => ClockState { facts: Some(watch.facts()), failure: None },
        Err(error) => ClockState { facts: None, failure: Some(error.to_string()) },
    }
}
