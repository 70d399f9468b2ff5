//! The test files of a crosscheck: the data that is read, and the path of the file that is written.

use std::fs::File;

use fathom_metric::MetricDisk;
use fathom_peers::{DATA_BYTES, PeerPlace, Row, SERVED_BYTES};

use super::super::scratch_folder::{RunFolder, ScratchFolderRequest, TestFiles, fill, size};
use crate::arguments::crosscheck::CrosscheckArguments;
use crate::interrupt::Interrupt;

/// What rows with small files write at a time besides the data.
const WRITTEN_BYTES: u64 = 512 << 20;

/// Creates the test files, if a row needs any.
///
/// # Errors
/// If `--folder` is not usable.
pub(super) fn prepare(
    arguments: &CrosscheckArguments,
    rows: &[&Row],
    interrupt: &Interrupt,
) -> anyhow::Result<TestFiles<PeerPlace>> {
    if !rows.iter().any(|row| row.needs_files()) {
        return Ok(TestFiles::none("no row needs files"));
    }
    let reads_data = rows.iter().any(|row| row.reads_data);
    let data_bytes = if reads_data { DATA_BYTES } else { 0 };
    let folder = arguments.folder.as_deref();
    let request = ScratchFolderRequest {
        folder,
        allow_memory: arguments.allow_memory,
        disk: MetricDisk { large: data_bytes, own: WRITTEN_BYTES },
        required: folder.is_some(),
        subject: "Rows with files",
    };
    let in_pairs: u64 = rows.iter().map(|row| row.written).sum();
    let in_pairs = in_pairs * u64::from(arguments.pairs);
    let once = size(data_bytes.max(SERVED_BYTES));
    let amount = match in_pairs {
        0 => format!(" and are removed: {once}"),
        _ => format!(
            " and are removed: {once} once, about {} over all pairs, at most {} at a time",
            size(in_pairs.next_multiple_of(1 << 30)),
            size(rows.iter().map(|row| row.written / 2).fold(WRITTEN_BYTES, u64::max))
        ),
    };
    TestFiles::prepare(&request, &amount, |parent| {
        let run_folder = RunFolder::new(parent, 0, interrupt)?;
        let place = PeerPlace::at(run_folder.path());
        if reads_data {
            fill(&File::create_new(&place.data)?, DATA_BYTES, interrupt)?;
        }
        if rows.iter().any(|row| row.serves) {
            std::fs::create_dir(&place.served)?;
            fill(&File::create_new(place.served.join("4k"))?, SERVED_BYTES, interrupt)?;
        }
        Ok((run_folder, place))
    })
}
