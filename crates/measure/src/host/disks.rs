//! Block devices.
//!
//! Omitted: `loop`, `ram` and `zram`, which are files and memory; devices of size 0, such as empty
//! drives and unconnected `nbd`s; hidden paths of multipath devices; and partitions, which share
//! the facts of their disk. `dm-*` and `md*` are included, because files may be on them.

use fathom_record::Host;
use fathom_record::host::Disk;

use super::tree::{Fact, Tree, bracketed, flag, keep};

const FOLDER: &str = "/sys/block";

/// The unit of `size` for all devices (Documentation/ABI/stable/sysfs-block).
const SIZE_UNIT_BYTES: u64 = 512;

pub(super) fn read(tree: &Tree, host: &mut Host) {
    let disks: Vec<Disk> =
        tree.names(FOLDER).into_iter().filter_map(|name| disk(tree, name)).collect();
    keep!(host.disks, Fact::unless_empty(disks, format!("{FOLDER}/*")));
}

fn disk(tree: &Tree, name: String) -> Option<Disk> {
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
        rotational: queue("rotational").and_then(|text| flag(&text)),
        logical_sector_bytes: queue("logical_block_size").and_then(|text| text.parse().ok()),
        physical_sector_bytes: queue("physical_block_size").and_then(|text| text.parse().ok()),
        scheduler: queue("scheduler").and_then(|text| bracketed(&text)),
        name,
    })
}
