//! Machines whose kernel states less than it seems, or more: emulators, virtual devices, isolated
//! CPUs, missing files.

use std::time::Duration;

use fathom_measure::condition;
use fathom_measure::host::HostReader;
use fathom_record::{Condition, Host};

use crate::fixture::HostMachine;
use crate::origins;

/// Reads a machine, whose facts must have origins.
fn read(machine: &HostMachine) -> Host {
    let host = machine.read();
    origins::check("odd machine", &host);
    host
}

fn now(machine: &HostMachine) -> Condition {
    let folder = machine.folder();
    let host = HostReader::at(folder.path()).read();
    condition::Reader::at(folder.path(), folder.path()).read(&host, Duration::ZERO)
}

/// The virtual board of QEMU and others, with a CPU.
fn arm(implementer: &str, part: &str) -> HostMachine {
    let cpuinfo = format!(
        "processor\t: 0\nFeatures\t: fp asimd\nCPU implementer\t: {implementer}\nCPU part\t: \
         {part}\nCPU revision\t: 3\n"
    );
    HostMachine::default()
        .with("/proc/sys/kernel/arch = aarch64\n/sys/devices/system/cpu/online = 0")
        .with_file("/proc/cpuinfo", cpuinfo)
        .with_file("/proc/device-tree/compatible", "linux,dummy-virt\0")
}

#[test]
fn emulated_arm_is_told_from_kvm_where_it_can_be() {
    let kinds = |machine: &HostMachine| {
        let host = read(machine);
        (host.virtualization, host.emulation)
    };
    let both = |kind: &str, by: Option<&str>| (Some(kind.to_owned()), by.map(str::to_owned));
    let fw_cfg = "/proc/device-tree/fw-cfg@9020000/reg = x";
    let product = |name: &str| {
        format!("/sys/class/dmi/id/product_name = {name}\n/sys/class/dmi/id/sys_vendor = QEMU")
    };
    let (max, a72, apple) = (arm("0x00", "0x051"), arm("0x41", "0xd08"), arm("0x61", "0x023"));
    // Firecracker and kvmtool have the same board.
    assert_eq!(kinds(&a72), both("unidentified", None));
    assert_eq!(kinds(&max.clone().with(fw_cfg)), both("qemu", Some("tcg")));
    assert_eq!(kinds(&a72.clone().with(fw_cfg)), both("qemu", None), "KVM or not");
    let emulated = product("QEMU Virtual Machine");
    assert_eq!(kinds(&a72.clone().with(&emulated)), both("qemu", Some("tcg")));
    assert_eq!(kinds(&apple.with(&emulated)), both("qemu", None), "HVF");
    let kvm = product("KVM Virtual Machine");
    assert_eq!(kinds(&a72.clone().with(&kvm).with(fw_cfg)), both("kvm", None));
    let by_acpi = HostMachine::default().with("/sys/firmware/qemu_fw_cfg/rev = 3");
    assert_eq!(kinds(&by_acpi), both("qemu", None));
    let node = a72.with_file("/proc/device-tree/hypervisor/compatible", "acme,visor\0");
    assert_eq!(kinds(&node), both("unidentified", None));
    assert_eq!(kinds(&crate::board::machine()), (None, None));
}

#[test]
fn unset_host_name_is_no_name() {
    let named = |name: &str| {
        let files = format!("/proc/sys/kernel/hostname = {name}\n/etc/hostname = image");
        read(&HostMachine::default().with(&files)).name
    };
    assert_eq!(named("(none)"), "", "what the image has is not the name");
    assert_eq!(named("heron"), "heron");
}

#[test]
fn isolated_cpus_are_none_or_unknown_or_listed() {
    let cpus = |files: &str| {
        let cpu = read(&HostMachine::default().with(files)).cpu;
        (cpu.isolated, cpu.nohz_full)
    };
    let folder = "/sys/devices/system/cpu";
    let files = |isolated: &str, tickless: &str| {
        format!("{folder}/isolated = {isolated}\n{folder}/nohz_full = {tickless}")
    };
    assert_eq!(cpus(""), (None, None));
    assert_eq!(cpus(&files("\\n", "(null)")), (Some(vec![]), Some(vec![])));
    assert_eq!(cpus(&files("1-3,8", "2-3")), (Some(vec![1, 2, 3, 8]), Some(vec![2, 3])));
    assert_eq!(cpus(&files("x", "2-")), (None, None), "malformed");
}

