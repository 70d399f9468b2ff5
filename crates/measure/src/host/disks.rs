//! Block devices.
//!
//! Omitted: `loop`, `ram` and `zram`, which are files and memory; devices of size 0, such as empty
//! drives and unconnected `nbd`s; hidden paths of multipath devices; and partitions, which share
//! the facts of their disk. `dm-*` and `md*` are included, because files may be on them.

use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use fathom_record::Host;
use fathom_record::host::Disk;

use super::HostSources;
use crate::tree::{FileTree, TreeFact, bracketed, driver, flag, keep};

const FOLDER: &str = "/sys/block";

/// The unit of `size` for all devices (Documentation/ABI/stable/sysfs-block).
const SIZE_UNIT_BYTES: u64 = 512;

/// Block devices on others, such as LUKS on RAID on disks.
const LAYERS_MAX: usize = 8;

/// The variable of the folder of test files, and where they are without.
const DATA: (&str, &str) = ("FATHOM_FOLDER", "/var/tmp");

pub(super) fn read(sources: &HostSources, host: &mut Host) {
    let tree = &sources.tree;
    let is_guest = host.is_guest();
    let names = tree.names(FOLDER).into_iter();
    let disks: Vec<Disk> = names.filter_map(|name| disk(tree, name, is_guest)).collect();
    keep!(host.disks, TreeFact::unless_empty(disks, format!("{FOLDER}/*")));
    let of_folder = sources.live.then(|| disk_of_data(tree, sources.folder.clone())).flatten();
    let only = match &host.disks[..] {
        [disk] => Some(TreeFact::new(disk.name.clone(), FOLDER)),
        _ => None,
    };
    let Some(name) = of_folder.or(only) else { return };
    let queue = format!("{FOLDER}/{}/queue", name.value);
    keep!(host.data_disk.name, Some(name));
    keep!(host.data_disk.scheduler, tree.value(&format!("{queue}/scheduler"), bracketed));
    let kib = |text: &str| text.parse::<u64>().ok()?.checked_mul(1 << 10);
    keep!(host.data_disk.read_ahead_bytes, tree.value(&format!("{queue}/read_ahead_kb"), kib));
}

/// The disk of the folder of test files; `None` if its file system has no device of its own, such
/// as overlayfs.
fn disk_of_data(tree: &FileTree, folder: Option<PathBuf>) -> Option<TreeFact<String>> {
    let variable = || std::env::var_os(DATA.0).filter(|path| !path.is_empty()).map(PathBuf::from);
    let folder = folder.or_else(variable).unwrap_or_else(|| DATA.1.into());
    let device = std::fs::metadata(folder).ok()?.dev();
    let number = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    let path = format!("/sys/dev/block/{number}");
    let target = tree.link(&path)?;
    let name = target.rsplit('/').next()?.to_owned();
    Some(TreeFact::new(disk_of(tree, name)?, path))
}

fn disk(tree: &FileTree, name: String, is_guest: bool) -> Option<Disk> {
    let folder = format!("{FOLDER}/{name}");
    let left_out = ["loop", "ram", "zram"].iter().any(|kind| name.starts_with(kind));
    if left_out || tree.parsed::<u32>(&format!("{folder}/hidden")) == Some(1) {
        return None;
    }
    let sectors = tree.parsed::<u64>(&format!("{folder}/size")).filter(|&sectors| sectors > 0)?;
    let queue = |file: &str| tree.line(&format!("{folder}/queue/{file}"));
    let model = tree.line(&format!("{folder}/device/model"));
    Some(Disk {
        size_bytes: sectors.checked_mul(SIZE_UNIT_BYTES)?,
        // MMC cards and device-mapper devices have a name.
        model: model
            .or_else(|| tree.line(&format!("{folder}/device/name")))
            .or_else(|| tree.line(&format!("{folder}/dm/name"))),
        driver: driver(tree, &format!("{folder}/device")),
        rotational: rotational(tree, &name, is_guest, LAYERS_MAX),
        removable: tree.line(&format!("{folder}/removable")).and_then(|text| flag(&text)),
        logical_sector_bytes: queue("logical_block_size").and_then(|text| text.parse().ok()),
        physical_sector_bytes: queue("physical_block_size").and_then(|text| text.parse().ok()),
        scheduler: queue("scheduler").and_then(|text| bracketed(&text)),
        name,
    })
}

/// Whether a disk rotates. Drivers clear the kernel's `rotational` where a device says so, and
/// leave it set where a device says nothing.
fn rotational(tree: &FileTree, name: &str, is_guest: bool, layers: usize) -> Option<bool> {
    let folder = format!("{FOLDER}/{name}");
    if !flag(&tree.line(&format!("{folder}/queue/rotational"))?)? {
        return Some(false);
    }
    let mut below = tree.names(&format!("{folder}/slaves")).into_iter().peekable();
    if below.peek().is_some() {
        let rotates = |part: String| {
            let disk = disk_of(tree, part)?;
            rotational(tree, &disk, is_guest, layers.checked_sub(1)?)
        };
        return below.any(|part| rotates(part) == Some(true)).then_some(true);
    }
    match driver(tree, &format!("{folder}/device")).as_deref() {
        // drivers/block/virtio_blk.c never clears it, and virtio has no field for the medium.
        Some("virtio_blk") => None,
        Some("sd") => by_rotation_rate(tree, &format!("{folder}/device"), is_guest),
        _ => Some(true),
    }
}

/// The disk of a partition, or the disk itself.
fn disk_of(tree: &FileTree, part: String) -> Option<String> {
    let is_part = |disk: &String| tree.exists(&format!("{FOLDER}/{disk}/{part}"));
    match tree.exists(&format!("{FOLDER}/{part}")) {
        true => Some(part),
        false => tree.names(FOLDER).into_iter().find(is_part),
    }
}

/// By "medium rotation rate" of the page "block device characteristics" (SBC-4), which kernels
/// before 5.19 do not show. There a real ATA disk without a rate is older than SSDs; USB and RAID
/// adapters often have no page.
fn by_rotation_rate(tree: &FileTree, device: &str, is_guest: bool) -> Option<bool> {
    let Some(page) = tree.bytes(&format!("{device}/vpd_pgb1")) else {
        let is_ata = tree.line(&format!("{device}/vendor")).as_deref() == Some("ATA");
        return (is_ata && !is_guest).then_some(true);
    };
    match u16::from_be_bytes(*page.get(4..)?.first_chunk()?) {
        // Not reported, and reserved values.
        0 | 2..=0x400 | u16::MAX => None,
        rate => Some(rate > 1),
    }
}
