//! Throttling by the CPU cgroup.
//!
//! The process's own group and any parent may have a quota, and each counts its own throttling
//! only, so all of them are read. If none has a quota, and the hierarchy is visible up to its root,
//! throttling is zero. If a container hides the parents, `cpu.stat.local` (since kernel 6.6) counts
//! throttling of this group by any of them; without it, throttling is unknown.

use super::counters::{DisturbanceCounters, difference};
use crate::host::cgroup;
use crate::host::{Controller, HostReader};
use crate::tree::{FileTree, after};

/// Sources of throttling counters.
#[derive(Debug)]
pub(crate) enum Throttle {
    /// The groups with a quota, nearest first.
    Quotas { version: u32, groups: Vec<DisturbanceCounters> },
    /// No visible quota, but hidden parents.
    Hidden { version: u32, local: DisturbanceCounters },
    /// No quota up to the root.
    Unlimited,
    /// No CPU controller found.
    Unknown,
}

/// How long this process's cgroups have been throttled since they were made. `None` if unknown.
pub fn throttled_ns() -> Option<u64> {
    Throttle::find(&FileTree::at("/")).so_far().throttled_ns
}

/// The same of the cgroups of another process, by its number.
pub fn throttled_ns_of(reader: &HostReader, process: &str) -> Option<u64> {
    let cpu = cgroup::controller_of(&reader.tree, process, "cpu");
    Throttle::from_tree(&reader.tree, cpu).so_far().throttled_ns
}

/// What a group counts since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ThrottleCount {
    pub(crate) throttled_ns: Option<u64>,
    pub(crate) throttled_periods: Option<u64>,
    pub(crate) quota_periods: Option<u64>,
}

impl ThrottleCount {
    const ZERO: Self =
        Self { throttled_ns: Some(0), throttled_periods: Some(0), quota_periods: Some(0) };
}

impl Throttle {
    pub(crate) fn find(tree: &FileTree) -> Self {
        Self::from_tree(tree, cgroup::controller(tree, "cpu"))
    }

    fn from_tree(tree: &FileTree, cpu: Option<Controller>) -> Self {
        let Some(cpu) = cpu else {
            return Self::Unknown;
        };
        let limited = |level: &&String| cgroup::quota(tree, cpu.version, level).is_some();
        let groups: Vec<DisturbanceCounters> = cpu
            .levels
            .iter()
            .filter(limited)
            .map(|level| DisturbanceCounters::open(tree, &format!("{level}/cpu.stat")))
            .collect();
        match cpu.levels.first() {
            _ if !groups.is_empty() => Self::Quotas { version: cpu.version, groups },
            _ if cgroup::sees_root(tree, &cpu) => Self::Unlimited,
            Some(own) => {
                let local = DisturbanceCounters::open(tree, &format!("{own}/cpu.stat.local"));
                Self::Hidden { version: cpu.version, local }
            }
            None => Self::Unknown,
        }
    }

    /// The current counts of each group.
    pub(super) fn read(&self) -> Vec<ThrottleCount> {
        let (version, groups) = match self {
            Self::Quotas { version, groups } => (*version, groups.as_slice()),
            Self::Hidden { version, local } => (*version, std::slice::from_ref(local)),
            Self::Unlimited | Self::Unknown => return Vec::new(),
        };
        let one = |group: &DisturbanceCounters| group.read(|text| Some(count(text, version)));
        groups.iter().map(|group| one(group).unwrap_or_default()).collect()
    }

    /// The counts since the creation of the groups, of the group that was throttled longest.
    pub(crate) fn so_far(&self) -> ThrottleCount {
        let now = self.read();
        self.between(&now, &vec![ThrottleCount::ZERO; now.len()])
    }

    /// The difference between two readings, of the group that was throttled longest, or the nearest
    /// if none was. Unknown if one of them is.
    pub(super) fn between(
        &self,
        later: &[ThrottleCount],
        earlier: &[ThrottleCount],
    ) -> ThrottleCount {
        if matches!(self, Self::Unlimited) {
            return ThrottleCount::ZERO;
        }
        let deltas = later.iter().zip(earlier).map(|(later, earlier)| ThrottleCount {
            throttled_ns: difference(later.throttled_ns, earlier.throttled_ns),
            throttled_periods: difference(later.throttled_periods, earlier.throttled_periods),
            quota_periods: difference(later.quota_periods, earlier.quota_periods),
        });
        let worst = deltas.reduce(|a, b| match (a.throttled_ns, b.throttled_ns) {
            (Some(near), Some(far)) if far > near => b,
            (Some(_), None) => b,
            _ => a,
        });
        worst.unwrap_or_default()
    }
}

/// Reads `cpu.stat`: version 1 counts nanoseconds, version 2 microseconds.
fn count(text: &str, version: u32) -> ThrottleCount {
    let number = |key: &str| after(text, key)?.parse::<u64>().ok();
    let throttled_ns = if version == 1 {
        number("throttled_time ")
    } else {
        number("throttled_usec ").and_then(|us| us.checked_mul(1_000))
    };
    ThrottleCount {
        throttled_ns,
        throttled_periods: number("nr_throttled "),
        quota_periods: number("nr_periods "),
    }
}
