//! A minimal container: some files of `/proc`, no `/sys`.

use std::os::unix::fs::symlink;

use fathom_measure::host::HostReader;
use fathom_record::Host;

use crate::fixture::HostMachine;

pub(crate) fn machine() -> HostMachine {
    HostMachine::default()
        .with(
            r"
            /proc/sys/kernel/osrelease = 4.4.0
            /proc/meminfo = MemTotal: 2097152 kB\nMemFree: 2000000 kB
            /proc/cpuinfo = processor : 0\nvendor_id : GenuineIntel\nmodel name : unknown @ 2.20GHz
            /proc/self/cgroup = 5:cpu:/docker/0123\n4:memory:/docker/0123
            /proc/uptime = 12.5 3.0",
        )
        .with_file("/proc/1/environ", b"PATH=/bin\0container=oci\0".as_slice())
}

#[test]
fn container_managers_are_detected() {
    let container = |machine: HostMachine| machine.read().container;
    let empty = HostMachine::default;
    assert_eq!(container(empty().with_file("/.dockerenv", "")).as_deref(), Some("docker"));
    let podman = empty().with_file("/run/.containerenv", "");
    assert_eq!(container(podman).as_deref(), Some("podman"));
    let pod = empty().with("/proc/self/cgroup = 0::/kubepods.slice/x");
    assert_eq!(container(pod).as_deref(), Some("kubernetes"));
    assert_eq!(container(empty()), None);
}

#[test]
fn docker_image_on_disk_is_no_container() {
    let dir = HostMachine::default().with_file("/.dockerenv", "").folder();
    let namespaces = dir.path().join("proc/self/ns");
    std::fs::create_dir_all(&namespaces).unwrap();
    for (kind, number) in [("ipc", 4026531839), ("uts", 4026531838), ("cgroup", 4026531835_u32)] {
        symlink(format!("{kind}:[{number}]"), namespaces.join(kind)).unwrap();
    }
    let own = namespaces.join("pid");
    symlink("pid:[4026532201]", &own).unwrap();
    let container = || HostReader::at(dir.path()).read().container;
    assert_eq!(container().as_deref(), Some("docker"), "not the initial PID namespace");
    std::fs::remove_file(&own).unwrap();
    symlink("pid:[4026531836]", &own).unwrap();
    assert_eq!(container(), None);
}

#[test]
fn missing_files_give_no_facts() {
    assert_eq!(HostMachine::default().read(), Host::default());
}
