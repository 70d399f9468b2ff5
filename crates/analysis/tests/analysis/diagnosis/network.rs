//! Rules on the network: each fact good, at its limits, and unread.

use fathom_record::Fix;
use fathom_record::Severity::{Good, Note, Warning};
use fathom_record::host::BufferSizes;

use super::fixture::{FixtureMachine, after, finds, is_unknown, link};

#[test]
fn loopback_that_is_down_is_a_warning() {
    finds("loopback", Good, "lo is up", |_| {});
    finds("loopback", Warning, "lo is down", |m| m.host.network[1].up = Some(false));
    is_unknown("loopback", |m| m.host.network[1].up = None);
    is_unknown("loopback", |m| m.host.network.clear());
}

#[test]
fn pacing_congestion_control_is_a_note() {
    let control = |name: &str| {
        let name = Some(name.to_owned());
        move |m: &mut FixtureMachine| m.host.tcp.congestion = name
    };
    finds("tcp-congestion", Good, "cubic", |_| {});
    finds("tcp-congestion", Note, "bbr, with pacing", control("bbr"));
    finds("tcp-congestion", Note, "bbr2", control("bbr2"));
    assert_eq!(after("tcp-congestion", control("bbr")).remedy, Some(Fix::ChooseCubic));
    is_unknown("tcp-congestion", |m| m.host.tcp.congestion = None);
}

#[test]
fn smaller_socket_buffer_decides() {
    let buffers = |receive: u64, send: u64| {
        let of = |max_bytes| Some(BufferSizes { max_bytes, ..BufferSizes::default() });
        move |m: &mut FixtureMachine| {
            (m.host.tcp.receive_buffer, m.host.tcp.send_buffer) = (of(receive), of(send));
        }
    };
    let id = "socket-buffers";
    finds(id, Good, "up to 6 MiB in, 4 MiB out; rmem_max 208 KiB", |_| {});
    finds(id, Note, "4 MiB in", buffers(4 << 20, (4 << 20) - 1));
    finds(id, Note, "256 KiB in", buffers(256 << 10, 4 << 20));
    finds(id, Warning, "200 KiB out", buffers(6 << 20, 200 << 10));
    assert_eq!(after(id, buffers(0, 0)).remedy, Some(Fix::RaiseSocketBuffers));
    is_unknown(id, |m| m.host.tcp.send_buffer = None);
}

#[test]
fn accept_queue_is_rated_by_its_limit() {
    let id = "accept-queue";
    let max = |max: u32| move |m: &mut FixtureMachine| m.host.tcp.accept_queue_max = Some(max);
    finds(id, Good, "up to 4096 connections", |_| {});
    finds(id, Good, "1024", max(1024));
    finds(id, Note, "1023", max(1023));
    finds(id, Note, "128", max(128));
    finds(id, Warning, "127", max(127));
    assert_eq!(after(id, max(1)).remedy, Some(Fix::RaiseAcceptQueue));
    is_unknown(id, |m| m.host.tcp.accept_queue_max = None);
}

#[test]
fn local_ports_are_counted_and_compared_with_time_wait() {
    let ports = |first: u16, last: u16| {
        move |m: &mut FixtureMachine| m.host.tcp.ports = Some([first, last])
    };
    finds("local-ports", Good, "28232, from 32768 to 60999", |_| {});
    finds("local-ports", Good, "16384,", ports(10_001, 26_384));
    finds("local-ports", Note, "16383,", ports(10_001, 26_383));
    finds("local-ports", Note, "2048,", ports(1, 2048));
    finds("local-ports", Warning, "1, from 40000 to 40000", ports(40_000, 40_000));
    finds("local-ports", Good, "65536,", ports(0, 65_535));
    assert_eq!(after("local-ports", ports(1, 2)).remedy, Some(Fix::WidenPortRange));
    is_unknown("local-ports", |m| m.host.tcp.ports = None);

    let waiting = |count: u64| {
        move |m: &mut FixtureMachine| {
            (m.condition.time_wait, m.host.tcp.ports) = (Some(count), Some([1, 10_000]));
        }
    };
    finds("time-wait", Good, "3 sockets, 0.0 % of local ports", |_| {});
    finds("time-wait", Good, "1000 sockets, 10 %", waiting(1000));
    finds("time-wait", Note, "1001 sockets, 10 %", waiting(1001));
    finds("time-wait", Note, "5000 sockets, 50 %", waiting(5000));
    finds("time-wait", Warning, "5001 sockets, 50 %", waiting(5001));
    assert_eq!(after("time-wait", waiting(9000)).remedy, Some(Fix::WaitForTimeWait));
    is_unknown("time-wait", |m| m.condition.time_wait = None);
    is_unknown("time-wait", |m| m.host.tcp.ports = None);
}

