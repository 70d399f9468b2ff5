//! Detection of virtual machines and containers. A process may be in both.

use fathom_record::Host;

use super::user_mode::user_mode;
use super::{HostSources, cpu, cpuinfo, first_cpu};
use crate::tree::{FileTree, TreeFact, keep};

pub(super) fn read(sources: &HostSources, host: &mut Host) {
    keep!(host.virtualization, hypervisor(sources, first_cpu(host)));
    keep!(host.emulation, emulation(sources, first_cpu(host)));
    keep!(host.container, container(&sources.tree));
    keep!(host.machine_type, machine_type(&sources.tree));
}

/// Only Amazon EC2 names the type in its firmware.
fn machine_type(tree: &FileTree) -> Option<TreeFact<String>> {
    tree.line("/sys/class/dmi/id/sys_vendor").filter(|vendor| vendor == "Amazon EC2")?;
    tree.value("/sys/class/dmi/id/product_name", |name| {
        let is_type = name.contains('.')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || ".-".contains(c));
        is_type.then(|| format!("aws/{name}"))
    })
}

/// The hypervisor's name, from the most reliable source. On x86 a CPUID bit shows whether there is
/// one; on ARM the absence of evidence is unknown, not `none`.
fn hypervisor(sources: &HostSources, cpu: u32) -> Option<TreeFact<String>> {
    let tree = &sources.tree;
    if let Some(kind) = tree.fact("/sys/hypervisor/type") {
        return Some(kind);
    }
    let bit = match &sources.cpuid {
        Some(cpuid) => Some(TreeFact::new(cpuid.hypervisor, "cpuid leaf 1, ecx bit 31")),
        None => sources.cpuinfo.fact_of(cpu, "flags").map(|flags| {
            flags.map(|text| text.split_whitespace().any(|flag| flag == "hypervisor"))
        }),
    };
    // The bit takes precedence: firmware of bare metal in a cloud may name the cloud.
    if let Some(bit) = bit.as_ref().filter(|bit| !bit.value) {
        return Some(TreeFact::new("none".to_owned(), bit.origin.clone()));
    }
    let named = sources.cpuid.as_ref().and_then(|cpuid| {
        Some(TreeFact::new(cpuid.hypervisor_name.clone()?, "cpuid leaf 0x40000000"))
    });
    named
        .or_else(|| by_hypervisor_node(tree))
        .or_else(|| by_firmware(tree))
        .or_else(|| by_board(tree))
        .or_else(|| bit.map(|bit| bit.map(|_| UNIDENTIFIED.to_owned())))
}

const UNIDENTIFIED: &str = "unidentified";

/// QEMU without an accelerator (TCG) has a CPUID signature of its own, and a model name if no other
/// is set. User-mode emulation has them, too. On ARM, a guest of KVM may show the same CPU, board
/// and device tree: only what TCG alone has is evidence.
fn emulation(sources: &HostSources, cpu: u32) -> Option<TreeFact<String>> {
    const MODEL: &str = "QEMU TCG CPU";
    let tcg = |origin: &str| TreeFact::new("tcg".to_owned(), origin);
    if let Some(place) = user_mode(sources) {
        return Some(TreeFact::new("user mode".to_owned(), place));
    }
    let cpuid = sources.cpuid.as_ref();
    if cpuid.is_some_and(|it| it.hypervisor_name.as_deref() == Some("qemu")) {
        return Some(tcg("cpuid leaf 0x40000000"));
    }
    if cpuid.and_then(|it| it.brand.as_deref()).is_some_and(|it| it.starts_with(MODEL)) {
        return Some(tcg("cpuid leaf 0x80000002"));
    }
    let model = sources.cpuinfo.fact_of(cpu, "model name").filter(|it| it.value.starts_with(MODEL));
    model.map(|model| tcg(&model.origin)).or_else(|| emulated_arm(sources, cpu))
}

/// The rate of the timer of QEMU's older ARM CPUs, a tick of 16 ns (target/arm/internals.h). KVM
/// has that of its host, and no hardware with virtualization is known to have this one.
const TCG_TIMER_HZ: u64 = 62_500_000;

fn emulated_arm(sources: &HostSources, cpu: u32) -> Option<TreeFact<String>> {
    let number = |key: &str| cpuinfo::number(&sources.cpuinfo.fact_of(cpu, key)?.value);
    let implementer = number("CPU implementer")?;
    let tcg = |origin: String| Some(TreeFact::new("tcg".to_owned(), origin));
    // `-cpu max` (target/arm/tcg/cpu64.c): the implementer of software, and a Q.
    if (implementer, number("CPU part")) == (0, Some(0x51)) {
        return tcg("/proc/cpuinfo: CPU implementer, CPU part".to_owned());
    }
    // hw/arm/virt.c names the machine after KVM; under HVF, the CPU is Apple's.
    let product = "/sys/class/dmi/id/product_name";
    let is_qemu = sources.tree.line(product).as_deref() == Some("QEMU Virtual Machine");
    if is_qemu && implementer != cpu::APPLE {
        return tcg(product.to_owned());
    }
    let has_qemu = is_qemu || by_board(&sources.tree).is_some_and(|board| board.value == "qemu");
    let timer_hz = timer_hz().filter(|_| sources.live && has_qemu);
    timer_hz.filter(|hz| *hz == TCG_TIMER_HZ).and_then(|_| tcg("cntfrq_el0".to_owned()))
}

