//! Facts about the machine: what `/proc`, `/sys`, SMBIOS and the processor itself tell.
//!
//! Each subject has a file of its own. A fact that cannot be read is absent, and every fact that is
//! there has an entry in [`Host::origins`] naming the file or the instruction it came from. Nothing
//! is changed, nothing is executed, nothing here needs root.
//!
//! Deliberately absent: measurements. A clock rate that was calibrated, or a cache size that was
//! found by timing, is a metric and not a fact.

mod buslinks;
mod caches;
pub(crate) mod cgroup;
mod cpu;
pub(crate) mod cpuid;
mod cpuinfo;
pub(crate) mod cpulist;
mod damon;
mod disks;
mod frequency;
mod identity;
mod kernel;
pub(crate) mod memory;
mod network;
mod smbios;
mod topology;
pub(crate) mod tree;
mod virtualization;

use std::ffi::CStr;
use std::path::PathBuf;

use fathom_record::Host;
use rustix::system::{Uname, uname};

pub use self::cgroup::Controller;
use self::cpuid::Cpuid;
use self::cpuinfo::CpuInfo;
use self::tree::{Fact, Tree};

/// Reads the facts of a machine: of this one, or of one whose files lie in a folder.
#[derive(Clone, Debug)]
pub struct Reader {
    tree: Tree,
    live: bool,
}

/// What the subjects read from.
struct Sources {
    tree: Tree,
    cpuinfo: CpuInfo,
    cpuid: Option<Cpuid>,
    live: bool,
}

impl Sources {
    /// A name uname(2) gives, which is this machine's and of no tree of files.
    fn uname(&self, name: fn(&Uname) -> &CStr, origin: &str) -> Option<Fact<String>> {
        let name = self.live.then(|| name(&uname()).to_string_lossy().into_owned())?;
        Fact::unless_empty(name, origin)
    }
}

/// The facts of this machine, as seen by the calling thread.
pub fn read() -> Host {
    Reader::live().read()
}

impl Reader {
    /// A reader of this machine: its files, its processor's `cpuid`, and system calls.
    pub fn live() -> Self {
        Self { tree: Tree::at("/"), live: true }
    }

    /// A reader of a tree of files, such as one copied from another machine: no `cpuid` and no
    /// system call about this one.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { tree: Tree::at(root), live: false }
    }

    /// Where the files of a cgroup controller are for this process, such as `blkio`; none where it
    /// cannot be seen.
    pub fn controller(&self, name: &str) -> Option<Controller> {
        cgroup::controller(&self.tree, name)
    }

    /// The text of a file by its path on a live machine; none where there is none to read.
    pub fn text(&self, path: &str) -> Option<String> {
        self.tree.text(path)
    }

    /// The names in a folder, in order; none where it cannot be read.
    pub fn names(&self, path: &str) -> Vec<String> {
        self.tree.names(path)
    }

    /// The facts. Takes a few milliseconds on a small machine: once a run, never while measuring.
    pub fn read(&self) -> Host {
        let sources = Sources {
            tree: self.tree.clone(),
            cpuinfo: CpuInfo::read(&self.tree),
            cpuid: if self.live { Cpuid::ask() } else { None },
            live: self.live,
        };
        let mut host = Host::default();
        kernel::read(&sources, &mut host);
        topology::read(&sources, &mut host);
        cpu::read(&sources, &mut host);
        frequency::read(&sources, &mut host);
        caches::read(&sources, &mut host);
        memory::read(&sources, &mut host);
        cgroup::read(&sources.tree, &mut host);
        virtualization::read(&sources, &mut host);
        disks::read(&sources.tree, &mut host);
        network::read(&sources.tree, &mut host);
        buslinks::read(&sources.tree, &mut host);
        identity::read(&sources, &mut host);
        host
    }
}

/// The CPU whose frequency and caches are told: the first this process may run on.
fn first_cpu(host: &Host) -> u32 {
    host.cpu.allowed.first().copied().unwrap_or(0)
}
