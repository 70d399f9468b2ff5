//! How fast this process may be with a file's device: the limits of its control group.
//!
//! Version 2 holds a process to the limits of its group and of all groups above it. Version 1
//! knows no groups above: there only the process's own group counts
//! (Linux block/blk-throttle.c, `throtl_pd_init`: all groups are children of the root).

use std::fs::File;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};

use fathom_measure::host::{Controller, Reader};

/// Devices that lie on each other: LUKS on LVM on a partition are three.
const LAYERS: usize = 8;

/// The limits on the device of a file; all `None` where there is none, or none can be seen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Caps {
    pub read_bps: Option<u64>,
    pub write_bps: Option<u64>,
    pub read_iops: Option<u64>,
    pub write_iops: Option<u64>,
    /// Who sets them: the files of the groups, with commas between.
    pub source: String,
    /// Who sets each, in the order of [`Kind`].
    pub by: [String; 4],
    /// Bytes of the largest request to the device: larger ones are cut, and each piece is counted.
    pub largest_request: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    ReadBytes,
    WriteBytes,
    Reads,
    Writes,
}

/// Each limit with its file in version 1 and its key in version 2, in the order of [`Kind`].
const KINDS: [(Kind, &str, &str); 4] = [
    (Kind::ReadBytes, "blkio.throttle.read_bps_device", "rbps"),
    (Kind::WriteBytes, "blkio.throttle.write_bps_device", "wbps"),
    (Kind::Reads, "blkio.throttle.read_iops_device", "riops"),
    (Kind::Writes, "blkio.throttle.write_iops_device", "wiops"),
];

impl Caps {
    /// A limit by its kind.
    pub fn limit(&self, kind: Kind) -> Option<u64> {
        match kind {
            Kind::ReadBytes => self.read_bps,
            Kind::WriteBytes => self.write_bps,
            Kind::Reads => self.read_iops,
            Kind::Writes => self.write_iops,
        }
    }

    /// Who sets it, such as `blkio.throttle.read_bps_device of /web`; empty where nobody does.
    pub fn by(&self, kind: Kind) -> &str {
        &self.by[kind as usize]
    }

    fn lower(&mut self, kind: Kind, limit: u64, by: String) {
        let known = match kind {
            Kind::ReadBytes => &mut self.read_bps,
            Kind::WriteBytes => &mut self.write_bps,
            Kind::Reads => &mut self.read_iops,
            Kind::Writes => &mut self.write_iops,
        };
        if known.is_none_or(|known| limit < known) {
            *known = Some(limit);
            self.by[kind as usize] = by;
        }
    }
}

/// The limits on the device of a file, or on a device itself.
pub fn of(file: &File) -> Caps {
    let Ok(stat) = file.metadata() else { return Caps::default() };
    let device = if stat.file_type().is_block_device() { stat.rdev() } else { stat.dev() };
    on(&Reader::live(), rustix::fs::major(device), rustix::fs::minor(device))
}

/// The limits on the device of this number, from the files of a machine.
pub fn on(reader: &Reader, major: u32, minor: u32) -> Caps {
    let mut caps = Caps::default();
    // Where both versions are mounted, this finds version 1, which then has the limits.
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
    let mut sources: Vec<&str> =
        caps.by.iter().map(String::as_str).filter(|by| !by.is_empty()).collect();
    sources.dedup();
    caps.source = sources.join(", ");
    caps
}

fn of_group(reader: &Reader, of: &Controller, level: &str, device: &str, caps: &mut Caps) {
    let group = of.group(level);
    let line = |file: &str| {
        let text = reader.text(&format!("{level}/{file}"))?;
        let mut lines = text.lines().filter_map(|line| line.split_once(' '));
        lines.find(|(of, _)| *of == device).map(|(_, rest)| rest.trim().to_owned())
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
            // `max` is no limit, and no number either.
            if let Some(limit) = limit.and_then(|text| text.parse().ok()) {
                caps.lower(kind, limit, format!("io.max {key} of {group}"));
            }
        }
    }
}

/// The device of a number and those it lies on, each as the whole disk for which limits are set;
/// and the bytes of the largest request that all of them take whole.
fn devices(reader: &Reader, number: &str) -> (Vec<String>, Option<u64>) {
    let mut folders = vec![folder(reader, number)];
    let mut found = Vec::new();
    let mut largest: Option<u64> = None;
    for _ in 0..LAYERS {
        let Some(folder) = folders.pop().flatten() else { break };
        let is_part = reader.text(&format!("{folder}/partition")).is_some();
        let whole = if is_part { format!("{folder}/..") } else { folder };
        if let Some(number) = reader.text(&format!("{whole}/dev")) {
            found.push(number.trim().to_owned());
        }
        let kib = reader.text(&format!("{whole}/queue/max_sectors_kb"));
        if let Some(kib) = kib.and_then(|text| text.trim().parse::<u64>().ok()) {
            largest = Some(largest.unwrap_or(u64::MAX).min(kib << 10));
        }
        // On several devices at once a read goes to one of them: none limits the whole.
        if let [below] = reader.names(&format!("{whole}/slaves")).as_slice() {
            folders.push(Some(format!("/sys/class/block/{below}")));
        }
    }
    (found, largest)
}

/// The folder of a device; btrfs and its like give their files numbers of no device, and tell by
/// their mounts on which they lie.
fn folder(reader: &Reader, number: &str) -> Option<String> {
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
