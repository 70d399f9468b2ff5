//! The test files of a run: where they are, and how large.

use fathom_engine::Plan;
use fathom_measure::sampler::Files;
use fathom_metric::MetricDisk;

use super::super::scratch_folder::{RunFolder, ScratchFolderRequest, TestFiles, size};
use crate::arguments::RunArguments;
use crate::interrupt::Interrupt;

/// Creates the test files, if a metric of the plan needs any.
///
/// # Errors
/// If the folder is not usable and file metrics were requested by name.
pub(super) fn prepare(
    arguments: &RunArguments,
    plan: &Plan,
    interrupt: &Interrupt,
) -> anyhow::Result<TestFiles<Files>> {
    let Some((disk, required)) = needed(plan) else {
        return Ok(TestFiles::none("no metric of this run needs files"));
    };
    let request = ScratchFolderRequest {
        folder: arguments.folder.as_deref(),
        allow_memory: arguments.allow_memory,
        disk,
        required,
        subject: "File metrics",
    };
    let mut amounts = Vec::new();
    if disk.large > 0 {
        amounts.push(format!("{} once", size(disk.large)));
    }
    if disk.own > 0 {
        amounts.push(format!("up to {} at a time", size(disk.own)));
    }
    TestFiles::prepare(&request, &format!(": {}", amounts.join(", and ")), |parent| {
        let folder = RunFolder::new(parent, disk.large, interrupt)?;
        let files = folder.files();
        Ok((folder, files))
    })
}

/// The maximum that the probes of the plan need, and whether such a probe was requested by name.
fn needed(plan: &Plan) -> Option<(MetricDisk, bool)> {
    let mut needed = None;
    for unit in &plan.units {
        let Some(disk) = unit.entry.about().disk else { continue };
        let (so_far, requested) = needed.unwrap_or((MetricDisk::default(), false));
        let most =
            MetricDisk { large: so_far.large.max(disk.large), own: so_far.own.max(disk.own) };
        needed = Some((most, requested || !(unit.needed || plan.asked.is_empty())));
    }
    needed
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use fathom_probes::REGISTRY;
    use fathom_record::{Effort, Host, Protocol};

    use super::*;
    use crate::arguments::{Arguments, Subcommands};

    #[test]
    fn bad_folder_fails_only_if_files_were_requested() {
        let prepare = |metrics: &[&str]| {
            let line = Arguments::parse_from(["fathom", "run", "--folder", "/proc"]);
            let Subcommands::Run(arguments) = line.command else { panic!("not a run") };
            let names = metrics.iter().map(|name| (*name).to_owned()).collect();
            let (effort, protocol) = (Effort::Quick, Protocol::Median);
            let plan = Plan::new(&REGISTRY, names, effort, protocol, 1, &Host::default());
            prepare(&arguments, &plan.unwrap(), &Interrupt::listen().unwrap())
        };
        let everything = prepare(&[]).unwrap();
        assert!(everything.files.unwrap_err().reason.contains("/proc"));
        assert!(everything.announcement.unwrap().starts_with("File metrics are skipped: /proc"));
        for metric in ["file", "file.create", "file.call{call=read1}"] {
            assert!(prepare(&[metric]).is_err(), "{metric}");
        }
        let without_files = prepare(&["cpu.clock.resolution"]).unwrap();
        assert_eq!(without_files.announcement, None);
    }
}
