//! The current condition of the machine: load, steal, pressure, limits, permissions, another run.
//! Lasting facts are in [`crate::host`].
//!
//! A fact that cannot be read is absent, every fact has an entry in [`Condition::origins`], and
//! nothing is changed: write permission is checked by access(2), and system calls are tried with
//! invalid arguments.

mod cgroup;
mod limits;
mod load;
mod network;
mod permissions;

pub use crate::stat::MachineTime;

use std::path::PathBuf;
use std::time::Duration;

use fathom_record::{Condition, Host};

use crate::affinity;
use crate::tree::FileTree;

/// The abstract socket that a run holds.
pub const RUN_MARK: &str = "fathom-run";

/// Reads the condition of this machine, or of one whose files are in a folder.
#[derive(Clone, Debug)]
pub struct Reader {
    tree: FileTree,
    /// The files at the end of the sampling interval; on a live machine the same.
    later: FileTree,
    live: bool,
}

impl Reader {
    pub fn live() -> Self {
        Self { tree: FileTree::at("/"), later: FileTree::at("/"), live: true }
    }

    /// A reader of files at the start and the end of the sampling interval, without system calls.
    pub fn at(before: impl Into<PathBuf>, after: impl Into<PathBuf>) -> Self {
        Self { tree: FileTree::at(before), later: FileTree::at(after), live: false }
    }

    /// The condition of `host`, with CPU utilization sampled over `window`.
    pub fn read(&self, host: &Host, window: Duration) -> Condition {
        let mut condition = Condition::default();
        // First, because this process adds load itself.
        load::read(&self.tree, &mut condition);
        load::look(&self.tree, &self.later, window, &mut condition);
        choose(host, &mut condition);
        cgroup::read(&self.tree, host, &mut condition);
        limits::read(&self.tree, &mut condition);
        network::read(&self.tree, &mut condition);
        permissions::read(&self.tree, self.live, &mut condition);
        load::reports_steal(self.live, &mut condition);
        readable(&self.tree, &mut condition);
        condition
    }
}

/// Sets the CPU that a run would use.
fn choose(host: &Host, condition: &mut Condition) {
    let cpus = condition.look.iter().flat_map(|look| &look.cpus);
    let busy: Vec<(u32, f64)> = cpus.filter_map(|one| Some((one.cpu?, one.busy))).collect();
    if let Some(choice) = affinity::choose(host, &busy) {
        condition.cpu = Some(choice.cpu);
        condition.cpu_reason = choice.reason;
    }
}

fn readable(tree: &FileTree, condition: &mut Condition) {
    let proc = ["/proc/self/status", "/proc/stat"];
    condition.proc_readable = proc.iter().all(|path| tree.text(path).is_some());
    condition.sys_readable = !tree.names("/sys/devices/system/cpu").is_empty();
    let mut missing = |there: bool, what: &str| {
        if !there {
            condition.counters_missing.push(what.to_owned());
        }
    };
    let waits = tree.line("/proc/self/schedstat").is_some();
    missing(waits, "run-queue delay (/proc/self/schedstat)");
    let steal = condition.since_boot.as_ref().is_some_and(|boot| boot.steal.is_some());
    missing(steal, "steal (/proc/stat)");
    missing(condition.pressure_missing.is_none(), "pressure (/proc/pressure)");
    let throttling = condition.throttling.sight != fathom_record::condition::QuotaSight::Unknown;
    missing(throttling, "throttling (cpu.stat of the CPU cgroup)");
    if !condition.counters_missing.is_empty() {
        condition.origin("counters_missing", "/proc, /sys/fs/cgroup");
    }
}
