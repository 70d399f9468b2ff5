//! An emulated machine as data: what QEMU and the kernel are given.

use super::expected::Expected;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Architecture {
    X86,
    Arm,
}

// The kernel's name.
fathom_record::words!(Architecture.name, X86 = "x86_64", Arm = "aarch64");

impl Architecture {
    /// Debian's name.
    pub(super) fn debian(self) -> &'static str {
        match self {
            Self::X86 => "amd64",
            Self::Arm => "arm64",
        }
    }

    /// Parameters of the kernel. On a busy host, the kernel's check of the emulated timer fails.
    fn parameters(self) -> &'static str {
        match self {
            Self::X86 => "console=ttyS0 no_timer_check",
            Self::Arm => "console=ttyAMA0",
        }
    }
}

/// A series of kernels as lab/zoo/kernel.sh knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ZooKernel {
    pub(super) series: &'static str,
    pub(super) architecture: Architecture,
    pub(super) page_bytes: u32,
}

/// The product is the number of CPUs that the machine can have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Topology {
    pub(super) sockets: u32,
    pub(super) dies: u32,
    pub(super) cores: u32,
    pub(super) threads: u32,
}

impl Topology {
    pub(super) fn cpus(self) -> u32 {
        self.sockets * self.dies * self.cores * self.threads
    }
}

/// A NUMA node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    /// First and last CPU.
    pub(super) cpus: Option<(u32, u32)>,
    pub(super) mib: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bus {
    Nvme,
    Virtio,
    Ide,
    Usb,
    Scsi,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct ZooDisk {
    pub(super) bus: Bus,
    /// The kernel's name.
    pub(super) name: &'static str,
    pub(super) sector_bytes: u32,
    /// Made on the host, and mounted.
    pub(super) file_system: Option<&'static str>,
    /// The model as QEMU is given it, or its own.
    pub(super) model: Option<&'static str>,
    /// Revolutions per minute, 1 for none; `None`: the disk does not say.
    pub(super) rotation: Option<u32>,
    pub(super) is_removable: bool,
}

/// All disks have this size: the smallest on which `mkfs.xfs` makes a file system is 300 MiB.
pub(super) const DISK_BYTES: u64 = 512 << 20;

/// A machine of this memory or less has the program on its first disk instead of in memory.
const SMALL_MIB: u32 = 128;

#[derive(Clone, Debug)]
pub(super) struct ZooMachine {
    pub(super) name: &'static str,
    /// Also part of `make zoo-quick`.
    pub(super) is_quick: bool,
    pub(super) kernel: ZooKernel,
    pub(super) board: &'static str,
    pub(super) cpu: &'static str,
    pub(super) topology: Topology,
    pub(super) mib: u32,
    pub(super) nodes: &'static [Node],
    pub(super) disks: Vec<ZooDisk>,
    /// File systems without a disk of their own: `tmpfs`, `overlay`, `9p`.
    pub(super) places: &'static [&'static str],
    /// Parameters of the kernel.
    pub(super) append: &'static str,
    /// Further arguments of QEMU.
    pub(super) arguments: &'static [&'static str],
    pub(super) has_proc: bool,
    pub(super) has_sys: bool,
    pub(super) has_cgroup: bool,
    pub(super) metrics: &'static str,
    /// Commands of a shell that run while the metrics are measured.
    pub(super) during: &'static str,
    pub(super) serves: bool,
    /// Boots a Debian system from its first disk, which starts the units of scripts/systemd.
    pub(super) has_units: bool,
    /// What the fields above do not imply: path in the results, and what must be there.
    pub(super) facts: Vec<(&'static str, Expected)>,
    /// Modules of the kernel, beside those of disks and file systems.
    pub(super) modules: &'static [&'static str],
}

impl ZooDisk {
    fn arguments(&self, number: usize) -> Vec<String> {
        let (sector, drive) = (self.sector_bytes, format!("drive=d{number}"));
        let block = format!("logical_block_size={sector},physical_block_size={sector}");
        let rotation = self.rotation.map_or_else(String::new, |it| format!(",rotation_rate={it}"));
        let model = self.model;
        let device = match self.bus {
            Bus::Nvme => format!("nvme,serial=zoo{number},{drive},{block}"),
            Bus::Virtio => format!("virtio-blk-pci,{drive},{block}"),
            Bus::Ide => {
                let model = model.map_or_else(String::new, |it| format!(",model={it}"));
                format!("ide-hd,{drive},bus=ide.{number}{model}{rotation}")
            }
            Bus::Usb => {
                let removable = if self.is_removable { "on" } else { "off" };
                format!("usb-storage,{drive},removable={removable},{block}")
            }
            Bus::Scsi => {
                let model = model.map_or_else(String::new, |it| format!(",product={it}"));
                format!("scsi-hd,{drive},{block}{model}{rotation}")
            }
        };
        let controller = match self.bus {
            Bus::Usb => Some("qemu-xhci"),
            Bus::Scsi => Some("virtio-scsi-pci"),
            Bus::Nvme | Bus::Virtio | Bus::Ide => None,
        };
        let devices = controller.map(str::to_owned).into_iter().chain([device]);
        devices.flat_map(|device| ["-device".to_owned(), device]).collect()
    }

