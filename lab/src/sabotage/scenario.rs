//! What a sabotage is: something imposed on a run that the run must name.
//!
//! A new one implements [`Sabotage`] and stands in the list of `sabotage/mod.rs`.

use anyhow::Result;
use fathom_lab::Unmet;
use fathom_lab::group::Group;
use fathom_record::{Cause, Record, State};

use super::full_speed::FullSpeed;
use super::imposed::{GROUP, Imposed};
use super::program::{Launch, Seen};

/// One way to spoil a run.
pub(super) trait Sabotage {
    /// Its name in the table.
    fn name(&self) -> &'static str;
    /// Why it cannot be imposed here, if so.
    fn needs(&self) -> Result<(), Unmet>;
    /// The dose for a draw from 0 to 1.
    fn dose(&self, draw: f64) -> f64;
    /// The dose in words.
    fn in_words(&self, dose: f64) -> String;
    /// The metrics that are measured meanwhile, with spaces between them.
    fn metric(&self) -> &'static str;
    /// Imposes it, until the guard is dropped.
    fn impose(&self, dose: f64, cpu: u32, launch: &mut Launch) -> Result<Box<dyn Imposed>>;
    /// The causes that may stand first.
    fn causes(&self) -> &'static [Cause];
    /// The records that it touches, of those of the metric.
    fn touches(&self, _: &Record) -> bool {
        true
    }
    /// Why the runs show nothing, by those that were left alone, if so.
    fn shows(&self, _: &FullSpeed) -> Result<(), Unmet> {
        Ok(())
    }
    /// What must be so beside the cause: the truth in words, and whether it fits.
    fn truth(&self, seen: &Seen, alone: &FullSpeed, dose: f64) -> (String, bool);
}

/// A group with limits, and the launch inside it.
pub(super) fn around(
    launch: &mut Launch,
    controller: &str,
    limits: &[(&str, u64)],
) -> Result<Group> {
    let group = Group::new(controller, GROUP, limits)?;
    launch.before = group.words();
    Ok(group)
}

/// Whether all records that a sabotage touches are in a state.
pub(super) fn all_in(seen: &Seen, sabotage: &dyn Sabotage, state: State) -> bool {
    let mut touched = seen.of_metric(sabotage.metric()).filter(|record| sabotage.touches(record));
    let any = seen.of_metric(sabotage.metric()).any(|record| sabotage.touches(record));
    any && touched.all(|record| record.verdict.state == state)
}

/// Whether a tool can be called.
pub(super) fn tool(name: &str) -> Result<(), Unmet> {
    let asked = std::process::Command::new(name).arg("-V").output();
    asked.map(drop).map_err(|error| Unmet(format!("{name}: {error}")))
}

/// Whether this is root.
pub(super) fn root() -> Result<(), Unmet> {
    let is_root = rustix::process::geteuid().is_root();
    if is_root { Ok(()) } else { Err(Unmet("needs root".to_owned())) }
}
