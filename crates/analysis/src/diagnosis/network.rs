//! The network: loopback, TCP settings, local ports, offloads, MTU.

use super::rule::{Rule, RuleOutcome, Subject, count, percent, size};
use fathom_record::diagnosis::Acceptable;
use fathom_record::host::NetworkLink;
use fathom_record::{Fix, Severity};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "loopback",
        touches: &["network.*"],
        effect: "metrics between two ends on this host are unavailable",
        check: loopback,
    },
    Rule {
        id: "tcp-congestion",
        touches: &["network.*"],
        effect: "bbr paces TCP on loopback, too: often half of cubic's throughput, or less",
        check: congestion,
    },
    Rule {
        id: "socket-buffers",
        touches: &["network.tcp.bandwidth", "network.udp.*", "file.read.remote"],
        effect: "throughput is at most one buffer per round trip",
        check: buffers,
    },
    Rule {
        id: "accept-queue",
        touches: &["network.tcp.accept", "network.tcp.connect"],
        effect: "connects beyond a full queue are dropped and repeated after 1 s",
        check: accept_queue,
    },
    Rule {
        id: "local-ports",
        touches: &["network.tcp.*"],
        effect: "fewer connects per visit: each needs a free local port",
        check: ports,
    },
    Rule {
        id: "time-wait",
        touches: &["network.tcp.*"],
        effect: "local ports are in use: connects search longer for a free one, or fail",
        check: time_wait,
    },
    Rule {
        id: "offloads",
        touches: &["network.*"],
        effect: "more packets per byte through the kernel: CPU time limits throughput earlier",
        check: offloads,
    },
    Rule {
        id: "mtu",
        touches: &["network.*"],
        effect: "segments of another size: other CPU time per byte, and another payload share",
        check: mtu,
    },
];

/// The kernel's default for sending; 1 Gbit/s up to a round trip of 34 ms.
const BUFFER_GOOD_BYTES: u64 = 4 << 20;
/// Less than a round trip of 2 ms at 1 Gbit/s.
const BUFFER_WARNING_BYTES: u64 = 256 << 10;
/// The kernel's default before 5.4; a burst of more connects at once is common under load.
const QUEUE_WARNING: u32 = 128;
/// A load of 1,000 clients connects at once.
const QUEUE_GOOD: u32 = 1024;
/// The kernel's default is 28,232.
const PORTS_GOOD: u64 = 16_384;
const PORTS_WARNING: u64 = 2_048;
/// Shares of the local ports in TIME_WAIT.
const WAITING_NOTE: f64 = 0.1;
const WAITING_WARNING: f64 = 0.5;
/// Ethernet's, and the smallest of IPv6.
const MTU_USUAL: u32 = 1500;
const MTU_IPV6_MIN: u32 = 1280;
const MTU_LOOPBACK: u32 = 65_536;
/// Headers of IPv4 and of an ICMP echo.
const ECHO_HEADERS: u32 = 28;

const LOOPBACK: &str = "lo";
const LINKS: &str = "/sys/class/net";
const PORTS: &str = "/proc/sys/net/ipv4/ip_local_port_range";

fn loopback(subject: &Subject<'_>) -> RuleOutcome {
    let network = &subject.host.network;
    let link = network.iter().find(|link| link.name == LOOPBACK);
    let outcome = match link {
        None if network.is_empty() => {
            return RuleOutcome::unknown("loopback interface", subject.unread(LINKS));
        }
        None => return RuleOutcome::unknown("loopback interface", "no interface named lo"),
        Some(NetworkLink { up: Some(true), .. }) => RuleOutcome::good("lo is up"),
        Some(NetworkLink { up: Some(false), .. }) => {
            RuleOutcome::warning("lo is down").fix(Fix::SetLoopbackUp)
        }
        Some(_) => RuleOutcome::unknown("state of lo", "neither operstate nor carrier"),
    };
    outcome.from(subject, &["network"])
}

fn congestion(subject: &Subject<'_>) -> RuleOutcome {
    let outcome = match subject.host.tcp.congestion.as_deref() {
        None => RuleOutcome::unknown("TCP congestion control", subject.unread("/proc/sys/net")),
        Some(bbr) if bbr.starts_with("bbr") => {
            RuleOutcome::note(format!("{bbr}, with pacing")).fix(Fix::ChooseCubic)
        }
        Some(other) => RuleOutcome::good(other),
    };
    outcome.from(subject, &["tcp.congestion"])
}

