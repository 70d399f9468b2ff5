//! The machines.

use serde_json::json;

use super::expected::Expected::{Is, Unknown, With, Without};
use super::machine::{Architecture, Bus, Node, Topology, ZooDisk, ZooKernel, ZooMachine};

const fn x86(series: &'static str) -> ZooKernel {
    ZooKernel { series, architecture: Architecture::X86, page_bytes: 4096 }
}

const fn of_arm(series: &'static str, page_bytes: u32) -> ZooKernel {
    ZooKernel { series, architecture: Architecture::Arm, page_bytes }
}

const fn topology(sockets: u32, dies: u32, cores: u32, threads: u32) -> Topology {
    Topology { sockets, dies, cores, threads }
}

const fn disk(bus: Bus, name: &'static str, file_system: Option<&'static str>) -> ZooDisk {
    let (sector_bytes, model, rotation, is_removable) = (512, None, None, false);
    ZooDisk { bus, name, sector_bytes, file_system, model, rotation, is_removable }
}

fn ext4() -> Vec<ZooDisk> {
    vec![disk(Bus::Virtio, "vda", Some("ext4"))]
}

/// A machine without anything special.
fn plain() -> ZooMachine {
    ZooMachine {
        name: "",
        is_quick: false,
        kernel: x86("6.1"),
        board: "q35",
        cpu: "max",
        topology: topology(1, 1, 2, 1),
        mib: 512,
        nodes: &[],
        disks: Vec::new(),
        places: &[],
        append: "",
        arguments: &[],
        has_proc: true,
        has_sys: true,
        has_cgroup: true,
        metrics: "",
        during: "",
        serves: true,
        has_units: false,
        facts: Vec::new(),
        modules: &[],
    }
}

fn arm() -> ZooMachine {
    let (kernel, disks) = (of_arm("6.1", 4096), ext4());
    ZooMachine { kernel, board: "virt", cpu: "cortex-a57", disks, ..plain() }
}

/// Metrics of each group that end soon on an emulated CPU.
const METRICS: &str = "cpu.clock.read os.syscall{call=stat} os.pipe.rtt os.thread.create";

/// Long ones first: two run at a time.
pub(super) fn machines() -> Vec<ZooMachine> {
    let mut machines = large();
    machines.extend(processors());
    machines.extend(disks());
    machines.extend(missing());
    machines.extend(firmware());
    machines.extend(arms());
    machines
}

fn large() -> Vec<ZooMachine> {
    vec![
        ZooMachine {
            name: "systemd",
            mib: 1024,
            disks: ext4(),
            serves: false,
            has_units: true,
            append: "systemd.show_status=no",
            facts: vec![("doctor/host/distribution", With("Debian GNU/Linux 12"))],
            ..plain()
        },
        ZooMachine {
            name: "64-cpus",
            kernel: x86("6.12"),
            cpu: "Haswell",
            topology: topology(2, 2, 8, 2),
            mib: 1024,
            ..plain()
        },
        ZooMachine {
            name: "memory-node",
            is_quick: true,
            cpu: "Haswell",
            topology: topology(1, 1, 2, 2),
            mib: 1024,
            nodes: &[Node { cpus: Some((0, 3)), mib: 768 }, Node { cpus: None, mib: 256 }],
            metrics: METRICS,
            ..plain()
        },
        ZooMachine {
            name: "two-nodes",
            kernel: x86("6.12"),
            topology: topology(2, 1, 2, 1),
            nodes: &[Node { cpus: Some((0, 1)), mib: 384 }, Node { cpus: Some((2, 3)), mib: 128 }],
            arguments: &["-numa", "dist,src=0,dst=1,val=31"],
            facts: vec![(
                "doctor/host/cpu/numa_distances",
                Is(json!({"0": [10, 31], "1": [31, 10]})),
            )],
            ..plain()
        },
        ZooMachine {
            name: "cpu-node",
            kernel: x86("5.10"),
            topology: topology(2, 1, 1, 1),
            nodes: &[Node { cpus: Some((0, 0)), mib: 512 }, Node { cpus: Some((1, 1)), mib: 0 }],
            ..plain()
        },
    ]
}

