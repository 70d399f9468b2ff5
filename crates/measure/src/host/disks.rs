//! Block devices.
//!
//! Left out: `loop`, `ram` and `zram`, which are files and memory; devices of size 0, which are
//! empty readers and unconnected `nbd`s; and the hidden paths of a multipath device. Partitions
//! are not listed, since they share their disk's facts; `dm-*` and `md*` are, since what is
//! measured may lie on one.

use fathom_record::Host;
use fathom_record::host::Disk;

use super::tree::{Fact, Tree, bracketed, flag, keep};

const FOLDER: &str = "/sys/block";

/// The unit of `size`, whatever the device's sectors are (Documentation/ABI/stable/sysfs-block).
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
        // Cards (MMC) have a name, and device-mapper a name it was given.
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