fn buffers(subject: &Subject<'_>) -> RuleOutcome {
    let tcp = &subject.host.tcp;
    let (Some(receive), Some(send)) = (tcp.receive_buffer, tcp.send_buffer) else {
        let because = subject.unread("/proc/sys/net/ipv4/tcp_rmem, tcp_wmem");
        return RuleOutcome::unknown("limits of socket buffers", because);
    };
    let mut found = format!("up to {} in, {} out", size(receive.max_bytes), size(send.max_bytes));
    if let Some(limit) = tcp.receive_buffer_limit_bytes {
        found += &format!("; rmem_max {}", size(limit));
    }
    let severity = match receive.max_bytes.min(send.max_bytes) {
        bytes if bytes < BUFFER_WARNING_BYTES => Severity::Warning,
        bytes if bytes < BUFFER_GOOD_BYTES => Severity::Note,
        _ => Severity::Good,
    };
    let paths = ["tcp.receive_buffer", "tcp.send_buffer", "tcp.receive_buffer_limit_bytes"];
    RuleOutcome::found(severity, found).from(subject, &paths).fix(Fix::RaiseSocketBuffers)
}

fn accept_queue(subject: &Subject<'_>) -> RuleOutcome {
    let Some(max) = subject.host.tcp.accept_queue_max else {
        let because = subject.unread("/proc/sys/net/core/somaxconn");
        return RuleOutcome::unknown("limit of accept queues", because);
    };
    let severity = match max {
        max if max < QUEUE_WARNING => Severity::Warning,
        max if max < QUEUE_GOOD => Severity::Note,
        _ => Severity::Good,
    };
    RuleOutcome::found(
        severity,
        format!("up to {}", count(max.into(), "connection", "connections")),
    )
    .from(subject, &["tcp.accept_queue_max"])
    .fix(Fix::RaiseAcceptQueue)
}

/// The number of local ports for connects.
fn port_count(subject: &Subject<'_>) -> Option<u64> {
    let [first, last] = subject.host.tcp.ports?;
    Some(u64::from(last.saturating_sub(first)) + 1)
}

fn ports(subject: &Subject<'_>) -> RuleOutcome {
    let (Some(count), Some([first, last])) = (port_count(subject), subject.host.tcp.ports) else {
        return RuleOutcome::unknown("local ports", subject.unread(PORTS));
    };
    let severity = match count {
        count if count < PORTS_WARNING => Severity::Warning,
        count if count < PORTS_GOOD => Severity::Note,
        _ => Severity::Good,
    };
    RuleOutcome::found(severity, format!("{count}, from {first} to {last}"))
        .from(subject, &["tcp.ports"])
        .fix(Fix::WidenPortRange)
}

fn time_wait(subject: &Subject<'_>) -> RuleOutcome {
    let Some(waiting) = subject.condition.time_wait else {
        let because = subject.unread("/proc/net/sockstat");
        return RuleOutcome::unknown("sockets in TIME_WAIT", because);
    };
    let Some(ports) = port_count(subject) else {
        return RuleOutcome::unknown("ports in TIME_WAIT", subject.unread(PORTS));
    };
    let share = waiting as f64 / ports as f64;
    let found =
        format!("{}, {} of local ports", count(waiting, "socket", "sockets"), percent(share));
    let severity = match share {
        share if share > WAITING_WARNING => Severity::Warning,
        share if share > WAITING_NOTE => Severity::Note,
        _ => Severity::Good,
    };
    RuleOutcome::found(severity, found)
        .from(subject, &["time_wait", "tcp.ports"])
        .fix(Fix::WaitForTimeWait)
}

