//! A hybrid Intel laptop: two cores with SMT, two without; bare metal, no quota.

use crate::fixture::HostMachine;

const FILES: &str = r"
/proc/sys/kernel/arch = x86_64
/proc/sys/kernel/hostname = lapwing
/proc/sys/kernel/osrelease = 6.12.9-arch1-1
/proc/sys/kernel/randomize_va_space = 2
/proc/cmdline = root=/dev/nvme0n1p2 rw mitigations=off quiet
/proc/uptime = 4242.17 9000.00
/proc/self/status = Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t2-63\nMems_allowed:\t1
/proc/meminfo = MemTotal: 16000000 kB\nMemAvailable: 12000000 kB\nSwapTotal: 0 kB
/etc/os-release = NAME=Arch\nPRETTY_NAME='Arch Linux'\nID=arch
/sys/devices/system/cpu/online = 0-5
/sys/devices/system/cpu/smt/active = 1
/sys/devices/system/cpu/cpu0/topology/thread_siblings_list = 0-1
/sys/devices/system/cpu/cpu1/topology/thread_siblings_list = 0-1
/sys/devices/system/cpu/cpu2/topology/thread_siblings_list = 2-3
/sys/devices/system/cpu/cpu3/topology/thread_siblings_list = 2-3
/sys/devices/system/cpu/cpu4/topology/thread_siblings_list = 4
/sys/devices/system/cpu/cpu5/topology/thread_siblings_list = 5
/sys/devices/system/cpu/cpu0/topology/physical_package_id = 0
/sys/devices/system/cpu/cpu5/topology/physical_package_id = 0
/sys/devices/cpu_core/cpus = 0-3
/sys/devices/cpu_atom/cpus = 4-5
/sys/devices/system/node/node0/cpulist = 0-5
/sys/devices/system/cpu/intel_pstate/no_turbo = 0
/sys/devices/system/cpu/cpu2/cpufreq/scaling_governor = powersave
/sys/devices/system/cpu/cpu2/cpufreq/scaling_driver = intel_pstate
/sys/devices/system/cpu/cpu2/cpufreq/cpuinfo_max_freq = 4700000
/sys/devices/system/cpu/cpu2/cpufreq/base_frequency = 2100000
/sys/devices/system/cpu/cpu2/cache/index0/level = 1
/sys/devices/system/cpu/cpu2/cache/index0/type = Data
/sys/devices/system/cpu/cpu2/cache/index0/size = 48K
/sys/devices/system/cpu/cpu2/cache/index0/coherency_line_size = 64
/sys/devices/system/cpu/cpu2/cache/index0/ways_of_associativity = 12
/sys/devices/system/cpu/cpu2/cache/index0/shared_cpu_list = 2-3
/sys/devices/system/cpu/cpu2/cache/index3/level = 3
/sys/devices/system/cpu/cpu2/cache/index3/type = Unified
/sys/devices/system/cpu/cpu2/cache/index3/size = 18M
/sys/devices/system/cpu/cpu2/cache/index3/shared_cpu_list = 0-5
/sys/devices/system/cpu/vulnerabilities/meltdown = Not affected
/sys/devices/system/cpu/vulnerabilities/spectre_v2 = Mitigation: Enhanced IBRS
/sys/devices/system/clocksource/clocksource0/current_clocksource = tsc
/sys/devices/system/clocksource/clocksource0/available_clocksource = tsc hpet acpi_pm
/sys/kernel/mm/transparent_hugepage/enabled = [always] madvise never
/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages = 0
/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages = 2
/proc/self/cgroup = 0::/user.slice/session.scope
/proc/self/mountinfo = 31 23 0:28 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw
/sys/fs/cgroup/cgroup.controllers = cpu memory pids
/sys/fs/cgroup/user.slice/session.scope/cpu.max = max 100000
/sys/fs/cgroup/user.slice/session.scope/memory.max = max
/sys/fs/cgroup/user.slice/pids.max = 18000
/sys/class/dmi/id/product_name = 21CB
/sys/block/nvme0n1/size = 2000409264
/sys/block/nvme0n1/device/model = Samsung SSD 980 PRO 1TB
/sys/block/nvme0n1/queue/rotational = 0
/sys/block/nvme0n1/queue/logical_block_size = 512
/sys/block/nvme0n1/queue/physical_block_size = 4096
/sys/block/nvme0n1/queue/scheduler = [none] mq-deadline kyber
/sys/block/nvme0n1/queue/read_ahead_kb = 128
/proc/sys/vm/swappiness = 60
/proc/sys/vm/dirty_ratio = 20
/proc/sys/vm/dirty_background_ratio = 10
/proc/sys/vm/dirty_bytes = 0
/proc/sys/vm/dirty_background_bytes = 0
/sys/class/net/enp0s31f6/tx_queue_len = 1000
/sys/block/nvme0c0n1/size = 2000409264
/sys/block/nvme0c0n1/hidden = 1
/sys/block/loop0/size = 8
/sys/block/zram0/size = 8000
/sys/block/sr0/size = 0
/sys/class/net/lo/type = 772
/sys/class/net/lo/mtu = 65536
/sys/class/net/lo/operstate = unknown
/sys/class/net/enp0s31f6/type = 1
/sys/class/net/enp0s31f6/mtu = 1500
/sys/class/net/enp0s31f6/speed = 1000
/sys/class/net/enp0s31f6/operstate = up
/sys/class/net/enp0s31f6/address = 02:00:00:00:00:01
/sys/class/net/enp0s31f6/addr_assign_type = 0
/sys/class/net/enp0s31f6/device/uevent = DRIVER=e1000e\nPCI_CLASS=20000
/sys/class/net/wlp0s20f3/type = 1
/sys/class/net/wlp0s20f3/mtu = 1500
/sys/class/net/wlp0s20f3/speed = -1
/sys/class/net/wlp0s20f3/operstate = down
/sys/class/net/bonding_masters = bond0
/proc/sys/net/ipv4/tcp_congestion_control = bbr
/proc/sys/net/ipv4/tcp_available_congestion_control = reno bbr cubic
/proc/sys/net/ipv4/tcp_rmem = 4096\t131072\t33554432
/proc/sys/net/ipv4/tcp_wmem = 4096\t16384\t4194304
/proc/sys/net/ipv4/ip_local_port_range = 32768\t60999
/proc/sys/net/ipv4/tcp_tw_reuse = 2
/proc/sys/net/ipv4/tcp_slow_start_after_idle = 1
/proc/net/route = Iface\tDestination\nenp0s31f6\t00000000\t0100A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0
/proc/sys/net/core/rmem_max = 4194304
/proc/sys/net/core/wmem_max = 4194304
/proc/sys/net/core/somaxconn = 4096
/proc/sys/net/core/default_qdisc = fq
/proc/sys/kernel/sched_autogroup_enabled = 1
/sys/module/zswap/parameters/enabled = Y
/sys/module/zswap/parameters/compressor = zstd
/sys/module/zswap/parameters/max_pool_percent = 20
/sys/kernel/mm/ksm/run = 1
/sys/kernel/mm/ksm/pages_sharing = 512
/sys/kernel/mm/damon/admin/kdamonds/0/state = on
/sys/kernel/mm/damon/admin/kdamonds/0/contexts/0/schemes/0/action = pageout
/sys/bus/pci/devices/0000:01:00.0/class = 0x010802
/sys/bus/pci/devices/0000:01:00.0/current_link_speed = 8.0 GT/s PCIe
/sys/bus/pci/devices/0000:01:00.0/current_link_width = 4
/sys/bus/pci/devices/0000:01:00.0/max_link_speed = 16.0 GT/s PCIe
/sys/bus/pci/devices/0000:01:00.0/max_link_width = 4
/sys/bus/pci/devices/0000:00:02.0/class = 0x030000
/sys/bus/pci/devices/0000:00:02.0/current_link_speed = Unknown
/sys/bus/pci/devices/0000:00:02.0/current_link_width = 0
/sys/bus/pci/devices/0000:00:1f.0/class = 0x060100
/sys/bus/pci/devices/0000:00:1f.0/current_link_speed = 2.5 GT/s PCIe
";

