//! Lasting facts about the machine of a run; `measure` reads them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::is_hidden;
use crate::omitted::is_default;

/// Facts about the machine. A fact that cannot be read is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Host {
    /// The host name; empty if unknown, or if none is set.
    pub name: String,
    /// Identifies the machine across renames: a keyed hash of its identifiers, 32 hex digits.
    pub id: Option<String>,
    /// The processor.
    pub cpu: Cpu,
    /// Memory.
    pub memory: Memory,
    /// The kernel release, such as `6.18.44`.
    pub kernel: String,
    /// The parameters of the kernel command line that are known to change performance.
    pub kernel_command_line: Option<String>,
    /// The distribution, such as `Debian GNU/Linux 12 (bookworm)`.
    pub distribution: Option<String>,
    /// The C library of this program, such as `glibc 2.36` or `musl`.
    pub libc: Option<String>,
    /// `none`, `kvm`, `xen`, `vmware`, `hyperv` …; absent where unknown.
    pub virtualization: Option<String>,
    /// Software that emulates the CPU, such as `tcg` (QEMU); absent on a real CPU, also in a
    /// virtual machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emulation: Option<String>,
    /// The provider's type of this machine, such as `aws/m9g.large`, where the firmware names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_type: Option<String>,
    /// `docker`, `podman`, `lxc` …, if detected; a container can be in a virtual machine.
    pub container: Option<String>,
    /// The kernel's current clock source.
    pub clocksource: Option<String>,
    /// The clock sources the kernel could use.
    pub clocksources_available: Vec<String>,
    /// Address space layout randomisation (`kernel.randomize_va_space`).
    pub aslr: Option<u32>,
    /// Whether the scheduler groups tasks by session (`kernel.sched_autogroup_enabled`).
    pub autogroup: Option<bool>,
    /// CPU vulnerabilities: name → mitigation, as the kernel reports it.
    pub mitigations: BTreeMap<String, String>,
    /// Limits of the cgroup of this process.
    pub cgroup: Cgroup,
    /// Block devices.
    pub disks: Vec<Disk>,
    /// The disk of the folder of test files.
    #[serde(default, skip_serializing_if = "is_default")]
    pub data_disk: DataDisk,
    /// Network interfaces.
    pub network: Vec<NetworkLink>,
    /// TCP settings of this network namespace.
    pub tcp: Tcp,
    /// The interface of the default route.
    #[serde(default)]
    pub default_route: DefaultRoute,
    /// Bus links whose speed and width the kernel reports, such as PCIe.
    pub links: Vec<BusLink>,
    /// Uptime in seconds when the facts were read.
    pub uptime_s: Option<f64>,
    /// The source of each fact: dotted path (`cpu.model`) → file, instruction or system call.
    pub origins: BTreeMap<String, String>,
}

/// Begins the origin of an id that rests on the host's name, which can change.
pub const ID_BY_NAME: &str = "no machine-id: the host's name";
/// The variable that names this host. Its id then rests on this name, since hosts of one image may
/// share a machine-id.
pub const NAME_VARIABLE: &str = "FATHOM_HOST";

/// The longest host name of DNS, in bytes.
const NAME_BYTES_MAX: usize = 253;

/// Whether a text can name a host.
pub fn is_name(text: &str) -> bool {
    let has_length = (1..=NAME_BYTES_MAX).contains(&text.len());
    has_length && text.trim() == text && !text.chars().any(is_hidden)
}

impl Host {
    /// Whether the facts of another machine are texts without control characters, and its name is
    /// one: facts of this machine are.
    pub fn is_printable(&self) -> bool {
        let facts = serde_json::to_value(self).unwrap_or_default();
        self.name.len() <= NAME_BYTES_MAX && has_no_control(&facts)
    }
}

fn has_no_control(value: &Value) -> bool {
    let is_clean = |text: &str| !text.chars().any(is_hidden);
    match value {
        Value::String(text) => is_clean(text),
        Value::Array(items) => items.iter().all(has_no_control),
        Value::Object(fields) => {
            fields.iter().all(|(name, value)| is_clean(name) && has_no_control(value))
        }
        _ => true,
    }
}

