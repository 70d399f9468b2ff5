//! Limits read from fake system files.

use std::path::Path;

use super::LimitKind::{ReadBytes, Reads, WriteBytes, Writes};
use super::*;

/// A disk 8:0 with partition 8:1, and device mapper device 252:0 on the partition.
struct CapMachine(tempfile::TempDir);

impl CapMachine {
    fn new(membership: &str, mounts: &str) -> Self {
        let machine = Self(tempfile::tempdir().unwrap());
        machine.write("proc/self/cgroup", membership);
        machine.write("proc/self/mountinfo", mounts);
        machine.write("sys/devices/sda/dev", "8:0\n");
        machine.write("sys/devices/sda/sda1/dev", "8:1\n");
        machine.write("sys/devices/sda/sda1/partition", "1\n");
        machine.write("sys/devices/dm-0/dev", "252:0\n");
        machine.link("sys/devices/dm-0/slaves/sda1", "../../sda/sda1");
        for (number, name) in [("8:0", "sda"), ("8:1", "sda/sda1"), ("252:0", "dm-0")] {
            machine.link(&format!("sys/dev/block/{number}"), &format!("../../devices/{name}"));
            let last = name.rsplit('/').next().unwrap();
            machine.link(&format!("sys/class/block/{last}"), &format!("../../devices/{name}"));
        }
        machine
    }

    fn place(&self, path: &str) -> std::path::PathBuf {
        let place = self.0.path().join(path);
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        place
    }

    fn write(&self, path: &str, text: &str) {
        std::fs::write(self.place(path), text).unwrap();
    }

    fn link(&self, path: &str, to: &str) {
        std::os::unix::fs::symlink(Path::new(to), self.place(path)).unwrap();
    }

    fn caps(&self, major: u32, minor: u32) -> Caps {
        on(&HostReader::at(self.0.path()), major, minor)
    }
}

fn rates(caps: &Caps) -> [Option<u64>; 4] {
    [ReadBytes, WriteBytes, Reads, Writes].map(|kind| caps.limit(kind).map(|limit| limit.rate))
}

fn set_by(caps: &Caps, kind: LimitKind) -> &str {
    caps.limit(kind).map_or("", |limit| &limit.set_by)
}

const MOUNT_1: &str = "35 30 0:31 / /sys/fs/cgroup/blkio rw - cgroup cgroup rw,blkio\n";
const MOUNT_2: &str = "35 30 0:31 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";

#[test]
fn version_1_uses_own_group_and_whole_disk() {
    let machine = CapMachine::new("7:blkio:/web/a\n", MOUNT_1);
    let file =
        |group: &str, name: &str| format!("sys/fs/cgroup/blkio/{group}blkio.throttle.{name}");
    machine.write(&file("web/a/", "read_bps_device"), "9:0 1\n8:0 52428800\n");
    machine.write(&file("web/a/", "write_iops_device"), "8:0 200\n");
    // Version 1 ignores the limits of parent groups.
    machine.write(&file("web/", "read_bps_device"), "8:0 1000\n");
    machine.write(&file("web/", "read_iops_device"), "8:0 7\n");
    for (major, minor) in [(8, 0), (8, 1), (252, 0)] {
        let caps = machine.caps(major, minor);
        assert_eq!(rates(&caps), [Some(52_428_800), None, None, Some(200)], "{major}:{minor}");
        assert_eq!(set_by(&caps, ReadBytes), "blkio.throttle.read_bps_device of /web/a");
        assert_eq!(set_by(&caps, Writes), "blkio.throttle.write_iops_device of /web/a");
    }
    assert_eq!(machine.caps(9, 9), Caps::default(), "unknown device");
}

#[test]
fn version_2_uses_lowest_limit_of_all_groups() {
    let machine = CapMachine::new("0::/web/a\n", MOUNT_2);
    machine.write("sys/fs/cgroup/web/a/io.max", "8:0 rbps=2000 wbps=max riops=max wiops=120\n");
    machine.write("sys/fs/cgroup/web/io.max", "8:0 rbps=1000 wbps=max riops=50 wiops=max\n");
    let caps = machine.caps(8, 1);
    assert_eq!(rates(&caps), [Some(1000), None, Some(50), Some(120)]);
    assert_eq!(set_by(&caps, ReadBytes), "io.max rbps of /web");
    assert_eq!(set_by(&caps, Writes), "io.max wiops of /web/a");
}

#[test]
fn mapped_device_has_lower_of_own_and_disk_limit() {
    let machine = CapMachine::new("0::/web\n", MOUNT_2);
    let limits =
        "252:0 rbps=max wbps=10 riops=max wiops=max\n8:0 rbps=99 wbps=20 riops=max wiops=max\n";
    machine.write("sys/fs/cgroup/web/io.max", limits);
    assert_eq!(rates(&machine.caps(252, 0)), [Some(99), Some(10), None, None]);
    assert_eq!(rates(&machine.caps(8, 0)), [Some(99), Some(20), None, None]);
}

#[test]
fn anonymous_device_is_found_by_mount_source() {
    let mounts = format!("{MOUNT_2}40 1 0:45 /root / rw - btrfs /dev/sda1 rw,ssd\n");
    let machine = CapMachine::new("0::/web\n", &mounts);
    machine.write("sys/fs/cgroup/web/io.max", "8:0 rbps=99 wbps=max riops=max wiops=max\n");
    assert_eq!(rates(&machine.caps(0, 45))[0], Some(99));
    assert_eq!(machine.caps(0, 46), Caps::default());
}

#[test]
fn hidden_groups_mean_no_limit() {
    assert_eq!(CapMachine::new("0::/web\n", "").caps(8, 0), Caps::default());
    assert_eq!(CapMachine::new("", MOUNT_2).caps(8, 0), Caps::default());
}

#[test]
fn largest_request_is_minimum_over_layers() {
    let machine = CapMachine::new("0::/web\n", MOUNT_2);
    machine.write("sys/fs/cgroup/web/io.max", "8:0 rbps=max wbps=max riops=9 wiops=max\n");
    machine.write("sys/devices/sda/queue/max_sectors_kb", "512\n");
    machine.write("sys/devices/dm-0/queue/max_sectors_kb", "1280\n");
    assert_eq!(machine.caps(252, 0).largest_request, Some(512 << 10));
    assert_eq!(machine.caps(8, 1).largest_request, Some(512 << 10), "a partition has no queue");
    assert_eq!(machine.caps(7, 0).largest_request, None);
}
