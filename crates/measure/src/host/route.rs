//! The interface of the default route, and its offloads.

use std::net::UdpSocket;
use std::os::fd::AsRawFd as _;

use fathom_record::Host;

use super::HostSources;
use crate::tree::{FileTree, TreeFact, keep};

const ROUTES: &str = "/proc/net/route";
const ROUTES_V6: &str = "/proc/net/ipv6_route";
/// `RTF_UP` of linux/route.h.
const UP: u32 = 1;
/// `RTF_REJECT`: the kernel's own entry for "no route".
const REJECT: u32 = 0x200;

pub(super) fn read(sources: &HostSources, host: &mut Host) {
    keep!(host.default_route.interface, interface(&sources.tree));
    let name = host.default_route.interface.as_deref().filter(|name| *name != "none");
    let Some(name) = name.filter(|_| sources.live).map(str::to_owned) else { return };
    let fact = |request, label| {
        let on = offload(&name, request)?;
        Some(TreeFact::new(on, format!("ethtool ioctl: {label} of {name}")))
    };
    keep!(host.default_route.tso, fact(GET_TSO, "ETHTOOL_GTSO"));
    keep!(host.default_route.gso, fact(GET_GSO, "ETHTOOL_GGSO"));
    keep!(host.default_route.gro, fact(GET_GRO, "ETHTOOL_GGRO"));
}

/// The interface of the default route with the lowest metric, of IPv4 before IPv6; `none` without.
fn interface(tree: &FileTree) -> Option<TreeFact<String>> {
    let (v4, v6) = (tree.text(ROUTES), tree.text(ROUTES_V6));
    if v4.is_none() && v6.is_none() {
        return None;
    }
    let by = |text: &Option<String>, route: fn(&str) -> Option<(u32, &str)>, path| {
        let (_, name) = text.as_deref()?.lines().filter_map(route).min_by_key(|route| route.0)?;
        Some(TreeFact::new(name.to_owned(), path))
    };
    let found = by(&v4, route_v4, ROUTES).or_else(|| by(&v6, route_v6, ROUTES_V6));
    Some(found.unwrap_or_else(|| TreeFact::new("none".to_owned(), ROUTES)))
}

/// Metric and interface of a default route in `/proc/net/route`.
fn route_v4(line: &str) -> Option<(u32, &str)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [name, "00000000", _, flags, _, _, metric, "00000000", ..] = words[..] else {
        return None;
    };
    let flags = u32::from_str_radix(flags, 16).ok()?;
    Some((metric.parse().ok()?, name)).filter(|_| flags & UP != 0)
}

/// As [`route_v4`], in `/proc/net/ipv6_route`, where numbers are hexadecimal.
fn route_v6(line: &str) -> Option<(u32, &str)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [to, "00", _, _, _, metric, _, _, flags, name] = words[..] else { return None };
    let number = |hex| u32::from_str_radix(hex, 16).ok();
    let is_usable = number(flags)? & (UP | REJECT) == UP && to.bytes().all(|byte| byte == b'0');
    Some((number(metric)?, name)).filter(|_| is_usable)
}

/// linux/ethtool.h.
const GET_TSO: u32 = 0x1e;
const GET_GSO: u32 = 0x23;
const GET_GRO: u32 = 0x2b;

/// `struct ethtool_value`.
#[repr(C)]
struct RouteValue {
    command: u32,
    data: u32,
}

/// Whether an offload is on; reading needs no privilege.
fn offload(interface: &str, command: u32) -> Option<bool> {
    // Any socket will do.
    let socket = UdpSocket::bind((std::net::Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    let mut value = RouteValue { command, data: 0 };
    // SAFETY: all fields of `ifreq` are integers and pointers, for which zero is valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if interface.len() >= request.ifr_name.len() {
        return None;
    }
    let name = request.ifr_name.iter_mut().zip(interface.bytes());
    name.for_each(|(to, byte)| *to = byte as libc::c_char);
    request.ifr_ifru.ifru_data = std::ptr::from_mut(&mut value).cast();
    // SAFETY: `request` ends its name with zero, and its data points to a live `ethtool_value`.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &mut request) };
    (done == 0).then_some(value.data != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_route_with_the_lowest_metric_is_chosen() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir_all(folder.path().join("proc/net")).expect("a folder");
        let name = |v4: &str, v6: &str| {
            std::fs::write(folder.path().join("proc/net/route"), v4).expect("a file");
            std::fs::write(folder.path().join("proc/net/ipv6_route"), v6).expect("a file");
            interface(&FileTree::at(folder.path())).map(|fact| fact.value)
        };
        let head = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\n";
        let wired = "eth0\t00000000\t010200C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n";
        let wireless = wired.replace("eth0", "wlan0").replace("100", "600");
        let down = wired.replace("eth0", "tun0").replace("\t0003\t", "\t0002\t");
        let down = down.replace("\t100\t", "\t1\t");
        let local = "eth1\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n";
        let all = [head, local, &down, &wireless, wired].concat();
        assert_eq!(name(&all, "").as_deref(), Some("eth0"));
        let zero = "0".repeat(32);
        let route = |metric, flags, name| {
            format!("{zero} 00 {zero} 00 {zero} {metric} 00000001 00000000 {flags} {name}\n")
        };
        let v6 = route("ffffffff", "00200200", "lo") + &route("00000400", "00000003", "eth6");
        assert_eq!(name(&[head, local].concat(), &v6).as_deref(), Some("eth6"));
        let rejected = route("ffffffff", "00200200", "lo");
        assert_eq!(name(head, &rejected).as_deref(), Some("none"));
        assert_eq!(name("", ""), None);
    }

    #[test]
    fn offloads_of_loopback_are_read() {
        // Virtual: the kernel always allows segmentation there.
        assert_eq!(offload("lo", GET_TSO), Some(true));
        assert_eq!(offload("no-such-interface", GET_TSO), None);
        assert_eq!(offload("absent0", GET_TSO), None);
    }
}
