//! The files of a crosscheck: the data that is read, a name for what is written, and a folder for
//! both that goes with this, or with the next run where this is killed.

use std::fs::File;

use fathom_metric::Disk;
use fathom_peers::{DATA_BYTES, Place, Row};

use super::super::disk_folder::{self, Folder, Wanted, fill, size};
use crate::arguments::crosscheck::CrosscheckArguments;
use crate::interrupt::Interrupt;

/// The most that is there at a time beside the data: what a peer and our own side write at once.
const BESIDE: u64 = 512 << 20;

/// Makes a place ready, where any of the rows needs one.
///
/// # Errors
/// Wrong usage, where a folder was named that does not do.
pub(super) fn prepare(
    arguments: &CrosscheckArguments,
    rows: &[&Row],
    interrupt: &Interrupt,
) -> anyhow::Result<disk_folder::Place<Place>> {
    if !rows.iter().any(|row| row.needs_files()) {
        return Ok(disk_folder::Place::none("no row needs files"));
    }
    let folder = arguments.folder.as_deref();
    let wanted = Wanted {
        folder,
        allow_memory: arguments.allow_memory,
        disk: Disk { large: DATA_BYTES, own: BESIDE },
        must: folder.is_some(),
        done: "compared",
    };
    let in_turns: u64 = rows.iter().map(|row| row.written).sum();
    let in_turns = in_turns * u64::from(arguments.pairs);
    let amount = format!(
        " and removed: {} once, and about {} in turns, at most {} at a time",
        size(DATA_BYTES),
        size(in_turns.next_multiple_of(1 << 30)),
        size(BESIDE)
    );
    disk_folder::Place::prepare(&wanted, &amount, |parent| {
        let folder = Folder::new(parent, 0, interrupt)?;
        let place = Place::at(folder.path());
        fill(&File::create_new(&place.data)?, DATA_BYTES, interrupt)?;
        Ok((folder, place))
    })
}
