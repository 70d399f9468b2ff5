//! The machine's state just now: load, steal, pressure, limits, permissions, another run.
//!
//! What lasts is [`crate::host`]'s. Like there, a fact that cannot be read is absent, every fact
//! has an entry in [`Condition::origins`], and nothing is changed: whether something may be written
//! is asked of access(2), whether a call is allowed of the call with arguments that it refuses.
//!
//! Deliberately absent: any judgement, which is `record::diagnosis`'s.

mod cgroup;
mod limits;
mod load;
mod permissions;
pub(crate) mod stat;

use std::path::PathBuf;
use std::time::Duration;

use fathom_record::{Condition, Host};

use crate::affinity;
use crate::host::tree::Tree;

/// The abstract socket that a run holds as long as it lasts.
pub const RUN_MARK: &str = "fathom-run";

/// Reads the state of a machine: of this one, or of one whose files lie in a folder.
#[derive(Clone, Debug)]
pub struct Reader {
    tree: Tree,
    /// Files at the end of the look; on a live machine the same ones, which have moved on.
    later: Tree,
    live: bool,
}

impl Reader {
    /// A reader of this machine.
    pub fn live() -> Self {
        Self { tree: Tree::at("/"), later: Tree::at("/"), live: true }
    }

    /// A reader of a tree of files, and of the same machine's files a look later: no system call
    /// about this machine.
    pub fn at(before: impl Into<PathBuf>, after: impl Into<PathBuf>) -> Self {
        Self { tree: Tree::at(before), later: Tree::at(after), live: false }
    }

    /// The state of the machine that `host` tells of, after a look of `window`.
    pub fn read(&self, host: &Host, window: Duration) -> Condition {
        let mut condition = Condition::default();
        // First, while this process has done little itself.
        load::read(&self.tree, &mut condition);
        load::look(&self.tree, &self.later, window, &mut condition);
        choose(host, &mut condition);
        cgroup::read(&self.tree, host, &mut condition);
        limits::read(&self.tree, &mut condition);
        permissions::read(&self.tree, self.live, &mut condition);
        load::steal_is_told(self.live, &mut condition);
        readable(&self.tree, &mut condition);
        condition
    }
}

/// The CPU that a run would take.
fn choose(host: &Host, condition: &mut Condition) {
    let cpus = condition.look.iter().flat_map(|look| &look.cpus);
    let busy: Vec<(u32, f64)> = cpus.filter_map(|one| Some((one.cpu?, one.busy))).collect();
    if let Some(choice) = affinity::choose(host, &busy) {
        condition.cpu = Some(choice.cpu);
        condition.cpu_reason = choice.reason;
    }
}

fn readable(tree: &Tree, condition: &mut Condition) {
    let proc = ["/proc/self/status", "/proc/stat"];
    condition.proc_readable = proc.iter().all(|path| tree.text(path).is_some());
    condition.sys_readable = !tree.names("/sys/devices/system/cpu").is_empty();
    let mut missing = |there: bool, what: &str| {
        if !there {
            condition.counters_missing.push(what.to_owned());
        }
    };
    let waits = tree.line("/proc/self/schedstat").is_some();
    missing(waits, "time waited for a CPU (/proc/self/schedstat)");
    let steal = condition.since_boot.as_ref().is_some_and(|boot| boot.steal.is_some());
    missing(steal, "stolen time (/proc/stat)");
    missing(!condition.pressure.is_empty(), "pressure (/proc/pressure)");
    let throttling = condition.throttling.sight != fathom_record::condition::QuotaSight::Unknown;
    missing(throttling, "throttling (cpu.stat of the CPU cgroup)");
    if !condition.counters_missing.is_empty() {
        condition.origin("counters_missing", "/proc, /sys/fs/cgroup");
    }
}
