//! The machine a run was made on: the shape of its facts. Reading them is `measure`'s work.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Facts about the machine. What cannot be read is absent, never guessed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Host {
    /// The host's name, for people.
    pub name: String,
    /// Which machine it is, whatever its name: a keyed hash of what identifies it, 32 hex digits.
    pub id: Option<String>,
    /// The processor.
    pub cpu: Cpu,
    /// Memory.
    pub memory: Memory,
    /// The kernel's release, such as `6.18.44`.
    pub kernel: String,
    /// The kernel's command line.
    pub kernel_command_line: Option<String>,
    /// The distribution, such as `Debian GNU/Linux 12 (bookworm)`.
    pub distribution: Option<String>,
    /// The C library this program is linked with, such as `glibc 2.36` or `musl`.
    pub libc: Option<String>,
    /// `none`, `kvm`, `xen`, `vmware`, `hyperv` …; absent where unknown.
    pub virtualization: Option<String>,
    /// `docker`, `podman`, `lxc` … where there is a sign of one; a container may be in a virtual
    /// machine.
    pub container: Option<String>,
    /// The kernel's clock source, and those it could use.
    pub clocksource: Option<String>,
    /// Clock sources the kernel could use.
    pub clocksources_available: Vec<String>,
    /// Address space randomisation: the value of `kernel.randomize_va_space`.
    pub aslr: Option<u32>,
    /// Whether the scheduler shares CPU time by session (`kernel.sched_autogroup_enabled`).
    pub autogroup: Option<bool>,
    /// Mitigations in force: vulnerability → what the kernel says of it.
    pub mitigations: BTreeMap<String, String>,
    /// Limits of the cgroup this process runs in.
    pub cgroup: Cgroup,
    /// Block devices.
    pub disks: Vec<Disk>,
    /// Network interfaces.
    pub network: Vec<NetworkLink>,
    /// TCP settings of this network namespace.
    pub tcp: Tcp,
    /// Links whose speed and width the kernel tells, such as PCIe.
    pub links: Vec<BusLink>,
    /// Seconds since boot when the facts were read.
    pub uptime_s: Option<f64>,
    /// Where each fact was read: dotted path (`cpu.model`) → file, instruction or system call.
    pub origins: BTreeMap<String, String>,
}

/// The processor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
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
    /// Logical CPUs online.
    pub logical: u32,
    /// Physical cores.
    pub cores: Option<u32>,
    /// Sockets.
    pub sockets: Option<u32>,
    /// CPUs this process may run on.
    pub allowed: Vec<u32>,
    /// Whether SMT is on.
    pub smt: Option<bool>,
    /// Sets of SMT siblings with more than one member.
    pub siblings: Vec<Vec<u32>>,
    /// Kinds of core on a hybrid CPU: kind → its CPUs; empty where all are of one kind.
    pub kinds: BTreeMap<String, Vec<u32>>,
    /// NUMA nodes: node → its CPUs.
    pub numa: BTreeMap<u32, Vec<u32>>,
    /// Nominal (base) frequency.
    pub base_hz: Option<f64>,
    /// Highest boost frequency.
    pub boost_hz: Option<f64>,
    /// Rate of the time stamp counter by calibration or by the CPU's own word.
    pub tsc_hz: Option<f64>,
    /// Best known nominal rate, for scale: base, else the counter's.
    pub hz: Option<f64>,
    /// cpufreq governor of the first allowed CPU.
    pub governor: Option<String>,
    /// cpufreq driver.
    pub frequency_driver: Option<String>,
    /// Whether boost is allowed.
    pub boost: Option<bool>,
    /// Feature flags that matter to a measurement.
    pub flags: Vec<String>,
    /// Caches of the first allowed CPU.
    pub caches: Vec<Cache>,
}

/// One cache.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cache {
    /// Level.
    pub level: u32,
    /// `data`, `instruction` or `unified`.
    pub kind: String,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Line in bytes.
    pub line_bytes: Option<u32>,
    /// Ways of associativity.
    pub ways: Option<u32>,
    /// CPUs that share it.
    pub shared_by: Vec<u32>,
}

/// Memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Memory {
    /// All of it, as the kernel counts.
    pub total_bytes: Option<u64>,
    /// What a new process could take without swapping.
    pub available_bytes: Option<u64>,
    /// Swap space.
    pub swap_bytes: Option<u64>,
    /// Page size.
    pub page_bytes: u64,
    /// Transparent huge pages: `always`, `madvise` or `never`.
    pub thp: Option<String>,
    /// Huge pages reserved: size in bytes → count.
    pub huge_pages: BTreeMap<u64, u64>,
    /// What DAMON does: the actions of its active schemes, such as `pageout`; `none`.
    pub damon: Option<String>,
    /// Compressed swap in memory.
    pub zswap: Zswap,
    /// Merging of equal pages.
    pub ksm: Ksm,
    /// Modules, where SMBIOS is readable.
    pub modules: Vec<MemoryModule>,
}