/// The rate of the generic timer, as the firmware set it.
#[cfg(target_arch = "aarch64")]
fn timer_hz() -> Option<u64> {
    let hz: u64;
    // SAFETY: reads a register that Linux allows in user space, or reads for it; no memory.
    unsafe { core::arch::asm!("mrs {hz}, cntfrq_el0", hz = out(reg) hz, options(nomem, nostack)) };
    Some(hz)
}

#[cfg(not(target_arch = "aarch64"))]
fn timer_hz() -> Option<u64> {
    None
}

fn by_hypervisor_node(tree: &FileTree) -> Option<TreeFact<String>> {
    tree.value("/proc/device-tree/hypervisor/compatible", |text| {
        let kinds = ["kvm", "xen", "vmware"];
        let known = kinds.into_iter().find(|kind| text.contains(kind));
        Some(known.unwrap_or(UNIDENTIFIED).to_owned())
    })
}

/// By devices that boards of hypervisors have, after systemd `src/basic/virt.c`. The board of QEMU
/// is also that of others, such as Firecracker and kvmtool, which lack its firmware interface.
fn by_board(tree: &FileTree) -> Option<TreeFact<String>> {
    const NODES: &str = "/proc/device-tree";
    const DEVICE: &str = "/sys/firmware/qemu_fw_cfg";
    let qemu = |origin: String| TreeFact::new("qemu".to_owned(), origin);
    let node = tree.names(NODES).into_iter().find(|name| name.contains("fw-cfg"));
    let node = node.map(|name| qemu(format!("{NODES}/{name}")));
    let device = || tree.exists(DEVICE).then(|| qemu(DEVICE.to_owned()));
    node.or_else(device).or_else(|| {
        tree.value(&format!("{NODES}/compatible"), |text| match text {
            "qemu,pseries" => Some("qemu".to_owned()),
            "linux,dummy-virt" => Some(UNIDENTIFIED.to_owned()),
            _ => None,
        })
    })
}

/// Hypervisors by DMI strings, after the table in systemd `src/basic/virt.c`.
fn by_firmware(tree: &FileTree) -> Option<TreeFact<String>> {
    const NAMES: &[(&str, &str)] = &[
        ("KVM", "kvm"),
        ("OpenStack", "kvm"),
        ("KubeVirt", "kvm"),
        ("Amazon EC2", "amazon"),
        ("Google Compute Engine", "google"),
        ("QEMU", "qemu"),
        ("VMware", "vmware"),
        ("VMW", "vmware"),
        ("innotek GmbH", "oracle"),
        ("VirtualBox", "oracle"),
        ("Xen", "xen"),
        ("Bochs", "bochs"),
        ("Parallels", "parallels"),
        ("BHYVE", "bhyve"),
        ("Hyper-V", "hyperv"),
        ("Apple Virtualization", "apple"),
    ];
    let files = ["product_name", "sys_vendor", "board_vendor", "bios_vendor", "product_version"];
    // Bare-metal machines of a cloud have the same vendor.
    let product = tree.line("/sys/class/dmi/id/product_name").unwrap_or_default();
    if product.contains(".metal") {
        return None;
    }
    files.iter().find_map(|file| {
        tree.value(&format!("/sys/class/dmi/id/{file}"), |text| {
            let named = NAMES.iter().find(|(start, _)| text.starts_with(start));
            named.map(|(_, kind)| (*kind).to_owned())
        })
    })
}

/// Inode numbers of the initial namespaces (`include/linux/proc_ns.h`).
const FIRST_NAMESPACES: &[(&str, u32)] =
    &[("ipc", 0xefff_ffff), ("uts", 0xefff_fffe), ("pid", 0xefff_fffc), ("cgroup", 0xefff_fffb)];

/// The container manager, by the files it leaves. A machine whose disk was made from a container
/// image has them, too, but its processes are in the initial namespaces.
fn container(tree: &FileTree) -> Option<TreeFact<String>> {
    let first = |(kind, number): &(&str, u32)| {
        tree.link(&format!("/proc/self/ns/{kind}")) == Some(format!("{kind}:[{number}]"))
    };
    if FIRST_NAMESPACES.iter().all(first) {
        return None;
    }
    let mark =
        |path: &str, kind: &str| tree.exists(path).then(|| TreeFact::new(kind.to_owned(), path));
    tree.fact("/run/systemd/container")
        .or_else(|| mark("/run/.containerenv", "podman"))
        .or_else(|| mark("/.dockerenv", "docker"))
        .or_else(|| by_environment(tree))
        .or_else(|| by_cgroup(tree))
}

/// `container=` in the environment of process 1, by systemd's container interface. Pods have the
/// address of their cluster there.
fn by_environment(tree: &FileTree) -> Option<TreeFact<String>> {
    let path = "/proc/1/environ";
    let bytes = tree.bytes(path)?;
    let mut variables = bytes.split(|&byte| byte == 0);
    if variables.clone().any(|one| one.starts_with(b"KUBERNETES_SERVICE_HOST=")) {
        return Some(TreeFact::new("kubernetes".to_owned(), path));
    }
    let value = variables.find_map(|one| one.strip_prefix(b"container="))?;
    let name = String::from_utf8_lossy(value).replace(fathom_record::is_hidden, " ");
    (!name.trim().is_empty()).then(|| TreeFact::new(name, format!("{path}: container")))
}

fn by_cgroup(tree: &FileTree) -> Option<TreeFact<String>> {
    let kinds = [("kubepods", "kubernetes"), ("/docker", "docker"), ("/lxc", "lxc")];
    let path = "/proc/self/cgroup";
    let text = tree.text(path)?;
    let kind = kinds.iter().find(|(part, _)| text.contains(part)).map(|(_, kind)| *kind)?;
    Some(TreeFact::new(kind.to_owned(), path))
}
