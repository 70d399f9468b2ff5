//! Where a run's files lie: what its plan needs, and what is said of it.

use fathom_measure::sampler::Files;
use fathom_metric::{Disk, Entry};

use super::super::disk_folder::{Folder, Obstacle, chosen, has_room, size};
use crate::arguments::RunArguments;
use crate::exit::Usage;
use crate::interrupt::Interrupt;
use fathom_engine::Plan;

/// A place for the files of a run, which goes with this.
pub(super) struct Place {
    /// For the workers.
    pub(super) files: Result<Files, String>,
    /// What is written where, for people.
    pub(super) said: Option<String>,
    _folder: Option<Folder>,
}

impl Place {
    /// Makes a place ready, where the plan has metrics that need one.
    ///
    /// # Errors
    /// Wrong usage, where the folder does not do and metrics of files were asked for by name.
    pub(super) fn prepare(
        arguments: &RunArguments,
        plan: &Plan,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Self> {
        let Some((disk, asked)) = needed(plan) else {
            let files = Err("no metric of this run needs files".to_owned());
            return Ok(Self { files, said: None, _folder: None });
        };
        match Self::on_device(arguments, disk, interrupt) {
            Ok(place) => Ok(place),
            Err(Obstacle::Unfit(text)) if asked => Err(Usage(text).into()),
            Err(Obstacle::Unfit(text) | Obstacle::Without(text)) => {
                let said = Some(format!("No files are measured: {text}."));
                Ok(Self { files: Err(text), said, _folder: None })
            }
        }
    }

    fn on_device(
        arguments: &RunArguments,
        disk: Disk,
        interrupt: &Interrupt,
    ) -> Result<Self, Obstacle> {
        let (parent, file_system) = chosen(arguments.folder.as_deref(), arguments.allow_memory)?;
        has_room(&parent, disk)?;
        let shown = parent.display();
        let cannot = |error: std::io::Error| {
            Obstacle::Without(format!("write to {shown}: {error}; name another folder by --folder"))
        };
        let folder = Folder::new(&parent, disk.large, interrupt).map_err(cannot)?;
        let mut what = Vec::new();
        if disk.large > 0 {
            what.push(format!("{} once", size(disk.large)));
        }
        if disk.own > 0 {
            what.push(format!("up to {} at a time", size(disk.own)));
        }
        let said =
            format!("Files are written to {shown} ({file_system}): {}.", what.join(", and "));
        let files = Ok(folder.files());
        Ok(Self { files, said: Some(said), _folder: Some(folder) })
    }
}

/// The most that a probe of the plan takes, and whether such a probe was asked for.
fn needed(plan: &Plan) -> Option<(Disk, bool)> {
    let mut needed = None;
    for unit in &plan.units {
        let Entry::Probe(probe) = unit.entry else { continue };
        let Some(disk) = probe.disk() else { continue };
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

    fn prepared(words: &[&str], metrics: &[&str]) -> anyhow::Result<Place> {
        let words = ["fathom", "run"].iter().chain(words);
        let arguments = Arguments::try_parse_from(words).unwrap();
        let Command::Run(arguments) = arguments.command else { panic!("it is a run") };
        let metrics = metrics.iter().map(|name| (*name).to_owned()).collect();
        let plan =
            Plan::new(&REGISTRY, metrics, Effort::Quick, Protocol::Median, 1, &Host::default());
        Place::prepare(&arguments, &plan.unwrap(), &Interrupt::listen().unwrap())
    }

    #[test]
    fn a_folder_that_does_not_do_ends_a_run_only_where_files_were_asked_for() {
        let folder = ["--folder", "/proc"];
        let plain = prepared(&folder, &[]).unwrap();
        assert!(plain.files.unwrap_err().contains("proc keeps no files"));
        assert!(plain.said.unwrap().starts_with("No files are measured: /proc"));
        for metrics in [["file"], ["file.create"], ["file.call{call=read1}"]] {
            assert!(prepared(&folder, &metrics).is_err(), "{metrics:?}");
        }
        let none = prepared(&folder, &["cpu.clock.resolution"]).unwrap();
        assert_eq!(none.said, None, "nothing is written");
    }
}
