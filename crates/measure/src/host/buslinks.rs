//! PCIe links of storage, network and display devices.
//!
//! Devices without a known speed or width, as in most virtual machines, are omitted. The link is
//! that of the device: a slower link closer to the CPU is not detected.

use fathom_record::Host;
use fathom_record::host::BusLink;

use crate::tree::{FileTree, TreeFact, keep};

const FOLDER: &str = "/sys/bus/pci/devices";

/// The kernel writes 0 or 255 for an unknown number of lanes.
const LANES_MAX: u32 = 32;

pub(super) fn read(tree: &FileTree, host: &mut Host) {
    let links: Vec<BusLink> =
        tree.names(FOLDER).into_iter().filter_map(|name| link(tree, name)).collect();
    let origin = format!("{FOLDER}/*/{{current,max}}_link_{{speed,width}}");
    keep!(host.links, TreeFact::unless_empty(links, origin));
}

fn link(tree: &FileTree, name: String) -> Option<BusLink> {
    let file = |file: &str| tree.line(&format!("{FOLDER}/{name}/{file}"));
    // Base classes of the PCI Code and ID Assignment Specification.
    let kind = match file("class")?.get(..4)? {
        "0x01" => "disk",
        "0x02" => "network",
        "0x03" => "display",
        _ => return None,
    };
    let speed = |name: &str| file(name).and_then(|text| transfers_per_s(&text));
    let width = |name: &str| {
        let lanes = file(name)?.trim_start_matches('x').parse::<u32>().ok()?;
        (1..=LANES_MAX).contains(&lanes).then_some(lanes)
    };
    let link = BusLink {
        kind: kind.to_owned(),
        transfers_per_s: speed("current_link_speed"),
        lanes: width("current_link_width"),
        transfers_per_s_max: speed("max_link_speed"),
        lanes_max: width("max_link_width"),
        name: name.clone(),
    };
    (link.transfers_per_s.is_some() || link.lanes.is_some()).then_some(link)
}

/// `8.0 GT/s PCIe`; older kernels omit the last word.
fn transfers_per_s(text: &str) -> Option<f64> {
    let (digits, rest) = text.split_once(' ')?;
    let rate = digits.parse::<f64>().ok().filter(|rate| rate.is_finite() && *rate > 0.0)?;
    rest.starts_with("GT/s").then_some(rate * 1e9)
}
