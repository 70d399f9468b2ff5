//! CPU model, vendor, family, microcode, and relevant flags.

use fathom_record::Host;

use super::cpuinfo::number;
use super::user_mode::{KERNEL_ARCHITECTURE, user_mode};
use super::{HostSources, first_cpu};
use crate::tree::{TreeFact, keep};

/// Flags that affect measurements or their interpretation, with names as in `/proc/cpuinfo` of x86
/// (`flags`) and ARM (`Features`).
#[rustfmt::skip]
const FLAGS: &[&str] = &[
    // Clocks and counters.
    "tsc", "rdtscp", "constant_tsc", "nonstop_tsc", "tsc_known_freq", "tsc_reliable", "tsc_adjust",
    "tsc_deadline_timer", "art", "aperfmperf", "arat", "arch_perfmon", "evtstrm",
    // Virtualization, SMT, boost.
    "hypervisor", "ht", "cpb", "ida", "hwp", "hw_pstate",
    // Vector and checksum instructions.
    "sse2", "ssse3", "sse4_1", "sse4_2", "avx", "avx2", "fma", "avx512f", "avx512bw", "avx512vl",
    "avx512_vnni", "avx_vnni", "amx_tile", "popcnt", "bmi1", "bmi2", "aes", "vaes", "pclmulqdq",
    "vpclmulqdq", "sha_ni", "asimd", "sve", "sve2", "atomics", "lrcpc", "crc32", "pmull", "sha1",
    "sha2", "sha3", "sha512",
    // Copying, flushing and mapping memory.
    "erms", "fsrm", "movdiri", "movdir64b", "clflush", "clflushopt", "clwb", "cldemote", "pdpe1gb",
    "la57", "dcpop", "dcpodp",
    // Cost of kernel entry and of address space switches.
    "pcid", "invpcid", "invlpgb", "smep", "smap", "pti", "ibrs", "ibrs_enhanced", "ibpb", "stibp",
    "ssbd", "retpoline", "fsgsbase", "fred", "user_shstk", "bti", "paca", "ssbs", "sb",
    // Cache partitioning, and sleeping waits.
    "rdt_a", "cat_l3", "cdp_l3", "mba", "waitpkg", "monitorx", "wfxt",
];

pub(super) fn read(sources: &HostSources, host: &mut Host) {
    let (info, cpu) = (&sources.cpuinfo, first_cpu(host));
    let line = |key: &str| info.fact_of(cpu, key);
    let by_uname = || sources.uname(|name| name.machine(), "uname(2): machine");
    let is_own = user_mode(sources).is_none();
    let of_kernel = || sources.tree.fact(KERNEL_ARCHITECTURE).filter(|_| is_own);
    keep!(host.cpu.architecture, of_kernel().or_else(by_uname));
    keep!(host.cpu.model, model(sources, cpu));
    let cpuid = sources.cpuid.as_ref();
    let vendor = line("vendor_id")
        .or_else(|| arm(sources, cpu).map(|arm| arm.map(|(maker, _)| maker_name(maker))))
        .or_else(|| Some(TreeFact::new(cpuid?.vendor.clone()?, "cpuid leaf 0")));
    keep!(host.cpu.vendor, vendor);
    let numbers = |x86_key: &str, arm_key: &str, by_cpuid: Option<u32>| {
        [x86_key, arm_key]
            .iter()
            .find_map(|key| line(key)?.and_then(|text| number(&text)))
            .or_else(|| Some(TreeFact::new(by_cpuid?, "cpuid leaf 1")))
    };
    let family = cpuid.and_then(|cpuid| cpuid.family);
    keep!(host.cpu.family, numbers("cpu family", "CPU implementer", family));
    let model = cpuid.and_then(|cpuid| cpuid.model_number);
    keep!(host.cpu.model_number, numbers("model", "CPU part", model));
    let stepping = cpuid.and_then(|cpuid| cpuid.stepping);
    keep!(host.cpu.stepping, numbers("stepping", "CPU revision", stepping));
    let revision = format!("/sys/devices/system/cpu/cpu{cpu}/microcode/version");
    keep!(host.cpu.microcode, line("microcode").or_else(|| sources.tree.fact(&revision)));
    let flags = line("flags").or_else(|| line("Features"));
    keep!(host.cpu.flags, flags.and_then(|fact| fact.and_then(|text| chosen(&text))));
}

