//! `fathom doctor`: whether this machine can be measured well. It changes and writes nothing.

use std::time::Duration;

use fathom_analysis::diagnosis::{Subject, diagnose, worst};
use fathom_measure::clock::Watch;
use fathom_measure::{condition, host};
use fathom_record::condition::StorePlace;
use fathom_record::diagnosis::{ClockState, DIAGNOSIS_SCHEMA_VERSION};
use fathom_record::{Condition, Diagnosis, Host, Severity};
use fathom_store::Store;

use super::{start, stored};
use crate::arguments::DoctorArguments;
use crate::exit::Status;
use crate::live::timestamp;

/// How long the CPUs are looked at. The kernel counts in steps of 10 ms.
const LOOK: Duration = Duration::from_millis(200);

pub(super) fn doctor(arguments: &DoctorArguments) -> anyhow::Result<Status> {
    let diagnosis = examine(arguments);
    let printed = super::print(arguments.json, &diagnosis, |layout| {
        fathom_report::doctor(&diagnosis, layout.width, arguments.all)
    });
    Ok(match (printed?, diagnosis.severity) {
        (Status::Done, Severity::Warning) => Status::Warned,
        (Status::Done, Severity::Severe) => Status::Severe,
        (printed, _) => printed,
    })
}

fn examine(arguments: &DoctorArguments) -> Diagnosis {
    let examined = timestamp();
    let host = host::read();
    let mut condition = condition::Reader::live().read(&host, LOOK);
    store(arguments, &mut condition);
    // Last: comparing the CPUs' counters makes them busy.
    let clock = clock(&host);
    let subject = Subject { host: &host, condition: &condition, clock: &clock };
    let findings = diagnose(&subject);
    Diagnosis {
        schema: DIAGNOSIS_SCHEMA_VERSION,
        tool: start::tool(),
        examined,
        severity: worst(&findings),
        findings,
        host,
        condition,
        clock,
    }
}

fn store(arguments: &DoctorArguments, condition: &mut Condition) {
    let (path, refused) = match stored::path(&arguments.store) {
        Ok(path) => {
            let refused = Store::examine(&path).err().map(|error| error.to_string());
            (path.display().to_string(), refused)
        }
        Err(error) => (String::new(), Some(error.to_string())),
    };
    condition.origin("store", "access(2)");
    condition.store = Some(StorePlace { path, refused });
}

fn clock(host: &Host) -> ClockState {
    match Watch::begin(host) {
        Ok(watch) => ClockState { facts: Some(watch.facts()), failure: None },
        Err(error) => ClockState { facts: None, failure: Some(error.to_string()) },
    }
}
