//! What holds the data of a file: below overlays, bind mounts, loop devices and the device mapper.

use fathom_measure::host::HostReader;

use crate::caps::folder;
use crate::filesystem::{FileSystem, FilesystemClass};

/// Why the data of an overlay is not found, and where it would be.
const NOT_VISIBLE: &str = "its folders are not visible here, those of a volume or bind mount are";

/// The most stacked layers that are followed.
const LAYERS: usize = 8;

/// Where reads go that miss the page cache or bypass it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backing {
    /// To a device of this machine.
    Device,
    /// To this machine's page cache, in which a loop device has its image; with the reason.
    PageCache(String),
    /// To memory, where the file system keeps it; with the reason.
    Memory(String),
    /// To another machine or the kernel; with the reason.
    Elsewhere(String),
    /// With the reason.
    Unknown(String),
}

impl Backing {
    /// Why a read may reach no device. `None` if it does.
    pub fn doubt(&self) -> Option<&str> {
        match self {
            Self::Device => None,
            Self::PageCache(why)
            | Self::Memory(why)
            | Self::Elsewhere(why)
            | Self::Unknown(why) => Some(why),
        }
    }

    fn unknown(what: &str, why: &str) -> Self {
        Self::Unknown(format!("unknown whether {what} is on a device of this machine: {why}"))
    }

    /// Of a file system without a device of this machine.
    fn without_device(what: &str, is_in_memory: bool) -> Self {
        let why = format!("{what} is not on a device of this machine");
        if is_in_memory { Self::Memory(why) } else { Self::Elsewhere(why) }
    }

    /// Of what has several parts, each of which may hold the data.
    fn of_all(parts: Vec<Self>, what: &str) -> Self {
        let is_device = |part: &Self| *part == Self::Device;
        match (parts.iter().find(|part| !is_device(part)), parts.iter().any(is_device)) {
            (None, true) => Self::Device,
            (Some(other), false) => other.clone(),
            (Some(other), true) => Self::unknown(what, other.doubt().unwrap_or_default()),
            (None, false) => Self::unknown(what, "nothing below it is visible"),
        }
    }
}

/// Of a file on the mount with this id, as statx(2) reports it.
pub fn of_mount(reader: &HostReader, id: u64) -> Backing {
    let mounts = reader.text("/proc/self/mountinfo").unwrap_or_default();
    let found = mounts.lines().filter_map(BackingMount::parse).find(|mount| mount.id == id);
    match found {
        Some(mount) => Layers { reader, mounts: &mounts }.mount(&mount, LAYERS),
        None => Backing::unknown("the file", "its mount is not in /proc/self/mountinfo"),
    }
}

/// Of the block device with this number.
pub fn of_device(reader: &HostReader, major: u32, minor: u32) -> Backing {
    let mounts = reader.text("/proc/self/mountinfo").unwrap_or_default();
    Layers { reader, mounts: &mounts }.number(&format!("{major}:{minor}"), LAYERS)
}

/// A line of mountinfo.
struct BackingMount<'m> {
    id: u64,
    device: &'m str,
    point: String,
    kind: &'m str,
    options: &'m str,
}

impl<'m> BackingMount<'m> {
    fn parse(line: &'m str) -> Option<Self> {
        let (before, after) = line.split_once(" - ")?;
        let mut before = before.split(' ');
        let (id, device) = (before.next()?.parse().ok()?, before.nth(1)?);
        let point = before.nth(1)?.replace(r"\040", " ");
        let mut after = after.split(' ');
        let (kind, options) = (after.next()?, after.nth(1)?);
        Some(Self { id, device, point, kind, options })
    }

    fn contains(&self, path: &str) -> bool {
        let rest = path.strip_prefix(self.point.trim_end_matches('/'));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// The folders of an overlay, `None` if one is not an absolute path.
    fn folders(&self) -> Option<Vec<String>> {
        let names = ["lowerdir=", "lowerdir+=", "datadir+=", "upperdir="];
        let values = self
            .options
            .split(',')
            .filter_map(|option| names.iter().find_map(|name| option.strip_prefix(name)));
        let folders = values.flat_map(|value| value.split(':').filter(|one| !one.is_empty()));
        folders.map(|one| one.starts_with('/').then(|| one.replace(r"\040", " "))).collect()
    }
}

struct Layers<'r> {
    reader: &'r HostReader,
    mounts: &'r str,
}

