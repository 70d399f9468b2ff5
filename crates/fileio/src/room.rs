//! How much memory there is for the pages of files: what a new program could have, or less where
//! a control group has a limit.

use fathom_measure::host::{Controller, Reader};

/// Version 1 writes a number near 2⁶³ for "none".
const NONE: u64 = 1 << 62;

/// Memory that pages of files could fill, those that do so now included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Room {
    pub bytes: u64,
    /// All that there is within the limit, whoever uses it.
    pub limit: u64,
    pub source: String,
}

/// The room just now; none where /proc does not tell.
pub fn now() -> Option<Room> {
    of(&Reader::live())
}

/// The room by the files of a machine.
pub fn of(reader: &Reader) -> Option<Room> {
    let text = reader.text("/proc/meminfo")?;
    let line = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib << 10)
    };
    let whole = Room {
        bytes: line("MemAvailable")?,
        limit: line("MemTotal")?,
        source: "/proc/meminfo: MemAvailable".to_owned(),
    };
    let memory = reader.controller("memory");
    let groups = memory.iter().flat_map(|memory| {
        memory.levels.iter().filter_map(|level| of_group(reader, memory, level))
    });
    Some(groups.fold(whole, |least, room| Room {
        limit: least.limit.min(room.limit),
        ..if room.bytes < least.bytes { room } else { least }
    }))
}

/// The limit of a group, less what is in use there that is no page of a file.
fn of_group(reader: &Reader, memory: &Controller, level: &str) -> Option<Room> {
    let (limit, usage, prefix) = match memory.version {
        1 => ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_"),
        _ => ("memory.max", "memory.current", ""),
    };
    let text = |file: &str| reader.text(&format!("{level}/{file}"));
    let number = |file: &str| text(file)?.trim().parse::<u64>().ok();
    let bytes = number(limit).filter(|&bytes| bytes < NONE)?;
    let statistics = text("memory.stat")?;
    let pages = |name: &str| {
        let name = format!("{prefix}{name} ");
        let line = statistics.lines().find_map(|line| line.strip_prefix(name.as_str()));
        line.and_then(|number| number.trim().parse::<u64>().ok()).unwrap_or(0)
    };
    let files = pages("inactive_file") + pages("active_file");
    let used = number(usage)?.saturating_sub(files);
    let source = format!("{limit} of {}, less what is in use", memory.group(level));
    Some(Room { bytes: bytes.saturating_sub(used), limit: bytes, source })
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
    fn without_a_limit_it_is_what_a_new_program_could_have() {
        let machine = machine(&[("proc/meminfo", MEMINFO)]);
        let room = of(&Reader::at(machine.path())).unwrap();
        assert_eq!((room.bytes, room.limit), (5000 << 10, 8000 << 10));
        assert_eq!(of(&Reader::at("/no/such/machine")), None);
    }

    #[test]
    fn in_version_1_pages_of_files_do_not_count_as_used() {
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
        let room = of(&Reader::at(machine.path())).unwrap();
        assert_eq!((room.bytes, room.limit), (2 * MIB, 3 * MIB));
        assert_eq!(room.source, "memory.limit_in_bytes of /a, less what is in use");
    }

    #[test]
    fn in_version_2_the_smallest_of_all_groups_on_the_way_holds() {
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
        let room = of(&Reader::at(machine.path())).unwrap();
        assert_eq!((room.bytes, room.limit), (MIB, 2 * MIB));
    }
}
