//! Facts in which a host differs, and groups by hardware.

use fathom_analysis::fleet::OddFact;
use fathom_record::host::{MemoryModule, NetworkLink};
use fathom_record::{Document, Host};

use super::synthetic::{fleet, group, judged};

const GIB: u64 = 1 << 30;

fn module(slot: usize, size: u64, rate: f64) -> MemoryModule {
    MemoryModule {
        slot: slot.to_string(),
        size_bytes: size,
        kind: Some("DDR5".to_owned()),
        transfers_per_s: Some(rate * 1e6),
    }
}

/// Servers with eight modules and two links each. What the kernel reserves differs.
fn servers(hosts: usize) -> Vec<Document> {
    let mut fleet = fleet(hosts, |_| Vec::new());
    for (at, run) in fleet.iter_mut().enumerate() {
        let host = &mut run.host;
        host.memory.total_bytes = Some(250 * GIB + at as u64 * (GIB >> 5));
        host.memory.modules = (0..8).map(|slot| module(slot, 32 * GIB, 4800.0)).collect();
        let link = NetworkLink {
            driver: Some("mlx5_core".to_owned()),
            bits_per_s: Some(25_000_000_000),
            up: Some(true),
            ..NetworkLink::default()
        };
        host.network = vec![link.clone(), link];
    }
    fleet
}

fn changed(at: usize, change: impl Fn(&mut Host)) -> Vec<Document> {
    let mut fleet = servers(20);
    change(&mut fleet[at].host);
    fleet
}

fn fact(fact: &str, value: &str, usual: &str) -> OddFact {
    let [fact, value, usual] = [fact, value, usual].map(str::to_owned);
    OddFact { fact, value, usual, hosts: 19, of: 20 }
}

#[test]
fn settings_of_memory_network_and_disk_are_facts() {
    let container = |host: &mut Host| {
        let link = |name: &str, mtu: u32| NetworkLink {
            name: name.to_owned(),
            mtu_bytes: Some(mtu),
            queue_packets: Some(1000),
            up: Some(true),
            ..NetworkLink::default()
        };
        host.network = vec![link("lo", 65_536), link("eth0", 1500)];
        host.memory.swappiness = Some(60);
        host.memory.dirty.percent = Some(20);
        host.memory.dirty.background_percent = Some(10);
        host.data_disk.scheduler = Some("none".to_owned());
        host.data_disk.read_ahead_bytes = Some(128 << 10);
    };
    type Change = fn(&mut Host);
    let changes: [(&str, &str, &str, Change); 6] = [
        ("swappiness", "10", "60", |host| host.memory.swappiness = Some(10)),
        ("dirty limits", "1 GiB, in the background 10 %", "20 %, in the background 10 %", |host| {
            host.memory.dirty.bytes = Some(1 << 30);
        }),
        ("MTU", "lo: 65536, eth0: 1400", "lo: 65536, eth0: 1500", |host| {
            host.network[1].mtu_bytes = Some(1400);
        }),
        ("transmit queue", "lo: 1000, eth0: 50", "lo: 1000, eth0: 1000", |host| {
            host.network[1].queue_packets = Some(50);
        }),
        ("scheduler of the data disk", "bfq", "none", |host| {
            host.data_disk.scheduler = Some("bfq".to_owned());
        }),
        ("read-ahead of the data disk", "0 B", "128 KiB", |host| {
            host.data_disk.read_ahead_bytes = Some(0);
        }),
    ];
    for (name, value, usual, change) in changes {
        let mut fleet = servers(20);
        fleet.iter_mut().for_each(|run| container(&mut run.host));
        assert!(group(&fleet).odd.is_empty());
        change(&mut fleet[7].host);
        let odd = group(&fleet).odd;
        assert_eq!((odd.len(), odd[0].host.as_str()), (1, "node8"), "{name}");
        assert_eq!(odd[0].facts, [fact(name, value, usual)]);
    }
    // Beside a device, a virtual link counts only if it carries the route.
    let mut fleet = servers(20);
    let veth =
        NetworkLink { name: "veth1f".to_owned(), mtu_bytes: Some(1400), ..NetworkLink::default() };
    fleet[7].host.network.push(veth);
    assert!(group(&fleet).odd.is_empty());
    for run in &mut fleet {
        run.host.default_route.interface = Some("veth1f".to_owned());
        if run.host.name != "node8" {
            let veth = NetworkLink {
                name: "veth1f".to_owned(),
                mtu_bytes: Some(1500),
                ..NetworkLink::default()
            };
            run.host.network.push(veth);
        }
    }
    assert_eq!(group(&fleet).odd[0].facts, [fact("MTU", "veth1f: 1400", "veth1f: 1500")]);
}

#[test]
fn fact_of_one_host_is_odd_with_both_values() {
    let mut fleet = servers(20);
    for run in &mut fleet {
        run.host.cpu.governor = Some("performance".to_owned());
        run.host.cpu.smt = Some(true);
        run.host.cpu.boost = None;
        run.host.tcp.congestion = Some("cubic".to_owned());
    }
    assert!(group(&fleet).odd.is_empty());
    let host = &mut fleet[4].host;
    host.cpu.governor = Some("powersave".to_owned());
    host.cpu.smt = Some(false);
    host.tcp.congestion = None;
    // Of the others it is not known whether boost is on.
    host.cpu.boost = Some(false);
    let group = group(&fleet);
    assert_eq!((group.odd.len(), group.odd[0].host.as_str()), (1, "node5"));
    let expected = [fact("SMT", "off", "on"), fact("governor", "powersave", "performance")];
    assert_eq!(group.odd[0].facts, expected);
    assert!(group.odd[0].numbers.is_empty());
}

