//! What the block devices of the machine did: requests, and the time that they took.

use fathom_record::DeviceTime;

use super::counters::{DisturbanceCounters, difference};
use crate::tree::FileTree;

/// `/proc/diskstats`, of disks: their partitions and what lies over them (`dm-*`, `md*`) count the
/// same requests again, and `loop`, `ram` and `zram` are files and memory.
#[derive(Debug)]
pub(super) struct Devices {
    file: DisturbanceCounters,
    disks: Vec<String>,
}

/// Since the machine started.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DeviceCount {
    requests: u64,
    ms: u64,
}

impl Devices {
    pub(super) fn open(tree: &FileTree) -> Self {
        let is_other = |name: &String| {
            ["loop", "ram", "zram", "dm-", "md"].iter().any(|kind| name.starts_with(kind))
        };
        let mut disks = tree.names("/sys/block");
        disks.retain(|name| !is_other(name));
        Self { file: DisturbanceCounters::open(tree, "/proc/diskstats"), disks }
    }

    pub(super) fn read(&self) -> Option<DeviceCount> {
        self.file.read(|text| {
            let mut sum = DeviceCount::default();
            for line in text.lines() {
                let mut fields = line.split_ascii_whitespace().skip(2);
                if fields.next().is_some_and(|name| self.disks.iter().any(|disk| disk == name)) {
                    let fields: Vec<u64> = fields.map_while(|field| field.parse().ok()).collect();
                    // Documentation/admin-guide/iostats.rst: flushes from Linux 5.5 on.
                    let of = |at: usize| fields.get(at).copied().unwrap_or(0);
                    sum.requests += of(0) + of(4) + of(15);
                    sum.ms += of(3) + of(7) + of(16);
                }
            }
            Some(sum)
        })
    }

    /// `None` if no request was completed.
    pub(super) fn between(
        late: Option<DeviceCount>,
        early: Option<DeviceCount>,
    ) -> Option<DeviceTime> {
        let of = |field: fn(DeviceCount) -> u64| difference(late.map(field), early.map(field));
        let requests = of(|count| count.requests).filter(|requests| *requests > 0)?;
        Some(DeviceTime { requests, ns: of(|count| count.ms)?.checked_mul(1_000_000)? })
    }
}
