//! I/O limits of this process's control group on the device of a file.
//!
//! Version 2 applies the limits of the group and of all groups above it. In version 1 the
//! hierarchy is flat: only the process's own group counts (Linux block/blk-throttle.c,
//! `throtl_pd_init`: all groups are children of the root).

use std::fs::File;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};

use fathom_measure::host::{Controller, HostReader};

/// The most stacked devices that are followed: LUKS on LVM on a partition are three.
const LAYERS: usize = 8;

/// The limits on the device of a file; all `None` where none is set or visible.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Caps {
    /// Indexed by [`LimitKind`].
    pub limits: [Option<CapLimit>; 4],
    /// Bytes of the largest request the device accepts: larger ones are split, and each part
    /// counts.
    pub largest_request: Option<u64>,
}

/// A limit and the setting it comes from.
#[derive(Clone, Debug, PartialEq)]
pub struct CapLimit {
    /// Bytes or requests per second.
    pub rate: u64,
    /// Such as `blkio.throttle.read_bps_device of /web`.
    pub set_by: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitKind {
    ReadBytes,
    WriteBytes,
    Reads,
    Writes,
}

/// Each limit with its file in version 1 and its key in version 2.
const KINDS: [(LimitKind, &str, &str); 4] = [
    (LimitKind::ReadBytes, "blkio.throttle.read_bps_device", "rbps"),
    (LimitKind::WriteBytes, "blkio.throttle.write_bps_device", "wbps"),
    (LimitKind::Reads, "blkio.throttle.read_iops_device", "riops"),
    (LimitKind::Writes, "blkio.throttle.write_iops_device", "wiops"),
];

impl Caps {
    pub fn limit(&self, kind: LimitKind) -> Option<&CapLimit> {
        self.limits[kind as usize].as_ref()
    }

    /// Sets a limit unless a lower one is known.
    fn lower(&mut self, kind: LimitKind, rate: u64, set_by: String) {
        let known = &mut self.limits[kind as usize];
        if known.as_ref().is_none_or(|known| rate < known.rate) {
            *known = Some(CapLimit { rate, set_by });
        }
    }
}

/// The limits on the device of a file, or on a block device itself.
pub fn caps_of(file: &File) -> Caps {
    let Ok(stat) = file.metadata() else { return Caps::default() };
    let device = if stat.file_type().is_block_device() { stat.rdev() } else { stat.dev() };
    on(&HostReader::live(), rustix::fs::major(device), rustix::fs::minor(device))
}

/// The limits on the device with this number, from the system files of `reader`.
pub fn on(reader: &HostReader, major: u32, minor: u32) -> Caps {
    let mut caps = Caps::default();
    // Where both versions are mounted, this returns version 1, which then holds the limits.
    let Some(controller) = reader.controller("blkio") else { return caps };
    let (devices, largest) = devices(reader, &format!("{major}:{minor}"));
    caps.largest_request = largest;
    let levels = match controller.version {
        1 => &controller.levels[..1],
        _ => &controller.levels[..],
    };
    for level in levels {
        for device in &devices {
            of_group(reader, &controller, level, device, &mut caps);
        }
    }
    caps
}

fn of_group(reader: &HostReader, of: &Controller, level: &str, device: &str, caps: &mut Caps) {
    let group = of.group(level);
    let line = |file: &str| {
        let text = reader.text(&format!("{level}/{file}"))?;
        let mut lines = text.lines().filter_map(|line| line.split_once(' '));
        lines.find(|(known, _)| *known == device).map(|(_, rest)| rest.trim().to_owned())
    };
    if of.version == 1 {
        for (kind, file, _) in KINDS {
            if let Some(limit) = line(file).and_then(|text| text.parse().ok()) {
                caps.lower(kind, limit, format!("{file} of {group}"));
            }
        }
    } else if let Some(limits) = line("io.max") {
        for (kind, _, key) in KINDS {
            let limit = limits.split(' ').find_map(|one| one.strip_prefix(key)?.strip_prefix('='));
            // `max` means no limit, and does not parse.
            if let Some(limit) = limit.and_then(|text| text.parse().ok()) {
                caps.lower(kind, limit, format!("io.max {key} of {group}"));
            }
        }
    }
}

/// A device and those below it, each as the whole disk that limits apply to; and the largest
/// request in bytes that none of them splits.
fn devices(reader: &HostReader, number: &str) -> (Vec<String>, Option<u64>) {
    let mut folders = vec![folder(reader, number)];
    let mut disks = Vec::new();
    let mut largest: Option<u64> = None;
    for _ in 0..LAYERS {
        let Some(folder) = folders.pop().flatten() else { break };
        let is_part = reader.text(&format!("{folder}/partition")).is_some();
        let whole = if is_part { format!("{folder}/..") } else { folder };
        if let Some(disk) = reader.text(&format!("{whole}/dev")) {
            disks.push(disk.trim().to_owned());
        }
        let kib = reader.text(&format!("{whole}/queue/max_sectors_kb"));
        if let Some(kib) = kib.and_then(|text| text.trim().parse::<u64>().ok()) {
            largest = Some(largest.unwrap_or(u64::MAX).min(kib << 10));
        }
        // With several slaves a read goes to one of them: the limit of one does not cap the whole.
        if let [below] = reader.names(&format!("{whole}/slaves")).as_slice() {
            folders.push(Some(format!("/sys/class/block/{below}")));
        }
    }
    (disks, largest)
}

/// The /sys folder of a device. Files on btrfs have anonymous device numbers: there the mount
/// source names the device.
pub(crate) fn folder(reader: &HostReader, number: &str) -> Option<String> {
    let folder = format!("/sys/dev/block/{number}");
    if reader.text(&format!("{folder}/dev")).is_some() {
        return Some(folder);
    }
    let mounts = reader.text("/proc/self/mountinfo")?;
    let source = mounts.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        (before.split(' ').nth(2)? == number).then(|| after.split(' ').nth(1))?
    })?;
    Some(format!("/sys/class/block/{}", source.strip_prefix("/dev/")?))
}

#[cfg(test)]
mod tests;