/// A block of `/proc/cpuinfo`, with a current frequency that must not be used.
fn block(cpu: u32) -> String {
    format!(
        "processor\t: {cpu}\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 154\n\
         model name\t: 12th Gen Intel(R) Core(TM) i7-1260P\nstepping\t: 3\n\
         microcode\t: 0x436\ncpu MHz\t\t: 4690.123\nphysical id\t: 0\ncore id\t\t: {cpu}\n\
         flags\t\t: fpu tsc constant_tsc nonstop_tsc rdtscp avx2 pcid invpcid erms\n\n"
    )
}

/// An SMBIOS table with a DDR5 module of 16 GiB at 4800 MT/s and an empty slot.
fn smbios() -> Vec<u8> {
    let mut module = [0_u8; 0x5c];
    (module[0], module[1], module[0x10], module[0x12]) = (17, 0x5c, 1, 0x22);
    module[0x0c..0x0e].copy_from_slice(&16_384_u16.to_le_bytes());
    module[0x20..0x22].copy_from_slice(&4800_u16.to_le_bytes());
    let mut empty = module;
    empty[0x0c..0x0e].fill(0);
    [&module[..], b"Controller0-DIMM0\0\0", &empty, b"Controller1-DIMM0\0\0"].concat()
}

pub(crate) fn machine() -> HostMachine {
    HostMachine::default()
        .with(FILES)
        .with_file("/proc/cpuinfo", (0..6).map(block).collect::<String>())
        .with_file("/sys/firmware/dmi/tables/DMI", smbios())
}

#[test]
fn boost_off_limit_is_not_the_maximum_rate() {
    let off = "/sys/devices/system/cpu/intel_pstate/no_turbo = 1";
    let cpu = machine().with(off).read().cpu;
    assert_eq!((cpu.boost, cpu.boost_hz), (Some(false), None));
}