impl Layers<'_> {
    fn mount(&self, mount: &BackingMount<'_>, layers: usize) -> Backing {
        let what = mount.kind;
        match FileSystem::of_type(what).class {
            FilesystemClass::Disk => self.number(mount.device, layers),
            class @ (FilesystemClass::Memory
            | FilesystemClass::Network
            | FilesystemClass::Kernel) => {
                Backing::without_device(what, class == FilesystemClass::Memory)
            }
            FilesystemClass::Overlay => self.overlay(mount, layers),
            FilesystemClass::Program | FilesystemClass::Unknown => {
                Backing::unknown(what, "the type of its file system does not say")
            }
        }
    }

    fn overlay(&self, overlay: &BackingMount<'_>, layers: usize) -> Backing {
        let Some(folders) = overlay.folders() else {
            return Backing::unknown("overlay", "its folders are relative paths");
        };
        let mut below: Vec<BackingMount<'_>> =
            folders.iter().filter_map(|path| self.mount_of(path)).collect();
        below.sort_by_key(|mount| mount.id);
        below.dedup_by_key(|mount| mount.id);
        // In a container its folders are not visible, and their paths are on the overlay itself.
        if layers == 0 || below.iter().any(|mount| mount.id == overlay.id) {
            return Backing::unknown("overlay", NOT_VISIBLE);
        }
        let parts = below.iter().map(|mount| self.mount(mount, layers - 1)).collect();
        Backing::of_all(parts, "overlay")
    }

    /// The mount that a path is on: of the longest mount point, the last mounted.
    fn mount_of(&self, path: &str) -> Option<BackingMount<'_>> {
        let mounts = self.mounts.lines().filter_map(BackingMount::parse);
        mounts.filter(|mount| mount.contains(path)).max_by_key(|mount| mount.point.len())
    }

    fn number(&self, number: &str, layers: usize) -> Backing {
        match folder(self.reader, number) {
            Some(folder) => self.device(&folder, layers),
            None => Backing::unknown(&format!("device {number}"), "/sys does not have it"),
        }
    }

    fn device(&self, folder: &str, layers: usize) -> Backing {
        let is_part = self.reader.text(&format!("{folder}/partition")).is_some();
        let whole = if is_part { format!("{folder}/..") } else { folder.to_owned() };
        let text = |file: &str| self.reader.text(&format!("{whole}/{file}"));
        let event = text("uevent").unwrap_or_default();
        let Some(name) = event.lines().find_map(|line| line.strip_prefix("DEVNAME=")) else {
            return Backing::unknown(folder, "it has no name");
        };
        if layers == 0 {
            return Backing::unknown(name, "too many layers");
        }
        if let Some(image) = text("loop/backing_file") {
            let image = image.trim_end();
            if text("loop/dio").is_none_or(|dio| dio.trim() != "1") {
                let why = format!("{name} reads its image through the page cache: {image}");
                return Backing::PageCache(why);
            }
            return match self.mount_of(image).filter(|_| !image.ends_with(" (deleted)")) {
                Some(mount) => self.mount(&mount, layers - 1),
                None => Backing::unknown(name, "its image has no path here"),
            };
        }
        let is_any = |kinds: &[&str]| {
            let kind = name.trim_end_matches(|c: char| c.is_ascii_digit());
            kinds.contains(&kind)
        };
        let is_in_memory = is_any(&["ram", "zram"]);
        if is_in_memory || is_any(&["nbd", "rbd", "drbd"]) {
            return Backing::without_device(name, is_in_memory);
        }
        let below = self.reader.names(&format!("{whole}/slaves"));
        if below.is_empty() && !is_any(&["dm-", "md", "loop"]) {
            return Backing::Device;
        }
        let part = |below: &String| self.device(&format!("/sys/class/block/{below}"), layers - 1);
        Backing::of_all(below.iter().map(part).collect(), name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
20 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw
21 20 0:30 / /mem rw - tmpfs tmpfs rw
22 20 7:0 / /image rw - ext4 /dev/loop0 rw
23 20 7:1 / /direct rw - xfs /dev/loop1 rw
24 20 7:2 / /ram rw - ext4 /dev/loop2 rw
25 20 252:0 / /lvm rw - vfat /dev/mapper/v rw
26 20 252:1 / /lost rw - ext4 /dev/mapper/w rw
27 20 0:31 /a /bound rw - tmpfs tmpfs rw
28 20 0:32 / /tree rw - btrfs /dev/sda1 rw
29 20 0:33 / /host rw - virtiofs tag rw
30 20 252:2 / /mixed rw - ext4 /dev/mapper/x rw
40 20 0:40 / /o1 rw - overlay overlay rw,lowerdir=/mem/l:/mem/m,upperdir=/mem/u,workdir=/mem/w
41 20 0:41 / /o2 rw - overlay overlay rw,lowerdir=/a\\040b,upperdir=/lvm/u,workdir=/mem/w
42 20 0:42 / /o3 rw - overlay overlay rw,lowerdir=/a,upperdir=/mem/u,workdir=/mem/w
43 20 0:43 / /o4 rw - overlay overlay ro,lowerdir=l/A:l/B
44 20 0:44 / /o5 rw - overlay overlay ro,lowerdir=/o1/x:/memory";

    /// Disk sda with a partition, three loop devices, and device mapper devices on the partition,
    /// on nothing, and on the partition and a loop device.
    fn tree() -> tempfile::TempDir {
        let tree = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = tree.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("proc/self/mountinfo", MOUNTS);
        for (number, name) in [
            ("8:0", "sda"),
            ("8:1", "sda/sda1"),
            ("7:0", "loop0"),
            ("7:1", "loop1"),
            ("7:2", "loop2"),
            ("252:0", "dm-0"),
            ("252:1", "dm-1"),
            ("252:2", "dm-2"),
            ("253:0", "zram0"),
        ] {
            let last = name.rsplit('/').next().unwrap();
            write(&format!("sys/devices/{name}/dev"), number);
            write(&format!("sys/devices/{name}/uevent"), &format!("MAJOR=1\nDEVNAME={last}\n"));
            for place in [format!("sys/dev/block/{number}"), format!("sys/class/block/{last}")] {
                let place = tree.path().join(place);
                std::fs::create_dir_all(place.parent().unwrap()).unwrap();
                std::os::unix::fs::symlink(format!("../../devices/{name}"), &place)
                    .or_else(|_| std::os::unix::fs::symlink(name, &place))
                    .unwrap();
            }
        }
        write("sys/devices/sda/sda1/partition", "1\n");
        for (name, image, dio) in
            [("loop0", "/a.img", "0"), ("loop1", "/a.img", "1"), ("loop2", "/mem/a.img", "1")]
        {
            write(&format!("sys/devices/{name}/loop/backing_file"), &format!("{image}\n"));
            write(&format!("sys/devices/{name}/loop/dio"), dio);
        }
        for below in ["dm-0/slaves/sda1", "dm-2/slaves/sda1", "dm-2/slaves/loop0"] {
            write(&format!("sys/devices/{below}/dev"), "");
        }
        tree
    }

    #[test]
    fn data_is_found_below_every_layer() {
        let tree = tree();
        let reader = HostReader::at(tree.path());
        let kind = |backing: &Backing| match backing {
            Backing::Device => "device",
            Backing::PageCache(_) => "page cache",
            Backing::Memory(_) => "memory",
            Backing::Elsewhere(_) => "elsewhere",
            Backing::Unknown(_) => "unknown",
        };
        for (id, expected, text) in [
            (20, "device", ""),
            (21, "memory", "tmpfs is not on a device"),
            (22, "page cache", "loop0 reads its image through the page cache: /a.img"),
            (23, "device", ""),
            (24, "memory", "tmpfs"),
            (25, "device", ""),
            (26, "unknown", "dm-1"),
            (27, "memory", "tmpfs"),
            (28, "device", ""),
            (29, "unknown", "virtiofs"),
            (30, "unknown", "loop0 reads its image"),
            (40, "memory", "tmpfs"),
            (41, "device", ""),
            (42, "unknown", "tmpfs"),
            (43, "unknown", "relative"),
            (44, "unknown", "tmpfs"),
            (99, "unknown", "mountinfo"),
        ] {
            let found = of_mount(&reader, id);
            assert_eq!(kind(&found), expected, "{id}: {found:?}");
            assert!(found.doubt().unwrap_or_default().contains(text), "{id}: {found:?}");
        }
        let of = |major, minor| of_device(&reader, major, minor);
        assert_eq!([of(8, 0), of(8, 1)], [Backing::Device, Backing::Device]);
        assert_eq!(of(253, 0), Backing::without_device("zram0", true));
        assert_eq!(kind(&of(9, 9)), "unknown");
    }

    #[test]
    fn overlay_whose_folders_are_not_visible_is_unknown() {
        let tree = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(tree.path().join("proc/self")).unwrap();
        let mounts = "7 1 0:50 / / rw - overlay overlay rw,lowerdir=/var/lib/l/A:/var/lib/l/B";
        std::fs::write(tree.path().join("proc/self/mountinfo"), mounts).unwrap();
        let found = of_mount(&HostReader::at(tree.path()), 7);
        assert!(matches!(&found, Backing::Unknown(why) if why.contains("visible")), "{found:?}");
    }
}
