//! Where the files of a visit may lie.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What the coordinator made ready on a device, for probes of files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Files {
    /// A folder of this run's own, which goes with it: whatever a killed worker leaves there is
    /// taken away.
    pub folder: PathBuf,
    /// The path to a large file of generated data, which all visits read and none changes.
    pub large: PathBuf,
    /// The seed of its data.
    pub seed: u64,
}

/// That nobody made a folder ready.
pub(super) fn none() -> Result<Files, String> {
    Err("no folder for files was made ready for this visit".to_owned())
}