/// The processor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cpu {
    /// Model name.
    pub model: String,
    /// `x86_64` or `aarch64`.
    pub architecture: String,
    /// `AuthenticAMD`, `GenuineIntel`, `ARM` …
    pub vendor: Option<String>,
    /// Family (x86) or implementer (ARM).
    pub family: Option<u32>,
    /// Model number (x86) or part (ARM).
    pub model_number: Option<u32>,
    /// Stepping (x86) or revision (ARM).
    pub stepping: Option<u32>,
    /// Microcode revision.
    pub microcode: Option<String>,
    /// Online logical CPUs; 0 if unknown.
    pub logical: u32,
    /// Physical cores.
    pub cores: Option<u32>,
    /// Sockets.
    pub sockets: Option<u32>,
    /// Dies of all sockets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dies: Option<u32>,
    /// CPUs that this process is allowed to use.
    pub allowed: Vec<u32>,
    /// Whether SMT is on.
    pub smt: Option<bool>,
    /// Sets of SMT siblings with more than one member.
    pub siblings: Vec<Vec<u32>>,
    /// Kinds of core on a hybrid CPU: kind → its CPUs; empty if all cores are alike.
    pub kinds: BTreeMap<String, Vec<u32>>,
    /// NUMA nodes: node → its CPUs.
    pub numa: BTreeMap<u32, Vec<u32>>,
    /// Distances by the firmware (10 is local): node → distance to each node, in ascending order.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub numa_distances: BTreeMap<u32, Vec<u32>>,
    /// CPUs that the scheduler's load balancer leaves out (`isolcpus`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolated: Option<Vec<u32>>,
    /// CPUs without a timer tick while one task runs (`nohz_full`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nohz_full: Option<Vec<u32>>,
    /// Base frequency.
    pub base_hz: Option<f64>,
    /// Highest boost frequency.
    pub boost_hz: Option<f64>,
    /// Rate of the time stamp counter, by calibration or as the CPU reports it.
    pub tsc_hz: Option<f64>,
    /// Best known nominal rate, for scale: base frequency, else the counter's rate.
    pub hz: Option<f64>,
    /// cpufreq governor of the first allowed CPU.
    pub governor: Option<String>,
    /// cpufreq driver.
    pub frequency_driver: Option<String>,
    /// Whether boost is enabled.
    pub boost: Option<bool>,
    /// Feature flags relevant to measurements.
    pub flags: Vec<String>,
    /// Caches of the first allowed CPU.
    pub caches: Vec<Cache>,
}

/// A cache.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cache {
    /// Level.
    pub level: u32,
    /// `data`, `instruction` or `unified`.
    pub kind: String,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Line size in bytes.
    pub line_bytes: Option<u32>,
    /// Associativity.
    pub ways: Option<u32>,
    /// CPUs that share it.
    pub shared_by: Vec<u32>,
}

/// Memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Memory {
    /// Total memory, as the kernel counts it.
    pub total_bytes: Option<u64>,
    /// Memory available without swapping (`MemAvailable`).
    pub available_bytes: Option<u64>,
    /// Swap space.
    pub swap_bytes: Option<u64>,
    /// Page size.
    pub page_bytes: u64,
    /// How much the kernel prefers swapping to dropping the page cache (`vm.swappiness`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub swappiness: Option<u32>,
    /// When dirty pages are written back.
    #[serde(default, skip_serializing_if = "is_default")]
    pub dirty: DirtyLimits,
    /// Transparent huge pages: `always`, `madvise` or `never`.
    pub thp: Option<String>,
    /// Reserved huge pages: size in bytes → count.
    pub huge_pages: BTreeMap<u64, u64>,
    /// Actions of DAMON's active schemes, such as `pageout`; `none` without one.
    pub damon: Option<String>,
    /// Compressed swap cache (zswap).
    pub zswap: Zswap,
    /// Merging of equal pages (KSM).
    pub ksm: Ksm,
    /// Memory modules, if SMBIOS is readable.
    pub modules: Vec<MemoryModule>,
}

/// Limits of dirty pages (`vm.dirty_*`): by bytes where these are not 0, else by percentage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DirtyLimits {
    /// Percentage of available memory at which writers wait.
    pub percent: Option<u32>,
    /// Percentage at which the kernel begins to write in the background.
    pub background_percent: Option<u32>,
    /// The first limit in bytes.
    pub bytes: Option<u64>,
    /// The second limit in bytes.
    pub background_bytes: Option<u64>,
}

/// zswap, a compressed swap cache (`/sys/module/zswap/parameters`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Zswap {
    /// Whether it is enabled.
    pub enabled: Option<bool>,
    /// Compression algorithm.
    pub compressor: Option<String>,
    /// Percentage of memory it may use.
    pub max_pool_percent: Option<u32>,
}

/// Kernel samepage merging.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Ksm {
    /// 0: stopped; 1: running; 2: stopped, with all pages unmerged.
    pub run: Option<u32>,
    /// Pages saved by merging (`pages_sharing`).
    pub pages_sharing: Option<u64>,
}

/// A memory module.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MemoryModule {
    /// Slot.
    pub slot: String,
    /// Size in bytes.
    pub size_bytes: u64,
    /// `DDR4`, `DDR5` …
    pub kind: Option<String>,
    /// Configured rate in transfers per second.
    pub transfers_per_s: Option<f64>,
}