#[test]
fn dies_and_distances_are_counted_per_socket_and_node() {
    let mut machine = HostMachine::default().with(
        "/sys/devices/system/cpu/online = 0-3
        /sys/devices/system/node/node0/cpulist = 0-1
        /sys/devices/system/node/node0/distance = 10 21
        /sys/devices/system/node/node2/cpulist = 2-3
        /sys/devices/system/node/node2/distance = 21 10",
    );
    for cpu in 0..4 {
        let topology = format!("/sys/devices/system/cpu/cpu{cpu}/topology");
        machine = machine.with(&format!(
            "{topology}/physical_package_id = {}\n{topology}/die_id = {}",
            cpu / 2,
            cpu % 2
        ));
    }
    let cpu = read(&machine).cpu;
    assert_eq!((cpu.sockets, cpu.dies), (Some(2), Some(4)));
    assert_eq!(cpu.numa_distances, [(0, vec![10, 21]), (2, vec![21, 10])].into());
    // A row for another number of nodes has an unknown order.
    let hidden = machine.with("/sys/devices/system/node/node2/distance = 21 31 10");
    assert!(read(&hidden).cpu.numa_distances.is_empty());
}

#[test]
fn medium_is_known_only_if_the_device_reports_it() {
    let disk = |name: &str, driver: &str, more: &str| {
        let folder = format!("/sys/block/{name}");
        let more = more.replace("FOLDER", &folder);
        format!(
            "{folder}/size = 2048\n{folder}/queue/rotational = 1\n\
             {folder}/device/uevent = DEVTYPE=x\\nDRIVER={driver}\n{more}"
        )
    };
    let machine = |text: &str| HostMachine::default().with(text);
    let medium = |machine: &HostMachine| read(machine).disks.remove(0).rotational;
    let rate = |rate: u16| {
        let page = [&[0, 0xb1, 0, 60][..], &rate.to_be_bytes(), &[0; 8]].concat();
        machine(&disk("sda", "sd", "")).with_file("/sys/block/sda/device/vpd_pgb1", page)
    };
    assert_eq!(medium(&machine(&disk("vda", "virtio_blk", ""))), None);
    let rates = [0, 1, 0x400, 5400, 15_000, u16::MAX].map(|it| medium(&rate(it)));
    assert_eq!(rates, [None, Some(false), None, Some(true), Some(true), None]);
    let ata = disk("sda", "sd", "FOLDER/device/vendor = ATA");
    assert_eq!(medium(&machine(&ata)), Some(true), "older than SSDs");
    let guest = format!("{ata}\n/sys/class/dmi/id/sys_vendor = QEMU");
    assert_eq!(medium(&machine(&guest)), None, "an emulated disk");
    let stick = disk("sda", "sd", "FOLDER/removable = 1\nFOLDER/device/vendor = Acme");
    let host = read(&machine(&stick));
    assert_eq!((host.disks[0].rotational, host.disks[0].removable), (None, Some(true)));
    assert_eq!(host.disks[0].driver.as_deref(), Some("sd"));
}

#[test]
fn medium_of_a_mapped_disk_is_that_below() {
    let mapped = |below: &str, driver: &str| {
        HostMachine::default().with(&format!(
            "/sys/block/dm-0/size = 64\n/sys/block/dm-0/queue/rotational = 1
            /sys/block/dm-0/slaves/{below}1 = x\n/sys/block/{below}/size = 64
            /sys/block/{below}/{below}1/start = 1\n/sys/block/{below}/queue/rotational = 1
            /sys/block/{below}/device/uevent = DRIVER={driver}"
        ))
    };
    assert_eq!(read(&mapped("vda", "virtio_blk")).disks[0].rotational, None);
    assert_eq!(read(&mapped("hda", "ide")).disks[0].rotational, Some(true));
    let circle = HostMachine::default().with(
        "/sys/block/dm-0/size = 64\n/sys/block/dm-0/queue/rotational = 1
        /sys/block/dm-0/slaves/dm-0 = x",
    );
    assert_eq!(read(&circle).disks[0].rotational, None);
}

#[test]
fn virtual_interface_has_no_speed() {
    let speed = |device: &str| {
        let folder = "/sys/class/net/eth0";
        let files = format!("{folder}/mtu = 1500\n{folder}/speed = 10000\n{device}");
        read(&HostMachine::default().with(&files)).network.remove(0).bits_per_s
    };
    assert_eq!(speed(""), None, "veth");
    let card = "/sys/class/net/eth0/device/uevent = DRIVER=igb";
    assert_eq!(speed(card), Some(10_000_000_000));
}