fn processors() -> Vec<ZooMachine> {
    let invariant = ("doctor/host/cpu/flags/nonstop_tsc", Is(json!("nonstop_tsc")));
    vec![
        ZooMachine {
            name: "invariant-tsc",
            cpu: "max,+invtsc",
            facts: vec![invariant, ("doctor/clock/facts/source", Is(json!("tsc")))],
            ..plain()
        },
        ZooMachine {
            name: "plain",
            is_quick: true,
            disks: ext4(),
            places: &["tmpfs", "overlay", "9p"],
            metrics: METRICS,
            ..plain()
        },
        ZooMachine {
            name: "dies",
            kernel: x86("6.12"),
            cpu: "Skylake-Client",
            topology: topology(1, 2, 2, 1),
            ..plain()
        },
        ZooMachine { name: "one-cpu", cpu: "qemu64", topology: topology(1, 1, 1, 1), ..plain() },
        ZooMachine {
            name: "offline",
            kernel: x86("5.10"),
            cpu: "Nehalem",
            topology: topology(1, 1, 4, 1),
            append: "maxcpus=3 isolcpus=2 psi=0 hugepages=8",
            facts: vec![
                ("doctor/host/cpu/logical", Is(json!(3))),
                ("doctor/host/cpu/cores", Is(json!(3))),
                ("doctor/host/cpu/numa", Is(json!({"0": [0, 1, 2]}))),
                ("doctor/host/cpu/isolated", Is(json!([2]))),
                ("doctor/host/memory/huge_pages/2097152", Is(json!(8))),
            ],
            ..plain()
        },
        ZooMachine {
            name: "cpu-leaves",
            kernel: x86("6.12"),
            topology: topology(1, 1, 3, 1),
            metrics: "--cpu 1 cpu os",
            during: "until [ -s /run/fathom.db ]; do usleep 200000; done; sleep 5; \
                     echo 0 >/sys/devices/system/cpu/cpu1/online",
            facts: vec![("run/records", With("CPU 1 went offline"))],
            ..plain()
        },
        ZooMachine {
            name: "small",
            kernel: x86("5.10"),
            cpu: "qemu64",
            topology: topology(1, 1, 1, 1),
            mib: 96,
            disks: ext4(),
            ..plain()
        },
        ZooMachine { name: "smallest", mib: 64, disks: ext4(), ..plain() },
    ]
}

fn arms() -> Vec<ZooMachine> {
    vec![
        ZooMachine {
            name: "arm-16k",
            is_quick: true,
            kernel: of_arm("6.12-16k", 16384),
            cpu: "max",
            places: &["tmpfs", "overlay"],
            metrics: METRICS,
            ..arm()
        },
        ZooMachine { name: "arm-small", topology: topology(1, 1, 1, 1), mib: 96, ..arm() },
        ZooMachine { name: "arm", topology: topology(1, 1, 4, 1), metrics: METRICS, ..arm() },
        ZooMachine {
            name: "arm-efi",
            cpu: "cortex-a72",
            arguments: &["-bios", "/usr/share/qemu-efi-aarch64/QEMU_EFI.fd"],
            ..arm()
        },
        ZooMachine {
            name: "arm-5.10",
            kernel: of_arm("5.10", 4096),
            cpu: "cortex-a72",
            topology: topology(2, 1, 1, 1),
            nodes: &[Node { cpus: Some((0, 0)), mib: 256 }, Node { cpus: Some((1, 1)), mib: 256 }],
            disks: vec![disk(Bus::Nvme, "nvme0n1", Some("xfs"))],
            ..arm()
        },
        ZooMachine {
            name: "arm-bare",
            topology: topology(1, 1, 1, 1),
            disks: Vec::new(),
            has_proc: false,
            has_sys: false,
            has_cgroup: false,
            ..arm()
        },
    ]
}

