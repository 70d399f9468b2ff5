//! A two-socket AMD server under KVM, with SMT, and a cgroup (version 2) quota on an ancestor.

use fathom_measure::disturbance::throttled_ns_of;
use fathom_measure::host::HostReader;

use crate::fixture::HostMachine;

const FILES: &str = r"
/proc/sys/kernel/hostname = heron
/proc/sys/kernel/osrelease = 5.14.0-503.el9.x86_64
/proc/self/status = Cpus_allowed_list:\t0-7
/proc/meminfo = MemTotal: 65000000 kB\nHugePages_Total: 12\nHugepagesize: 2048 kB
/sys/devices/system/cpu/online = 0-7
/sys/devices/system/node/node0/cpulist = 0-1,4-5
/sys/devices/system/node/node1/cpulist = 2-3,6-7
/sys/devices/system/node/node2/cpulist = \n
/sys/devices/system/node/node0/distance = 10 21 17
/sys/devices/system/node/node1/distance = 21 10 28
/sys/devices/system/node/node2/distance = 17 28 10
/sys/devices/system/node/has_cpu = 0-1
/sys/devices/system/cpu/isolated = 6-7
/sys/devices/system/cpu/nohz_full = (null)
/sys/devices/system/cpu/cpufreq/boost = 1
/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor = performance
/sys/devices/system/cpu/cpu0/cpufreq/scaling_driver = acpi-cpufreq
/sys/devices/system/cpu/cpu0/acpi_cppc/nominal_freq = 2450
/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq = 3529052
/proc/self/cgroup = 0::/machine.slice/pod7/box1
/proc/self/mountinfo = 31 23 0:28 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw
/sys/fs/cgroup/cgroup.controllers = cpu cpuset memory pids
/sys/fs/cgroup/machine.slice/cpu.max = 600000 100000
/sys/fs/cgroup/machine.slice/memory.max = 34359738368
/sys/fs/cgroup/machine.slice/pod7/cpu.max = 150000 100000
/sys/fs/cgroup/machine.slice/pod7/memory.max = 8589934592
/sys/fs/cgroup/machine.slice/pod7/pids.max = 4096
/sys/fs/cgroup/machine.slice/pod7/box1/cpu.max = max 100000
/sys/fs/cgroup/machine.slice/pod7/box1/memory.max = max
/sys/fs/cgroup/machine.slice/pod7/box1/pids.max = max
/sys/fs/cgroup/machine.slice/pod7/box1/cpuset.cpus.effective = 0-3
/sys/fs/cgroup/cpuset.cpus.effective = 0-7
/sys/class/dmi/id/sys_vendor = QEMU
/sys/class/dmi/id/product_name = KVM
/run/systemd/container = podman
/sys/block/sda/size = 1000
/sys/block/sda/queue/rotational = 1
/sys/block/sda/queue/scheduler = none [mq-deadline] bfq
/sys/class/net/ens3/mtu = 9000
/sys/class/net/ens3/speed = 100000
/sys/class/net/ens3/operstate = unknown
/sys/class/net/ens3/carrier = 1
/sys/class/net/ens3/device/uevent = DRIVER=mlx5_core
";

pub(crate) fn machine() -> HostMachine {
    let mut machine = HostMachine::default().with(FILES);
    let mut cpuinfo = String::new();
    for cpu in 0..8 {
        // Siblings differ by four; each socket has two cores, numbered from 0.
        let (core, socket) = (cpu % 2, (cpu / 2) % 2);
        let topology = format!("/sys/devices/system/cpu/cpu{cpu}/topology");
        machine = machine.with(&format!(
            "{topology}/thread_siblings_list = {},{}\n{topology}/physical_package_id = {socket}",
            cpu % 4,
            cpu % 4 + 4
        ));
        cpuinfo += &format!(
            "processor : {cpu}\nvendor_id : AuthenticAMD\ncpu family : 25\nmodel : 1\n\
             model name : AMD EPYC 7763 64-Core Processor\nphysical id : {socket}\n\
             core id : {core}\nflags : tsc hypervisor\n\n"
        );
    }
    machine.with_file("/proc/cpuinfo", cpuinfo)
}

