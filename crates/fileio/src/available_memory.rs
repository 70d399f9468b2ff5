//! Memory available to the page cache: MemAvailable, or less where a control group has a limit.

use fathom_measure::host::{Controller, HostReader};

/// Version 1 reports a number near 2⁶³ for "no limit".
const NO_LIMIT: u64 = 1 << 62;

/// Memory that file pages could fill, including those cached now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AvailableMemory {
    pub bytes: u64,
    /// Total memory, or the limit of the control group.
    pub limit: u64,
    pub source: String,
}

pub fn now() -> Option<AvailableMemory> {
    available_memory(&HostReader::live())
}

/// From the system files of `reader`; `None` without /proc/meminfo.
pub fn available_memory(reader: &HostReader) -> Option<AvailableMemory> {
    let text = reader.text("/proc/meminfo")?;
    let line = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib << 10)
    };
    let whole = AvailableMemory {
        bytes: line("MemAvailable")?,
        limit: line("MemTotal")?,
        source: "/proc/meminfo: MemAvailable".to_owned(),
    };
    let memory = reader.controller("memory");
    let groups = memory.iter().flat_map(|memory| {
        memory.levels.iter().filter_map(|level| of_group(reader, memory, level))
    });
    Some(groups.fold(whole, |least, group| AvailableMemory {
        limit: least.limit.min(group.limit),
        ..if group.bytes < least.bytes { group } else { least }
    }))
}

/// The limit of a group minus its usage other than file pages.
fn of_group(reader: &HostReader, memory: &Controller, level: &str) -> Option<AvailableMemory> {
    let (limit, usage, prefix) = match memory.version {
        1 => ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_"),
        _ => ("memory.max", "memory.current", ""),
    };
    let text = |file: &str| reader.text(&format!("{level}/{file}"));
    let number = |file: &str| text(file)?.trim().parse::<u64>().ok();
    let bytes = number(limit).filter(|&bytes| bytes < NO_LIMIT)?;
    let statistics = text("memory.stat")?;
    let pages = |name: &str| {
        let name = format!("{prefix}{name} ");
        let line = statistics.lines().find_map(|line| line.strip_prefix(name.as_str()));
        line.and_then(|number| number.trim().parse::<u64>().ok()).unwrap_or(0)
    };
    let files = pages("inactive_file") + pages("active_file");
    let used = number(usage)?.saturating_sub(files);
    let source = format!("{limit} of {} minus usage", memory.group(level));
    Some(AvailableMemory { bytes: bytes.saturating_sub(used), limit: bytes, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMINFO: &str = "MemTotal: 8000 kB\nMemFree: 10 kB\nMemAvailable: 5000 kB\n";
    const MIB: u64 = 1 << 20;

    fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let place = folder.path().join(path);
            std::fs::create_dir_all(place.parent().unwrap()).unwrap();
            std::fs::write(place, text).unwrap();
        }
        folder
    }

    #[test]
    fn without_limit_it_is_mem_available() {
        let machine = machine(&[("proc/meminfo", MEMINFO)]);
        let room = available_memory(&HostReader::at(machine.path())).unwrap();
        assert_eq!((room.bytes, room.limit), (5000 << 10, 8000 << 10));
        assert_eq!(available_memory(&HostReader::at("/no/such/machine")), None);
        assert!(now().is_some_and(|now| now.bytes <= now.limit), "every Linux has MemAvailable");
    }

    #[test]
    fn version_1_ignores_file_pages_in_usage() {
        let mounts = "35 30 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        let group = "sys/fs/cgroup/memory/a";
        let path = |name: &str| format!("{group}/{name}");
        let machine = machine(&[
            ("proc/meminfo", MEMINFO),
            ("proc/self/cgroup", "4:memory:/a\n"),
            ("proc/self/mountinfo", mounts),
            (&path("memory.limit_in_bytes"), "3145728\n"),
            (&path("memory.usage_in_bytes"), "2097152\n"),
            (
                &path("memory.stat"),
                "inactive_file 7\ntotal_inactive_file 524288\ntotal_active_file 524288\n",
            ),
        ]);
        let room = available_memory(&HostReader::at(machine.path())).unwrap();
        assert_eq!((room.bytes, room.limit), (2 * MIB, 3 * MIB));
        assert_eq!(room.source, "memory.limit_in_bytes of /a minus usage");
    }

    #[test]
    fn version_2_uses_lowest_of_all_groups() {
        let statistics = "anon 9\ninactive_file 0\nactive_file 0\n";
        let machine = machine(&[
            ("proc/meminfo", MEMINFO),
            ("proc/self/cgroup", "0::/a/b\n"),
            ("proc/self/mountinfo", "35 30 0:31 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
            ("sys/fs/cgroup/a/b/memory.max", "max\n"),
            ("sys/fs/cgroup/a/b/memory.current", "1\n"),
            ("sys/fs/cgroup/a/b/memory.stat", statistics),
            ("sys/fs/cgroup/a/memory.max", "2097152\n"),
            ("sys/fs/cgroup/a/memory.current", "1048576\n"),
            ("sys/fs/cgroup/a/memory.stat", statistics),
        ]);
        let room = available_memory(&HostReader::at(machine.path())).unwrap();
        assert_eq!((room.bytes, room.limit), (MIB, 2 * MIB));
    }
}
