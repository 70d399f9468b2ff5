//! Facts about the machine from `/proc`, `/sys`, SMBIOS and `cpuid`.
//!
//! A fact that cannot be read is absent, and every present fact has an entry in [`Host::origins`]
//! with its file or instruction. Nothing is changed or executed, and nothing needs root. Measured
//! values, such as a calibrated clock rate, are not facts.

mod buslinks;
mod caches;
pub(crate) mod cgroup;
mod cpu;
pub(crate) mod cpuid;
mod cpuinfo;
mod damon;
mod disks;
mod frequency;
mod identity;
mod kernel;
pub(crate) mod memory;
mod network;
mod route;
mod smbios;
mod topology;
mod user_mode;
mod virtualization;

use std::ffi::CStr;
use std::path::PathBuf;
use std::sync::OnceLock;

use fathom_record::Host;
use fathom_record::host::NAME_VARIABLE;
use rustix::system::{Uname, uname};

pub use self::cgroup::Controller;
use self::cpuid::Cpuid;
use self::cpuinfo::CpuInfo;
use crate::cpulist;
use crate::tree::{self, FileTree, TreeFact};

/// Reads the facts of this machine, or of one whose files are in a folder.
#[derive(Clone, Debug)]
pub struct HostReader {
    pub(crate) tree: FileTree,
    live: bool,
    name: Option<String>,
    folder: Option<PathBuf>,
}

static NAME: OnceLock<String> = OnceLock::new();

/// Names this host for the rest of this process, as the variable [`NAME_VARIABLE`] does.
pub fn set_name(name: &str) {
    let _ = NAME.set(name.to_owned());
}

/// The name of [`set_name`], for processes that this one starts: they inherit the variable only.
pub fn name_set() -> Option<&'static str> {
    NAME.get().map(String::as_str)
}

struct HostSources {
    tree: FileTree,
    cpuinfo: CpuInfo,
    cpuid: Option<Cpuid>,
    live: bool,
    /// The name that the user gave to this host.
    name: Option<String>,
    /// The folder of test files, if it is not the usual one.
    folder: Option<PathBuf>,
}

impl HostSources {
    /// A field of uname(2), for this machine only.
    fn uname(&self, name: fn(&Uname) -> &CStr, origin: &str) -> Option<TreeFact<String>> {
        let name = self.live.then(|| name(&uname()).to_string_lossy().into_owned())?;
        TreeFact::unless_empty(name, origin)
    }
}

/// The facts of this machine, as seen by the calling thread.
pub fn read() -> Host {
    HostReader::live().read()
}

impl HostReader {
    /// A reader of this machine: files, `cpuid` and system calls.
    pub fn live() -> Self {
        let variable = || std::env::var(NAME_VARIABLE).ok().filter(|name| !name.is_empty());
        let name = NAME.get().cloned().or_else(variable);
        Self { tree: FileTree::at("/"), live: true, name, folder: None }
    }

    /// A reader of files in a folder, such as copied from another machine, without `cpuid` and
    /// system calls.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { tree: FileTree::at(root), live: false, name: None, folder: None }
    }

    /// The same of a host that the user named so.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        Self { name: Some(name.to_owned()), ..self }
    }

    /// The same with test files in this folder.
    #[must_use]
    pub fn with_folder(self, folder: Option<PathBuf>) -> Self {
        Self { folder, ..self }
    }

    /// The folders of a cgroup controller, such as `blkio`, for this process.
    pub fn controller(&self, name: &str) -> Option<Controller> {
        cgroup::controller(&self.tree, name)
    }

    /// The lowest CPU quota of this process's cgroups, in CPUs. `None` without one.
    pub fn cpu_quota(&self) -> Option<f64> {
        self.cpu_quota_of("self")
    }

    /// The same of another process, by its number.
    pub fn cpu_quota_of(&self, process: &str) -> Option<f64> {
        cgroup::cpu_quota(&self.tree, process).map(|quota| quota.value)
    }

    /// The CPUs that the first thread of a process may run on. Empty if unknown.
    pub fn cpus_of(&self, process: &str) -> Vec<u32> {
        let status = self.tree.text(&format!("/proc/{process}/status")).unwrap_or_default();
        let list = tree::after(&status, "Cpus_allowed_list:");
        list.and_then(cpulist::parse).unwrap_or_default()
    }

    /// The text of a file by its path on a live machine.
    pub fn text(&self, path: &str) -> Option<String> {
        self.tree.text(path)
    }

    /// The target of a symlink.
    pub fn link(&self, path: &str) -> Option<String> {
        self.tree.link(path)
    }

    /// The sorted names in a folder. Empty if it cannot be read.
    pub fn names(&self, path: &str) -> Vec<String> {
        self.tree.names(path)
    }

    fn sources(&self) -> HostSources {
        HostSources {
            tree: self.tree.clone(),
            cpuinfo: CpuInfo::read(&self.tree),
            cpuid: if self.live { Cpuid::read() } else { None },
            live: self.live,
            name: self.name.clone(),
            folder: self.folder.clone(),
        }
    }

    /// The id that versions up to 0.2.0 gave to this host, if it was another one.
    pub fn former_id(&self) -> Option<String> {
        let (sources, mut host) = (self.sources(), Host::default());
        kernel::read(&sources, &mut host);
        identity::read(&sources, &mut host);
        identity::former_id(&sources, &host.name)
    }

    /// Reads all facts, which takes some milliseconds: not during measurements.
    pub fn read(&self) -> Host {
        let sources = self.sources();
        let mut host = Host::default();
        kernel::read(&sources, &mut host);
        topology::read(&sources, &mut host);
        cpu::read(&sources, &mut host);
        frequency::read(&sources, &mut host);
        caches::read(&sources, &mut host);
        memory::read(&sources, &mut host);
        cgroup::read(&sources.tree, &mut host);
        virtualization::read(&sources, &mut host);
        disks::read(&sources, &mut host);
        network::read(&sources.tree, &mut host);
        route::read(&sources, &mut host);
        buslinks::read(&sources.tree, &mut host);
        identity::read(&sources, &mut host);
        host
    }
}

/// The CPU whose frequency and caches are read: the first allowed one.
fn first_cpu(host: &Host) -> u32 {
    host.cpu.allowed.first().copied().unwrap_or(0)
}
