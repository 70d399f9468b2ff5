//! What a visit may use: made ready by the coordinator, and carried by its request.

use std::net::SocketAddr;
use std::path::PathBuf;

use fathom_record::Remedy;
use serde::{Deserialize, Serialize};

use super::Fault;

/// How records name a far end on this host.
pub const LOOPBACK: &str = "loopback";

/// What the coordinator made ready for the visits of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Resources {
    /// The CPUs that the run may use: the kernel names a pinned thread's own only. Empty for the
    /// one it is pinned to and the other end's.
    pub cpus: Vec<u32>,
    /// Files on a device, or why there are none.
    pub files: Result<Files, Missing>,
    /// The far ends, beside the one on this host.
    pub far: Vec<FarPlace>,
}

impl Resources {
    pub fn none() -> Self {
        let reason = "no folder for files was made ready for this visit".to_owned();
        let files = Err(Missing { reason, remedy: None });
        Self { cpus: Vec::new(), files, far: Vec::new() }
    }

    /// Where the far end of a case is that names it in its parameter `to`.
    ///
    /// # Errors
    /// `Unavailable`, where the run has no such far end.
    pub fn far_end(&self, to: &str) -> Result<FarPlace, Fault> {
        let here = FarPlace { to: LOOPBACK.to_owned(), address: None };
        let found = self.far.iter().chain([&here]).find(|place| place.to == to);
        found.cloned().ok_or_else(|| Fault::Unavailable(format!("no far end is named {to}"), None))
    }
}

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

/// Where a far end is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FarPlace {
    /// As records name it, in their parameter `to`.
    pub to: String,
    /// Where it listens; absent for the one on this host, which the worker starts itself.
    pub address: Option<SocketAddr>,
}

/// Why a resource is not there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    pub reason: String,
    pub remedy: Option<Remedy>,
}

impl From<Missing> for Fault {
    fn from(missing: Missing) -> Self {
        Self::Unavailable(missing.reason, missing.remedy)
    }
}
