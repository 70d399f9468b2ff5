//! Network interfaces, all but the loopback, which has neither a driver nor a speed to tell.

use fathom_record::Host;
use fathom_record::host::NetworkLink;

use super::tree::{Fact, Tree, after, flag, keep};

const FOLDER: &str = "/sys/class/net";

/// `ARPHRD_LOOPBACK` of `linux/if_arp.h`.
const LOOPBACK: u32 = 772;

pub(super) fn read(tree: &Tree, host: &mut Host) {
    let links: Vec<NetworkLink> =
        tree.names(FOLDER).into_iter().filter_map(|name| link(tree, name)).collect();
    keep!(host.network, Fact::unless_empty(links, format!("{FOLDER}/*")));
}

fn link(tree: &Tree, name: String) -> Option<NetworkLink> {
    let folder = format!("{FOLDER}/{name}");
    let kind = tree.parsed::<u32>(&format!("{folder}/type"));
    // Files such as `bonding_masters` lie beside the interfaces.
    if name == "lo" || kind == Some(LOOPBACK) || !tree.exists(&format!("{folder}/mtu")) {
        return None;
    }
    // The file is in Mbit/s; -1, 0 or an error where nothing was negotiated.
    let speed = tree.parsed::<u64>(&format!("{folder}/speed")).filter(|&speed| speed > 0);
    Some(NetworkLink {
        driver: driver(tree, &folder),
        // 4294967295 is the same -1, from drivers that print it unsigned.
        bits_per_s: speed
            .filter(|&speed| speed != u64::from(u32::MAX))
            .and_then(|speed| speed.checked_mul(1_000_000)),
        mtu_bytes: tree.parsed(&format!("{folder}/mtu")),
        up: up(tree, &folder),
        name,
    })
}

fn driver(tree: &Tree, folder: &str) -> Option<String> {
    let text = tree.text(&format!("{folder}/device/uevent"))?;
    let name = after(&text, "DRIVER=")?;
    (!name.is_empty()).then(|| name.to_owned())
}

/// Many virtual interfaces never tell an operating state; their carrier then decides.
fn up(tree: &Tree, folder: &str) -> Option<bool> {
    match tree.line(&format!("{folder}/operstate"))?.as_str() {
        "up" => Some(true),
        "unknown" => tree.line(&format!("{folder}/carrier")).and_then(|text| flag(&text)),
        "down" | "lowerlayerdown" | "dormant" | "notpresent" | "testing" => Some(false),
        _ => None,
    }
}