/// Limits of the cgroup of this process: the tightest up to the root.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cgroup {
    /// cgroup version, 1 or 2.
    pub version: Option<u32>,
    /// Path within the hierarchy.
    pub path: Option<String>,
    /// Whether the groups up to the root are visible: else limits of others may apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sees_root: Option<bool>,
    /// CPU quota in CPUs, such as 0.5.
    pub cpu_quota: Option<f64>,
    /// Memory limit in bytes.
    pub memory_limit_bytes: Option<u64>,
    /// CPUs of the cpuset.
    pub cpus: Vec<u32>,
    /// Limit on processes and threads.
    pub pids_max: Option<u64>,
}

impl Cgroup {
    /// Whether both set the same limits: numbers under other limits are of another size
    /// of machine.
    pub fn has_limits_of(&self, other: &Self) -> bool {
        (self.cpu_quota, self.memory_limit_bytes) == (other.cpu_quota, other.memory_limit_bytes)
    }
}

/// A block device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Disk {
    /// Kernel name, such as `nvme0n1`.
    pub name: String,
    /// Model, if reported.
    pub model: Option<String>,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Driver, such as `virtio_blk` or `sd`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Whether it is a rotating disk; absent if the device does not report its medium: the kernel
    /// then has the default of the driver.
    pub rotational: Option<bool>,
    /// Whether its medium is removable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removable: Option<bool>,
    /// Logical sector size in bytes.
    pub logical_sector_bytes: Option<u32>,
    /// Physical sector size in bytes.
    pub physical_sector_bytes: Option<u32>,
    /// Active I/O scheduler.
    pub scheduler: Option<String>,
}

/// The block device of a folder, and how it is read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DataDisk {
    /// Kernel name, such as `nvme0n1`; absent on a file system without a device of its own.
    pub name: Option<String>,
    /// Active I/O scheduler.
    pub scheduler: Option<String>,
    /// How far the kernel reads ahead.
    pub read_ahead_bytes: Option<u64>,
}

/// A network interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NetworkLink {
    /// Name, such as `eth0`.
    pub name: String,
    /// Driver.
    pub driver: Option<String>,
    /// Negotiated speed in bits per second; absent for an interface without a device, such as a
    /// veth, whose driver has a constant.
    pub bits_per_s: Option<u64>,
    /// MTU in bytes.
    pub mtu_bytes: Option<u32>,
    /// Packets that its transmit queue holds (`tx_queue_len`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_packets: Option<u32>,
    /// Whether the link is up.
    pub up: Option<bool>,
}

/// The interface of the default route, and what it does with segments larger than its MTU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DefaultRoute {
    /// Its name; `none` without a default route.
    pub interface: Option<String>,
    /// Whether the device splits TCP segments (TSO).
    pub tso: Option<bool>,
    /// Whether the kernel splits segments just before the device (GSO).
    pub gso: Option<bool>,
    /// Whether the kernel merges received segments (GRO).
    pub gro: Option<bool>,
}

/// TCP settings of this network namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Tcp {
    /// Default congestion control, such as `cubic`.
    pub congestion: Option<String>,
    /// Available congestion controls.
    pub congestion_available: Vec<String>,
    /// Default queueing discipline.
    pub queue_discipline: Option<String>,
    /// Receive buffer (`net.ipv4.tcp_rmem`).
    pub receive_buffer: Option<BufferSizes>,
    /// Send buffer (`net.ipv4.tcp_wmem`).
    pub send_buffer: Option<BufferSizes>,
    /// Largest receive buffer that a program can set (`net.core.rmem_max`).
    pub receive_buffer_limit_bytes: Option<u64>,
    /// Largest send buffer that a program can set (`net.core.wmem_max`).
    pub send_buffer_limit_bytes: Option<u64>,
    /// First and last ephemeral port.
    pub ports: Option<[u16; 2]>,
    /// Reuse of ports in TIME_WAIT (`net.ipv4.tcp_tw_reuse`): 0 never, 1 always, 2 on loopback.
    pub time_wait_reuse: Option<u32>,
    /// Whether slow start applies again after idle (`net.ipv4.tcp_slow_start_after_idle`).
    pub slow_start_after_idle: Option<bool>,
    /// Longest accept queue (`net.core.somaxconn`).
    pub accept_queue_max: Option<u32>,
}

/// Sizes of an autotuned socket buffer, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BufferSizes {
    /// Guaranteed under memory pressure.
    pub min_bytes: u64,
    /// Initial size.
    pub default_bytes: u64,
    /// Largest size.
    pub max_bytes: u64,
}

/// A bus link.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BusLink {
    /// Address, such as `0000:01:00.0`.
    pub name: String,
    /// Kind of its device: `disk`, `network` or `display`.
    pub kind: String,
    /// Current speed in transfers per second.
    pub transfers_per_s: Option<f64>,
    /// Current width in lanes.
    pub lanes: Option<u32>,
    /// Highest speed in transfers per second.
    pub transfers_per_s_max: Option<f64>,
    /// Highest width in lanes.
    pub lanes_max: Option<u32>,
}