#[test]
fn disabled_offloads_are_named() {
    finds("offloads", Good, "eth0: tso, gso, gro on", |_| {});
    let off = |m: &mut FixtureMachine| {
        let route = &mut m.host.default_route;
        (route.tso, route.gso, route.gro) = (Some(false), None, Some(false));
    };
    finds("offloads", Note, "eth0: tso, gro off", off);
    let offloads = vec!["tso".to_owned(), "gro".to_owned()];
    let fix = Fix::EnableOffloads { interface: "eth0".to_owned(), offloads };
    assert_eq!(after("offloads", off).remedy, Some(fix));
    finds("offloads", Note, "eth0: gso off; tso, gro on", |m| {
        m.host.default_route.gso = Some(false);
    });
    finds("offloads", Good, "no default route", |m| {
        m.host.default_route = fathom_record::host::DefaultRoute {
            interface: Some("none".to_owned()),
            ..Default::default()
        };
    });
    is_unknown("offloads", |m| m.host.default_route.interface = None);
    is_unknown("offloads", |m| {
        let route = &mut m.host.default_route;
        (route.tso, route.gso, route.gro) = (None, None, None);
    });
}

#[test]
fn unusual_mtu_is_a_note() {
    let main = |mtu: u32| move |m: &mut FixtureMachine| m.host.network[0] = link("eth0", mtu);
    finds("mtu", Good, "eth0 1500, lo 65536", |_| {});
    finds("mtu", Warning, "eth0 1279", main(1279));
    finds("mtu", Note, "eth0 1280", main(1280));
    finds("mtu", Note, "eth0 1499", main(1499));
    finds("mtu", Note, "eth0 1501", main(1501));
    let many = |m: &mut FixtureMachine| {
        m.host.network = (1..=9).map(|number| link(&format!("eth{number}"), 1500)).collect();
    };
    finds("mtu", Good, "eth8 1500, …", many);
    let effect = |mtu: u32| after("mtu", main(mtu)).effect;
    assert!(effect(1400).contains("tunnels"), "{}", effect(1400));
    assert!(effect(9000).contains("jumbo"), "{}", effect(9000));
    let fix = Fix::CheckPathMtu { payload_bytes: 8972 };
    assert_eq!(after("mtu", main(9000)).remedy, Some(fix));

    // The default route's interface is judged, others are compared with it.
    let beside = |mtu: u32| move |m: &mut FixtureMachine| m.host.network.push(link("tun0", mtu));
    finds("mtu", Good, "tun0 1500", beside(1500));
    finds("mtu", Note, "eth0 1500, lo 65536, tun0 1000", beside(1000));
    assert!(after("mtu", beside(1000)).effect.contains("interfaces differ"));
    finds("mtu", Good, "eth0 1500, lo 65536", |m| {
        beside(1000)(m);
        m.host.network[2].up = Some(false);
    });
    finds("mtu", Note, "lo 1500", |m| m.host.network[1] = link("lo", 1500));
    is_unknown("mtu", |m| m.host.network.clear());
    is_unknown("mtu", |m| m.host.network.iter_mut().for_each(|link| link.up = None));
}