    fn modules(&self) -> &'static [&'static str] {
        match self.bus {
            Bus::Nvme => &["nvme"],
            Bus::Virtio => &["virtio_pci", "virtio_blk"],
            Bus::Ide => &["ahci", "ata_piix", "sd_mod"],
            Bus::Usb => &["xhci_pci", "usb_storage", "sd_mod"],
            Bus::Scsi => &["virtio_pci", "virtio_scsi", "sd_mod"],
        }
    }

    /// `KIND:SOURCE`, as the init reads it.
    fn place(&self) -> Option<String> {
        self.file_system.map(|kind| format!("{kind}:/dev/{}", self.name))
    }
}

impl ZooMachine {
    pub(super) fn is_small(&self) -> bool {
        self.mib <= SMALL_MIB
    }

    /// The arguments of QEMU that describe the machine, without files of the host.
    pub(super) fn qemu(&self) -> Vec<String> {
        let Topology { sockets, dies, cores, threads } = self.topology;
        let dies = if dies > 1 { format!(",dies={dies}") } else { String::new() };
        let cpus = self.topology.cpus();
        let smp = format!("{cpus},sockets={sockets}{dies},cores={cores},threads={threads}");
        let memory = format!("{}M", self.mib);
        let fixed = ["-M", self.board, "-cpu", self.cpu, "-smp", &smp, "-m", &memory];
        let mut words: Vec<String> = fixed.map(str::to_owned).to_vec();
        for (number, node) in self.nodes.iter().enumerate() {
            if node.mib > 0 {
                let size = format!("memory-backend-ram,id=m{number},size={}M", node.mib);
                words.extend(["-object".to_owned(), size]);
            }
            let memdev = if node.mib > 0 { format!(",memdev=m{number}") } else { String::new() };
            let node_cpus = node.cpus.map_or_else(String::new, |(a, b)| format!(",cpus={a}-{b}"));
            words.extend(["-numa".to_owned(), format!("node,nodeid={number}{node_cpus}{memdev}")]);
        }
        for (number, disk) in self.disks.iter().enumerate() {
            words.extend(disk.arguments(number));
        }
        words.extend(self.arguments.iter().map(|word| (*word).to_owned()));
        words
    }

    /// What a host's facts have of it.
    pub(super) fn performance_parameters(&self) -> String {
        fathom_record::host::performance_parameters(&self.command_line())
    }

    /// The kernel's command line.
    pub(super) fn command_line(&self) -> String {
        let parameters = self.kernel.architecture.parameters();
        let text = format!("{parameters} loglevel=2 panic=-1 {}", self.append);
        text.trim().to_owned()
    }

    pub(super) fn modules(&self) -> Vec<&'static str> {
        let mut modules = Vec::new();
        for disk in &self.disks {
            modules.extend(disk.modules());
            match disk.file_system {
                Some("vfat") => modules.extend(["vfat", "nls_cp437", "nls_ascii", "nls_iso8859_1"]),
                kind => modules.extend(kind),
            }
        }
        for place in self.places {
            match *place {
                "overlay" => modules.push("overlay"),
                "9p" => modules.extend(["virtio_pci", "9p", "9pnet_virtio"]),
                _ => {}
            }
        }
        modules.extend(self.modules);
        modules
    }

    /// Names of the file systems on which files are written and read.
    pub(super) fn file_systems(&self) -> impl Iterator<Item = &'static str> {
        // Those of a Debian system are its own.
        let disks = if self.has_units { &[] } else { self.disks.as_slice() };
        let of_disks = disks.iter().filter_map(|disk| disk.file_system);
        of_disks.chain(self.places.iter().copied())
    }

    /// What lab/zoo/init reads.
    pub(super) fn settings(&self) -> String {
        let yes = |flag: bool| if flag { "yes" } else { "no" }.to_owned();
        let places = self.disks.iter().filter_map(ZooDisk::place);
        let others = self.places.iter().map(|kind| match *kind {
            "9p" => "9p:zoo".to_owned(),
            kind => kind.to_owned(),
        });
        let places: Vec<String> = places.chain(others).collect();
        let raw = self.disks.iter().filter(|disk| disk.file_system.is_none());
        let raw: Vec<String> = raw.map(|disk| format!("/dev/{}", disk.name)).collect();
        [
            ("hostname", format!("zoo-{}", self.name)),
            ("proc", yes(self.has_proc)),
            ("sys", yes(self.has_sys)),
            ("cgroup", yes(self.has_cgroup)),
            ("serve", yes(self.serves)),
            ("units", yes(self.has_units)),
            ("metrics", self.metrics.to_owned()),
            ("during", self.during.to_owned()),
            ("places", places.join(" ")),
            ("disks", raw.join(" ")),
        ]
        .map(|(name, value)| format!("{name}='{value}'\n"))
        .concat()
    }
}