#[test]
fn cpuinfo_replaces_missing_sys() {
    let mut bare = machine();
    bare.files.retain(|(path, _)| !path.starts_with("/sys/"));
    let cpu = bare.read().cpu;
    assert_eq!((cpu.logical, cpu.cores, cpu.sockets), (8, Some(4), Some(2)));
    assert_eq!((cpu.smt, cpu.siblings), (None, vec![]));
}

#[test]
fn version_1_maximum_is_no_limit() {
    let mounts = [("cpu,cpuacct", 40), ("memory", 41), ("pids", 42), ("cpuset", 43)];
    let mounts: Vec<String> = mounts
        .iter()
        .map(|(name, id)| {
            format!("{id} 31 0:{id} / /sys/fs/cgroup/{name} rw - cgroup cgroup rw,{name}")
        })
        .collect();
    let files = "/proc/self/cgroup = 4:memory:/a\\n3:pids:/\\n2:cpuset:/a/b\\n1:cpu,cpuacct:/a/b
        /sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_quota_us = -1
        /sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_period_us = 100000
        /sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us = 50000
        /sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us = 100000
        /sys/fs/cgroup/memory/a/memory.limit_in_bytes = 9223372036854771712
        /sys/fs/cgroup/cpuset/a/b/cpuset.effective_cpus = 1,3";
    let one = machine().with(files).with_file("/proc/self/mountinfo", mounts.join("\n"));
    let cgroup = one.read().cgroup;
    assert_eq!((cgroup.version, cgroup.path.as_deref()), (Some(1), Some("/a/b")));
    assert_eq!((cgroup.cpu_quota, cgroup.memory_limit_bytes), (Some(0.5), None));
    assert_eq!((cgroup.cpus, cgroup.pids_max), (vec![1, 3], None));
    let stat = "/sys/fs/cgroup/memory/a/memory.stat = cache 5\\nhierarchical_memory_limit 4096";
    assert_eq!(one.with(stat).read().cgroup.memory_limit_bytes, Some(4096));
}

#[test]
fn unknown_hypervisor_is_unidentified() {
    let unnamed = machine().with(
        "/sys/class/dmi/id/sys_vendor = Acme
        /sys/class/dmi/id/product_name = Rack",
    );
    assert_eq!(unnamed.read().virtualization.as_deref(), Some("unidentified"));
}

#[test]
fn emulated_cpu_is_detected_by_its_model() {
    assert_eq!(machine().read().emulation, None);
    let model = "model name\t: QEMU TCG CPU version 2.5+\nflags\t\t: fpu tsc hypervisor\n";
    let cpuinfo: String = (0..4).map(|cpu| format!("processor\t: {cpu}\n{model}\n")).collect();
    let host = machine().with_file("/proc/cpuinfo", cpuinfo).read();
    assert_eq!(host.emulation.as_deref(), Some("tcg"));
    assert!(host.origins["emulation"].starts_with("/proc/cpuinfo"), "{:?}", host.origins);
}

#[test]
fn limits_of_another_process_are_those_of_its_groups() {
    let folder = machine()
        .with(
            r"/proc/77/cgroup = 0::/machine.slice/web
            /proc/77/status = Name:\tx\nCpus_allowed_list:\t2,4-5
            /proc/78/cgroup = 0::/../other
            /sys/fs/cgroup/machine.slice/cpu.stat = nr_periods 60\nnr_throttled 2\nthrottled_usec 5
            /sys/fs/cgroup/machine.slice/web/cpu.max = 50000 100000
            /sys/fs/cgroup/machine.slice/web/cpu.stat = nr_periods 60\nnr_throttled 20\nthrottled_usec 900",
        )
        .folder();
    let reader = HostReader::at(folder.path());
    assert_eq!((reader.cpu_quota(), reader.cpu_quota_of("77")), (Some(1.5), Some(0.5)));
    assert_eq!(reader.cpus_of("77"), [2, 4, 5]);
    assert_eq!(throttled_ns_of(&reader, "77"), Some(900_000));
    // Outside of what is mounted here, and no process.
    for process in ["78", "79"] {
        assert_eq!((reader.cpu_quota_of(process), throttled_ns_of(&reader, process)), (None, None));
        assert!(reader.cpus_of(process).is_empty());
    }
}
