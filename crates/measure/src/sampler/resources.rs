//! Resources of a visit, prepared by the coordinator and passed in the request.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use fathom_record::Remedy;
use serde::{Deserialize, Serialize};

use super::SamplerFault;

/// The name of the far end on this host in records.
pub const LOOPBACK: &str = "loopback";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Resources {
    /// The CPUs that the run may use. Empty for the CPUs in [`super::Settings`].
    pub cpus: Vec<u32>,
    pub files: Result<Files, ResourceMissing>,
    /// Far ends on other hosts.
    pub far: Vec<FarPlace>,
}

impl Resources {
    pub fn none() -> Self {
        let reason = "no folder for test files".to_owned();
        let files = Err(ResourceMissing { reason, remedy: None });
        Self { cpus: Vec::new(), files, far: Vec::new() }
    }

    /// The far end with this name, from the parameter `to` of a case.
    ///
    /// # Errors
    /// `Unavailable`, if the run has no such far end.
    pub fn far_end(&self, to: &str) -> Result<FarPlace, SamplerFault> {
        let here = FarPlace { to: LOOPBACK.to_owned(), ..FarPlace::default() };
        let place = self.far.iter().chain([&here]).find(|place| place.to == to);
        place
            .cloned()
            .ok_or_else(|| SamplerFault::Unavailable(format!("no far end named {to}"), None))
    }
}

/// Files on a device, for probes of files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Files {
    /// A folder of this run, which removes it with everything that killed workers left.
    pub folder: PathBuf,
    /// A large file of generated data, which visits only read.
    pub large: PathBuf,
    /// The seed of its data.
    pub seed: u64,
    /// Why reads that miss the page cache may reach no device. `None` if they do.
    #[serde(default)]
    pub doubt: Option<String>,
}

/// The address of a far end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FarPlace {
    /// The value of the parameter `to` in records.
    pub to: String,
    /// Absent for the far end on this host, which the worker starts.
    pub address: Option<SocketAddr>,
    /// The source address of all connections, if not the kernel's choice.
    pub bind: Option<IpAddr>,
    /// The CPU of the far end on another host.
    pub cpu: u32,
    /// The token that the other host requires.
    pub token_file: Option<PathBuf>,
}

/// Why a resource is unavailable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceMissing {
    pub reason: String,
    pub remedy: Option<Remedy>,
}

impl From<ResourceMissing> for SamplerFault {
    fn from(missing: ResourceMissing) -> Self {
        Self::Unavailable(missing.reason, missing.remedy)
    }
}
