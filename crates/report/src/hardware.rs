//! The parts of a machine besides its processor and memory: caches, disks, bus links, network
//! interfaces, each in a line.

use fathom_record::Host;
use fathom_record::host::{BusLink, Cache, Disk, MemoryModule, NetworkLink};
use fathom_record::quantity::{binary_size, quantity};

use crate::wrap::{clean, glued};
use fathom_record::Unit;

/// Labels and texts of what is known.
pub(crate) fn hardware(host: &Host) -> Vec<(&'static str, String)> {
    // Interfaces without a driver or speed are virtual.
    let cards = host.network.iter().filter(|it| it.driver.is_some() || it.bits_per_s.is_some());
    let nodes = host.cpu.numa_distances.iter().filter(|(_, distances)| distances.len() > 1);
    let lines = [
        ("caches", host.cpu.caches.iter().map(cache).collect::<Vec<String>>().join(", ")),
        ("modules", host.memory.modules.iter().map(module).collect::<Vec<String>>().join("; ")),
        ("nodes", nodes.map(node).collect::<Vec<String>>().join("; ")),
        ("isolated", isolated(host)),
        ("disks", host.disks.iter().map(disk).collect::<Vec<String>>().join("; ")),
        ("links", host.links.iter().map(link).collect::<Vec<String>>().join("; ")),
        ("network", cards.map(card).collect::<Vec<String>>().join("; ")),
    ];
    lines.into_iter().filter(|(_, words)| !words.is_empty()).collect()
}

fn size(bytes: u64) -> String {
    glued(&quantity(bytes as f64, Unit::Bytes))
}

/// `8 GT/s`.
fn transfers(per_s: f64, prefix: &str, scale: f64) -> String {
    glued(&format!("{} {prefix}T/s", (10.0 * per_s / scale).round() / 10.0))
}

fn cache(cache: &Cache) -> String {
    let bytes = binary_size(i64::try_from(cache.size_bytes).unwrap_or(i64::MAX));
    format!("L{} {} {}", cache.level, clean(&cache.kind), glued(&bytes))
}

fn module(module: &MemoryModule) -> String {
    let mut words = format!("{}: {}", clean(&module.slot), size(module.size_bytes));
    words += &module.kind.as_ref().map_or(String::new(), |kind| format!(", {}", clean(kind)));
    let rate = module.transfers_per_s.map(|rate| transfers(rate, "M", 1e6));
    words + &rate.map_or(String::new(), |rate| format!(", {rate}"))
}

/// `node 0: distances 10 21`.
fn node((node, distances): (&u32, &Vec<u32>)) -> String {
    let distances: Vec<String> = distances.iter().map(u32::to_string).collect();
    format!("node {node}: distances {}", distances.join(" "))
}

/// `isolcpus 2, 3; nohz_full 2, 3`.
fn isolated(host: &Host) -> String {
    let of = |name: &str, cpus: &Option<Vec<u32>>| {
        let cpus: Vec<String> = cpus.iter().flatten().map(u32::to_string).collect();
        (!cpus.is_empty()).then(|| format!("{name} {}", cpus.join(", ")))
    };
    let both = [of("isolcpus", &host.cpu.isolated), of("nohz_full", &host.cpu.nohz_full)];
    both.into_iter().flatten().collect::<Vec<String>>().join("; ")
}

/// `sda (Model): 931.5 GiB, rotational, removable, sectors 512/4096 B, mq-deadline`.
fn disk(disk: &Disk) -> String {
    let model = disk.model.as_ref().map_or(String::new(), |it| format!(" ({})", clean(it.trim())));
    let mut parts = vec![format!("{}{model}: {}", clean(&disk.name), size(disk.size_bytes))];
    parts.extend(match (disk.rotational, &disk.driver) {
        (Some(true), _) => Some("rotational".to_owned()),
        (Some(false), _) => Some("not rotational".to_owned()),
        (None, Some(driver)) => Some(format!("medium not reported ({})", clean(driver))),
        (None, None) => None,
    });
    parts.extend((disk.removable == Some(true)).then(|| "removable".to_owned()));
    let sectors = disk.logical_sector_bytes.zip(disk.physical_sector_bytes);
    parts.extend(
        sectors.map(|(logical, physical)| glued(&format!("sectors {logical}/{physical} B"))),
    );
    parts.extend(disk.scheduler.as_ref().map(|it| clean(it)));
    parts.join(", ")
}

