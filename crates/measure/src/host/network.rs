//! Network interfaces and TCP settings of the network namespace of this process.

use std::str::FromStr;

use fathom_record::Host;
use fathom_record::host::{BufferSizes, NetworkLink};

use crate::tree::{FileTree, TreeFact, driver, flag, keep};

pub(super) const FOLDER: &str = "/sys/class/net";

pub(super) fn read(tree: &FileTree, host: &mut Host) {
    let links: Vec<NetworkLink> =
        tree.names(FOLDER).into_iter().filter_map(|name| link(tree, name)).collect();
    keep!(host.network, TreeFact::unless_empty(links, format!("{FOLDER}/*")));
    tcp(tree, host);
}

fn tcp(tree: &FileTree, host: &mut Host) {
    let ipv4 = |name: &str| format!("/proc/sys/net/ipv4/{name}");
    let core = |name: &str| format!("/proc/sys/net/core/{name}");
    let words = |text: &str| Some(text.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    keep!(host.tcp.congestion, tree.fact(&ipv4("tcp_congestion_control")));
    let available = tree.value(&ipv4("tcp_available_congestion_control"), words);
    keep!(host.tcp.congestion_available, available);
    keep!(host.tcp.queue_discipline, tree.fact(&core("default_qdisc")));
    keep!(host.tcp.receive_buffer, tree.value(&ipv4("tcp_rmem"), buffer));
    keep!(host.tcp.send_buffer, tree.value(&ipv4("tcp_wmem"), buffer));
    keep!(host.tcp.receive_buffer_limit_bytes, tree.number::<u64>(&core("rmem_max")));
    keep!(host.tcp.send_buffer_limit_bytes, tree.number::<u64>(&core("wmem_max")));
    keep!(host.tcp.ports, tree.value(&ipv4("ip_local_port_range"), numbers));
    keep!(host.tcp.time_wait_reuse, tree.number::<u32>(&ipv4("tcp_tw_reuse")));
    keep!(host.tcp.slow_start_after_idle, tree.value(&ipv4("tcp_slow_start_after_idle"), flag));
    keep!(host.tcp.accept_queue_max, tree.number::<u32>(&core("somaxconn")));
}

/// Exactly `N` numbers in ascending order.
fn numbers<T: FromStr + Ord, const N: usize>(text: &str) -> Option<[T; N]> {
    let numbers = text.split_whitespace().map(|word| word.parse().ok());
    let numbers: [T; N] = numbers.collect::<Option<Vec<T>>>()?.try_into().ok()?;
    numbers.is_sorted().then_some(numbers)
}

fn buffer(text: &str) -> Option<BufferSizes> {
    let [min_bytes, default_bytes, max_bytes] = numbers(text)?;
    Some(BufferSizes { min_bytes, default_bytes, max_bytes })
}

fn link(tree: &FileTree, name: String) -> Option<NetworkLink> {
    let folder = format!("{FOLDER}/{name}");
    // The folder has other files, too, such as `bonding_masters`.
    if !tree.exists(&format!("{folder}/mtu")) {
        return None;
    }
    // In Mbit/s; -1, 0 or an error without a link. Interfaces without a device have a constant of
    // their driver (veth 10 Gbit/s, tun 10 Mbit/s), or that of others (bridge, bond, VLAN).
    let device = format!("{folder}/device");
    let speed = tree.exists(&device).then(|| tree.parsed::<u64>(&format!("{folder}/speed")));
    let speed = speed.flatten().filter(|&speed| speed > 0);
    Some(NetworkLink {
        driver: driver(tree, &device),
        // Some drivers print -1 as unsigned.
        bits_per_s: speed
            .filter(|&speed| speed != u64::from(u32::MAX))
            .and_then(|speed| speed.checked_mul(1_000_000)),
        mtu_bytes: tree.parsed(&format!("{folder}/mtu")),
        queue_packets: tree.parsed(&format!("{folder}/tx_queue_len")),
        up: up(tree, &folder),
        name,
    })
}

/// The operational state, or the carrier if the state is unknown, as for many virtual interfaces.
fn up(tree: &FileTree, folder: &str) -> Option<bool> {
    match tree.line(&format!("{folder}/operstate"))?.as_str() {
        "up" => Some(true),
        "unknown" => tree.line(&format!("{folder}/carrier")).and_then(|text| flag(&text)),
        "down" | "lowerlayerdown" | "dormant" | "notpresent" | "testing" => Some(false),
        _ => None,
    }
}