/// Digits of an id in text.
const ID_SHOWN: usize = 8;

/// A host's name with the beginning of its id.
pub fn name_with_id(name: &str, id: Option<&str>) -> String {
    let id = id.and_then(|id| id.get(..ID_SHOWN));
    id.map_or_else(|| name.to_owned(), |id| format!("{name} ({id})"))
}

impl Host {
    /// Whether this is known to be a virtual machine.
    pub fn is_guest(&self) -> bool {
        self.virtualization.as_deref().is_some_and(|kind| kind != "none")
    }

    /// The name, for a sentence.
    pub fn shown_name(&self) -> &str {
        if self.name.is_empty() { "a host without a name" } else { &self.name }
    }

    /// The id, or the name if there is no id.
    pub fn identity(&self) -> &str {
        self.id.as_deref().unwrap_or(&self.name)
    }

    /// The name, with the beginning of the id if one of `others` is another host with this name.
    pub fn label<'a>(&self, others: impl IntoIterator<Item = &'a Self>) -> String {
        let collides =
            |other: &Self| other.name == self.name && other.identity() != self.identity();
        match others.into_iter().any(collides) {
            true => name_with_id(&self.name, self.id.as_deref()),
            false => self.name.clone(),
        }
    }

    /// Whether times show an emulator instead of a machine.
    pub fn is_emulated(&self) -> bool {
        self.emulation.is_some()
    }

    pub fn origin(&mut self, path: &str, origin: impl Into<String>) {
        self.origins.insert(path.to_owned(), origin.into());
    }

    /// The largest data or unified cache of the measured CPU.
    pub fn last_level_cache(&self) -> Option<&Cache> {
        self.cpu
            .caches
            .iter()
            .filter(|cache| cache.kind != "instruction")
            .max_by_key(|cache| cache.level)
    }
}

/// Kernel parameters that change performance; others may identify a machine or have secrets.
const PERFORMANCE: &str = "
    hugetlb_free_vmemmap indirect_target_selection l1d_flush nospectre_bhb pcie_aspm.policy
    rcu_nocb_poll reg_file_data_sampling spec_rstack_overflow spectre_bhi tsa
    amd_iommu amd_pstate apparmor audit cgroup_disable cgroup_no_v1 clocksource
    cpufreq.default_governor cpuidle.governor cpuidle.off cpuidle_haltpoll.force
    default_hugepagesz elevator gather_data_sampling haltpoll.guest_halt_poll_ns highres hpet
    hugepages hugepagesz idle init_on_alloc init_on_free intel_idle.max_cstate intel_iommu
    intel_pstate iommu irqaffinity isolcpus kpti l1tf lockdep maxcpus mce mds mem mitigations
    mmio_stale_data nmi_watchdog no_hz noautogroup nohlt nohz nohz_full nokaslr nopti nosmt
    nospectre_v1 nospectre_v2 notsc nowatchdog nr_cpus numa numa_balancing nvme.poll_queues
    page_alloc.shuffle page_poison pcie_aspm preempt processor.max_cstate psi pti rcu_nocbs
    retbleed sched_autogroup selinux skew_tick slab_nomerge slub_debug
    spec_store_bypass_disable spectre_v1 spectre_v2 srbds ssbd swiotlb
    systemd.unified_cgroup_hierarchy threadirqs transparent_hugepage tsc tsx tsx_async_abort
    vm.overcommit_memory workqueue.power_efficient zswap.compressor zswap.enabled
    zswap.max_pool_percent";

/// The parameters of a kernel command line that change performance. What follows `--` is of init.
#[must_use]
pub fn performance_parameters(line: &str) -> String {
    let words = line.split_whitespace().take_while(|word| *word != "--");
    // The kernel takes both signs.
    let name = |word: &str| word.split('=').next().unwrap_or_default().replace('-', "_");
    let is_known = |word: &&str| PERFORMANCE.split_whitespace().any(|known| known == name(word));
    words.filter(is_known).collect::<Vec<&str>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_of_a_host_is_one_printable_word_or_more() {
        let longest = "n".repeat(NAME_BYTES_MAX);
        for name in ["a", "node 7", "höst.example", &longest] {
            assert!(is_name(name), "{name}");
        }
        for wrong in ["", " a", "a\n", "a\u{202e}b", &(longest + "n")] {
            assert!(!is_name(wrong), "{wrong:?}");
        }
    }

    #[test]
    fn parameters_that_do_not_change_performance_are_left_out() {
        let line =
            "BOOT_IMAGE=/vmlinuz root=UUID=7 mitigations=off isolcpus=2,3 token=x quiet -- psi=1";
        assert_eq!(performance_parameters(line), "mitigations=off isolcpus=2,3");
    }
}
