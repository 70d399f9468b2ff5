//! The files of a crosscheck: the data that is read, a name for what is written, and a folder for
//! both that goes with this, or with the next run where this is killed.

use std::fs::File;

use fathom_metric::Disk;
use fathom_peers::{DATA_BYTES, Place, Row};

use super::super::disk_folder::{Folder, Obstacle, chosen, fill, has_room, size};
use crate::arguments::crosscheck::CrosscheckArguments;
use crate::exit::Usage;
use crate::interrupt::Interrupt;

/// The most that is there at a time beside the data: what a peer and our own side write at once.
const BESIDE: u64 = 512 << 20;

/// Where files are, as long as this lives.
pub(super) struct Files {
    /// The place, or why there is none.
    pub(super) place: Result<Place, String>,
    /// What is written where, for people.
    pub(super) said: Option<String>,
    _folder: Option<Folder>,
}

impl Files {
    /// Makes a place ready, where any of the rows needs one.
    ///
    /// # Errors
    /// Wrong usage, where a folder was named that does not do.
    pub(super) fn prepare(
        arguments: &CrosscheckArguments,
        rows: &[&Row],
        interrupt: &Interrupt,
    ) -> anyhow::Result<Self> {
        if !rows.iter().any(|row| row.needs_files()) {
            let place = Err("no row needs files".to_owned());
            return Ok(Self { place, said: None, _folder: None });
        }
        match Self::on_device(arguments, rows, interrupt) {
            Ok(files) => Ok(files),
            Err(Obstacle::Unfit(text)) if arguments.folder.is_some() => Err(Usage(text).into()),
            Err(Obstacle::Unfit(text) | Obstacle::Without(text)) => {
                let said = Some(format!("No files are compared: {text}."));
                Ok(Self { place: Err(text), said, _folder: None })
            }
        }
    }

    fn on_device(
        arguments: &CrosscheckArguments,
        rows: &[&Row],
        interrupt: &Interrupt,
    ) -> Result<Self, Obstacle> {
        let (parent, file_system) = chosen(arguments.folder.as_deref(), arguments.allow_memory)?;
        has_room(&parent, Disk { large: DATA_BYTES, own: BESIDE })?;
        let shown = parent.display();
        let cannot = |error: std::io::Error| {
            Obstacle::Without(format!("write to {shown}: {error}; name another folder by --folder"))
        };
        let folder = Folder::new(&parent, 0, interrupt).map_err(cannot)?;
        let place = Place::at(folder.path());
        let in_turns: u64 = rows.iter().map(|row| row.written).sum();
        let in_turns = in_turns * u64::from(arguments.pairs);
        let said = format!(
            "Files are written to {shown} ({file_system}) and removed: {} once, and about {} in \
             turns, at most {} at a time.",
            size(DATA_BYTES),
            size(in_turns.next_multiple_of(1 << 30)),
            size(BESIDE)
        );
        File::create_new(&place.data)
            .and_then(|data| fill(&data, DATA_BYTES, interrupt))
            .map_err(cannot)?;
        Ok(Self { place: Ok(place), said: Some(said), _folder: Some(folder) })
    }
}