fn offloads(subject: &Subject<'_>) -> RuleOutcome {
    let route = &subject.host.default_route;
    let interface = match route.interface.as_deref() {
        None => {
            let because = subject.unread("/proc/net/route");
            return RuleOutcome::unknown("interface of the default route", because);
        }
        Some("none") => {
            return RuleOutcome::good("no default route")
                .from(subject, &["default_route.interface"]);
        }
        Some(interface) => interface,
    };
    let all = [("tso", route.tso), ("gso", route.gso), ("gro", route.gro)];
    let in_state = |wanted: bool| -> Vec<String> {
        let names = all.iter().filter(|(_, state)| *state == Some(wanted));
        names.map(|(name, _)| (*name).to_owned()).collect()
    };
    let (on, off) = (in_state(true), in_state(false));
    if on.is_empty() && off.is_empty() {
        let what = format!("offloads of {interface}");
        return RuleOutcome::unknown(&what, "ethtool ioctl fails");
    }
    let listed = |names: &[String], state| match names {
        [] => None,
        names => Some(format!("{} {state}", names.join(", "))),
    };
    let states: Vec<String> =
        [listed(&off, "off"), listed(&on, "on")].into_iter().flatten().collect();
    let found = format!("{interface}: {}", states.join("; "));
    let outcome = match off.is_empty() {
        true => RuleOutcome::good(found),
        false => RuleOutcome::note(found)
            .fix(Fix::EnableOffloads { interface: interface.to_owned(), offloads: off }),
    };
    let paths = ["interface", "tso", "gso", "gro"].map(|name| format!("default_route.{name}"));
    outcome.from(subject, &paths.each_ref().map(String::as_str))
}

/// Interfaces that are up, with their MTU.
fn mtus<'a>(subject: &Subject<'a>) -> Vec<(&'a str, u32)> {
    let up = subject.host.network.iter().filter(|link| link.up == Some(true));
    up.filter_map(|link| Some((link.name.as_str(), link.mtu_bytes?))).collect()
}

/// An interface's name, up to eight of them.
fn listed_mtus(links: &[(&str, u32)]) -> String {
    let more = if links.len() > 8 { ", …" } else { "" };
    let each = links.iter().take(8).map(|(name, mtu)| format!("{name} {mtu}"));
    each.collect::<Vec<_>>().join(", ") + more
}

fn mtu(subject: &Subject<'_>) -> RuleOutcome {
    let links = mtus(subject);
    if links.is_empty() {
        let because = match subject.host.network.is_empty() {
            true => subject.unread(LINKS),
            false => "no interface is up".to_owned(),
        };
        return RuleOutcome::unknown("MTU of interfaces", because);
    }
    let found = listed_mtus(&links);
    let (own, others): (Vec<_>, Vec<_>) = links.iter().partition(|(name, _)| *name == LOOPBACK);
    let default = subject.host.default_route.interface.as_deref();
    let main = others.iter().find(|(name, _)| Some(*name) == default);
    let smallest = main.or_else(|| others.iter().min_by_key(|(_, mtu)| mtu));
    let path = |mtu: u32| Fix::CheckPathMtu { payload_bytes: mtu.saturating_sub(ECHO_HEADERS) };
    let is_mixed = others.windows(2).any(|pair| pair[0].1 != pair[1].1);
    let outcome = match smallest {
        Some((name, mtu)) if *mtu < MTU_IPV6_MIN => RuleOutcome::warning(found)
            .effect(format!("{name} is too small for IPv6, and needs more packets per byte"))
            .fix(path(*mtu)),
        Some((name, mtu)) if *mtu > MTU_USUAL => RuleOutcome::note(found)
            .effect(format!("{name} has jumbo frames: a path without them loses large packets"))
            .fix(path(*mtu)),
        Some((name, mtu)) if *mtu < MTU_USUAL => RuleOutcome::note(found)
            .effect(format!("{name} has less than Ethernet's 1500, as in tunnels: more packets"))
            .fix(path(*mtu)),
        _ if is_mixed => RuleOutcome::note(found)
            .effect("interfaces differ: packets forwarded between them are split or lost")
            .nothing_to_do(Acceptable::Setting),
        _ if own.iter().any(|(_, mtu)| *mtu != MTU_LOOPBACK) => RuleOutcome::note(found)
            .effect("loopback has another MTU than usual: throughput there is not comparable")
            .fix(Fix::SetLoopbackMtu),
        _ => RuleOutcome::good(found),
    };
    outcome.from(subject, &["network"])
}