/// `0000:01:00.0 (disk): 8 GT/s × 4, at most 16 GT/s × 4`.
fn link(link: &BusLink) -> String {
    let speed = |per_s: Option<f64>, lanes: Option<u32>| {
        let per_s = transfers(per_s?, "G", 1e9);
        Some(lanes.map_or(per_s.clone(), |lanes| glued(&format!("{per_s} × {lanes}"))))
    };
    let now = speed(link.transfers_per_s, link.lanes);
    let most =
        speed(link.transfers_per_s_max, link.lanes_max).filter(|it| Some(it) != now.as_ref());
    let most = most.map_or(String::new(), |it| format!(", at most {it}"));
    let now = now.unwrap_or_else(|| "unknown speed".to_owned());
    format!("{} ({}): {now}{most}", clean(&link.name), clean(&link.kind))
}

/// `eth0 (virtio_net): unknown speed, MTU 1500`.
fn card(card: &NetworkLink) -> String {
    let driver = card.driver.as_ref().map_or(String::new(), |it| format!(" ({})", clean(it)));
    let speed = match card.bits_per_s {
        Some(bits) if bits >= 1_000_000_000 => format!("{} Gbit/s", bits as f64 / 1e9),
        Some(bits) => format!("{} Mbit/s", bits as f64 / 1e6),
        None => "unknown speed".to_owned(),
    };
    let mut parts = vec![format!("{}{driver}: {}", clean(&card.name), glued(&speed))];
    parts.extend(card.mtu_bytes.map(|bytes| glued(&format!("MTU {bytes}"))));
    parts.extend((card.up == Some(false)).then(|| "down".to_owned()));
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_named_with_its_speed() {
        let mut host = Host::default();
        assert_eq!(hardware(&host), []);
        host.disks = vec![Disk {
            name: "nvme0n1".to_owned(),
            model: Some("Model 980 ".to_owned()),
            size_bytes: 1 << 40,
            rotational: Some(false),
            ..Disk::default()
        }];
        host.disks.push(Disk {
            name: "vda".to_owned(),
            size_bytes: 1 << 30,
            driver: Some("virtio_blk".to_owned()),
            removable: Some(true),
            logical_sector_bytes: Some(512),
            physical_sector_bytes: Some(4096),
            ..Disk::default()
        });
        host.cpu.numa_distances = [(0, vec![10, 21]), (1, vec![21, 10])].into();
        (host.cpu.isolated, host.cpu.nohz_full) = (Some(vec![2, 3]), Some(Vec::new()));
        host.links = vec![BusLink {
            name: "0000:01:00.0".to_owned(),
            kind: "disk".to_owned(),
            transfers_per_s: Some(8e9),
            lanes: Some(4),
            transfers_per_s_max: Some(16e9),
            lanes_max: Some(4),
        }];
        let card = |name: &str, driver: Option<&str>, bits_per_s| NetworkLink {
            name: name.to_owned(),
            driver: driver.map(str::to_owned),
            bits_per_s,
            mtu_bytes: Some(1500),
            up: Some(true),
            queue_packets: None,
        };
        host.network = vec![
            card("eth0", Some("igb"), Some(2_500_000_000)),
            card("eth1", Some("virtio_net"), None),
            card("veth9", None, None),
        ];
        let lines = hardware(&host);
        let lines: Vec<String> =
            lines.iter().map(|(label, words)| format!("{label} {}", unglued(words))).collect();
        assert_eq!(
            lines,
            [
                "nodes node 0: distances 10 21; node 1: distances 21 10",
                "isolated isolcpus 2, 3",
                "disks nvme0n1 (Model 980): 1 TiB, not rotational; vda: 1 GiB, medium not \
             reported (virtio_blk), removable, sectors 512/4096 B",
                "links 0000:01:00.0 (disk): 8 GT/s × 4, at most 16 GT/s × 4",
                "network eth0 (igb): 2.5 Gbit/s, MTU 1500; eth1 (virtio_net): unknown speed, MTU \
             1500",
            ]
        );
    }

    fn unglued(words: &str) -> String {
        words.replace(crate::wrap::GLUE, " ")
    }
}