#[test]
fn facts_that_differ_everywhere_are_not_odd() {
    let mut fleet = servers(20);
    for (at, run) in fleet.iter_mut().enumerate() {
        run.host.kernel_command_line = Some(format!("root=UUID={at}"));
        run.host.kernel = if at % 4 == 0 { "6.1" } else { "6.8" }.to_owned();
    }
    assert!(group(&fleet).odd.is_empty(), "three quarters are no 80 %");
    for (at, run) in fleet.iter_mut().enumerate() {
        run.host.kernel = if at % 5 == 0 { "6.1" } else { "6.8" }.to_owned();
    }
    assert_eq!(group(&fleet).odd.len(), 4, "80 % are");
}

#[test]
fn slow_modules_and_links_are_odd() {
    let slow = changed(4, |host| {
        host.memory.modules.iter_mut().for_each(|it| it.transfers_per_s = Some(2.933e9));
        host.network[1].bits_per_s = Some(10_000_000_000);
        host.network[0].driver = Some("other".to_owned());
        host.mitigations.insert("meltdown".to_owned(), "Vulnerable".to_owned());
    });
    let facts = group(&slow).odd[0].facts.clone();
    let expected = [
        fact("NIC driver", "1 × mlx5_core, 1 × other", "2 × mlx5_core"),
        fact("link speed", "1 × 10 Gbit/s, 1 × 25 Gbit/s", "2 × 25 Gbit/s"),
        fact("memory speed", "8 × 2933 MT/s", "8 × 4800 MT/s"),
    ];
    assert!(expected.iter().all(|one| facts.contains(one)), "{facts:#?}");
}

#[test]
fn host_with_missing_modules_keeps_the_facts_of_its_kind() {
    let half = changed(4, |host| {
        host.memory.modules.truncate(4);
        host.memory.total_bytes = Some(125 * GIB);
    });
    let judgement = judged(&half);
    let sizes: Vec<usize> = judgement.groups.iter().map(|it| it.hosts.len()).collect();
    assert_eq!(sizes, [19, 1]);
    let alone = &judgement.groups[1];
    assert_eq!(alone.not_judged[0].reason, "1 host: at least 5 are needed");
    let facts = &alone.odd[0].facts;
    let modules = facts.iter().find(|it| it.fact == "memory modules").unwrap();
    assert_eq!(
        (modules.value.as_str(), modules.usual.as_str()),
        ("4 × 32 GiB DDR5", "8 × 32 GiB DDR5")
    );
    assert_eq!((modules.hosts, modules.of), (19, 19));
    // Another CPU is no kin.
    let mut other = half;
    other[4].host.cpu.model = "another".to_owned();
    assert!(judged(&other).groups[1].odd.is_empty());
}

#[test]
fn hardware_makes_groups() {
    let groups = |change: &dyn Fn(usize, &mut Host)| {
        let mut fleet = servers(20);
        fleet.iter_mut().enumerate().for_each(|(at, run)| change(at, &mut run.host));
        judged(&fleet).groups.iter().map(|it| it.hosts.len()).collect::<Vec<_>>()
    };
    assert_eq!(groups(&|_, _| {}), [20], "what kernels reserve is no difference");
    let of_first = |change: fn(&mut Host)| {
        move |at: usize, host: &mut Host| {
            if at < 8 {
                change(host)
            }
        }
    };
    assert_eq!(groups(&of_first(|host| host.cpu.model = "x".to_owned())), [12, 8]);
    assert_eq!(groups(&of_first(|host| host.virtualization = Some("none".to_owned()))), [12, 8]);
    assert_eq!(groups(&of_first(|host| host.memory.total_bytes = Some(500 * GIB))), [12, 8]);
    assert_eq!(groups(&of_first(|host| host.memory.modules.truncate(4))), [12, 8]);
    assert_eq!(groups(&of_first(|host| host.memory.modules.clear())), [20], "only root reads them");
    let shape = |smt: bool| {
        move |host: &mut Host| {
            let cpus = |node: u32| match smt {
                true => (0..8).map(|at| 8 * node + at).collect::<Vec<u32>>(),
                false => (0..4).map(|at| 8 * node + 2 * at).collect(),
            };
            host.cpu.numa = (0..2).map(|node| (node, cpus(node))).collect();
            let core = |core: u32| vec![2 * core, 2 * core + 1];
            host.cpu.siblings = if smt { (0..8).map(core).collect() } else { Vec::new() };
        }
    };
    let smt = |at: usize, host: &mut Host| shape(at < 8)(host);
    assert_eq!(groups(&smt), [20], "cores are the same with SMT on and off");
    let nodes = |at: usize, host: &mut Host| {
        shape(true)(host);
        if at < 8 {
            let all = host.cpu.numa.values().flatten().copied().collect();
            host.cpu.numa = [(0, all)].into();
        }
    };
    assert_eq!(groups(&nodes), [12, 8]);
}