#[test]
fn smallest_quota_up_to_the_root_applies() {
    let quotas = |files: &str, mount: &str, group: &str| {
        let mount = format!("31 23 0:28 / /sys/fs/cgroup rw - {mount}");
        let machine = HostMachine::default().with(files).with_file("/proc/self/cgroup", group);
        let host = read(&machine.with_file("/proc/self/mountinfo", mount));
        let origin = host.origins.get("cgroup.cpu_quota").cloned().unwrap_or_default();
        (host.cgroup.cpu_quota, origin, host.cgroup.sees_root)
    };
    let (v2, group) = ("cgroup2 cgroup2 rw", "0::/a/b/c\n");
    let files = "/sys/fs/cgroup/a/b/c/cpu.max = 300000 100000
        /sys/fs/cgroup/a/b/cpu.max = 400000 100000
        /sys/fs/cgroup/a/cpu.max = 50000 100000
        /sys/fs/cgroup/cgroup.controllers = cpu memory";
    let parent = "/sys/fs/cgroup/a/cpu.max".to_owned();
    assert_eq!(quotas(files, v2, group), (Some(0.5), parent, Some(true)));
    let hidden = format!("{files}\n/sys/fs/cgroup/cgroup.type = domain");
    assert_eq!(quotas(&hidden, v2, group).2, Some(false), "a container's view");
    let files = "/sys/fs/cgroup/a/b/cpu.cfs_quota_us = 300000
        /sys/fs/cgroup/a/b/cpu.cfs_period_us = 100000
        /sys/fs/cgroup/a/cpu.cfs_quota_us = 50000
        /sys/fs/cgroup/a/cpu.cfs_period_us = 100000
        /sys/fs/cgroup/cpu.cfs_quota_us = -1";
    let parent = "/sys/fs/cgroup/a/cpu.cfs_quota_us".to_owned();
    let found = quotas(files, "cgroup cgroup rw,cpu,memory", "2:cpu,memory:/a/b\n");
    assert_eq!((found.0, found.1), (Some(0.5), parent));
}

#[test]
fn machine_of_2048_cpus_is_read_whole() {
    let mut stat = "cpu  20480 0 0 20480 0 0 0 0\n".to_owned();
    for cpu in 0..2048 {
        stat += &format!("cpu{cpu} 10 0 0 {} 0 0 0 0\n", 10 + cpu);
    }
    // One line for all interrupts, of more than 64 KiB, and 17 MiB in all.
    stat += &format!("intr 1{}\nctxt 5\n", " 0".repeat((17 << 20) / 2));
    let machine = HostMachine::default()
        .with(
            "/sys/devices/system/cpu/online = 0-2047
            /proc/self/status = Cpus_allowed_list: 0-2047",
        )
        .with_file("/proc/stat", stat);
    let (host, condition) = (read(&machine), now(&machine));
    assert_eq!((host.cpu.logical, host.cpu.allowed.len()), (2048, 2048));
    assert_eq!(condition.since_boot.map(|boot| boot.busy), Some(0.5));
    assert_eq!(condition.look.map(|look| look.cpus.len()), Some(2048));
    assert_eq!(condition.cpu, Some(2047));
}

#[test]
fn missing_pressure_has_its_reason() {
    let why = |machine: HostMachine| now(&machine).pressure_missing.unwrap_or_default();
    let off = "/proc/cmdline = root=/dev/vda psi=0 quiet";
    assert_eq!(why(HostMachine::default().with(off)), "psi=0 on the kernel command line");
    assert!(why(HostMachine::default()).starts_with("no files in /proc/pressure"));
    // As an answer of EOPNOTSUPP: the file is there and gives nothing.
    let silent = HostMachine::default().with_file("/proc/pressure/cpu", "");
    assert_eq!(why(silent), "/proc/pressure cannot be read: off");
    let on = HostMachine::default().with("/proc/pressure/cpu = some avg10=1.00 avg60=0.00");
    assert_eq!(now(&on).pressure_missing, None);
}

#[test]
fn unknown_load_is_not_idle() {
    let machine = HostMachine::default().with("/proc/self/status = Cpus_allowed_list: 0-1");
    let condition = now(&machine);
    assert_eq!(condition.look, None);
    assert_eq!(condition.cpu_reason, "utilization unknown, not CPU 0 (default for interrupts)");
}
