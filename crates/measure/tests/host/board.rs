//! An ARM board with two kinds of core, no `cpuid`, and little in `/sys`.

use crate::fixture::HostMachine;

const FILES: &str = r"
/proc/sys/kernel/arch = aarch64
/etc/hostname = snipe
/proc/self/status = Cpus_allowed_list:\t4-5
/sys/devices/system/cpu/online = 0-5
/sys/devices/system/cpu/cpu4/cpufreq/scaling_governor = schedutil
/sys/devices/system/cpu/cpu4/cpufreq/cpuinfo_max_freq = 1800000
/sys/devices/system/cpu/cpu4/cache/index0/type = Data
/sys/devices/system/cpu/cpu4/cache/index0/level = 1
/sys/devices/system/clocksource/clocksource0/current_clocksource = arch_sys_counter
/sys/class/dmi/id/sys_vendor = Acme Boards
/sys/block/mmcblk0/size = 61071360
/sys/block/mmcblk0/device/name = SD32G
/sys/block/mmcblk0/queue/rotational = 0
";

pub(crate) fn machine() -> HostMachine {
    let mut machine = HostMachine::default().with(FILES);
    let mut cpuinfo = String::new();
    for cpu in 0..6 {
        let (part, capacity) = if cpu < 4 { ("0xd03", 446) } else { ("0xd08", 1024) };
        let folder = format!("/sys/devices/system/cpu/cpu{cpu}");
        machine = machine.with(&format!(
            "{folder}/cpu_capacity = {capacity}
            {folder}/topology/thread_siblings_list = {cpu}
            {folder}/topology/physical_package_id = -1"
        ));
        cpuinfo += &format!(
            "processor\t: {cpu}\nBogoMIPS\t: 48.00\nFeatures\t: fp asimd aes pmull crc32 cpuid\n\
             CPU implementer\t: 0x41\nCPU architecture: 8\nCPU part\t: {part}\n\
             CPU revision\t: 2\n\n"
        );
    }
    machine.with_file("/proc/cpuinfo", cpuinfo + "Hardware\t: Acme\n")
}

#[test]
fn unknown_core_is_named_by_its_numbers() {
    let strange = machine().with_file(
        "/proc/cpuinfo",
        "processor: 4\nCPU implementer: 0x99\nCPU part: 0xfff\nCPU revision: 0\n",
    );
    assert_eq!(strange.read().cpu.model, "implementer 0x99 part 0xfff");
}

#[test]
fn device_tree_names_the_hypervisor() {
    let guest = machine().with_file("/proc/device-tree/hypervisor/compatible", "linux,kvm\0");
    assert_eq!(guest.read().virtualization.as_deref(), Some("kvm"));
}
