//! Where a run's files lie: what its plan needs, and what is said of it.

use fathom_measure::sampler::Files;
use fathom_metric::{Disk, Entry};

use super::super::disk_folder::{Folder, Place, Wanted, size};
use crate::arguments::RunArguments;
use crate::interrupt::Interrupt;
use fathom_engine::Plan;

/// Makes a place ready, where the plan has metrics that need one.
///
/// # Errors
/// Where the folder is not usable and metrics of files were asked for by name.
pub(super) fn prepare(
    arguments: &RunArguments,
    plan: &Plan,
    interrupt: &Interrupt,
) -> anyhow::Result<Place<Files>> {
    let Some((disk, must)) = needed(plan) else {
        return Ok(Place::none("no metric of this run needs files"));
    };
    let RunArguments { allow_memory, .. } = *arguments;
    let folder = arguments.folder.as_deref();
    let wanted = Wanted { folder, allow_memory, disk, must, done: "measured" };
    let mut what = Vec::new();
    if disk.large > 0 {
        what.push(format!("{} once", size(disk.large)));
    }
    if disk.own > 0 {
        what.push(format!("up to {} at a time", size(disk.own)));
    }
    Place::prepare(&wanted, &format!(": {}", what.join(", and ")), |parent| {
        let folder = Folder::new(parent, disk.large, interrupt)?;
        let files = folder.files();
        Ok((folder, files))
    })
}

/// The most that a probe of the plan takes, and whether such a probe was asked for.
fn needed(plan: &Plan) -> Option<(Disk, bool)> {
    let mut needed = None;
    for unit in &plan.units {
        let Entry::Probe(probe) = unit.entry else { continue };
        let Some(disk) = probe.needs().disk else { continue };
        let (so_far, asked) = needed.unwrap_or((Disk::default(), false));
        let most = Disk { large: so_far.large.max(disk.large), own: so_far.own.max(disk.own) };
        needed = Some((most, asked || !(unit.needed || plan.asked.is_empty())));
    }
    needed
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use fathom_probes::REGISTRY;
    use fathom_record::{Effort, Host, Protocol};

    use super::*;
    use crate::arguments::{Arguments, Command};

    fn prepared(words: &[&str], metrics: &[&str]) -> anyhow::Result<Place<Files>> {
        let words = ["fathom", "run"].iter().chain(words);
        let arguments = Arguments::try_parse_from(words).unwrap();
        let Command::Run(arguments) = arguments.command else { panic!("it is a run") };
        let metrics = metrics.iter().map(|name| (*name).to_owned()).collect();
        let plan =
            Plan::new(&REGISTRY, metrics, Effort::Quick, Protocol::Median, 1, &Host::default());
        prepare(&arguments, &plan.unwrap(), &Interrupt::listen().unwrap())
    }

    #[test]
    fn a_folder_that_does_not_do_ends_a_run_only_where_files_were_asked_for() {
        let folder = ["--folder", "/proc"];
        let plain = prepared(&folder, &[]).unwrap();
        assert!(plain.files.unwrap_err().reason.contains("proc keeps no files"));
        assert!(plain.said.unwrap().starts_with("No files are measured: /proc"));
        for metrics in [["file"], ["file.create"], ["file.call{call=read1}"]] {
            assert!(prepared(&folder, &metrics).is_err(), "{metrics:?}");
        }
        let none = prepared(&folder, &["cpu.clock.resolution"]).unwrap();
        assert_eq!(none.said, None, "nothing is written");
    }
}