fn disks() -> Vec<ZooMachine> {
    vec![
        ZooMachine {
            name: "nvme",
            disks: vec![
                ZooDisk { sector_bytes: 4096, ..disk(Bus::Nvme, "nvme0n1", Some("xfs")) },
                ZooDisk { sector_bytes: 4096, ..disk(Bus::Virtio, "vda", Some("ext4")) },
            ],
            ..plain()
        },
        ZooMachine {
            name: "ide",
            is_quick: true,
            kernel: x86("5.10"),
            board: "pc",
            disks: vec![
                // The kernel probes disks of one kind in parallel: their order is by chance.
                ZooDisk {
                    rotation: Some(1),
                    model: Some("ZOO SSD"),
                    ..disk(Bus::Ide, "sda", Some("vfat"))
                },
                disk(Bus::Virtio, "vda", Some("btrfs")),
            ],
            ..plain()
        },
        ZooMachine {
            name: "usb",
            kernel: x86("6.12"),
            disks: vec![ZooDisk { is_removable: true, ..disk(Bus::Usb, "sda", Some("vfat")) }],
            ..plain()
        },
        ZooMachine {
            name: "scsi",
            kernel: x86("6.12"),
            disks: vec![
                ZooDisk {
                    rotation: Some(7200),
                    model: Some("ZOO DISK"),
                    ..disk(Bus::Scsi, "sda", Some("btrfs"))
                },
                disk(Bus::Nvme, "nvme0n1", None),
            ],
            ..plain()
        },
    ]
}

/// Machines without what a program expects to be there.
fn missing() -> Vec<ZooMachine> {
    vec![
        ZooMachine {
            name: "no-proc",
            has_proc: false,
            facts: vec![("doctor/clock/facts/refused", Without("no CPU flag"))],
            ..plain()
        },
        ZooMachine {
            name: "no-sys",
            has_sys: false,
            has_cgroup: false,
            metrics: METRICS,
            ..plain()
        },
        ZooMachine {
            name: "bare",
            is_quick: true,
            kernel: x86("6.12"),
            has_proc: false,
            has_sys: false,
            has_cgroup: false,
            ..plain()
        },
        ZooMachine { name: "no-cgroup", has_cgroup: false, ..plain() },
    ]
}

fn firmware() -> Vec<ZooMachine> {
    vec![
        ZooMachine {
            name: "oem",
            arguments: &[
                "-smbios",
                "type=1,manufacturer=To be filled by O.E.M.,product=To be filled by O.E.M.",
                "-smbios",
                "type=17,loc_pfx=To be filled by O.E.M.,bank=,manufacturer=,speed=3200",
            ],
            facts: vec![("doctor/host/memory/modules/0/transfers_per_s", Is(json!(3_200e6)))],
            ..plain()
        },
        ZooMachine {
            name: "control-bytes",
            arguments: &[
                "-smbios",
                "type=1,manufacturer=\u{1}\u{1b}[2J\u{7f},product=\u{8}\u{9b}31m",
                "-smbios",
                "type=17,loc_pfx=\u{1b}]0;title\u{7},bank=\u{202e}",
            ],
            ..plain()
        },
        ZooMachine {
            name: "cloud",
            cpu: "max,-hypervisor",
            arguments: &["-smbios", "type=1,manufacturer=Amazon EC2,product=m9g.large"],
            facts: vec![
                ("doctor/host/machine_type", Is(json!("aws/m9g.large"))),
                ("doctor/host/virtualization", Is(json!("none"))),
            ],
            ..plain()
        },
        ZooMachine {
            name: "network",
            kernel: x86("6.12"),
            arguments: &["-nic", "user,restrict=on,model=virtio-net-pci,mac=52:54:00:12:34:56"],
            facts: vec![
                ("doctor/host/network/eth0/driver", Is(json!("virtio_net"))),
                ("doctor/host/network/eth0/bits_per_s", Unknown),
            ],
            modules: &["virtio_net"],
            ..plain()
        },
    ]
}