/// Compressed swap in memory, as `/sys/module/zswap/parameters` has it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Zswap {
    /// Whether it is on.
    pub enabled: Option<bool>,
    /// Compression algorithm.
    pub compressor: Option<String>,
    /// Per cent of memory it may take.
    pub max_pool_percent: Option<u32>,
}

/// Kernel samepage merging.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ksm {
    /// 0 is stopped, 1 running, 2 stopped with all pages unmerged.
    pub run: Option<u32>,
    /// Pages saved by merging when the facts were read.
    pub pages_sharing: Option<u64>,
}

/// One memory module.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
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

/// Limits of the cgroup this process runs in, the tightest on the way to the root.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cgroup {
    /// 1 or 2.
    pub version: Option<u32>,
    /// Path within the hierarchy.
    pub path: Option<String>,
    /// CPUs' worth of time the quota allows, such as 0.5.
    pub cpu_quota: Option<f64>,
    /// Memory limit in bytes.
    pub memory_limit_bytes: Option<u64>,
    /// CPUs the cpuset allows.
    pub cpus: Vec<u32>,
    /// Limit on processes and threads.
    pub pids_max: Option<u64>,
}

/// A block device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Disk {
    /// Kernel name, such as `nvme0n1`.
    pub name: String,
    /// Model, where it has one.
    pub model: Option<String>,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Whether it turns.
    pub rotational: Option<bool>,
    /// Logical sector in bytes.
    pub logical_sector_bytes: Option<u32>,
    /// Physical sector in bytes.
    pub physical_sector_bytes: Option<u32>,
    /// I/O scheduler in force.
    pub scheduler: Option<String>,
}

/// A network interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NetworkLink {
    /// Name, such as `eth0`.
    pub name: String,
    /// Driver.
    pub driver: Option<String>,
    /// Negotiated speed in bits per second.
    pub bits_per_s: Option<u64>,
    /// MTU in bytes.
    pub mtu_bytes: Option<u32>,
    /// Whether the link is up.
    pub up: Option<bool>,
}

/// TCP settings of this network namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Tcp {
    /// Default congestion control, such as `cubic`.
    pub congestion: Option<String>,
    /// Congestion controls that are loaded.
    pub congestion_available: Vec<String>,
    /// Default queueing discipline.
    pub queue_discipline: Option<String>,
    /// Receive buffer (`net.ipv4.tcp_rmem`).
    pub receive_buffer: Option<BufferSizes>,
    /// Send buffer (`net.ipv4.tcp_wmem`).
    pub send_buffer: Option<BufferSizes>,
    /// Largest receive buffer that a program may ask for (`net.core.rmem_max`).
    pub receive_buffer_limit_bytes: Option<u64>,
    /// Largest send buffer that a program may ask for (`net.core.wmem_max`).
    pub send_buffer_limit_bytes: Option<u64>,
    /// First and last ephemeral port.
    pub ports: Option<[u16; 2]>,
    /// Reuse of ports in TIME_WAIT (`net.ipv4.tcp_tw_reuse`): 0 never, 1 always, 2 on loopback.
    pub time_wait_reuse: Option<u32>,
    /// Whether an idle connection starts slowly again.
    pub slow_start_after_idle: Option<bool>,
    /// Longest queue of connections waiting for accept(2) (`net.core.somaxconn`).
    pub accept_queue_max: Option<u32>,
}

/// Sizes of a socket buffer that the kernel adapts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BufferSizes {
    /// Guaranteed under memory pressure.
    pub min_bytes: u64,
    /// At the start of a connection.
    pub default_bytes: u64,
    /// At most.
    pub max_bytes: u64,
}

/// A bus link.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BusLink {
    /// Address, such as `0000:01:00.0`.
    pub name: String,
    /// What hangs on it: `disk`, `network` or `display`.
    pub kind: String,
    /// Current speed in transfers per second.
    pub transfers_per_s: Option<f64>,
    /// Current width in lanes.
    pub lanes: Option<u32>,
    /// Highest speed.
    pub transfers_per_s_max: Option<f64>,
    /// Highest width.
    pub lanes_max: Option<u32>,
}

/// Digits of an id that people are shown.
const ID_SHOWN: usize = 8;

/// A host's name with the beginning of its id, where the name alone could be another's.
pub fn name_with_id(name: &str, id: Option<&str>) -> String {
    let id = id.and_then(|id| id.get(..ID_SHOWN));
    id.map_or_else(|| name.to_owned(), |id| format!("{name} ({id})"))
}

impl Host {
    /// What the host is known by: its id, or its name where it has none.
    pub fn identity(&self) -> &str {
        self.id.as_deref().unwrap_or(&self.name)
    }

    /// The name, with the beginning of the id where one of `others` is another host of this name.
    pub fn label<'a>(&self, others: impl IntoIterator<Item = &'a Self>) -> String {
        let collides =
            |other: &Self| other.name == self.name && other.identity() != self.identity();
        match others.into_iter().any(collides) {
            true => name_with_id(&self.name, self.id.as_deref()),
            false => self.name.clone(),
        }
    }

    /// Notes where a fact was read.
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