fn chosen(text: &str) -> Option<Vec<String>> {
    let all: Vec<&str> = text.split_whitespace().collect();
    let known = FLAGS.iter().filter(|flag| all.contains(flag)).map(|flag| (*flag).to_owned());
    Some(known.collect()).filter(|flags: &Vec<String>| !flags.is_empty())
}

/// The name of the model. ARM has numbers only, whose names are from the kernel's and util-linux's
/// tables; without a name the numbers are the name.
fn model(sources: &HostSources, cpu: u32) -> Option<TreeFact<String>> {
    let named = sources.cpuinfo.fact_of(cpu, "model name");
    let arm = || {
        Some(arm(sources, cpu)?.map(|(maker, part)| match part_name(maker, part) {
            Some(name) => format!("{} {name}", maker_name(maker)),
            None => format!("implementer {maker:#04x} part {part:#05x}"),
        }))
    };
    let brand =
        || Some(TreeFact::new(sources.cpuid.as_ref()?.brand.clone()?, "cpuid leaf 0x80000002"));
    named.or_else(arm).or_else(brand)
}

/// Implementer and part of an ARM CPU.
fn arm(sources: &HostSources, cpu: u32) -> Option<TreeFact<(u32, u32)>> {
    let part = number(&sources.cpuinfo.fact_of(cpu, "CPU part")?.value)?;
    let maker = sources.cpuinfo.fact_of(cpu, "CPU implementer")?;
    maker.and_then(|text| Some((number(&text)?, part)))
}

/// The implementer of Apple's CPUs.
pub(super) const APPLE: u32 = 0x61;

/// `hw_implementer[]` of util-linux `sys-utils/lscpu-arm.c`.
fn maker_name(maker: u32) -> String {
    let name = match maker {
        0x41 => "ARM",
        0x42 => "Broadcom",
        0x43 => "Cavium",
        0x46 => "Fujitsu",
        0x48 => "HiSilicon",
        0x4e => "NVIDIA",
        0x50 => "APM",
        0x51 => "Qualcomm",
        0x53 => "Samsung",
        0x56 => "Marvell",
        APPLE => "Apple",
        0x69 => "Intel",
        0x6d => "Microsoft",
        0x70 => "Phytium",
        0xc0 => "Ampere",
        _ => return format!("implementer {maker:#04x}"),
    };
    name.to_owned()
}

/// Parts of current servers and boards from the same table, and from Linux
/// `arch/arm64/include/asm/cputype.h`.
fn part_name(maker: u32, part: u32) -> Option<&'static str> {
    Some(match (maker, part) {
        (0x41, 0xd03) => "Cortex-A53",
        (0x41, 0xd04) => "Cortex-A35",
        (0x41, 0xd05) => "Cortex-A55",
        (0x41, 0xd07) => "Cortex-A57",
        (0x41, 0xd08) => "Cortex-A72",
        (0x41, 0xd09) => "Cortex-A73",
        (0x41, 0xd0a) => "Cortex-A75",
        (0x41, 0xd0b) => "Cortex-A76",
        (0x41, 0xd0c) => "Neoverse-N1",
        (0x41, 0xd0d) => "Cortex-A77",
        (0x41, 0xd40) => "Neoverse-V1",
        (0x41, 0xd41) => "Cortex-A78",
        (0x41, 0xd44) => "Cortex-X1",
        (0x41, 0xd46) => "Cortex-A510",
        (0x41, 0xd47) => "Cortex-A710",
        (0x41, 0xd48) => "Cortex-X2",
        (0x41, 0xd49) => "Neoverse-N2",
        (0x41, 0xd4f) => "Neoverse-V2",
        (0x41, 0xd80) => "Cortex-A520",
        (0x41, 0xd81) => "Cortex-A720",
        (0x41, 0xd84) => "Neoverse-V3",
        (0x41, 0xd8e) => "Neoverse-N3",
        (0x43, 0x0a1) => "ThunderX",
        (0x43, 0x0af) => "ThunderX2",
        (0x46, 0x001) => "A64FX",
        (0x48, 0xd01) => "TaiShan-v110",
        (APPLE, 0x022) => "Icestorm (M1)",
        (APPLE, 0x023) => "Firestorm (M1)",
        (0xc0, 0xac3) => "Ampere-1",
        (0xc0, 0xac4) => "Ampere-1a",
        _ => return None,
    })
}
