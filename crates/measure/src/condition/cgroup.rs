//! Usage of the cgroup's limits: throttling, memory, processes.

use fathom_record::condition::{QuotaSight, Throttling};
use fathom_record::{Condition, Host};

use crate::disturbance::Throttle;
use crate::tree::{FileTree, TreeFact, keep};

pub(super) fn read(tree: &FileTree, host: &Host, condition: &mut Condition) {
    let throttle = Throttle::find(tree);
    let count = throttle.so_far();
    condition.throttling = Throttling {
        sight: match throttle {
            Throttle::Quotas { .. } => QuotaSight::Limited,
            Throttle::Unlimited => QuotaSight::Unlimited,
            Throttle::Hidden { .. } => QuotaSight::Hidden,
            Throttle::Unknown => QuotaSight::Unknown,
        },
        periods: count.quota_periods,
        throttled_periods: count.throttled_periods,
        throttled_ns: count.throttled_ns,
    };
    if condition.throttling.sight != QuotaSight::Unknown {
        condition.origin("throttling", "cpu.stat of the CPU cgroups");
    }
    keep!(condition.pids, beside(tree, host, "cgroup.pids_max", &["pids.current"]));
    let usage = ["memory.current", "memory.usage_in_bytes"];
    let usage = beside(tree, host, "cgroup.memory_limit_bytes", &usage);
    keep!(condition.cgroup_memory_bytes, usage);
}

/// The first of some files in the folder of a limit of the host.
fn beside(tree: &FileTree, host: &Host, limit: &str, names: &[&str]) -> Option<TreeFact<u64>> {
    let file = host.origins.get(limit)?;
    let folder = file.split(": ").next()?.rsplit_once('/')?.0;
    names.iter().find_map(|name| tree.number(&format!("{folder}/{name}")))
}
