//! A sabotage: a disturbance of a run that the run's records must name.

use anyhow::Result;
use fathom_lab::Unmet;
use fathom_lab::group::LabGroup;
use fathom_record::{Cause, Record, State};

use super::full_speed::FullSpeed;
use super::guard::{GROUP, Guard};
use super::program::{Launch, RunResult};

/// A kind of disturbance. All are listed in `sabotage.rs`.
#[derive(Clone, Copy)]
pub(super) struct Sabotage {
    pub(super) name: &'static str,
    /// The metrics to run, separated by spaces.
    pub(super) metric: &'static str,
    /// The causes that records may name first.
    pub(super) causes: &'static [Cause],
    /// Why it is not possible on this machine.
    pub(super) needs: fn() -> Result<(), Unmet>,
    /// The dose for a random number from 0 to 1.
    pub(super) dose: fn(f64) -> f64,
    pub(super) dose_text: fn(f64) -> String,
    /// Starts it on a CPU.
    pub(super) start: fn(f64, u32, &mut Launch) -> Result<Box<dyn Guard>>,
    /// Only records whose name contains one of these are affected; empty: all.
    pub(super) affected: &'static [&'static str],
    /// Why the undisturbed runs do not allow a judgement.
    pub(super) usable: fn(&FullSpeed) -> Result<(), Unmet>,
    /// What must also hold: a text, and whether it does. Arguments: the sabotage, the run, full
    /// speed as in undisturbed runs, the dose.
    pub(super) truth: fn(&Sabotage, &RunResult, &FullSpeed, f64) -> (String, bool),
}

impl Sabotage {
    /// Needs nothing and affects all records.
    pub(super) const BASE: Self = Self {
        name: "",
        metric: "cpu.call",
        causes: &[],
        needs: || Ok(()),
        dose: |_| 1.0,
        dose_text: |dose| dose.to_string(),
        start: |_, _, _| Ok(Box::new(super::guard::NoGuard)),
        affected: &[],
        usable: |_| Ok(()),
        truth: |_, _, _, _| (String::new(), true),
    };

    pub(super) fn affects(&self, record: &Record) -> bool {
        let name = record.name();
        // Huge pages do not form in smaller sets.
        let is_large = |bytes: i64| bytes >= 2 << 20;
        (self.affected.is_empty() || self.affected.iter().any(|part| name.contains(part)))
            && record.params.integer("set_bytes").is_none_or(is_large)
    }

    pub(super) fn affected_records<'r>(
        &'r self,
        run: &'r RunResult,
    ) -> impl Iterator<Item = &'r Record> {
        run.of_metric(self.metric).filter(|record| self.affects(record))
    }

    /// Whether there are affected records, all in this state.
    pub(super) fn all_in(&self, run: &RunResult, state: State) -> bool {
        self.affected_records(run).count() > 0
            && self.affected_records(run).all(|record| record.verdict.state == state)
    }
}

/// Launches the program in a new cgroup with these limits.
pub(super) fn in_group(
    launch: &mut Launch,
    controller: &str,
    limits: &[(&str, u64)],
) -> Result<LabGroup> {
    let group = LabGroup::new(controller, GROUP, limits)?;
    launch.before = group.words();
    Ok(group)
}

/// Whether a program is installed.
pub(super) fn tool(name: &str) -> Result<(), Unmet> {
    let output = std::process::Command::new(name).arg("-V").output();
    output.map(drop).map_err(|error| Unmet(format!("{name}: {error}")))
}

pub(super) fn root() -> Result<(), Unmet> {
    let is_root = rustix::process::geteuid().is_root();
    if is_root { Ok(()) } else { Err(Unmet("needs root".to_owned())) }
}

pub(super) fn strace() -> Result<(), Unmet> {
    fathom_lab::strace::obstacle().map_or(Ok(()), |why| Err(Unmet(why)))
}
